"""The protocol of a capture: what goes over the wire, in which order, and what may move then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jobplaybook import api
from jobplaybook.sources.base import ReadOptions
from jobplaybook.units import MICROS
from tests.captures import capture, capture_by, look, meddling, meta
from tests.postgres import Database
from tests.procrastinate_app import execute, filled, finish, install, rows, start

SETTINGS = (
    "BEGIN READ ONLY",
    "SET LOCAL statement_timeout = '5s'",
    "SET LOCAL lock_timeout = '200ms'",
    "SET LOCAL max_parallel_workers_per_gather = 0",
)


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue of a worker that lives: 3 jobs running, 20 waiting, 30 succeeded, 5 failed."""
    return filled(install(database.url))


def statements_of(url: str, path: Path, **options: Any) -> list[str]:
    """Return the statements of a capture in their order."""
    seen: list[str] = []
    capture_by(meddling(lambda number, text: seen.append(text)), url, path, **options)
    return seen


# Over the wire


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Give what every connection opened from here on says and hears, message by message."""
    connect = psycopg.connect
    path = tmp_path / "wire"
    with path.open("wb") as file:

        def traced(*words: Any, **options: Any) -> psycopg.Connection[Any]:
            connection = connect(*words, **options)
            connection.pgconn.trace(file.fileno())
            connection.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)
            return connection

        monkeypatch.setattr(psycopg, "connect", traced)
        yield lambda: re.split(r"\n(?=[FB]\t)", path.read_text(encoding="utf-8").rstrip())
        monkeypatch.undo()


def said(messages: Sequence[str]) -> list[str]:
    """Return what we sent, a text a statement."""
    sent = (message.split("\t", 3) for message in messages if message.startswith("F"))
    return [rest[0].strip() for _, _, kind, *rest in sent if kind in ("Query", "Parse")]


def test_every_statement_is_a_short_read_only_transaction(
    queue: str, tmp_path: Path, wire: Callable[[], list[str]]
) -> None:
    """BEGIN READ ONLY with its local limits, one SELECT, the end of the transaction."""
    capture(queue, tmp_path / "a.db", chunk=10)
    sent = said(wire())
    first = next(place for place, text in enumerate(sent) if text.startswith('"BEGIN'))
    assert not any("procrastinate" in text for text in sent[:first])
    for begin, statement, end in zip(*[iter(sent[first:])] * 3, strict=True):
        assert [part for part in SETTINGS if part not in begin] == []
        assert re.match(r'"" "\s*(SELECT|WITH|\(SELECT)|"\s*(SELECT|WITH)', statement), statement
        assert end in ('"ROLLBACK"', '"COMMIT"')
    assert len(sent) - first >= 3 * 10


def test_nothing_outlives_its_transaction(
    queue: str, tmp_path: Path, wire: Callable[[], list[str]]
) -> None:
    """No session setting, no named statement: a pooler hands the connection to the application."""
    capture(queue, tmp_path / "a.db")
    messages = wire()
    sent = said(messages)
    assert not any(re.search(r"\bSET (?!LOCAL)", text) for text in sent)
    assert not any(re.search(r"\b(PREPARE|LISTEN|DECLARE|LOCK|FOR UPDATE)\b", t) for t in sent)
    parsed = [message for message in messages if message.split("\t")[2:3] == ["Parse"]]
    assert parsed
    assert all(message.split("\t")[3].startswith(' "" ') for message in parsed)
    states = [m.split("\t")[3].strip() for m in messages if m.split("\t")[2] == "ReadyForQuery"]
    ours = "".join(states[states.index("T") :])  # after BEGIN, after the SELECT, after the end
    assert re.fullmatch("(TTI)+", ours)


def test_a_capture_is_known_by_its_name(queue: str, tmp_path: Path) -> None:
    """A DBA who looks sees who it is, and never an open transaction between two statements."""
    found: set[tuple[str, str, bool]] = set()
    look_at = (
        "SELECT application_name, state, xact_start IS NULL FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
        " AND application_name <> ''"  # a session of this test's own may still be closing
    )

    def before(number: int, text: str) -> None:
        if number > 1:  # SQLAlchemy's own questions come before the first
            found.update(rows(queue, look_at))

    capture_by(meddling(before), queue, tmp_path / "a.db", chunk=10)
    assert found == {("jobplaybook", "idle", True)}


# The order


def test_running_jobs_heartbeats_and_clock_come_first_and_together(
    queue: str, tmp_path: Path
) -> None:
    """The first statement that reads the queue's rows reads all three of them."""
    found = [text for text in statements_of(queue, tmp_path / "a.db") if "FROM public" in text]
    assert "procrastinate_jobs.status = 'doing'" in found[0]
    assert "last_heartbeat" in found[0]
    assert "worker" in found[0]
    assert "database_clock" in found[0] or "clock_timestamp" in found[0]


def beat(url: str) -> None:
    execute(url, "UPDATE procrastinate_workers SET last_heartbeat = clock_timestamp()")


def test_a_slow_capture_accuses_no_living_worker(queue: str, tmp_path: Path) -> None:
    """Every lease is judged when it was read: reading longer than a lease lasts expires none."""

    def before(number: int, text: str) -> None:
        execute(queue, "SELECT pg_sleep(0.3)")
        beat(queue)

    path = tmp_path / "a.db"
    capture_by(meddling(before), queue, path, read=ReadOptions(lease_seconds=1.0))
    ((took,),) = look(path, "SELECT max(read_at) - min(read_at) FROM jobs")
    assert took > 1.0 * MICROS
    answer = api.triage(str(path))
    assert not {finding.code for finding in answer.findings} & {"lease-expired", "workers-lost"}


def test_a_worker_that_dies_meanwhile_is_seen_dead(queue: str, tmp_path: Path) -> None:
    """The test above would notice: a heartbeat that stays away for a lease expires its jobs."""
    path = tmp_path / "a.db"
    execute(queue, "SELECT pg_sleep(1.1)")
    capture(queue, path, read=ReadOptions(lease_seconds=1.0))
    (expired,) = [f for f in api.triage(str(path)).findings if f.code == "lease-expired"]
    assert expired.count == 3


# Rows that move


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a capture saw while something happened before one of its statements."""

    status: dict[str, str]
    starts: dict[str, int]
    moved: int
    statements: int


def seen_with(url: str, path: Path, happening: Callable[[], None], at: int, **more: Any) -> Seen:
    count = 0

    def before(number: int, text: str) -> None:
        nonlocal count
        count = number
        if number == at:
            happening()

    report = capture_by(meddling(before), url, path, **more)
    return Seen(
        status=dict(look(path, "SELECT id, native_status FROM jobs")),
        starts=dict(look(path, "SELECT job_id, count(*) FROM attempts GROUP BY 1")),
        moved=report.moved_during_capture,
        statements=count,
    )


def in_database(url: str) -> dict[str, str]:
    return dict(rows(url, "SELECT id::text, status::text FROM procrastinate_jobs"))


def everything_moves(url: str) -> None:
    """Let all running jobs end, one of them to be tried again, and two waiting ones start."""
    execute(
        url,
        "SELECT procrastinate_retry_job_v2(min(id), now(), NULL, NULL, NULL)"
        " FROM procrastinate_jobs WHERE status = 'doing'",
    )
    finish(url)
    start(url, 2)


@pytest.mark.parametrize("chunk", [20, 1_000])
def test_no_job_is_lost_wherever_it_moves(queue: str, tmp_path: Path, chunk: int) -> None:
    """Before each statement in turn the running jobs end and others start: all are still there."""
    path, moved = tmp_path / "a.db", 0
    total = len(statements_of(queue, path, chunk=chunk))
    for at in range(1, total + 1):
        before = in_database(queue)
        seen = seen_with(queue, path, lambda: everything_moves(queue), at, chunk=chunk)
        after = in_database(queue)
        assert seen.status.keys() == before.keys()
        assert all(seen.status[job] in (before[job], after[job]) for job in before)
        assert {job for job in before if seen.status[job] == "doing"} <= seen.starts.keys()
        moved += seen.moved
    assert moved > 0
    assert total > 10


def test_a_job_that_comes_and_goes_meanwhile_is_told(queue: str, tmp_path: Path) -> None:
    """Deferred, run and done between two statements: the history has it."""

    def happening() -> None:
        execute(
            queue,
            "INSERT INTO procrastinate_jobs (queue_name, task_name, priority)"
            " VALUES ('q', 'send', 9)",
        )
        start(queue, 1)
        finish(queue)

    texts = statements_of(queue, tmp_path / "a.db")
    at = next(n for n, text in enumerate(texts, 1) if "chunk" in text and "events" in text)
    seen = seen_with(queue, tmp_path / "a.db", happening, at)
    assert seen.status == in_database(queue)
    assert seen.starts["59"] == 1


def test_a_failed_job_that_is_retried_meanwhile_is_there(queue: str, tmp_path: Path) -> None:
    """From finished back to waiting: it is found by its end, and told as it is now."""
    failed = sorted(job for job, status in in_database(queue).items() if status == "failed")

    def happening() -> None:
        execute(
            queue,
            "SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL)"
            " FROM procrastinate_jobs WHERE status = 'failed'",
        )

    texts = statements_of(queue, tmp_path / "a.db")
    at = next(n for n, text in enumerate(texts, 1) if "chunk" in text and "events" in text)
    seen = seen_with(queue, tmp_path / "a.db", happening, at)
    assert {seen.status[job] for job in failed} == {"todo"}
    assert seen.status == in_database(queue)


def test_a_job_that_is_deleted_meanwhile_is_no_error(queue: str, tmp_path: Path) -> None:
    """The library may delete what succeeded; what was read stays, what was not is no longer."""
    oldest = "DELETE FROM procrastinate_jobs WHERE id = (SELECT min(id) FROM procrastinate_jobs)"
    for at in range(1, len(statements_of(queue, tmp_path / "a.db")) + 1):
        before = in_database(queue)
        seen = seen_with(queue, tmp_path / "a.db", lambda: execute(queue, oldest), at)
        assert in_database(queue).keys() <= seen.status.keys() <= before.keys()


def test_moves_are_counted(queue: str, tmp_path: Path) -> None:
    """Three running jobs end after they were read: three moved; a queue at rest has none."""
    texts = statements_of(queue, tmp_path / "a.db")
    at = 2 + next(n for n, text in enumerate(texts, 1) if "last_heartbeat" in text)
    assert seen_with(queue, tmp_path / "a.db", lambda: finish(queue), at).moved == 3
    assert meta(tmp_path / "a.db")["moved_during_capture"] == "3"
    assert capture(queue, tmp_path / "b.db").moved_during_capture == 0


def test_times_are_those_of_the_database(queue: str, tmp_path: Path) -> None:
    """captured_from and captured_to are the database's clock around everything that was read."""
    clock = "SELECT clock_timestamp()"
    ((before,),) = rows(queue, clock)
    report = capture(queue, tmp_path / "a.db")
    ((after,),) = rows(queue, clock)
    (first, last) = look(tmp_path / "a.db", "SELECT min(read_at), max(read_at) FROM jobs")[0]
    assert micros(before) <= report.captured_from <= first <= last
    assert last <= report.captured_to <= micros(after)


def micros(time: datetime) -> int:
    return round(time.timestamp() * MICROS)
