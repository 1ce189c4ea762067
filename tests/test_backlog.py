"""The backlogs of a snapshot: what is counted, what they show of a rate, when nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import jobplaybook as jp
from jobplaybook.backlog import Backlogs, read_backlogs
from jobplaybook.errors import InputError
from jobplaybook.estimates import BacklogSeen, RateSeen
from jobplaybook.reading import read_situation
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import iso, parse_time
from tests.canonical import Rows, ago, attempt, done, job, known, snapshot_of
from tests.captures import capture
from tests.procrastinate_app import rows as rows_of
from tests.test_recordings import AFTER_KILL_AT

Opened = Callable[..., Snapshot]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Give a function that opens a snapshot of canonical rows."""
    with ExitStack() as stack:
        yield lambda rows, **meta: stack.enter_context(snapshot_of(tmp_path, rows, **meta))


def backlogs(snapshot: Snapshot, **asked: Any) -> Backlogs:
    return read_backlogs(snapshot, read_situation(snapshot, **asked))


def tables(*finished: Any, jobs: Any = (), **more: Any) -> dict[str, Any]:
    """Return rows of ``done`` jobs and whatever else there is."""
    rows = [row for row, _ in finished]
    return {"jobs": [*rows, *jobs], "attempts": [tried for _, tried in finished], **more}


def waits(name: str, seconds: float, **values: Any) -> dict[str, Any]:
    """Return a job that came so many seconds ago and has been due since."""
    return job(name, **{"created_at": ago(seconds), "available_at": ago(seconds), **values})


def worked_off(
    name: str, ends: Iterable[float], *, came: float, ran: float = 1.0, **values: Any
) -> list[Any]:
    """Return done jobs of a batch that came so long ago, by when each ended."""
    return [
        done(f"{name}{n}", ended=end, ran=ran, wait=came - end - ran, **values)
        for n, end in enumerate(ends)
    ]


def busy_queue(queue: str = "mail", *, left: int = 60, waiting: int = 40) -> dict[str, Any]:
    """Return a queue whose jobs all came at once; since then one left every ten seconds."""
    came = 10 * left + 5
    ends = worked_off(f"{queue}.", (5 + 10 * n for n in range(left)), came=came + 1, queue=queue)
    rest = [waits(f"{queue}+{n}", came + 1, queue=queue) for n in range(waiting)]
    return tables(*ends, jobs=rest)


def together(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    names = {name for part in parts for name in part}
    return {name: [row for part in parts for row in part.get(name, ())] for name in names} | more


def queue_of(found: Backlogs, name: str | None) -> BacklogSeen:
    (one,) = [seen for seen in found.queues if seen.name == name]
    return one


def total(rate: RateSeen | None) -> int:
    assert rate is not None
    return sum(rate.counts)


# Counts


def test_what_waits_what_is_parked_and_what_is_neither(opened: Opened) -> None:
    """Due jobs wait; retries and scheduled jobs are parked, each with its time; others are none."""
    seen = backlogs(
        opened(
            {
                "jobs": [
                    waits("due", 30),
                    waits("just", 0),
                    waits("retry", 500, attempts=2, available_at=ago(-40)),
                    waits("later", 10, available_at=ago(-7)),
                    waits("running", 20, status="processing", claimed_at=ago(9)),
                    waits("held", 20, status="held"),
                    waits("done", 20, status="completed", claimed_at=ago(9), finished_at=ago(8)),
                ]
            }
        )
    ).overall
    assert (seen.waiting, seen.parked) == (2, (7.0, 40.0))


def test_counts_are_as_of_the_moment_that_is_asked_for(opened: Opened) -> None:
    """Judged 20 s earlier, a job that became due 10 s ago is still parked."""
    snapshot = opened({"jobs": [waits("a", 60), waits("b", 60, available_at=ago(10))]})
    assert backlogs(snapshot).overall.waiting == 2
    earlier = backlogs(snapshot, now=ago(20)).overall
    assert (earlier.waiting, earlier.parked) == (1, (10.0,))


def test_each_queue_and_type_has_its_own(opened: Opened) -> None:
    """Parts add up to the whole; a queue and a type in which nothing waits are none."""
    found = backlogs(
        opened(
            tables(
                done("9", ended=5, queue="idle", job_type="sms"),
                jobs=[
                    waits("1", 9, queue="a", job_type="x"),
                    waits("2", 9, queue="a", job_type="y"),
                    waits("3", 9, queue=None, job_type="x"),
                    waits("4", 9, queue="b", job_type=None, available_at=ago(-5)),
                ],
            )
        )
    )
    assert [(seen.name, seen.waiting) for seen in found.queues] == [(None, 1), ("a", 2), ("b", 0)]
    assert [(seen.name, seen.waiting) for seen in found.types] == [(None, 0), ("x", 2), ("y", 1)]
    assert (found.overall.waiting, found.overall.parked) == (3, (5.0,))


# Rates


def test_arrivals_lie_in_their_buckets(opened: Opened) -> None:
    """Of an hour each minute's arrivals stand in its bucket; the first event only begins it."""
    each = [waits(f"{minute}", 60 * minute + 30) for minute in range(60) for _ in "a"]
    first = waits("first", 3_600)
    late = [waits(f"late{n}", 1 + n) for n in range(5)]
    rate = backlogs(opened({"jobs": [first, *each, *late]})).overall.arrivals
    assert rate is not None
    assert (len(rate.counts), rate.seconds) == (64, 3_600.0)
    assert (sum(rate.counts), rate.counts[-1]) == (65, 6)
    assert max(rate.counts[:-1]) == 1


def test_arrivals_of_all_states_count_and_older_ones_do_not(opened: Opened) -> None:
    """Whatever became of a job, it came; rates look two hours back and no further."""
    rows = [
        waits("old", 80_000, status="completed", claimed_at=ago(7_500), finished_at=ago(7_300)),
        waits("before", 7_300),
        waits("in", 7_100, status="cancelled", finished_at=ago(7_000)),
        waits("running", 50, status="processing", claimed_at=ago(40)),
    ]
    rate = backlogs(opened({"jobs": rows})).overall.arrivals
    assert rate is not None
    assert (total(rate), rate.seconds) == (2, 7_200.0)


def test_a_batch_that_is_all_there_ever_was_is_no_rate(opened: Opened) -> None:
    """500 jobs at once, the first of a queue: nobody knows of what came before or comes next."""
    rows = [waits(str(n), 30) for n in range(500)] + [waits("next", 10)]
    rate = backlogs(opened({"jobs": rows})).overall.arrivals
    assert rate is not None
    assert (total(rate), rate.seconds) == (1, 30.0)


def test_only_what_left_a_busy_queue_counts(opened: Opened) -> None:
    """Completed and dead jobs since something waited; none of before, and no cancelled one."""
    rows = tables(
        *(done(f"idle{n}", ended=500 + n, wait=0) for n in range(50)),
        *worked_off("busy", (1 + 8 * n for n in range(40)), came=341),
        *worked_off("dead", [3], came=300, status="dead"),
        *worked_off("gone", [4], came=300, status="cancelled"),
        jobs=[waits("w", 100)],
    )
    left = backlogs(opened(rows)).overall.left
    assert left is not None
    assert total(left) == 41
    assert left.seconds == pytest.approx(341.0)  # the first that waited came then


def test_busy_since_has_no_gap(opened: Opened) -> None:
    """A second in which nothing waited begins the count anew; a parked job fills no gap."""
    rows = tables(
        done("a", ended=290, ran=9, wait=200),  # waited until 299 s ago
        done("b", ended=200, ran=8, wait=90),  # from 298 s ago
        jobs=[waits("c", 250), waits("parked", 400, available_at=ago(-1), attempts=1)],
    )
    left = backlogs(opened(rows)).overall.left
    assert left is not None
    assert (total(left), left.seconds) == (2, 298.0)


def test_a_silence_cuts(opened: Opened) -> None:
    """Workers that stood still for ten minutes: their rate is that of the time since."""
    before = [done(f"b{n}", ended=1_000 + n, wait=2_000) for n in range(100)]
    since = [done(f"s{n}", ended=2 * n, wait=2_000) for n in range(50)]
    left = backlogs(opened(tables(*before, *since, jobs=[waits("w", 1_500)]))).overall.left
    assert left is not None
    assert (total(left), left.seconds) == (49, 98.0)
    assert left.rate == 0.5


def test_a_gap_that_is_usual_does_not_cut(opened: Opened) -> None:
    """Two jobs an hour are no silence of half an hour: the rate is that of the whole time."""
    ends = [done(f"e{n}", ended=900 + 1_800 * n, wait=9_000) for n in range(4)]
    left = backlogs(opened(tables(*ends, jobs=[waits("w", 7_000)]))).overall.left
    assert left is not None
    assert (total(left), left.seconds) == (4, 7_200.0)


def test_workers_that_came_late_are_measured_from_then(opened: Opened) -> None:
    """Half a minute of waiting before the first of fifty ends is no part of their rate."""
    ends = worked_off("e", (0.1 * n for n in range(50)), came=34.9, ran=0.05)
    left = backlogs(opened(tables(*ends, jobs=[waits("w", 34.9)]))).overall.left
    assert left is not None
    assert total(left) == 49
    assert left.rate == pytest.approx(10.0)


def test_workers_in_step_are_measured_from_their_start(opened: Opened) -> None:
    """Twenty jobs at a time, every twenty seconds: the first gap is like the others."""
    ends = worked_off("e", (20 * n for n in range(4) for _ in range(20)), came=80, ran=20)
    left = backlogs(opened(tables(*ends, jobs=[waits("w", 80)]))).overall.left
    assert left is not None
    assert (total(left), left.rate) == (80, 1.0)


def test_retries_and_their_rest(opened: Opened) -> None:
    """Attempts that another follows, since the queue is busy; the rest of those that wait."""
    rows = busy_queue()
    jobs = [
        waits("r1", 900, queue="mail", attempts=1, available_at=ago(-20)),
        waits("r2", 900, queue="mail", attempts=2, available_at=ago(-60)),
    ]
    tries = [
        attempt("r1", 1, "failed", started_at=ago(41), ended_at=ago(40)),
        attempt("r2", 1, "failed", started_at=ago(501), ended_at=ago(500)),
        attempt("r2", 2, "failed", started_at=ago(61), ended_at=ago(60)),
        attempt("old", 1, "failed", started_at=ago(1_001), ended_at=ago(1_000)),
    ]
    jobs.append(waits("old", 1_100, attempts=2, status="processing", claimed_at=ago(1_050)))
    seen = backlogs(opened(together(rows, {"jobs": jobs, "attempts": tries}))).overall
    assert (seen.retried, seen.retry_delay_seconds) == (3, 90.0)


def test_rates_end_where_the_capture_began(opened: Opened) -> None:
    """What happened while a capture read was read in part: neither rate nor backlog has it."""
    late = [waits("late", 3), *(row for row, _ in worked_off("x", [4], came=9))]
    rows = together(busy_queue(), {"jobs": late})
    seen = backlogs(opened(rows, captured_from=iso(ago(4.5)))).overall
    assert seen.left is not None
    assert (seen.waiting, seen.parked) == (40, ())
    assert total(seen.left) == 60
    assert seen.left.seconds == pytest.approx(601.5)
    assert backlogs(opened(rows)).overall.waiting == 41


# Why nothing is known


def unknown(snapshot: Snapshot, **asked: Any) -> str:
    recovery = jp.estimate_backlog(snapshot, **asked)
    assert recovery.estimate is None
    assert recovery.to_json()["seconds"] == dict.fromkeys(("mean", "p5", "p50", "p95"))
    assert recovery.to_json()["never"] is None
    return recovery.text.removeprefix("capacity unknown: ")


def test_a_paused_queue(opened: Opened) -> None:
    """It does not run: neither it nor the whole has an end."""
    rows = together(busy_queue(), queues=[{"queue": "mail", "paused_at": ago(50)}])
    assert unknown(opened(rows), queue="mail") == "it is paused"
    both = together(rows, busy_queue("other"))
    assert unknown(opened(both)) == "of queue mail: it is paused"
    recovery = jp.estimate_backlog(opened(both), queue="other")
    assert recovery.estimate is not None


def test_too_few_left(opened: Opened) -> None:
    """29 ends tell no rate, 30 do."""
    few = unknown(opened(busy_queue(left=29)))
    assert few == "only 29 jobs left while it was busy (30 say something of a rate)"
    assert jp.estimate_backlog(opened(busy_queue(left=30))).estimate is not None


@pytest.mark.parametrize("fact", ["created_at", "finished_at"])
def test_what_is_not_recorded(opened: Opened, fact: str) -> None:
    """A system that keeps no times of arrival or end shows no rate."""
    rows = {**busy_queue(), "facts": known(fact)}
    assert unknown(opened(rows)) == "the system does not record when jobs come and end"


def test_nothing_has_left_since(opened: Opened) -> None:
    """60 jobs left, then none for ten minutes: the moment stands there."""
    ends = [done(f"e{n}", ended=600 + n, wait=2_000) for n in range(60)]
    found = unknown(opened(tables(*ends, jobs=[waits("w", 1_500)])))
    assert found == "nothing has left it since 02:50:00Z, 10 min ago"


def test_jobs_that_were_not_read(opened: Opened) -> None:
    """A capture that stopped early knows no backlog, whatever it read of it."""
    snapshot = opened(busy_queue(), not_read='{"unfinished": "the budget was used up"}')
    assert unknown(snapshot) == "the unfinished jobs were not read whole"


def test_a_stuck_queue_hides_no_type_of_another(opened: Opened) -> None:
    """The whole never empties beside a paused queue; a type that is elsewhere does."""
    stuck = {"jobs": [waits("s", 900, queue="stuck", job_type="sms")]}
    rows = together(busy_queue(), stuck, queues=[{"queue": "stuck", "paused_at": ago(50)}])
    recovery = jp.estimate_backlog(opened(rows))
    assert recovery.text == "capacity unknown: of queue stuck: it is paused"
    known_of = {seen.name: estimate is not None for seen, estimate in recovery.types}
    assert known_of == {"mail": True, "sms": False}


def test_a_queue_that_keeps_up_does_not_hide_the_whole(opened: Opened) -> None:
    """One job that came two seconds ago is no backlog; one that waits for an hour is."""
    easy = tables(*(done(f"e{n}", ended=3 + 9 * n, queue="easy", wait=0) for n in range(40)))
    fresh = {"jobs": [waits("f", 2, queue="easy")]}
    assert jp.estimate_backlog(opened(together(busy_queue(), easy, fresh))).estimate is not None
    old = {"jobs": [waits("o", 3_600, queue="slow")]}
    found = unknown(opened(together(busy_queue(), easy, old)))
    assert found == "of queue slow: only 0 jobs left while it was busy (30 say something of a rate)"


def test_no_backlog_is_an_answer(opened: Opened) -> None:
    """Nothing waits: no estimate and no unknown; parked jobs are not due."""
    empty = jp.estimate_backlog(opened(tables(done("a", ended=5))))
    assert (empty.text, empty.estimate, empty.to_json()["never"]) == ("no backlog", None, False)
    parked = jp.estimate_backlog(opened({"jobs": [waits("p", 9, available_at=ago(-60))]}))
    assert (parked.text, parked.to_json()["parked"]) == ("nothing due", 1)


def test_an_unknown_queue_names_the_nearest(opened: Opened) -> None:
    """A slip of the keyboard is no empty answer; a known queue without a backlog is one."""
    snapshot = opened(together(busy_queue(), tables(done("i", ended=5, queue="idle"))))
    with pytest.raises(InputError, match="no queue 'mial': did you mean mail"):
        jp.estimate_backlog(snapshot, queue="mial")
    idle = jp.estimate_backlog(snapshot, queue="idle")
    assert (idle.text, idle.queues, idle.types) == ("no backlog", (), ())


# Against numbers that can be checked by hand


def test_the_estimate_is_of_these_numbers(opened: Opened) -> None:
    """40 jobs, 0.1/s out and nothing in: 400 s, within what sixty ends say of a rate."""
    estimate = jp.estimate_backlog(opened(busy_queue()), queue="mail").estimate
    assert estimate is not None
    assert estimate.completion_rate == pytest.approx(0.1, rel=0.1)
    assert estimate.inputs.arrival_rate == 0.0
    p5, p50, p95 = (getattr(estimate.seconds, name) for name in ("p5", "p50", "p95"))
    assert p5 < p50 < p95
    assert p50 == pytest.approx(400, rel=0.15)


def test_the_recorded_incident(recording: Callable[[str], str], tmp_path: Path) -> None:
    """`after_kill`: 5 jobs are due and 46 are not, as the tables have it; no rate is known."""
    url = recording("after_kill")
    capture(url, tmp_path / "a.db", now=parse_time(AFTER_KILL_AT))
    recovery = jp.estimate_backlog(str(tmp_path / "a.db"))
    counts = [(seen.name, seen.waiting, len(seen.parked)) for seen, _ in recovery.queues]
    due = f"coalesce(scheduled_at <= '{AFTER_KILL_AT}', true)"
    assert counts == rows_of(
        url,
        f"SELECT queue_name, count(*) FILTER (WHERE {due}), count(*) FILTER (WHERE NOT {due})"
        " FROM procrastinate_jobs WHERE status = 'todo' GROUP BY 1 ORDER BY 1",
    )
    assert (recovery.overall.waiting, len(recovery.overall.parked)) == (5, 46)
    assert recovery.estimate is None
    assert recovery.text.startswith("capacity unknown: ")


def test_the_recording_of_a_healthy_queue(recording: Callable[[str], str], tmp_path: Path) -> None:
    """`healthy`: no queue answers with a number what it never showed."""
    capture(recording("healthy"), tmp_path / "h.db")
    recovery = jp.estimate_backlog(str(tmp_path / "h.db"))
    assert recovery.text in ("no backlog", "nothing due") or recovery.text.startswith("capacity")
    assert recovery.estimate is None


def test_a_rows_order_is_no_matter(opened: Opened) -> None:
    """The same rows in another order give the same estimate, draw by draw."""
    rows: Rows = busy_queue()
    turned = {name: list(reversed(listed)) for name, listed in rows.items()}
    assert jp.estimate_backlog(opened(rows)) == jp.estimate_backlog(opened(turned))
