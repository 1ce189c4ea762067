"""Attempts after the first: how many, how soon, beside how many completions; and what is parked."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import Status
from jobplaybook.tables import attempts, jobs

_job, _attempt = jobs.c, attempts.c
_started, _finished = micros(_attempt.started_at), micros(_job.finished_at)


def _retried(since: int, until: int) -> sa.ColumnElement[bool]:
    return sa.and_(_attempt.attempt > 1, _started.between(since, until))


def retried(since: int, until: int, *, quick: int) -> sa.Select[Any]:
    """Return the retries started in [since, until]: queue, job_type, retries, quick, jobs, tenants.

    ``quick`` counts those that started less than ``quick`` microseconds after the attempt before
    them had ended.
    """
    earlier = attempts.alias("earlier")
    pause = _started - micros(earlier.c.ended_at)
    joined = attempts.join(jobs, _job.id == _attempt.job_id).outerjoin(
        earlier,
        sa.and_(earlier.c.job_id == _attempt.job_id, earlier.c.attempt == _attempt.attempt - 1),
    )
    return (
        sa.select(
            _job.queue,
            _job.job_type,
            sa.func.count().label("retries"),
            sa.func.count().filter(pause < quick).label("quick"),
            sa.func.count(sa.distinct(_job.id)).label("jobs"),
            sa.func.count(sa.distinct(_job.tenant_id)).label("tenants"),
        )
        .select_from(joined)
        .where(_retried(since, until))
        .group_by(_job.queue, _job.job_type)
        .order_by(bytewise(_job.queue).nulls_first(), bytewise(_job.job_type).nulls_first())
    )


def busiest(since: int, until: int, *, limit: int) -> sa.Select[Any]:
    """Return the jobs tried again most often in [since, until]: queue, job_type, id, retries.

    At most ``limit`` of each queue and type, the most often retried first.
    """
    counted = (
        sa.select(_job.queue, _job.job_type, _job.id, sa.func.count().label("retries"))
        .select_from(attempts.join(jobs, _job.id == _attempt.job_id))
        .where(_retried(since, until))
        .group_by(_job.queue, _job.job_type, _job.id)
        .subquery("counted")
    )
    of = counted.c
    order = (of.retries.desc(), sa.func.length(of.id), bytewise(of.id))
    place = sa.func.row_number().over(partition_by=(of.queue, of.job_type), order_by=order)
    ranked = sa.select(*of, place.label("place")).subquery("ranked")
    return (
        sa.select(ranked.c.queue, ranked.c.job_type, ranked.c.id, ranked.c.retries)
        .where(ranked.c.place <= limit)
        .order_by(
            bytewise(ranked.c.queue).nulls_first(),
            bytewise(ranked.c.job_type).nulls_first(),
            ranked.c.place,
        )
    )


def completed(since: int, until: int) -> sa.Select[Any]:
    """Return the jobs completed in [since, until]: queue, job_type, completions."""
    return (
        sa.select(_job.queue, _job.job_type, sa.func.count().label("completions"))
        .where(
            _job.status == words(Status.COMPLETED)[0],
            _finished.between(since, until),
        )
        .group_by(_job.queue, _job.job_type)
        .order_by(bytewise(_job.queue).nulls_first(), bytewise(_job.job_type).nulls_first())
    )


def course(since: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return retries and completions over time: kind, queue, job_type, step, count.

    Kinds: ``completion`` and ``retry``. ``step`` counts buckets of ``bucket`` microseconds from
    ``since`` on; steps without an event have no row.
    """
    width = sa.literal(bucket, sa.BigInteger)
    retry = (
        sa.select(
            words("retry")[0].label("kind"),
            _job.queue,
            _job.job_type,
            ((_started - since) // width).label("step"),
        )
        .select_from(attempts.join(jobs, _job.id == _attempt.job_id))
        .where(_retried(since, until))
    )
    completion = sa.select(
        words("completion")[0].label("kind"),
        _job.queue,
        _job.job_type,
        ((_finished - since) // width).label("step"),
    ).where(_job.status == words(Status.COMPLETED)[0], _finished.between(since, until))
    event = sa.union_all(retry, completion).subquery("event").c
    return (
        sa.select(
            event.kind, event.queue, event.job_type, event.step, sa.func.count().label("count")
        )
        .group_by(event.kind, event.queue, event.job_type, event.step)
        .order_by(
            bytewise(event.kind),
            bytewise(event.queue).nulls_first(),
            bytewise(event.job_type).nulls_first(),
            event.step,
        )
    )


def wakings(now: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return the parked jobs that become due in (now, until]: queue, wakes_at, jobs, retries.

    ``wakes_at`` is the beginning of a bucket of so many microseconds; ``retries`` are those of
    the jobs that were started before.
    """
    due = micros(_job.available_at)
    width = sa.literal(bucket, sa.BigInteger)
    parked = (
        sa.select(_job.queue, _job.attempts, (due - due % width).label("wakes_at"))
        .where(_job.status == words(Status.PENDING)[0], due > now, due <= until)
        .subquery("parked")
    )
    again = sa.func.coalesce(parked.c.attempts, 0) > 0
    return (
        sa.select(
            parked.c.queue,
            parked.c.wakes_at,
            sa.func.count().label("jobs"),
            sa.func.count().filter(again).label("retries"),
        )
        .group_by(parked.c.queue, parked.c.wakes_at)
        .order_by(bytewise(parked.c.queue).nulls_first(), parked.c.wakes_at)
    )


def peaks(since: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return the most jobs that each queue ever claimed in one bucket: queue, most.

    By the latest claim of each job: less than the truth where jobs were tried again.
    """
    claimed = micros(_job.claimed_at)
    width = sa.literal(bucket, sa.BigInteger)
    steps = (
        sa.select(_job.queue, (claimed // width).label("step"))
        .where(claimed.between(since, until))
        .subquery("steps")
    )
    counted = (
        sa.select(steps.c.queue, sa.func.count().label("claims"))
        .group_by(steps.c.queue, steps.c.step)
        .subquery("counted")
    )
    return (
        sa.select(counted.c.queue, sa.func.max(counted.c.claims).label("most"))
        .group_by(counted.c.queue)
        .order_by(bytewise(counted.c.queue).nulls_first())
    )
