"""The canonical tables, once: a snapshot's (SQLite) and the contract's (PostgreSQL or SQLite).

Times are `Micros`: integer microseconds UTC in SQLite, timestamptz in PostgreSQL. The CHECKs
state the invariants; a source brings its rows into this shape, whatever its own tables allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import Micros
from jobplaybook.model import (
    FACT_STATES,
    FINISHED,
    UNFINISHED,
    EffectStatus,
    Outcome,
    Quality,
    Status,
)

SCHEMA = "jobplaybook"
SCHEMA_VERSION = 1
APPLICATION_ID = 0x4A504C59
"""What tells a snapshot from every other SQLite file: the letters JPLY."""

metadata = sa.MetaData(schema=SCHEMA)
_TYPES: dict[str, Any] = {
    "text": sa.Text,
    "int": sa.Integer,
    "long": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "number": sa.Double().with_variant(sa.REAL(), "sqlite"),
    "time": Micros,
}


def _table(name: str, columns: str, **rules: str) -> sa.Table:
    """Make a table of columns ``name:type``, text by default: ``*`` key, ``!`` never NULL."""
    checks = (sa.CheckConstraint(rule, name=f"{name}_{law}") for law, rule in rules.items())
    parts = (*_columns(columns), *checks)
    return sa.Table(name, metadata, *parts, sqlite_strict=True, sqlite_with_rowid=False)


def _columns(text: str) -> Iterator[sa.Column[Any]]:
    for word in text.split():
        name, _, kind = word.partition(":")
        plain, is_key = name.lstrip("*!"), name.startswith("*")
        nullable = not name.startswith(("*", "!"))
        yield sa.Column(plain, _TYPES[kind or "text"], primary_key=is_key, nullable=nullable)


def _one_of(column: str, words: type[StrEnum] | Sequence[str]) -> str:
    # A chain of ORs and not IN (...): SQLite builds an IN list of three or more words anew for
    # every row inserted, which made the checks cost as much as the insert itself.
    return " OR ".join(f"{column} = '{word}'" for word in words)


jobs = _table(
    "jobs",
    """*id tenant_id job_type queue priority:int idempotency_key key_shape input_hash
    !status native_status attempts:int max_attempts:int
    created_at:time available_at:time claimed_at:time locked_until:time owner fencing_token:long
    finished_at:time updated_at:time provider_request_id result_version
    last_error_code error_fingerprint code_version input_ref scheduled_window
    replay_of root_job_id shard read_at:time""",
    status_known=_one_of("status", Status),
    attempts_counted="attempts >= 0",
    lease_only_while_processing="locked_until IS NULL OR status = 'processing'",
    end_only_when_finished=f"finished_at IS NULL OR {_one_of('status', FINISHED)}",
    replay_of_another="replay_of IS NULL OR replay_of <> id",
)
attempts = _table(
    "attempts",
    """*job_id *attempt:int owner fencing_token:long started_at:time ended_at:time !outcome
    error_code error_fingerprint retry_after_seconds:number upstream_calls:int""",
    counted_from_one="attempt >= 1",
    outcome_known=_one_of("outcome", Outcome),
    running_has_no_end="outcome <> 'running' OR ended_at IS NULL",
)
effects = _table(
    "effects",
    """*effect_key job_id attempt:int kind !status provider_id input_version
    intended_at:time confirmed_at:time""",
    status_known=_one_of("status", EffectStatus),
    intended_not_confirmed="status <> 'intended' OR confirmed_at IS NULL",
)
outbox = _table(
    "outbox",
    "*id job_id topic created_at:time published_at:time attempts:int",
    attempts_counted="attempts >= 0",
)
deliveries = _table(
    "deliveries",
    "*id event_type job_id received_at:time times_received:int processed_at:time outcome",
    received_once_at_least="times_received >= 1",
)
workers = _table(
    "workers",
    "*owner started_at:time heartbeat_at:time stopped_at:time lease_seconds:number",
    lease_positive="lease_seconds > 0",
)
windows = _table("windows", "*schedule *window_at:time job_id expression time_zone")
queues = _table("queues", "*queue paused_at:time note")
vitals = _table("vitals", "*taken_at:time *name *subject value:number")
facts = _table(
    "facts",
    "*fact *state !quality note",
    quality_known=_one_of("quality", [quality.word for quality in Quality]),
    state_known=f"state IN {FACT_STATES}",
)
meta = _table("meta", "*key value")

# For a live contract's tables; a snapshot is read whole and made without them. Finished jobs are
# captured newest first, the unfinished along their ids, and what hangs on a job by its id.
_UNFINISHED = sa.text(_one_of("status", UNFINISHED))
sa.Index("jobs_ended_at_id", jobs.c.finished_at, jobs.c.id)
sa.Index("jobs_unfinished_id", jobs.c.id, postgresql_where=_UNFINISHED, sqlite_where=_UNFINISHED)
sa.Index("effects_job_id", effects.c.job_id)
sa.Index("outbox_job_id", outbox.c.job_id)
