"""Incidents that were reported in public, rebuilt as small snapshots: what triage answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobplaybook.api import triage
from jobplaybook.measures import needed_completion_rate
from jobplaybook.units import MICROS, iso
from jobplaybook.verdict import Triage
from tests.canonical import NOW, Rows, ago, attempt, done, job, known, snapshot_of
from tests.situations import judged, waiting

DAY, HOUR, MINUTE = 86_400, 3_600, 60
LEASE = {"lease_seconds": 30.0}
Answer = Callable[..., Triage]


@pytest.fixture
def answer(tmp_path: Path) -> Answer:
    """Give the verdict on a snapshot of rows."""

    def on(rows: Rows, **options: Any) -> Triage:
        with snapshot_of(tmp_path, rows, **options) as snapshot:
            return triage(snapshot)

    return on


def steady(until: float, *, every: float = 20, over: float = 4 * HOUR) -> list[Any]:
    """Return jobs done at an even pace, the last one ``until`` seconds before now."""
    count = int((over - until) / every)
    return [done(f"d{n}", ended=until + n * every, ran=2, wait=1) for n in range(count)]


def arriving(during: float, *, every: float = 20) -> list[Any]:
    """Return jobs that came at an even pace for so long, and wait."""
    return [
        job(f"a{n}", created_at=ago(n * every), available_at=ago(n * every))
        for n in range(int(during / every) + 1)
    ]


def tables(finished: list[Any], jobs: list[Any], **more: Any) -> dict[str, Any]:
    attempts = [tried for _, tried in finished]
    return {"jobs": [*(row for row, _ in finished), *jobs], "attempts": attempts, **more}


def test_case_09_consumers_in_a_restart_loop(answer: Answer) -> None:
    """GitHub 2023-08-29: arrivals > 0 and claims = 0 for 49 min; the claim path, intake is safe.

    The consumers start again and again: they beat, and hold nothing.
    """
    beating = [{"owner": f"c{n}", "heartbeat_at": ago(n), **LEASE} for n in range(8)]
    still = 49 * MINUTE
    told = answer(tables(steady(still), arriving(still), workers=beating))
    assert (told.verdict.code, told.verdict.severity.word) == ("queue-stalled", "page")
    assert told.verdict.sure
    assert "nothing was claimed or completed for 49 min" in told.verdict.sentence
    assert "Intake is safe: 46 came in the last 15 min" in told.verdict.sentence
    (queue,) = told.to_json()["queues"]
    assert (queue["arrival_rate"] > 0, queue["claim_rate"]) == (True, 0)
    assert {f.code for f in told.findings} == {"queue-stalled"}


def test_case_19_workers_inactive_after_a_deploy(answer: Answer) -> None:
    """Statuspage: intake without claims for 22 min; workers that stopped properly are not lost."""
    still = 22 * MINUTE
    gone = [{"owner": "old", "heartbeat_at": ago(still), "stopped_at": ago(still), **LEASE}]
    told = answer(tables(steady(still), arriving(still), workers=gone))
    assert {f.code for f in told.findings} == {"queue-stalled"}
    assert told.verdict.since == ago(still)
    assert told.verdict.layer == "waiting"


@pytest.mark.parametrize(
    ("due", "codes"),
    [(59, set()), (299, {"backlog-growing", "class-flood"}), (300, {"queue-stalled"})],
)
def test_case_20_a_huge_scheduled_batch(answer: Answer, due: float, codes: set[str]) -> None:
    """Hoxhunt: a batch planned long before is due and nothing completes; it took 38 h to see.

    The queue does little else, so no rate tells what was due: five minutes of silence do.
    """
    batch = [job(f"b{n}", created_at=ago(7 * DAY), available_at=ago(due)) for n in range(2_000)]
    before = [done(f"d{n}", ended=HOUR * (n + 1), wait=1) for n in range(20)]
    told = answer(tables(before, batch))
    assert {f.code for f in told.findings} == codes
    if codes == {"queue-stalled"}:
        assert (told.verdict.severity.word, told.verdict.count) == ("page", 2_000)


def test_case_21_one_dispatcher_survived(answer: Answer) -> None:
    """Stitch: three of four dispatchers are gone with what they hold; told per worker."""
    shares = {"d2": 400, "d3": 350, "d4": 250}
    held = [
        job(
            f"{owner}-{n}",
            "processing",
            owner=owner,
            claimed_at=ago(7 * MINUTE),
            locked_until=ago(5 * MINUTE),
            read_at=NOW,
        )
        for owner, count in shares.items()
        for n in range(count)
    ]
    alive = job(
        "1", "processing", owner="d1", claimed_at=ago(5), locked_until=ago(-25), read_at=NOW
    )
    beats = {"d1": 5, "d2": 330, "d3": 330, "d4": 331}
    workers = [{"owner": o, "heartbeat_at": ago(at), **LEASE} for o, at in beats.items()]
    told = answer({"jobs": [*held, alive], "workers": workers})
    found = {finding.code: finding for finding in told.findings}
    assert told.verdict.code == "lease-expired"
    assert told.verdict.count == 1_000
    assert {o["owner"]: o["jobs"] for o in told.verdict.evidence["by_owner"]} == shares
    assert found["workers-lost"].evidence["owners"] == ["d2", "d3", "d4"]
    assert found["workers-lost"].evidence["alive"] == 1
    assert "1 still beats" in found["workers-lost"].sentence


def test_case_26_three_weeks_in_work(answer: Answer) -> None:
    """procrastinate#1518: `doing` for 3 weeks, the dead worker's row gone: owner unknown."""
    history = steady(MINUTE)
    rows = tables(
        history,
        [
            job("77", "processing", claimed_at=ago(21 * DAY), attempts=1),
            job("78", "processing", owner="3", claimed_at=ago(20 * DAY), attempts=1),
            job(
                "79", "processing", owner="9", claimed_at=ago(2), locked_until=ago(-29), read_at=NOW
            ),
        ],
        workers=[{"owner": "9", "heartbeat_at": ago(1), **LEASE}],
        facts=known("error", "effects"),
    )
    rows["attempts"].append(attempt("77", started_at=ago(21 * DAY)))
    told = answer(rows, system="procrastinate")
    assert (told.verdict.code, told.verdict.severity.word) == ("phantom-running", "page")
    assert told.verdict.job_ids == ("77", "78")
    assert not told.verdict.sure
    assert told.verdict.evidence["owners"] == ["3"]
    assert told.verdict.evidence["without_owner"] == 1
    assert "the oldest for 21 d" in told.verdict.sentence
    assert "since 2026-11-10 03:00:00Z" in str(told)
    assert "known to be idempotent" in told.verdict.next[0]
    assert "lease-expired" not in {f.code for f in told.findings}


def test_case_26_started_before_its_owner(answer: Answer) -> None:
    """geolens#624: the owner's name came back with a restart; it does not vouch for the run."""
    rows = {
        "jobs": [
            job(
                "5",
                "processing",
                owner="w",
                claimed_at=ago(DAY),
                locked_until=ago(-20),
                read_at=NOW,
            ),
            job(
                "6", "processing", owner="w", claimed_at=ago(90), locked_until=ago(-20), read_at=NOW
            ),
        ],
        "workers": [{"owner": "w", "started_at": ago(HOUR), "heartbeat_at": ago(10), **LEASE}],
    }
    told = answer(rows)
    assert (told.verdict.code, told.verdict.job_ids) == ("phantom-running", ("5",))
    assert told.verdict.evidence["doubts"] == {"claimed before its owner started": 1}


def test_case_29_stalled_or_throttled(answer: Answer) -> None:
    """PostHog: age high and completions 0 is stalled; age high and a rate at its limit is not."""
    backlog = [
        job(f"w{n}", created_at=ago(32 * HOUR), available_at=ago(32 * HOUR)) for n in range(60)
    ]
    stalled = answer(tables([], [*backlog, *arriving(15 * MINUTE)]))
    assert (stalled.verdict.code, stalled.verdict.severity.word) == ("queue-stalled", "page")
    limited = [done(f"d{n}", ended=10.0 * n + 5, ran=1, wait=31 * HOUR) for n in range(180)]
    for every, code in ((5, "backlog-growing"), (30, "backlog-draining")):
        told = answer(tables(limited, [*backlog, *arriving(15 * MINUTE, every=every)]))
        (finding,) = (f for f in told.findings if f.code != "data-blind")
        assert finding.code == code
        assert "6.0/min done over 15 min" in finding.sentence


def test_case_45_a_long_job_before_a_serial_queue(answer: Answer) -> None:
    """Pusher: 14 h behind one job of the same shard; they are neither "no backlog" nor stalled."""
    rows = {
        "jobs": [
            job(
                "1",
                "processing",
                shard="all",
                owner="w",
                claimed_at=ago(14 * HOUR),
                locked_until=ago(-20),
                read_at=NOW,
            ),
            *(job(f"b{n}", shard="all", available_at=ago(13 * HOUR)) for n in range(40)),
        ],
        "workers": [{"owner": "w", "heartbeat_at": ago(10), **LEASE}],
    }
    told = answer(rows)
    assert told.to_json()["queues"][0]["state"] == "behind its shard"
    assert "40 jobs wait behind another of their shard" in told.verdict.sentence
    assert "queue-stalled" not in {f.code for f in told.findings}


def test_a_parked_head_of_a_serial_key_is_no_stand_still(answer: Answer) -> None:
    """A failed head that waits for its retry keeps its key's jobs back; no worker is to blame."""
    head = job("1", shard="customer 7", attempts=1, available_at=ago(-HOUR), created_at=ago(DAY))
    behind = [job(f"b{n}", shard="customer 7", available_at=ago(HOUR)) for n in range(30)]
    told = answer(tables(steady(HOUR), [head, *behind]))
    assert told.verdict.code == "healthy"
    assert told.to_json()["queues"][0]["due"] == 30


# The numbers of large ones, through the detectors


def test_case_01_a_poller_that_was_too_fast() -> None:
    """mikrotik-manager#114: B 752,318, L 1.7/s, M 2.71/s: it drains, and takes 8.62 days."""
    rates = (round(1.7 * 900), round(2.71 * 900))
    told = judged(queues=(waiting(752_318, age=2 * DAY, rates=rates),)).verdict
    assert (told.code, told.severity.word) == ("backlog-draining", "ticket")
    assert told.evidence["drain_seconds"] / DAY == pytest.approx(8.62, abs=0.01)
    assert "102/min in, 163/min done over 15 min: it clears in about 8 d 15 h" in told.sentence
    paused = judged(queues=(waiting(752_318, age=2 * DAY, rates=(0, rates[1])),)).verdict
    assert paused.evidence["drain_seconds"] / DAY == pytest.approx(3.21, abs=0.01)


def test_case_02_two_hours_down() -> None:
    """A Mastodon server: 2 h down at 10 % headroom take 20 h; 4 h need 1.5 times the arrivals."""
    arrivals, backlog = 6_300, 6_300 * 8
    for factor, hours in ((1.1, 20), (1.5, 4)):
        state = waiting(backlog, age=2 * HOUR, rates=(arrivals, round(arrivals * factor)))
        told = judged(queues=(state,)).verdict
        assert (told.code, told.severity.word) == ("backlog-draining", "ticket")
        assert told.evidence["drain_seconds"] == pytest.approx(hours * HOUR)
        assert f"it clears in about {hours} h at this rate" in told.sentence
    needed = needed_completion_rate(backlog, arrival_rate=arrivals / 900, by_seconds=4 * HOUR)
    assert needed / (arrivals / 900) == pytest.approx(1.5)


def test_case_14_one_dequeue_a_minute() -> None:
    """CircleCI 2015-07: one dequeue a minute never clears what comes: a page that says never."""
    told = judged(queues=(waiting(10_000, age=HOUR, rates=(900, 15)),)).verdict
    assert (told.code, told.severity.word) == ("backlog-growing", "page")
    assert "1.0/min done over 15 min: it never clears at this rate" in told.sentence
    assert told.evidence["drain_seconds"] is None


def test_case_22_an_open_transaction() -> None:
    """Heroku/Que: 60,000 waiting after 1 h at 50/s, a mean deficit of 16.7/s."""
    done_in = round((50 - 60_000 / HOUR) * 900)
    told = judged(queues=(waiting(60_000, age=HOUR, rates=(45_000, done_in)),)).verdict
    assert told.code == "backlog-growing"
    assert told.evidence["net_rate"] == pytest.approx(-16.7, abs=0.05)


# What is no incident


@pytest.mark.parametrize("hour", [1, 6, 12])
def test_quiet_hours_of_a_nightly_queue(answer: Answer, hour: int) -> None:
    """A cron queue is busy for ten minutes a night: the hours after it are not silence."""
    night = hour * HOUR
    nightly = [done(f"d{n}", ended=night + n * 0.6, ran=1, wait=1) for n in range(1_000)]
    assert answer(tables(nightly, [])).verdict.code == "healthy"
    fresh = [job(f"w{n}", available_at=ago(59), created_at=ago(59)) for n in range(20)]
    assert answer(tables(nightly, fresh)).verdict.code == "healthy"


def test_one_job_a_day(answer: Answer) -> None:
    """A queue with one job a day: taken at once it is healthy; left for five minutes, a ticket."""
    yesterday = [done("d1", ended=DAY - 60, ran=1, wait=2)]
    assert answer(tables(yesterday, [job("2", available_at=ago(59))])).verdict.code == "healthy"
    late = answer(tables(yesterday, [job("2", created_at=ago(301), available_at=ago(301))])).verdict
    assert (late.code, late.severity.word, late.sure) == ("queue-stalled", "ticket", False)


def test_all_workers_busy_with_long_jobs(answer: Answer) -> None:
    """Workers that all run for an hour claim nothing: jobs wait for them, nothing stands still."""
    long = [
        job(
            f"r{n}",
            "processing",
            owner=f"w{n}",
            created_at=ago(41 * MINUTE),
            claimed_at=ago(40 * MINUTE),
            locked_until=ago(-20),
            read_at=NOW,
        )
        for n in range(4)
    ]
    beats = [{"owner": f"w{n}", "heartbeat_at": ago(10), **LEASE} for n in range(4)]
    batch = [
        job(f"b{n}", available_at=ago(41 * MINUTE), created_at=ago(41 * MINUTE)) for n in range(9)
    ]
    told = answer(tables([], [*long, *batch], workers=beats))
    assert (told.verdict.code, told.verdict.severity.word) == ("backlog-growing", "ticket")
    assert (
        "too few came and ended to tell where it goes, 4 jobs still running"
        in told.verdict.sentence
    )


def test_one_job_left_behind(answer: Answer) -> None:
    """A job that nobody takes, while all others are taken at once, wakes nobody."""
    flowing = [done(f"d{n}", ended=5.0 * n, ran=1, wait=1) for n in range(300)]
    told = answer(tables(flowing, [job("1", created_at=ago(21 * DAY), available_at=ago(21 * DAY))]))
    assert told.verdict.severity.word in ("ticket", "note")
    assert {f.code for f in told.findings} <= {"backlog-growing", "backlog-draining"}


def test_a_redeploy_by_force(answer: Answer) -> None:
    """Killed workers that held nothing and are not missed are a note: the queue is healthy."""
    killed = [{"owner": f"old{n}", "heartbeat_at": ago(HOUR), **LEASE} for n in range(4)]
    alive = [{"owner": f"new{n}", "heartbeat_at": ago(3), **LEASE} for n in range(4)]
    told = answer(tables(steady(5), [job("1", available_at=ago(1))], workers=[*killed, *alive]))
    assert told.verdict.code == "healthy"
    assert [(f.code, f.severity.word) for f in told.findings] == [("workers-lost", "note")]


def test_clocks_ahead_accuse_nobody(answer: Answer) -> None:
    """Heartbeats and claims that lie in the future are alive: a skewed clock proves no death."""
    rows = {
        "jobs": [
            job("1", "processing", owner="w", claimed_at=ago(-HOUR), locked_until=ago(-2 * HOUR)),
        ],
        "workers": [{"owner": "w", "heartbeat_at": ago(-HOUR), **LEASE}],
    }
    told = answer(rows)
    assert {f.code for f in told.findings} == {"clock-skew"}
    assert told.to_json()["now"] == iso(NOW)


def test_a_capture_that_read_little_does_not_cry_wolf(answer: Answer) -> None:
    """Where the budget ended before the finished jobs, their absence is not taken for silence."""
    waits = [job(f"w{n}", available_at=ago(3 * HOUR)) for n in range(50)]
    told = answer(
        {"jobs": waits},
        window_from=iso(NOW - 5 * MICROS),
        not_read='{"finished": "the budget of 60 s was used up"}',
    )
    assert "queue-stalled" not in {f.code for f in told.findings}
    assert told.to_json()["queues"][0]["rate_window_seconds"] <= 5
