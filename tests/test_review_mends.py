"""What a capture owes queue and reader where things go wrong: standbys, slow rows, races."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook import api
from jobplaybook.connect import Reader
from jobplaybook.driver_errors import ChunkTooSlow
from jobplaybook.errors import SchemaError
from jobplaybook.units import parse_time
from tests.captures import (
    ZEROS,
    capture,
    capture_by,
    command,
    command_line,
    files,
    look,
    meta,
    text_of,
)
from tests.conftest import REPOSITORY
from tests.postgres import Database, Postgres, running_server
from tests.postgres_server import NoServer, Server
from tests.procrastinate_app import awaited, execute, filled, install, rows

LAG = (
    "SELECT extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8"
    " WHERE pg_is_in_recovery()"
)
ENDS = (
    "SELECT job_id, (extract(epoch FROM max(at)) * 1000000)::bigint FROM procrastinate_events"
    " WHERE type IN ('succeeded', 'failed') GROUP BY 1"
)


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue with jobs of every status."""
    return filled(install(database.url))


# A standby shows the past


def become_standby(server: Postgres) -> None:
    """Crash a server and let it replay its log as a standby that nobody sends anything more."""
    folder = Path(server.login["host"])
    programs = Path((folder / "data" / "postmaster.opts").read_text().split()[0]).parent
    owner = (folder / "data").stat().st_uid
    uid = None if owner == os.geteuid() else owner
    (folder / "data" / "standby.signal").touch()
    os.chown(folder / "data" / "standby.signal", owner, -1)
    where = (f"--pgdata={folder / 'data'}", f"--log={folder / 'log'}")
    own = Server(binaries=programs, folder=folder, uid=uid)
    done = own.call("pg_ctl", "restart", "--wait", "--mode=immediate", *where)
    assert done.returncode == 0, done.stderr + (folder / "log").read_text()


@pytest.fixture(scope="module")
def standby() -> Iterator[tuple[str, int]]:
    """Give a standby's URL and the primary's clock after the last thing that was replayed there.

    In it a worker beat at the very last transaction, and holds three jobs.
    """
    try:
        with running_server() as server:
            url = filled(install(server.create("jobs")))
            execute(
                url,
                "CHECKPOINT",
                "SET synchronous_commit = on",
                "UPDATE procrastinate_workers SET last_heartbeat = clock_timestamp()",
            )
            clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            last = rows(url, clock)[0][0]
            become_standby(server)
            yield url, last
    except NoServer as error:
        pytest.skip(str(error))


def test_a_standby_is_judged_by_the_moment_it_shows(
    standby: tuple[str, int], tmp_path: Path
) -> None:
    """Law: on a standby "now" is its last replayed transaction, so nobody looks dead for the lag.

    Judged 200 ms after that moment, and so by the present clock too, the lease would be over.
    """
    url, last = standby
    path = tmp_path / "a.db"
    awaited(lambda: rows(url, LAG)[0][0] > 0.3, "the standby to fall behind")
    words = ("--lease", "200ms")
    done = command_line("capture", "env:U", "-o", str(path), *words, environ={"U": url})
    assert done.returncode == 0, done.stderr
    assert "warning: read from a standby" in done.stderr
    assert "behind its primary: everything is as of" in done.stderr
    assert parse_time(meta(path)["captured_at"]) <= last
    answer = api.triage(str(path)).to_json()
    codes = {finding["code"] for finding in answer["findings"]}
    assert not codes & {"lease-expired", "workers-lost"}
    assert any("read from a standby" in warning for warning in answer["warnings"])
    late = api.triage(str(path), now=last + 200_000).to_json()
    assert "lease-expired" in {finding["code"] for finding in late["findings"]}


def test_a_primary_is_no_standby(queue: str, tmp_path: Path) -> None:
    """Law: on a primary nothing is said of a standby, and "now" is the present."""
    before = rows(queue, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0]
    report = capture(queue, tmp_path / "a.db")
    assert report.captured_from >= before
    assert not [warning for warning in report.warnings if "standby" in warning]


# Rows that are too slow, and a budget that ends among them


class StepClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Slow(Reader):
    """A reader to whom jobs statements of a poison key are too slow, 5 s each by its clock."""

    poison: frozenset[int] = frozenset()
    clock = StepClock()
    asked: list[tuple[float, int]]

    def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
        keys = keys_of(binds) if "native_status" in text_of(self, statement) else []
        if keys:
            self.asked.append((self.clock.seconds, len(keys)))
        if self.poison & set(keys):
            self.clock.seconds += 5.0
            raise ChunkTooSlow("a statement was out of time")
        return super().rows(statement, **binds)


def keys_of(binds: dict[str, Any]) -> list[int]:
    if "low" in binds:
        return list(range(binds["low"], binds["high"] + 1))
    return list(binds.get("keys", ()))


def slow_for(*poison: int) -> type[Slow]:
    made = {"poison": frozenset(poison), "clock": StepClock(), "asked": []}
    return type("SlowFor", (Slow,), made)


@pytest.fixture
def long_queue(queue: str) -> str:
    """Give the queue with 700 waiting jobs more, of the ids 59 to 758."""
    execute(
        queue,
        "INSERT INTO procrastinate_jobs (queue_name, task_name)"
        " SELECT 'q', 'send' FROM generate_series(1, 700)",
    )
    return queue


def test_a_poison_row_costs_itself_only(long_queue: str, tmp_path: Path) -> None:
    """Law: a slow chunk is halved down to its slow row; that is said, and all else is read.

    Without the split everything from the chunk of 700 on would be missing.
    """
    reader = slow_for(600)
    path = tmp_path / "a.db"
    report = capture_by(
        reader, long_queue, path, clock=reader.clock, chunk=1_000, budget_seconds=600
    )
    there = {int(job) for (job,) in look(path, "SELECT id FROM jobs")}
    assert set(range(1, 759)) - there == {600}
    assert report.not_read == {"unfinished": "1 job: reading them took longer than 5 s"}
    sizes = [size for _, size in reader.asked]
    assert sizes[0] >= 720
    assert sizes[1] <= sizes[0] // 2 + 1
    # Halves of halves: the number of statements grows with the logarithm of the chunk.
    assert len(sizes) < 30
    blind = [f.evidence for f in api.triage(str(path)).findings if f.code == "data-blind"]
    assert [evidence["not_read"] for evidence in blind] == [report.not_read]


def test_a_slow_row_is_put_off(long_queue: str, tmp_path: Path) -> None:
    """Law: the budget goes to what can be read; the slow row is looked for with what is left.

    It takes seven looks of 5 s to tell one of a hundred rows from the others: taken at once, they
    would cost every finished job.
    """
    reader = slow_for(100)
    path = tmp_path / "a.db"
    report = capture_by(reader, long_queue, path, clock=reader.clock, chunk=100, budget_seconds=9.0)
    assert report.not_read.keys() == {"unfinished"}
    assert report.not_read["unfinished"].endswith(" jobs: reading them took longer than 5 s")
    assert report.rows_by_status["succeeded"] == 30
    assert report.rows_by_status["failed"] == 5


def test_a_slow_chunk_makes_the_next_ones_smaller(long_queue: str, tmp_path: Path) -> None:
    """Law: one statement out of time, and no later chunk is as large as it was."""
    reader = slow_for(59)
    capture_by(reader, long_queue, tmp_path / "a.db", clock=reader.clock, chunk=400)
    (first, *later) = [size for _, size in reader.asked if size > 100]
    assert first == 400
    assert max(later) <= 200


@pytest.mark.parametrize("budget", [4.0, 9.0, 14.0])
def test_beyond_the_budget_no_row_is_asked_for(
    long_queue: str, tmp_path: Path, budget: float
) -> None:
    """Law: no statement on jobs begins after the budget, however many parts are still to read."""
    reader = slow_for(*range(59, 759))
    path = tmp_path / "a.db"
    report = capture_by(
        reader, long_queue, path, clock=reader.clock, chunk=1_000, budget_seconds=budget
    )
    assert all(at < budget for at, _ in reader.asked)
    assert len(reader.asked) == budget // 5 + 1
    assert f"the budget of {budget:g} s was used up" in report.not_read["unfinished"]
    assert report.not_read["unfinished"].startswith(("720 jobs: ", "7"))


def test_the_window_is_whole_even_where_the_budget_ended_in_it(queue: str, tmp_path: Path) -> None:
    """Law: every job that ended after window_from is in the file, or window_from is too early.

    The oldest ended jobs are slow: they are left out when the budget ends, and the window begins
    after the last of them, although their ends were listed.
    """
    reader = slow_for(*range(1, 11))
    path = tmp_path / "a.db"
    report = capture_by(reader, queue, path, clock=reader.clock, chunk=10, budget_seconds=4.0)
    ends = dict(rows(queue, ENDS))
    there = {int(job) for (job,) in look(path, "SELECT id FROM jobs")}
    left_out = ends.keys() - there
    assert left_out
    assert report.not_read.keys() == {"finished"}
    whole_from = parse_time(meta(path)["window_from"])
    assert whole_from > max(ends[job] for job in left_out)
    assert {job for job, at in ends.items() if at >= whole_from} <= there


def test_every_reason_is_said(long_queue: str, tmp_path: Path) -> None:
    """Law: that the budget ended does not hide that rows were too slow before."""
    reader = slow_for(59, *range(500, 759))
    report = capture_by(
        reader, long_queue, tmp_path / "a.db", clock=reader.clock, chunk=100, budget_seconds=9.0
    )
    told = report.not_read["unfinished"]
    assert "took longer than 5 s" in told
    assert "the budget of 9 s was used up" in told


# A capture that others run beside, or end


def start_capture(url: str, path: Path, *words: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "U": url}
    return subprocess.Popen(
        command("capture", "env:U", "-o", str(path), *words),
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def readers(url: str) -> int:
    asked = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jobplaybook'"
        " AND datname = current_database()"
    )
    count: int = rows(url, asked)[0][0]
    return count


@contextmanager
def under_way(processes: Sequence[subprocess.Popen[str]], url: str) -> Iterator[None]:
    """Wait until all of them read; whatever happens, none is left running."""
    try:
        awaited(lambda: readers(url) == len(processes), "every capture to be under way")
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_captures_that_race_for_a_new_key_leave_nothing_unreadable(
    queue: str, tmp_path: Path
) -> None:
    """Law: a snapshot that is left was hashed with the key that is left beside it.

    Each of them reads before any key is there, so each has made a key of its own.
    """
    paths = [tmp_path / f"{name}.db" for name in "ab"]
    slow = ("--chunk", "10", "--pause", "150ms", "--tenant-path", "args.tenant")
    processes = [start_capture(queue, path, *slow) for path in paths]
    with under_way(processes, queue):
        assert not (tmp_path / "jobplaybook.key").exists()
        said = [process.communicate(timeout=60)[1] for process in processes]
    codes = [process.returncode for process in processes]
    left = [path for path in paths if path.exists()]
    assert [path.exists() for path in paths] == [code == 0 for code in codes], said
    assert sorted(codes) == [0, 2]
    assert "another capture made the key file" in said[codes.index(2)]
    assert files(tmp_path) == sorted([*(path.name for path in left), "jobplaybook.key"])
    for path in left:
        assert api.find(str(path), by="tenant", value="t1").total > 0
    again = paths[codes.index(2)]
    with start_capture(queue, again, "--tenant-path", "args.tenant") as process:
        process.communicate(timeout=60)
    assert meta(again)["key_id"] == meta(left[0])["key_id"]


def test_a_capture_that_is_told_to_end_leaves_no_file(queue: str, tmp_path: Path) -> None:
    """Law: SIGTERM in the middle is exit code 143 and an empty folder; SIGKILL is what leaves one.

    The draft that SIGKILL leaves shows that there was something to take along.
    """
    slow = ("--chunk", "1", "--pause", "250ms")
    for ending, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        process = start_capture(queue, tmp_path / "a.db", *slow)
        with under_way([process], queue):
            awaited(lambda: files(tmp_path), "a file that is half written")
            process.send_signal(ending)
            process.communicate(timeout=30)
        assert process.returncode == code
        assert (not files(tmp_path)) == (ending == signal.SIGTERM)


# The file


@pytest.mark.parametrize("older", [False, True])
def test_only_its_owner_may_read_a_snapshot(queue: str, tmp_path: Path, older: bool) -> None:
    """Law: a snapshot has mode 0600, also where it replaces one that everybody may read."""
    path = tmp_path / "a.db"
    mask = os.umask(0)
    try:
        if older:
            capture(queue, path)
            path.chmod(0o644)
        capture(queue, path)
    finally:
        os.umask(mask)
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()} == {0o600}


def test_a_job_may_be_named_like_the_hash(
    queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: no text of a job is mistaken for the place of the hash.

    With the old fixed text in its place instead of a random one, the file would not open.
    """
    name = f"content_sha256{ZEROS}"
    execute(
        queue,
        "INSERT INTO procrastinate_jobs (queue_name, task_name)"
        f" SELECT 'q', '{name}' FROM generate_series(1, 300)",
    )
    path = tmp_path / "a.db"
    report = capture(queue, path)
    with api.open_snapshot(str(path)) as snapshot:
        asked = sa.text("SELECT count(*) FROM jobs WHERE job_type = :name")
        assert snapshot.rows(asked, name=name) == [(300,)]
    assert look(path, "SELECT value FROM meta WHERE key = 'content_sha256'") == [
        (report.content_sha256,)
    ]
    monkeypatch.setattr("jobplaybook.snapshot.file.secrets.token_hex", lambda n: ZEROS[: 2 * n])
    capture(queue, path)
    with pytest.raises(SchemaError), api.open_snapshot(str(path)):
        pass
