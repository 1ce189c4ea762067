"""How fast `capture` is beside the fastest plain way, and how soon `triage` answers.

The plain way is what one would write by hand for speed alone: COPY of the same canonical columns
in one long statement each for jobs and attempts, the same hashing, executemany into the same
SQLite tables. It holds a snapshot of the database for as long as it reads, which is what a capture
must not do; it has no budget, no order that keeps a moving job, no checks, and no sealed file.

Both run in turn on the same database, and the rows they wrote are compared, so that neither is
fast by reading less.

::

    python -m benchmarks.capture postgresql:///bench_million --runs 3
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.schema import CreateTable

from benchmarks.procrastinate_million import beat
from jobplaybook import api, tables
from jobplaybook.connect import create_sqlite, open_sqlite_readonly
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.snapshot.redact import Redactor, read_key
from jobplaybook.sources.base import ReadOptions

RUNS = 3
SINCE_SECONDS = 30 * 86_400.0
BATCH = 5_000
TRIAGE_VARIABLE = "JOBPLAYBOOK_BENCHMARK_URL"

_MICROS = "(date_part('epoch', {0}) * 1000000)::bigint"
_ENDS = "('succeeded', 'failed', 'cancelled', 'aborted')"

# Canonical column: PostgreSQL type of what COPY sends, expression.
_JOBS = {
    "id": ("text", "j.id::text"),
    "tenant_id": ("text", "j.args #>> '{tenant}'"),
    "job_type": ("text", "j.task_name"),
    "queue": ("text", "j.queue_name"),
    "priority": ("int4", "j.priority"),
    "idempotency_key": ("text", "j.args #>> '{key}'"),
    "status": (
        "text",
        "CASE j.status WHEN 'todo' THEN 'pending' WHEN 'doing' THEN 'processing'"
        " WHEN 'aborting' THEN 'processing' WHEN 'succeeded' THEN 'completed'"
        " WHEN 'failed' THEN 'dead' ELSE 'cancelled' END",
    ),
    "native_status": ("text", "j.status::text"),
    "attempts": ("int8", "coalesce(e.starts, 0)"),
    "created_at": ("int8", _MICROS.format("e.created")),
    "available_at": ("int8", _MICROS.format("coalesce(j.scheduled_at, e.created)")),
    "claimed_at": ("int8", _MICROS.format("e.claimed")),
    "locked_until": (
        "int8",
        "CASE WHEN j.status IN ('doing', 'aborting') THEN "
        + _MICROS.format("w.last_heartbeat")
        + " + 30000000 END",
    ),
    "owner": ("text", "CASE WHEN j.status IN ('doing', 'aborting') THEN j.worker_id::text END"),
    "finished_at": ("int8", f"CASE WHEN j.status IN {_ENDS} THEN {_MICROS.format('e.ended')} END"),
    "updated_at": ("int8", _MICROS.format("e.updated")),
    "scheduled_window": (
        "text",
        "CASE WHEN j.task_name IN (SELECT task_name FROM procrastinate_periodic_defers)"
        " AND j.args ->> 'timestamp' ~ '^[0-9]{1,11}$'"
        " THEN to_char(timezone('UTC', to_timestamp((j.args ->> 'timestamp')::float8)),"
        """ 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END""",
    ),
    "shard": ("text", "j.lock"),
    "read_at": ("int8", "(SELECT " + _MICROS.format("clock_timestamp()") + ")"),
}
_JOBS_FROM = f"""
    FROM procrastinate_jobs j
    LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
    LEFT JOIN (
        SELECT job_id, count(*) FILTER (WHERE type = 'started') AS starts,
            min(at) FILTER (WHERE type = 'deferred') AS created,
            max(at) FILTER (WHERE type = 'started') AS claimed,
            max(at) FILTER (WHERE type IN {_ENDS}) AS ended,
            max(at) FILTER (WHERE type <> 'scheduled') AS updated
        FROM procrastinate_events GROUP BY job_id
    ) e ON e.job_id = j.id
"""

_ATTEMPTS = {
    "job_id": ("text", "s.job_id::text"),
    "attempt": ("int8", "row_number() OVER (PARTITION BY s.job_id ORDER BY s.id)"),
    "owner": (
        "text",
        "CASE WHEN lead(s.id) OVER (PARTITION BY s.job_id ORDER BY s.id) IS NULL"
        " THEN j.worker_id::text END",
    ),
    "started_at": ("int8", _MICROS.format("s.at")),
    "ended_at": ("int8", f"CASE WHEN s.next <> 'started' THEN {_MICROS.format('s.next_at')} END"),
    "outcome": (
        "text",
        "CASE WHEN s.next IS NULL AND j.status IN ('doing', 'aborting') THEN 'running'"
        " WHEN s.next = 'succeeded' THEN 'succeeded' WHEN s.next = 'failed' THEN 'failed'"
        " WHEN s.next = 'aborted' THEN 'cancelled' ELSE 'unknown' END",
    ),
}
_ATTEMPTS_FROM = """
    FROM (
        SELECT id, job_id, type, at, lead(at) OVER step AS next_at, lead(type) OVER step AS next
        FROM procrastinate_events
        WHERE type IN ('started', 'succeeded', 'failed', 'aborted', 'deferred_for_retry')
        WINDOW step AS (PARTITION BY job_id ORDER BY id)
    ) s
    JOIN procrastinate_jobs j ON j.id = s.job_id
    WHERE s.type = 'started'
"""

# The two read the clock and the heartbeats at different moments.
_NOT_COMPARED = ("read_at", "locked_until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One way's run: rows written, seconds on the wall and seconds of this process's CPU."""

    rows: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


def run_capture(url: str, out: Path, key_file: Path) -> int:
    """Capture the database without pauses and return the jobs and attempts written."""
    read = ReadOptions(tenant_path=("args", "tenant"), key_path=("args", "key"))
    options = CaptureOptions(
        since_seconds=SINCE_SECONDS, budget_seconds=3_600.0, pause_seconds=0.0, read=read
    )
    report = api.capture(url, out, options=options, key_file=key_file)
    if report.not_read:
        raise SystemExit(f"the capture left rows out: {report.not_read}")
    return report.rows["jobs"] + report.rows["attempts"]


def run_plain(url: str, out: Path, key_file: Path) -> int:
    """Copy the same columns by hand and return the jobs and attempts written."""
    redactor = Redactor(read_key(key_file))
    out.unlink(missing_ok=True)
    written = 0
    with psycopg.connect(url, autocommit=True) as source, closing(create_sqlite(out)) as target:
        for table in (tables.jobs, tables.attempts):
            target.execute(_create(table))
        target.execute("BEGIN")
        for batch in _copied(source, _JOBS, _JOBS_FROM):
            columns, rows = redactor.rows(list(_JOBS), batch)
            target.executemany(_insert("jobs", columns), rows)
            written += len(rows)
        for batch in _copied(source, _ATTEMPTS, _ATTEMPTS_FROM):
            target.executemany(_insert("attempts", list(_ATTEMPTS)), batch)
            written += len(batch)
        target.execute("COMMIT")
    return written


def _copied(
    source: psycopg.Connection[Any], columns: dict[str, tuple[str, str]], rest: str
) -> Iterator[list[tuple[Any, ...]]]:
    expressions = ", ".join(expression for _, expression in columns.values())
    statement = f"COPY (SELECT {expressions} {rest}) TO STDOUT"
    with source.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.set_types([kind for kind, _ in columns.values()])
        batch: list[tuple[Any, ...]] = []
        for row in copy.rows():
            batch.append(row)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch


def _create(table: Any) -> str:
    dialect = sqlite_dialect.dialect()
    dialect.default_schema_name = "main"
    compiled = CreateTable(table).compile(
        dialect=dialect,
        schema_translate_map={tables.SCHEMA: None},
        render_schema_translate=True,
    )
    return str(compiled)


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"


def differing_rows(ours: Path, plain: Path) -> int:
    """Return how many of our rows the plain copy does not have, column by column.

    The other way round a few may be missing: jobs that left the window since the database was
    filled are in the plain copy alone.
    """
    queries = (_query("jobs", _JOBS), _query("attempts", _ATTEMPTS))
    with (
        closing(open_sqlite_readonly(ours, immutable=True)) as a,
        closing(open_sqlite_readonly(plain, immutable=True)) as b,
    ):
        return sum(len(set(a.execute(query)) - set(b.execute(query))) for query in queries)


def _query(table: str, columns: dict[str, tuple[str, str]]) -> str:
    compared = [name for name in columns if name not in _NOT_COMPARED]
    return f"SELECT {', '.join(compared)} FROM {table}"


def timed(way: Callable[[str, Path, Path], int], url: str, out: Path, key_file: Path) -> Run:
    """Run one way once."""
    wall, cpu = time.perf_counter(), time.process_time()
    rows = way(url, out, key_file)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Run(rows=rows, seconds=wall, cpu_seconds=cpu)


def compare(url: str, runs: int, folder: Path) -> None:
    """Run both ways in turn, the first one changing places, and print what came out."""
    key_file, ours, plain = folder / "key", folder / "ours.db", folder / "plain.db"
    key_file.write_text(secrets.token_hex(32) + "\n", "ascii")
    ways = (("capture", run_capture, ours), ("COPY", run_plain, plain))
    seen: dict[str, list[Run]] = {"capture": [], "COPY": []}
    print(f"{'run':>3} {'way':8} {'rows':>10} {'wall s':>7} {'CPU s':>6} {'rows/s':>9} {'load':>5}")
    for number in range(1, runs + 1):
        for name, way, out in ways if number % 2 else reversed(ways):
            run = timed(way, url, out, key_file)
            seen[name].append(run)
            print(
                f"{number:>3} {name:8} {run.rows:>10,} {run.seconds:>7.1f} "
                f"{run.cpu_seconds:>6.1f} {run.rate:>9,.0f} {os.getloadavg()[0]:>5.1f}",
                flush=True,
            )
    different = differing_rows(ours, plain)
    if different:
        raise SystemExit(f"{different:,} captured rows are not what COPY read: no comparison")
    pairs = [a.rate / b.rate for a, b in zip(seen["capture"], seen["COPY"], strict=True)]
    print("the rows agree")
    for name, done in seen.items():
        print(f"median {name}: {median(run.rate for run in done):,.0f} rows/s")
    print(
        f"capture / COPY, pair by pair: {', '.join(f'{pair:.2f}' for pair in pairs)}; "
        f"median {median(pairs):.2f} (the bar is 0.80)"
    )


def time_triage(url: str, runs: int) -> None:
    """Run ``triage`` as a process of its own and print how long it took to the verdict."""
    command = [sys.executable, "-m", "jobplaybook", "triage", f"env:{TRIAGE_VARIABLE}"]
    for _ in range(runs):
        with psycopg.connect(url, autocommit=True) as connection:
            beat(connection)
        start = time.perf_counter()
        done = subprocess.run(
            command, env={**os.environ, TRIAGE_VARIABLE: url}, capture_output=True, text=True
        )
        seconds = time.perf_counter() - start
        said = (done.stdout or done.stderr).strip().partition("\n")[0]
        print(f"triage: {seconds:.1f} s (the bar is 15), exit {done.returncode}: {said}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capture",
        description="Compare capture with COPY into SQLite, and time triage.",
    )
    parser.add_argument("url", metavar="URL", help="made by benchmarks.procrastinate_million")
    parser.add_argument("--runs", metavar="N", type=int, default=RUNS)
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"expected at least 1 run, found {options.runs}")
    with tempfile.TemporaryDirectory(prefix="jobplaybook-benchmark-") as folder:
        compare(options.url, options.runs, Path(folder))
    time_triage(options.url, options.runs)


if __name__ == "__main__":
    main()
