"""Who holds what, and whether they still may."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, words
from jobplaybook.model import Outcome, Status
from jobplaybook.queries import COUNT, TRIED, columns, has_status, in_order, job, moment, when
from jobplaybook.tables import attempts, jobs, workers


def held() -> sa.Select[Any]:
    """Return every running job.

    Columns: id, job_type, queue, tenant_id, owner, claimed_at, locked_until, read_at.
    """
    whose = columns(jobs, "id", "job_type", "queue", "tenant_id", "owner")
    times = columns(jobs, "claimed_at", "locked_until", "read_at")
    running = sa.select(*whose, *times).where(has_status(Status.PROCESSING))
    return running.order_by(bytewise(job.id))


def by_owner(now: int | None = None) -> sa.Select[Any]:
    """Return per owner: owner, jobs, expired, oldest claimed_at, first locked_until, heartbeat_at.

    A lease is judged at the moment its row was read, or at ``now`` where given.
    """
    judged = when.read if now is None else moment(now)
    held_by = (
        sa.select(
            job.owner,
            COUNT.label("jobs"),
            sa.func.sum(sa.case((when.lease_over < judged, 1), else_=0)).label("expired"),
            sa.func.min(when.claimed).label("oldest_claimed_at"),
            sa.func.min(when.lease_over).label("first_locked_until"),
        )
        .where(has_status(Status.PROCESSING))
        .group_by(job.owner)
        .subquery("held_by")
    )
    return (
        sa.select(*held_by.c, *columns(workers, "heartbeat_at"))
        .select_from(held_by.outerjoin(workers, workers.c.owner == held_by.c.owner))
        .order_by(*in_order(held_by.c.owner))
    )


def beats() -> sa.Select[Any]:
    """Return every worker: owner, started_at, heartbeat_at, stopped_at, lease_seconds."""
    names = ("owner", "started_at", "heartbeat_at", "stopped_at", "lease_seconds")
    return sa.select(*columns(workers, *names)).order_by(bytewise(workers.c.owner))


def run_times(job_type: str | None = None) -> sa.Select[Any]:
    """Return how long attempts ran that came to their own end, microseconds, shortest first.

    One that lost its lease, or was perhaps rescued, tells how long nobody noticed. Of all types
    by default.
    """
    ran = when.ended - when.started
    query = (
        sa.select(ran.label("ran"))
        .select_from(TRIED)
        .where(ran >= 0, attempts.c.outcome.in_(words(Outcome.SUCCEEDED, Outcome.FAILED)))
        .order_by(ran)
    )
    return query if job_type is None else query.where(job.job_type == job_type)
