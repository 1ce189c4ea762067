"""The jobs that are worst off and their attempts, as frames for notebooks and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from jobplaybook.errors import InputError
from jobplaybook.frames import TIME, Column, FrameSchema, new_frame
from jobplaybook.life_events import Attempt, Event
from jobplaybook.queries import cohort as queries
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, plain, shown

if TYPE_CHECKING:
    import pandas as pd

_JOB = Column("text", "the job's id")
_ATTEMPT = Column("int64", "which attempt of it, from 1", "attempts")
_WORKER = Column("text", "who ran it; missing: not recorded", nullable=True)
_OUTCOME = Column("text", "how it ended")
COHORT: FrameSchema = {
    "job": _JOB,
    "why": Column("text", "what puts it among the worst"),
    "in_system_seconds": Column("float64", "from acceptance to the end, or now", "s", True),
    "attempts": Column("int64", "attempts started so far", "attempts"),
    "state": Column("text", "its state where the window ends"),
    "job_type": Column("text", "what it does", nullable=True),
    "queue": Column("text", "its queue", nullable=True),
}
ATTEMPTS: FrameSchema = {
    "job": _JOB,
    "attempt": _ATTEMPT,
    "worker": _WORKER,
    "started_at": Column(TIME, "when it began", "UTC", True),
    "ended_at": Column(TIME, "when it ended; missing: runs", "UTC", True),
    "outcome": _OUTCOME,
    "lease_over_at": Column(TIME, "when its lease ended, where it still runs", "UTC", True),
    "heartbeat_at": Column(TIME, "its worker's last sign, where it still runs", "UTC", True),
}
WAITS: FrameSchema = {
    "attempt": _ATTEMPT,
    "waited_seconds": Column("float64", "before it began", "s", True),
    "ran_seconds": Column("float64", "missing: still runs", "s", True),
    "outcome": _OUTCOME,
    "counted_from": Column("text", "where the wait begins"),
    "worker": _WORKER,
}
EVENTS: FrameSchema = {
    "at": Column(TIME, "when it happened", "UTC"),
    "event": Column("text", "what happened"),
    "note": Column("text", "what else is known of it"),
    "attempt": Column("text", "in which attempt", nullable=True),
    "worker": Column("text", "whose it was", nullable=True),
    "layer": Column("text", "in which layer; missing: outside", nullable=True),
}


def worst_jobs(
    snapshot: Snapshot,
    *,
    since: int,
    until: int,
    now: int | None = None,
    queue: str | None = None,
    each: int = 4,
) -> pd.DataFrame:
    """Return the jobs that are worst off, the gravest first: a frame of schema `COHORT`.

    They are unfinished or ended in the window, microseconds UTC. Leases are judged at ``now``, by
    default when each job was read. There are at most ``each`` of a kind: lease over, dead, tried
    again, unfinished, slow.

    Raises
    ------
    InputError
        If there is no queue of that name.
    """
    if queue is not None:
        names = [name for (name,) in snapshot.rows(queries.queue_names())]
        if queue not in names:
            raise InputError(no_queue(queue, names))
    asked = queries.worst(since, until, now=now, queue=queue, each=each)
    return new_frame(
        COHORT,
        [
            (id_, why, None if took is None else max(took, 0) / MICROS, tries, state, kind, name)
            for id_, why, kind, name, state, tries, *_, took in snapshot.rows(asked)
        ],
    )


def attempts(snapshot: Snapshot, jobs: Sequence[str], *, now: int | None = None) -> pd.DataFrame:
    """Return the attempts of some jobs, in the order they began: a frame of schema `ATTEMPTS`.

    Leases are judged at ``now``, microseconds UTC; by default when each job was read.
    """
    asked = queries.attempts_of(jobs, snapshot.captured_at, now=now)
    return new_frame(ATTEMPTS, snapshot.rows(asked))


def event_frame(events: Sequence[Event]) -> pd.DataFrame:
    """Return a job's events as a frame of schema `EVENTS`."""
    rows = [
        (e.at, e.event, plain(e.note), e.attempt and str(e.attempt), e.owner, e.layer)
        for e in events
    ]
    return new_frame(EVENTS, rows)


def wait_frame(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Return what a job's attempts waited and ran as a frame of schema `WAITS`."""
    rows = [
        (a.attempt, a.waited_seconds, a.ran_seconds, a.outcome, _counted_from(a), a.owner)
        for a in attempts
    ]
    return new_frame(WAITS, rows)


def _counted_from(attempt: Attempt) -> str:
    if attempt.waited_seconds is None:
        return "not recorded"
    if attempt.wait_is_exact:
        return "when it was due"
    return "acceptance" if attempt.attempt == 1 else "the end of the attempt before"


def no_queue(queue: str, known: Sequence[str | None]) -> str:
    """Return the message for a queue that is not there, with the nearest name.

    Examples
    --------
    >>> no_queue("mial", ["billing", "mail"])
    "expected a queue of this snapshot, found 'mial': did you mean 'mail'?"
    """
    names = sorted(name for name in known if name is not None)
    near = get_close_matches(queue, names, n=1)
    listed = ", ".join(shown(name) for name in names[:10]) or "none"
    hint = f"did you mean {shown(near[0])}?" if near else f"known: {listed}"
    return f"expected a queue of this snapshot, found {shown(queue)}: {hint}"
