"""Health: age, rates with their window, what is known of capacity, and whether the data agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
from click.testing import CliRunner

import jobplaybook as jp
from jobplaybook.commands import cli
from jobplaybook.errors import InputError
from jobplaybook.measures.balance import LittleCheck, busy_share, little_check
from jobplaybook.pulse import Pulse, QueuePulse
from jobplaybook.units import iso, parse_time
from tests.canonical import Rows, ago, attempt, bare, done, job, known, snapshot_of
from tests.captures import capture
from tests.test_recordings import AFTER_KILL_AT, LEASE_OVER_AT

Read = Callable[..., Pulse]
KEYS = {
    "queue",
    "waiting",
    "oldest_claimable_age_seconds",
    "arrival_rate",
    "claim_rate",
    "completion_rate",
    "net_rate",
    "saturated",
    "utilisation",
    "headroom",
    "drain",
}


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    """Give a function that reads the health out of canonical rows."""
    with ExitStack() as stack:

        def pulse(rows: Rows, **asked: Any) -> Pulse:
            return jp.health(stack.enter_context(snapshot_of(tmp_path, rows)), **asked)

        yield pulse


def tables(*finished: Any, **more: Any) -> dict[str, Any]:
    """Return rows of ``done`` jobs and whatever else there is."""
    jobs = [row for row, _ in finished] + list(more.pop("jobs", ()))
    return {"jobs": jobs, "attempts": [tried for _, tried in finished], **more}


def only(pulse: Pulse) -> QueuePulse:
    (queue,) = pulse.queues
    return queue


# Rates and ages


def test_rates_are_those_of_their_window(read: Read) -> None:
    """Counts over the rate window, per second, and the window stands beside them."""
    pulse = read(
        tables(
            *(done(f"a{n}", ended=5 + n) for n in range(9)),
            done("late", ended=100, status="dead"),
            jobs=[job("old", created_at=ago(7_200), available_at=ago(7_200))],
        )
    )
    queue = only(pulse)
    assert (queue.arrival_rate, queue.claim_rate, queue.completion_rate) == (
        10 / 900,
        10 / 900,
        10 / 900,
    )
    assert queue.net_rate == 0
    document = pulse.to_json()
    assert (document["rates_from"], document["rates_until"]) == (iso(ago(900)), iso(ago(0)))
    assert "Rates over the 15 min before 2026-12-01T03:00:00Z" in str(pulse)


def test_a_parked_retry_has_no_age(read: Read) -> None:
    """What rests until a retry waits for its time, not for a worker, however old it is."""
    parked = job("1", attempts=3, created_at=ago(9_000), available_at=ago(-600))
    queue = only(read({"jobs": [parked]}))
    assert (queue.waiting, queue.claimable, queue.oldest_claimable_age_seconds) == (1, 0, None)
    assert (queue.state, queue.drain["text"]) == ("nothing due", "nothing due")
    both = only(read({"jobs": [parked, job("2", available_at=ago(7))]}))
    assert (both.claimable, both.oldest_claimable_age_seconds) == (1, 7.0)


def test_what_is_not_recorded_is_no_rate(read: Read) -> None:
    """Where a system keeps no times, rates are unknown, not zero."""
    rows = {"jobs": [bare("1"), bare("2", "completed")]}
    facts = known("created_at", "claimed_at", "attempt_times", "finished_at")
    queue = only(read({**rows, "facts": facts}))
    assert (queue.arrival_rate, queue.claim_rate, queue.completion_rate) == (None, None, None)
    assert (queue.net_rate, queue.saturated, queue.headroom) == (None, False, None)
    assert "does not record when jobs end" in queue.capacity
    assert "-" in str(read({**rows, "facts": facts})).splitlines()[1].split()


# Capacity


def backlog(arrivals: int, ends: int, waiting: int, queue: str = "mail") -> dict[str, Any]:
    """Return a queue in which something waited for a worker in the whole rate window.

    In it ``arrivals`` jobs came and ``ends`` ended; ``waiting`` wait, the oldest for 1,000 s.
    """
    step = 900 / max(ends, 1)
    finished = [
        done(f"{queue}{n}", ended=step * n, ran=0.1, wait=5_000, queue=queue) for n in range(ends)
    ]
    came = [
        job(f"{queue}+{n}", queue=queue, created_at=ago(800), available_at=ago(800))
        for n in range(arrivals)
    ]
    before = [
        job(f"{queue}-{n}", queue=queue, created_at=ago(1_000), available_at=ago(1_000))
        for n in range(waiting - arrivals)
    ]
    return tables(*finished, jobs=[*came, *before])


def test_a_saturated_queue_shows_its_limit(read: Read) -> None:
    """Something always waited: what ended is the capacity, and the backlog has an end."""
    queue = only(read(backlog(90, 180, 100)))
    assert (queue.busy_share, queue.saturated) == (1.0, True)
    assert (queue.arrival_rate, queue.completion_rate) == (0.1, 0.2)
    assert (queue.utilisation, queue.headroom) == (0.5, 1.0)
    assert queue.drain["never"] is False
    assert queue.drain["net_rate"] == pytest.approx(0.1, rel=0.03)
    assert queue.drain["seconds"]["p5"] < 100 / 0.1 < queue.drain["seconds"]["p95"]
    assert queue.capacity == "About 12/min, its limit: 6.0/min more than comes."


def test_a_queue_that_falls_behind_never_drains(read: Read) -> None:
    """More comes than ends: never, said so and null in JSON, with the shortfall in words."""
    queue = only(read(backlog(180, 90, 200)))
    assert queue.drain["never"] is True
    assert queue.drain["text"].startswith("never at this rate")
    assert queue.utilisation == 2.0
    assert queue.headroom == -0.5
    assert queue.capacity == "About 6.0/min, its limit: 6.0/min less than comes."
    assert json.dumps(queue.to_json(), allow_nan=False)


def test_a_queue_that_keeps_up_hides_its_limit(read: Read) -> None:
    """What ended is a lower bound where little waited: capacity, headroom and end are unknown."""
    finished = [done(str(n), ended=10 * n, ran=1, wait=1) for n in range(50)]
    waits = job("new", created_at=ago(3), available_at=ago(3))
    queue = only(read(tables(*finished, jobs=[waits])))
    assert 0.05 < queue.busy_share < 0.2
    assert (queue.saturated, queue.utilisation, queue.headroom) == (False, None, None)
    assert queue.drain["text"].startswith("capacity unknown: only ")
    assert {queue.drain["never"], *queue.drain["seconds"].values()} == {None}
    assert queue.capacity.startswith("At least ")
    assert queue.state == "waiting, capacity unknown"


def test_a_paused_queue_has_no_capacity(read: Read) -> None:
    """It is not slow: it does not run, and its backlog has no end until somebody resumes it."""
    paused = {"queue": "mail", "paused_at": ago(50)}
    queue = only(read({**backlog(90, 180, 100), "queues": [paused]}))
    assert (queue.state, queue.saturated) == ("paused", False)
    assert queue.drain["text"] == "capacity unknown: it is paused"
    assert queue.capacity == "Capacity unknown: it is paused."


def test_a_queue_where_nothing_ends_has_no_known_capacity(read: Read) -> None:
    """Without one ending in the window there is nothing to reckon with."""
    rows = backlog(10, 0, 20)
    queue = only(read(rows))
    assert (queue.saturated, queue.completion_rate) == (False, 0.0)
    assert queue.capacity == "Capacity unknown: nothing ended in the window."


def test_one_full_queue_says_nothing_of_the_others(read: Read) -> None:
    """All together count as saturated only where each queue with work is."""
    full, easy = backlog(180, 90, 200), [done(f"e{n}", ended=9 * n, queue="easy") for n in range(9)]
    both = tables(*easy, jobs=full["jobs"])
    both["attempts"] += full["attempts"]
    pulse = read(both)
    assert [(queue.queue, queue.saturated) for queue in pulse.queues] == [
        ("easy", False),
        ("mail", True),
    ]
    assert pulse.overall.saturated is False
    assert read(full).overall.saturated is True
    assert pulse.overall.waiting == sum(queue.waiting for queue in pulse.queues)


# One queue, steps, windows


def test_an_unknown_queue_names_the_nearest(read: Read) -> None:
    """A slip of the keyboard is no empty answer."""
    with pytest.raises(InputError, match="did you mean 'mail'"):
        read(backlog(1, 1, 1), queue="mial")
    with pytest.raises(InputError, match="known: 'mail'"):
        read(backlog(1, 1, 1), queue="xxxxxx")
    done = CliRunner().invoke(cli, ["health", "sample", "--queue", "bilings"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert isinstance(done.exception, InputError | SystemExit)


def test_one_queue_alone() -> None:
    """With --queue every number is of that queue: series, check and what is unfinished."""
    one, every = jp.health("sample", queue="mail"), jp.health("sample")
    assert [queue.queue for queue in one.queues] == ["mail"]
    assert {point.queue for point in one.series} == {"mail"}
    assert one.overall.arrival_rate == one.queues[0].arrival_rate
    assert (one.unfinished, every.unfinished) == (3, 8)
    assert one.little.agrees
    assert every.little.agrees


def test_too_many_buckets_are_refused() -> None:
    """A millisecond a step over hours would only fill the memory."""
    with pytest.raises(InputError, match="choose a --bucket of at least"):
        jp.health("sample", bucket_seconds=0.001)


def test_a_bucket_has_the_width_that_was_asked_for() -> None:
    """Each step is so wide; the last one ends with the window."""
    pulse = jp.health("sample", bucket_seconds=10.0)
    ends = sorted({point.at for point in pulse.series})
    assert {b - a for a, b in pairwise(ends[:-1])} == {10_000_000}
    assert ends[-1] == pulse.situation.flow_until


@st.composite
def flows(draw: st.DrawFn) -> dict[str, Any]:
    """Draw jobs that came, were claimed and ended at any time of the last 100 s."""
    jobs, tries = [], []
    for number in range(draw(st.integers(0, 12))):
        came = draw(st.integers(0, 100))
        ran = draw(st.integers(0, came))
        queue = draw(st.sampled_from(["a", "b", None]))
        if draw(st.booleans()):
            row, tried = done(
                str(number), ended=came - ran, ran=draw(st.integers(0, ran)), wait=0, queue=queue,
                status=draw(st.sampled_from(["completed", "dead", "cancelled"])),
            )  # fmt: skip
            tries.append(tried)
        else:
            row = job(str(number), queue=queue, created_at=ago(came), available_at=ago(came))
        jobs.append(row)
    return {"jobs": jobs, "attempts": tries}


@hypothesis.settings(max_examples=40, suppress_health_check=[*hypothesis.HealthCheck])
@hypothesis.given(rows=flows(), bucket=st.sampled_from([None, 1.0, 7.0, 60.0]))
def test_the_series_adds_up(read: Read, rows: dict[str, Any], bucket: float | None) -> None:
    """Over its steps the series counts every arrival, claim and completion once."""
    pulse = read(rows, bucket_seconds=bucket)
    for name, wanted in (
        ("arrivals", len(rows["jobs"])),
        ("claims", len(rows["attempts"])),
        ("completions", sum(row["status"] == "completed" for row in rows["jobs"])),
    ):
        assert sum(getattr(point, name) for point in pulse.series) == wanted
    steps = Counter(point.queue for point in pulse.series)
    assert len(set(steps.values())) <= 1
    assert pulse.unfinished == sum(row["status"] == "pending" for row in rows["jobs"])
    assert pulse.little.agrees
    assert all(0.0 <= queue.busy_share <= 1.0 for queue in pulse.queues)


# Little's law


spells = st.lists(
    st.tuples(st.floats(-50, 99), st.none() | st.floats(0, 80)).map(
        lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
    ),
    max_size=30,
)


def alive(jobs: list[tuple[float, float | None]], at: float) -> int:
    return sum(begin <= at and (end is None or end > at) for begin, end in jobs)


def checked(jobs: list[tuple[float, float | None]], unfinished: int | None = None) -> LittleCheck:
    counted = alive(jobs, 100.0) if unfinished is None else unfinished
    return little_check(jobs, counted, 0.0, 100.0)


@hypothesis.given(spells)
def test_littles_law_holds(jobs: list[tuple[float, float | None]]) -> None:
    """Whatever comes and goes, counts and times agree, and the average is that of the spells."""
    found = checked(jobs)
    inside = [min(e if e is not None else 100.0, 100.0) - max(b, 0.0) for b, e in jobs]
    assert found.jobs_in_system == pytest.approx(sum(max(s, 0.0) for s in inside) / 100, abs=1e-9)
    assert found.residual == pytest.approx(found.edge, abs=1e-9)
    assert found.agrees


@hypothesis.given(spells.map(lambda jobs: [(max(begin, 0.0), end) for begin, end in jobs]))
def test_nothing_is_left_over_where_a_window_begins_empty(
    jobs: list[tuple[float, float | None]],
) -> None:
    """L = λW exactly, where no job came before the window."""
    found = checked([(b, e if e is None else max(b, e)) for b, e in jobs])
    assert found.edge == 0
    assert found.residual == pytest.approx(0, abs=1e-9)


@hypothesis.given(spells, st.integers(1, 9))
def test_jobs_without_a_time_are_noticed(
    jobs: list[tuple[float, float | None]], extra: int
) -> None:
    """A job that is counted and has no time makes the two sides differ by itself."""
    found = checked(jobs, alive(jobs, 100.0) + extra)
    assert found.residual - found.edge == pytest.approx(extra)
    assert found.agrees is (extra <= 0.02 * max(found.jobs_in_system, 1.0))


def test_bad_data_fail_the_check(read: Read) -> None:
    """Unfinished jobs of unknown arrival, or a completed one of unknown end: it says so."""
    lost = [bare(f"u{n}", "processing") for n in range(3)]
    good = [done(str(n), ended=10 * n) for n in range(9)]
    pulse = read(tables(*good, jobs=lost))
    assert pulse.little.residual == pytest.approx(3.0)
    assert not pulse.little.agrees
    assert "Little's law does not hold" in str(pulse)
    endless = job("e", "completed", created_at=ago(80), available_at=ago(80))
    assert not read(tables(*good, jobs=[endless])).little.agrees
    assert read(tables(*good)).little.agrees


# How much of the time something waited


cover = st.lists(
    st.tuples(st.integers(-20, 120), st.none() | st.integers(-20, 140)), max_size=12
).map(lambda pairs: sorted(pairs, key=lambda pair: pair[0]))


@hypothesis.given(cover)
def test_the_busy_share_is_what_is_covered(intervals: list[tuple[int, int | None]]) -> None:
    """Second by second, the same share is covered by at least one interval."""
    covered = sum(
        any(begin <= second and (end is None or end > second) for begin, end in intervals)
        for second in range(100)
    )
    assert busy_share(intervals, 0, 100) == pytest.approx(covered / 100)


# What scripts rely on


def test_the_json_has_the_promised_keys() -> None:
    """Per queue and overall, the series with its times, and no number that JSON has not."""
    done = CliRunner().invoke(cli, ["health", "sample", "--json", "--bucket", "30s"])
    assert done.exit_code == 0
    document = json.loads(done.stdout, parse_constant=pytest.fail)
    assert {"queues", "overall", "series", "little", "now", "bucket_seconds"} <= document.keys()
    for queue in (*document["queues"], document["overall"]):
        assert queue.keys() >= KEYS
        assert "text" in queue["drain"]
    assert document["bucket_seconds"] == 30.0
    assert all(point["at"].endswith("Z") for point in document["series"])


def test_the_recorded_incident(recording: Callable[[str], str], tmp_path: Path) -> None:
    """after_kill, judged later: rates end with the last look, parked mails have no age."""
    capture(recording("after_kill"), tmp_path / "a.db", now=parse_time(AFTER_KILL_AT))
    pulse = jp.health(str(tmp_path / "a.db"), now=LEASE_OVER_AT)
    seen = {queue.queue: queue for queue in pulse.queues}
    assert {name: queue.waiting for name, queue in seen.items()} == {
        "billing": 25,
        "cron": 0,
        "mail": 5,
        "reports": 21,
    }
    assert seen["mail"].oldest_claimable_age_seconds is None
    assert seen["reports"].oldest_claimable_age_seconds == pytest.approx(4.7, abs=0.05)
    assert seen["reports"].capacity == "Capacity unknown: nothing ended in the window."
    assert (pulse.unfinished, pulse.little.agrees) == (54, True)
    assert pulse.to_json()["rates_until"] == iso(parse_time(AFTER_KILL_AT))
    assert any("after the last look" in warning for warning in pulse.warnings)


def test_hostile_queue_names_are_only_text(read: Read) -> None:
    """A queue may be called anything; no control character reaches the terminal."""
    name = "<img src=x>\x1b[31m\u202e"
    shown = str(read({"jobs": [job("1", queue=name, attempts=0)], "attempts": [attempt("1")]}))
    assert "<img src=x>" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
