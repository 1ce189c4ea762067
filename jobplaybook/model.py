"""The canonical words: statuses, states, layers, outcomes and fact grades. No I/O.

Every queue system is told in these words; a source's own words stay beside them as
``native_status``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Status(StrEnum):
    """What is stored of a job; the finer `State` follows from the moment it is judged at."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    HELD = "held"


class State(StrEnum):
    """A status seen at a moment: pending splits by its due time and its history."""

    SCHEDULED = "scheduled"
    RETRYABLE = "retryable"
    AVAILABLE = "available"
    PROCESSING = "processing"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    HELD = "held"


class Layer(StrEnum):
    """Where a job stands on its way; a fault is looked for layer by layer, in this order."""

    INTAKE = "intake"
    WAITING = "waiting"
    CLAIMED = "claimed"
    EFFECT = "effect"
    RESULT = "result"
    NOTIFIED = "notified"


class Outcome(StrEnum):
    """How an attempt ended; ``unknown`` where the system does not record it."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    RELEASED = "released"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class EffectStatus(StrEnum):
    """What is known of an externally visible act."""

    INTENDED = "intended"
    CONFIRMED = "confirmed"
    RECONCILED = "reconciled"
    UNKNOWN = "unknown"


class _Grade(IntEnum):
    @property
    def word(self) -> str:
        """The grade as it is written in snapshots, JSON and runbooks."""
        return self.name.lower()


class Quality(_Grade):
    """How far a fact can be trusted; a number is as good as the worst fact it rests on."""

    ABSENT = 0
    INFERRED = 1
    BOUND = 2
    EXACT = 3


class Severity(_Grade):
    """What a finding asks for: waking somebody, a ticket, or only to be known."""

    NOTE = 0
    TICKET = 1
    PAGE = 2


UNFINISHED = (Status.PENDING, Status.PROCESSING, Status.HELD)
FINISHED = (Status.COMPLETED, Status.DEAD, Status.CANCELLED)

FACTS = (
    "tenant",
    "idempotency_key",
    "created_at",
    "available_at",
    "claimed_at",
    "finished_at",
    "attempts",
    "attempt_times",
    "attempt_outcome",
    "owner",
    "heartbeat",
    "lease",
    "error",
    "effects",
    "outbox",
    "deliveries",
    "schedule_windows",
    "paused",
    "max_attempts",
)
"""The fixed list of facts that every source grades, for live and for finished rows."""
FACT_STATES = ("live", "finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact's grade for live or finished rows, and where it comes from or why it is missing."""

    fact: str
    state: str
    quality: Quality
    note: str = ""

    def __post_init__(self) -> None:
        if self.fact not in FACTS or self.state not in FACT_STATES:
            raise ValueError(f"expected a listed fact, live or finished: {self.fact}/{self.state}")


def worst(*qualities: Quality) -> Quality:
    """Return the grade of a number that rests on all of ``qualities``."""
    return min(qualities)
