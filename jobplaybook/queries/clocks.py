"""Times that stand in an order that cannot be: one clock ran ahead of another."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.tables import attempts, jobs

_job, _attempt = jobs.c, attempts.c
_created, _claimed = micros(_job.created_at), micros(_job.claimed_at)
_finished, _read = micros(_job.finished_at), micros(_job.read_at)

ORDERS = {
    "claimed-before-created": (_created, _claimed),
    "ended-before-claimed": (_claimed, _finished),
    "ended-before-created": (_created, _finished),
}
"""Of a job: which time has to come first, and which after it."""
READ = {
    "created-after-read": (_created, _read),
    "claimed-after-read": (_claimed, _read),
    "ended-after-read": (_finished, _read),
}
"""The same against the database's clock at the moment the row was read."""
ATTEMPT = "attempt-ended-before-started"


def _odd(tolerance: int, clock: bool) -> sa.Subquery:
    """Return a row per odd job and attempt: kind, job_id, job_type, tenant_id, at, apart.

    A job counts once, by the first of the orders that it breaks.
    """
    orders = {**ORDERS, **READ} if clock else ORDERS
    apart = {kind: first - then for kind, (first, then) in orders.items()}
    broken = {kind: gap > tolerance for kind, gap in apart.items()}
    of_jobs = sa.select(
        sa.case(*((broken[kind], words(kind)[0]) for kind in orders)).label("kind"),
        _job.id.label("job_id"),
        _job.job_type,
        _job.tenant_id,
        sa.func.coalesce(_created, _claimed, _finished).label("at"),
        sa.case(*((broken[kind], apart[kind]) for kind in orders)).label("apart"),
    ).where(sa.or_(*broken.values()))
    return sa.union_all(of_jobs, _odd_attempts(tolerance)).subquery("odd")


def _odd_attempts(tolerance: int) -> sa.Select[Any]:
    started = micros(_attempt.started_at)
    apart: ColumnElement[int] = started - micros(_attempt.ended_at)
    return (
        sa.select(
            words(ATTEMPT)[0].label("kind"),
            _attempt.job_id,
            _job.job_type,
            _job.tenant_id,
            started.label("at"),
            apart.label("apart"),
        )
        .select_from(attempts.outerjoin(jobs, _job.id == _attempt.job_id))
        .where(apart > tolerance)
    )


def disorders(tolerance: int, *, clock: bool = True) -> sa.Select[Any]:
    """Return per impossible order: kind, rows, first_at, apart.

    Parameters
    ----------
    tolerance : int
        How far apart two clocks may be, microseconds.
    clock : bool
        Whether rows were read by the database's own clock: False leaves out what `READ` asks.
    """
    odd = _odd(tolerance, clock).c
    return (
        sa.select(
            odd.kind,
            sa.func.count().label("rows"),
            sa.func.min(odd.at).label("first_at"),
            sa.func.max(odd.apart).label("apart"),
        )
        .group_by(odd.kind)
        .order_by(bytewise(odd.kind))
    )


def disordered(tolerance: int, *, clock: bool = True) -> sa.Select[Any]:
    """Return how many different jobs, tenants and types these rows belong to; one row."""
    odd = _odd(tolerance, clock).c
    whom = {"jobs": odd.job_id, "tenants": odd.tenant_id, "types": odd.job_type}
    counts: list[ColumnElement[Any]] = [
        sa.func.count(sa.distinct(of)).label(name) for name, of in whom.items()
    ]
    return sa.select(*counts)


def examples(tolerance: int, *, limit: int, clock: bool = True) -> sa.Select[Any]:
    """Return the first ids of these jobs, short ones first, so that numbers keep their order."""
    odd = _odd(tolerance, clock).c
    return (
        sa.select(odd.job_id)
        .group_by(odd.job_id)
        .order_by(sa.func.length(odd.job_id), bytewise(odd.job_id))
        .limit(limit)
    )
