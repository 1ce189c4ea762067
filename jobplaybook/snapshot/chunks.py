"""The statements of a capture that examine a bounded number of rows along an immutable key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.sources.base import Statements


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


def history_chunk(
    statements: Statements, before: Sequence[Any], cutoff: int, size: int
) -> sa.CompoundSelect[Any]:
    """Return the ends since ``cutoff`` in one chunk of history, and a row that sums it up.

    Columns: the history's key, a job's key, when the row was written, when the job ended. In the
    row that sums up the job is NULL: there stand the chunk's last key, and the latest and the
    earliest time that the chunk reached over.
    """
    keys = statements.history_key
    history = statements.history.order_by(*(key.desc() for key in keys))
    if before:
        binds = [sa.literal(value, key.type) for value, key in zip(before, keys, strict=True)]
        history = history.where(sa.tuple_(*keys) < sa.tuple_(*binds))
    chunk = history.limit(size).cte("chunk")
    places = [chunk.c[f"k{place}"] for place in range(len(keys))]
    first = sa.literal(cutoff, sa.BigInteger)
    ends = sa.select(*places, chunk.c.job, chunk.c.seen, chunk.c.ended)
    span = sa.select(sa.func.max(chunk.c.seen), sa.func.min(chunk.c.seen)).subquery("span")
    last = (
        sa.select(*places, sa.cast(sa.null(), statements.key_type), *span.c)
        .select_from(chunk.join(span, sa.true()))
        .order_by(*places)
        .limit(1)
        .subquery("last")
    )
    return sa.union_all(ends.where(chunk.c.ended >= first), sa.select(*last.c))
