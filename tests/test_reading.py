"""Reading: from the rows of a snapshot to the situation that is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook.api import Opening, open_snapshot, read_options, triage
from jobplaybook.detectors.situation import QueueState, RunTime, Situation
from jobplaybook.errors import InputError
from jobplaybook.model import Quality
from jobplaybook.reading import read_situation
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.units import MICROS
from jobplaybook.verdict import judge
from tests.canonical import NOW, Rows, ago, attempt, bare, done, job, known, snapshot_of

DAY, HOUR, MINUTE = 86_400, 3_600, 60


class Reads:
    """Opens snapshots of rows, and counts the statements that are put to the last one."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.statements: list[str] = []

    def open(self, rows: Rows, **meta: Any) -> Snapshot:
        snapshot = self.stack.enter_context(snapshot_of(self.folder, rows, **meta))
        self.statements.clear()
        sa.event.listen(
            snapshot.engine,
            "before_cursor_execute",
            lambda _c, _cursor, text, *_: self.statements.append(text),
        )
        return snapshot

    def __call__(self, rows: Rows, **options: Any) -> Situation:
        names = ("now", "since_seconds", "until")
        given = {name: options.pop(name) for name in names if name in options}
        return read_situation(self.open(rows, **options), **given)


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Reads]:
    with ExitStack() as stack:
        yield Reads(tmp_path, stack)


def tables(*finished: Any, **more: Any) -> dict[str, Any]:
    """Return rows of ``done`` jobs and whatever else there is."""
    jobs = [row for row, _ in finished] + list(more.pop("jobs", ()))
    return {"jobs": jobs, "attempts": [tried for _, tried in finished], **more}


def only(seen: Situation) -> QueueState:
    (queue,) = seen.queues
    return queue


def test_a_queue_is_counted_from_its_rows(read: Reads) -> None:
    """What waits, is due, runs and flows, with whole window and rate window kept apart."""
    rows = tables(
        done("1", ended=2 * HOUR),
        done("2", ended=MINUTE),
        done("3", ended=30, status="dead"),
        jobs=[
            job("4", tenant_id="t1"),
            job("5", available_at=ago(90), tenant_id="t2", job_type="pdf"),
            job("6", available_at=ago(-60)),
            job("7", shard="s", available_at=ago(95)),
            job("8", "processing", shard="s", claimed_at=ago(9), locked_until=ago(-9), owner="w"),
        ],
        workers=[{"owner": "w", "heartbeat_at": ago(3), "lease_seconds": 30.0}],
    )
    seen = read(rows)
    assert only(seen) == QueueState(
        queue="default",
        waiting=4,
        due=3,
        claimable=2,
        running=1,
        live=1,
        tenants=2,
        types=2,
        oldest_at=ago(90),
        arrivals=7,
        claims=2,
        completions=1,
        dead=1,
        claims_before=3,
        first_at=ago(2 * HOUR + 2),
        last_claim_at=ago(31),
        last_completion_at=ago(MINUTE),
    )
    assert (seen.total, seen.finished_in_window) == (8, 3)
    assert seen.states == {
        "available": 3,
        "scheduled": 1,
        "processing": 1,
        "completed": 2,
        "dead": 1,
    }
    assert seen.layers == {"waiting": 4, "claimed": 1, "result": 3}


@pytest.mark.parametrize(
    ("first", "since", "seconds"),
    [(2 * HOUR, DAY, 900), (400, DAY, 400), (2 * HOUR, 300, 300), (0.2, DAY, 1)],
)
def test_the_rate_window(read: Reads, first: float, since: float, seconds: float) -> None:
    """Rates go over a quarter of an hour, or what there is: since the first event, or --since."""
    rows = {"jobs": [job("1", created_at=ago(first), available_at=ago(first))]}
    seen = read(rows, since_seconds=since)
    assert seen.rate_seconds == seconds


def test_the_window_is_what_was_captured(read: Reads) -> None:
    """Where a capture reached back less far than asked, the window begins there and says so."""
    rows = tables(done("1", ended=2 * HOUR), done("2", ended=MINUTE))
    seen = read(rows, window_from="2026-12-01T02:00:00Z")
    assert (seen.window_from, seen.finished_in_window) == (ago(HOUR), 1)


@pytest.mark.parametrize(
    "options", [{"until": ago(DAY)}, {"now": ago(DAY)}, {"since_seconds": 0.0}, {"until": 0}]
)
def test_an_empty_window_is_refused(read: Reads, options: dict[str, Any]) -> None:
    """A window that ends before what was captured begins answers nothing."""
    with pytest.raises(InputError, match="expected a window that ends after"):
        read({}, **options)


# Whose time is it


LEASED = {
    "jobs": [
        job(
            "early",
            "processing",
            owner="w",
            claimed_at=ago(50),
            locked_until=ago(2),
            read_at=ago(3),
        ),
        job(
            "late", "processing", owner="w", claimed_at=ago(50), locked_until=ago(2), read_at=ago(1)
        ),
        job("undated", "processing", owner="w", claimed_at=ago(50), locked_until=ago(2)),
        job(
            "free", "processing", owner="w", claimed_at=ago(50), locked_until=ago(-60), read_at=NOW
        ),
    ],
    "workers": [{"owner": "w", "heartbeat_at": ago(20), "lease_seconds": 30.0}],
}


def expired(seen: Situation) -> set[str]:
    return {held.id for held in seen.held if held.is_expired}


def test_leases_are_judged_when_they_were_read(read: Reads) -> None:
    """Without --now each at its read_at, or at the capture where that is not known."""
    assert expired(read(LEASED)) == {"late", "undated"}


@pytest.mark.parametrize(
    ("seconds", "ids"),
    [(-2, set()), (-1, {"early", "late", "undated"}), (61, {"early", "late", "undated", "free"})],
)
def test_leases_are_judged_at_a_given_now(read: Reads, seconds: float, ids: set[str]) -> None:
    """With --now all at that moment, earlier or later than the capture."""
    assert expired(read(LEASED, now=ago(-seconds))) == ids


def test_a_later_now_moves_leases_alone(read: Reads) -> None:
    """Heartbeats, rates, ages and completions stay as of the last look, and one note says so."""
    rows = {**LEASED, "jobs": [*LEASED["jobs"], *(job(str(n)) for n in range(20))]}
    snapshot = read.open(rows)
    first, later = triage(snapshot), triage(snapshot, now=NOW + HOUR * MICROS)
    assert later.situation.queues == first.situation.queues
    assert [w.owner for w in later.situation.workers if later.situation.is_lost(w)] == []
    assert {f.code for f in later.findings} == {"lease-expired"}
    assert later.verdict.count == 4
    assert (first.verdict.sure, later.verdict.sure) == (True, False)
    assert len(later.warnings) == 1
    assert "only leases were judged again" in later.warnings[0]
    assert "nobody looked after 03:00:00Z" in later.verdict.sentence


def test_an_earlier_now_is_one_warning(read: Reads) -> None:
    """Statuses stay as captured, ages and leases move back, nobody is lost who was not yet."""
    rows = {
        "jobs": [job("1", available_at=ago(900)), job("2", available_at=ago(60))],
        "workers": [{"owner": "w", "heartbeat_at": ago(600), "lease_seconds": 30.0}],
    }
    snapshot = read.open(rows)
    first, earlier = triage(snapshot), triage(snapshot, now=ago(590))
    assert "workers-lost" in {f.code for f in first.findings}
    assert "workers-lost" not in {f.code for f in earlier.findings}
    assert earlier.situation.counts == first.situation.counts == {"pending": 2}
    assert earlier.situation.states == {"available": 1, "scheduled": 1}
    assert (only(earlier.situation).claimable, only(earlier.situation).oldest_at) == (1, ago(900))
    assert len(earlier.warnings) == 1
    assert "statuses are as captured" in earlier.warnings[0]


def test_until_ends_the_window_not_the_look(read: Reads) -> None:
    """--until in the past: queues and rates as of then; leases and heartbeats as captured, sure."""
    rows = tables(
        done("1", ended=2 * HOUR),
        done("2", ended=MINUTE),
        jobs=[*LEASED["jobs"], job("3", available_at=ago(HOUR + 30)), job("4")],
        workers=LEASED["workers"],
    )
    snapshot = read.open(rows)
    answer = triage(snapshot, until=ago(HOUR))
    seen = answer.situation
    assert (seen.flow_until, seen.seen_until, seen.judged_later) == (ago(HOUR), NOW, False)
    assert (only(seen).claimable, only(seen).last_completion_at) == (1, ago(2 * HOUR))
    assert expired(seen) == {"late", "undated"}
    assert answer.verdict.sure
    assert len(answer.warnings) == 1
    assert "the window ends at 2026-12-01T02:00:00Z" in answer.warnings[0]


def test_what_ended_after_the_window_makes_no_silence(read: Reads) -> None:
    """A queue that worked all along is not called still because --until hides its later work."""
    work = [done(str(n), ended=30.0 * n) for n in range(240)]
    rows = tables(*work, jobs=[job("w", available_at=ago(HOUR + 10))])
    for until in (NOW, ago(HOUR), ago(HOUR - 5)):
        answer = judge(read(rows, until=until), label="test")
        assert "queue-stalled" not in {f.code for f in answer.findings}


# What is normal


def test_normal_is_before_the_backlog_began(read: Reads) -> None:
    """The p95 wait of claims made before the oldest waiting job was due; of 20 at least."""
    calm = [done(str(n), ended=HOUR + n, wait=n) for n in range(1, 21)]
    slow = [done(f"s{n}", ended=5, wait=700) for n in range(30)]
    waits = [job("w", available_at=ago(HOUR))]
    queue = only(read(tables(*calm, *slow, jobs=waits)))
    assert (queue.normal_wait_seconds, queue.recent_wait_seconds) == (19.0, 700.0)
    assert only(read(tables(*calm[1:], *slow, jobs=waits))).normal_wait_seconds is None


def test_nothing_is_asked_of_a_young_queue(read: Reads) -> None:
    """While nothing waits for a minute no waits are read: a healthy queue costs the least."""
    read({"jobs": [job("1", available_at=ago(59))]})
    assert not any(re.search(r"AS wait\b", text) for text in read.statements)
    read({"jobs": [job("1", available_at=ago(60))]})
    assert sum(bool(re.search(r"AS wait\b", text)) for text in read.statements) == 1


def test_run_times_are_read_for_doubtful_runs_alone(read: Reads) -> None:
    """A run that a lease of a known owner speaks for needs no history; others need their type's."""
    history = [done(str(n), ended=60 + n, ran=2) for n in range(30)]
    sound = job("9a", "processing", owner="w", claimed_at=ago(9), locked_until=ago(-9))
    rows = tables(*history, jobs=[sound], workers=[{"owner": "w"}])
    assert read(rows).run_times == {}
    doubtful = job("9b", "processing", claimed_at=ago(9), job_type=None)
    typed = job("9c", "processing", claimed_at=ago(9))
    rows["jobs"] += [doubtful, typed]
    wanted = RunTime(p99_seconds=2.0, runs=30)
    assert read(rows).run_times == {None: wanted, "mail": wanted}


def test_thousands_of_queues_are_read_at_once(read: Reads) -> None:
    """The number of statements does not grow with the number of queues that fall behind."""
    few, many = (
        [job(str(n), queue=f"q{n}", available_at=ago(HOUR)) for n in range(count)]
        for count in (2, 3_000)
    )
    asked = []
    for jobs in (few, many):
        seen = read({"jobs": jobs})
        asked.append(len(read.statements))
    assert asked[0] == asked[1] < 20
    assert len(seen.queues) == 3_000
    text = str(judge(seen, label="test"))
    assert len(text.split("\n")) < 40
    assert "and 2,988 queues more: 2,988 stalled" in text


# Odd rows


def test_null_everywhere_is_no_fault_and_no_rate(read: Reads) -> None:
    """Jobs that tell nothing but their status are counted, aged by nothing and accuse nobody."""
    statuses = ("pending", "processing", "completed", "dead", "cancelled", "held")
    rows: Rows = {"jobs": [bare(f"{s}{n}", s) for s in statuses for n in range(5)], "facts": []}
    answer = judge(read(rows), label="test")
    queue = answer.to_json()["queues"][0]
    rates = ("arrival_rate", "claim_rate", "completion_rate", "net_rate")
    assert {queue[name] for name in rates} == {None}
    assert (queue["queue"], queue["oldest_claimable_age_seconds"]) == (None, None)
    assert {f.code for f in answer.findings} == {"data-blind"}
    assert "5 running jobs still live" in answer.verdict.sentence


def test_jobs_without_a_due_time_are_not_said_to_wait_shortly(read: Reads) -> None:
    """healthy: how long undated jobs wait is not known, and the sentence does not claim it."""
    answer = judge(read({"jobs": [job("1", available_at=None)]}), label="test")
    assert answer.verdict.code == "healthy"
    assert "1 job wait, how long is not known" in answer.verdict.sentence


def test_an_empty_snapshot_is_unknown(read: Reads) -> None:
    """No job at all allows no verdict: not healthy, not an error."""
    answer = judge(read({}), label="test")
    assert (answer.verdict.code, answer.findings) == ("unknown", ())
    assert "nothing to judge" in answer.verdict.sentence


def test_facts_and_notes_are_read(read: Reads) -> None:
    """Grades come as the source gave them; a fact nobody graded is absent."""
    rows: Rows = {
        "facts": [{"fact": "lease", "state": "live", "quality": "bound", "note": "30 s"}],
        "windows": [
            {"schedule": "mail.retry_stalled_jobs", "window_at": NOW},
            {"schedule": "nightly", "window_at": NOW},
        ],
    }
    seen = read(rows, sweeper="", not_read='{"vitals": "refused"}')
    assert (seen.grade("lease"), seen.grade("error")) == (Quality.BOUND, Quality.ABSENT)
    assert seen.fact_notes == {("lease", "live"): "30 s"}
    assert (seen.sweeper, seen.possible_sweepers) == (None, ("mail.retry_stalled_jobs",))
    assert seen.not_read == {"vitals": "refused"}
    assert not read({"facts": known("created_at")}).knows_arrivals


def test_paused_queues_are_read_with_nothing_in_them(read: Reads) -> None:
    """A pause is known of a queue without jobs too; a row without a time is no pause."""
    rows: Rows = {
        "jobs": [job("1", available_at=ago(HOUR), queue="a")],
        "queues": [{"queue": "a", "paused_at": ago(DAY)}, {"queue": "b"}],
    }
    seen = read(rows)
    assert [(q.queue, q.paused_at) for q in seen.queues] == [("a", ago(DAY)), ("b", None)]
    answer = judge(seen, label="test")
    assert {f.code for f in answer.findings} == {"queue-paused"}
    assert "since 2026-11-30 03:00:00Z" in answer.verdict.sentence


def test_runs_of_lost_or_expired_owners_are_not_live(read: Reads) -> None:
    """Only a run that is in order keeps a silent queue from being called still."""
    held = {"claimed_at": ago(30), "locked_until": ago(-60), "read_at": NOW}
    rows = {
        "jobs": [
            job("1", "processing", owner="alive", **held),
            job("2", "processing", owner="lost", **held),
            job("3", "processing", owner="alive", **{**held, "locked_until": ago(1)}),
            job("4", "processing", owner="unheard-of", **{**held, "claimed_at": ago(DAY)}),
            job("5", "processing", **{**held, "locked_until": None, "claimed_at": None}),
        ],
        "workers": [
            {"owner": "alive", "heartbeat_at": ago(5), "lease_seconds": 30.0},
            {"owner": "lost", "heartbeat_at": ago(50), "lease_seconds": 30.0},
        ],
        "attempts": [attempt("1", started_at=ago(30))],
    }
    queue = only(read(rows))
    assert (queue.running, queue.live) == (5, 1)


def test_a_lease_that_was_asked_for_overrides_the_systems_own() -> None:
    """--lease on a snapshot judges owners and their jobs by it, both ways."""
    for seconds, is_over in ((120.0, False), (1.0, True)):
        how = Opening(capture=CaptureOptions(read=read_options(lease=seconds)))
        with open_snapshot("sample", how) as snapshot:
            seen = read_situation(snapshot)
        assert [job.is_expired for job in seen.held] == [is_over] * len(seen.held)
        assert is_over or not [worker.owner for worker in seen.workers if seen.is_lost(worker)]


def test_a_leased_run_without_a_start_is_live(read: Reads) -> None:
    """A valid lease speaks for a run whose start was not recorded."""
    leased = job("1", "processing", owner="w", locked_until=ago(-9), read_at=NOW)
    assert only(read({"jobs": [leased]})).live == 1


@pytest.mark.parametrize(("shift", "normal"), [(0, None), (1, 5.0)])
def test_a_claim_when_the_backlog_began_is_not_before_it(
    read: Reads, shift: int, normal: float | None
) -> None:
    """Normal waits are of claims strictly before the oldest waiting job was due."""
    claims = [done(str(n), ended=HOUR - 1, ran=1, wait=5) for n in range(20)]
    waits = job("w", available_at=ago(HOUR) + shift)
    assert only(read(tables(*claims, jobs=[waits]))).normal_wait_seconds == normal
