"""The limits of a capture: its budget, slow statements, locks, and every way to be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from jobplaybook import api
from jobplaybook.connect import Reader, open_reader, resolve
from jobplaybook.driver_errors import ChunkTooSlow
from jobplaybook.errors import SourceError
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.snapshot.pace import Pace, read_ahead
from jobplaybook.units import parse_time
from tests.captures import (
    capture,
    capture_by,
    command,
    command_line,
    files,
    look,
    meddling,
    meta,
    refusal,
    text_of,
)
from tests.conftest import REPOSITORY
from tests.postgres import Database
from tests.procrastinate_app import awaited, execute, filled, install, rows, start

CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'jobplaybook'"
)
TABLES = ("procrastinate_jobs", "procrastinate_events", "procrastinate_workers")


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue with jobs of every status."""
    return filled(install(database.url))


# The budget


class StepClock:
    """A clock that only moves while it sleeps: a rest of a second makes a statement a second."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._seconds, UTC)

    def monotonic(self) -> float:
        return self._seconds

    def sleep(self, seconds: float) -> None:
        self._seconds += seconds


def ends(url: str) -> dict[str, int]:
    """Return when each finished job ended, by the library's own events."""
    found = rows(
        url,
        "SELECT job_id::text, (extract(epoch FROM max(at)) * 1000000)::bigint"
        " FROM procrastinate_events WHERE type IN ('succeeded', 'failed') GROUP BY 1",
    )
    return dict(found)


def test_a_budget_is_kept_and_what_it_left_out_is_said(queue: str, tmp_path: Path) -> None:
    """For every budget from none to enough: an honest, usable snapshot of what was read."""
    path, budget, gaps = tmp_path / "a.db", 0.5, set()
    # one end was written last by a transaction that had begun ten hours earlier
    execute(
        queue,
        "UPDATE procrastinate_events SET at = at - interval '10 hours'"
        " WHERE id = (SELECT max(id) FROM procrastinate_events WHERE type = 'failed')",
    )
    while True:
        report = capture_by(
            Reader,
            queue,
            path,
            clock=StepClock(),
            budget_seconds=budget,
            pause_seconds=1.0,
            chunk=10,
        )
        statuses = dict(look(path, "SELECT id, native_status FROM jobs"))
        assert report.rows_by_status["doing"] == 3
        if "unfinished" not in report.not_read:
            assert report.rows_by_status["todo"] == 20
        covered_from = parse_time(meta(path)["window_from"])
        assert {job for job, at in ends(queue).items() if at >= covered_from} <= statuses.keys()
        assert all(
            f"the budget of {budget:g} s was used up" in why for why in report.not_read.values()
        )
        answer = api.triage(str(path)).to_json()
        told = [f["evidence"]["not_read"] for f in answer["findings"] if f["code"] == "data-blind"]
        assert told == [report.not_read]
        if not report.not_read:
            break
        gaps.add(tuple(sorted(report.not_read)))
        budget += 1.0
    assert gaps == {("finished", "unfinished"), ("finished",)}
    assert len(statuses) == 58


def test_a_given_moment_and_no_budget_still_make_a_usable_snapshot(
    queue: str, tmp_path: Path
) -> None:
    """With `--now` the window that was read may have no length at all."""
    path = tmp_path / "a.db"
    now = parse_time("2026-12-01T04:00:00Z")
    report = capture(queue, path, now=now, budget_seconds=1e-9)
    assert set(report.not_read) == {"unfinished", "finished"}
    answer = api.triage(str(path))
    assert answer.to_json()["counts"] == {"processing": 3}
    assert answer.verdict.code != "healthy"


# A statement that is too slow


def slow_beyond(size: int, *, only: str = "") -> type[Reader]:
    """Return a reader whose statements time out where they give more rows than ``size``."""

    class Slow(Reader):
        def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
            found = super().rows(statement, **binds)
            text = text_of(self, statement)
            if len(found) > size and only in text and "pg_catalog" not in text:
                raise ChunkTooSlow("out of time")
            return found

    return Slow


def test_a_chunk_that_is_too_slow_is_asked_for_again_in_parts(queue: str, tmp_path: Path) -> None:
    """Smaller statements bring the same file."""
    execute(
        queue,
        "INSERT INTO procrastinate_jobs (queue_name, task_name)"
        " SELECT 'q', 'send' FROM generate_series(1, 700)",
    )
    start(queue, 1)
    options: dict[str, Any] = {"now": parse_time("2026-12-01T12:00:00Z"), "take_vitals": False}
    plain = capture_by(Reader, queue, tmp_path / "a.db", **options)
    parts = capture_by(slow_beyond(250), queue, tmp_path / "b.db", **options)
    assert parts.not_read == {}
    assert parts.content_sha256 == plain.content_sha256


@pytest.mark.parametrize(
    ("only", "phase"),
    [("ORDER BY public.procrastinate_jobs.id", "unfinished"), ("chunk", "finished")],
)
def test_what_stays_too_slow_is_said(queue: str, tmp_path: Path, only: str, phase: str) -> None:
    """Even the smallest chunk times out: the rest is read, and the gap is told."""
    report = capture_by(slow_beyond(0, only=only), queue, tmp_path / "a.db")
    assert list(report.not_read) == [phase]
    assert "even 100 rows took longer than 5 s" in report.not_read[phase]
    assert report.rows_by_status["doing"] == 3


def test_running_jobs_that_are_too_many_are_read_in_chunks(queue: str, tmp_path: Path) -> None:
    """The first statement may fail: each chunk has the heartbeats and the clock as well."""
    report = capture_by(
        slow_beyond(0, only="WHERE public.procrastinate_jobs.status = 'doing'"),
        queue,
        tmp_path / "a.db",
    )
    assert report.rows_by_status["doing"] == 3
    assert report.not_read == {}
    assert any("too many to read in one statement" in warning for warning in report.warnings)


# Locks


@pytest.mark.parametrize("table", TABLES)
def test_a_locked_table_is_given_up_at_once(queue: str, tmp_path: Path, table: str) -> None:
    """Exit code 4 in one line: a reader that waits would stop every claim behind it."""
    with psycopg.connect(queue) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        done = command_line(
            "capture", "env:U", "-o", str(tmp_path / "a.db"), environ={"U": queue}, timeout=60
        )
    assert done.returncode == 4
    assert "a table is locked by somebody else; gave up after 200 ms" in refusal(done)
    assert files(tmp_path) == []


def test_nobody_waits_behind_a_capture(queue: str, tmp_path: Path) -> None:
    """Between two statements the queue's tables are free for whoever wants them alone."""
    taken = 0

    def before(number: int, text: str) -> None:
        nonlocal taken
        with psycopg.connect(queue) as other:
            other.execute("SET lock_timeout = '1s'")
            other.execute(f"LOCK TABLE {', '.join(TABLES)} IN ACCESS EXCLUSIVE MODE")
        taken += 1

    capture_by(meddling(before), queue, tmp_path / "a.db", chunk=20)
    assert taken > 10


# The end in the middle


def test_a_server_that_goes_away_leaves_no_file(queue: str, tmp_path: Path) -> None:
    """At whatever statement the connection is cut: exit code 4, and nothing is left."""
    numbers: list[int] = []
    capture_by(meddling(lambda n, _: numbers.append(n)), queue, tmp_path / "whole.db", chunk=20)
    for at in numbers:
        cutting = meddling(lambda n, _: execute(queue, CUT) if n == at else None)  # noqa: B023
        with pytest.raises(SourceError, match="connection to the database was lost") as told:
            capture_by(cutting, queue, tmp_path / "a.db", chunk=20)
        assert told.value.exit_code == 4
    assert files(tmp_path) == ["whole.db"]


@contextmanager
def slow_capture(queue: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a capture as a process that takes its time."""
    words = ("capture", "env:U", "-o", str(folder / "a.db"), "--chunk", "1", "--pause", "250ms")
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "U": queue}
    with subprocess.Popen(
        command(*words), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def connected_for(queue: str, seconds: float) -> bool:
    return bool(
        rows(
            queue,
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'jobplaybook'"
            " AND datname = current_database()"
            " AND clock_timestamp() - backend_start > %s * interval '1 second'",
            seconds,
        )
    )


def interrupt(process: subprocess.Popen[str], queue: str) -> None:
    process.send_signal(signal.SIGINT)


def disconnect(process: subprocess.Popen[str], queue: str) -> None:
    execute(queue, CUT)


@pytest.mark.parametrize(
    ("ending", "code", "line"),
    [
        (interrupt, 130, "jobplaybook: interrupted\n"),
        (
            disconnect,
            4,
            "jobplaybook: env:U: the connection to the database was lost (57P01: terminating"
            " connection due to administrator command)\n",
        ),
    ],
)
@pytest.mark.parametrize("seconds", [0.1, 2.5])
def test_a_capture_that_is_ended_leaves_no_file(
    queue: str,
    tmp_path: Path,
    ending: Callable[[subprocess.Popen[str], str], None],
    code: int,
    line: str,
    seconds: float,
) -> None:
    """Ctrl-C or a server that goes away, early or late: its code, one line, an empty folder."""
    with slow_capture(queue, tmp_path) as process:
        awaited(lambda: connected_for(queue, seconds), "the capture to be under way")
        ending(process, queue)
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out, said) == (code, "", line)
    assert files(tmp_path) == []


class NappingClock(StepClock):
    """A clock whose naps are counted and short."""

    naps = 0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.naps += 1
        time.sleep(0.001)


def test_ctrl_c_need_not_wait_for_a_long_rest(queue: str) -> None:
    """Whoever writes fails while the other thread rests for an hour: both end at once."""
    clock = NappingClock()
    with open_reader(resolve(queue)) as reader:
        pace = Pace(reader, clock, CaptureOptions(pause_seconds=3_600.0))
        resting = (pace.rows(sa.text("SELECT 1")) for _ in [1, 2])
        with pytest.raises(KeyboardInterrupt):
            fail_during_a_rest(read_ahead(chain([[]], resting), stop=pace.stop), clock)
    assert 0 < clock.naps < 3_600 / 0.2 / 10
    with pytest.raises(SourceError, match="stopped"):
        pace.rows(sa.text("SELECT 1"))


def fail_during_a_rest(batches: Iterator[Sequence[object]], clock: NappingClock) -> None:
    for _ in batches:
        awaited(lambda: clock.naps, "the other thread to rest")
        raise KeyboardInterrupt
