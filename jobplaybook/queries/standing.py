"""Where every job stands: stored status, state at a moment, layer, age."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import EffectStatus, Layer, State, Status
from jobplaybook.queries import COUNT, different, has_status, job, moment, per, when, word
from jobplaybook.tables import effects, jobs, outbox


def is_due(now: int) -> ColumnElement[bool]:
    """Return the condition that a job's time has come; an unknown time counts as come."""
    return sa.func.coalesce(when.available <= moment(now), sa.true())


def _is_blocked() -> ColumnElement[bool]:
    """Return the condition that another job of the same shard keeps this one from a claim.

    Jobs of one shard (a serial key, where the system has one) run one at a time and in order: a
    running one keeps all others back, and so does the first one that waits, due or not.
    """
    runs, waits = jobs.alias("runs").c, jobs.alias("waits").c
    held = sa.select(runs.shard).where(
        runs.status == word(Status.PROCESSING), runs.shard.is_not(None)
    )
    order = (
        waits.priority.desc().nulls_last(),
        micros(waits.created_at).nulls_last(),
        sa.func.length(waits.id),  # numbers that are stored as text keep their order
        bytewise(waits.id),
    )
    place = sa.func.row_number().over(partition_by=waits.shard, order_by=order)
    line = (
        sa.select(waits.id, place.label("place"))
        .where(waits.status == word(Status.PENDING), waits.shard.is_not(None))
        .subquery("line")
        .c
    )
    behind = sa.select(line.id).where(line.place > 1)
    return sa.and_(job.shard.is_not(None), sa.or_(job.shard.in_(held), job.id.in_(behind)))


def due(now: int, *columns: ColumnElement[Any]) -> sa.Subquery:
    """Return the jobs that are due: columns of theirs, available_at, blocked."""
    return (
        sa.select(*columns, when.available.label("available_at"), _is_blocked().label("blocked"))
        .where(has_status(Status.PENDING), is_due(now))
        .subquery("due")
    )


def state_at(now: int) -> sa.Case[Any]:
    """Return the job's `State` at ``now``: pending splits by due time and history."""
    pending = has_status(Status.PENDING)
    started = sa.func.coalesce(job.attempts, 0) > 0
    return sa.case(
        (sa.and_(pending, is_due(now)), word(State.AVAILABLE)),
        (sa.and_(pending, started), word(State.RETRYABLE)),
        (pending, word(State.SCHEDULED)),
        else_=job.status,
    )


def _layered() -> tuple[sa.Case[Any], sa.FromClause]:
    """Return a job's layer, and what it has to be selected from."""
    known = words(EffectStatus.CONFIRMED, EffectStatus.RECONCILED)
    effect = (
        sa.select(effects.c.job_id, COUNT.label("known"))
        .where(effects.c.status.in_(known))
        .group_by(effects.c.job_id)
        .subquery("effects_of")
    )
    sent = sa.func.count(outbox.c.published_at)
    notice = (
        sa.select(outbox.c.job_id, COUNT.label("all"), sent.label("sent"))
        .group_by(outbox.c.job_id)
        .subquery("notices_of")
    )
    processing = has_status(Status.PROCESSING)
    layer = sa.case(
        (has_status(Status.PENDING, Status.HELD), word(Layer.WAITING)),
        (sa.and_(processing, effect.c.known > 0), word(Layer.EFFECT)),
        (processing, word(Layer.CLAIMED)),
        (notice.c.all == notice.c.sent, word(Layer.NOTIFIED)),
        else_=word(Layer.RESULT),
    )
    source = jobs.outerjoin(effect, effect.c.job_id == job.id).outerjoin(
        notice, notice.c.job_id == job.id
    )
    return layer, source


def counts(now: int) -> sa.Select[Any]:
    """Return job counts: queue, job_type, status, state, layer, count."""
    layer, source = _layered()
    state = state_at(now).label("state")
    standing = (
        sa.select(job.queue, job.job_type, job.status, state, layer.label("layer"))
        .select_from(source)
        .subquery("standing")
    )
    return per(*standing.c, count=COUNT)


def created_after(at: int) -> sa.Select[Any]:
    """Return how many jobs were created after a moment: count."""
    return sa.select(COUNT).where(when.created > at)


def each_job(now: int) -> sa.Select[Any]:
    """Return a row a job: id, job_type, queue, status, state, layer, ages in seconds.

    ``age_seconds`` counts from acceptance, ``in_state_seconds`` from the latest of due, claimed
    and finished that has passed; NULL where the time is not known.
    """
    layer, source = _layered()
    since = sa.case(
        (when.finished.is_not(None), when.finished),
        (has_status(Status.PROCESSING), when.claimed),
        (is_due(now), when.available),
        else_=micros(job.updated_at),
    )
    return (
        sa.select(
            *(job.id, job.job_type, job.queue, job.status),
            state_at(now).label("state"),
            layer.label("layer"),
            ((moment(now) - when.created) / 1e6).label("age_seconds"),
            ((moment(now) - since) / 1e6).label("in_state_seconds"),
        )
        .select_from(source)
        .order_by(when.created.desc().nulls_last(), bytewise(job.id))
    )


def claimable(now: int) -> sa.Select[Any]:
    """Return what waits for a worker, per queue: queue, due, count, oldest_at, tenants, types.

    ``due`` are the pending jobs whose time has come, ``count`` those of them that a worker could
    take; the age of the oldest is ``now`` minus its ``available_at``: not its creation, and never
    a parked retry. ``tenants`` and ``types`` count the different ones among all that are due.
    """
    of = due(now, job.queue, job.tenant_id, job.job_type).c
    free = sa.not_(of.blocked)
    return per(
        of.queue,
        due=COUNT,
        count=COUNT.filter(free),
        oldest_at=sa.func.min(of.available_at).filter(free),
        tenants=different(of.tenant_id),
        types=different(of.job_type),
    )
