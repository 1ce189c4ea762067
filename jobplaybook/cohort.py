"""The jobs that are worst off and their attempts, as frames for notebooks and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from jobplaybook.errors import InputError
from jobplaybook.frames import TIME, Column, FrameSchema, new_frame
from jobplaybook.life_events import Event
from jobplaybook.life_words import Attempt
from jobplaybook.queries import cohort as queries
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, plain, shown

if TYPE_CHECKING:
    import pandas as pd

COHORT: FrameSchema = {
    "job": Column(dtype="text", doc="the job's id"),
    "why": Column(dtype="text", doc="what puts it among the worst"),
    "in_system_seconds": Column(
        dtype="float64", unit="s", nullable=True, doc="from acceptance to the end, or until now"
    ),
    "attempts": Column(dtype="int64", unit="attempts", doc="attempts started so far"),
    "state": Column(dtype="text", doc="its state where the window ends"),
    "job_type": Column(dtype="text", nullable=True, doc="what it does"),
    "queue": Column(dtype="text", nullable=True, doc="its queue"),
}
ATTEMPTS: FrameSchema = {
    "job": Column(dtype="text", doc="the job's id"),
    "attempt": Column(dtype="int64", unit="attempts", doc="which attempt of it, from 1"),
    "worker": Column(dtype="text", nullable=True, doc="who ran it; missing: not recorded"),
    "started_at": Column(dtype=TIME, unit="UTC", nullable=True, doc="when it began"),
    "ended_at": Column(dtype=TIME, unit="UTC", nullable=True, doc="when it ended; missing: runs"),
    "outcome": Column(dtype="text", doc="how it ended"),
    "lease_over_at": Column(
        dtype=TIME, unit="UTC", nullable=True, doc="when its lease ended, where it still runs"
    ),
    "heartbeat_at": Column(
        dtype=TIME, unit="UTC", nullable=True, doc="its worker's last sign, where it still runs"
    ),
}
WAITS: FrameSchema = {
    "attempt": Column(dtype="int64", unit="attempts", doc="which attempt, from 1"),
    "waited_seconds": Column(dtype="float64", unit="s", nullable=True, doc="before it began"),
    "ran_seconds": Column(dtype="float64", unit="s", nullable=True, doc="missing: still runs"),
    "outcome": Column(dtype="text", doc="how it ended"),
    "counted_from": Column(dtype="text", doc="where the wait begins"),
    "worker": Column(dtype="text", nullable=True, doc="who ran it; missing: not recorded"),
}
EVENTS: FrameSchema = {
    "at": Column(dtype=TIME, unit="UTC", doc="when it happened"),
    "event": Column(dtype="text", doc="what happened"),
    "note": Column(dtype="text", doc="what else is known of it"),
    "attempt": Column(dtype="text", nullable=True, doc="in which attempt"),
    "worker": Column(dtype="text", nullable=True, doc="whose it was"),
    "layer": Column(dtype="text", nullable=True, doc="in which layer; missing: outside"),
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

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    since, until : int
        The window, microseconds UTC: jobs that are unfinished or ended in it.
    now : int, optional
        When leases are judged; by default when each job was read.
    queue : str, optional
        One queue alone.
    each : int
        So many of each kind at most: lease over, dead, tried again, unfinished, slow.

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

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    jobs : sequence of str
        Their ids.
    now : int, optional
        When leases are judged; by default when each job was read.
    """
    return new_frame(
        ATTEMPTS, snapshot.rows(queries.attempts_of(jobs, snapshot.captured_at, now=now))
    )


def event_frame(events: Sequence[Event]) -> pd.DataFrame:
    """Return a job's events as a frame of schema `EVENTS`."""
    return new_frame(
        EVENTS,
        [
            (
                event.at,
                event.event,
                plain(event.note),
                event.attempt and str(event.attempt),
                event.owner,
                event.layer and str(event.layer),
            )
            for event in events
        ],
    )


def wait_frame(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Return what a job's attempts waited and ran as a frame of schema `WAITS`."""
    return new_frame(
        WAITS,
        [
            (
                attempt.attempt,
                attempt.waited_seconds,
                attempt.ran_seconds,
                attempt.outcome,
                _counted_from(attempt),
                attempt.owner,
            )
            for attempt in attempts
        ],
    )


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
