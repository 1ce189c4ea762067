"""One job's life across the layers, from its rows to events and plain words.

Waiting and execution are told apart, and what the system does not record is said where it would
stand, not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from jobplaybook import life_events
from jobplaybook.life_events import ORDER, Event
from jobplaybook.model import FINISHED, Layer, Outcome, Quality, Status
from jobplaybook.queries import standing, timeline
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.tables import facts
from jobplaybook.units import MICROS, clock_text, duration_text, iso, plain

_ASKED = {
    "error": "why an attempt failed",
    "effects": "effects",
    "outbox": "notices",
    "owner": "which worker ran it",
    "attempt_times": "when attempts ran",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt: how long it waited and how long it ran, seconds; None where not recorded.

    ``waited_seconds`` runs from the moment the job could be claimed. Where that moment is not
    kept (an earlier retry), it runs from the end of the attempt before, the retry's own rest
    included, and ``wait_is_exact`` is False.
    """

    attempt: int
    owner: str | None
    started_at: int | None
    ended_at: int | None
    outcome: str
    waited_seconds: float | None
    ran_seconds: float | None
    wait_is_exact: bool

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "attempt": self.attempt,
            "owner": self.owner,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "outcome": self.outcome,
            "waited_seconds": self.waited_seconds,
            "ran_seconds": self.ran_seconds,
            "wait_is_exact": self.wait_is_exact,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The answer of `jobplaybook.timeline`.

    Parameters
    ----------
    job : dict or None
        The canonical row, times as ISO text; None where there is no durable job of that id.
    layer : Layer
        Where the job stands; ``intake`` where it never became durable.
    explanation : str
        The life in plain words: what happened, what is not recorded, what comes next.
    next : str
        What happens next and when.
    """

    job_id: str
    job: dict[str, Any] | None
    layer: Layer
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

    def __str__(self) -> str:
        """Return the life for people: the words first, then a line an event."""
        lines = [self.explanation, ""]
        for event in self.events:
            attempt = "" if event.attempt is None else f"attempt {event.attempt}"
            owner = "" if event.owner is None else f"worker {plain(event.owner)}"
            detail = ", ".join(part for part in (attempt, owner, plain(event.note)) if part)
            lines.append(f"{iso(event.at) or '':<28}{event.event:<18}{detail}".rstrip())
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
    rows = _dicts(snapshot, timeline.attempts_of(job_id))
    worker = _worker(snapshot, job["owner"])
    events = [
        *life_events.intake(job, rows),
        *life_events.attempt_events(rows),
        *life_events.lease_events(job, rows, worker, judged_at),
        *life_events.effect_events(_dicts(snapshot, timeline.effects_of(job_id))),
        *life_events.ending(job, rows),
        *life_events.notice_events(_dicts(snapshot, timeline.notices_of(job_id))),
        *life_events.delivery_events(_dicts(snapshot, timeline.deliveries_of(job_id))),
        *outside,
    ]
    ordered = sorted(events, key=lambda event: (event.at, ORDER.index(event.event)))
    attempts = _attempts(job, rows)
    layer = Layer(snapshot.rows(standing.each_job(judged_at).where(_is(job_id)))[0][5])
    missing = _not_recorded(snapshot, job)
    coming = _next(snapshot, job, worker, judged_at)
    return Life(
        job_id=job_id,
        job=_job_json(job),
        layer=layer,
        explanation=_explained(job, attempts, missing, coming),
        next=coming,
        events=tuple(ordered),
        attempts=attempts,
        not_recorded=missing,
        warnings=snapshot.notes,
    )


def _is(job_id: str) -> sa.ColumnElement[bool]:
    from jobplaybook.tables import jobs

    return jobs.c.id == job_id


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
    return Life(
        job_id=job_id,
        job=None,
        layer=Layer.INTAKE,
        explanation=words,
        next="Ask for the time the caller got an answer, and look at the intake's own log then.",
        events=tuple(sorted(outside, key=lambda event: event.at)),
        warnings=snapshot.notes,
    )


def _attempts(job: dict[str, Any], rows: Sequence[dict[str, Any]]) -> tuple[Attempt, ...]:
    out = []
    freed = job["created_at"]
    for row in rows:
        latest = row is rows[-1] and job["status"] != Status.PENDING
        due = job["available_at"]
        exact = latest and due is not None
        begin = max(filter(None, (due, job["created_at"])), default=None) if exact else freed
        exact = exact or (row["attempt"] == 1 and due is not None and due <= (freed or 0))
        out.append(
            Attempt(
                attempt=row["attempt"],
                owner=row["owner"],
                started_at=row["started_at"],
                ended_at=row["ended_at"],
                outcome=row["outcome"],
                waited_seconds=_seconds(begin, row["started_at"]),
                ran_seconds=_seconds(row["started_at"], row["ended_at"]),
                wait_is_exact=exact,
            )
        )
        freed = row["ended_at"]
    return tuple(out)


def _seconds(begin: int | None, end: int | None) -> float | None:
    return None if begin is None or end is None else max((end - begin) / MICROS, 0.0)


def _not_recorded(snapshot: Snapshot, job: dict[str, Any]) -> tuple[str, ...]:
    state = "finished" if job["status"] in FINISHED else "live"
    absent = (facts.c.state == state) & (facts.c.quality == Quality.ABSENT.word)
    rows = snapshot.rows(sa.select(facts.c.fact).where(absent).order_by(facts.c.fact))
    names = {name for (name,) in rows}
    return tuple(words for fact, words in _ASKED.items() if fact in names)


def _next(
    snapshot: Snapshot, job: dict[str, Any], worker: dict[str, Any] | None, judged_at: int
) -> str:
    status = job["status"]
    if status == Status.PENDING:
        due = job["available_at"]
        if due is not None and due > judged_at:
            return f"It becomes due at {iso(due)}, in {_ago(due - judged_at)}."
        return "It waits for a worker to claim it."
    if status == Status.HELD:
        return "It is held back until somebody releases it."
    if status == Status.PROCESSING:
        return _next_of_running(snapshot, job, worker, judged_at)
    if status == Status.DEAD:
        return "It is a dead letter: it waits for somebody to close or to replay it."
    return "Nothing more happens to it."


def _next_of_running(
    snapshot: Snapshot, job: dict[str, Any], worker: dict[str, Any] | None, judged_at: int
) -> str:
    sweeper = snapshot.meta.get("sweeper")
    sweeps = f"{sweeper} takes it back" if sweeper else "nothing sweeps it"
    seen = ""
    if worker is not None and worker["heartbeat_at"] is not None:
        before = snapshot.captured_at - worker["heartbeat_at"]
        seen = (
            f"It is held by worker {plain(job['owner'])}, last seen at "
            f"{iso(worker['heartbeat_at'])}, {_ago(before)} before the capture. "
        )
    elif job["owner"] is None:
        seen = "It is held, and the system does not say by whom. "
    until = job["locked_until"]
    if until is None:
        return f"{seen}No lease says when its worker must be given up; {sweeps}."
    over = "was over" if until < judged_at else "is over"
    return f"{seen}Its lease {over} at {iso(until)}; then {sweeps}."


def _ago(micros: int) -> str:
    return duration_text(micros / MICROS)


def _job_json(job: dict[str, Any]) -> dict[str, Any]:
    return {
        name: iso(value)
        if name.endswith("_at") or name == "locked_until"
        else str(value)
        if name == "fencing_token" and value is not None
        else value
        for name, value in job.items()
    }


def _explained(
    job: dict[str, Any], attempts: Sequence[Attempt], missing: Sequence[str], coming: str
) -> str:
    kind = plain(job["job_type"] or "job")
    words = [f"Job {plain(job['id'])} ({kind}) was accepted at {clock_text(job['created_at'])}."]
    for attempt in attempts:
        words.append(_attempt_words(attempt))
    if not attempts:
        words.append("No attempt has started.")
    if job["status"] in FINISHED:
        words.append(f"It is {job['status']} since {clock_text(job['finished_at'])}.")
    words.append(coming)
    if missing:
        words.append(f"Not recorded by this system: {', '.join(missing)}.")
    return " ".join(words)


def _attempt_words(attempt: Attempt) -> str:
    waited = duration_text(attempt.waited_seconds)
    rest = "" if attempt.wait_is_exact else " (a retry's rest included)"
    start = (
        f"Attempt {attempt.attempt} started at {clock_text(attempt.started_at)} after waiting "
        f"{waited}{rest if attempt.attempt > 1 else ''}"
    )
    if attempt.outcome == Outcome.RUNNING:
        return start + " and has not ended."
    ran = duration_text(attempt.ran_seconds)
    how = {
        Outcome.SUCCEEDED: "succeeded",
        Outcome.FAILED: "failed",
        Outcome.EXPIRED: "lost its lease",
        Outcome.RELEASED: "was given back",
        Outcome.CANCELLED: "was cancelled",
    }.get(Outcome(attempt.outcome), "was requeued (rescue or failure: not recorded)")
    return f"{start}, ran {ran} and {how}."
