"""Fill an empty PostgreSQL database with a procrastinate queue that has a long past.

The schema is the installed library's own. The rows are what its triggers would have left behind:
N jobs finished evenly over the 30 days before now, 9,980 that wait and 20 that run, their events
in the order in which they happened, and four workers whose heartbeat is fresh. Everything but the
clock is drawn from the job's number, so two fills differ only in their times.

Triggers and foreign keys are off while the rows go in (they would write today's times), which
takes a superuser: use a database made for the purpose.

::

    createdb bench_million
    python -m benchmarks.procrastinate_million postgresql:///bench_million --jobs 1000000
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, LiteralString

import procrastinate
import psycopg
from procrastinate.schema import SchemaManager
from tqdm import tqdm

JOBS = 1_000_000
WAITING = 9_980
RUNNING = 20
WORKERS = 4
SLICE = 50_000

# Draws v and w in [0, 1] come from the number of the job: a refill gives the same queue.
_FINISHED: LiteralString = """
    SELECT n, CASE WHEN n %% 200 = 53 THEN 'failed' ELSE 'succeeded' END AS status,
        CASE WHEN delayed THEN first_at - interval '5 minutes' * w ELSE first_at END AS deferred_at,
        CASE WHEN delayed THEN first_at END AS planned_at,
        started_at, retried_at, retried_at + interval '30 seconds' AS retry_at,
        restarted_at, ended_at, NULL::int AS worker
    FROM generate_series(1, %(jobs)s) AS n
    CROSS JOIN LATERAL (SELECT
        n %% 20 = 11 AS delayed,
        n %% 50 = 3 AS again,
        %(now)s - interval '30 days' * ((%(jobs)s - n + 0.5) / %(jobs)s) AS ended_at,
        (hashint8extended(n, 1) & 1048575) / 1048575.0 AS v,
        (hashint8extended(n, 2) & 1048575) / 1048575.0 AS w) AS draw
    CROSS JOIN LATERAL (SELECT
        interval '50 milliseconds' + interval '4 seconds' * v * v AS run,
        interval '20 milliseconds' + interval '2 seconds' * w * w AS wait) AS length
    CROSS JOIN LATERAL (
        SELECT CASE WHEN again THEN ended_at - run END AS restarted_at) AS second
    CROSS JOIN LATERAL (
        SELECT restarted_at - wait - interval '30 seconds' AS retried_at) AS retry
    CROSS JOIN LATERAL (
        SELECT coalesce(retried_at, ended_at) - run AS started_at) AS first
    CROSS JOIN LATERAL (SELECT started_at - wait AS first_at) AS available
"""

# One in fifty waits for its second start; one in ten is planned for the coming hours.
_WAITING: LiteralString = """
    SELECT %(jobs)s + n, 'todo', deferred_at,
        CASE WHEN n %% 10 = 4 THEN %(now)s + interval '6 hours' * v END,
        CASE WHEN n %% 50 = 3 THEN deferred_at + interval '2 seconds' END,
        CASE WHEN n %% 50 = 3 THEN deferred_at + interval '5 seconds' END,
        CASE WHEN n %% 50 = 3 THEN %(now)s + interval '30 minutes' * v END,
        NULL::timestamptz, NULL::timestamptz, NULL::int
    FROM generate_series(1, %(waiting)s) AS n
    CROSS JOIN LATERAL (SELECT
        %(now)s - interval '10 seconds' - interval '15 minutes' * (n::float8 / %(waiting)s)
            AS deferred_at,
        (hashint8extended(n, 3) & 1048575) / 1048575.0 AS v) AS draw
"""

_RUNNING: LiteralString = """
    SELECT %(jobs)s + %(waiting)s + n, 'doing',
        %(now)s - interval '9 seconds' * n / %(running)s - interval '200 milliseconds',
        NULL::timestamptz, %(now)s - interval '9 seconds' * n / %(running)s,
        NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz,
        (n - 1) %% %(workers)s + 1
    FROM generate_series(1, %(running)s) AS n
"""

# A queue numbers its jobs in the order in which they came, whatever became of them later.
_PLAN_JOBS: LiteralString = (
    "CREATE TEMP TABLE planned_jobs AS"
    " SELECT row_number() OVER (ORDER BY deferred_at, n) AS id, life.*"
    f" FROM ({_FINISHED} UNION ALL {_WAITING} UNION ALL {_RUNNING}) AS life"
)

# The trigger for `scheduled` sorts before the one for the status, and writes the future time.
_PLAN_EVENTS: LiteralString = """
    CREATE TEMP TABLE planned_events AS
    SELECT row_number() OVER (ORDER BY written_at, id, step) AS event, id, type, at
    FROM planned_jobs
    CROSS JOIN LATERAL (VALUES
        (1, 'scheduled', deferred_at, planned_at),
        (2, 'deferred', deferred_at, deferred_at),
        (3, 'started', started_at, started_at),
        (4, 'scheduled', retried_at, retry_at),
        (5, 'deferred_for_retry', retried_at, retried_at),
        (6, 'started', restarted_at, restarted_at),
        (7, status, ended_at, ended_at)) AS line (step, type, written_at, at)
    WHERE at IS NOT NULL AND written_at IS NOT NULL
"""

# Only what waits piles up in `reports`: the other queues keep up. A worker's number outlives its
# last run as long as the worker does, here for a day.
_INSERT_JOBS: LiteralString = """
    INSERT INTO procrastinate_jobs
        (id, queue_name, task_name, priority, lock, args, status, scheduled_at, attempts, worker_id)
    SELECT id, queue, task, CASE WHEN n %% 25 = 5 THEN 10 ELSE 0 END,
        CASE WHEN n %% 40 = 9 AND status <> 'doing' THEN tenant END,
        CASE WHEN task = 'tick' THEN jsonb_build_object('timestamp', floor(date_part('epoch', at)))
            ELSE jsonb_build_object('tenant', tenant, 'key', 'k' || n, 'template', task || '-v2',
                'amount', n %% 9973, 'locale', 'en') END,
        status::procrastinate_job_status, coalesce(retry_at, planned_at),
        (retried_at IS NOT NULL)::int + (ended_at IS NOT NULL)::int,
        CASE WHEN status = 'doing' THEN worker
            WHEN started_at > %(now)s - interval '1 day' THEN n %% %(workers)s + 1 END
    FROM planned_jobs
    CROSS JOIN LATERAL (SELECT deferred_at AS at, (hashint8extended(n, 4) & 1023)::int AS draw) AS d
    CROSS JOIN LATERAL (SELECT CASE
        WHEN status = 'todo' OR draw < 100 THEN 'build_report'
        WHEN draw < 110 THEN 'tick' WHEN draw < 300 THEN 'charge'
        WHEN draw < 500 THEN 'deliver_webhook' ELSE 'send_email' END AS task,
        't' || (draw * draw / 5243) AS tenant) AS work
    CROSS JOIN LATERAL (SELECT CASE task
        WHEN 'build_report' THEN 'reports' WHEN 'tick' THEN 'cron' WHEN 'charge' THEN 'billing'
        WHEN 'deliver_webhook' THEN 'webhooks' ELSE 'mail' END AS queue) AS place
    WHERE id BETWEEN %(low)s AND %(high)s
    ORDER BY id
"""

_INSERT_EVENTS: LiteralString = """
    INSERT INTO procrastinate_events (id, job_id, type, at)
    SELECT event, id, type::procrastinate_job_event_type, at
    FROM planned_events WHERE event BETWEEN %(low)s AND %(high)s ORDER BY event
"""

_SEQUENCES: LiteralString = """
    SELECT setval('procrastinate_jobs_id_seq', (SELECT max(id) FROM procrastinate_jobs)),
        setval('procrastinate_events_id_seq', (SELECT max(id) FROM procrastinate_events))
"""

_TICK: LiteralString = """
    INSERT INTO procrastinate_periodic_defers (task_name, defer_timestamp, job_id, periodic_id)
    SELECT 'tick', (args ->> 'timestamp')::float8::bigint, id, 'tick'
    FROM procrastinate_jobs WHERE task_name = 'tick' ORDER BY id DESC LIMIT 1
"""

_PREPARE: tuple[LiteralString, ...] = (
    "SET LOCAL session_replication_role = replica",
    "SET LOCAL work_mem = '512MB'",
)
_PLAN_KEYS: tuple[LiteralString, ...] = (
    "ALTER TABLE planned_jobs ADD PRIMARY KEY (id)",
    "ALTER TABLE planned_events ADD PRIMARY KEY (event)",
    "ANALYZE planned_jobs",
    "ANALYZE planned_events",
)


def fill(url: str, *, jobs: int = JOBS, waiting: int = WAITING, running: int = RUNNING) -> None:
    """Create procrastinate's schema in an empty database and fill it.

    Parameters
    ----------
    url : str
        Any libpq form; the role must be a superuser.
    jobs, waiting, running : int
        Jobs that are finished, ``todo`` and ``doing``.

    Raises
    ------
    SystemExit
        If the database already holds a procrastinate queue.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone() != (None,):
            raise SystemExit("expected an empty database, found procrastinate_jobs: use another")
        _apply_schema(url)
        with connection.transaction():
            _write(connection, jobs=jobs, waiting=waiting, running=running)
        # As autovacuum leaves a queue that has been running for a month.
        connection.execute("VACUUM (ANALYZE)")
        beat(connection)


def beat(connection: psycopg.Connection[Any]) -> None:
    """Let every worker's heart beat now, by the function that the library's workers call."""
    connection.execute("SELECT procrastinate_update_heartbeat_v1(id) FROM procrastinate_workers")


def _apply_schema(url: str) -> None:
    connector = procrastinate.SyncPsycopgConnector(conninfo=url)
    connector.open()
    try:
        SchemaManager(connector).apply_schema()
    finally:
        connector.close()


def _write(connection: psycopg.Connection[Any], *, jobs: int, waiting: int, running: int) -> None:
    values: dict[str, Any] = {"jobs": jobs, "waiting": waiting, "running": running}
    values["workers"] = WORKERS
    values["now"] = connection.execute("SELECT clock_timestamp()").fetchall()[0][0]
    for statement in _PREPARE:
        connection.execute(statement)
    for _ in range(WORKERS):
        connection.execute("SELECT procrastinate_register_worker_v1()")
    with tqdm(desc="planning", total=2, unit="table") as progress:
        for statement in (_PLAN_JOBS, _PLAN_EVENTS):
            connection.execute(statement, values)
            progress.update()
    for statement in _PLAN_KEYS:
        connection.execute(statement)
    _insert(connection, "jobs", _INSERT_JOBS, "SELECT count(*) FROM planned_jobs", values)
    _insert(connection, "events", _INSERT_EVENTS, "SELECT count(*) FROM planned_events", values)
    connection.execute(_TICK)
    connection.execute(_SEQUENCES)


def _insert(
    connection: psycopg.Connection[Any],
    name: str,
    statement: LiteralString,
    count: LiteralString,
    values: dict[str, Any],
) -> None:
    total = connection.execute(count).fetchall()[0][0]
    with tqdm(desc=name, total=total, unit="row", unit_scale=True) as progress:
        for low in range(1, total + 1, SLICE):
            bounds = {**values, "low": low, "high": low + SLICE - 1}
            progress.update(connection.execute(statement, bounds).rowcount)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and fill the database."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.procrastinate_million",
        description="Fill an empty PostgreSQL database with a procrastinate queue.",
    )
    parser.add_argument("url", metavar="URL", help="any libpq form; the role must be a superuser")
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help="finished jobs")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"expected at least 1 job, found {options.jobs}")
    fill(options.url, jobs=options.jobs)


if __name__ == "__main__":
    main()
