"""procrastinate 3.x: jobs, events written by triggers, workers with heartbeats.

Every time comes from the database's clock through triggers, so attempts are recorded whole. No
error is recorded anywhere, and nothing takes a dead worker's jobs back by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import ListOf, database_clock, listed, micros, words
from jobplaybook.model import Fact, Outcome, Quality, Status
from jobplaybook.sources.base import (
    Detected,
    ReadOptions,
    Source,
    Statements,
    TableInfo,
    payload_text,
)
from jobplaybook.units import MICROS, shown

LEASE_SECONDS = 30.0
"""The library's default age of a heartbeat after which a worker's jobs count as stalled."""

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
# deferred_for_retry is written for a failure that will be tried again and for a rescued job
# alike: the outcome is not known, and is not guessed.
_OUTCOME = {
    "succeeded": Outcome.SUCCEEDED,
    "failed": Outcome.FAILED,
    "aborted": Outcome.CANCELLED,
    "deferred_for_retry": Outcome.UNKNOWN,
}

_LAST_OUTCOME = {word: outcome for word, outcome in _OUTCOME.items() if word in _ENDS}


def _facts() -> tuple[Fact, ...]:
    exact, bound, inferred, absent = Quality.EXACT, Quality.BOUND, Quality.INFERRED, Quality.ABSENT
    events = "events written by triggers with the database's clock"
    both = {
        "tenant": (absent, "only in the payload: name it with --tenant-path args.NAME"),
        "idempotency_key": (
            inferred,
            "queueing_lock, unique only while todo; --key-path args.NAME reads the business key",
        ),
        "created_at": (exact, events),
        "available_at": (exact, "scheduled_at of the latest attempt; earlier ones are overwritten"),
        "claimed_at": (exact, events),
        "finished_at": (exact, events),
        "attempts": (exact, "counted from started events; the column counts ended attempts"),
        "attempt_times": (exact, events),
        "attempt_outcome": (
            inferred,
            "a retry after a failure and a rescue are the same event, deferred_for_retry",
        ),
        "error": (absent, "no error class or text in any table, only in logs"),
        "effects": (absent, "no ledger of effects"),
        "outbox": (absent, "no outbox"),
        "deliveries": (absent, "no record of webhooks"),
        "paused": (absent, "queues cannot be paused"),
        "max_attempts": (absent, "the retry policy is in the application's code"),
    }
    split = {
        "owner": ((exact, "worker_id"), (inferred, "until the worker's row is deleted")),
        "heartbeat": ((exact, "workers.last_heartbeat"), (absent, "only the last one is kept")),
        "lease": (
            (bound, "30 s without a heartbeat, the library's default; --lease overrides"),
            (absent, "leases of finished runs are not kept"),
        ),
        "schedule_windows": (
            (bound, "the last tick of each periodic task"),
            (inferred, "earlier ticks from the timestamp in the job's arguments"),
        ),
    }
    pairs = {**{name: (grade, grade) for name, grade in both.items()}, **split}
    return tuple(
        Fact(fact=name, state=state, quality=quality, note=note)
        for name, grades in pairs.items()
        for state, (quality, note) in zip(("live", "finished"), grades, strict=True)
    )


class Procrastinate(Source):
    """The tables of procrastinate 3.x on PostgreSQL."""

    name = "procrastinate"
    versions = (("3.x", "run"),)
    signature: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "procrastinate_jobs": (
            "id",
            "queue_name",
            "task_name",
            "priority",
            "lock",
            "queueing_lock",
            "args",
            "status",
            "scheduled_at",
            "worker_id",
        ),
        "procrastinate_events": ("id", "job_id", "type", "at"),
        "procrastinate_workers": ("id", "last_heartbeat"),
    }
    optional: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "procrastinate_periodic_defers": ("task_name", "defer_timestamp", "job_id", "periodic_id"),
    }
    facts = _facts()

    def statements(self, found: Detected, options: ReadOptions) -> Statements:
        """Return the canonical SELECTs; see `Statements`."""
        tables = _Tables(found)
        lease = options.lease_seconds or LEASE_SECONDS
        ends = tables.events.c
        return Statements(
            jobs=_jobs(tables, options, lease),
            key=tables.jobs.c.id,
            key_type=sa.BigInteger,
            # As the library's own partial indexes have it: "aborting" is in none, 3.0 did away
            # with it; what an older worker may have left is found where keys are walked.
            running=tables.jobs.c.status == words("doing")[0],
            unfinished=tables.jobs.c.status.in_(words("todo", *_RUNNING)),
            indexed=tables.jobs.c.status.in_(words("todo", "doing")),
            history=_history(ends),
            history_key=(ends.id,),
            by_job={"attempts": _attempts(tables)},
            needs=(
                ("procrastinate_jobs", "id"),
                ("procrastinate_events", "id"),
                ("procrastinate_events", "job_id"),
            ),
            small=_small(tables, lease),
        )

    def _not_read(self, tables: Mapping[str, TableInfo]) -> Mapping[str, str]:
        kind, *native = tables["procrastinate_jobs"].columns["status"].split()
        strange = [word for word in native if kind == "enum" and word not in _STATUS]
        if not strange:
            return {}
        found = ", ".join(shown(word) for word in strange)
        return {"unfinished": f"jobs of a status that is newer than this version: {found}"}

    def advice(self, owner_jobs: Mapping[str, Sequence[str]], schema: str) -> str | None:
        """Return procrastinate's own statement that requeues the jobs of dead workers."""
        ids = [int(job) for jobs in owner_jobs.values() for job in jobs if _is_number(job)]
        owners = ", ".join(str(int(owner)) for owner in owner_jobs if _is_number(owner))
        if not ids or not owners:
            return None
        # The library's functions find its types and tables by the search path alone.
        quoted = '"' + schema.replace('"', '""') + '"'
        first = "" if schema == "public" else f"SET search_path TO {quoted}; "
        # Printed for a person; every value in it is a number that was read as one.
        return (
            f"{first}SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL)"  # noqa: S608
            f" FROM procrastinate_jobs"
            f" WHERE status = 'doing' AND worker_id IN ({owners})"
            f" AND id IN ({', '.join(map(str, sorted(ids)))});"
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


class _Tables:
    """The tables of one database as SQLAlchemy sees them."""

    def __init__(self, found: Detected) -> None:
        self.jobs = _table(found, "procrastinate_jobs", id=sa.BigInteger, args=sa.JSON)
        self.events = _table(found, "procrastinate_events", id=sa.BigInteger)
        self.workers = _table(found, "procrastinate_workers", id=sa.BigInteger)
        self.periodic = (
            _table(found, "procrastinate_periodic_defers", defer_timestamp=sa.BigInteger)
            if "procrastinate_periodic_defers" in found.tables
            else None
        )


def _table(found: Detected, name: str, **types: Any) -> sa.TableClause:
    info = found.tables[name]
    columns = (sa.column(column, types.get(column, sa.Text)) for column in info.columns)
    return sa.table(name, *columns, schema=info.schema)


def _is(column: ColumnElement[Any], *names: str) -> ColumnElement[bool]:
    return column.in_(words(*names))


def _told(column: ColumnElement[Any], table: Mapping[str, str]) -> sa.Case[Any]:
    return sa.case(
        *((column == words(native)[0], words(word)[0]) for native, word in table.items())
    )


def _jobs(tables: _Tables, options: ReadOptions, lease: float) -> sa.Select[Any]:
    job, worker = tables.jobs.c, tables.workers.c
    event = tables.events.c
    times = (
        sa.select(
            sa.func.count().filter(_is(event.type, "started")).label("starts"),
            sa.func.min(event.at).filter(_is(event.type, "deferred")).label("created"),
            sa.func.max(event.at).filter(_is(event.type, "started")).label("claimed"),
            sa.func.count().filter(_is(event.type, *_OUTCOME)).label("outcomes"),
            sa.func.max(event.at).filter(_is(event.type, *_ENDS)).label("ended"),
            sa.func.max(event.at).filter(event.type != words("scheduled")[0]).label("updated"),
        )
        .where(event.job_id == job.id)
        .lateral("times")
    )
    at = times.c
    running = _is(job.status, *_RUNNING)
    payload = {"args": job.args}
    tenant = payload_text(payload, options.tenant_path, option="--tenant-path")
    key = payload_text(payload, options.key_path, option="--key-path")
    columns: dict[str, ColumnElement[Any] | None] = {
        "id": sa.cast(job.id, sa.Text),
        "tenant_id": tenant,
        "job_type": job.task_name,
        "queue": job.queue_name,
        "priority": job.priority,
        "idempotency_key": job.queueing_lock if key is None else key,
        "status": _told(job.status, _STATUS),
        "native_status": sa.cast(job.status, sa.Text),
        "attempts": at.starts,
        "created_at": micros(at.created),
        "available_at": micros(sa.func.coalesce(job.scheduled_at, at.created)),
        "claimed_at": micros(at.claimed),
        "locked_until": sa.case(
            (running, micros(worker.last_heartbeat) + sa.literal_column(str(int(lease * MICROS))))
        ),
        "owner": sa.case((running, sa.cast(job.worker_id, sa.Text))),
        "finished_at": sa.case((_is(job.status, *_ENDS), micros(at.ended))),
        "updated_at": micros(at.updated),
        "scheduled_window": _window(tables),
        "shard": job.lock,
        "read_at": database_clock(),
        "only_owner": sa.cast(job.worker_id, sa.Text),
        "only_outcome": sa.case(
            (
                (at.starts == 1) & (at.outcomes == 1) & _is(job.status, *_LAST_OUTCOME),
                _told(job.status, _LAST_OUTCOME),
            )
        ),
    }
    return sa.select(
        job.id.label("key"),
        *(column.label(name) for name, column in columns.items() if column is not None),
    ).select_from(
        tables.jobs.outerjoin(tables.workers, worker.id == job.worker_id).join(
            times, sa.true(), isouter=True
        )
    )


def _window(tables: _Tables) -> ColumnElement[Any] | None:
    """Return the cron window of a periodic task's job, from the library's own argument."""
    if tables.periodic is None:
        return None
    job, periodic = tables.jobs.c, tables.periodic.c
    stamp = job.args.op("->>", return_type=sa.Text)(sa.literal_column("'timestamp'"))
    periodic_tasks = sa.select(periodic.task_name)
    moment = sa.func.timezone(
        sa.literal_column("'UTC'"), sa.func.to_timestamp(sa.cast(stamp, sa.Double))
    )
    is_window = job.task_name.in_(periodic_tasks) & stamp.regexp_match(
        sa.literal_column("'^[0-9]{1,11}$'")
    )
    text = sa.func.to_char(moment, sa.literal_column("""'YYYY-MM-DD"T"HH24:MI:SS"Z"'"""))
    return sa.case((is_window, text))


def _history(event: Any) -> sa.Select[Any]:
    # A scheduled event carries the future time the job will be due at: it tells of no past.
    seen = sa.case((event.type != words("scheduled")[0], micros(event.at)))
    return sa.select(
        event.id.label("k0"),
        event.job_id.label("job"),
        seen.label("seen"),
        sa.case((_is(event.type, *_ENDS), micros(event.at))).label("ended"),
    )


def _attempts(tables: _Tables) -> sa.Select[Any]:
    job, event = tables.jobs.c, tables.events.c
    ids = sa.bindparam("ids", type_=ListOf(sa.BigInteger))
    steps = (
        sa.select(
            event.job_id,
            event.type,
            event.at,
            event.id,
            sa.func.lead(event.at)
            .over(partition_by=event.job_id, order_by=event.id)
            .label("next_at"),
            sa.func.lead(sa.cast(event.type, sa.Text))
            .over(partition_by=event.job_id, order_by=event.id)
            .label("next_type"),
        )
        .where(listed(event.job_id, ids), _is(event.type, "started", *_OUTCOME))
        .subquery("steps")
    )
    step = steps.c
    is_running = step.next_type.is_(None) & _is(job.status, *_RUNNING)
    ended = sa.case((step.next_type != words("started")[0], micros(step.next_at)))
    outcome = sa.case(
        (is_running, words(Outcome.RUNNING)[0]),
        (step.next_type.in_(words(*_OUTCOME)), _told(step.next_type, _OUTCOME)),
        else_=words(Outcome.UNKNOWN)[0],
    )
    nth = sa.func.row_number().over(partition_by=step.job_id, order_by=step.id)
    is_last = sa.func.lead(step.id).over(partition_by=step.job_id, order_by=step.id).is_(None)
    return (
        sa.select(
            sa.cast(step.job_id, sa.Text).label("job_id"),
            nth.label("attempt"),
            sa.case((is_last, sa.cast(job.worker_id, sa.Text))).label("owner"),
            micros(step.at).label("started_at"),
            ended.label("ended_at"),
            outcome.label("outcome"),
        )
        .select_from(steps.join(tables.jobs, job.id == step.job_id))
        .where(_is(step.type, "started"))
    )


def _small(tables: _Tables, lease: float) -> dict[str, sa.Select[Any]]:
    worker = tables.workers.c
    small = {
        "workers": sa.select(
            sa.cast(worker.id, sa.Text).label("owner"),
            micros(worker.last_heartbeat).label("heartbeat_at"),
            sa.cast(sa.literal_column(str(lease)), sa.Double).label("lease_seconds"),
            database_clock().label("read_at"),
        ).order_by(worker.id)
    }
    if tables.periodic is not None:
        tick = tables.periodic.c
        name = sa.case(
            (tick.periodic_id == sa.literal_column("''"), tick.task_name),
            else_=tick.task_name + sa.literal_column("'/'") + tick.periodic_id,
        )
        small["windows"] = sa.select(
            name.label("schedule"),
            (tick.defer_timestamp * MICROS).label("window_at"),
            sa.cast(tick.job_id, sa.Text).label("job_id"),
        ).order_by(name, tick.defer_timestamp)
    return small


PROCRASTINATE = Procrastinate()
