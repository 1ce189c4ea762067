"""Frames for notebooks and pictures: where jobs stand, what flows, how long the oldest waits.

A frame is checked where it is made; its schema says each column's type, unit and meaning. Only
notebooks and pictures need frames: `triage` reads integers and never imports pandas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a frame: its type (``text``, ``int64``, ``float64``, `TIME`) and meaning.

    ``unit`` is ``jobs``, ``events``, ``attempts``, ``s`` or ``UTC``, and empty for names.
    """

    dtype: str
    doc: str
    unit: str = ""
    nullable: bool = False


FrameSchema = Mapping[str, Column]

_QUEUE = Column("text", "the queue's name; missing where it has none", nullable=True)
_UNTIL = Column(TIME, "end of the time bucket", "UTC")
STANDING: FrameSchema = {
    "queue": _QUEUE,
    "state": Column("text", "the jobs' state at the moment of judgement"),
    "jobs": Column("int64", "how many", "jobs"),
    "oldest_seconds": Column("float64", "how long the oldest is in it", "s", nullable=True),
}
FLOW: FrameSchema = {
    "queue": _QUEUE,
    "until_at": _UNTIL,
    "arrivals": Column("int64", "jobs accepted in the bucket", "events"),
    "claims": Column("int64", "attempts started in the bucket", "events"),
    "completions": Column("int64", "jobs completed in the bucket", "events"),
    "dead": Column("int64", "jobs given up in the bucket", "events"),
    "cancelled": Column("int64", "jobs cancelled in the bucket", "events"),
}
OLDEST_AGE: FrameSchema = {
    "queue": _QUEUE,
    "until_at": _UNTIL,
    "oldest_claimable_age_seconds": Column(
        "float64", "greatest age of the oldest claimable job in the bucket; 0: none waited", "s"
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

    # As objects first: beside a hole, a column of numbers would lose the microseconds of its times.
    frame = pd.DataFrame(list(rows), columns=list(schema), dtype="object")
    for name, column in schema.items():
        dtype: Any = column.dtype
        if dtype == TIME:
            frame[name] = pd.to_datetime(frame[name], unit="us", utc=True).astype(dtype)
        elif dtype != "text":
            frame[name] = frame[name].astype(dtype)
    return check_frame(frame, schema)


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
    if bucket_seconds is not None:
        width = max(round(bucket_seconds * MICROS), 1)
    else:
        fitting = (w * MICROS for w in _WIDTHS if (until - since) <= w * MICROS * _MOST_BUCKETS)
        width = next(fitting, -(-(until - since) // _MOST_BUCKETS))
    return Buckets(first=since - since % width, until=until, width=width)


def flow(
    snapshot: Snapshot, *, since: int, until: int, bucket_seconds: float | None = None
) -> pd.DataFrame:
    """Return how many jobs came, were claimed and ended: a frame of schema `FLOW`.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    since, until : int
        The window, microseconds UTC; buckets begin at the first event in it, and every queue has
        every bucket.
    bucket_seconds : float, optional
        Width of a bucket; by default a round one that makes at most 120.
    """
    steps, queues = _steps(snapshot, since, until, bucket_seconds)
    counts = count_events(snapshot, since, until, steps)
    kinds = ("arrival", "claim", "completion", "dead", "cancelled")
    rows = [
        (queue, end, *(counts[queue, step, kind] for kind in kinds))
        for queue in _in_order(queues | {queue for queue, *_ in counts})
        for step, end in enumerate(steps.ends())
    ]
    return new_frame(FLOW, rows)


def oldest_age(
    snapshot: Snapshot, *, since: int, until: int, bucket_seconds: float | None = None
) -> pd.DataFrame:
    """Return how long the oldest claimable job waited: a frame of schema `OLDEST_AGE`.

    Parameters
    ----------
    snapshot, since, until, bucket_seconds
        As `flow` takes them; the buckets are the same.

    Notes
    -----
    Only a job's latest attempt is known to have waited: a wait before an earlier attempt is not
    in the picture, and neither is the rest of a parked retry.
    """
    steps, queues = _steps(snapshot, since, until, bucket_seconds)
    waits = waits_by_queue(snapshot, since, until)
    rows = [
        (queue, end, age / MICROS)
        for queue in _in_order(queues | waits.keys())
        for end, age in zip(steps.ends(), oldest_ages(waits.get(queue, ()), steps), strict=True)
    ]
    return new_frame(OLDEST_AGE, rows)


def _steps(
    snapshot: Snapshot, since: int, until: int, bucket_seconds: float | None
) -> tuple[Buckets, set[str | None]]:
    """Return the buckets from the first event on, and the queues that had any."""
    totals = snapshot.rows(flow_queries.totals(since, until))
    first = min((first for *_, first, _last in totals), default=since)
    return buckets_of(first, until, bucket_seconds), {queue for _, queue, *_ in totals}


def _in_order(queues: Iterable[str | None]) -> list[str | None]:
    return sorted(queues, key=lambda name: (name is not None, name or ""))


def count_events(
    snapshot: Snapshot, since: int, until: int, steps: Buckets
) -> Counter[tuple[str | None, int, str]]:
    """Return how many events there were by queue, step and kind.

    Kinds are those of `jobplaybook.queries.flow.events`, and ``cancelled``.
    """
    counts: Counter[tuple[str | None, int, str]] = Counter()
    for kind, queue, begin, count in snapshot.rows(
        flow_queries.buckets(since, until, bucket=steps.width)
    ):
        counts[queue, steps.index(begin), kind] += count
    at = micros(jobs.c.finished_at)
    cancelled = sa.select(jobs.c.queue, at).where(
        jobs.c.status == words(Status.CANCELLED)[0], at.between(since, until)
    )
    counts.update((queue, steps.index(end), "cancelled") for queue, end in snapshot.rows(cancelled))
    return counts


def waits_by_queue(snapshot: Snapshot, since: int, until: int) -> dict[str | None, list[Interval]]:
    """Return from when to when jobs could be claimed and were not, in order of beginnings."""
    waits: dict[str | None, list[Interval]] = {}
    for queue, begin, end in snapshot.rows(flow_queries.claimable_intervals(since, until)):
        waits.setdefault(queue, []).append((begin, end))
    return waits


def oldest_ages(intervals: Iterable[Interval], steps: Buckets) -> list[int]:
    """Return per step the greatest age that an interval reached inside it; 0: none was there.

    Intervals come in order of their beginnings, one without an end lasts; all in one unit. One that
    ends inside a step reaches its whole length there; of those that outlast a step, the one that
    began first is the oldest. n intervals and b steps cost O(n + b).
    """
    ages = [0] * len(steps)
    spans = [(begin, steps.until if end is None else end) for begin, end in intervals]
    for begin, end in spans:
        if steps.first <= end < steps.until:
            step = steps.index(end)
            ages[step] = max(ages[step], end - begin)
    oldest = 0
    for step, end in enumerate(steps.ends()):
        while oldest < len(spans) and spans[oldest][1] < end:
            oldest += 1
        if oldest < len(spans) and spans[oldest][0] < end:
            ages[step] = max(ages[step], end - spans[oldest][0])
    return ages
