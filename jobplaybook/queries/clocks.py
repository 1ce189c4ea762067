"""Times that stand in an order that cannot be: one clock ran ahead of another."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise
from jobplaybook.queries import COUNT, attempt, different, job, per, when, word
from jobplaybook.tables import attempts, jobs

ORDERS = {
    "claimed-before-created": (when.created, when.claimed),
    "ended-before-claimed": (when.claimed, when.finished),
    "ended-before-created": (when.created, when.finished),
}
"""Of a job: which time has to come first, and which after it."""
READ = {
    "created-after-read": (when.created, when.read),
    "claimed-after-read": (when.claimed, when.read),
    "ended-after-read": (when.finished, when.read),
}
"""The same against the database's clock at the moment the row was read."""
ATTEMPT = "attempt-ended-before-started"


def _odd(tolerance: int, clock: bool) -> Any:
    """Return a row per odd job and attempt: kind, job_id, job_type, tenant_id, at, apart.

    Times may lie ``tolerance`` microseconds apart. Without ``clock``, rows were not read by the
    database's own clock, and what `READ` asks is left out. A job counts once, by the first of the
    orders that it breaks.
    """
    orders = {**ORDERS, **READ} if clock else ORDERS
    apart = {kind: first - then for kind, (first, then) in orders.items()}
    broken = {kind: gap > tolerance for kind, gap in apart.items()}
    whose = (job.job_type, job.tenant_id)
    of_jobs = sa.select(
        sa.case(*((broken[kind], word(kind)) for kind in orders)).label("kind"),
        job.id.label("job_id"),
        *whose,
        sa.func.coalesce(when.created, when.claimed, when.finished).label("at"),
        sa.case(*((broken[kind], apart[kind]) for kind in orders)).label("apart"),
    ).where(sa.or_(*broken.values()))
    gap = when.started - when.ended
    kind = word(ATTEMPT).label("kind")
    of_attempts = (
        sa.select(kind, attempt.job_id, *whose, when.started.label("at"), gap.label("apart"))
        .select_from(attempts.outerjoin(jobs, job.id == attempt.job_id))
        .where(gap > tolerance)
    )
    return sa.union_all(of_jobs, of_attempts).subquery("odd").c


def disorders(tolerance: int, *, clock: bool = True) -> sa.Select[Any]:
    """Return per impossible order: kind, rows, first_at, apart; see `_odd`."""
    odd = _odd(tolerance, clock)
    first, apart = sa.func.min(odd.at), sa.func.max(odd.apart)
    return per(odd.kind, rows=COUNT, first_at=first, apart=apart)


def disordered(tolerance: int, *, clock: bool = True) -> sa.Select[Any]:
    """Return how many different jobs, tenants and types these rows belong to; one row."""
    odd = _odd(tolerance, clock)
    whom = {"jobs": odd.job_id, "tenants": odd.tenant_id, "types": odd.job_type}
    counts: list[sa.Label[Any]] = [different(of).label(name) for name, of in whom.items()]
    return sa.select(*counts)


def examples(tolerance: int, *, limit: int, clock: bool = True) -> sa.Select[Any]:
    """Return the first ids of these jobs, short ones first, so that numbers keep their order."""
    odd = _odd(tolerance, clock)
    order = (sa.func.length(odd.job_id), bytewise(odd.job_id))
    return sa.select(odd.job_id).group_by(odd.job_id).order_by(*order).limit(limit)
