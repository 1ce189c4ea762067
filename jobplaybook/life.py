"""One job's life across the layers, from its rows to events and plain words.

Waiting and execution are told apart, and what the system does not record is said where it would
stand, not guessed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from jobplaybook import life_events
from jobplaybook.life_events import Attempt, Event, JobRows, Row, row_json
from jobplaybook.life_words import coming, told
from jobplaybook.model import FINISHED, Layer, Quality, Status
from jobplaybook.queries import standing, timeline
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.tables import facts, jobs, queues
from jobplaybook.units import MICROS, given, iso, plain

_ASKED = {
    "error": "why an attempt failed",
    "effects": "effects",
    "outbox": "notices",
    "owner": "which worker ran it",
    "attempt_times": "when attempts ran",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The answer of `jobplaybook.timeline`."""

    job: dict[str, Any] | None  # the canonical row, times as ISO text; None: no durable job
    layer: Layer | None  # intake where it never became durable, None where it may be unread
    explanation: str  # what happened, what is not recorded, what comes next, in plain words
    next: str  # what happens next, and when
    events: tuple[Event, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    not_recorded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook timeline``."""
        found = asdict(self)
        timed = {name: [row_json(row) for row in found[name]] for name in ("events", "attempts")}
        return found | timed

    def __str__(self) -> str:
        """Return the life for people: the words first, then a line an event."""
        lines = [textwrap.fill(self.explanation, 96, break_long_words=False), ""]
        for event in self.events:
            attempt = "" if event.attempt is None else f"attempt {event.attempt}"
            owner = "" if event.owner is None else f"worker {plain(event.owner)}"
            detail = ", ".join(part for part in (attempt, owner, plain(event.note)) if part)
            lines.append(f"{iso(event.at) or '':<28}{event.event:<18}{detail}".rstrip())
        lines += [f"Note: {plain(warning)}." for warning in self.warnings]
        return "\n".join(lines)


def read_life(
    snapshot: Snapshot, job_id: str, *, now: int | None, external: Sequence[tuple[int, str]]
) -> Life:
    """Read one job's life from a snapshot.

    Its lease is judged at ``now``, microseconds UTC; by default when the row was read. ``external``
    is what happened outside the queue, such as deploys: time and text.
    """
    outside = [Event(at=at, layer=None, event="external", note=text) for at, text in external]
    found = _dicts(snapshot, timeline.job(given(job_id, "a job id")))
    if not found:
        return _no_job(snapshot, job_id, outside)
    (job,) = found
    rows = _rows_of(snapshot, job, now)
    job = rows.job
    attempts = life_events.attempts_of(job, rows.attempts)
    missing = _not_recorded(snapshot, job, attempts)
    following = coming(rows)
    words = [*told(rows, attempts), following]
    if missing:
        words.append(f"Not recorded by this system: {', '.join(missing)}.")
    return Life(
        job=row_json(job),
        layer=_layer(snapshot, job_id, rows.judged_at),
        explanation=" ".join(words),
        next=following,
        events=life_events.events_of(rows, outside),
        attempts=attempts,
        not_recorded=missing,
        warnings=(*snapshot.notes, *_time_warnings(snapshot, rows.judged_at, job)),
    )


def _rows_of(snapshot: Snapshot, job: Row, now: int | None) -> JobRows:
    paused = snapshot.rows(sa.select(queues.c.paused_at).where(queues.c.queue == job["queue"]))
    worker = next(iter(_dicts(snapshot, timeline.worker(job["owner"]))), None)
    return JobRows(
        job=_leased_as_asked(snapshot, job, worker),
        attempts=_dicts(snapshot, timeline.attempts_of(job["id"])),
        effects=_dicts(snapshot, timeline.effects_of(job["id"])),
        notices=_dicts(snapshot, timeline.notices_of(job["id"])),
        deliveries=_dicts(snapshot, timeline.deliveries_of(job["id"])),
        worker=worker,
        paused_at=next((at for (at,) in paused), None),
        sweeper=snapshot.meta.get("sweeper"),
        seen_until=snapshot.captured_at,
        judged_at=now if now is not None else job["read_at"] or snapshot.captured_at,
    )


def _leased_as_asked(snapshot: Snapshot, job: Row, worker: Row | None) -> Row:
    """Return the job with the lease that was asked for instead of the system's own, as triage."""
    alive_at = (worker or {}).get("heartbeat_at") or job["claimed_at"]
    is_held = job["status"] == Status.PROCESSING and job["owner"] and alive_at is not None
    if snapshot.lease_seconds is None or not is_held:
        return job
    return {**job, "locked_until": alive_at + int(snapshot.lease_seconds * MICROS)}


def _layer(snapshot: Snapshot, job_id: str, judged_at: int) -> Layer:
    (row,) = _dicts(snapshot, standing.each_job(judged_at).where(jobs.c.id == job_id))
    return Layer(row["layer"])


def _dicts(snapshot: Snapshot, statement: sa.Select[Any]) -> list[Row]:
    names = statement.selected_columns.keys()
    return [dict(zip(names, row, strict=True)) for row in snapshot.rows(statement)]


def _time_warnings(snapshot: Snapshot, judged_at: int, job: Row) -> list[str]:
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


def _no_job(snapshot: Snapshot, job_id: str, outside: Sequence[Event]) -> Life:
    unread = snapshot.json("not_read") or {}
    if unread:
        left_out = plain("; ".join(f"{phase}: {why}" for phase, why in unread.items()))
        words = (
            f"There is no durable job {plain(job_id)} among what this snapshot holds, but not "
            f"everything was read ({left_out}), so it may well be in the queue. Capture again with "
            "a larger --budget before anything is concluded."
        )
        step = "Capture again with a larger --budget."
    else:
        window = snapshot.meta.get("window_from", "")
        words = (
            f"There is no durable job {plain(job_id)} in this snapshot. It holds every unfinished "
            f"job as of {iso(snapshot.captured_at)} and those that ended since {window}. If it was "
            "accepted in that time, it never became durable: look at the intake. If it ended "
            "before, or its system deletes what it finished, this snapshot cannot tell: capture "
            "with a longer --since."
        )
        step = "Ask for the time the caller got an answer, and look at the intake's own log then."
    return Life(
        job=None,
        layer=None if unread else Layer.INTAKE,
        explanation=words,
        next=step,
        events=tuple(sorted(outside, key=Event.place)),
        warnings=snapshot.notes,
    )


def _not_recorded(snapshot: Snapshot, job: Row, attempts: Sequence[Attempt]) -> tuple[str, ...]:
    state = "finished" if job["status"] in FINISHED else "live"
    absent = (facts.c.state == state) & (facts.c.quality == Quality.ABSENT.word)
    names = {name for (name,) in snapshot.rows(sa.select(facts.c.fact).where(absent))}
    missing = [words for fact, words in _ASKED.items() if fact in names]
    nobody = [str(attempt.attempt) for attempt in attempts if attempt.owner is None]
    if nobody and "owner" not in names:
        noun = "attempt" if len(nobody) == 1 else "attempts"
        more = " and others" if len(nobody) > 5 else ""
        missing.append(f"which worker ran {noun} {', '.join(nobody[:5])}{more}")
    return tuple(missing)
