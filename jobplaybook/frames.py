"""Frames for notebooks and pictures: where jobs stand, what flows, how long the oldest waits.

A frame is checked where it is made; its schema says each column's type, unit and meaning. Only
notebooks and pictures need frames: `triage` reads integers and never imports pandas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from jobplaybook.dialects import micros, words
from jobplaybook.errors import SchemaError
from jobplaybook.model import Status
from jobplaybook.queries import flow as flow_queries
from jobplaybook.queries import standing as standing_queries
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.tables import jobs
from jobplaybook.units import MICROS

if TYPE_CHECKING:
    import pandas as pd

TIME = "datetime64[us, UTC]"
_MOST_BUCKETS = 120
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
Interval = tuple[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a frame.

    Parameters
    ----------
    dtype : str
        ``text``, ``int64``, ``float64`` or `TIME`.
    unit : str
        ``jobs``, ``events``, ``s`` or ``UTC``; empty for names.
    nullable : bool
        Whether a value may be missing.
    doc : str
        What it holds.
    """

    dtype: str
    unit: str = ""
    nullable: bool = False
    doc: str


FrameSchema = Mapping[str, Column]

_QUEUE = Column(dtype="text", nullable=True, doc="the queue's name; missing where it has none")
_UNTIL = Column(dtype=TIME, unit="UTC", doc="end of the time bucket")

STANDING: FrameSchema = {
    "queue": _QUEUE,
    "state": Column(dtype="text", doc="the jobs' state at the moment of judgement"),
    "jobs": Column(dtype="int64", unit="jobs", doc="how many"),
    "oldest_seconds": Column(
        dtype="float64", unit="s", nullable=True, doc="how long the oldest has been in this state"
    ),
}
FLOW: FrameSchema = {
    "queue": _QUEUE,
    "until_at": _UNTIL,
    "arrivals": Column(dtype="int64", unit="events", doc="jobs accepted in the bucket"),
    "claims": Column(dtype="int64", unit="events", doc="attempts started in the bucket"),
    "completions": Column(dtype="int64", unit="events", doc="jobs completed in the bucket"),
    "dead": Column(dtype="int64", unit="events", doc="jobs given up in the bucket"),
    "cancelled": Column(dtype="int64", unit="events", doc="jobs cancelled in the bucket"),
}
OLDEST_AGE: FrameSchema = {
    "queue": _QUEUE,
    "until_at": _UNTIL,
    "oldest_claimable_age_seconds": Column(
        dtype="float64",
        unit="s",
        doc="greatest age that the oldest claimable job reached in the bucket; 0: none waited",
    ),
}


def check_frame(frame: pd.DataFrame, schema: FrameSchema) -> pd.DataFrame:
    """Return the frame with its columns in the schema's order.

    Raises
    ------
    SchemaError
        If a column is missing, unknown, of another type, or has a hole it may not have.
    """
    if set(frame.columns) != set(schema):
        raise SchemaError(f"expected the columns {sorted(schema)}, found {sorted(frame.columns)}")
    for name, column in schema.items():
        found = str(frame[name].dtype)
        texts = column.dtype == "text" and found in ("str", "object", "string")
        if not texts and found != column.dtype:
            raise SchemaError(f"expected column {name} as {column.dtype}, found {found}")
        if not column.nullable and bool(frame[name].isna().any()):
            raise SchemaError(f"expected no hole in column {name}, found one")
    return frame[list(schema)]


def new_frame(schema: FrameSchema, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """Make a checked frame; times come in microseconds UTC."""
    import pandas as pd

    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    made = {}
    for (name, column), values in zip(schema.items(), columns, strict=True):
        dtype = "object" if column.dtype == "text" else column.dtype
        if dtype == TIME:
            moments = pd.to_datetime(list(values), unit="us", utc=True)
            made[name] = pd.Series(pd.DatetimeIndex(moments).as_unit("us"))
        else:
            made[name] = pd.Series(list(values), dtype=dtype)
    return check_frame(pd.DataFrame(made), schema)


def standing(snapshot: Snapshot, *, now: int | None = None) -> pd.DataFrame:
    """Return where every job stands, by queue and state: a frame of schema `STANDING`.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    now : int, optional
        The moment of judgement, microseconds UTC; by default when it was captured.
    """
    each = standing_queries.each_job(snapshot.captured_at if now is None else now)
    job = each.order_by(None).subquery("job").c
    oldest = sa.func.max(job.in_state_seconds)
    by_state = (
        sa.select(job.queue, job.state, sa.func.count(), oldest)
        .group_by(job.queue, job.state)
        .order_by(job.queue.nulls_first(), job.state)
    )
    return new_frame(STANDING, snapshot.rows(by_state))


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Equal steps of time; ``first`` is a multiple of ``width``, the last step ends at ``until``.

    All in microseconds UTC.
    """

    first: int
    until: int
    width: int

    def __len__(self) -> int:
        return max(-(-(self.until - self.first) // self.width), 1)

    def ends(self) -> list[int]:
        """Return where each step ends."""
        steps = range(1, len(self) + 1)
        return [min(self.first + step * self.width, self.until) for step in steps]

    def index(self, at: int) -> int:
        """Return the step that a moment falls into; the very end belongs to the last one."""
        return min((at - self.first) // self.width, len(self) - 1)


def buckets_of(since: int, until: int, bucket_seconds: float | None = None) -> Buckets:
    """Return steps from ``since`` to ``until``: of the given width, or a round one, at most 120.

    Examples
    --------
    >>> steps = buckets_of(0, 600_000_000)
    >>> steps.width // 1_000_000, len(steps)
    (5, 120)
    """
    width = MICROS if bucket_seconds is None else max(round(bucket_seconds * MICROS), 1)
    if bucket_seconds is None:
        fitting = (w * MICROS for w in _WIDTHS if (until - since) <= w * MICROS * _MOST_BUCKETS)
        width = next(fitting, -(-(until - since) // _MOST_BUCKETS))
    return Buckets(first=since - since % width, until=until, width=width)


def flow(
    snapshot: Snapshot, *, since: int, until: int, bucket_seconds: float | None = None
) -> pd.DataFrame:
    """Return how many jobs came, were claimed and ended, per queue and time bucket.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    since, until : int
        The window, microseconds UTC; buckets begin at the first event in it.
    bucket_seconds : float, optional
        Width of a bucket; by default a round one that makes at most 120.

    Returns
    -------
    DataFrame
        Of schema `FLOW`; every queue has every bucket.
    """
    totals = snapshot.rows(flow_queries.totals(since, until))
    steps = buckets_of(_first_event(totals, since), until, bucket_seconds)
    counted = snapshot.rows(flow_queries.buckets(since, until, bucket=steps.width))
    cells: dict[tuple[str | None, int, str], int] = defaultdict(int)
    for kind, queue, begin, count in counted:
        cells[queue, steps.index(begin), kind] += count
    for queue, at, count in snapshot.rows(_cancelled(since, until)):
        cells[queue, steps.index(at), "cancelled"] += count
    kinds = ("arrival", "claim", "completion", "dead", "cancelled")
    rows = [
        (queue, end, *(cells[queue, step, kind] for kind in kinds))
        for queue in _queues([*(row[1] for row in totals), *(queue for queue, *_ in cells)])
        for step, end in enumerate(steps.ends())
    ]
    return new_frame(FLOW, rows)


def _cancelled(since: int, until: int) -> sa.Select[Any]:
    """Return when jobs were cancelled: queue, at, count."""
    at = micros(jobs.c.finished_at)
    return (
        sa.select(jobs.c.queue, at, sa.func.count())
        .where(jobs.c.status == words(Status.CANCELLED)[0], at.between(since, until))
        .group_by(jobs.c.queue, at)
    )


def _first_event(totals: Iterable[tuple[Any, ...]], since: int) -> int:
    return min((first for *_, first, _last in totals), default=since)


def _queues(names: Iterable[str | None]) -> list[str | None]:
    return sorted(set(names), key=lambda name: (name is not None, name or ""))


def oldest_age(
    snapshot: Snapshot, *, since: int, until: int, bucket_seconds: float | None = None
) -> pd.DataFrame:
    """Return how long the oldest claimable job waited, per queue and time bucket.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    since, until : int
        The window, microseconds UTC; the buckets are those of `flow`.
    bucket_seconds : float, optional
        Width of a bucket.

    Returns
    -------
    DataFrame
        Of schema `OLDEST_AGE`.

    Notes
    -----
    Only a job's latest attempt is known to have waited: a wait before an earlier attempt is not
    in the picture, and neither is the rest of a parked retry.
    """
    totals = snapshot.rows(flow_queries.totals(since, until))
    steps = buckets_of(_first_event(totals, since), until, bucket_seconds)
    waits: dict[str | None, list[Interval]] = {row[1]: [] for row in totals}
    for queue, begin, end in snapshot.rows(flow_queries.claimable_intervals(since, until)):
        waits.setdefault(queue, []).append((begin, end))
    rows = [
        (queue, end, age / MICROS)
        for queue in _queues(waits)
        for end, age in zip(steps.ends(), oldest_ages(waits[queue], steps), strict=True)
    ]
    return new_frame(OLDEST_AGE, rows)


def oldest_ages(intervals: Iterable[Interval], steps: Buckets) -> list[int]:
    """Return per step the greatest age that an interval reached inside it.

    Parameters
    ----------
    intervals : iterable of (int, int or None)
        From when to when each job could be claimed, in order of their beginnings; None: still.
    steps : Buckets
        The steps of time.

    Returns
    -------
    list of int
        Ages in the intervals' own unit; 0 where nothing was claimable.

    Notes
    -----
    An interval that ends inside a step reaches its whole length there; of those that outlast a
    step, the one that began first is the oldest, and a heap keeps it on top. n intervals and b
    steps cost O(n log n + b).
    """
    ages = [0] * len(steps)
    starting = []
    for begin, end in intervals:
        if end is not None and steps.first <= end < steps.until:
            place = steps.index(end)
            ages[place] = max(ages[place], end - begin)
        starting.append((begin, steps.until if end is None else end))
    waiting: list[tuple[int, int]] = []
    upcoming = iter(starting)
    following = next(upcoming, None)
    for step, end in enumerate(steps.ends()):
        while following is not None and following[0] < end:
            heappush(waiting, following)
            following = next(upcoming, None)
        while waiting and waiting[0][1] < end:
            heappop(waiting)
        if waiting:
            ages[step] = max(ages[step], end - waiting[0][0])
    return ages
