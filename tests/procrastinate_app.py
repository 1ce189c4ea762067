"""Procrastinate itself: its own schema, tasks that do what a test wants, workers as processes.

Run as a program it is one worker, until it is stopped: ``python -m tests.procrastinate_app URL``.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import procrastinate
import psycopg
from procrastinate.schema import SchemaManager

from tests.conftest import REPOSITORY

BEAT_SECONDS = 0.1
PATIENCE_SECONDS = 60.0
FOR_EVER = 3_600.0


def rows(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of one statement, run outside a transaction of our own."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode(), values or None).fetchall()


def execute(url: str, *statements: str) -> None:
    """Run statements that give no rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def install(url: str) -> str:
    """Apply the library's own schema, with its indexes and triggers; return the URL."""
    execute(url, SchemaManager.get_schema())
    return url


def start(url: str, count: int) -> None:
    """Let the worker fetch jobs, as the library does."""
    worker = "(SELECT min(id) FROM procrastinate_workers)"
    execute(url, *[f"SELECT procrastinate_fetch_job_v2(NULL, {worker})"] * count)


def finish(url: str, status: str = "succeeded") -> None:
    """End whatever runs, as the library does."""
    execute(
        url,
        f"SELECT procrastinate_finish_job_v1(id, '{status}', false)"
        " FROM procrastinate_jobs WHERE status = 'doing'",
    )


def filled(url: str) -> str:
    """Fill a queue of one worker: 30 jobs succeeded, 5 failed, 3 run, 20 wait; return the URL."""
    execute(
        url,
        "SELECT procrastinate_register_worker_v1()",
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
        " SELECT 'q', 'send', jsonb_build_object('tenant', 't' || n % 3)"
        " FROM generate_series(1, 58) n",
    )
    for status, count in (("succeeded", 30), ("failed", 5), (None, 3)):
        start(url, count)
        if status is not None:
            finish(url, status)
    return url


def awaited(condition: Callable[[], Any], what: str) -> Any:
    """Return the condition's value as soon as it is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"waited in vain for {what}")


def make_app(connector: procrastinate.BaseConnector, *, ticking: bool = False) -> procrastinate.App:
    """Return the application of the tests; ``ticking`` adds a task that is due every second."""
    app = procrastinate.App(connector=connector)

    @app.task(name="quick", queue="fast")
    async def quick(**payload: object) -> None:
        await asyncio.sleep(0)

    @app.task(name="flaky", queue="fast", pass_context=True, retry=2)
    async def flaky(context: procrastinate.JobContext, /, **payload: object) -> None:
        if context.job.attempts < 1:
            raise RuntimeError("error-canary 4111-1111")

    @app.task(name="broken", queue="fast")
    async def broken(**payload: object) -> None:
        raise RuntimeError("error-canary 4111-1111")

    # It hangs at its first attempt only: whoever takes it over gets it done.
    @app.task(name="hanging", queue="slow", pass_context=True)
    async def hanging(context: procrastinate.JobContext, /, **payload: object) -> None:
        if context.job.attempts < 1:
            await asyncio.sleep(FOR_EVER)

    @app.task(name="tick", queue="cron")
    async def tick(timestamp: int) -> None:
        await asyncio.sleep(0)

    if ticking:
        app.periodic(cron="* * * * * *", periodic_id="second")(tick)
    return app


@contextmanager
def client(url: str) -> Iterator[procrastinate.App]:
    """Give the application as the program that defers jobs has it."""
    app = make_app(procrastinate.SyncPsycopgConnector(conninfo=url))
    with app.open():
        yield app


def defer(app: procrastinate.App, task: str, count: int = 1, **options: Any) -> list[int]:
    """Defer jobs with a payload each; return their ids."""
    payloads: list[dict[str, Any]] = [
        {"tenant": f"tenant-canary-{n % 3}", "key": f"{task}-{n}", "card": "payload-canary"}
        for n in range(count)
    ]
    return app.configure_task(task, **options).batch_defer(*payloads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker process and the number that it has in the queue's tables."""

    id: int
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it as a machine that fails does: at once, without a word to the database."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Ask it to finish what it runs and to leave."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=PATIENCE_SECONDS)


@contextmanager
def worker(url: str, *words: str) -> Iterator[Worker]:
    """Run one worker in a process of its own; it is killed at the end if it still runs."""
    ids = "SELECT id FROM procrastinate_workers"
    before = set(rows(url, ids))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.procrastinate_app", url, *words], cwd=REPOSITORY
    )
    try:
        ((number,),) = awaited(lambda: set(rows(url, ids)) - before, "a worker that registers")
        yield Worker(id=number, process=process)
    finally:
        process.kill()
        process.wait()


async def work(url: str, *, concurrency: int, beat_seconds: float, ticking: bool) -> None:
    """Work until told to stop."""
    app = make_app(procrastinate.PsycopgConnector(conninfo=url), ticking=ticking)
    async with app.open_async():
        await app.run_worker_async(
            concurrency=concurrency,
            update_heartbeat_interval=beat_seconds,
            fetch_job_polling_interval=0.05,
        )


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--beat", type=float, default=BEAT_SECONDS)
    parser.add_argument("--ticking", action="store_true")
    given = parser.parse_args(words)
    logging.disable()  # tasks fail because tests want them to
    asyncio.run(
        work(
            given.url,
            concurrency=given.concurrency,
            beat_seconds=given.beat,
            ticking=given.ticking,
        )
    )


if __name__ == "__main__":
    main()
