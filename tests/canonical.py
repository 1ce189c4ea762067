"""Canonical rows, written once and loaded where a test needs them.

The same rows go into a SQLite database of a snapshot's shape, into a snapshot file, and into
PostgreSQL's schema ``jobplaybook``. ``python -m tests.canonical`` writes the golden SQL anew.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from jobplaybook import tables
from jobplaybook.model import FACTS
from jobplaybook.queries import (
    backlog,
    classes,
    clocks,
    cohort,
    flow,
    leases,
    lookup,
    retries,
    standing,
    timeline,
    vitals,
)
from jobplaybook.snapshot.file import Snapshot, opened, writing
from jobplaybook.units import MICROS, iso, parse_time
from tests.postgres import Postgres

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

GOLDEN = Path(__file__).parent / "data" / "golden_sql"
NOW = parse_time("2026-12-01T03:00:00Z")
INFINITE = "infinity"
"""A time without an end, as PostgreSQL stores it; everywhere else it is `LAST`."""
LAST = parse_time("9999-12-31T23:59:59Z")


def ago(seconds: float) -> int:
    """Return the moment so many seconds before `NOW`."""
    return NOW - round(seconds * MICROS)


def job(job_id: str, status: str = "pending", **values: Any) -> dict[str, Any]:
    """Return a row of ``jobs``: created a minute ago and due since, unless ``values`` say else."""
    born = {"created_at": ago(60), "available_at": ago(60)}
    return {
        "id": job_id,
        "status": status,
        "job_type": "mail",
        "queue": "default",
        **born,
        **values,
    }


def bare(job_id: str, status: str = "pending") -> dict[str, Any]:
    """Return a row of ``jobs`` that is NULL wherever it may be."""
    return {"id": job_id, "status": status}


def done(job_id: str, *, ended: float, ran: float = 1.0, wait: float = 1.0, **values: Any) -> Any:
    """Return a completed job and its only attempt; ``ended`` is seconds before `NOW`."""
    claimed = ended + ran
    row = job(
        job_id,
        values.pop("status", "completed"),
        attempts=1,
        created_at=ago(claimed + wait),
        available_at=ago(claimed + wait),
        claimed_at=ago(claimed),
        finished_at=ago(ended),
        **values,
    )
    return row, attempt(job_id, started_at=ago(claimed), ended_at=ago(ended), outcome="succeeded")


def attempt(job_id: str, number: int = 1, outcome: str = "running", **values: Any) -> Any:
    """Return a row of ``attempts``."""
    return {"job_id": job_id, "attempt": number, "outcome": outcome, **values}


def known(*absent: str) -> list[dict[str, Any]]:
    """Return rows of ``facts``: all exact, but for the ones named."""
    return [
        {"fact": fact, "state": state, "quality": "absent" if fact in absent else "exact"}
        for fact in FACTS
        for state in ("live", "finished")
    ]


# Loading


def _engine(dialect: str, connect: Callable[[], Any]) -> sa.Engine:
    engine = sa.create_engine(
        "sqlite://" if dialect == "sqlite" else "postgresql+psycopg://",
        creator=connect,
        poolclass=StaticPool,
        isolation_level="AUTOCOMMIT",
    )
    if dialect == "sqlite":
        return engine.execution_options(schema_translate_map={tables.SCHEMA: None})
    return engine


def _finite(value: Any) -> Any:
    return LAST if value == INFINITE else value


@dataclass(slots=True)
class Loaded:
    """A database of canonical tables: what may write it, and what may only read it."""

    dialect: str
    writer: sa.Engine
    reader: sa.Engine
    infinite: list[tuple[str, str, str]] = field(default_factory=list)

    def load(self, rows: Rows) -> None:
        """Put these rows in the place of what was there."""
        with self.writer.connect() as connection:
            if self.dialect == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = OFF")
            for table in reversed(tables.metadata.sorted_tables):
                connection.execute(table.delete())
            for name, listed in rows.items():
                table = tables.metadata.tables[f"{tables.SCHEMA}.{name}"]
                for row in listed:
                    finite = {key: _finite(value) for key, value in row.items()}
                    connection.execute(table.insert(), finite)
            if self.dialect == "postgresql":
                self._make_infinite(connection, rows)
            else:
                connection.exec_driver_sql("PRAGMA query_only = ON")

    def _make_infinite(self, connection: sa.Connection, rows: Rows) -> None:
        for row in rows.get("jobs", ()):
            for column, value in row.items():
                if value == INFINITE:
                    connection.exec_driver_sql(
                        f"UPDATE {tables.SCHEMA}.jobs SET {column} = 'infinity' WHERE id = %s",
                        (row["id"],),
                    )

    def rows(self, statement: sa.Executable) -> list[tuple[Any, ...]]:
        """Return what the reader sees."""
        with self.reader.connect() as connection:
            return [tuple(row) for row in connection.execute(statement)]


@contextmanager
def sqlite_tables() -> Iterator[Loaded]:
    """Give the canonical tables in SQLite; after loading nothing may be written."""
    import sqlite3

    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    engine = _engine("sqlite", lambda: connection)
    with engine.connect() as made:
        tables.metadata.create_all(made)
    yield Loaded("sqlite", engine, engine)
    engine.dispose()
    connection.close()


@contextmanager
def postgres_tables(server: Postgres, *, locale: str = "") -> Iterator[Loaded]:
    """Give the canonical tables in PostgreSQL, read by a role that may SELECT and nothing else."""
    name = f"jobplaybook_{secrets.token_hex(6)}"
    reader = f"{name}_reader"
    server.execute(f'CREATE DATABASE "{name}" TEMPLATE template0 {locale}')
    url = server.url(name)
    try:
        server.execute(f'CREATE ROLE "{reader}" NOLOGIN')
    except psycopg.errors.InsufficientPrivilege:
        server.drop(name)
        pytest.skip("the role of DATABASE_URL may not make another role to read with")
    writer = _engine("postgresql", lambda: psycopg.connect(url, autocommit=True))

    def read() -> psycopg.Connection[Any]:
        connection = psycopg.connect(url, autocommit=True)
        # Not the zone the tables were written in: no answer may depend on it.
        connection.execute("SET timezone = 'America/St_Johns'")
        connection.execute(f'SET ROLE "{reader}"'.encode())
        return connection

    try:
        with writer.connect() as made:
            made.exec_driver_sql(f"CREATE SCHEMA {tables.SCHEMA}")
            tables.metadata.create_all(made)
            made.exec_driver_sql(f'GRANT USAGE ON SCHEMA {tables.SCHEMA} TO "{reader}"')
            made.exec_driver_sql(
                f'GRANT SELECT ON ALL TABLES IN SCHEMA {tables.SCHEMA} TO "{reader}"'
            )
        readers = _engine("postgresql", read)
        yield Loaded("postgresql", writer, readers)
        readers.dispose()
    finally:
        writer.dispose()
        server.drop(name)
        server.execute(f'DROP ROLE "{reader}"')


@contextmanager
def snapshot_of(folder: Path, rows: Rows, **meta: Any) -> Iterator[Snapshot]:
    """Give a snapshot file of these rows, captured at `NOW` unless ``meta`` says else."""
    path = folder / f"{secrets.token_hex(4)}.db"
    said = {
        "system": "contract",
        "captured_at": iso(NOW),
        "window_from": iso(ago(86_400)),
        "workers_read_at": iso(NOW),
        **meta,
    }
    with writing(path) as writer:
        for name, listed in {"facts": known(), **rows}.items():
            for row in listed:
                writer.insert(name, list(row), [[_finite(value) for value in row.values()]])
        writer.finish({key: str(value) for key, value in said.items() if value is not None})
    with opened(path, path.name) as snapshot:
        yield snapshot


# Every query there is

SINCE, UNTIL = ago(3_600), NOW
QUERIES: dict[str, Callable[[], sa.Select[Any] | sa.CompoundSelect[Any]]] = {
    "standing.counts": lambda: standing.counts(NOW),
    "standing.each_job": lambda: standing.each_job(NOW),
    "standing.created_after": lambda: standing.created_after(NOW),
    "standing.claimable": lambda: standing.claimable(NOW),
    "flow.events": flow.events,
    "flow.totals": lambda: flow.totals(SINCE, UNTIL),
    "flow.buckets": lambda: flow.buckets(SINCE, UNTIL, bucket=60 * MICROS),
    "flow.waits": lambda: flow.waits(SINCE, UNTIL),
    "flow.claimable_intervals": lambda: flow.claimable_intervals(SINCE, UNTIL),
    "flow.dead_letters": lambda: flow.dead_letters(SINCE, UNTIL),
    "flow.sojourns": lambda: flow.sojourns(SINCE, UNTIL),
    "flow.unfinished": lambda: flow.unfinished(UNTIL),
    "backlog.lives": lambda: backlog.lives(SINCE, UNTIL),
    "backlog.retried": lambda: backlog.retried(SINCE, UNTIL),
    "backlog.runs": lambda: backlog.runs(SINCE, UNTIL),
    "leases.held": leases.held,
    "leases.by_owner": leases.by_owner,
    "leases.by_owner.at": lambda: leases.by_owner(NOW),
    "leases.beats": leases.beats,
    "leases.run_times": leases.run_times,
    "leases.run_times.of_type": lambda: leases.run_times("mail"),
    "timeline.job": lambda: timeline.job("2"),
    "timeline.attempts_of": lambda: timeline.attempts_of("2"),
    "timeline.effects_of": lambda: timeline.effects_of("2"),
    "timeline.notices_of": lambda: timeline.notices_of("2"),
    "timeline.deliveries_of": lambda: timeline.deliveries_of("2"),
    "timeline.worker": lambda: timeline.worker("w"),
    "clocks.disorders": lambda: clocks.disorders(MICROS),
    "clocks.disorders.stamped": lambda: clocks.disorders(MICROS, clock=False),
    "clocks.disordered": lambda: clocks.disordered(MICROS),
    "clocks.examples": lambda: clocks.examples(MICROS, limit=2),
    "retries.retried": lambda: retries.retried(SINCE, UNTIL, quick=MICROS),
    "retries.busiest": lambda: retries.busiest(SINCE, UNTIL, limit=2),
    "retries.completed": lambda: retries.completed(SINCE, UNTIL),
    "retries.course": lambda: retries.course(SINCE, UNTIL, bucket=60 * MICROS),
    "retries.tried": lambda: retries.tried(SINCE, UNTIL),
    "retries.ended_tries": lambda: retries.ended_tries(SINCE, UNTIL),
    "retries.allowed": lambda: retries.allowed(SINCE, UNTIL),
    "retries.wakings": lambda: retries.wakings(NOW, ago(-3_600), bucket=10 * MICROS),
    "retries.peaks": lambda: retries.peaks(SINCE, UNTIL, bucket=60 * MICROS),
    "classes.waiting": lambda: classes.waiting(NOW),
    "classes.last_claims": lambda: classes.last_claims(SINCE, UNTIL),
    "classes.claims": lambda: classes.claims(SINCE, UNTIL),
    "classes.due_by.type": lambda: classes.due_by("type", NOW),
    "classes.due_by.tenant": lambda: classes.due_by("tenant", NOW),
    "classes.became_due": lambda: classes.became_due(
        "type", "default", "mail", SINCE, UNTIL, bucket=60 * MICROS
    ),
    "classes.became_due.no_queue": lambda: classes.became_due(
        "tenant", None, "Ä", SINCE, UNTIL, bucket=60 * MICROS
    ),
    "cohort.worst": lambda: cohort.worst(SINCE, UNTIL, each=2),
    "cohort.worst.at": lambda: cohort.worst(SINCE, UNTIL, now=NOW, queue="default"),
    "cohort.attempts_of": lambda: cohort.attempts_of(["2", "owner-B", "early", "minute"], UNTIL),
    "cohort.attempts_of.at": lambda: cohort.attempts_of(["2", "owner-B"], UNTIL, now=NOW),
    "cohort.queue_names": cohort.queue_names,
    "backlog.lives.queue": lambda: backlog.lives(SINCE, UNTIL, queue="default"),
    "backlog.retried.no_queue": lambda: backlog.retried(SINCE, UNTIL, queue=None),
    "lookup.queue_names": lookup.queue_names,
    "vitals.samples": vitals.samples,
    **{
        f"lookup.found.{by}": lambda by=by: lookup.found(by, "2", NOW)  # type: ignore[misc]
        for by in ("job", "key", "tenant", "provider_id", "delivery")
    },
}
"""By name: every question that may be put to the canonical tables, with its binds."""


DIALECTS: dict[str, sa.Dialect] = {
    name: sa.make_url(f"{name}://").get_dialect()() for name in ("postgresql", "sqlite")
}


def compiled(name: str, dialect: str) -> str:
    """Return a query as text, its binds in place."""
    text = QUERIES[name]().compile(
        dialect=DIALECTS[dialect], compile_kwargs={"literal_binds": True}
    )
    return str(text) + "\n"


def write_golden() -> None:
    """Write what every query compiles to today: the difference is for a person to read."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for dialect in DIALECTS:
        for name in QUERIES:
            path = GOLDEN / f"{name}.{dialect}.sql"
            path.write_text(compiled(name, dialect), encoding="utf-8")


if __name__ == "__main__":
    write_golden()
