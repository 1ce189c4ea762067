"""Workers that went silent."""

from __future__ import annotations

from collections.abc import Sequence, Set

from jobplaybook.detectors.findings import (
    Finding,
    first_ids,
    in_order,
    names_text,
    radius_of,
    when_text,
)
from jobplaybook.detectors.flow import is_backlog, is_stalled
from jobplaybook.detectors.situation import HeldJob, Situation, WorkerState
from jobplaybook.model import Layer, Severity
from jobplaybook.units import count_text, iso


def workers_lost(situation: Situation) -> list[Finding]:
    """Find workers whose heartbeat had stopped when it was read; they are counted, not jobs."""
    holding = {job.owner for job in situation.held}
    lost = [
        worker
        for worker in situation.workers
        if situation.is_lost(worker) and _matters(situation, worker, holding)
    ]
    if not lost:
        return []
    owners = in_order(worker.owner for worker in lost)
    held = [job for job in situation.held if job.owner in {worker.owner for worker in lost}]
    alive = sum(situation.beats(worker) for worker in situation.workers)
    since = min(worker.heartbeat_at for worker in lost if worker.heartbeat_at is not None)
    return [
        Finding(
            code="workers-lost",
            severity=_lost_severity(situation, alive, held),
            layer=Layer.CLAIMED,
            since=since,
            count=len(lost),
            radius=radius_of(held, knows_tenants=situation.knows_tenants),
            job_ids=first_ids(job.id for job in held),
            sentence=_lost_sentence(situation, owners, since, alive, len(held)),
            evidence={
                "owners": owners,
                "alive": alive,
                "unknown": _unknown(situation),
                "last_heartbeat_at": {w.owner: iso(w.heartbeat_at) for w in lost},
                "read_at": iso(situation.workers_read_at),
            },
            next=(
                "Look at the lost workers' hosts: killed, out of memory, redeployed or cut off?",
                "Start workers again if too few are left to keep up.",
            ),
        )
    ]


def _unknown(situation: Situation) -> int:
    """Return how many workers may live or not: they left no heartbeat, or have no rule for it."""
    return sum(
        worker.stopped_at is None and not situation.is_lost(worker) and not situation.beats(worker)
        for worker in situation.workers
    )


def _lost_severity(situation: Situation, alive: int, held: Sequence[HeldJob]) -> Severity:
    """A lost worker that held nothing, and is not missed by any queue, is history."""
    claimable = any(queue.claimable for queue in situation.queues)
    if not alive and not _unknown(situation) and (held or claimable):
        return Severity.PAGE
    missed = any(is_backlog(situation, q) or is_stalled(situation, q) for q in situation.queues)
    return Severity.TICKET if held or missed else Severity.NOTE


def _matters(situation: Situation, worker: WorkerState, holding: Set[str | None]) -> bool:
    """A worker that went silent before the window and holds nothing is history."""
    return worker.owner in holding or (worker.heartbeat_at or 0) >= situation.window_from


def _lost_sentence(
    situation: Situation, owners: Sequence[str], since: int, alive: int, held: int
) -> str:
    who = f"Worker {names_text(owners)}" if len(owners) == 1 else f"Workers {names_text(owners)}"
    first = "" if len(owners) == 1 else ", the first"
    holding = f", holding {count_text(held, 'job')}" if held else ", holding nothing"
    unknown = _unknown(situation)
    left = f"{alive} still {'beats' if alive == 1 else 'beat'}" if alive else "no worker is left"
    if unknown:
        left = f"{alive} still known to beat, of {unknown} nothing is known"
    at = when_text(since, situation.seen_until)
    return f"{who} stopped beating{first} at {at}{holding}; {left}."
