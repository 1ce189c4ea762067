"""Attempts after the first: how many, how soon, beside how many completions; and what is parked."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import Outcome, Status
from jobplaybook.queries import (
    COUNT,
    TRIED,
    attempt,
    different,
    has_status,
    in_order,
    job,
    moment,
    per,
    when,
    word,
)
from jobplaybook.tables import attempts


def _retried(since: int, until: int) -> ColumnElement[bool]:
    return sa.and_(attempt.attempt > 1, when.started.between(since, until))


def _completed(since: int, until: int) -> ColumnElement[bool]:
    return sa.and_(has_status(Status.COMPLETED), when.finished.between(since, until))


def retried(since: int, until: int, *, quick: int) -> sa.Select[Any]:
    """Return the retries started in [since, until]: queue, job_type, retries, quick, jobs, tenants.

    ``quick`` counts those that started less than ``quick`` microseconds after the attempt before
    them had ended.
    """
    earlier = attempts.alias("earlier")
    before = sa.and_(earlier.c.job_id == attempt.job_id, earlier.c.attempt == attempt.attempt - 1)
    pause = when.started - micros(earlier.c.ended_at)
    return (
        per(
            *(job.queue, job.job_type),
            retries=COUNT,
            quick=COUNT.filter(pause < quick),
            jobs=different(job.id),
            tenants=different(job.tenant_id),
        )
        .select_from(TRIED.outerjoin(earlier, before))
        .where(_retried(since, until))
    )


def busiest(since: int, until: int, *, limit: int) -> sa.Select[Any]:
    """Return the jobs tried again most often in [since, until]: queue, job_type, id, retries.

    At most ``limit`` of each queue and type, the most often retried first.
    """
    counted = (
        sa.select(job.queue, job.job_type, job.id, COUNT.label("retries"))
        .select_from(TRIED)
        .where(_retried(since, until))
        .group_by(job.queue, job.job_type, job.id)
        .subquery("counted")
    )
    of = counted.c
    order = (of.retries.desc(), sa.func.length(of.id), bytewise(of.id))
    place = sa.func.row_number().over(partition_by=(of.queue, of.job_type), order_by=order)
    ranked = sa.select(*of, place.label("place")).subquery("ranked").c
    return (
        sa.select(ranked.queue, ranked.job_type, ranked.id, ranked.retries)
        .where(ranked.place <= limit)
        .order_by(*in_order(ranked.queue, ranked.job_type), ranked.place)
    )


def completed(since: int, until: int) -> sa.Select[Any]:
    """Return the jobs completed in [since, until]: queue, job_type, completions."""
    return per(job.queue, job.job_type, completions=COUNT).where(_completed(since, until))


def course(since: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return retries and completions over time: kind, queue, job_type, step, count.

    Kinds: ``completion`` and ``retry``. ``step`` counts buckets of ``bucket`` microseconds from
    ``since`` on; steps without an event have no row.
    """

    def events(kind: str, at: ColumnElement[int]) -> sa.Select[Any]:
        step = ((at - since) // moment(bucket)).label("step")
        return sa.select(word(kind).label("kind"), job.queue, job.job_type, step)

    event = sa.union_all(
        events("retry", when.started).select_from(TRIED).where(_retried(since, until)),
        events("completion", when.finished).where(_completed(since, until)),
    ).subquery("event")
    return per(*event.c, count=COUNT)


def wakings(now: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return the parked jobs that become due in (now, until]: queue, wakes_at, jobs, retries.

    ``wakes_at`` is the beginning of a bucket of so many microseconds; ``retries`` are those of
    the jobs that were started before.
    """
    step = when.available - when.available % moment(bucket)
    parked = (
        sa.select(job.queue, job.attempts, step.label("wakes_at"))
        .where(has_status(Status.PENDING), when.available > now, when.available <= until)
        .subquery("parked")
        .c
    )
    again = COUNT.filter(sa.func.coalesce(parked.attempts, 0) > 0)
    return per(parked.queue, parked.wakes_at, jobs=COUNT, retries=again)


def peaks(since: int, until: int, *, bucket: int) -> sa.Select[Any]:
    """Return the most jobs that each queue ever claimed in one bucket: queue, most.

    By the latest claim of each job: less than the truth where jobs were tried again.
    """
    steps = (
        sa.select(job.queue, (when.claimed // moment(bucket)).label("step"))
        .where(when.claimed.between(since, until))
        .subquery("steps")
        .c
    )
    counted = (
        sa.select(steps.queue, COUNT.label("claims"))
        .group_by(steps.queue, steps.step)
        .subquery("counted")
        .c
    )
    return per(counted.queue, most=sa.func.max(counted.claims))


def tried(since: int, until: int) -> sa.Select[Any]:
    """Return the attempts started in [since, until]: queue, job_type, firsts, retries, jobs, calls.

    ``calls`` are the upstream calls of those attempts of which they are recorded; NULL where they
    are recorded of none.
    """
    return (
        per(
            *(job.queue, job.job_type),
            firsts=COUNT.filter(attempt.attempt == 1),
            retries=COUNT.filter(attempt.attempt > 1),
            jobs=different(sa.case((attempt.attempt > 1, job.id))),
            calls=sa.cast(sa.func.sum(attempt.upstream_calls), sa.BigInteger),
        )
        .select_from(TRIED)
        .where(when.started.between(since, until))
    )


def ended_tries(since: int, until: int) -> sa.Select[Any]:
    """Return the attempts ended in [since, until]: queue, job_type, attempt, done, failed, guessed.

    ``failed`` are those after which the job was not done: failed and expired ones, and those of
    unknown outcome, which are ``guessed`` alone. Released and cancelled ones are neither.
    """
    unknown = attempt.outcome == words(Outcome.UNKNOWN)[0]
    failed = attempt.outcome.in_(words(Outcome.FAILED, Outcome.EXPIRED, Outcome.UNKNOWN))
    return (
        per(
            *(job.queue, job.job_type, attempt.attempt),
            done=COUNT.filter(attempt.outcome == words(Outcome.SUCCEEDED)[0]),
            failed=COUNT.filter(failed),
            guessed=COUNT.filter(unknown),
        )
        .select_from(TRIED)
        .where(when.ended.between(since, until))
    )


def allowed(since: int, until: int) -> sa.Select[Any]:
    """Return how many attempts the jobs tried in [since, until] may have: queue, type, least, most.

    Both are NULL where none of them says.
    """
    least, most = sa.func.min(job.max_attempts), sa.func.max(job.max_attempts)
    return (
        per(job.queue, job.job_type, least=least, most=most)
        .select_from(TRIED)
        .where(when.started.between(since, until))
    )
