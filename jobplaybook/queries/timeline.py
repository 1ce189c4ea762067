"""One job's own rows: the job, its attempts, effects, notices and deliveries, and its owner.

Each with every canonical column of its table.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, micros
from jobplaybook.queries import columns
from jobplaybook.tables import attempts, deliveries, effects, jobs, outbox, workers


def _of(table: sa.Table, key: str, value: str) -> sa.Select[Any]:
    return sa.select(*columns(table)).where(table.c[key] == value)


def _by_time(table: sa.Table, job_id: str, at: str, key: str) -> sa.Select[Any]:
    order = (micros(table.c[at]).nulls_last(), bytewise(table.c[key]))
    return _of(table, "job_id", job_id).order_by(*order)


def job(job_id: str) -> sa.Select[Any]:
    """Return the job's row."""
    return _of(jobs, "id", job_id)


def attempts_of(job_id: str) -> sa.Select[Any]:
    """Return the job's attempts, the first one first."""
    return _of(attempts, "job_id", job_id).order_by(attempts.c.attempt)


def effects_of(job_id: str) -> sa.Select[Any]:
    """Return the job's effects in the order they were intended."""
    return _by_time(effects, job_id, "intended_at", "effect_key")


def notices_of(job_id: str) -> sa.Select[Any]:
    """Return the job's notices in the order they were created."""
    return _by_time(outbox, job_id, "created_at", "id")


def deliveries_of(job_id: str) -> sa.Select[Any]:
    """Return the webhook deliveries linked to the job in the order they came."""
    return _by_time(deliveries, job_id, "received_at", "id")


def worker(owner: str) -> sa.Select[Any]:
    """Return one worker's row."""
    return _of(workers, "owner", owner)
