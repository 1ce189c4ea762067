"""Incidents that were reported in public: floods, storms, herds, and the database as the cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobplaybook.api import triage
from jobplaybook.detectors.retries import attempts_per_completion
from jobplaybook.measures import attempts_per_job
from jobplaybook.verdict import Triage
from tests.canonical import NOW, Rows, ago, attempt, done, job, snapshot_of
from tests.signs import retried, series, table, vitals
from tests.situations import judged, of, waiting, worker

DAY, HOUR, MINUTE = 86_400, 3_600, 60
Answer = Callable[..., Triage]


@pytest.fixture
def answer(tmp_path: Path) -> Answer:
    """Give the verdict on a snapshot of rows."""

    def on(rows: Rows, **options: Any) -> Triage:
        with snapshot_of(tmp_path, rows, **options) as snapshot:
            return triage(snapshot)

    return on


def tables(finished: list[Any], jobs: list[Any], **more: Any) -> dict[str, Any]:
    attempts = [tried for _, tried in finished] + more.pop("attempts", [])
    return {"jobs": [*(row for row, _ in finished), *jobs], "attempts": attempts, **more}


def flowing(over: float = 6 * HOUR, *, every: float = 10, **more: Any) -> list[Any]:
    """Return jobs done at an even pace up to now."""
    return [
        done(f"d{n}", ended=every * n + 2, ran=1, wait=1, **more) for n in range(int(over / every))
    ]


# The database


def test_case_22_an_open_transaction() -> None:
    """Heroku/Que: 60,000 waiting after 1 h at 50/s, 247,311 dead rows, one open transaction.

    A mean deficit of 16.7/s is 33 % of what arrives; the transaction is the cause, not the workers.
    """
    done_in = round((50 - 60_000 / HOUR) * 900)
    told = judged(
        queues=(waiting(60_000, age=HOUR, rates=(45_000, done_in)),),
        vitals=vitals(
            table(dead=247_311, live=60_000, last_autovacuum_at=ago(9 * MINUTE)),
            age=HOUR,
            behind=50 * HOUR,
        ),
    )
    assert (told.verdict.code, told.verdict.severity.word) == ("vacuum-blocked", "page")
    assert told.verdict.since == ago(HOUR)
    assert "A transaction is open for 1 h, and 247,311 rows" in told.verdict.sentence
    assert "the transaction is the cause, not the workers" in told.verdict.sentence
    (backlog,) = of(told, "backlog-growing")
    assert backlog.evidence["net_rate"] == pytest.approx(-16.7, abs=0.05)
    assert -backlog.evidence["net_rate"] / 50 == pytest.approx(0.33, abs=0.005)


def test_case_24_more_workers_made_it_slower() -> None:
    """incident.io: 30 times the load, and more workers gave less: stop scaling, it is the claim.

    Dead rows is all that vital signs show of it; that no index serves the claim takes its plan.
    """
    crowd = tuple(worker(f"w{n}") for n in range(40))
    told = judged(
        queues=(waiting(90_000, age=126 * MINUTE, rates=(27_000, 600)),),
        workers=crowd,
        vitals=vitals(table(dead=400_000, live=90_000), age=2.0, behind=300.0),
    )
    assert (told.verdict.code, told.verdict.severity.word) == ("claim-slow", "page")
    assert "400,000 rows that are dead, beside 90,000 live ones" in told.verdict.sentence
    assert told.verdict.next[0].startswith("Do not start more workers")
    assert "does it use an index of the waiting jobs alone?" in told.verdict.next[1]
    assert "the time that one claim takes" in told.verdict.evidence["not_shown"]
    assert [f.code for f in told.findings] == ["claim-slow", "backlog-growing"]


# Retries


def test_case_38_a_sixth_fails() -> None:
    """mastodon.technology: 1.7 M processed, 280,000 failed: 16.5 %, 1.20 attempts per success.

    Against a day like the one before it is its way, and no storm; twice as many would be one.
    """
    failed, succeeded = 280_000, 1_420_000
    assert failed / (failed + succeeded) == pytest.approx(0.165, abs=0.0005)
    assert attempts_per_completion(failed, succeeded) == pytest.approx(1.20, abs=0.005)
    assert attempts_per_job(0.165, max_attempts=25) == pytest.approx(1.20, abs=0.005)
    day = {"tried": series((288, 972)), "completed": series((288, 4_930))}
    assert not of(judged(retrying=(retried(2_917, 14_790, **day),)), "retry-storm")
    rose = {"tried": series((280, 972), (8, 6_000)), "completed": series((288, 4_930))}
    (storm,) = of(judged(retrying=(retried(18_000, 14_790, **rose),)), "retry-storm")
    assert storm.evidence["usual_attempts_per_completion"] == pytest.approx(1.20, abs=0.005)
    assert storm.evidence["attempts_per_completion"] == pytest.approx(2.2, abs=0.05)


def test_case_47_enqueued_again_without_delay(answer: Answer) -> None:
    """Buildkite 2021: a job that fails at once and comes back at once, thousands of times."""
    start = 10 * MINUTE
    loop = [
        attempt(
            "hot",
            n + 1,
            "failed",
            started_at=ago(start - n * 0.5),
            ended_at=ago(start - n * 0.5 - 0.4),
        )
        for n in range(1_200)
    ]
    hot = job("hot", job_type="notify", attempts=1_200, created_at=ago(start), available_at=NOW)
    told = answer(tables(flowing(), [hot], attempts=loop))
    assert (told.verdict.code, told.verdict.severity.word) == ("retry-storm", "ticket")
    assert "1,199 times in the last 15 min: 1 job, one of them 1,199 times" in told.verdict.sentence
    assert "100% of them started within 1.0 s of the failure before: a hot loop" in (
        told.verdict.sentence
    )
    assert told.verdict.job_ids == ("hot",)
    assert told.verdict.since is not None
    assert abs(told.verdict.since - ago(start)) <= 90 * 1_000_000
    assert "give its retries a delay" in told.verdict.next[0]


@pytest.mark.parametrize(("jobs", "found"), [(400, True), (20, False)])
def test_case_31_like_a_herd_after_a_fixed_limit(answer: Answer, jobs: int, found: bool) -> None:
    """CircleCI 2021, as a herd: all that were cut off at one limit are parked for the same moment.

    Handlers outlast a new limit of 15 min, are given up together, and wake together.
    """
    begun = [ago(15 * MINUTE + 2 * n) for n in range(jobs)]
    cut = [
        job(
            f"c{n}",
            attempts=1,
            created_at=ago(HOUR),
            claimed_at=at,
            available_at=ago(-5 * MINUTE),
        )
        for n, at in enumerate(begun)
    ]
    tried = [
        attempt(f"c{n}", outcome="expired", started_at=at, ended_at=ago(1))
        for n, at in enumerate(begun)
    ]
    told = answer(tables(flowing(), cut, attempts=tried))
    assert [f.code for f in told.findings] == ["retry-herd"] * found
    if found:
        assert (told.verdict.code, told.verdict.severity.word) == ("retry-herd", "ticket")
        assert (
            "400 parked retries of queue default wake within a minute at 03:05:00Z, in 5 min"
            in (told.verdict.sentence)
        )
        assert told.verdict.evidence["claim_seconds"] >= 300


# Classes


def test_cases_12_and_13_a_flood_of_one_class(answer: Answer) -> None:
    """GitLab: one call fanned out a flood of one class: its share, its tenant, since when."""
    burst = [
        job(
            f"f{n}",
            job_type="policy_sync",
            tenant_id="t7",
            created_at=ago(20 * MINUTE - n * 0.5),
            available_at=ago(20 * MINUTE - n * 0.5),
        )
        for n in range(1_800)
    ]
    others = [job(f"o{n}", created_at=ago(n), available_at=ago(n)) for n in range(60)]
    slow = [
        done(f"s{n}", ended=10 * n + 1, ran=1, wait=600, job_type="policy_sync", tenant_id="t7")
        for n in range(60)
    ]
    told = answer(tables([*flowing(), *slow], [*burst, *others]))
    assert told.verdict.code == "class-flood"
    assert "1,800 (97%) are of type policy_sync" in told.verdict.sentence
    assert "1,800 (97%) are of tenant t7" in told.verdict.sentence
    assert "60 of others wait among them" in told.verdict.sentence
    assert told.verdict.since is not None
    assert abs(told.verdict.since - ago(20 * MINUTE)) <= 90 * 1_000_000
    assert told.verdict.severity == of(told, "backlog-growing")[0].severity


def test_case_44_a_migration_above_notifications(answer: Answer) -> None:
    """Buildkite 2022: a migration of higher priority is taken, notifications wait up to 45 min."""
    migration = [
        done(f"m{n}", ended=1.0 * n + 1, ran=1, wait=1, job_type="migrate", priority=10)
        for n in range(2_700)
    ]
    before = [
        done(f"n{n}", ended=50 * MINUTE + 10 * n, ran=1, wait=1, job_type="notify", priority=0)
        for n in range(60)
    ]
    waits = [
        job(
            f"w{n}",
            job_type="notify",
            priority=0,
            created_at=ago(45 * MINUTE - n),
            available_at=ago(45 * MINUTE - n),
        )
        for n in range(30)
    ]
    told = answer(tables([*migration, *before], waits))
    assert told.verdict.code == "starvation"
    assert "30 jobs of notify (priority 0) wait in queue default for up to 45 min" in (
        told.verdict.sentence
    )
    assert "of migrate (priority 10)" in told.verdict.sentence
    assert told.verdict.next[0].startswith("The others have a higher priority")


# What is no incident


def test_a_nightly_batch_is_noted_at_most(answer: Answer) -> None:
    """A batch planned for the night, that is worked off as every night, asks nobody to get up."""
    nights = [
        done(f"n{n}", ended=DAY - 1_200 + n * 0.5, ran=0.4, wait=n * 0.5) for n in range(2_400)
    ]
    batch = [job(f"b{n}", created_at=ago(8 * HOUR), available_at=ago(-HOUR)) for n in range(2_000)]
    told = answer(tables(nights, batch))
    assert told.verdict.code == "healthy"
    assert [(f.code, f.severity.word) for f in told.findings] == [("retry-herd", "note")]


def test_backoff_with_jitter_makes_no_herd(answer: Answer) -> None:
    """Retries that are spread over time wake no faster than they failed."""
    parked = [job(f"p{n}", attempts=2, available_at=ago(-9.0 * n - 5)) for n in range(400)]
    assert answer(tables(flowing(), parked)).findings == ()


def test_a_type_that_asks_until_it_is_ready(answer: Answer) -> None:
    """A job that retries on purpose, five times each, all day long, makes no storm."""
    finished = flowing(every=60)
    polls = [
        attempt(
            f"d{n}", 2 + k, "failed", started_at=ago(60 * n + 9 - k), ended_at=ago(60 * n + 9 - k)
        )
        for n in range(360)
        for k in range(5)
    ]
    assert answer(tables(finished, [], attempts=polls)).findings == ()
