"""Procrastinate 3.x: jobs, events written by triggers, workers with heartbeats.

Every time comes from the database's clock through triggers, so attempts are recorded whole. No
error is recorded anywhere, and nothing takes a dead worker's jobs back by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import ListOf, database_clock, listed, micros, words
from jobplaybook.model import Outcome, Status
from jobplaybook.sources.base import (
    Column,
    ReadOptions,
    Source,
    Statements,
    any_of,
    columns_of,
    graded,
    history,
    later,
    named,
    payload,
    told,
)
from jobplaybook.sources.catalog import Detected, TableInfo
from jobplaybook.units import MICROS, shown

LEASE_SECONDS = 30.0
"""The library's default age of a heartbeat after which a worker's jobs count as stalled."""

MOST_IDS = 100
"""A statement that frees jobs names no more of them: it has to be read before it is run."""

_STATUS = {
    "todo": Status.PENDING,
    "doing": Status.PROCESSING,
    "aborting": Status.PROCESSING,
    "succeeded": Status.COMPLETED,
    "failed": Status.DEAD,
    "cancelled": Status.CANCELLED,
    "aborted": Status.CANCELLED,
}
_RUNNING = ("doing", "aborting")
_ENDS = ("succeeded", "failed", "cancelled", "aborted")
_ENDED_RUN = {
    "succeeded": Outcome.SUCCEEDED,
    "failed": Outcome.FAILED,
    "aborted": Outcome.CANCELLED,
}
# deferred_for_retry is written for a failure that will be tried again and for a rescued job
# alike: the outcome is not known, and is not guessed.
_OUTCOME = {**_ENDED_RUN, "deferred_for_retry": Outcome.UNKNOWN}


class Procrastinate(Source):
    """The tables of procrastinate 3.x on PostgreSQL."""

    name = "procrastinate"
    versions = (("3.x", "run"),)
    signature = columns_of("""
    procrastinate_jobs: id queue_name task_name priority lock queueing_lock args status
        scheduled_at worker_id
    procrastinate_events: id job_id type at
    procrastinate_workers: id last_heartbeat
    """)
    optional = columns_of("""
    procrastinate_periodic_defers: task_name defer_timestamp job_id periodic_id
    """)
    deletes_ended = "jobs are deleted as they complete (delete_jobs), and their events with them"
    facts = graded("""
    tenant absent only in the payload: name it with --tenant-path args.NAME
    idempotency_key inferred queueing_lock, unique only while todo; --key-path args.NAME reads
        the business key
    created_at exact events written by triggers with the database's clock
    available_at exact scheduled_at of the latest attempt; earlier ones are overwritten
    claimed_at exact events written by triggers with the database's clock
    finished_at exact events written by triggers with the database's clock
    attempts exact counted from started events; the column counts ended attempts
    attempt_times exact events written by triggers with the database's clock
    attempt_outcome inferred a retry after a failure and a rescue are the same event,
        deferred_for_retry
    owner/live exact worker_id
    owner/finished inferred until the worker's row is deleted
    heartbeat/live exact workers.last_heartbeat
    heartbeat/finished absent only the last one is kept
    lease/live bound 30 s without a heartbeat, the library's default; --lease overrides
    lease/finished absent leases of finished runs are not kept
    error absent no error class or text in any table, only in logs
    schedule_windows/live bound the last tick of each periodic task
    schedule_windows/finished inferred earlier ticks from the timestamp in the job's arguments
    paused absent queues cannot be paused
    max_attempts absent the retry policy is in the application's code
    """)

    def statements(self, found: Detected, options: ReadOptions) -> Statements:
        """Return the canonical SELECTs; see `Statements`."""
        tables = _Tables(found)
        lease = options.lease_seconds or LEASE_SECONDS
        job, event = tables.jobs.c, tables.events.c
        # A scheduled event carries the future time the job will be due at: it tells of no past.
        seen = sa.case((event.type != words("scheduled")[0], micros(event.at)))
        return Statements(
            jobs=_jobs(tables, options, lease),
            key=job.id,
            key_type=sa.BigInteger,
            # As the library's own partial indexes have it: "aborting" is in none, 3.0 did away
            # with it; what an older worker may have left is found where keys are walked.
            running=job.status == words("doing")[0],
            unfinished=any_of(job.status, "todo", *_RUNNING),
            indexed=any_of(job.status, "todo", "doing"),
            history=history(
                event.id,
                job=event.job_id,
                seen=seen,
                ended=sa.case((any_of(event.type, *_ENDS), micros(event.at))),
            ),
            history_key=(event.id,),
            by_job={"attempts": _attempts(tables)},
            needs=(
                ("procrastinate_jobs", "id"),
                ("procrastinate_events", "id"),
                ("procrastinate_events", "job_id"),
            ),
            small=_small(tables, lease),
        )

    def not_read(self, tables: Mapping[str, TableInfo]) -> Mapping[str, str]:
        """Return the status words that are newer than this version."""
        kind, *native = tables[self.job_table].columns["status"].split()
        strange = [shown(word) for word in native if kind == "enum" and word not in _STATUS]
        said = f"jobs of a status that is newer than this version: {', '.join(strange)}"
        return {"unfinished": said} if strange else {}

    def advice(self, owner_jobs: Mapping[str, Sequence[str]], schema: str) -> str | None:
        """Return procrastinate's own statement that requeues the jobs of dead workers.

        Exactly these jobs: a worker that beats again may have claimed others since.
        """
        held = sorted(
            (int(job), int(owner))
            for owner, jobs in owner_jobs.items()
            for job in jobs
            if _is_number(job) and _is_number(owner)
        )
        if not held:
            return None
        first_ones, rest = held[:MOST_IDS], len(held) - MOST_IDS
        ids = ", ".join(str(job) for job, _ in first_ones)
        owners = ", ".join(map(str, sorted({owner for _, owner in first_ones})))
        more = (
            f" -- the first {MOST_IDS} of {len(held):,} jobs: triage again for the other {rest:,}"
        )
        # The library's functions find its types and tables by the search path alone.
        quoted = '"' + schema.replace('"', '""') + '"'
        first = "" if schema == "public" else f"SET search_path TO {quoted}; "
        # Printed for a person; every value in it is a number that was read as one.
        return (
            f"{first}SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL)"  # noqa: S608
            f" FROM procrastinate_jobs"
            f" WHERE status = 'doing' AND worker_id IN ({owners})"
            f" AND id IN ({ids});{more if rest > 0 else ''}"
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


class _Tables:
    """The tables of one database as SQLAlchemy sees them."""

    def __init__(self, found: Detected) -> None:
        self.jobs = found.table("procrastinate_jobs", id=sa.BigInteger, args=sa.JSON)
        self.events = found.table("procrastinate_events", id=sa.BigInteger)
        self.workers = found.table("procrastinate_workers", id=sa.BigInteger)
        periodic = "procrastinate_periodic_defers"
        self.periodic = (
            found.table(periodic, defer_timestamp=sa.BigInteger)
            if periodic in found.tables
            else None
        )


def _jobs(tables: _Tables, options: ReadOptions, lease: float) -> sa.Select[Any]:
    job, worker, event = tables.jobs.c, tables.workers.c, tables.events.c
    times = (
        sa.select(
            sa.func.count().filter(any_of(event.type, "started")).label("starts"),
            sa.func.min(event.at).filter(any_of(event.type, "deferred")).label("created"),
            sa.func.max(event.at).filter(any_of(event.type, "started")).label("claimed"),
            sa.func.count().filter(any_of(event.type, *_OUTCOME)).label("outcomes"),
            sa.func.max(event.at).filter(any_of(event.type, *_ENDS)).label("ended"),
            sa.func.max(event.at).filter(event.type != words("scheduled")[0]).label("updated"),
        )
        .where(event.job_id == job.id)
        .lateral("times")
    )
    at = times.c
    running = any_of(job.status, *_RUNNING)
    ran_once = (at.starts == 1) & (at.outcomes == 1) & any_of(job.status, *_ENDED_RUN)
    columns: dict[str, Column | None] = {
        "key": job.id,
        "id": sa.cast(job.id, sa.Text),
        "tenant_id": None,
        "job_type": job.task_name,
        "queue": job.queue_name,
        "priority": job.priority,
        "idempotency_key": job.queueing_lock,
        "status": told(job.status, _STATUS),
        "native_status": sa.cast(job.status, sa.Text),
        "attempts": at.starts,
        "created_at": micros(at.created),
        "available_at": micros(sa.func.coalesce(job.scheduled_at, at.created)),
        "claimed_at": micros(at.claimed),
        "locked_until": sa.case((running, later(micros(worker.last_heartbeat), lease))),
        "owner": sa.case((running, sa.cast(job.worker_id, sa.Text))),
        "finished_at": sa.case((any_of(job.status, *_ENDS), micros(at.ended))),
        "updated_at": micros(at.updated),
        "scheduled_window": _window(tables),
        "shard": job.lock,
        "read_at": database_clock(),
        "only_owner": sa.cast(job.worker_id, sa.Text),
        "only_outcome": sa.case((ran_once, told(job.status, _ENDED_RUN))),
    }
    columns |= payload(options, args=job.args)
    joined = tables.jobs.outerjoin(tables.workers, worker.id == job.worker_id)
    return sa.select(*named(columns)).select_from(joined.outerjoin(times, sa.true()))


def _window(tables: _Tables) -> Column | None:
    """Return the cron window of a periodic task's job, from the library's own argument."""
    if tables.periodic is None:
        return None
    job = tables.jobs.c
    stamp = job.args.op("->>", return_type=sa.Text)(sa.literal_column("'timestamp'"))
    moment = sa.func.timezone(
        sa.literal_column("'UTC'"), sa.func.to_timestamp(sa.cast(stamp, sa.Double))
    )
    is_window = job.task_name.in_(sa.select(tables.periodic.c.task_name)) & stamp.regexp_match(
        sa.literal_column("'^[0-9]{1,11}$'")
    )
    text = sa.func.to_char(moment, sa.literal_column("""'YYYY-MM-DD"T"HH24:MI:SS"Z"'"""))
    return sa.case((is_window, text))


def _attempts(tables: _Tables) -> sa.Select[Any]:
    job, event = tables.jobs.c, tables.events.c
    ids = sa.bindparam("ids", type_=ListOf(sa.BigInteger))
    order: dict[str, Any] = {"partition_by": event.job_id, "order_by": event.id}
    steps = (
        sa.select(
            event.job_id,
            event.type,
            event.at,
            event.id,
            sa.func.lead(event.at).over(**order).label("next_at"),
            sa.func.lead(sa.cast(event.type, sa.Text)).over(**order).label("next_type"),
        )
        .where(listed(event.job_id, ids), any_of(event.type, "started", *_OUTCOME))
        .subquery("steps")
    )
    step = steps.c
    order = {"partition_by": step.job_id, "order_by": step.id}
    is_last = sa.func.lead(step.id).over(**order).is_(None)
    is_running = step.next_type.is_(None) & any_of(job.status, *_RUNNING)
    outcome = sa.case(
        (is_running, words(Outcome.RUNNING)[0]),
        (any_of(step.next_type, *_OUTCOME), told(step.next_type, _OUTCOME)),
        else_=words(Outcome.UNKNOWN)[0],
    )
    columns = {
        "job_id": sa.cast(step.job_id, sa.Text),
        "attempt": sa.func.row_number().over(**order),
        "owner": sa.case((is_last, sa.cast(job.worker_id, sa.Text))),
        "started_at": micros(step.at),
        "ended_at": sa.case((step.next_type != words("started")[0], micros(step.next_at))),
        "outcome": outcome,
    }
    return (
        sa.select(*named(columns))
        .select_from(steps.join(tables.jobs, job.id == step.job_id))
        .where(any_of(step.type, "started"))
    )


def _small(tables: _Tables, lease: float) -> dict[str, sa.Select[Any]]:
    worker = tables.workers.c
    beats = {
        "owner": sa.cast(worker.id, sa.Text),
        "heartbeat_at": micros(worker.last_heartbeat),
        "lease_seconds": sa.cast(sa.literal_column(str(lease)), sa.Double),
        "read_at": database_clock(),
    }
    small = {"workers": sa.select(*named(beats)).order_by(worker.id)}
    if tables.periodic is not None:
        tick = tables.periodic.c
        name = sa.case(
            (tick.periodic_id == sa.literal_column("''"), tick.task_name),
            else_=tick.task_name + sa.literal_column("'/'") + tick.periodic_id,
        )
        ticks = {
            "schedule": name,
            "window_at": tick.defer_timestamp * MICROS,
            "job_id": sa.cast(tick.job_id, sa.Text),
        }
        small["windows"] = sa.select(*named(ticks)).order_by(name, tick.defer_timestamp)
    return small


PROCRASTINATE = Procrastinate()
