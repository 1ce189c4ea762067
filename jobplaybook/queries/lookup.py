"""Which jobs somebody means: by id, key, tenant, provider id or delivery."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, micros
from jobplaybook.queries.standing import each_job
from jobplaybook.tables import deliveries, effects, jobs

_job = jobs.c


def found(by: str, value: str, now: int) -> sa.Select[Any]:
    """Return the rows of `each_job` that match, unfinished jobs first, then the newest.

    Parameters
    ----------
    by : str
        ``job``, ``key``, ``tenant``, ``provider_id`` or ``delivery``.
    value : str
        What to look for; hashed already where the snapshot holds hashes.
    """
    conditions = {
        "job": _job.id == value,
        "key": _job.idempotency_key == value,
        "tenant": _job.tenant_id == value,
        "provider_id": sa.or_(
            _job.provider_request_id == value,
            _job.id.in_(sa.select(effects.c.job_id).where(effects.c.provider_id == value)),
        ),
        "delivery": _job.id.in_(sa.select(deliveries.c.job_id).where(deliveries.c.id == value)),
    }
    # Whoever asks wants the jobs that are not done yet: they come before the finished ones.
    every = each_job(now).where(conditions[by])
    return every.order_by(None).order_by(
        _job.finished_at.is_not(None),
        micros(_job.created_at).desc().nulls_last(),
        bytewise(_job.id),
    )
