"""Questions to the canonical tables, as SELECTs: no connection, no clock, both databases.

Times go in and come out as integer microseconds UTC. Here stands what the questions share.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import Micros, bytewise, micros, words
from jobplaybook.model import Status
from jobplaybook.tables import attempts, jobs

job, attempt = jobs.c, attempts.c
TRIED = attempts.join(jobs, job.id == attempt.job_id)
"""Attempts, each with its job."""
COUNT: ColumnElement[int] = sa.func.count()


class when:  # noqa: N801 (read like a word of the question)
    """The times of a job and of an attempt, in microseconds."""

    created, available = micros(job.created_at), micros(job.available_at)
    claimed, finished = micros(job.claimed_at), micros(job.finished_at)
    lease_over, read = micros(job.locked_until), micros(job.read_at)
    started, ended = micros(attempt.started_at), micros(attempt.ended_at)


def columns(table: sa.Table, *names: str) -> list[ColumnElement[Any]]:
    """Return canonical columns of a table, all by default, times in microseconds."""
    chosen = [table.c[name] for name in names or table.c.keys()]
    return [
        micros(column).label(column.name) if isinstance(column.type, Micros) else column
        for column in chosen
    ]


def word(name: str) -> ColumnElement[str]:
    """Return one of this package's own words as a literal."""
    return words(name)[0]


def moment(at: int) -> ColumnElement[int]:
    """Return a number of microseconds as a bind that is wide enough for it."""
    return sa.literal(at, sa.BigInteger)


def has_status(*statuses: Status) -> ColumnElement[bool]:
    """Return the condition that a job has one of these statuses."""
    found = words(*statuses)
    return job.status == found[0] if len(found) == 1 else job.status.in_(found)


def different(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Return how many different values there are; unknown ones are not counted."""
    return sa.func.count(sa.distinct(column))


def in_order(*by: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    """Return what to order by: unknown values first, all but numbers by their bytes."""
    plain = (each if isinstance(each.type, sa.Integer) else bytewise(each) for each in by)
    return [each.nulls_first() for each in plain]


def per(*by: ColumnElement[Any], **measures: ColumnElement[Any]) -> sa.Select[Any]:
    """Return measures per group, the groups in order."""
    named = (measure.label(name) for name, measure in measures.items())
    return sa.select(*by, *named).group_by(*by).order_by(*in_order(*by))
