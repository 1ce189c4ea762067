"""Real drains: procrastinate workers on PostgreSQL empty a backlog, and an estimate is held to it.

``python -m benchmarks.real_drain [--runs 20] [--seed 1]`` makes that many backlogs of short jobs,
each with other workers, service times, failures and arrivals. Once a tenth of a backlog is gone it
captures the queue, estimates as ``estimate drain --from`` does, and then waits for the truth: the
moment at which the queue is first found empty. A server is started where DATABASE_URL names none.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import procrastinate
import psycopg

from jobplaybook import api
from jobplaybook.backlog import Recovery
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.units import MICROS
from tests.postgres import running_postgres
from tests.procrastinate_app import install

GONE = 0.1
"""The share of the backlog after which the estimate is made."""
PATIENCE_SECONDS = 300.0
SEEN_SECONDS = 5.0
BAR = 0.75
BACKLOG = (360, 900)
DUE = "status = 'todo' AND coalesce(scheduled_at <= clock_timestamp(), true)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What one drain is made of; rates per second."""

    shape: str  # batch: all at once; outage: they came one by one while nobody worked
    workers: int
    concurrency: int
    seconds: float  # mean of a job's attempt
    cv: float  # 1: exponential, 0.5: lognormal
    failing: float
    wait: int  # seconds until a retry is due
    arrival: float
    backlog: int


def drawn(seed: int) -> Drain:
    """Return the drain of a seed: about half a minute long, on average."""
    rng = random.Random(seed)
    shape, capacity = rng.choice(["batch", "outage"]), rng.uniform(14.0, 26.0)
    workers, concurrency = rng.randint(2, 4), rng.randint(2, 4)
    failing = rng.choice([0.0, 0.1, 0.2])
    load = rng.uniform(0.45, 0.6) if shape == "outage" else rng.choice([0.0, rng.uniform(0.2, 0.5)])
    backlog = int(capacity * (1 - load) * rng.uniform(22.0, 38.0))
    attempts = 1 + failing + failing**2
    return Drain(
        shape=shape,
        workers=workers,
        concurrency=concurrency,
        seconds=workers * concurrency / capacity / attempts,
        cv=rng.choice([0.5, 1.0]),
        failing=failing,
        wait=rng.choice([1, 3]),
        arrival=capacity * load,
        backlog=min(max(backlog, BACKLOG[0]), BACKLOG[1]),
    )


# The application


def make_app(connector: procrastinate.BaseConnector, wait: int) -> procrastinate.App:
    """Return an application of one task, which takes its time and fails as often as it is told."""
    app = procrastinate.App(connector=connector)
    retry = procrastinate.RetryStrategy(max_attempts=3, wait=wait)

    @app.task(name="work", queue="work", pass_context=True, retry=retry)
    async def work(context: procrastinate.JobContext, /, seconds: float, fails: int) -> None:
        await asyncio.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("it fails as it was told to")

    return app


def payload(rng: random.Random, drain: Drain) -> dict[str, Any]:
    """Return one job's arguments."""
    spread = math.sqrt(math.log(1 + drain.cv**2))
    seconds = (
        rng.expovariate(1.0) if drain.cv == 1.0 else rng.lognormvariate(-(spread**2) / 2, spread)
    ) * drain.seconds
    fails = 0
    while rng.random() < drain.failing:
        fails += 1
    return {"seconds": seconds, "fails": fails}


async def work(url: str, drain: Drain) -> None:
    """Say that we are ready, wait for a line, then work until told to stop."""
    app = make_app(procrastinate.PsycopgConnector(conninfo=url), drain.wait)
    async with app.open_async():
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        await app.run_worker_async(
            concurrency=drain.concurrency, fetch_job_polling_interval=0.2, wait=True
        )


@contextmanager
def client(url: str, drain: Drain) -> Iterator[procrastinate.App]:
    """Give the application as the program that defers jobs has it."""
    app = make_app(procrastinate.SyncPsycopgConnector(conninfo=url), drain.wait)
    with app.open():
        yield app


def defer(url: str, drain: Drain, seed: int) -> None:
    """Defer jobs as a Poisson stream until told to stop."""
    rng = random.Random(seed + 1_000_000)
    with client(url, drain) as app:
        at = time.monotonic()
        while True:
            at += rng.expovariate(drain.arrival)
            time.sleep(max(at - time.monotonic(), 0.0))
            app.configure_task("work").defer(**payload(rng, drain))


@contextmanager
def process(role: str, url: str, seed: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker or the stream of arrivals in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.real_drain", "--role", role, url, "--seed"]
    pipe = subprocess.PIPE if role == "work" else None
    with subprocess.Popen([*words, str(seed)], stdin=pipe, stdout=pipe) as started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def crew(url: str, drain: Drain, seed: int) -> Iterator[Callable[[], None]]:
    """Give what lets the workers begin, all at once: they are up and wait for it."""
    with ExitStack() as stack:
        workers = [stack.enter_context(process("work", url, seed)) for _ in range(drain.workers)]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()

        def begin() -> None:
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write(b"\n")
                worker.stdin.flush()

        yield begin


# One drain


class Queue:
    """Looks at the table, as a person would."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)

    def count(self, condition: str) -> int:
        statement = f"SELECT count(*) FROM procrastinate_jobs WHERE {condition}"
        row = self.connection.execute(statement.encode()).fetchone()
        return int(row[0]) if row else 0

    def until(self, wanted: bool, condition: str, jobs: int) -> float:
        """Return when so many jobs were first found, or no more than so many; or never."""
        end = time.time() + PATIENCE_SECONDS
        while time.time() < end:
            at, found = time.time(), self.count(condition)
            if found >= jobs if wanted else found <= jobs:
                return at
            time.sleep(0.01)
        return math.inf


def run(url: str, drain: Drain, seed: int, folder: Path) -> tuple[Recovery, float]:
    """Return what was estimated, and how long it took in truth from the captured moment on."""
    install(url)
    queue, rng, ended = Queue(url), random.Random(seed), "status IN ('succeeded', 'failed')"
    with ExitStack() as stack:
        begin = stack.enter_context(crew(url, drain, seed))
        if drain.shape == "batch":
            with client(url, drain) as app:
                jobs = [payload(rng, drain) for _ in range(drain.backlog)]
                app.configure_task("work").batch_defer(*jobs)
        if drain.arrival:
            stack.enter_context(process("defer", url, seed))
        # some arrivals beside a batch have to be seen before, or nobody knows of them
        queue.until(True, DUE, drain.backlog + round(SEEN_SECONDS * drain.arrival))
        begin()
        queue.until(True, ended, round(GONE * drain.backlog))
        path = folder / f"{seed}.db"
        report = api.capture(url, path, options=CaptureOptions(pause_seconds=0.0))
        recovery = api.estimate_backlog(str(path))
        truth = queue.until(False, DUE, 0) - report.captured_from / MICROS
    queue.connection.close()
    return recovery, truth


def told(drain: Drain) -> str:
    """Return a drain in a few words."""
    return (
        f"{drain.shape:<6} {drain.backlog:4} jobs {drain.workers}x{drain.concurrency} of "
        f"{drain.seconds:4.2f} s  fail {drain.failing:3.0%}  in {drain.arrival:4.1f}/s"
    )


def main(runs: int, first: int) -> None:
    """Run the drains and print each beside its estimate."""
    held = 0
    print(f"{'seed':>4}  {'drain':<54}   p5    p50    p95   truth  held", flush=True)
    with running_postgres() as server, tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + runs):
            drain, name = drawn(seed), f"real_drain_{seed}"
            recovery, truth = run(server.create(name), drain, seed, Path(folder))
            server.drop(name)
            estimate = recovery.estimate
            line = f"{seed:4}  {told(drain):<54}"
            if estimate is None:
                print(f"{line}   {recovery.text}   truth {truth:.1f}", flush=True)
                continue
            ends = (estimate.seconds.p5, estimate.seconds.p50, estimate.seconds.p95)
            low, middle, high = (math.inf if end is None else end for end in ends)
            holds = low <= truth <= high
            held += holds
            print(
                f"{line} {low:5.1f}  {middle:5.1f}  {high:5.1f}  {truth:6.1f}"
                f"  {'yes' if holds else 'no'}",
                flush=True,
            )
    print(f"held {held} of {runs}; the bar is {math.ceil(BAR * runs)}")


def command() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--role", nargs=2, metavar=("ROLE", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.disable()  # tasks fail because they are told to
    if given.role is None:
        main(given.runs, given.seed)
        return
    role, url = given.role
    if role == "work":
        asyncio.run(work(url, drawn(given.seed)))
    else:
        defer(url, drawn(given.seed), given.seed)


if __name__ == "__main__":
    command()
