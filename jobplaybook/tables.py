"""The canonical tables, once: a snapshot's (SQLite) and the contract's (PostgreSQL or SQLite).

Times are `Micros`: integer microseconds UTC in SQLite, timestamptz in PostgreSQL. The CHECKs
state the invariants; a source brings its rows into this shape, whatever its own tables allow.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import Micros
from jobplaybook.model import FINISHED, UNFINISHED, EffectStatus, Outcome, Quality, Status

SCHEMA = "jobplaybook"
SCHEMA_VERSION = 1
APPLICATION_ID = 0x4A504C59
"""What tells a snapshot from every other SQLite file: the letters JPLY."""

metadata = sa.MetaData(schema=SCHEMA)
_STRICT: dict[str, Any] = {"sqlite_strict": True, "sqlite_with_rowid": False}
_Number: sa.types.TypeEngine[Any] = sa.Double().with_variant(sa.REAL(), "sqlite")
_BigInt = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(name: str, *args: Any, **kw: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, *args, **kw)


def _int(name: str, **kw: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, **kw)


def _time(name: str, **kw: Any) -> sa.Column[Any]:
    return sa.Column(name, Micros, **kw)


def _one_of(column: str, words: type[StrEnum] | tuple[StrEnum, ...] | list[str]) -> str:
    # A chain of ORs and not IN (...): SQLite builds an IN list of three or more words anew for
    # every row inserted, which made the checks cost as much as the insert itself.
    return " OR ".join(f"{column} = '{word}'" for word in words)


def _table(name: str, *args: Any) -> sa.Table:
    return sa.Table(name, metadata, *args, **_STRICT)


jobs = _table(
    "jobs",
    _text("id", primary_key=True),
    _text("tenant_id"),
    _text("job_type"),
    _text("queue"),
    _int("priority"),
    _text("idempotency_key"),
    _text("key_shape"),
    _text("input_hash"),
    _text("status", nullable=False),
    _text("native_status"),
    _int("attempts"),
    _int("max_attempts"),
    _time("created_at"),
    _time("available_at"),
    _time("claimed_at"),
    _time("locked_until"),
    _text("owner"),
    sa.Column("fencing_token", _BigInt),
    _time("finished_at"),
    _time("updated_at"),
    _text("provider_request_id"),
    _text("result_version"),
    _text("last_error_code"),
    _text("error_fingerprint"),
    _text("code_version"),
    _text("input_ref"),
    _text("scheduled_window"),
    _text("replay_of"),
    _text("root_job_id"),
    _text("shard"),
    _time("read_at"),
    sa.CheckConstraint(_one_of("status", Status), name="jobs_status_known"),
    sa.CheckConstraint("attempts >= 0", name="jobs_attempts_counted"),
    sa.CheckConstraint(
        "locked_until IS NULL OR status = 'processing'", name="jobs_lease_only_while_processing"
    ),
    sa.CheckConstraint(
        f"finished_at IS NULL OR {_one_of('status', FINISHED)}", name="jobs_end_only_when_finished"
    ),
    sa.CheckConstraint("replay_of IS NULL OR replay_of <> id", name="jobs_replay_of_another"),
)

attempts = _table(
    "attempts",
    _text("job_id", primary_key=True),
    _int("attempt", primary_key=True),
    _text("owner"),
    sa.Column("fencing_token", _BigInt),
    _time("started_at"),
    _time("ended_at"),
    _text("outcome", nullable=False),
    _text("error_code"),
    _text("error_fingerprint"),
    sa.Column("retry_after_seconds", _Number),
    _int("upstream_calls"),
    sa.CheckConstraint("attempt >= 1", name="attempts_counted_from_one"),
    sa.CheckConstraint(_one_of("outcome", Outcome), name="attempts_outcome_known"),
    sa.CheckConstraint(
        "outcome <> 'running' OR ended_at IS NULL", name="attempts_running_has_no_end"
    ),
)

effects = _table(
    "effects",
    _text("effect_key", primary_key=True),
    _text("job_id"),
    _int("attempt"),
    _text("kind"),
    _text("status", nullable=False),
    _text("provider_id"),
    _text("input_version"),
    _time("intended_at"),
    _time("confirmed_at"),
    sa.CheckConstraint(_one_of("status", EffectStatus), name="effects_status_known"),
    sa.CheckConstraint(
        "status <> 'intended' OR confirmed_at IS NULL", name="effects_intended_not_confirmed"
    ),
)

outbox = _table(
    "outbox",
    _text("id", primary_key=True),
    _text("job_id"),
    _text("topic"),
    _time("created_at"),
    _time("published_at"),
    _int("attempts"),
    sa.CheckConstraint("attempts >= 0", name="outbox_attempts_counted"),
)

deliveries = _table(
    "deliveries",
    _text("id", primary_key=True),
    _text("event_type"),
    _text("job_id"),
    _time("received_at"),
    _int("times_received"),
    _time("processed_at"),
    _text("outcome"),
    sa.CheckConstraint("times_received >= 1", name="deliveries_received_once_at_least"),
)

workers = _table(
    "workers",
    _text("owner", primary_key=True),
    _time("started_at"),
    _time("heartbeat_at"),
    _time("stopped_at"),
    sa.Column("lease_seconds", _Number),
    sa.CheckConstraint("lease_seconds > 0", name="workers_lease_positive"),
)

windows = _table(
    "windows",
    _text("schedule", primary_key=True),
    _time("window_at", primary_key=True),
    _text("job_id"),
    _text("expression"),
    _text("time_zone"),
)

# For a live contract's tables; a snapshot is read whole and made without them. Finished jobs are
# captured newest first, the unfinished along their ids, and what hangs on a job by its id.
sa.Index("jobs_ended_at_id", jobs.c.finished_at, jobs.c.id)
sa.Index(
    "jobs_unfinished_id",
    jobs.c.id,
    postgresql_where=sa.text(_one_of("status", UNFINISHED)),
    sqlite_where=sa.text(_one_of("status", UNFINISHED)),
)
sa.Index("effects_job_id", effects.c.job_id)
sa.Index("outbox_job_id", outbox.c.job_id)

queues = _table("queues", _text("queue", primary_key=True), _time("paused_at"), _text("note"))

vitals = _table(
    "vitals",
    _time("taken_at", primary_key=True),
    _text("name", primary_key=True),
    _text("subject", primary_key=True),
    sa.Column("value", _Number),
)

facts = _table(
    "facts",
    _text("fact", primary_key=True),
    _text("state", primary_key=True),
    _text("quality", nullable=False),
    _text("note"),
    sa.CheckConstraint(_one_of("quality", [q.word for q in Quality]), name="facts_quality_known"),
    sa.CheckConstraint("state IN ('live', 'finished')", name="facts_state_known"),
)

meta = _table("meta", _text("key", primary_key=True), _text("value"))
