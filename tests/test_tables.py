"""The canonical tables: what INTERFACE's snapshot section fixes, and that every rule bites."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from jobplaybook import tables
from jobplaybook.dialects import Micros, micros
from jobplaybook.units import iso, parse_time, to_datetime, to_micros
from tests.canonical import NOW, Loaded, job, postgres_tables, snapshot_of, sqlite_tables
from tests.postgres import Postgres

# Written down by hand: the columns in their order, `*` for the primary key, `!` for never NULL,
# and what each holds. Everything else may be NULL; nothing else may be there.
WRITTEN = """
jobs: *id text, tenant_id text, job_type text, queue text, priority int, idempotency_key text,
  key_shape text, input_hash text, !status text, native_status text, attempts int,
  max_attempts int, created_at time, available_at time, claimed_at time, locked_until time,
  owner text, fencing_token long, finished_at time, updated_at time, provider_request_id text,
  result_version text, last_error_code text, error_fingerprint text, code_version text,
  input_ref text, scheduled_window text, replay_of text, root_job_id text, shard text, read_at time
attempts: *job_id text, *attempt int, owner text, fencing_token long, started_at time,
  ended_at time, !outcome text, error_code text, error_fingerprint text,
  retry_after_seconds number, upstream_calls int
effects: *effect_key text, job_id text, attempt int, kind text, !status text, provider_id text,
  input_version text, intended_at time, confirmed_at time
outbox: *id text, job_id text, topic text, created_at time, published_at time, attempts int
deliveries: *id text, event_type text, job_id text, received_at time, times_received int,
  processed_at time, outcome text
workers: *owner text, started_at time, heartbeat_at time, stopped_at time, lease_seconds number
windows: *schedule text, *window_at time, job_id text, expression text, time_zone text
queues: *queue text, paused_at time, note text
vitals: *taken_at time, *name text, *subject text, value number
facts: *fact text, *state text, !quality text, note text
meta: *key text, value text
"""
STORED = {
    "sqlite": {
        "text": "TEXT",
        "int": "INTEGER",
        "long": "INTEGER",
        "time": "INTEGER",
        "number": "REAL",
    },
    "postgresql": {
        "text": "text",
        "int": "integer",
        "long": "bigint",
        "time": "timestamp with time zone",
        "number": "double precision",
    },
}


def written() -> dict[str, list[tuple[str, str, bool, bool]]]:
    """Return per table: column, kind, in the primary key, never NULL."""
    found: dict[str, list[tuple[str, str, bool, bool]]] = {}
    for line in WRITTEN.strip().replace("\n  ", " ").split("\n"):
        name, columns = line.split(": ")
        pairs = (column.split() for column in columns.split(", "))
        found[name] = [
            (column.strip("*!"), kind, column[0] == "*", column[0] in "*!")
            for column, kind in pairs
        ]
    return found


@pytest.fixture(scope="module")
def both(postgres: Postgres) -> Iterator[dict[str, Loaded]]:
    with sqlite_tables() as small, postgres_tables(postgres) as large:
        yield {"sqlite": small, "postgresql": large}


@pytest.fixture(params=["sqlite", "postgresql"])
def one(request: pytest.FixtureRequest, both: dict[str, Loaded]) -> Loaded:
    both[request.param].load({})
    return both[request.param]


def in_sqlite(connection: sqlite3.Connection) -> dict[str, list[tuple[str, str, bool, bool]]]:
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")]
    return {
        name: [
            (column, kind, key > 0, bool(required))
            for _, column, kind, required, _, key in connection.execute(
                'SELECT cid, name, type, "notnull", 1, pk FROM pragma_table_info(?)', (name,)
            )
        ]
        for name in names
    }


def expected(dialect: str) -> dict[str, list[tuple[str, str, bool, bool]]]:
    stored = STORED[dialect]
    return {
        table: [(column, stored[kind], key, required) for column, kind, key, required in columns]
        for table, columns in written().items()
    }


def test_a_snapshot_has_the_tables_that_are_written_down(tmp_path: Path) -> None:
    """Table by table and column by column, in this order: with types, keys and what is required."""
    with snapshot_of(tmp_path, {}) as snapshot:
        connection = sqlite3.connect(snapshot.path)
        found = in_sqlite(connection)
        connection.close()
    assert found == expected("sqlite")


def test_postgresql_has_the_tables_that_are_written_down(both: dict[str, Loaded]) -> None:
    """The schema jobplaybook holds the same tables, times as timestamptz."""
    columns = sa.text(
        """
        SELECT c.relname, a.attname, format_type(a.atttypid, NULL), a.attnotnull,
               a.attnum = ANY ((SELECT i.indkey FROM pg_index i
                                 WHERE i.indrelid = c.oid AND i.indisprimary)::smallint[])
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
         WHERE c.relnamespace = 'jobplaybook'::regnamespace AND c.relkind = 'r'
         ORDER BY c.oid, a.attnum
        """
    )
    found: dict[str, list[tuple[str, str, bool, bool]]] = {}
    for table, column, kind, required, key in both["postgresql"].rows(columns):
        found.setdefault(table, []).append((column, kind, key, required))
    assert found == expected("postgresql")


def test_every_table_is_strict_and_has_no_rowid(tmp_path: Path) -> None:
    """SQLite keeps the declared types, and the rows stand in the order of their keys."""
    with snapshot_of(tmp_path, {}) as snapshot:
        listed = snapshot.rows(
            sa.text("SELECT name, wr, strict FROM pragma_table_list WHERE name NOT LIKE 'sqlite%'")
        )
    assert sorted(listed) == sorted((name, 1, 1) for name in written())


# The rules

BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "jobs_status_known": ("jobs", job("1", "available")),
    "jobs_attempts_counted": ("jobs", job("1", attempts=-1)),
    "jobs_lease_only_while_processing": ("jobs", job("1", locked_until=NOW)),
    "jobs_end_only_when_finished": ("jobs", job("1", finished_at=NOW)),
    "jobs_replay_of_another": ("jobs", job("1", replay_of="1")),
    "attempts_counted_from_one": (
        "attempts",
        {"job_id": "1", "attempt": 0, "outcome": "succeeded"},
    ),
    "attempts_outcome_known": ("attempts", {"job_id": "1", "attempt": 1, "outcome": "done"}),
    "attempts_running_has_no_end": (
        "attempts",
        {"job_id": "1", "attempt": 1, "outcome": "running", "ended_at": NOW},
    ),
    "effects_status_known": ("effects", {"effect_key": "1", "status": "done"}),
    "effects_intended_not_confirmed": (
        "effects",
        {"effect_key": "1", "status": "intended", "confirmed_at": NOW},
    ),
    "outbox_attempts_counted": ("outbox", {"id": "1", "attempts": -1}),
    "deliveries_received_once_at_least": ("deliveries", {"id": "1", "times_received": 0}),
    "workers_lease_positive": ("workers", {"owner": "1", "lease_seconds": 0.0}),
    "facts_quality_known": ("facts", {"fact": "error", "state": "live", "quality": "good"}),
    "facts_state_known": ("facts", {"fact": "error", "state": "dead", "quality": "exact"}),
}
"""By constraint: the table, and one row that breaks it and no other."""
KEPT: dict[str, dict[str, Any]] = {
    "jobs_status_known": {"status": "held"},
    "jobs_attempts_counted": {"attempts": 0},
    "jobs_lease_only_while_processing": {"status": "processing"},
    "jobs_end_only_when_finished": {"status": "dead"},
    "jobs_replay_of_another": {"replay_of": "2"},
    "attempts_counted_from_one": {"attempt": 1},
    "attempts_outcome_known": {"outcome": "released"},
    "attempts_running_has_no_end": {"ended_at": None},
    "effects_status_known": {"status": "reconciled"},
    "effects_intended_not_confirmed": {"status": "confirmed"},
    "outbox_attempts_counted": {"attempts": 0},
    "deliveries_received_once_at_least": {"times_received": 1},
    "workers_lease_positive": {"lease_seconds": 0.001},
    "facts_quality_known": {"quality": "bound"},
    "facts_state_known": {"state": "finished"},
}
"""What must change in that row for it to be taken."""


def insert(loaded: Loaded, table: str, row: dict[str, Any]) -> None:
    with loaded.writer.connect() as connection:
        if loaded.dialect == "sqlite":
            connection.exec_driver_sql("PRAGMA query_only = OFF")
        connection.execute(tables.metadata.tables[f"{tables.SCHEMA}.{table}"].insert(), row)


@pytest.mark.parametrize("rule", BROKEN)
def test_every_check_bites(one: Loaded, rule: str) -> None:
    """One row that breaks the rule is refused in the rule's name; mended, it is taken."""
    table, row = BROKEN[rule]
    with pytest.raises(sa.exc.IntegrityError, match=rf"\b{rule}\b"):
        insert(one, table, row)
    insert(one, table, {**row, **KEPT[rule]})


def test_no_check_is_left_out() -> None:
    """Every CHECK of the tables has a name and stands in this test."""
    checks = {
        constraint.name
        for table in tables.metadata.sorted_tables
        for constraint in table.constraints
        if isinstance(constraint, sa.CheckConstraint)
    }
    assert checks == set(BROKEN) == set(KEPT)


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("jobs", {"id": "1", "status": "dead", "finished_at": "2026-12-01"}),
        ("jobs", {"id": "1", "status": "dead", "attempts": "many"}),
        ("jobs", {"id": "1", "status": "dead", "priority": 0.5}),
        ("jobs", {"id": None, "status": "dead"}),
        ("jobs", {"id": "1", "status": None}),
        ("workers", {"owner": "1", "lease_seconds": "half a minute"}),
        ("vitals", {"taken_at": None, "name": "n", "subject": ""}),
        ("meta", {"key": "k", "value": b"\xff"}),
    ],
)
def test_strict_bites(table: str, row: dict[str, Any]) -> None:
    """A value of another type than the column's is refused, and so is NULL in a key."""
    with sqlite_tables() as loaded:
        driver = loaded.writer.raw_connection()
        driver.execute("PRAGMA query_only = OFF")
        marks = ", ".join("?" * len(row))
        with pytest.raises(sqlite3.IntegrityError, match=r"cannot store|NOT NULL"):
            driver.execute(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()]
            )
        driver.close()


# Times

EXACT = (to_micros(datetime(1900, 1, 1, tzinfo=UTC)), to_micros(datetime(2100, 1, 1, tzinfo=UTC)))
# A session's zone may shift a time by hours before the driver makes a datetime of it.
ANY = (to_micros(datetime(2, 1, 1, tzinfo=UTC)), to_micros(datetime(9999, 1, 1, tzinfo=UTC)))


@settings(max_examples=30)
@given(times=st.lists(st.integers(*EXACT) | st.integers(*ANY), min_size=1, max_size=40))
def test_microseconds_come_back_exactly(both: dict[str, Loaded], times: list[int]) -> None:
    """What goes in as microseconds comes out as the same integer, whichever way it is read.

    As a number in SQL it is exact for two centuries; far from today a double is some microseconds
    off, which no age of a job can show.
    """
    at = tables.jobs.c.created_at
    query = sa.select(at, micros(at)).order_by(sa.func.length(tables.jobs.c.id), tables.jobs.c.id)
    for loaded in both.values():
        loaded.load({"jobs": [job(str(n), created_at=time) for n, time in enumerate(times)]})
        rows = loaded.rows(query)
        assert [stored for stored, _ in rows] == times
        for (_, number), time in zip(rows, times, strict=True):
            assert type(number) is int
            near = EXACT[0] <= time <= EXACT[1] or loaded.dialect == "sqlite"
            assert number == time if near else math.isclose(number, time, rel_tol=1e-15)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("infinity", "9999-12-31T23:59:59Z"),
        ("294000-01-01 00:00:00+00", "9999-12-31T23:59:59Z"),
        ("-infinity", "0001-01-01T00:00:00Z"),
        ("4000-01-01 00:00:00+00 BC", "0001-01-01T00:00:00Z"),
        (None, None),
    ],
)
def test_times_out_of_range(both: dict[str, Loaded], value: str | None, time: str | None) -> None:
    """A time that no calendar writes is the last or the first one that it does; NULL stays NULL."""
    at = sa.cast(sa.literal(value, sa.Text), Micros)
    wanted = None if time is None else parse_time(time)
    assert both["postgresql"].rows(sa.select(micros(at))) == [(wanted,)]
    assert iso(wanted) == time


@given(time=st.none() | st.integers(*ANY))
def test_binds_and_results_are_integers(time: int | None) -> None:
    """The type hands each database what it stores, and gives integers back."""
    kind = Micros()
    for dialect in (sa.make_url(f"{name}://").get_dialect()() for name in STORED):
        stored = kind.process_bind_param(time, dialect)
        aware = time is not None and dialect.name == "postgresql"
        assert stored == (to_datetime(time) if aware and time is not None else time)
        assert kind.process_result_value(stored, dialect) == time
