"""A cohort: the jobs that are worst off, a few of each kind, and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import UNFINISHED, State, Status
from jobplaybook.queries import TRIED, attempt, columns, has_status, job, moment, per, when, word
from jobplaybook.queries.standing import state_at
from jobplaybook.tables import attempts, workers


class Why(StrEnum):
    """Why a job is in the cohort, the gravest first; a job is in it once."""

    LEASE_OVER = "lease over"
    DEAD = "dead"
    TRIED_AGAIN = "tried again"
    UNFINISHED = "unfinished"
    SLOW = "slow"


def _is_over(until: int, now: int | None) -> ColumnElement[bool]:
    """Return whether a lease is over at ``now``; by default when its row was read."""
    judged = sa.func.coalesce(when.read, moment(until)) if now is None else moment(now)
    return when.lease_over < judged


def _by_reason(over: ColumnElement[bool], told: Sequence[ColumnElement[Any]]) -> sa.Case[Any]:
    """Return what is told of a job by why it is here, in the order of `Why`."""
    reasons = (
        sa.and_(has_status(Status.PROCESSING), over),
        has_status(Status.DEAD),
        sa.func.coalesce(job.attempts, 0) > 1,
        has_status(*UNFINISHED),
    )
    return sa.case(*zip(reasons, told[:-1], strict=True), else_=told[-1])


def worst(
    since: int, until: int, *, now: int | None = None, queue: str | None = None, each: int = 4
) -> sa.Select[Any]:
    """Return the jobs that are worst off, the gravest kind first, of one queue where it is named.

    Columns: id, why, job_type, queue, state, attempts, created_at, due_at, finished_at,
    in_system: microseconds from acceptance to the end, or to ``until``.

    Only jobs that are unfinished or ended in [since, until]; those that never started and are not
    due yet are not badly off. Leases are judged at ``now``, by default when each row was read.
    There are ``each`` of a kind: those with most attempts, then those longest in the system.
    """
    over = _is_over(until, now)
    kind = _by_reason(over, [sa.literal_column(str(place)) for place in range(len(Why))])
    in_system = sa.func.coalesce(when.finished, moment(until)) - when.created
    tried = sa.func.coalesce(job.attempts, 0)
    order = (tried.desc(), in_system.desc().nulls_last(), bytewise(job.id))
    asked = (
        job.id,
        _by_reason(over, words(*Why)).label("why"),
        *(job.job_type, job.queue),
        state_at(until).label("state"),
        tried.label("attempts"),
        when.created.label("created_at"),
        when.available.label("due_at"),
        when.finished.label("finished_at"),
        in_system.label("in_system"),
    )
    place = sa.func.row_number().over(partition_by=kind, order_by=order)
    found = (
        sa.select(*asked, kind.label("kind"), place.label("place"))
        .where(sa.or_(has_status(*UNFINISHED), when.finished.between(since, until)))
        .where(state_at(until) != word(State.SCHEDULED))
        .where(*(() if queue is None else (job.queue == queue,)))
        .subquery("found")
        .c
    )
    chosen = sa.select(*(found[column.name] for column in asked)).where(found.place <= each)
    return chosen.order_by(found.kind, found.place)


def attempts_of(job_ids: Sequence[str], until: int, *, now: int | None = None) -> sa.Select[Any]:
    """Return the attempts of some jobs, in the order they began.

    Columns: job_id, attempt, owner, started_at, ended_at, outcome, lease_over_at,
    heartbeat_at. The last two are NULL unless the attempt runs: when its lease ended, where
    that was before it was judged (at ``now``, or when the row was read, or at ``until``), and
    when its worker was last heard of.
    """
    runs = sa.and_(has_status(Status.PROCESSING), attempt.attempt == job.attempts)
    over = sa.case((sa.and_(runs, _is_over(until, now)), when.lease_over))
    beat = sa.case((runs, micros(workers.c.heartbeat_at)))
    return (
        sa.select(
            *columns(attempts, "job_id", "attempt", "owner", "started_at", "ended_at", "outcome"),
            over.label("lease_over_at"),
            beat.label("heartbeat_at"),
        )
        .select_from(TRIED.outerjoin(workers, workers.c.owner == attempt.owner))
        .where(attempt.job_id.in_(list(job_ids)))
        .order_by(when.started.nulls_last(), bytewise(attempt.job_id), attempt.attempt)
    )


def queue_names() -> sa.Select[Any]:
    """Return the names of all queues that jobs are in: queue."""
    return per(job.queue)
