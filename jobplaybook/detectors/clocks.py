"""Clocks that disagree: times in an order that cannot be, heartbeats from the future."""

from __future__ import annotations

from jobplaybook.detectors.findings import (
    BlastRadius,
    Finding,
    fields_of,
    first_ids,
    fitting,
    in_order,
    names_text,
)
from jobplaybook.detectors.situation import Situation, WorkerState
from jobplaybook.model import Layer, Quality, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso

TOLERANCE_SECONDS = 1.0  # clocks that are kept in step differ by less than this
FEW_ODD_ROWS = 3  # fewer rows than this in an impossible order are odd data, not a clock

AHEAD = "heartbeat-after-read"
SAID = {
    "claimed-before-created": "claimed before they were created",
    "ended-before-claimed": "ended before they were claimed",
    "ended-before-created": "ended before they were created",
    "created-after-read": "created after they were read",
    "claimed-after-read": "claimed after they were read",
    "ended-after-read": "ended after they were read",
    "attempt-ended-before-started": "attempts ended before they started",
}


def clock_skew(situation: Situation) -> list[Finding]:
    """Find times whose order cannot be, and heartbeats that lie ahead of the database's clock."""
    ahead = {
        worker.owner: seconds
        for worker in situation.workers
        if (seconds := _ahead_seconds(situation, worker)) > TOLERANCE_SECONDS
    }
    rows = sum(disorder.rows for disorder in situation.disorders)
    if not rows and not ahead:
        return []
    hit = situation.disordered
    firsts = [d.first_at for d in situation.disorders if d.first_at is not None]
    tenants = hit.tenants if situation.knows_tenants else None
    live = situation.grade("created_at", "claimed_at")
    # Whether the times are as good as the system's own record of them.
    recorded = min(live, situation.grade("finished_at", state="finished")) >= Quality.BOUND
    host = f"host of worker {names_text(in_order(ahead))}" if ahead else "hosts"
    steps = [f"Compare the clock of the {host} with the database's: is time synchronisation on?"]
    if rows:
        steps.append("Look whether rows were written by hand, or in local time without a zone.")
    return [
        Finding(
            code="clock-skew",
            severity=Severity.TICKET if ahead or rows >= FEW_ODD_ROWS else Severity.NOTE,
            layer=Layer.CLAIMED if ahead and not rows else None,
            sure=bool(ahead) or recorded,
            since=min(*firsts, situation.seen_until) if firsts else None,
            count=rows + len(ahead),
            radius=BlastRadius(jobs=hit.jobs, tenants=tenants, types=hit.types or None),
            job_ids=first_ids(hit.job_ids),
            sentence=_sentence(situation, ahead, rows),
            evidence={
                "orders": {
                    d.kind: {**fields_of(d, "rows", "apart_seconds"), "first_at": iso(d.first_at)}
                    for d in situation.disorders
                },
                AHEAD: [
                    {"owner": owner, "apart_seconds": seconds} for owner, seconds in ahead.items()
                ],
                "tolerance_seconds": TOLERANCE_SECONDS,
                "read_at": iso(situation.clock_at),
            },
            next=tuple(steps),
        )
    ]


def _ahead_seconds(situation: Situation, worker: WorkerState) -> float:
    """Return how far a worker's heartbeat lies ahead of the clock that it was read with."""
    if situation.clock_at is None or worker.heartbeat_at is None or worker.stopped_at is not None:
        return 0.0
    return (worker.heartbeat_at - situation.clock_at) / MICROS


def _sentence(situation: Situation, ahead: dict[str, float], rows: int) -> str:
    parts = []
    if rows:
        said = ", ".join(f"{d.rows:,} {SAID.get(d.kind, d.kind)}" for d in situation.disorders)
        worst = max(d.apart_seconds for d in situation.disorders)
        jobs = count_text(situation.disordered.jobs, "job")
        parts.append(
            f"The times of {jobs} stand in an order that cannot be ({said}; up to "
            f"{duration_text(worst)} apart)."
        )
    if ahead:
        who = f"{fitting(len(ahead), 'worker', 'workers')} {names_text(in_order(ahead))}"
        parts.append(
            f"The heartbeat of {who} lies up to {duration_text(max(ahead.values()))} ahead of the "
            "database's clock: a lease that rests on it ends that much too late."
        )
    return " ".join([*parts, "Ages, waits and rates that rest on these clocks are off by as much."])
