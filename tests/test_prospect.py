"""What a recovery and retries are reckoned from: measured first, assumed where it is said."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

import jobplaybook as jp
from jobplaybook import prospect_words as words
from jobplaybook.errors import InputError
from jobplaybook.estimates import BacklogSeen, RateSeen, backlog_fan, changed, estimate_seen
from jobplaybook.prospect import Prospect
from jobplaybook.reading import read_situation
from tests.canonical import Rows, ago, attempt, done, job, known, snapshot_of
from tests.test_plots_estimates import prospect as made
from tests.test_plots_estimates import tried_class


def seen(waiting: int = 3_600, *, into: int = 30, out: int = 60, **more: Any) -> BacklogSeen:
    return BacklogSeen(
        name="mail",
        waiting=waiting,
        arrivals=RateSeen(counts=(into,) * 60, bucket_seconds=30.0),
        left=RateSeen(counts=(out,) * 60, bucket_seconds=30.0),
        **more,
    )


def prospect_of(tmp_path: Path, rows: Rows, queue: str | None = None, **given: Any) -> Prospect:
    with snapshot_of(tmp_path, rows) as snapshot:
        return jp.read_prospect(
            snapshot, read_situation(snapshot), queue=queue, assumptions=jp.Assumptions(**given)
        )


# Rates that are asked about


def test_a_changed_rate_is_known_no_better() -> None:
    """Mean and spread grow alike: twice the rate has twice the spread, draw by draw."""
    import random

    bursty = RateSeen(counts=(0, 9, 1, 30) * 16, bucket_seconds=15.0)
    twice = RateSeen(counts=bursty.counts, bucket_seconds=15.0, factor=2.0)
    once, more = (
        rate.draws(random.Random(1), ahead_seconds=600.0, count=200) for rate in (bursty, twice)
    )
    assert more == pytest.approx([2 * each for each in once])
    assert twice.recent == 2 * bursty.recent
    assert twice.noise == pytest.approx(4 * bursty.noise)


def test_no_change_changes_nothing() -> None:
    """Factors of one give the estimate that there was."""
    assert estimate_seen(changed(seen())) == estimate_seen(seen())


@pytest.mark.parametrize(
    "wrong", [{"arrivals": 0.0}, {"completions": -1.0}, {"arrivals": math.inf}]
)
def test_factors_are_above_nothing(wrong: dict[str, float]) -> None:
    """Nothing comes, or nothing leaves, is no change of a rate."""
    with pytest.raises(InputError, match="expected factors and a limit above 0"):
        changed(seen(), **wrong)
    with pytest.raises(InputError, match="above 0"):
        changed(seen(), completions_at_most=0.0)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
    st.integers(1, 50_000), st.integers(1, 90), st.integers(20, 90), st.lists(st.floats(0, 9_999))
)
def test_the_fan_and_the_estimate_are_of_the_same_draws(
    waiting: int, into: int, out: int, parked: list[float]
) -> None:
    """Where a percentile of the jobs is none, that of the time is past; never is never."""
    backlog = seen(waiting, into=into, out=out, parked=tuple(sorted(parked)))
    fan, estimate = backlog_fan(backlog), estimate_seen(backlog)
    assert fan is not None
    assert estimate is not None
    assert fan.never_probability == estimate.never_probability
    assert fan.p50[0] == waiting + sum(at == 0 for at in parked)
    for jobs, quantile in ((fan.p5, estimate.seconds.p5), (fan.p95, estimate.seconds.p95)):
        assert quantile is not None
        for time, left in zip(fan.seconds, jobs, strict=True):
            assert left == 0 or time < quantile * 1.01 + 1e-6
    assert all(a <= b <= c for a, b, c in zip(fan.p5, fan.p50, fan.p95, strict=True))


def test_an_unknown_capacity_has_no_fan() -> None:
    """No draw, no picture."""
    assert backlog_fan(seen(why_not="it is paused")) is None


def test_a_fan_reaches_the_deadline() -> None:
    """A late deadline is inside, one far behind is not, and a fan without an end stops."""
    for by, reached in ((9_000.0, True), (90_000.0, False)):
        fan = backlog_fan(seen(), by_seconds=by)
        assert fan is not None
        assert (fan.seconds[-1] > by) == reached
    endless = backlog_fan(seen(into=90))
    assert endless is not None
    assert math.isfinite(endless.seconds[-1])


# From a snapshot


def quiet(jobs: int = 60, *, running: float = 2.0) -> dict[str, Any]:
    """Return a queue that completes what comes: a job every ten seconds, each alone."""
    rows = [done(str(n), ended=10.0 * n + 1, ran=running) for n in range(jobs)]
    return {"jobs": [row for row, _ in rows], "attempts": [tried for _, tried in rows]}


def test_where_nothing_waits_it_is_assumed_and_said(tmp_path: Path) -> None:
    """What comes in the outage, at what run times and parallel work allow."""
    found = prospect_of(tmp_path, quiet(), outage_seconds=600.0)
    assert found.measured.waiting == 0
    assert found.seen.waiting == pytest.approx(60, abs=3)
    assert found.workers == 1
    assert found.completion_rate == pytest.approx(0.5)
    nothing, capacity = found.assumed
    assert "nothing waits" in nothing
    assert "1 worker (as many as ever ran at once) at 2.0 s of work a job" in capacity
    assert str(found).startswith("Assumed: nothing waits")


def test_what_is_given_replaces_what_was_seen(tmp_path: Path) -> None:
    """Workers and a rate of completions, each in its words."""
    workers = prospect_of(tmp_path, quiet(), workers=4)
    assert workers.completion_rate == pytest.approx(2.0)
    assert "4 workers (as given)" in workers.assumed[-1]
    rate = prospect_of(tmp_path, quiet(), completion_rate=0.25)
    assert rate.completion_rate == pytest.approx(0.25)
    assert rate.assumed[-1] == "the capacity is taken as given, 15/min"


def test_a_backlog_that_stands_still_is_measured(tmp_path: Path) -> None:
    """Its jobs are counted, and only its capacity is assumed."""
    rows = quiet()
    rows["jobs"] += [job(f"w{n}", created_at=ago(5), available_at=ago(5)) for n in range(40)]
    found = prospect_of(tmp_path, rows)
    assert found.seen.waiting == found.measured.waiting == 40
    assert len(found.assumed) == 1
    assert "the capacity was not seen" in found.assumed[0]


def test_a_stall_of_hours_keeps_its_run_times(tmp_path: Path) -> None:
    """What ran before it began tells what the workers can do."""
    old = [done(str(n), ended=30_000 + 10.0 * n, ran=2.0) for n in range(60)]
    waits = [job(f"w{n}", created_at=ago(9_000), available_at=ago(9_000)) for n in range(40)]
    rows = {"jobs": [*waits, *(row for row, _ in old)], "attempts": [tried for _, tried in old]}
    found = prospect_of(tmp_path, rows)
    assert found.seen.waiting == 40
    assert found.completion_rate == pytest.approx(0.5)


def test_what_cannot_be_known_stays_unknown(tmp_path: Path) -> None:
    """Nothing ended: no run times, so no capacity, and every row says so."""
    rows = {"jobs": [job(str(n)) for n in range(40)]}
    found = prospect_of(tmp_path, rows)
    assert found.assumed == ()
    assert found.outlook().startswith("capacity unknown: ")
    assert str(found).startswith("Nothing is assumed: capacity unknown")
    cells = words.case_rows(found, words.usual_changes(found, calls_at_most=1.0))
    assert {row[1] for row in cells} == {"capacity unknown"}
    assert words.deadline_rows(found, [60.0]) == (("1 min", *("unknown",) * 5),)
    assert words.replay_rows(found, [5])[0][1] == "capacity unknown"


def test_an_unknown_queue_is_refused(tmp_path: Path) -> None:
    """With the nearest name."""
    with pytest.raises(InputError, match="default"):
        prospect_of(tmp_path, quiet(), queue="defualt")


def test_a_type_held_back_frees_its_workers(tmp_path: Path) -> None:
    """The others get its worker time, and its jobs are not in the answer."""
    rows = quiet()
    slow = [done(f"s{n}", ended=30.0 * n + 5, ran=18.0, job_type="pdf") for n in range(20)]
    rows["jobs"] += [row for row, _ in slow]
    rows["attempts"] += [tried for _, tried in slow]
    found = prospect_of(tmp_path, rows)
    assert found.heaviest == "pdf"
    kept = found.changed(jp.Change("", without="pdf"))
    assert kept.waiting == pytest.approx(found.seen.waiting * 0.75, rel=0.05)
    assert kept.left is not None
    assert kept.left.rate == pytest.approx(found.workers / 2.0)
    with pytest.raises(InputError, match="did you mean pdf"):
        found.changed(jp.Change("", without="pfd"))


def test_a_quota_counts_attempts() -> None:
    """Two attempts a job halve the jobs that a quota lets through."""
    from dataclasses import replace

    twice = replace(made(), attempts_per_job=2.0)
    under = twice.changed(jp.Change("", calls_at_most=1.0))
    assert under.left is not None
    assert under.left.recent == pytest.approx(0.5)


def test_the_rows_of_a_prospect() -> None:
    """Each answer has its range, each deadline its needs, each replay its rate."""
    plain = made()
    asis, twice, *_ = words.case_rows(plain, words.usual_changes(plain))
    assert asis == ("as it is", "2 h 2 min", asis[2], "0%", "1/s", "2/s")
    assert twice[0] == "twice the workers"
    assert twice[-1] == "4/s"
    ((late, chance, needed, *_),) = words.deadline_rows(plain, [3_600.0])
    assert (late, chance, needed) == ("1 h", "0%", "3/s")
    none, some = words.replay_rows(plain, [0, 100])
    assert none[:2] == ("0 in this snapshot", "nothing to replay")
    assert (some[0], some[1], some[3]) == ("100", "1 min 40 s", "1/s")
    (full,) = words.replay_rows(made(into=60), [9])
    assert full[1] == "never: live traffic needs it all"


# Who retries


def test_retries_of_a_snapshot(tmp_path: Path) -> None:
    """Measured per completed job, beside what failures alone make with the recorded limit."""
    rows: dict[str, Any] = quiet(40)
    for row in rows["jobs"]:
        row["max_attempts"] = 3
    rows["jobs"].append(job("x", attempts=2, available_at=ago(-90), max_attempts=3))
    rows["attempts"] += [
        attempt("x", 1, "failed", started_at=ago(99), ended_at=ago(98)),
        attempt("x", 2, "expired", started_at=ago(89), ended_at=ago(88)),
    ]
    with snapshot_of(tmp_path, {**rows, "facts": known("error")}) as snapshot:
        found = jp.read_retries(snapshot, read_situation(snapshot))
        with pytest.raises(InputError, match="default"):
            jp.read_retries(snapshot, read_situation(snapshot), queue="defualt")
    whole = found.overall
    assert (whole.firsts, whole.retries, whole.jobs, whole.completions) == (41, 1, 1, 40)
    assert whole.measured == pytest.approx(41 / 40)
    assert whole.failed_share == pytest.approx(2 / 42)
    assert whole.theory == pytest.approx(1 + 2 / 42 + (2 / 42) ** 2)
    assert [(each.attempt, each.done, each.failed) for each in found.tries] == [
        (1, 40, 1),
        (2, 0, 1),
    ]
    assert found.worst == (("x", "default", "mail", 1),)
    assert sum(waking.retries for waking in found.wakings) == 1
    assert found.not_recorded == ("errors", "upstream calls")
    assert "with at most 3 attempts a job" in str(found)
    assert found.rows[-1][:2] == ("all", "all")


@pytest.mark.parametrize(
    ("failed", "done_", "limit", "theory"),
    [(0, 0, None, None), (5, 5, None, 2.0), (5, 0, None, math.inf), (5, 0, 4, 4.0)],
)
def test_theory_without_and_with_a_limit(
    failed: int, done_: int, limit: int | None, theory: float | None
) -> None:
    """Without a limit a job is tried until it is done; with one, so often at most."""
    one = tried_class(0, done=done_, failed=failed, least_allowed=limit, most_allowed=limit)
    assert one.theory == theory
