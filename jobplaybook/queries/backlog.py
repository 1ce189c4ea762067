"""What a backlog is estimated from: the lives that touch a window, and what was tried again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, words
from jobplaybook.model import Outcome, Status
from jobplaybook.queries import TRIED, attempt, columns, has_status, job, when


def lives(since: int, until: int, **chosen: str | None) -> sa.Select[Any]:
    """Return the jobs that wait, and those that came, were claimed or ended in [since, until].

    With ``queue=`` those of one queue alone; None: without a queue.

    queue, job_type, pending, ended (completed or dead), created_at, available_at, claimed_at,
    finished_at; in the order in which they could be claimed.
    """
    pending = has_status(Status.PENDING)
    times = (when.created, when.claimed, when.finished)
    return (
        sa.select(
            *columns(job.id.table, "queue", "job_type"),
            sa.case((pending, 1), else_=0).label("pending"),
            sa.case((has_status(Status.COMPLETED, Status.DEAD), 1), else_=0).label("ended"),
            *columns(job.id.table, "created_at", "available_at", "claimed_at", "finished_at"),
        )
        .where(sa.or_(pending, *(time.between(since, until) for time in times)), *_of(chosen))
        .order_by(when.available.nulls_first(), bytewise(job.id))
    )


def retried(since: int, until: int, **chosen: str | None) -> sa.Select[Any]:
    """Return the attempts that ended in [since, until] and were or will be followed by another.

    With ``queue=`` those of one queue alone.

    queue, job_type, ended_at, due_at: when the job is due again, NULL where that is past.
    """
    waits = sa.and_(has_status(Status.PENDING), attempt.attempt == job.attempts)
    due = sa.case((waits, when.available))
    return (
        sa.select(job.queue, job.job_type, when.ended.label("ended_at"), due.label("due_at"))
        .select_from(TRIED)
        .where(
            when.ended.between(since, until),
            sa.or_(attempt.attempt < job.attempts, waits),
            *_of(chosen),
        )
        .order_by(when.ended, bytewise(job.id), attempt.attempt)
    )


def runs(since: int, until: int) -> sa.Select[Any]:
    """Return the attempts that ran in [since, until]: queue, job_type, started_at, ended_at.

    ``ended_at`` is NULL while one runs; the order is that of their beginnings.
    """
    running = attempt.outcome == words(Outcome.RUNNING)[0]
    return (
        sa.select(
            *(job.queue, job.job_type),
            *(when.started.label("started_at"), when.ended.label("ended_at")),
        )
        .select_from(TRIED)
        .where(when.started <= until, sa.or_(running, when.ended >= since))
        .order_by(when.started, bytewise(job.id), attempt.attempt)
    )


def _of(chosen: Mapping[str, str | None]) -> list[sa.ColumnElement[bool]]:
    return [
        job[name].is_(None) if value is None else job[name] == value
        for name, value in chosen.items()
    ]
