"""Held jobs: leases that ran out, runs that nobody can vouch for, workers that went silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobplaybook.detectors.findings import BlastRadius, Finding, first_ids, radius_of
from jobplaybook.detectors.situation import HeldJob, RunTime, Situation, WorkerState
from jobplaybook.model import Layer, Quality, Severity
from jobplaybook.units import MICROS, clock_text, count_text, duration_text, iso, plain

MIN_RUNS = 20
"""Fewer finished runs of a type than this, and its own p99 is no measure."""
NO_HISTORY_SECONDS = 3_600.0
"""What a run is compared with where nothing ever finished."""
SWEEP_GRACE = 2.0
"""A sweeper gets this many lease lengths before its silence is a page."""


def lease_expired(situation: Situation) -> list[Finding]:
    """Find running jobs whose lease is over: ``locked_until`` before the moment of judgement."""
    expired = [job for job in situation.held if job.is_expired]
    if not expired:
        return []
    owners = sorted({job.owner or "unknown" for job in expired})
    beats = _beats(situation, owners)
    since = min([beats[o] for o in owners if o in beats] or [_first_end(expired)])
    radius = radius_of(expired, knows_tenants=situation.knows_tenants)
    sure = not situation.judged_later and situation.grade("lease") >= Quality.BOUND
    return [
        Finding(
            code="lease-expired",
            severity=_expired_severity(situation, expired),
            layer=Layer.CLAIMED,
            sure=sure,
            since=since,
            count=len(expired),
            radius=radius,
            job_ids=first_ids(job.id for job in expired),
            sentence=_expired_sentence(situation, expired, owners, radius),
            evidence={
                "owners": owners,
                "by_owner": [_owner_evidence(o, expired, beats) for o in owners],
                "sweeper": situation.sweeper,
                "possible_sweepers": list(situation.possible_sweepers),
                "judged_at": iso(situation.now),
                "judged_after_the_last_look": situation.judged_later,
            },
            next=_expired_next(situation, owners),
        )
    ]


def _expired_severity(situation: Situation, expired: Sequence[HeldJob]) -> Severity:
    if situation.sweeper is None:
        return Severity.PAGE
    leases = [w.lease_seconds for w in situation.workers if w.lease_seconds]
    grace = SWEEP_GRACE * max(leases, default=30.0)
    overdue = max((job.judged_at - (job.locked_until or 0)) / MICROS for job in expired)
    return Severity.PAGE if overdue > grace else Severity.TICKET


def _expired_sentence(
    situation: Situation, expired: Sequence[HeldJob], owners: Sequence[str], radius: BlastRadius
) -> str:
    jobs = count_text(len(expired), "job")
    verb = "is" if len(expired) == 1 else "are"
    lost = {worker.owner for worker in situation.workers if situation.is_lost(worker)}
    if situation.judged_later:
        what = f"whose lease is over by {clock_text(situation.now)}; nobody looked after "
        what += clock_text(situation.seen_until)
    elif set(owners) <= lost:
        what = "which stopped beating"
    else:
        what = "past the end of its lease"
    who = f"worker {_names(owners)}" if len(owners) == 1 else f"workers {_names(owners)}"
    held = f"{jobs}{radius.text} {verb} held by {who}, {what}."
    return f"{held} {_fate(situation, len(expired))}"


def _fate(situation: Situation, count: int) -> str:
    they = "it" if count == 1 else "they"
    if situation.sweeper is not None:
        return f"{they.capitalize()} will be taken back by {situation.sweeper}."
    if situation.possible_sweepers:
        names = ", ".join(plain(name) for name in situation.possible_sweepers)
        return (
            f"Nothing sweeps this queue by itself: {they} will wait for ever unless your own "
            f"periodic task ({names}) requeues stalled jobs."
        )
    return f"Nothing sweeps this queue: {they} will wait for ever."


def _expired_next(situation: Situation, owners: Sequence[str]) -> tuple[str, ...]:
    who = f"worker {_names(owners)} is" if len(owners) == 1 else f"workers {_names(owners)} are"
    if situation.sweeper is not None:
        return (f"Check that {who} really gone; {situation.sweeper} requeues the jobs by itself.",)
    return (f"Check that {who} really gone, then requeue the jobs with the native statement.",)


def _owner_evidence(
    owner: str, expired: Sequence[HeldJob], beats: dict[str, int]
) -> dict[str, object]:
    own = [job for job in expired if (job.owner or "unknown") == owner]
    return {
        "owner": owner,
        "jobs": len(own),
        "last_heartbeat_at": iso(beats.get(owner)),
        "lease_over_at": iso(_first_end(own)),
    }


def _first_end(jobs: Sequence[HeldJob]) -> int:
    return min(job.locked_until for job in jobs if job.locked_until is not None)


def _beats(situation: Situation, owners: Sequence[str]) -> dict[str, int]:
    return {
        worker.owner: worker.heartbeat_at
        for worker in situation.workers
        if worker.owner in owners and worker.heartbeat_at is not None
    }


def _names(owners: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(plain(owner) for owner in owners[:limit])
    return shown + (f" and {len(owners) - limit} more" if len(owners) > limit else "")


def phantom_running(situation: Situation) -> list[Finding]:
    """Find runs that no lease or known owner vouches for, longer than their type's own p99."""
    phantoms = [(job, reason) for job in situation.held if (reason := _phantom(situation, job))]
    if not phantoms:
        return []
    jobs = [job for job, _ in phantoms]
    owners = sorted({job.owner for job in jobs if job.owner is not None})
    oldest = min(job.claimed_at for job in jobs if job.claimed_at is not None)
    radius = radius_of(jobs, knows_tenants=situation.knows_tenants)
    age = duration_text((situation.seen_until - oldest) / MICROS)
    verb = "runs" if len(jobs) == 1 else "run"
    return [
        Finding(
            code="phantom-running",
            severity=Severity.PAGE if situation.sweeper is None else Severity.TICKET,
            layer=Layer.CLAIMED,
            sure=False,
            since=oldest,
            count=len(jobs),
            radius=radius,
            job_ids=first_ids(job.id for job in jobs),
            sentence=(
                f"{count_text(len(jobs), 'job')}{radius.text} {verb} longer than "
                f"{'its' if len(jobs) == 1 else 'their'} type ever should (the oldest for {age}), "
                "and no lease or known worker vouches for "
                f"{'it' if len(jobs) == 1 else 'them'}. {_fate(situation, len(jobs))}"
            ),
            evidence={
                "owners": owners,
                "without_owner": sum(job.owner is None for job in jobs),
                "reasons": sorted({reason for _, reason in phantoms}),
            },
            next=(
                "Check in the workers' logs whether these jobs still run; decide between failing "
                "and requeueing by whether their handler is known to be idempotent.",
            ),
        )
    ]


def _phantom(situation: Situation, job: HeldJob) -> str:
    """Return why a run counts as a phantom, or an empty text."""
    known = {worker.owner for worker in situation.workers}
    if job.is_expired or job.claimed_at is None:
        return ""
    if job.locked_until is not None and (not known or job.owner in known):
        return ""
    limit, whose = _longest(situation.run_times, job.job_type)
    # Nobody looked after the last look: a run is not called long for the time since.
    age = (min(situation.now, situation.seen_until) - job.claimed_at) / MICROS
    return f"longer than {whose}" if age > limit else ""


def _longest(run_times: Mapping[str | None, RunTime], job_type: str | None) -> tuple[float, str]:
    own = run_times.get(job_type)
    if own is not None and own.runs >= MIN_RUNS:
        return own.p99_seconds, f"its type's p99 of {duration_text(own.p99_seconds)}"
    overall = run_times.get(None)
    if overall is not None and overall.runs >= MIN_RUNS:
        return overall.p99_seconds, (
            f"the p99 of all types, {duration_text(overall.p99_seconds)} (too few runs of its own)"
        )
    return NO_HISTORY_SECONDS, "one hour (nothing finished to compare with)"


def workers_lost(situation: Situation) -> list[Finding]:
    """Find workers whose heartbeat had stopped when it was read; they are counted, not jobs."""
    lost = [w for w in situation.workers if situation.is_lost(w) and _matters(situation, w)]
    if not lost:
        return []
    alive = sum(
        worker.stopped_at is None and not situation.is_lost(worker) for worker in situation.workers
    )
    owners = sorted(worker.owner for worker in lost)
    held = [job for job in situation.held if job.owner in owners]
    since = min(worker.heartbeat_at for worker in lost if worker.heartbeat_at is not None)
    work = bool(held) or any(queue.claimable for queue in situation.queues)
    severity = Severity.PAGE if not alive and work else Severity.TICKET if work else Severity.NOTE
    return [
        Finding(
            code="workers-lost",
            severity=severity,
            layer=Layer.CLAIMED,
            since=since,
            count=len(lost),
            radius=radius_of(held, knows_tenants=situation.knows_tenants),
            job_ids=first_ids(job.id for job in held),
            sentence=_lost_sentence(owners, since, alive, len(held)),
            evidence={
                "owners": owners,
                "alive": alive,
                "last_heartbeat_at": {w.owner: iso(w.heartbeat_at) for w in lost},
                "read_at": iso(situation.workers_read_at),
            },
            next=(
                "Look at the lost workers' hosts: killed, out of memory, redeployed or cut off?",
                "Start workers again if too few are left to keep up.",
            ),
        )
    ]


def _matters(situation: Situation, worker: WorkerState) -> bool:
    """A worker that went silent before the window and holds nothing is history."""
    holds = any(job.owner == worker.owner for job in situation.held)
    return holds or (worker.heartbeat_at or 0) >= situation.window_from


def _lost_sentence(owners: Sequence[str], since: int, alive: int, held: int) -> str:
    who = f"Worker {_names(owners)}" if len(owners) == 1 else f"Workers {_names(owners)}"
    left = f"{alive} still {'beats' if alive == 1 else 'beat'}" if alive else "no worker is left"
    holding = f", holding {count_text(held, 'job')}" if held else ", holding nothing"
    return f"{who} stopped beating at {clock_text(since)}{holding}; {left}."
