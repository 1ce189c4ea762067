"""The reference contract's own tables, in PostgreSQL (schema ``jobplaybook``) or SQLite.

They are the canonical tables, so the SELECTs only turn times into integers.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook import tables as canonical
from jobplaybook.dialects import ListOf, Micros, database_clock, listed, micros, words
from jobplaybook.errors import InputError
from jobplaybook.model import FACTS, UNFINISHED, Status
from jobplaybook.sources.base import (
    Column,
    ReadOptions,
    Source,
    Statements,
    any_of,
    graded,
    history,
    later,
    named,
)
from jobplaybook.sources.catalog import Catalog, Detected, TableInfo

_OF_JOBS = (canonical.attempts, canonical.effects, canonical.outbox)
_SMALL = (canonical.workers, canonical.queues, canonical.windows, canonical.deliveries)


def _columns(*tables: sa.Table) -> dict[str, list[str]]:
    return {table.name: table.columns.keys() for table in tables}


class Contract(Source):
    """The tables of `jobplaybook.tables`, filled by workers that keep the contract."""

    name = "contract"
    versions = (("1", "run"),)
    dialects = ("postgresql", "sqlite")
    default_schema = canonical.SCHEMA
    sweeper = "the contract's reaper"
    signature = _columns(canonical.jobs, canonical.attempts, canonical.workers, canonical.queues)
    optional = _columns(
        canonical.effects, canonical.outbox, canonical.deliveries, canonical.windows
    )
    facts = graded(
        "\n".join(f"{name} exact recorded by the contract" for name in FACTS)
        + """
    heartbeat/live exact workers.heartbeat_at
    heartbeat/finished absent workers.heartbeat_at
    lease/live exact jobs.locked_until, renewed by the worker; it never outlives the claim
    lease/finished absent jobs.locked_until, renewed by the worker; it never outlives the claim
    """
    )

    def candidates(self, catalog: Catalog) -> list[TableInfo]:
        """Return our job table; in SQLite anybody's table may be named jobs."""
        return [table for table in super().candidates(catalog) if "fencing_token" in table.columns]

    def statements(self, found: Detected, options: ReadOptions) -> Statements:
        """Return the canonical SELECTs; see `Statements`."""
        if options.tenant_path or options.key_path:
            raise InputError(
                "expected neither --tenant-path nor --key-path: the contract keeps tenant and key "
                "in columns of their own"
            )
        job = canonical.jobs.c
        by_job = [table for table in _OF_JOBS if table.name in found.tables]
        return Statements(
            jobs=_jobs(options),
            key=job.id,
            key_type=sa.Text,
            running=any_of(job.status, Status.PROCESSING),
            unfinished=any_of(job.status, *UNFINISHED),
            indexed=any_of(job.status, *UNFINISHED),
            history=history(
                micros(job.finished_at), job.id, job=job.id, ended=micros(job.finished_at)
            ),
            history_key=(job.finished_at, job.id),
            by_job={table.name: _of_jobs(table) for table in by_job},
            needs=(
                ("jobs", "id"),
                ("jobs", "finished_at"),
                *((table.name, "job_id") for table in by_job),
            ),
            small={table.name: _whole(table) for table in _SMALL if table.name in found.tables},
        )


def _plain(table: sa.Table) -> dict[str, Column]:
    return {
        column.name: micros(column) if isinstance(column.type, Micros) else column
        for column in table.columns
    }


def _jobs(options: ReadOptions) -> sa.Select[Any]:
    job = canonical.jobs.c
    columns = {"key": job.id, **_plain(canonical.jobs)}
    del columns["key_shape"]  # noted at capture, where the key may be hashed
    columns["native_status"] = job.status
    columns["read_at"] = database_clock()
    if options.lease_seconds is not None:
        is_running = job.status == words(Status.PROCESSING)[0]
        columns["locked_until"] = sa.case(
            (is_running, later(micros(job.claimed_at), options.lease_seconds))
        )
    return sa.select(*named(columns))


def _of_jobs(table: sa.Table) -> sa.Select[Any]:
    ids = sa.bindparam("ids", type_=ListOf(sa.Text))
    return sa.select(*named(_plain(table))).where(listed(table.c.job_id, ids))


def _whole(table: sa.Table) -> sa.Select[Any]:
    columns = {**_plain(table), "read_at": database_clock()}
    return sa.select(*named(columns)).order_by(*table.primary_key.columns)


CONTRACT = Contract()
