"""One job's life across the layers, from its rows to events and plain words.

Waiting and execution are told apart, and what the system does not record is said where it would
stand, not guessed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from jobplaybook import life_events
from jobplaybook.life_events import Event
from jobplaybook.life_words import Attempt, attempts_of, coming, told
from jobplaybook.model import FINISHED, Layer, Quality
from jobplaybook.queries import standing, timeline
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.tables import facts, jobs, queues
from jobplaybook.units import iso, plain

_ASKED = {
    "error": "why an attempt failed",
    "effects": "effects",
    "outbox": "notices",
    "owner": "which worker ran it",
    "attempt_times": "when attempts ran",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The answer of `jobplaybook.timeline`.

    Parameters
    ----------
    job : dict or None
        The canonical row, times as ISO text; None where there is no durable job of that id.
    layer : Layer or None
        Where the job stands; ``intake`` where it never became durable, None where it may only
        have been left unread.
    explanation : str
        The life in plain words: what happened, what is not recorded, what comes next.
    next : str
        What happens next and when.
    """

    job_id: str
    job: dict[str, Any] | None
    layer: Layer | None
    explanation: str
    next: str
    events: tuple[Event, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    not_recorded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook timeline``."""
        return {
            "job": self.job,
            "layer": self.layer,
            "explanation": self.explanation,
            "next": self.next,
            "events": [event.to_json() for event in self.events],
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "not_recorded": list(self.not_recorded),
            "warnings": list(self.warnings),
        }

    def words(self) -> str:
        """Return the explanation in lines that fit a terminal."""
        return textwrap.fill(self.explanation, 96, break_long_words=False)

    def __str__(self) -> str:
        """Return the life for people: the words first, then a line an event."""
        lines = [self.words(), ""]
        for event in self.events:
            attempt = "" if event.attempt is None else f"attempt {event.attempt}"
            owner = "" if event.owner is None else f"worker {plain(event.owner)}"
            detail = ", ".join(part for part in (attempt, owner, plain(event.note)) if part)
            lines.append(f"{iso(event.at) or '':<28}{event.event:<18}{detail}".rstrip())
        lines += [f"Note: {plain(warning)}." for warning in self.warnings]
        return "\n".join(lines)


def read_life(
    snapshot: Snapshot,
    job_id: str,
    *,
    now: int | None = None,
    external: Sequence[tuple[int, str]] = (),
) -> Life:
    """Read one job's life from a snapshot.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    job_id : str
        The job's id as its system writes it.
    now : int, optional
        The moment leases are judged at, microseconds UTC; by default when the row was read.
    external : sequence of (int, str)
        Things that happened outside the queue, such as deploys: time and text.
    """
    outside = [Event(at=at, layer=None, event="external", note=text) for at, text in external]
    found = _dicts(snapshot, timeline.job(job_id))
    if not found:
        return _no_job(snapshot, job_id, outside)
    job = found[0]
    judged_at = now if now is not None else job["read_at"] or snapshot.captured_at
    rows, effects, notices, deliveries = (
        _dicts(snapshot, asked(job_id))
        for asked in (
            timeline.attempts_of,
            timeline.effects_of,
            timeline.notices_of,
            timeline.deliveries_of,
        )
    )
    worker = _worker(snapshot, job["owner"])
    events = [
        *life_events.intake(job, rows),
        *life_events.attempt_events(rows),
        *life_events.lease_events(job, rows, worker, judged_at),
        *life_events.effect_events(effects),
        *life_events.ending(job, rows),
        *life_events.notice_events(notices),
        *life_events.delivery_events(deliveries),
        *outside,
    ]
    attempts = attempts_of(job, rows)
    missing = _not_recorded(snapshot, job, attempts)
    following = coming(
        job,
        worker,
        _paused_at(snapshot, job["queue"]),
        sweeper=snapshot.meta.get("sweeper") or None,
        seen_until=snapshot.captured_at,
        judged_at=judged_at,
    )
    words = [*told(job, attempts, effects, notices, deliveries), following]
    if missing:
        words.append(f"Not recorded by this system: {', '.join(missing)}.")
    return Life(
        job_id=job_id,
        job=_job_json(job),
        layer=_layer(snapshot, job_id, judged_at),
        explanation=" ".join(words),
        next=following,
        events=tuple(sorted(events, key=life_events.place)),
        attempts=attempts,
        not_recorded=missing,
        warnings=(*snapshot.notes, *_time_warnings(snapshot, judged_at, job)),
    )


def _layer(snapshot: Snapshot, job_id: str, judged_at: int) -> Layer:
    asked = standing.each_job(judged_at).where(jobs.c.id == job_id)
    (row,) = _dicts(snapshot, asked)
    return Layer(row["layer"])


def _paused_at(snapshot: Snapshot, queue: str | None) -> int | None:
    asked = sa.select(queues.c.paused_at).where(queues.c.queue == queue)
    return next((at for (at,) in snapshot.rows(asked)), None)


def _time_warnings(snapshot: Snapshot, judged_at: int, job: dict[str, Any]) -> list[str]:
    seen = snapshot.captured_at
    if judged_at > seen and job["status"] not in FINISHED:
        return [
            f"judged at {iso(judged_at)}, after the last look at {iso(seen)}: only the lease was "
            "judged again; what happened since is not known"
        ]
    if judged_at < seen and judged_at != job["read_at"]:
        return [
            f"judged at {iso(judged_at)}, before the capture at {iso(seen)}: the status is as "
            "captured, only ages and leases move"
        ]
    return []


def _dicts(snapshot: Snapshot, statement: sa.Select[Any]) -> list[dict[str, Any]]:
    names = statement.selected_columns.keys()
    return [dict(zip(names, row, strict=True)) for row in snapshot.rows(statement)]


def _worker(snapshot: Snapshot, owner: str | None) -> dict[str, Any] | None:
    found = [] if owner is None else _dicts(snapshot, timeline.worker(owner))
    return found[0] if found else None


def _no_job(snapshot: Snapshot, job_id: str, outside: list[Event]) -> Life:
    window = snapshot.meta.get("window_from", "")
    words = (
        f"There is no durable job {plain(job_id)} in this snapshot. It holds every unfinished job "
        f"as of {iso(snapshot.captured_at)} and those that ended since {window}. If it was "
        "accepted in that time, it never became durable: look at the intake. If it ended before, "
        "or its system deletes what it finished, this snapshot cannot tell: capture with a longer "
        "--since."
    )
    step = "Ask for the time the caller got an answer, and look at the intake's own log then."
    if unread := snapshot.json("not_read") or {}:
        step = "Capture again with a larger --budget."
        left_out = plain("; ".join(f"{phase}: {why}" for phase, why in unread.items()))
        words = (
            f"There is no durable job {plain(job_id)} among what this snapshot holds, but not "
            f"everything was read ({left_out}), so it may well be in the queue. Capture again with "
            "a larger --budget before anything is concluded."
        )
    return Life(
        job_id=job_id,
        job=None,
        layer=None if unread else Layer.INTAKE,
        explanation=words,
        next=step,
        events=tuple(sorted(outside, key=lambda event: event.at)),
        warnings=snapshot.notes,
    )


def _not_recorded(
    snapshot: Snapshot, job: dict[str, Any], attempts: Sequence[Attempt]
) -> tuple[str, ...]:
    state = "finished" if job["status"] in FINISHED else "live"
    absent = (facts.c.state == state) & (facts.c.quality == Quality.ABSENT.word)
    rows = snapshot.rows(sa.select(facts.c.fact).where(absent).order_by(facts.c.fact))
    names = {name for (name,) in rows}
    missing = [words for fact, words in _ASKED.items() if fact in names]
    if "owner" not in names and (nobody := [a.attempt for a in attempts if a.owner is None]):
        noun = "attempt" if len(nobody) == 1 else "attempts"
        listed = ", ".join(map(str, nobody[:5])) + (" and others" if len(nobody) > 5 else "")
        missing.append(f"which worker ran {noun} {listed}")
    return tuple(missing)


def _job_json(job: dict[str, Any]) -> dict[str, Any]:
    return {
        name: iso(value)
        if name.endswith("_at") or name == "locked_until"
        else str(value)
        if name == "fencing_token" and value is not None
        else value
        for name, value in job.items()
    }
