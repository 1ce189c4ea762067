"""One job's own rows: the job, its attempts, effects, notices and deliveries, and its owner."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import Micros, bytewise, micros
from jobplaybook.tables import attempts, deliveries, effects, jobs, outbox, workers


def _plain(table: sa.Table) -> list[sa.ColumnElement[Any]]:
    return [
        (micros(column) if isinstance(column.type, Micros) else column).label(column.name)
        for column in table.columns
    ]


def job(job_id: str) -> sa.Select[Any]:
    """Return the job's row with every canonical column, times in microseconds."""
    return sa.select(*_plain(jobs)).where(jobs.c.id == job_id)


def attempts_of(job_id: str) -> sa.Select[Any]:
    """Return the job's attempts, the first one first, with every canonical column."""
    attempt = attempts.c
    return sa.select(*_plain(attempts)).where(attempt.job_id == job_id).order_by(attempt.attempt)


def effects_of(job_id: str) -> sa.Select[Any]:
    """Return the job's effects in the order they were intended."""
    effect = effects.c
    return (
        sa.select(*_plain(effects))
        .where(effect.job_id == job_id)
        .order_by(micros(effect.intended_at).nulls_last(), bytewise(effect.effect_key))
    )


def notices_of(job_id: str) -> sa.Select[Any]:
    """Return the job's notices in the order they were created."""
    notice = outbox.c
    return (
        sa.select(*_plain(outbox))
        .where(notice.job_id == job_id)
        .order_by(micros(notice.created_at).nulls_last(), bytewise(notice.id))
    )


def deliveries_of(job_id: str) -> sa.Select[Any]:
    """Return the webhook deliveries linked to the job in the order they came."""
    delivery = deliveries.c
    return (
        sa.select(*_plain(deliveries))
        .where(delivery.job_id == job_id)
        .order_by(micros(delivery.received_at).nulls_last(), bytewise(delivery.id))
    )


def worker(owner: str) -> sa.Select[Any]:
    """Return one worker's row with every canonical column."""
    return sa.select(*_plain(workers)).where(workers.c.owner == owner)
