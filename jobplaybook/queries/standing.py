"""Where every job stands: stored status, state at a moment, layer, age."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import micros, words
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
    """Return the condition that a running job of the same shard keeps this one from a claim.

    Jobs of one shard (a serial key, where the system has one) run one at a time.
    """
    runs = jobs.alias("runs")
    held = sa.select(runs.c.shard).where(
        runs.c.status == _word(Status.PROCESSING), runs.c.shard.is_not(None)
    )
    return sa.and_(_job.shard.is_not(None), _job.shard.in_(held))


def is_claimable(now: int) -> ColumnElement[bool]:
    """Return the condition that a worker could claim the job at ``now``.

    Parked retries, jobs that are not due and jobs behind their shard are not claimable.
    """
    return sa.and_(_has_status(Status.PENDING), is_due(now), sa.not_(is_blocked()))


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
        .order_by(*(column.nulls_first() for column in inner.c))
    )


def each_job(now: int) -> sa.Select[Any]:
    """Return a row a job: id, job_type, queue, status, state, layer, ages in seconds.

    ``age_seconds`` counts from acceptance, ``in_state_seconds`` from the latest of due, claimed
    and finished that has passed; NULL where the time is not known.
    """
    layer, source = _layered()
    at = sa.literal(now, sa.BigInteger)
    since = sa.case(
        (_job.finished_at.is_not(None), micros(_job.finished_at)),
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
        .order_by(micros(_job.created_at).desc().nulls_last(), _job.id)
    )


def claimable(now: int) -> sa.Select[Any]:
    """Return what waits for a worker, per queue: queue, count, oldest available_at.

    The age of the oldest is ``now`` minus its ``available_at``: not its creation, and never a
    parked retry.
    """
    return (
        sa.select(
            _job.queue,
            sa.func.count().label("count"),
            sa.func.min(micros(_job.available_at)).label("oldest_at"),
        )
        .where(is_claimable(now))
        .group_by(_job.queue)
        .order_by(_job.queue.nulls_first())
    )
