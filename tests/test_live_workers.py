"""Captures beside real procrastinate workers: rows move, workers die, and the truth is kept."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import procrastinate
import pytest
from procrastinate import exceptions

from jobplaybook import api
from jobplaybook.sources.base import ReadOptions
from jobplaybook.units import iso, to_micros
from tests.captures import capture, command_line, look
from tests.postgres import Database, Postgres
from tests.procrastinate_app import awaited, client, defer, install, rows, worker

CAPTURES = 50
FINAL = {"quick": "succeeded", "flaky": "succeeded", "broken": "failed"}
NATIVE = "Native statement, to be copied and checked: "


def statuses(url: str) -> dict[str, str]:
    return dict(rows(url, "SELECT id::text, status::text FROM procrastinate_jobs"))


def unfinished(url: str) -> int:
    found = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    return int(rows(url, found)[0][0])


def settled(url: str) -> bool:
    return unfinished(url) == 0


def has_status(url: str, job: int, status: str) -> bool:
    return statuses(url)[str(job)] == status


# Rows that change while we read


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One capture: the jobs that were there before it, and what it saw."""

    before: frozenset[str]
    seen: Mapping[str, str]
    expired: tuple[str, ...]
    gaps: tuple[str, ...]
    moved: int


def keep_busy(app: procrastinate.App) -> None:
    """Defer about as much work as gets done while one capture reads."""
    defer(app, "quick", 20)
    defer(app, "flaky", 8)
    defer(app, "broken", 2)


def observe(url: str, path: Path) -> Observation:
    before = frozenset(statuses(url))
    report = capture(url, path, chunk=40, read=ReadOptions(lease_seconds=10.0))
    seen = dict(look(path, "SELECT id, native_status FROM jobs"))
    assert report.not_read == {}
    assert Counter(seen.values()) == Counter(report.rows_by_status)
    numbered = look(path, "SELECT job_id, max(attempt), count(*) FROM attempts GROUP BY 1")
    return Observation(
        before=before,
        seen=seen,
        expired=tuple(
            id for (id,) in look(path, "SELECT id FROM jobs WHERE locked_until < read_at")
        ),
        gaps=tuple(job for job, last, count in numbered if last != count),
        moved=report.moved_during_capture,
    )


def test_jobs_that_move_are_neither_lost_nor_doubled(database: Database, tmp_path: Path) -> None:
    """Fifty captures of a queue at speed: every job is there once, none is falsely expired."""
    url = install(database.url)
    with client(url) as app, worker(url), worker(url):
        found = []
        for _ in range(CAPTURES):
            keep_busy(app)
            found.append(observe(url, tmp_path / "moving.db"))
        awaited(lambda: settled(url), "the workers to finish")
    final = statuses(url)
    for one in found:
        assert one.before <= one.seen.keys() <= final.keys()
        ended = {job for job, status in one.seen.items() if status in ("succeeded", "failed")}
        assert all(final[job] == one.seen[job] for job in ended)
        assert (one.expired, one.gaps) == ((), ())
    assert sum(one.moved for one in found) > 0
    assert_as_the_database_has_it(url, tmp_path / "settled.db")


def assert_as_the_database_has_it(url: str, path: Path) -> None:
    """Compare a capture of a queue at rest with the queue, job by job."""
    capture(url, path, chunk=40)
    assert dict(look(path, "SELECT id, native_status FROM jobs")) == statuses(url)
    truth = rows(
        url,
        "SELECT j.task_name, j.status::text, count(DISTINCT j.id), count(*)"
        " FROM procrastinate_jobs j JOIN procrastinate_events e ON e.job_id = j.id"
        " WHERE e.type = 'started' GROUP BY 1, 2 ORDER BY 1, 2",
    )
    assert {(name, status) for name, status, *_ in truth} == set(FINAL.items())
    assert truth == look(
        path,
        "SELECT j.job_type, j.native_status, count(DISTINCT j.id), count(*) FROM jobs j"
        " JOIN attempts a ON a.job_id = j.id GROUP BY 1, 2 ORDER BY 1, 2",
    )
    assert look(path, "SELECT count(*) FROM attempts WHERE ended_at IS NULL") == [(0,)]


# A worker that dies


def silent(url: str, owner: int, seconds: int) -> bool:
    return bool(
        rows(
            url,
            "SELECT 1 FROM procrastinate_workers"
            " WHERE id = %s AND last_heartbeat < clock_timestamp() - %s * interval '1 second'",
            owner,
            seconds,
        )
    )


def running(url: str, owner: int) -> list[str]:
    found = "SELECT id FROM procrastinate_jobs WHERE status = 'doing' AND worker_id = %s"
    return sorted((str(id) for (id,) in rows(url, found, owner)), key=int)


def test_a_dead_workers_jobs_are_named_and_requeued(database: Database, tmp_path: Path) -> None:
    """After a real SIGKILL the verdict names its jobs and no other; its statement frees them."""
    url = install(database.url)
    with client(url) as app, worker(url) as doomed:
        held = [str(job) for job in defer(app, "hanging", 3)]
        awaited(lambda: running(url, doomed.id) == held, "the jobs to run")
        with worker(url, "--concurrency", "8") as survivor:
            doomed.kill()
            own = [str(job) for job in defer(app, "hanging", 2)]
            awaited(lambda: running(url, survivor.id) == own, "the other worker's jobs to run")
            awaited(lambda: silent(url, doomed.id, 3), "the lease to run out")
            verdict = triage(url, "--lease", "3s")
            assert verdict["code"] == "lease-expired"
            assert (verdict["count"], verdict["job_ids"]) == (3, held)
            assert verdict["evidence"]["owners"] == [str(doomed.id)]
            (advice,) = [step for step in verdict["next"] if step.startswith(NATIVE)]
            assert len(rows(url, advice.removeprefix(NATIVE))) == 3
            awaited(lambda: all(has_status(url, int(job), "succeeded") for job in held), "the rest")
            assert running(url, survivor.id) == own
            capture(url, tmp_path / "after.db", read=ReadOptions(lease_seconds=3.0))
    ran = "SELECT attempt, outcome, owner FROM attempts WHERE job_id = ? ORDER BY 1"
    for job in held:
        assert look(tmp_path / "after.db", ran, job) == [
            (1, "unknown", None),
            (2, "succeeded", str(survivor.id)),
        ]


def triage(url: str, *words: str) -> dict[str, Any]:
    """Return the first finding of the command line."""
    done = command_line("triage", "env:U", "--json", *words, environ={"U": url})
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    first = answer["findings"][0]
    assert first["code"] == answer["verdict"]["code"]
    return dict(first)


# One of each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A queue with one job of each kind, and its snapshot in clear text."""

    url: str
    path: Path
    jobs: Mapping[str, int]
    owner: str
    due_at: datetime

    def job(self, kind: str, columns: str) -> tuple[object, ...]:
        (row,) = look(self.path, f"SELECT {columns} FROM jobs WHERE id = ?", str(self.jobs[kind]))
        return row

    def attempts(self, kind: str) -> list[tuple[object, ...]]:
        return look(
            self.path,
            "SELECT attempt, outcome, owner, ended_at >= started_at FROM attempts"
            " WHERE job_id = ? ORDER BY 1",
            str(self.jobs[kind]),
        )


def a_job_of_each_kind(app: procrastinate.App, due_at: datetime) -> dict[str, int]:
    jobs = {task: defer(app, task)[0] for task in ("quick", "flaky", "broken")}
    jobs["retried"] = defer(app, "broken")[0]
    jobs["locking"] = defer(app, "hanging", lock="order-canary-1")[0]
    jobs["locked"] = defer(app, "quick", lock="order-canary-1")[0]
    jobs["aborted"] = defer(app, "hanging")[0]
    jobs["later"] = defer(app, "quick", schedule_at=due_at, queueing_lock="once-canary")[0]
    jobs["cancelled"] = defer(app, "quick", schedule_at=due_at)[0]
    with pytest.raises(exceptions.AlreadyEnqueued):
        defer(app, "quick", queueing_lock="once-canary")
    return jobs


def ends(url: str, job: int) -> int:
    found = "SELECT count(*) FROM procrastinate_events WHERE job_id = %s AND type = 'failed'"
    return int(rows(url, found, job)[0][0])


def ticks(url: str) -> int:
    found = "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'tick' AND status <> 'todo'"
    return int(rows(url, found)[0][0])


@pytest.fixture(scope="module")
def day(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """Let a real worker meet a job of each kind, and capture what became of them."""
    name = f"jobplaybook_day_{secrets.token_hex(6)}"
    url = install(postgres.create(name))
    path = tmp_path_factory.mktemp("day") / "day.db"
    due_at = datetime.now(UTC) + timedelta(hours=1)
    with client(url) as app, worker(url, "--ticking", "--concurrency", "6") as busy:
        jobs = a_job_of_each_kind(app, due_at)
        assert app.job_manager.cancel_job_by_id(jobs["cancelled"])
        awaited(lambda: has_status(url, jobs["aborted"], "doing"), "the job to abort")
        app.job_manager.cancel_job_by_id(jobs["aborted"], abort=True)
        awaited(lambda: ends(url, jobs["retried"]) == 1, "the first failure")
        app.job_manager.retry_job_by_id(jobs["retried"], datetime.now(UTC))
        awaited(lambda: ends(url, jobs["retried"]) == 2, "the second failure")
        for kind, status in (("aborted", "aborted"), ("locking", "doing"), ("flaky", "succeeded")):
            awaited(lambda: has_status(url, jobs[kind], status), kind)  # noqa: B023 (awaited here)
        awaited(lambda: ticks(url) >= 2, "two ticks")
        capture(url, path, keep_text=True)
        yield Day(url=url, path=path, jobs=jobs, owner=str(busy.id), due_at=due_at)
    postgres.drop(name)


@pytest.mark.parametrize(
    ("kind", "status", "native", "attempts"),
    [
        ("quick", "completed", "succeeded", 1),
        ("flaky", "completed", "succeeded", 2),
        ("broken", "dead", "failed", 1),
        ("retried", "dead", "failed", 2),
        ("locking", "processing", "doing", 1),
        ("locked", "pending", "todo", 0),
        ("aborted", "cancelled", "aborted", 1),
        ("later", "pending", "todo", 0),
        ("cancelled", "cancelled", "cancelled", 0),
    ],
)
def test_every_status_has_its_canonical_word(
    day: Day, kind: str, status: str, native: str, attempts: int
) -> None:
    """STYLE's table of statuses holds for rows that the library wrote itself."""
    assert day.job(kind, "status, native_status, attempts") == (status, native, attempts)
    has_end = status in ("completed", "dead", "cancelled")
    assert day.job(kind, "finished_at IS NOT NULL, finished_at >= created_at") == (
        has_end,
        True if has_end else None,
    )
    held = status == "processing"
    assert day.job(kind, "owner, locked_until IS NOT NULL") == (day.owner if held else None, held)


@pytest.mark.parametrize(
    ("kind", "outcomes"),
    [
        ("quick", ["succeeded"]),
        ("flaky", ["unknown", "succeeded"]),  # a failure and a rescue leave the same event
        ("broken", ["failed"]),
        ("retried", ["failed", "failed"]),
        ("locking", ["running"]),
        ("locked", []),
        ("aborted", ["cancelled"]),
        ("cancelled", []),
    ],
)
def test_every_attempt_has_its_outcome(day: Day, kind: str, outcomes: list[str]) -> None:
    """One row a start; only the last has an owner, for the library keeps no other."""
    last = len(outcomes)
    assert day.attempts(kind) == [
        (n, outcome, day.owner if n == last else None, None if outcome == "running" else True)
        for n, outcome in enumerate(outcomes, start=1)
    ]


def test_locks_are_shards_and_keys(day: Day) -> None:
    """`lock` is the serial shard, `queueing_lock` the idempotency key."""
    assert day.job("locking", "shard, idempotency_key") == ("order-canary-1", None)
    assert day.job("locked", "shard, idempotency_key") == ("order-canary-1", None)
    assert day.job("later", "shard, idempotency_key, key_shape") == (None, "once-canary", "plain")


def test_due_times_are_those_of_the_library(day: Day) -> None:
    """A scheduled job is available when it is due, any other when it was created."""
    assert day.job("later", "available_at") == (to_micros(day.due_at),)
    assert day.job("quick", "available_at = created_at") == (1,)


def test_the_flow_counts_neither_the_scheduled_nor_the_locked(day: Day) -> None:
    """Nothing is claimable: one job is not due, one waits behind its lock."""
    answer = api.triage(str(day.path)).to_json()
    by_queue = {queue["queue"]: queue for queue in answer["queues"]}
    assert (by_queue["fast"]["waiting"], by_queue["fast"]["claimable"]) == (2, 0)
    assert answer["states"]["scheduled"] == 1


def test_cron_windows_are_told(day: Day) -> None:
    """The last tick of a periodic task is a window, and its jobs say which one they are."""
    ((schedule, at, job),) = look(day.path, "SELECT schedule, window_at, job_id FROM windows")
    assert schedule == "tick/second"
    told = dict(look(day.path, "SELECT id, scheduled_window FROM jobs WHERE job_type = 'tick'"))
    assert len(told) >= 2
    assert len(set(told.values())) == len(told)
    assert told[job] == iso(at)
    others = "SELECT count(scheduled_window) FROM jobs WHERE job_type <> 'tick'"
    assert look(day.path, others) == [(0,)]
