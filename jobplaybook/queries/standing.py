"""Where every job stands: stored status, state at a moment, layer, age."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import bytewise, micros, words
from jobplaybook.model import EffectStatus, Layer, State, Status
from jobplaybook.tables import effects, jobs, outbox

_job = jobs.c


def _word(word: str) -> ColumnElement[str]:
    return words(word)[0]


def _has_status(*statuses: Status) -> ColumnElement[bool]:
    return _job.status.in_(words(*statuses))


def is_due(now: int) -> ColumnElement[bool]:
    """Return the condition that a job's time has come; an unknown time counts as come."""
    due = micros(_job.available_at) <= sa.literal(now, sa.BigInteger)
    return sa.func.coalesce(due, sa.true())


def is_blocked() -> ColumnElement[bool]:
    """Return the condition that another job of the same shard keeps this one from a claim.

    Jobs of one shard (a serial key, where the system has one) run one at a time and in order: a
    running one keeps all others back, and so does the first one that waits, due or not.
    """
    runs, waits = jobs.alias("runs"), jobs.alias("waits")
    held = sa.select(runs.c.shard).where(
        runs.c.status == _word(Status.PROCESSING), runs.c.shard.is_not(None)
    )
    order = (
        waits.c.priority.desc().nulls_last(),
        micros(waits.c.created_at).nulls_last(),
        sa.func.length(waits.c.id),  # numbers that are stored as text keep their order
        bytewise(waits.c.id),
    )
    place = sa.func.row_number().over(partition_by=waits.c.shard, order_by=order)
    line = (
        sa.select(waits.c.id, place.label("place"))
        .where(waits.c.status == _word(Status.PENDING), waits.c.shard.is_not(None))
        .subquery("line")
    )
    behind = sa.select(line.c.id).where(line.c.place > 1)
    return sa.and_(_job.shard.is_not(None), sa.or_(_job.shard.in_(held), _job.id.in_(behind)))


def state_at(now: int) -> sa.Case[Any]:
    """Return the job's `State` at ``now``: pending splits by due time and history."""
    pending = _has_status(Status.PENDING)
    started = sa.func.coalesce(_job.attempts, 0) > 0
    return sa.case(
        (sa.and_(pending, is_due(now)), _word(State.AVAILABLE)),
        (sa.and_(pending, started), _word(State.RETRYABLE)),
        (pending, _word(State.SCHEDULED)),
        else_=_job.status,
    )


def _of_effects() -> sa.Subquery:
    known = (EffectStatus.CONFIRMED, EffectStatus.RECONCILED)
    return (
        sa.select(effects.c.job_id, sa.func.count().label("known"))
        .where(effects.c.status.in_(words(*known)))
        .group_by(effects.c.job_id)
        .subquery("effects_of")
    )


def _of_notices() -> sa.Subquery:
    sent = sa.func.count(outbox.c.published_at)
    return (
        sa.select(outbox.c.job_id, sa.func.count().label("all"), sent.label("sent"))
        .group_by(outbox.c.job_id)
        .subquery("notices_of")
    )


def _layered() -> tuple[sa.Case[Any], sa.FromClause]:
    effect, notice = _of_effects(), _of_notices()
    layer = sa.case(
        (_has_status(Status.PENDING, Status.HELD), _word(Layer.WAITING)),
        (
            sa.and_(_has_status(Status.PROCESSING), effect.c.known > 0),
            _word(Layer.EFFECT),
        ),
        (_has_status(Status.PROCESSING), _word(Layer.CLAIMED)),
        (notice.c.all == notice.c.sent, _word(Layer.NOTIFIED)),
        else_=_word(Layer.RESULT),
    )
    source = jobs.outerjoin(effect, effect.c.job_id == _job.id).outerjoin(
        notice, notice.c.job_id == _job.id
    )
    return layer, source


def counts(now: int) -> sa.Select[Any]:
    """Return job counts: queue, job_type, status, state, layer, count."""
    layer, source = _layered()
    columns = (
        _job.queue.label("queue"),
        _job.job_type.label("job_type"),
        _job.status.label("status"),
        state_at(now).label("state"),
        layer.label("layer"),
    )
    inner = sa.select(*columns).select_from(source).subquery("standing")
    return (
        sa.select(*inner.c, sa.func.count().label("count"))
        .group_by(*inner.c)
        .order_by(*(bytewise(column).nulls_first() for column in inner.c))
    )


def each_job(now: int) -> sa.Select[Any]:
    """Return a row a job: id, job_type, queue, status, state, layer, ages in seconds.

    ``age_seconds`` counts from acceptance, ``in_state_seconds`` from the latest of due, claimed
    and finished that has passed; NULL where the time is not known.
    """
    layer, source = _layered()
    at = sa.literal(now, sa.BigInteger)
    since = sa.case(
        (micros(_job.finished_at).is_not(None), micros(_job.finished_at)),
        (_has_status(Status.PROCESSING), micros(_job.claimed_at)),
        (is_due(now), micros(_job.available_at)),
        else_=micros(_job.updated_at),
    )
    return (
        sa.select(
            _job.id,
            _job.job_type,
            _job.queue,
            _job.status,
            state_at(now).label("state"),
            layer.label("layer"),
            ((at - micros(_job.created_at)) / 1e6).label("age_seconds"),
            ((at - since) / 1e6).label("in_state_seconds"),
        )
        .select_from(source)
        .order_by(micros(_job.created_at).desc().nulls_last(), bytewise(_job.id))
    )


def claimable(now: int) -> sa.Select[Any]:
    """Return what waits for a worker, per queue: queue, due, count, oldest_at, tenants, types.

    ``due`` are the pending jobs whose time has come, ``count`` those of them that a worker could
    take; the age of the oldest is ``now`` minus its ``available_at``: not its creation, and never
    a parked retry. ``tenants`` and ``types`` count the different ones among all that are due.
    """
    due = (
        sa.select(
            _job.queue,
            _job.tenant_id,
            _job.job_type,
            micros(_job.available_at).label("available_at"),
            is_blocked().label("blocked"),
        )
        .where(_has_status(Status.PENDING), is_due(now))
        .subquery("due")
    )
    free = sa.not_(due.c.blocked)
    return (
        sa.select(
            due.c.queue,
            sa.func.count().label("due"),
            sa.func.count().filter(free).label("count"),
            sa.func.min(due.c.available_at).filter(free).label("oldest_at"),
            sa.func.count(sa.distinct(due.c.tenant_id)).label("tenants"),
            sa.func.count(sa.distinct(due.c.job_type)).label("types"),
        )
        .group_by(due.c.queue)
        .order_by(bytewise(due.c.queue).nulls_first())
    )
