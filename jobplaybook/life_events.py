"""The events of one job's life, from its rows; each in the layer it happened in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobplaybook.model import FINISHED, Layer, Outcome, Status
from jobplaybook.units import count_text, iso

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a job; ``at`` is microseconds UTC."""

    at: int
    layer: Layer | None
    event: str
    attempt: int | None = None
    owner: str | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "at": iso(self.at),
            "layer": self.layer,
            "event": self.event,
            "attempt": self.attempt,
            "owner": self.owner,
            "note": self.note,
        }


def place(event: Event) -> tuple[int, float, int]:
    """Return where an event is told: by time, then by attempt, then in the order of `ORDER`.

    Examples
    --------
    >>> lost = Event(at=5, layer=Layer.CLAIMED, event="expired", attempt=1)
    >>> taken = Event(at=5, layer=Layer.CLAIMED, event="taken-over", attempt=2)
    >>> place(lost) < place(taken)
    True
    """
    order = ORDER.index(event.event)
    if event.attempt is not None:
        return event.at, event.attempt, order
    return event.at, 0 if event.event in ("external", "accepted") else math.inf, order


def intake(job: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[Event]:
    """Return when the job was accepted and when it became due."""
    events = []
    created, due = job["created_at"], job["available_at"]
    if created is not None:
        events.append(Event(at=created, layer=Layer.INTAKE, event="accepted"))
    if due is not None and (created is None or due > created):
        attempt = len(rows) if job["status"] != Status.PENDING else len(rows) + 1
        note = "" if attempt <= 1 else "of the latest attempt; earlier ones are not kept"
        events.append(
            Event(at=due, layer=Layer.WAITING, event="due", attempt=attempt or 1, note=note)
        )
    return events


_ENDED = {
    Outcome.FAILED: ("failed", ""),
    Outcome.EXPIRED: ("expired", "its lease ran out"),
    Outcome.RELEASED: ("requeued", "given back by its worker"),
    Outcome.CANCELLED: ("cancelled", ""),
    Outcome.UNKNOWN: ("requeued", "rescue or failure: not recorded by this system"),
}


def attempt_events(rows: Sequence[dict[str, Any]]) -> list[Event]:
    """Return when attempts began and how they ended."""
    events = []
    before: dict[str, Any] | None = None
    for row in rows:
        if row["started_at"] is not None:
            taken = before is not None and before["outcome"] == Outcome.EXPIRED
            events.append(_of(row, "taken-over" if taken else "claimed", row["started_at"]))
        ending = _ENDED.get(row["outcome"])
        if ending is not None and row["ended_at"] is not None:
            code = row["error_code"]
            note = ending[1] or (f"error {code}" if code else "")
            events.append(_of(row, ending[0], row["ended_at"], note))
        before = row
    return events


def _of(row: dict[str, Any], event: str, at: int, note: str = "") -> Event:
    return Event(
        at=at,
        layer=Layer.CLAIMED,
        event=event,
        attempt=row["attempt"],
        owner=row["owner"],
        note=note,
    )


def lease_events(
    job: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    worker: dict[str, Any] | None,
    judged_at: int,
) -> list[Event]:
    """Return the last sign of life of a running job's worker, and the end of its lease."""
    if job["status"] != Status.PROCESSING:
        return []
    attempt = len(rows) or None
    events = []
    claimed = job["claimed_at"] or 0
    if worker is not None and (worker["heartbeat_at"] or 0) > claimed:
        events.append(
            Event(
                at=worker["heartbeat_at"],
                layer=Layer.CLAIMED,
                event="renewed",
                attempt=attempt,
                owner=job["owner"],
                note="the worker's last heartbeat",
            )
        )
    if job["locked_until"] is not None and job["locked_until"] < judged_at:
        events.append(
            Event(
                at=job["locked_until"],
                layer=Layer.CLAIMED,
                event="expired",
                attempt=attempt,
                owner=job["owner"],
                note="the lease was over",
            )
        )
    return events


def effect_events(rows: Sequence[dict[str, Any]]) -> list[Event]:
    """Return when effects were intended and confirmed."""
    events = []
    for row in rows:
        note = f"{row['kind'] or 'effect'} {row['effect_key']} ({row['status']})"
        for name, at in (
            ("effect-intended", row["intended_at"]),
            ("effect-confirmed", row["confirmed_at"]),
        ):
            if at is not None:
                events.append(
                    Event(at=at, layer=Layer.EFFECT, event=name, attempt=row["attempt"], note=note)
                )
    return events


def ending(job: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[Event]:
    """Return how the job ended."""
    if job["finished_at"] is None or job["status"] not in FINISHED:
        return []
    last = rows[-1] if rows else None
    return [
        Event(
            at=job["finished_at"],
            layer=Layer.RESULT,
            event=job["status"],
            attempt=last["attempt"] if last else None,
            owner=last["owner"] if last else None,
            note=f"error {job['last_error_code']}" if job["last_error_code"] else "",
        )
    ]


def notice_events(rows: Sequence[dict[str, Any]]) -> list[Event]:
    """Return when notices were sent."""
    return [
        Event(
            at=row["published_at"],
            layer=Layer.NOTIFIED,
            event="notice-sent",
            note=row["topic"] or "",
        )
        for row in rows
        if row["published_at"] is not None
    ]


def delivery_events(rows: Sequence[dict[str, Any]]) -> list[Event]:
    """Return when webhook deliveries came in."""
    events = []
    for row in rows:
        if row["received_at"] is not None:
            times = count_text(row["times_received"] or 1, "time")
            note = f"{row['event_type'] or 'delivery'}, {times}"
            events.append(
                Event(
                    at=row["received_at"], layer=Layer.INTAKE, event="delivery-received", note=note
                )
            )
    return events
