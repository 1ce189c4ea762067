"""Workers that went silent."""

from __future__ import annotations

from jobplaybook.detectors.findings import (
    Finding,
    first_ids,
    fitting,
    in_order,
    names_text,
    radius_of,
    when_text,
)
from jobplaybook.detectors.flow import is_backlog, is_stalled
from jobplaybook.detectors.situation import Situation
from jobplaybook.model import Layer, Severity
from jobplaybook.units import count_text, iso


def workers_lost(situation: Situation) -> list[Finding]:
    """Find workers whose heartbeat had stopped when it was read; they are counted, not jobs."""
    holding = {job.owner for job in situation.held}
    # A worker that went silent before the window and holds nothing is history.
    silent = {
        worker.owner: worker.heartbeat_at
        for worker in situation.workers
        if situation.is_lost(worker)
        and worker.heartbeat_at is not None
        and (worker.owner in holding or worker.heartbeat_at >= situation.window_from)
    }
    if not silent:
        return []
    held = [job for job in situation.held if job.owner in silent]
    alive = sum(situation.beats(worker) for worker in situation.workers)
    unknown = _unknown(situation)
    since, owners = min(silent.values()), in_order(silent)
    left = f"{alive} still {fitting(alive, 'beats', 'beat')}" if alive else "no worker is left"
    if unknown:
        left = f"{alive} still known to beat, of {unknown} nothing is known"
    return [
        Finding(
            code="workers-lost",
            severity=_severity(situation, nobody=not alive and not unknown, held=bool(held)),
            layer=Layer.CLAIMED,
            since=since,
            count=len(silent),
            radius=radius_of(held, knows_tenants=situation.knows_tenants),
            job_ids=first_ids(job.id for job in held),
            sentence=(
                f"{fitting(len(owners), 'Worker', 'Workers')} {names_text(owners)} stopped beating"
                f"{fitting(len(owners), '', ', the first')} at "
                f"{when_text(since, situation.seen_until)}, holding "
                f"{count_text(len(held), 'job') if held else 'nothing'}; {left}."
            ),
            evidence={
                "owners": owners,
                "alive": alive,
                "unknown": unknown,
                "last_heartbeat_at": {owner: iso(at) for owner, at in silent.items()},
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


def _severity(situation: Situation, *, nobody: bool, held: bool) -> Severity:
    """A lost worker that held nothing, and is not missed by any queue, is history."""
    if nobody and (held or any(queue.claimable for queue in situation.queues)):
        return Severity.PAGE
    missed = any(is_backlog(situation, q) or is_stalled(situation, q) for q in situation.queues)
    return Severity.TICKET if held or missed else Severity.NOTE
