"""Held jobs: leases that ran out, and runs that nobody can vouch for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from jobplaybook.detectors.findings import (
    BlastRadius,
    Finding,
    first_ids,
    in_order,
    names_text,
    radius_of,
    short,
    when_text,
)
from jobplaybook.detectors.situation import HeldJob, RunTime, Situation, WorkerState
from jobplaybook.model import Layer, Quality, Severity
from jobplaybook.units import MICROS, clock_text, count_text, duration_text, iso

MIN_RUNS = 20
"""Fewer finished runs of a type than this, and its own p99 is no measure."""
NO_HISTORY_SECONDS = 3_600.0
"""What a run is compared with where nothing ever finished."""
YOUNG_RUN_SECONDS = 60.0
"""A doubtful run younger than this is only noted; an orphan of an unknown type is one after it."""
SWEEP_GRACE = 2.0
"""A sweeper gets this many lease lengths before its silence is a page."""


def lease_expired(situation: Situation) -> list[Finding]:
    """Find running jobs whose lease is over: ``locked_until`` before the moment of judgement."""
    expired = [job for job in situation.held if job.is_expired]
    if not expired:
        return []
    owners = in_order(job.owner for job in expired if job.owner is not None)
    beats = _beats(situation, owners)
    lost = {worker.owner for worker in situation.workers if situation.is_lost(worker)}
    radius = radius_of(expired, knows_tenants=situation.knows_tenants)
    sure = not situation.judged_later and situation.grade("lease") >= Quality.BOUND
    return [
        Finding(
            code="lease-expired",
            severity=_expired_severity(situation, expired),
            layer=Layer.CLAIMED,
            sure=sure,
            since=min((beats[o] for o in owners if o in lost & beats.keys()), default=None)
            or _first_end(expired),
            count=len(expired),
            radius=radius,
            job_ids=first_ids(job.id for job in expired),
            sentence=_expired_sentence(situation, expired, owners, radius),
            evidence={
                "owners": owners,
                "without_owner": sum(job.owner is None for job in expired),
                "by_owner": [
                    _owner_evidence(owner, jobs, beats) for owner, jobs in _by_owner(expired)
                ],
                "owners_alive": _alive(situation, owners),
                "sweeper": situation.sweeper,
                "possible_sweepers": list(situation.possible_sweepers),
                "judged_at": iso(situation.now),
                "judged_after_the_last_look": situation.judged_later,
            },
            next=_expired_next(situation, owners),
        )
    ]


def _by_owner(jobs: Sequence[HeldJob]) -> list[tuple[str | None, list[HeldJob]]]:
    """Return the jobs by owner, owners in number order, those without one last."""
    found: dict[str | None, list[HeldJob]] = {}
    for job in jobs:
        found.setdefault(job.owner, []).append(job)
    named = in_order(owner for owner in found if owner is not None)
    return [(owner, found[owner]) for owner in (*named, None) if owner in found]


def _alive(situation: Situation, owners: Sequence[str]) -> list[str]:
    """Return the owners that were heard of in time; nobody was heard of after the last look."""
    if situation.judged_later:
        return []
    beating = {worker.owner for worker in situation.workers if situation.beats(worker)}
    return [owner for owner in owners if owner in beating]


def _expired_severity(situation: Situation, expired: Sequence[HeldJob]) -> Severity:
    if situation.sweeper is None:
        return Severity.PAGE
    leases = [w.lease_seconds for w in situation.workers if w.lease_seconds]
    grace = SWEEP_GRACE * max(leases, default=30.0)
    overdue = max((job.judged_at - (job.locked_until or 0)) / MICROS for job in expired)
    # After the last look nobody saw the sweeper fail.
    late = overdue > grace and not situation.judged_later
    return Severity.PAGE if late else Severity.TICKET


def _expired_sentence(
    situation: Situation, expired: Sequence[HeldJob], owners: Sequence[str], radius: BlastRadius
) -> str:
    jobs = count_text(len(expired), "job")
    verb = "is" if len(expired) == 1 else "are"
    who = _workers(owners, any(job.owner is None for job in expired))
    held = f"{jobs}{radius.text} {verb} held by {who}, {_state_of(situation, expired, owners)}."
    return f"{held} {_fate(situation, len(expired))}"


def _state_of(situation: Situation, expired: Sequence[HeldJob], owners: Sequence[str]) -> str:
    lost = {worker.owner for worker in situation.workers if situation.is_lost(worker)}
    if situation.judged_later:
        return (
            f"whose lease is over by {clock_text(situation.now)}; nobody looked after "
            f"{when_text(situation.seen_until, situation.now)}"
        )
    if owners and set(owners) <= lost and all(job.owner is not None for job in expired):
        return "which stopped beating"
    alive = _alive(situation, owners)
    said = "past the end of " + ("its lease" if len(owners) == 1 else "their leases")
    return f"{said}; {_workers(alive, False)} still beating" if alive else said


def _workers(owners: Sequence[str], unnamed: bool) -> str:
    if not owners:
        return "an unknown worker"
    names = ("worker " if len(owners) == 1 else "workers ") + names_text(owners)
    return names + (" and by nobody named" if unnamed else "")


def _fate(situation: Situation, count: int) -> str:
    they = "it" if count == 1 else "they"
    if situation.sweeper is not None:
        return f"{they.capitalize()} will be taken back by {short(situation.sweeper)}."
    if situation.possible_sweepers:
        names = names_text(situation.possible_sweepers)
        return (
            f"Nothing sweeps this queue by itself: {they} will wait for ever unless your own "
            f"periodic task ({names}) requeues stalled jobs."
        )
    return f"Nothing sweeps this queue: {they} will wait for ever."


def _expired_next(situation: Situation, owners: Sequence[str]) -> tuple[str, ...]:
    alive = _alive(situation, owners)
    gone = [owner for owner in owners if owner not in alive]
    steps = []
    if gone or not owners:
        who = f"{_workers(gone, False)} {'are' if len(gone) > 1 else 'is'}"
        steps.append(
            f"Check that {who} really gone; {short(situation.sweeper)} requeues the jobs by itself."
            if situation.sweeper is not None
            else f"Check that {who} really gone, then requeue the jobs with the native statement."
        )
    if alive:
        steps.append(
            f"Requeue nothing that {_workers(alive, False)} may still work on: it beats. Does the "
            "job hang, or is the lease shorter than the run?"
        )
    return tuple(steps)


def _owner_evidence(
    owner: str | None, own: Sequence[HeldJob], beats: dict[str, int]
) -> dict[str, object]:
    return {
        "owner": owner,
        "jobs": len(own),
        "last_heartbeat_at": None if owner is None else iso(beats.get(owner)),
        "lease_over_at": iso(_first_end(own)),
    }


def _first_end(jobs: Sequence[HeldJob]) -> int:
    return min(job.locked_until for job in jobs if job.locked_until is not None)


def _beats(situation: Situation, owners: Sequence[str]) -> dict[str, int]:
    asked = set(owners)
    return {
        worker.owner: worker.heartbeat_at
        for worker in situation.workers
        if worker.owner in asked and worker.heartbeat_at is not None
    }


def is_doubtful(job: HeldJob, workers: Mapping[str, WorkerState]) -> bool:
    """Whether no lease of a known owner speaks for a run; `lease_expired` has those whose is over.

    Where no worker is known at all, a lease alone is enough. An owner that started after the
    claim is another one under the same name.
    """
    if job.is_expired:
        return False
    return bool(_doubt(job, workers))


def _doubt(job: HeldJob, workers: Mapping[str, WorkerState]) -> str:
    owner = workers.get(job.owner) if job.owner is not None else None
    if job.locked_until is None:
        return "no lease" if owner is not None else "no lease and no known owner"
    if not workers:
        return ""
    if owner is None:
        return "no known owner"
    started = owner.started_at
    before = started is not None and job.claimed_at is not None and job.claimed_at < started
    return "claimed before its owner started" if before else ""


def live_runs(situation: Situation) -> Counter[str | None]:
    """Return per queue how many runs are in order: in time, and of an owner that is not lost."""
    workers = {worker.owner: worker for worker in situation.workers}
    lost = {worker.owner for worker in situation.workers if situation.is_lost(worker)}
    return Counter(
        job.queue
        for job in situation.held
        if not job.is_expired
        and job.owner not in lost
        and not (job.claimed_at is None and is_doubtful(job, workers))
        and not _phantom(situation, job, workers)
    )


def phantom_running(situation: Situation) -> list[Finding]:
    """Find runs that no lease or known owner vouches for, longer than their type's own p99."""
    workers = {worker.owner: worker for worker in situation.workers}
    found = [(job, limit) for job in situation.held if (limit := _phantom(situation, job, workers))]
    if not found:
        return []
    jobs = [job for job, _ in found]
    owners = in_order(job.owner for job in jobs if job.owner is not None)
    oldest = min(job.claimed_at for job in jobs if job.claimed_at is not None)
    return [
        Finding(
            code="phantom-running",
            severity=_phantom_severity(situation, oldest),
            layer=Layer.CLAIMED,
            sure=False,
            since=oldest,
            count=len(jobs),
            radius=radius_of(jobs, knows_tenants=situation.knows_tenants),
            job_ids=first_ids(job.id for job in jobs),
            sentence=_phantom_sentence(situation, jobs, oldest),
            evidence={
                "owners": owners,
                "without_owner": sum(job.owner is None for job in jobs),
                "by_owner": [{"owner": owner, "jobs": len(own)} for owner, own in _by_owner(jobs)],
                "doubts": dict(Counter(_doubt(job, workers) for job in jobs)),
                "reasons": sorted({limit for _, limit in found}),
            },
            next=(
                "Check in the workers' logs whether these jobs still run; decide between failing "
                "and requeueing by whether their handler is known to be idempotent.",
            ),
        )
    ]


def _phantom_severity(situation: Situation, oldest: int) -> Severity:
    # One run in a hundred is longer than the p99: seconds beyond it wake nobody.
    if _seen_age(situation, oldest) < YOUNG_RUN_SECONDS:
        return Severity.NOTE
    return Severity.PAGE if situation.sweeper is None else Severity.TICKET


def _phantom_sentence(situation: Situation, jobs: Sequence[HeldJob], oldest: int) -> str:
    one = len(jobs) == 1
    radius = radius_of(jobs, knows_tenants=situation.knows_tenants)
    # A sweeper goes by leases: what has none it never takes back.
    swept = situation.sweeper is None or all(job.locked_until is not None for job in jobs)
    fate = _fate(situation, len(jobs)) if swept else "What has no lease is never taken back."
    return (
        f"{count_text(len(jobs), 'job')}{radius.text} {'runs' if one else 'run'} longer than "
        f"{'its' if one else 'their'} type ever should (the oldest for "
        f"{duration_text(_seen_age(situation, oldest))}), and no lease or known worker vouches for "
        f"{'it' if one else 'them'}. {fate}"
    )


def _seen_age(situation: Situation, since: int) -> float:
    """Return an age in seconds; nobody looked after the last look, so it does not grow there."""
    return (min(situation.now, situation.seen_until) - since) / MICROS


def _phantom(situation: Situation, job: HeldJob, workers: Mapping[str, WorkerState]) -> str:
    """Return what a doubtful run is longer than, or an empty text."""
    if job.claimed_at is None or not is_doubtful(job, workers):
        return ""
    limit, whose = _longest(situation.run_times, job.job_type)
    if job.owner is None and whose.endswith("compare with)") and _names_every_worker(situation):
        limit, whose = YOUNG_RUN_SECONDS, "a minute, and its worker is not known any more"
    return f"longer than {whose}" if _seen_age(situation, job.claimed_at) > limit else ""


def _names_every_worker(situation: Situation) -> bool:
    """Whether a run that lives always has a worker that is known: then one without is orphaned."""
    return situation.grade("owner", "heartbeat") is Quality.EXACT


def _longest(run_times: Mapping[str | None, RunTime], job_type: str | None) -> tuple[float, str]:
    own = run_times.get(job_type) if job_type is not None else None
    if own is not None and own.runs >= MIN_RUNS:
        return own.p99_seconds, f"its type's p99 of {duration_text(own.p99_seconds)}"
    # The p99 of all types says nothing of a rare long one: it counts only above the hour.
    overall = run_times.get(None)
    if (
        overall is not None
        and overall.runs >= MIN_RUNS
        and overall.p99_seconds > NO_HISTORY_SECONDS
    ):
        return overall.p99_seconds, (
            f"the p99 of all types, {duration_text(overall.p99_seconds)} (too few runs of its own)"
        )
    return NO_HISTORY_SECONDS, "one hour (too few runs of its type ended to compare with)"
