"""A cohort: the jobs that are worst off, a few of each kind, and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import UNFINISHED, State, Status
from jobplaybook.queries.standing import state_at
from jobplaybook.tables import attempts, jobs, workers

_job, _attempt = jobs.c, attempts.c


class Why(StrEnum):
    """Why a job is in the cohort, the gravest first; a job is in it once."""

    LEASE_OVER = "lease over"
    DEAD = "dead"
    TRIED_AGAIN = "tried again"
    UNFINISHED = "unfinished"
    SLOW = "slow"


def _judged(until: int, now: int | None) -> ColumnElement[Any]:
    """Return when a job's lease is judged."""
    if now is not None:
        return sa.literal(now, sa.BigInteger)
    return sa.func.coalesce(micros(_job.read_at), sa.literal(until, sa.BigInteger))


def _why(judged: ColumnElement[Any]) -> tuple[sa.Case[Any], sa.Case[Any]]:
    """Return the reason as a word, and its place in the order of `Why`."""
    running = _job.status == words(Status.PROCESSING)[0]
    conditions = (
        (Why.LEASE_OVER, sa.and_(running, micros(_job.locked_until) < judged)),
        (Why.DEAD, _job.status == words(Status.DEAD)[0]),
        (Why.TRIED_AGAIN, sa.func.coalesce(_job.attempts, 0) > 1),
        (Why.UNFINISHED, _job.status.in_(words(*UNFINISHED))),
    )
    word = sa.case(
        *((condition, words(why)[0]) for why, condition in conditions), else_=words(Why.SLOW)[0]
    )
    place = sa.case(
        *(
            (condition, sa.literal_column(str(place)))
            for place, (_, condition) in enumerate(conditions)
        ),
        else_=sa.literal_column(str(len(conditions))),
    )
    return word, place


def worst(
    since: int, until: int, *, now: int | None = None, queue: str | None = None, each: int = 4
) -> sa.Select[Any]:
    """Return the jobs that are worst off, the gravest kind first.

    Columns: id, why, job_type, queue, state, attempts, created_at, due_at, finished_at,
    in_system: microseconds from acceptance to the end, or to ``until``.

    Parameters
    ----------
    since, until : int
        Only jobs that are unfinished or ended in this window, microseconds UTC; those that never
        started and are not due yet are not badly off.
    now : int, optional
        When leases are judged; by default when each row was read.
    queue : str, optional
        One queue alone.
    each : int
        So many of each kind: those with most attempts, then those longest in the system.
    """
    at = sa.literal(until, sa.BigInteger)
    why, place = _why(_judged(until, now))
    ended = micros(_job.finished_at)
    in_system = sa.func.coalesce(ended, at) - micros(_job.created_at)
    tried = sa.func.coalesce(_job.attempts, 0)
    order = (tried.desc(), in_system.desc().nulls_last(), bytewise(_job.id))
    found = (
        sa.select(
            _job.id,
            why.label("why"),
            _job.job_type,
            _job.queue,
            state_at(until).label("state"),
            tried.label("attempts"),
            micros(_job.created_at).label("created_at"),
            micros(_job.available_at).label("due_at"),
            ended.label("finished_at"),
            in_system.label("in_system"),
            place.label("kind"),
            sa.func.row_number().over(partition_by=place, order_by=order).label("place"),
        )
        .where(sa.or_(_job.status.in_(words(*UNFINISHED)), ended.between(since, until)))
        .where(state_at(until) != words(State.SCHEDULED)[0])
        .where(*(() if queue is None else (_job.queue == queue,)))
        .subquery("found")
    )
    columns = [column for column in found.c if column.name not in ("kind", "place")]
    return sa.select(*columns).where(found.c.place <= each).order_by(found.c.kind, found.c.place)


def attempts_of(job_ids: Sequence[str], until: int, *, now: int | None = None) -> sa.Select[Any]:
    """Return the attempts of some jobs, in the order they began.

    Columns: job_id, attempt, owner, started_at, ended_at, outcome, lease_over_at,
    heartbeat_at. The last two are NULL unless the attempt runs: when its lease ended, where
    that was before it was judged, and when its worker was last heard of.

    Parameters
    ----------
    job_ids : sequence of str
        Whose attempts.
    until : int
        The last look, microseconds UTC.
    now : int, optional
        When leases are judged; by default when each row was read, or at the last look.
    """
    judged = _judged(until, now)
    lease = micros(_job.locked_until)
    runs = sa.and_(_job.status == words(Status.PROCESSING)[0], _attempt.attempt == _job.attempts)
    over = sa.case((sa.and_(runs, lease < judged), lease))
    beat = sa.case((runs, micros(workers.c.heartbeat_at)))
    started = micros(_attempt.started_at)
    return (
        sa.select(
            _attempt.job_id,
            _attempt.attempt,
            _attempt.owner,
            started.label("started_at"),
            micros(_attempt.ended_at).label("ended_at"),
            _attempt.outcome,
            over.label("lease_over_at"),
            beat.label("heartbeat_at"),
        )
        .select_from(
            attempts.join(jobs, _job.id == _attempt.job_id).outerjoin(
                workers, workers.c.owner == _attempt.owner
            )
        )
        .where(_attempt.job_id.in_(list(job_ids)))
        .order_by(started.nulls_last(), bytewise(_attempt.job_id), _attempt.attempt)
    )


def queue_names() -> sa.Select[Any]:
    """Return the names of all queues that jobs are in: queue."""
    return sa.select(_job.queue).group_by(_job.queue).order_by(bytewise(_job.queue).nulls_first())
