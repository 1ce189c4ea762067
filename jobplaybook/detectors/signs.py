"""What the detectors see beside queues and leases: clocks, retries, classes, the database."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobplaybook.detectors.change import Series
from jobplaybook.units import MICROS


@dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """Rows whose times stand in an order that cannot be.

    Parameters
    ----------
    kind : str
        Which order: one of the kinds of `jobplaybook.queries.clocks`.
    rows : int
        How many.
    first_at : int or None
        When the first of these jobs or attempts began, as recorded.
    apart_seconds : float
        How far apart the times of the worst one are.
    """

    kind: str
    rows: int
    first_at: int | None
    apart_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Disordered:
    """Whom the disorders of times hit: all of them together, and the first jobs by id."""

    jobs: int = 0
    tenants: int = 0
    types: int = 0
    job_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVitals:
    """What the server's statistics say of one table; counts of rows are its own estimates.

    Parameters
    ----------
    live_rows, dead_rows : float
        Rows, and versions of rows that nobody may see any more.
    last_autovacuum_at : int or None
        When autovacuum last ended its work on it.
    scans_between : float or None
        Sequential scans between the first and the last sample; None with one sample.
    """

    table: str
    live_rows: float = 0.0
    dead_rows: float = 0.0
    last_autovacuum_at: int | None = None
    scans_between: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The database's vital signs, the last sample of them.

    Parameters
    ----------
    taken_at, first_at : int
        When the last and the first sample were taken.
    oldest_transaction_seconds : float or None
        Age of the oldest open transaction; None where this role may not see it.
    oldest_snapshot_transactions : float or None
        How many transactions ago the oldest snapshot that is still held was taken.
    oldest_snapshot_seconds : float or None
        Age of the transaction that holds that one; None where it was not told apart.
    claims_between : int or None
        Claims between the first and the last sample; None with one sample.
    """

    taken_at: int
    first_at: int
    oldest_transaction_seconds: float | None = None
    oldest_snapshot_transactions: float | None = None
    oldest_snapshot_seconds: float | None = None
    claims_between: int | None = None
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
    """The retries of one queue and type inside the rate window, and over the whole one.

    Parameters
    ----------
    retries : int
        Attempts after the first that started inside the rate window.
    quick : int
        Those of them that started at once after the end of the attempt before.
    jobs, tenants : int
        How many different ones were tried again.
    completions : int
        Jobs that completed inside the rate window.
    tried : Series
        Retries over the whole window.
    completed : Series
        Completions over the whole window, in the same buckets.
    job_ids : tuple of str
        The jobs tried again most often, that one first.
    most : int
        How often that one was tried again inside the rate window.
    """

    queue: str | None
    job_type: str | None
    retries: int
    quick: int
    jobs: int
    tenants: int
    completions: int
    tried: Series
    completed: Series
    job_ids: tuple[str, ...] = ()
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waking:
    """Parked jobs of a queue that become due in one step of time.

    Parameters
    ----------
    wakes_at : int
        Where the step begins.
    jobs : int
        How many.
    retries : int
        Those of them that were started before.
    """

    queue: str | None
    wakes_at: int
    jobs: int
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingClass:
    """One class of a queue that waits: its type and priority.

    Parameters
    ----------
    claimable : int
        How many of it a worker could take.
    oldest_at : int
        Since when the oldest of them could be taken.
    last_claim_at : int or None
        When one of the class was last claimed, in the window.
    overtaken : int
        Claims of its queue, inside the rate window, of jobs that were due later.
    overtaking : tuple of (str or None, int or None, int)
        The types and priorities of these, with their number, the most first.
    """

    queue: str | None
    job_type: str | None
    priority: int | None
    claimable: int
    oldest_at: int
    last_claim_at: int | None = None
    overtaken: int = 0
    overtaking: tuple[tuple[str | None, int | None, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLoad:
    """One type or tenant and its part of what is due in a queue.

    Parameters
    ----------
    by : str
        ``type`` or ``tenant``.
    name : str
        The type, or the tenant as the snapshot holds it: hashed, unless it was captured in clear.
    due : int
        How many of it are due and wait.
    became_due : Series
        How many of it became due over the window, waiting or not.
    still_due : Series
        Those of them that wait.
    """

    queue: str | None
    by: str
    name: str
    due: int
    became_due: Series = field(default_factory=lambda: Series(begin=0, width=1))
    still_due: Series = field(default_factory=lambda: Series(begin=0, width=1))
