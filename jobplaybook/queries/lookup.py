"""Which jobs somebody means: by id, key, tenant, provider id or delivery."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise
from jobplaybook.queries import in_order, job, when
from jobplaybook.queries.standing import each_job
from jobplaybook.tables import deliveries, effects, jobs, queues


def found(by: str, value: str, now: int) -> sa.Select[Any]:
    """Return the rows of `each_job` that match, unfinished jobs first, then the newest.

    ``by`` is ``job``, ``key``, ``tenant``, ``provider_id`` or ``delivery``; ``value`` is hashed
    already where the snapshot holds hashes.
    """
    conditions = {
        "job": job.id == value,
        "key": job.idempotency_key == value,
        "tenant": job.tenant_id == value,
        "provider_id": sa.or_(
            job.provider_request_id == value,
            job.id.in_(sa.select(effects.c.job_id).where(effects.c.provider_id == value)),
        ),
        "delivery": job.id.in_(sa.select(deliveries.c.job_id).where(deliveries.c.id == value)),
    }
    # Whoever asks wants the jobs that are not done yet: they come before the finished ones.
    every = each_job(now).where(conditions[by]).order_by(None)
    return every.order_by(
        job.finished_at.is_not(None), when.created.desc().nulls_last(), bytewise(job.id)
    )


def queue_names() -> sa.Select[Any]:
    """Select the name of every queue, of jobs and of its own; None: jobs without one."""
    names = sa.union(sa.select(jobs.c.queue), sa.select(queues.c.queue)).subquery("names")
    return sa.select(names.c.queue).order_by(*in_order(names.c.queue))
