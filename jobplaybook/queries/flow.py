"""Arrivals, claims, completions and dead letters over time, per queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, words
from jobplaybook.model import UNFINISHED, Status
from jobplaybook.queries import COUNT, TRIED, columns, has_status, in_order, job, moment, per, when
from jobplaybook.tables import jobs


def _happened(
    *measures: Callable[[ColumnElement[int]], ColumnElement[int]],
) -> Iterator[tuple[sa.Select[Any], ColumnElement[int]]]:
    """Give what is asked of each kind of event, by kind and queue, and the time it happened at."""
    completed, dead = has_status(Status.COMPLETED), has_status(Status.DEAD)
    kinds: tuple[tuple[str, ColumnElement[int], sa.FromClause, ColumnElement[bool]], ...] = (
        ("arrival", when.created, jobs, sa.true()),
        ("claim", when.started, TRIED, sa.true()),
        ("completion", when.finished, jobs, completed),
        ("dead", when.finished, jobs, dead),
    )
    for kind, at, source, condition in kinds:
        asked = sa.select(words(kind)[0].label("kind"), job.queue, *(ask(at) for ask in measures))
        yield asked.select_from(source).where(condition), at


def events() -> sa.CompoundSelect[Any]:
    """Return every event that a flow is made of: kind, queue, at.

    Kinds: ``arrival`` (a job accepted), ``claim`` (an attempt started), ``completion`` (a job
    completed), ``dead`` (a job given up).
    """
    happened = _happened(lambda at: at.label("at"))
    return sa.union_all(*(event.where(at.is_not(None)) for event, at in happened))


def totals(since: int, until: int) -> sa.Select[Any]:
    """Return per kind and queue: how many in [since, until], the first and the last."""
    happened = _happened(
        lambda at: COUNT.label("count"),
        lambda at: sa.func.min(at).label("first_at"),
        lambda at: sa.func.max(at).label("last_at"),
    )
    # kind by kind: one grouping of all events together sorts them all, and takes twice as long
    counted = sa.union_all(
        *(each.where(at.between(since, until)).group_by(job.queue) for each, at in happened)
    ).subquery("counted")
    return sa.select(counted).order_by(*in_order(counted.c.kind, counted.c.queue))


def buckets(since: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return per kind, queue and time bucket the number of events: kind, queue, bucket_at, count.

    ``bucket`` is a width in microseconds; ``bucket_at`` is the bucket's beginning, a multiple of
    the width. Buckets without an event have no row.
    """
    event = events().subquery("event").c
    begin = event.at - event.at % moment(bucket)
    bucketed = (
        sa.select(event.kind, event.queue, begin.label("bucket_at"))
        .where(event.at.between(since, until))
        .subquery("bucketed")
    )
    return per(*bucketed.c, count=COUNT)


def waits(since: int, until: int) -> sa.Select[Any]:
    """Return waits before claims in [since, until): queue, claimed_at, wait, in microseconds.

    One wait a job, the shortest first: from its ``available_at`` to its ``claimed_at``. Both
    belong to the latest attempt, so a parked retry's rest is no wait.
    """
    wait = when.claimed - when.available
    return (
        sa.select(*columns(jobs, "queue", "claimed_at"), wait.label("wait"))
        .where(when.claimed >= since, when.claimed < until, wait >= 0)
        .order_by(wait, bytewise(job.id))
    )


def claimable_intervals(since: int, until: int) -> sa.Select[Any]:
    """Return when jobs could be claimed and were not yet: queue, from_at, to_at.

    One interval a job, of its latest attempt; ``to_at`` is NULL while it waits.
    """
    waiting = has_status(Status.PENDING)
    end = sa.case((sa.not_(waiting), when.claimed))
    return (
        sa.select(job.queue, when.available.label("from_at"), end.label("to_at"))
        .where(
            when.available.is_not(None),
            when.available <= until,
            sa.or_(waiting, sa.and_(end >= since, end >= when.available)),
        )
        .order_by(*in_order(job.queue), when.available, bytewise(job.id))
    )


def dead_letters(since: int, until: int) -> sa.Select[Any]:
    """Return dead letters ended in [since, until]: id, job_type, queue, tenant_id, finished_at."""
    return (
        sa.select(*columns(jobs, "id", "job_type", "queue", "tenant_id", "finished_at"))
        .where(has_status(Status.DEAD), when.finished.between(since, until))
        .order_by(when.finished, bytewise(job.id))
    )


def sojourns(since: int, until: int) -> sa.Select[Any]:
    """Return the jobs that were in the system in [since, until]: queue, created_at, finished_at.

    ``finished_at`` is NULL while a job is unfinished; jobs of unknown arrival are left out.
    """
    stays = sa.or_(job.finished_at.is_(None), when.finished >= since)
    return (
        sa.select(*columns(jobs, "queue", "created_at", "finished_at"))
        .where(job.created_at.is_not(None), when.created <= until, stays)
        .order_by(when.created, bytewise(job.id))
    )


def unfinished(until: int) -> sa.Select[Any]:
    """Return per queue the jobs that were not ended at ``until``: queue, count.

    Counted by status, so that jobs of unknown times are among them; those that came later or
    ended before are not.
    """
    return per(job.queue, count=COUNT).where(
        sa.or_(has_status(*UNFINISHED), when.finished > until),
        sa.or_(when.created.is_(None), when.created <= until),
    )
