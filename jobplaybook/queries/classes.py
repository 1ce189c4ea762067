"""Classes of jobs, by type, priority or tenant: which wait, which are taken, which flood."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import Status
from jobplaybook.queries.standing import is_blocked, is_due
from jobplaybook.tables import jobs

_job = jobs.c
_available, _claimed = micros(_job.available_at), micros(_job.claimed_at)
_BY = {"type": _job.job_type, "tenant": _job.tenant_id}


def _pending() -> sa.ColumnElement[bool]:
    return _job.status == words(Status.PENDING)[0]


def waiting(now: int) -> sa.Select[Any]:
    """Return what a worker could take now: queue, job_type, priority, claimable, oldest_at."""
    due = (
        sa.select(
            _job.queue,
            _job.job_type,
            _job.priority,
            _available.label("available_at"),
            is_blocked().label("blocked"),
        )
        .where(_pending(), is_due(now))
        .subquery("due")
    )
    return (
        sa.select(
            due.c.queue,
            due.c.job_type,
            due.c.priority,
            sa.func.count().label("claimable"),
            sa.func.min(due.c.available_at).label("oldest_at"),
        )
        .where(sa.not_(due.c.blocked))
        .group_by(due.c.queue, due.c.job_type, due.c.priority)
        .order_by(
            bytewise(due.c.queue).nulls_first(),
            bytewise(due.c.job_type).nulls_first(),
            due.c.priority.nulls_first(),
        )
    )


def last_claims(since: int, until: int) -> sa.Select[Any]:
    """Return when each class was last claimed in [since, until]: queue, job_type, priority, at."""
    return (
        sa.select(_job.queue, _job.job_type, _job.priority, sa.func.max(_claimed).label("at"))
        .where(_claimed.between(since, until))
        .group_by(_job.queue, _job.job_type, _job.priority)
        .order_by(
            bytewise(_job.queue).nulls_first(),
            bytewise(_job.job_type).nulls_first(),
            _job.priority.nulls_first(),
        )
    )


def claims(since: int, until: int) -> sa.Select[Any]:
    """Return latest claims in [since, until]: queue, job_type, priority, available_at.

    The first due first; jobs of unknown due time are left out.
    """
    return (
        sa.select(_job.queue, _job.job_type, _job.priority, _available.label("available_at"))
        .where(_claimed.between(since, until), _available.is_not(None))
        .order_by(_available, bytewise(_job.id))
    )


def due_by(by: str, now: int) -> sa.Select[Any]:
    """Return what is due, per class: queue, name, due; the largest class of a queue first.

    Parameters
    ----------
    by : str
        ``type`` or ``tenant``; jobs of an unknown one are left out.
    now : int
        The moment, microseconds UTC.
    """
    name = _BY[by]
    due = sa.func.count().label("due")
    return (
        sa.select(_job.queue, name.label("name"), due)
        .where(_pending(), is_due(now), name.is_not(None))
        .group_by(_job.queue, name)
        .order_by(bytewise(_job.queue).nulls_first(), due.desc(), bytewise(name))
    )


def became_due(
    by: str, queue: str | None, name: str, since: int, until: int, *, bucket: int
) -> sa.Select[Any]:
    """Return how many jobs of a class became due over [since, until]: step, jobs, waiting.

    By the due time of the latest attempt, or by creation where that is not known; ``waiting`` are
    those still pending. ``step`` counts buckets of ``bucket`` microseconds from ``since`` on.
    """
    width = sa.literal(bucket, sa.BigInteger)
    at = sa.func.coalesce(_available, micros(_job.created_at))
    came = (
        sa.select(((at - since) // width).label("step"), _pending().label("pending"))
        .where(
            _BY[by] == name,
            _job.queue.is_(None) if queue is None else _job.queue == queue,
            at.between(since, until),
        )
        .subquery("came")
    )
    return (
        sa.select(
            came.c.step,
            sa.func.count().label("jobs"),
            sa.func.count().filter(came.c.pending).label("waiting"),
        )
        .group_by(came.c.step)
        .order_by(came.c.step)
    )
