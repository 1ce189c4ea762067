"""The events and the attempts of one job's life, from its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from jobplaybook.model import FINISHED, Layer, Outcome, Status
from jobplaybook.units import MICROS, count_text, iso

Row = Mapping[str, Any]
"""A row by its canonical columns; times in microseconds UTC, None where not recorded."""

_NOT_RECORDED = "rescue or failure: not recorded by this system"
ORDER = (
    "external",
    "accepted",
    "due",
    "claimed",
    "taken-over",
    "renewed",
    "effect-intended",
    "effect-confirmed",
    "failed",
    "expired",
    "requeued",
    "completed",
    "dead",
    "cancelled",
    "notice-sent",
    "delivery-received",
)
"""Events in the order they are told where they happened at the same moment."""


def row_json(row: Row) -> dict[str, Any]:
    """Return a row as a JSON object: times as ISO text, and a token, which may be long, as text."""
    times = {name for name in row if name == "at" or name.endswith("_at")} | {"locked_until"}
    found = {name: iso(value) if name in times else value for name, value in row.items()}
    if found.get("fencing_token") is not None:
        found["fencing_token"] = str(found["fencing_token"])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRows:
    """What a snapshot holds of one job, and the moment that its lease is judged at."""

    job: Row
    attempts: Sequence[Row]
    effects: Sequence[Row]
    notices: Sequence[Row]
    deliveries: Sequence[Row]
    worker: Row | None
    paused_at: int | None
    sweeper: str | None
    seen_until: int
    judged_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a job; ``at`` is microseconds UTC."""

    at: int
    layer: Layer | None
    event: str
    attempt: int | None = None
    owner: str | None = None
    note: str = ""

    def place(self) -> tuple[int, float, int]:
        """Return where it is told: by time, then by attempt, then in the order of `ORDER`."""
        first = 0 if self.event in ("external", "accepted") else math.inf
        attempt = first if self.attempt is None else self.attempt
        return self.at, attempt, ORDER.index(self.event)


def events_of(rows: JobRows, external: Sequence[Event] = ()) -> tuple[Event, ...]:
    """Return what happened to a job, in order; what has no time is left out."""
    told = chain(_accepted(rows), _attempted(rows), _leased(rows), _ended(rows), _outside(rows))
    events = [
        Event(at=at, layer=layer, event=event, attempt=attempt, owner=owner, note=note)
        for at, layer, event, attempt, owner, note in told
        if at is not None
    ]
    return tuple(sorted([*events, *external], key=Event.place))


_Told = Iterator[tuple[int | None, Layer, str, int | None, str | None, str]]
"""The values of an `Event`, whose time may be missing."""


def _accepted(rows: JobRows) -> _Told:
    created, due = rows.job["created_at"], rows.job["available_at"]
    yield created, Layer.INTAKE, "accepted", None, None, ""
    if due is not None and (created is None or due > created):
        attempt = max(len(rows.attempts) + (rows.job["status"] == Status.PENDING), 1)
        note = "" if attempt == 1 else "of the latest attempt; earlier ones are not kept"
        yield due, Layer.WAITING, "due", attempt, None, note


ENDINGS: dict[str, tuple[str, str, str]] = {
    Outcome.SUCCEEDED: ("", "", "succeeded"),
    Outcome.FAILED: ("failed", "", "failed"),
    Outcome.EXPIRED: ("expired", "its lease ran out", "lost its lease"),
    Outcome.RELEASED: ("requeued", "given back by its worker", "was given back by its worker"),
    Outcome.CANCELLED: ("cancelled", "", "was cancelled"),
    Outcome.UNKNOWN: ("requeued", _NOT_RECORDED, f"was requeued ({_NOT_RECORDED})"),
}
"""How attempts end: as an event (success is the job's own), its note, and in a sentence."""


def _attempted(rows: JobRows) -> _Told:
    before = None
    for row in rows.attempts:
        who = row["attempt"], row["owner"]
        begun = "taken-over" if before == Outcome.EXPIRED else "claimed"
        yield row["started_at"], Layer.CLAIMED, begun, *who, ""
        before = row["outcome"]
        event, note, _ = ENDINGS.get(before, ("", "", ""))
        if event:
            yield row["ended_at"], Layer.CLAIMED, event, *who, note or _error(row["error_code"])


def _error(code: str | None) -> str:
    return f"error {code}" if code else ""


def _leased(rows: JobRows) -> _Told:
    job, worker = rows.job, rows.worker
    if job["status"] != Status.PROCESSING:
        return
    who = len(rows.attempts) or None, job["owner"]
    beat = None if worker is None else worker["heartbeat_at"]
    if (beat or 0) > (job["claimed_at"] or 0):
        yield beat, Layer.CLAIMED, "renewed", *who, "the worker's last heartbeat"
    over = job["locked_until"]
    if over is not None and over < rows.judged_at:
        yield over, Layer.CLAIMED, "expired", *who, "the lease was over"


def _ended(rows: JobRows) -> _Told:
    job = rows.job
    if job["status"] in FINISHED:
        last = rows.attempts[-1] if rows.attempts else {}
        who = last.get("attempt"), last.get("owner")
        note = _error(job["last_error_code"])
        yield job["finished_at"], Layer.RESULT, job["status"], *who, note


def _outside(rows: JobRows) -> _Told:
    for row in rows.effects:
        note = f"{row['kind'] or 'effect'} {row['effect_key']} ({row['status']})"
        yield row["intended_at"], Layer.EFFECT, "effect-intended", row["attempt"], None, note
        yield row["confirmed_at"], Layer.EFFECT, "effect-confirmed", row["attempt"], None, note
    for row in rows.notices:
        yield row["published_at"], Layer.NOTIFIED, "notice-sent", None, None, row["topic"] or ""
    for row in rows.deliveries:
        note = (
            f"{row['event_type'] or 'delivery'}, {count_text(row['times_received'] or 1, 'time')}"
        )
        yield row["received_at"], Layer.INTAKE, "delivery-received", None, None, note


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt: how long it waited and how long it ran, seconds; None where not recorded.

    ``waited_seconds`` runs from the moment the job could be claimed. Where that moment is not
    kept (an earlier retry), it runs from acceptance or from the end of the attempt before, a
    rest until the job was due included, and ``wait_is_exact`` is False.
    """

    attempt: int
    owner: str | None
    started_at: int | None
    ended_at: int | None
    outcome: str
    waited_seconds: float | None
    ran_seconds: float | None
    wait_is_exact: bool


def attempts_of(job: Row, rows: Sequence[Row]) -> tuple[Attempt, ...]:
    """Return a job's attempts with what they waited and ran, the first one first."""
    kept = ("attempt", "owner", "started_at", "ended_at", "outcome")
    found = []
    for row, before in zip(rows, [None, *rows], strict=False):
        begin, exact = _free_from(job, row, before, is_last=row is rows[-1])
        waited = seconds_between(begin, row["started_at"])
        found.append(
            Attempt(
                **{name: row[name] for name in kept},
                waited_seconds=waited,
                ran_seconds=seconds_between(row["started_at"], row["ended_at"]),
                wait_is_exact=exact and waited is not None,
            )
        )
    return tuple(found)


def _free_from(job: Row, row: Row, before: Row | None, *, is_last: bool) -> tuple[int | None, bool]:
    """Return from when an attempt could have begun, and whether that is kept exactly."""
    created, due = job["created_at"], job["available_at"]
    if due is not None and is_last and job["status"] not in (Status.PENDING, Status.HELD):
        return max(due, created or due), True
    if row["attempt"] == 1:
        # A time that lies before acceptance was never put off: the job was due at once.
        return created, created is not None and due is not None and due <= created
    follows = before is not None and before["attempt"] == row["attempt"] - 1
    return (before["ended_at"] if follows and before else None), False


def seconds_between(begin: int | None, end: int | None) -> float | None:
    """Return how long it was, never below 0; None where one of the times is not recorded."""
    return None if begin is None or end is None else max((end - begin) / MICROS, 0.0)
