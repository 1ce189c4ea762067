"""The reference contract's own tables, in PostgreSQL (schema ``jobplaybook``) or SQLite.

They are the canonical tables, so the SELECTs only turn times into integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook import tables as canonical
from jobplaybook.dialects import ListOf, Micros, database_clock, listed, micros, words
from jobplaybook.errors import InputError
from jobplaybook.model import FACTS, UNFINISHED, Fact, Quality, Status
from jobplaybook.sources.base import Catalog, Detected, ReadOptions, Source, Statements, TableInfo
from jobplaybook.units import MICROS

_NOTES = {
    "heartbeat": "workers.heartbeat_at",
    "lease": "jobs.locked_until, renewed by the worker; it never outlives the claim",
}


def _facts() -> tuple[Fact, ...]:
    lost = {"heartbeat", "lease"}
    return tuple(
        Fact(
            fact=name,
            state=state,
            quality=Quality.ABSENT if state == "finished" and name in lost else Quality.EXACT,
            note=_NOTES.get(name, "recorded by the contract"),
        )
        for name in FACTS
        for state in ("live", "finished")
    )


class Contract(Source):
    """The tables of `jobplaybook.tables`, filled by workers that keep the contract."""

    name = "contract"
    versions = (("1", "run"),)
    dialects = ("postgresql", "sqlite")
    default_schema = canonical.SCHEMA
    sweeper = "the contract's reaper"
    signature: ClassVar[Mapping[str, tuple[str, ...]]] = {
        table.name: tuple(table.columns.keys())
        for table in (canonical.jobs, canonical.attempts, canonical.workers, canonical.queues)
    }
    optional: ClassVar[Mapping[str, tuple[str, ...]]] = {
        table.name: tuple(table.columns.keys())
        for table in (
            canonical.effects,
            canonical.outbox,
            canonical.deliveries,
            canonical.windows,
        )
    }
    facts = _facts()

    def candidates(self, catalog: Catalog) -> list[TableInfo]:
        """Return our job table; in SQLite anybody's table may be named jobs."""
        return [table for table in super().candidates(catalog) if "fencing_token" in table.columns]

    def facts_with(self, options: ReadOptions) -> list[Fact]:
        """Return the facts: tenant and key have columns of their own, no payload is read."""
        return list(self.facts)

    def statements(self, found: Detected, options: ReadOptions) -> Statements:
        """Return the canonical SELECTs; see `Statements`."""
        if options.tenant_path or options.key_path:
            raise InputError(
                "expected neither --tenant-path nor --key-path: the contract keeps tenant and key "
                "in columns of their own"
            )
        job = canonical.jobs.c
        has = [canonical.metadata.tables[f"{canonical.SCHEMA}.{name}"] for name in found.tables]
        by_job = (canonical.attempts, canonical.effects, canonical.outbox)
        small = (canonical.workers, canonical.queues, canonical.windows, canonical.deliveries)
        return Statements(
            jobs=_jobs(options),
            key=job.id,
            key_type=sa.Text,
            running=job.status.in_(words(Status.PROCESSING)),
            unfinished=job.status.in_(words(*UNFINISHED)),
            indexed=job.status.in_(words(*UNFINISHED)),
            history=_history(),
            history_key=(job.finished_at, job.id),
            by_job={table.name: _of_jobs(table) for table in by_job if table in has},
            needs=(
                ("jobs", "id"),
                ("jobs", "finished_at"),
                *((table.name, "job_id") for table in by_job if table in has),
            ),
            small={table.name: _whole(table) for table in small if table in has},
        )


def _plain(table: sa.Table) -> dict[str, ColumnElement[Any]]:
    return {
        column.name: micros(column) if isinstance(column.type, Micros) else column
        for column in table.columns
    }


def _labelled(columns: Mapping[str, ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    return [column.label(name) for name, column in columns.items()]


def _jobs(options: ReadOptions) -> sa.Select[Any]:
    job = canonical.jobs.c
    columns = _plain(canonical.jobs)
    del columns["key_shape"]  # noted at capture, where the key may be hashed
    columns["native_status"] = job.status
    columns["read_at"] = database_clock()
    if options.lease_seconds is not None:
        lease: ColumnElement[int] = sa.literal_column(str(int(options.lease_seconds * MICROS)))
        is_running = job.status == words(Status.PROCESSING)[0]
        columns["locked_until"] = sa.case((is_running, micros(job.claimed_at) + lease))
    return sa.select(job.id.label("key"), *_labelled(columns))


def _history() -> sa.Select[Any]:
    job = canonical.jobs.c
    ended = micros(job.finished_at)
    return sa.select(
        ended.label("k0"),
        job.id.label("k1"),
        job.id.label("job"),
        ended.label("seen"),
        ended.label("ended"),
    ).where(job.finished_at.is_not(None))


def _of_jobs(table: sa.Table) -> sa.Select[Any]:
    ids = sa.bindparam("ids", type_=ListOf(sa.Text))
    return sa.select(*_labelled(_plain(table))).where(listed(table.c.job_id, ids))


def _whole(table: sa.Table) -> sa.Select[Any]:
    return sa.select(*_labelled(_plain(table)), database_clock().label("read_at")).order_by(
        *table.primary_key.columns
    )


CONTRACT = Contract()
