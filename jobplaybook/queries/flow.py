"""Arrivals, claims, completions and dead letters over time, per queue."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import UNFINISHED, Status
from jobplaybook.tables import attempts, jobs

_job, _attempt = jobs.c, attempts.c


def _events(
    kind: str, time: ColumnElement[Any], source: sa.FromClause, *conditions: ColumnElement[bool]
) -> sa.Select[Any]:
    return (
        sa.select(
            sa.literal_column(f"'{kind}'").label("kind"),
            _job.queue.label("queue"),
            micros(time).label("at"),
        )
        .select_from(source)
        .where(*conditions, micros(time).is_not(None))
    )


def events() -> sa.CompoundSelect[Any]:
    """Return every event that a flow is made of: kind, queue, at.

    Kinds: ``arrival`` (a job accepted), ``claim`` (an attempt started), ``completion`` (a job
    completed), ``dead`` (a job given up).
    """
    claimed = attempts.join(jobs, _job.id == _attempt.job_id)
    ended = {"completion": Status.COMPLETED, "dead": Status.DEAD}
    return sa.union_all(
        _events("arrival", _job.created_at, jobs),
        _events("claim", _attempt.started_at, claimed),
        *(
            _events(kind, _job.finished_at, jobs, _job.status == words(status)[0])
            for kind, status in ended.items()
        ),
    )


def totals(since: int, until: int) -> sa.Select[Any]:
    """Return per kind and queue: how many in [since, until], the first and the last."""
    event = events().subquery("event")
    return (
        sa.select(
            event.c.kind,
            event.c.queue,
            sa.func.count().label("count"),
            sa.func.min(event.c.at).label("first_at"),
            sa.func.max(event.c.at).label("last_at"),
        )
        .where(event.c.at.between(since, until))
        .group_by(event.c.kind, event.c.queue)
        .order_by(bytewise(event.c.kind), bytewise(event.c.queue).nulls_first())
    )


def buckets(since: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return per kind, queue and time bucket the number of events: kind, queue, bucket_at, count.

    ``bucket`` is a width in microseconds; ``bucket_at`` is the bucket's beginning, a multiple of
    the width. Buckets without an event have no row.
    """
    event = events().subquery("event")
    width = sa.literal(bucket, sa.BigInteger)
    begin = event.c.at - event.c.at % width
    inner = (
        sa.select(event.c.kind, event.c.queue, begin.label("bucket_at"))
        .where(event.c.at.between(since, until))
        .subquery("bucketed")
    )
    return (
        sa.select(*inner.c, sa.func.count().label("count"))
        .group_by(*inner.c)
        .order_by(bytewise(inner.c.kind), bytewise(inner.c.queue).nulls_first(), inner.c.bucket_at)
    )


def waits(since: int, until: int) -> sa.Select[Any]:
    """Return waits before claims in [since, until): queue, claimed_at, wait, in microseconds.

    One wait a job, the shortest first: from its ``available_at`` to its ``claimed_at``. Both
    belong to the latest attempt, so a parked retry's rest is no wait.
    """
    claimed = micros(_job.claimed_at)
    wait = claimed - micros(_job.available_at)
    return (
        sa.select(_job.queue, claimed.label("claimed_at"), wait.label("wait"))
        .where(claimed >= since, claimed < until, wait >= 0)
        .order_by(wait, bytewise(_job.id))
    )


def claimable_intervals(since: int, until: int) -> sa.Select[Any]:
    """Return when jobs could be claimed and were not yet: queue, from_at, to_at.

    One interval a job, of its latest attempt; ``to_at`` is NULL while it waits.
    """
    waiting = _job.status == words(Status.PENDING)[0]
    begin = micros(_job.available_at)
    end = sa.case((sa.not_(waiting), micros(_job.claimed_at)))
    return (
        sa.select(_job.queue, begin.label("from_at"), end.label("to_at"))
        .where(
            begin.is_not(None),
            begin <= until,
            sa.or_(waiting, sa.and_(end >= since, end >= begin)),
        )
        .order_by(bytewise(_job.queue).nulls_first(), begin, bytewise(_job.id))
    )


def dead_letters(since: int, until: int) -> sa.Select[Any]:
    """Return dead letters ended in [since, until]: id, job_type, queue, tenant_id, finished_at."""
    ended = micros(_job.finished_at)
    return (
        sa.select(_job.id, _job.job_type, _job.queue, _job.tenant_id, ended.label("finished_at"))
        .where(_job.status == words(Status.DEAD)[0], ended.between(since, until))
        .order_by(ended, bytewise(_job.id))
    )


def sojourns(since: int, until: int) -> sa.Select[Any]:
    """Return the jobs that were in the system in [since, until]: queue, created_at, finished_at.

    ``finished_at`` is NULL while a job is unfinished; jobs of unknown arrival are left out.
    """
    created, finished = micros(_job.created_at), micros(_job.finished_at)
    return (
        sa.select(_job.queue, created.label("created_at"), finished.label("finished_at"))
        .where(
            _job.created_at.is_not(None),
            created <= until,
            sa.or_(_job.finished_at.is_(None), finished >= since),
        )
        .order_by(created, bytewise(_job.id))
    )


def unfinished(until: int) -> sa.Select[Any]:
    """Return per queue the jobs that were not ended at ``until``: queue, count.

    Counted by status, so that jobs of unknown times are among them; those that came later or
    ended before are not.
    """
    created, finished = micros(_job.created_at), micros(_job.finished_at)
    return (
        sa.select(_job.queue, sa.func.count().label("count"))
        .where(
            sa.or_(_job.status.in_(words(*UNFINISHED)), finished > until),
            sa.or_(created.is_(None), created <= until),
        )
        .group_by(_job.queue)
        .order_by(bytewise(_job.queue).nulls_first())
    )
