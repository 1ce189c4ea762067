"""What the detectors see beside queues and leases: clocks, retries, classes, the database."""

from __future__ import annotations

from dataclasses import dataclass

from jobplaybook.detectors.change import Series
from jobplaybook.units import MICROS

_EMPTY = Series(begin=0, width=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """Rows whose times stand in one order that cannot be."""

    kind: str  # which order: a kind of `jobplaybook.queries.clocks`
    rows: int
    first_at: int | None  # when the first of these jobs or attempts began, as recorded
    apart_seconds: float  # how far apart the times of the worst one are


@dataclass(frozen=True, slots=True, kw_only=True)
class Disordered:
    """Whom the disorders of times hit: all of them together, and the first jobs by id."""

    jobs: int = 0
    tenants: int = 0
    types: int = 0
    job_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVitals:
    """What the server's statistics say of one table; counts of rows are its own estimates."""

    table: str
    live_rows: float = 0.0
    dead_rows: float = 0.0  # versions of rows that nobody may see any more
    last_autovacuum_at: int | None = None  # when autovacuum last ended its work on it
    scans_between: float | None = None  # of the whole table, between the samples; None with one


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The database's vital signs, the last sample of them; None is what was not told."""

    taken_at: int
    first_at: int
    oldest_transaction_seconds: float | None = None  # None where this role may not see it
    oldest_snapshot_transactions: float | None = None  # how many transactions ago it was taken
    oldest_snapshot_seconds: float | None = None  # age of the transaction that holds that one
    claims_between: int | None = None  # between the first and the last sample; None with one
    tables: tuple[TableVitals, ...] = ()

    @property
    def holder_seconds(self) -> float | None:
        """Age of the transaction that holds the oldest snapshot, as far as they were told apart."""
        told = self.oldest_snapshot_seconds
        return self.oldest_transaction_seconds if told is None else told

    @property
    def held_from(self) -> int | None:
        """When the transaction that holds the oldest snapshot began."""
        age = self.holder_seconds
        return None if age is None else self.taken_at - int(age * MICROS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryClass:
    """The retries of one queue and type inside the rate window, and over the whole one."""

    queue: str | None
    job_type: str | None
    retries: int  # attempts after the first that started inside the rate window
    quick: int  # those of them that started at once after the end of the attempt before
    jobs: int  # how many different ones were tried again
    tenants: int
    completions: int  # inside the rate window
    tried: Series  # retries over the whole window
    completed: Series  # completions over the whole window, in the same buckets
    job_ids: tuple[str, ...] = ()  # the jobs tried again most often, that one first
    most: int = 0  # how often that one was tried again inside the rate window


@dataclass(frozen=True, slots=True, kw_only=True)
class Waking:
    """Parked jobs of a queue that become due in one step of time."""

    queue: str | None
    wakes_at: int  # where the step begins
    jobs: int
    retries: int  # those of them that were started before


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingClass:
    """One class of a queue that waits: its type and priority."""

    queue: str | None
    job_type: str | None
    priority: int | None
    claimable: int
    oldest_at: int  # since when the oldest of them could be taken
    last_claim_at: int | None = None  # when one of the class was last claimed, in the window
    overtaken: int = 0  # claims of its queue, in the rate window, of jobs that were due later
    overtaking: tuple[tuple[str | None, int | None, int], ...] = ()
    """The types and priorities of these claims, with their number, the most first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLoad:
    """One type or tenant and its part of what is due in a queue."""

    queue: str | None
    by: str  # ``type`` or ``tenant``
    name: str  # the tenant as the snapshot holds it: hashed, unless it was captured in clear
    due: int
    became_due: Series = _EMPTY  # over the window, waiting or not
    still_due: Series = _EMPTY  # those of them that wait
