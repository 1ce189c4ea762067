"""Classes of jobs, by type, priority or tenant: which wait, which are taken, which flood."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise
from jobplaybook.model import Status
from jobplaybook.queries import COUNT, has_status, in_order, job, moment, per, when
from jobplaybook.queries.standing import due, is_due

_CLASS = (job.queue, job.job_type, job.priority)
_BY = {"type": job.job_type, "tenant": job.tenant_id}


def waiting(now: int) -> sa.Select[Any]:
    """Return what a worker could take now: queue, job_type, priority, claimable, oldest_at."""
    of = due(now, *_CLASS).c
    oldest = sa.func.min(of.available_at)
    return per(of.queue, of.job_type, of.priority, claimable=COUNT, oldest_at=oldest).where(
        sa.not_(of.blocked)
    )


def last_claims(since: int, until: int) -> sa.Select[Any]:
    """Return when each class was last claimed in [since, until]: queue, job_type, priority, at."""
    return per(*_CLASS, at=sa.func.max(when.claimed)).where(when.claimed.between(since, until))


def claims(since: int, until: int) -> sa.Select[Any]:
    """Return latest claims in [since, until]: queue, job_type, priority, available_at.

    The first due first; jobs of unknown due time are left out.
    """
    return (
        sa.select(*_CLASS, when.available.label("available_at"))
        .where(when.claimed.between(since, until), when.available.is_not(None))
        .order_by(when.available, bytewise(job.id))
    )


def due_by(by: str, now: int) -> sa.Select[Any]:
    """Return what is due, per class: queue, name, due; the largest class of a queue first.

    ``by`` is ``type`` or ``tenant``; jobs of an unknown one are left out.
    """
    name, count = _BY[by], COUNT.label("due")
    return (
        sa.select(job.queue, name.label("name"), count)
        .where(has_status(Status.PENDING), is_due(now), name.is_not(None))
        .group_by(job.queue, name)
        .order_by(*in_order(job.queue), count.desc(), bytewise(name))
    )


def became_due(
    by: str, queue: str | None, name: str, since: int, until: int, *, bucket: int
) -> sa.Select[Any]:
    """Return how many jobs of a class became due over [since, until]: step, jobs, waiting.

    By the due time of the latest attempt, or by creation where that is not known; ``waiting`` are
    those still pending. ``step`` counts buckets of ``bucket`` microseconds from ``since`` on.
    """
    at = sa.func.coalesce(when.available, when.created)
    pending = has_status(Status.PENDING).label("pending")
    came = (
        sa.select(((at - since) // moment(bucket)).label("step"), pending)
        .where(
            _BY[by] == name,
            job.queue.is_(None) if queue is None else job.queue == queue,
            at.between(since, until),
        )
        .subquery("came")
        .c
    )
    return per(came.step, jobs=COUNT, waiting=COUNT.filter(came.pending))
