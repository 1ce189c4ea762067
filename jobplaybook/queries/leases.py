"""Who holds what, and whether they still may."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import Outcome, Status
from jobplaybook.tables import attempts, jobs, workers

_job = jobs.c


def held() -> sa.Select[Any]:
    """Return every running job.

    Columns: id, job_type, queue, tenant_id, owner, claimed_at, locked_until, read_at.
    """
    return (
        sa.select(
            _job.id,
            _job.job_type,
            _job.queue,
            _job.tenant_id,
            _job.owner,
            micros(_job.claimed_at).label("claimed_at"),
            micros(_job.locked_until).label("locked_until"),
            micros(_job.read_at).label("read_at"),
        )
        .where(_job.status == words(Status.PROCESSING)[0])
        .order_by(bytewise(_job.id))
    )


def by_owner(now: int | None = None) -> sa.Select[Any]:
    """Return per owner: owner, jobs, expired, oldest claimed_at, first locked_until, heartbeat_at.

    A lease is judged at the moment its row was read, or at ``now`` where given.
    """
    judged = micros(_job.read_at) if now is None else sa.literal(now, sa.BigInteger)
    until = micros(_job.locked_until)
    held_by = (
        sa.select(
            _job.owner,
            sa.func.count().label("jobs"),
            sa.func.sum(sa.case((until < judged, 1), else_=0)).label("expired"),
            sa.func.min(micros(_job.claimed_at)).label("oldest_claimed_at"),
            sa.func.min(until).label("first_locked_until"),
        )
        .where(_job.status == words(Status.PROCESSING)[0])
        .group_by(_job.owner)
        .subquery("held_by")
    )
    return (
        sa.select(*held_by.c, micros(workers.c.heartbeat_at).label("heartbeat_at"))
        .select_from(held_by.outerjoin(workers, workers.c.owner == held_by.c.owner))
        .order_by(bytewise(held_by.c.owner).nulls_first())
    )


def beats() -> sa.Select[Any]:
    """Return every worker: owner, started_at, heartbeat_at, stopped_at, lease_seconds."""
    worker = workers.c
    return sa.select(
        worker.owner,
        micros(worker.started_at).label("started_at"),
        micros(worker.heartbeat_at).label("heartbeat_at"),
        micros(worker.stopped_at).label("stopped_at"),
        worker.lease_seconds,
    ).order_by(bytewise(worker.owner))


def run_times(job_type: str | None = None) -> sa.Select[Any]:
    """Return how long attempts ran that came to their own end, microseconds, shortest first.

    One that lost its lease, or was perhaps rescued, tells how long nobody noticed.

    Parameters
    ----------
    job_type : str, optional
        Only attempts of this type; all by default.
    """
    attempt = attempts.c
    ran = micros(attempt.ended_at) - micros(attempt.started_at)
    query = (
        sa.select(ran.label("ran"))
        .select_from(attempts.join(jobs, _job.id == attempt.job_id))
        .where(ran >= 0, attempt.outcome.in_(words(Outcome.SUCCEEDED, Outcome.FAILED)))
        .order_by(ran)
    )
    return query if job_type is None else query.where(_job.job_type == job_type)
