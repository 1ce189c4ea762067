"""Held jobs: leases that ran out, and runs that nobody can vouch for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from jobplaybook.detectors.findings import (
    Finding,
    first_ids,
    fitting,
    in_order,
    names_text,
    radius_of,
    short,
    when_text,
)
from jobplaybook.detectors.situation import HeldJob, RunTime, Situation, WorkerState
from jobplaybook.model import Layer, Quality, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso

MIN_RUNS = 20  # fewer finished runs of a type than this, and its own p99 is no measure
NO_HISTORY_SECONDS = 3_600.0  # what a run is compared with where nothing ever finished
YOUNG_RUN_SECONDS = (
    60.0  # a doubtful run is only noted before it, an orphan of unknown type is one after
)
SWEEP_GRACE = 2.0  # a sweeper gets this many lease lengths before its silence is a page


def lease_expired(situation: Situation) -> list[Finding]:
    """Find running jobs whose lease is over: ``locked_until`` before the moment of judgement."""
    expired = [job for job in situation.held if job.is_expired]
    if not expired:
        return []
    by_owner = _by_owner(expired)
    owners = [owner for owner in by_owner if owner is not None]
    alive = _alive(situation, owners)
    heard: dict[str | None, int] = {
        w.owner: w.heartbeat_at for w in situation.workers if w.heartbeat_at is not None
    }
    lost = _lost(situation)
    radius = radius_of(expired, knows_tenants=situation.knows_tenants)
    who = _workers(owners) + (" and by nobody named" if owners and None in by_owner else "")
    return [
        Finding(
            code="lease-expired",
            severity=_expired_severity(situation, expired),
            layer=Layer.CLAIMED,
            sure=not situation.judged_later and situation.grade("lease") >= Quality.BOUND,
            since=min((heard[o] for o in owners if o in lost), default=None) or _first_end(expired),
            count=len(expired),
            radius=radius,
            job_ids=first_ids(job.id for job in expired),
            sentence=(
                f"{count_text(len(expired), 'job')}{radius.text} "
                f"{fitting(len(expired), 'is', 'are')} held by {who}, "
                f"{_state_of(situation, by_owner, alive)}. {_fate(situation, len(expired))}"
            ),
            evidence={
                "owners": owners,
                "without_owner": len(by_owner.get(None, ())),
                "by_owner": [
                    {
                        "owner": owner,
                        "jobs": len(own),
                        "last_heartbeat_at": iso(heard.get(owner)),
                        "lease_over_at": iso(_first_end(own)),
                    }
                    for owner, own in by_owner.items()
                ],
                "owners_alive": alive,
                "sweeper": situation.sweeper,
                "possible_sweepers": list(situation.possible_sweepers),
                "judged_at": iso(situation.now),
                "judged_after_the_last_look": situation.judged_later,
            },
            next=_expired_next(situation, owners, alive),
        )
    ]


def _by_owner(jobs: Sequence[HeldJob]) -> dict[str | None, list[HeldJob]]:
    """Return the jobs by owner, owners in number order, those without one last."""
    named = in_order(job.owner for job in jobs if job.owner is not None)
    found: dict[str | None, list[HeldJob]] = {owner: [] for owner in (*named, None)}
    for job in jobs:
        found[job.owner].append(job)
    return {owner: own for owner, own in found.items() if own}


def _lost(situation: Situation) -> set[str | None]:
    return {worker.owner for worker in situation.workers if situation.is_lost(worker)}


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


def _state_of(
    situation: Situation, by_owner: Mapping[str | None, Sequence[HeldJob]], alive: Sequence[str]
) -> str:
    if situation.judged_later:
        over = when_text(situation.now, situation.seen_until)
        looked = when_text(situation.seen_until, situation.now)
        return f"whose lease is over by {over}; nobody looked after {looked}"
    if by_owner.keys() <= _lost(situation):
        return "which stopped beating"
    named = len(by_owner.keys() - {None})
    said = f"past the end of {fitting(named, 'its lease', 'their leases')}"
    return f"{said}; {_workers(alive)} still beating" if alive else said


def _workers(owners: Sequence[str]) -> str:
    if not owners:
        return "an unknown worker"
    return f"{fitting(len(owners), 'worker', 'workers')} {names_text(owners)}"


def _fate(situation: Situation, count: int) -> str:
    they = fitting(count, "it", "they")
    if situation.sweeper is not None:
        return f"{they.capitalize()} will be taken back by {short(situation.sweeper)}."
    if situation.possible_sweepers:
        names = names_text(situation.possible_sweepers)
        return (
            f"Nothing sweeps this queue by itself: {they} will wait for ever unless your own "
            f"periodic task ({names}) requeues stalled jobs."
        )
    return f"Nothing sweeps this queue: {they} will wait for ever."


def _expired_next(
    situation: Situation, owners: Sequence[str], alive: Sequence[str]
) -> tuple[str, ...]:
    gone = [owner for owner in owners if owner not in alive]
    steps = []
    if situation.judged_later:
        steps.append(
            "Capture again before anything is requeued: since the last look a worker may have "
            "beaten, or a job may have ended."
        )
    if gone or not owners:
        check = f"Check that {_workers(gone)} {'are' if len(gone) > 1 else 'is'} really gone"
        steps.append(
            f"{check}; {short(situation.sweeper)} requeues the jobs by itself."
            if situation.sweeper is not None
            else f"{check}, then requeue the jobs with the native statement."
        )
    if alive:
        steps.append(
            f"Requeue nothing that {_workers(alive)} may still work on: it beats. Does the job "
            "hang, or is the lease shorter than the run?"
        )
    return tuple(steps)


def _first_end(jobs: Sequence[HeldJob]) -> int:
    return min(job.locked_until for job in jobs if job.locked_until is not None)


# Runs that no lease vouches for


def is_doubtful(job: HeldJob, workers: Mapping[str, WorkerState]) -> bool:
    """Whether no lease of a known owner speaks for a run; `lease_expired` has those whose is over.

    Where no worker is known at all, a lease alone is enough. An owner that started after the
    claim is another one under the same name.
    """
    return not job.is_expired and bool(_doubt(job, workers))


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
    lost = _lost(situation)
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
    by_owner = _by_owner(jobs)
    oldest = min(job.claimed_at for job in jobs if job.claimed_at is not None)
    age = _seen_age(situation, oldest)
    radius = radius_of(jobs, knows_tenants=situation.knows_tenants)
    # One run in a hundred is longer than the p99: seconds beyond it wake nobody.
    grave = Severity.PAGE if situation.sweeper is None else Severity.TICKET
    # A sweeper goes by leases: what has none it never takes back.
    swept = situation.sweeper is None or all(job.locked_until is not None for job in jobs)
    fate = _fate(situation, len(jobs)) if swept else "What has no lease is never taken back."
    count = len(jobs)
    return [
        Finding(
            code="phantom-running",
            severity=Severity.NOTE if age < YOUNG_RUN_SECONDS else grave,
            layer=Layer.CLAIMED,
            sure=False,
            since=oldest,
            count=count,
            radius=radius,
            job_ids=first_ids(job.id for job in jobs),
            sentence=(
                f"{count_text(count, 'job')}{radius.text} {fitting(count, 'runs', 'run')} longer "
                f"than {fitting(count, 'its', 'their')} type ever should (the oldest for "
                f"{duration_text(age)}), and no lease or known worker vouches for "
                f"{fitting(count, 'it', 'them')}. {fate}"
            ),
            evidence={
                "owners": [owner for owner in by_owner if owner is not None],
                "without_owner": len(by_owner.get(None, ())),
                "by_owner": [{"owner": owner, "jobs": len(own)} for owner, own in by_owner.items()],
                "doubts": dict(Counter(_doubt(job, workers) for job in jobs)),
                "reasons": sorted({limit for _, limit in found}),
            },
            next=(
                "Check in the workers' logs whether these jobs still run; decide between failing "
                "and requeueing by whether their handler is known to be idempotent.",
            ),
        )
    ]


def _seen_age(situation: Situation, since: int) -> float:
    """Return an age in seconds; nobody looked after the last look, so it does not grow there."""
    return (min(situation.now, situation.seen_until) - since) / MICROS


def _phantom(situation: Situation, job: HeldJob, workers: Mapping[str, WorkerState]) -> str:
    """Return what a doubtful run is longer than, or an empty text."""
    if job.claimed_at is None or not is_doubtful(job, workers):
        return ""
    limit, whose = _longest(situation.run_times, job.job_type)
    # A run that lives always has a worker where every worker is known: one without is orphaned.
    names_all = situation.grade("owner", "heartbeat") is Quality.EXACT
    if job.owner is None and whose.endswith("compare with)") and names_all:
        limit, whose = YOUNG_RUN_SECONDS, "a minute, and its worker is not known any more"
    return f"longer than {whose}" if _seen_age(situation, job.claimed_at) > limit else ""


def _longest(run_times: Mapping[str | None, RunTime], job_type: str | None) -> tuple[float, str]:
    """Return how long a run of a type may be, seconds, and whose time that is."""
    known = {kind: run.p99_seconds for kind, run in run_times.items() if run.runs >= MIN_RUNS}
    if job_type is not None and job_type in known:
        return known[job_type], f"its type's p99 of {duration_text(known[job_type])}"
    # The p99 of all types says nothing of a rare long one: it counts only above the hour.
    if known.get(None, 0.0) > NO_HISTORY_SECONDS:
        whose = f"the p99 of all types, {duration_text(known[None])} (too few runs of its own)"
        return known[None], whose
    return NO_HISTORY_SECONDS, "one hour (too few runs of its type ended to compare with)"
