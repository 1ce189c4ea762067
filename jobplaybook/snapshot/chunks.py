"""The statements of a capture that examine a bounded number of rows along an immutable key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import ListOf, listed
from jobplaybook.sources.base import ONLY_ATTEMPT, Statements

CARRIED = ("job_id", "attempt", "owner", "started_at", "ended_at", "outcome")
"""Columns of ``attempts`` that a job's own row tells where it ran once."""

_DENSE = 1.1
_TAIL = 50
"""So many last rows of a chunk: one of them was written in a transaction that had just begun."""


def key_chunk(
    statements: Statements, after: Any, index: ColumnElement[bool] | None, size: int
) -> sa.Select[Any]:
    """Return the next keys after one, at most ``size``; None for ``after`` begins."""
    key = statements.key
    chunk = sa.select(key).order_by(key).limit(size)
    if index is not None:
        chunk = chunk.where(index)
    if after is not None:
        chunk = chunk.where(key > sa.literal(after, statements.key_type()))
    return chunk


def keyless_chunk(statements: Statements, size: int) -> sa.Select[Any]:
    """Return the unfinished rows that have no key, at most ``size``."""
    keyless = statements.key.is_(None) & statements.unfinished
    return sa.select(sa.cast(sa.null(), sa.Text)).where(keyless).limit(size)


def jobs_of(statements: Statements, keys: Sequence[Any]) -> tuple[sa.Select[Any], dict[str, Any]]:
    """Return the jobs statement for these keys, and its binds.

    Whole numbers without great gaps are asked for as a range, which costs the database a third
    less than a list; it may then give a few jobs more.
    """
    key = statements.key
    if issubclass(statements.key_type, sa.Integer) and max(keys) - min(keys) < _DENSE * len(keys):
        span = key.between(
            sa.bindparam("low", type_=sa.BigInteger), sa.bindparam("high", type_=sa.BigInteger)
        )
        return statements.jobs.where(span), {"low": min(keys), "high": max(keys)}
    ids = sa.bindparam("keys", type_=ListOf(statements.key_type))
    return statements.jobs.where(listed(key, ids)), {"keys": list(keys)}


def newest_first(statements: Statements) -> sa.Select[Any]:
    """Return the history, the newest row first; a row without its key is nowhere in it."""
    keys = statements.history_key
    there = (key.is_not(None) for key in keys)
    return statements.history.where(*there).order_by(*(key.desc() for key in keys))


def history_chunk(
    statements: Statements, before: Sequence[Any], cutoff: int, size: int
) -> sa.CompoundSelect[Any]:
    """Return the ends since ``cutoff`` in one chunk of history, and a row that sums it up.

    Columns: the history's key, a job's key, when the row was written, when the job ended. In the
    row that sums up the job is NULL: there stand the chunk's last key, its latest time, and the
    time back to which it is whole.

    A row's time may be far older than its key: it is when its transaction began. So the chunk is
    whole back to just after the latest time among its last rows, not to the earliest of all.
    """
    keys = statements.history_key
    history = newest_first(statements)
    if before:
        binds = [sa.literal(value, key.type) for value, key in zip(before, keys, strict=True)]
        history = history.where(sa.tuple_(*keys) < sa.tuple_(*binds))
    chunk = history.limit(size).cte("chunk")
    places = [chunk.c[f"k{place}"] for place in range(len(keys))]
    first = sa.literal(cutoff, sa.BigInteger)
    ends = sa.select(*places, chunk.c.job, chunk.c.seen, chunk.c.ended)
    tail = sa.select(chunk.c.seen).order_by(*places).limit(_TAIL).subquery("tail")
    reached = sa.select(sa.func.max(tail.c.seen) + 1).scalar_subquery()
    span = sa.select(sa.func.max(chunk.c.seen), reached.label("reached")).subquery("span")
    last = (
        sa.select(*places, sa.cast(sa.null(), statements.key_type), *span.c)
        .select_from(chunk.join(span, sa.true()))
        .order_by(*places)
        .limit(1)
        .subquery("last")
    )
    return sa.union_all(
        ends.where(chunk.c.ended >= first, chunk.c.job.is_not(None)), sa.select(*last.c)
    )


def carried_attempts(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> dict[Any, tuple[Any, ...]]:
    """Return the attempts that the rows of a jobs statement carry, by the jobs' own keys.

    Each is a row of `CARRIED`: where a job ran once and ended with that run, its claim and its
    end are the attempt's.
    """
    if columns[-1] not in ONLY_ATTEMPT:
        return {}
    job, claimed, finished = map(columns.index, ("id", "claimed_at", "finished_at"))
    return {
        row[0]: (row[job], 1, row[-2], row[claimed], row[finished], row[-1])
        for row in rows
        if row[-1] is not None
    }
