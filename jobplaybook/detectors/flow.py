"""Queues that stand still, are paused, or fall behind."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from jobplaybook.detectors.findings import (
    BlastRadius,
    Finding,
    fields_of,
    fitting,
    largest_first,
    rate_text,
    short,
    when_text,
)
from jobplaybook.detectors.signs import ClassLoad, RetryClass, WaitingClass
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.measures import drain_seconds, net_rate
from jobplaybook.model import Layer, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso

Part = TypeVar("Part", ClassLoad, RetryClass, WaitingClass)

STILL_SECONDS = 60.0  # a queue is not called still before this: workers poll every few seconds
EXPECTED_CLAIMS = 10.0  # so many claims due in a silence: chance hardly explains it (e^-10)
NO_BASELINE_SECONDS = 300.0  # how long jobs must wait where nothing tells what is due or normal
YOUNG_SECONDS = 60.0  # a backlog whose oldest job is younger than this is no backlog
NORMAL_FACTOR = 3.0  # how many times the normal wait (p95) makes a backlog older than its normal
PAGE_AGE_SECONDS = 900.0  # a growing backlog this old is a page
LONG_DRAIN_SECONDS = 3_600.0  # a draining backlog that needs longer than this is a ticket
FEW_EVENTS = 10  # fewer arrivals and ends in the rate window do not tell where a queue goes
FEW_JOBS = 10  # fewer jobs than this that stand still wake nobody


def queue_name(queue: str | None) -> str:
    """Return a queue's name for people."""
    return short(queue) if queue is not None else "(no queue)"


def radius_of_queue(situation: Situation, queue: QueueState) -> BlastRadius:
    """Return whom the jobs that are due in a queue belong to."""
    tenants = queue.tenants if situation.knows_tenants else None
    return BlastRadius(jobs=queue.backlog, tenants=tenants, types=queue.types or None)


def queue_numbers(situation: Situation, queue: QueueState) -> dict[str, Any]:
    """Return what stands in a queue and how old it is, as every answer tells it."""
    return {
        **fields_of(queue, "queue", "waiting", "claimable", "running"),
        "due": queue.backlog,
        "oldest_claimable_age_seconds": oldest_age_seconds(situation, queue),
        "rate_window_seconds": situation.rate_seconds,
    }


def _evidence(situation: Situation, queue: QueueState) -> dict[str, Any]:
    return {
        **queue_numbers(situation, queue),
        **fields_of(queue, "normal_wait_seconds", "recent_wait_seconds"),
        "last_claim_at": iso(queue.last_claim_at),
        "last_completion_at": iso(queue.last_completion_at),
    }


def oldest_age_seconds(situation: Situation, queue: QueueState) -> float | None:
    """Return the age of the oldest claimable job, seconds; None where nothing is claimable.

    It is judged where the window ends, the last look at the latest: after that nobody knows
    whether the job still waits.
    """
    if queue.oldest_at is None:
        return None
    return max((situation.flow_until - queue.oldest_at) / MICROS, 0.0)


# Standing still


def is_stalled(situation: Situation, queue: QueueState) -> bool:
    """Whether claimable jobs wait while neither claims nor completions come that were due.

    Either the rate before the silence says that many were due. Or the silence is long for
    anything that waits, and no run is in order that would explain it: busy workers claim nothing.
    """
    if not queue.claimable or queue.paused_at is not None or queue.oldest_at is None:
        return False
    silence = _silent_seconds(situation, queue)
    if silence < STILL_SECONDS or not (situation.knows_claims or situation.knows_ends):
        return False
    if (expected_claims(situation, queue, silence) or 0.0) >= EXPECTED_CLAIMS:
        return True
    normal = queue.normal_wait_seconds or 0.0
    return not queue.live and silence >= max(NO_BASELINE_SECONDS, NORMAL_FACTOR * normal)


def _silent_seconds(situation: Situation, queue: QueueState) -> float:
    return max((situation.flow_until - _silent_from(situation, queue)) / MICROS, 0.0)


def _silent_from(situation: Situation, queue: QueueState) -> int:
    """Return since when there was something to claim and nothing was claimed or completed."""
    # What came before the window was not looked at: no silence is longer than the window.
    marks = (queue.oldest_at, queue.last_claim_at, queue.last_completion_at)
    return max(situation.window_from, *(mark for mark in marks if mark is not None))


def expected_claims(situation: Situation, queue: QueueState, silence: float) -> float | None:
    """Return how many claims the silence should have seen, from the rate before it.

    The rate is taken up to where the silence begins: hours without work belong to it, or one
    nightly burst would make every quiet minute suspicious. No more were due than could be claimed.
    """
    if queue.claims_before < 2 or queue.first_at is None or not situation.knows_claims:
        return None
    before = max((_silent_from(situation, queue) - queue.first_at) / MICROS, 1.0)
    return min(queue.claims_before / before * silence, float(queue.claimable))


def queue_stalled(situation: Situation) -> list[Finding]:
    """Find queues with claimable jobs and no claim and no completion where many were due."""
    still = [queue for queue in situation.queues if is_stalled(situation, queue)]
    return largest_first(_stalled(situation, queue) for queue in still)


def _stalled(situation: Situation, queue: QueueState) -> Finding:
    silence = _silent_seconds(situation, queue)
    expected = expected_claims(situation, queue, silence)
    proved = expected is not None and expected >= EXPECTED_CLAIMS
    due = f", where about {expected:,.0f} claims were due" if proved else ""
    seen = {"claimed": situation.knows_claims, "completed": situation.knows_ends}
    parts = [
        f"Queue {queue_name(queue.queue)} stands still: {count_text(queue.claimable, 'job')} "
        f"could be claimed, nothing was {' or '.join(word for word in seen if seen[word])} for "
        f"{duration_text(silence)}{due}."
    ]
    if queue.live:
        still = fitting(queue.live, "runs", "run")
        parts.append(f"{count_text(queue.live, 'job')} still {still}: busy workers, or stuck.")
    if queue.arrivals and situation.knows_arrivals:
        came, lately = count_text(queue.arrivals), duration_text(situation.rate_seconds)
        stored = fitting(queue.arrivals, "is", "are")
        parts.append(f"Intake is safe: {came} came in the last {lately} and {stored} stored.")
    return Finding(
        code="queue-stalled",
        severity=Severity.PAGE if queue.claimable >= FEW_JOBS else Severity.TICKET,
        layer=Layer.WAITING,
        sure=proved and situation.knows_ends and not queue.live,
        since=_silent_from(situation, queue),
        count=queue.claimable,
        radius=radius_of_queue(situation, queue),
        sentence=" ".join(parts),
        evidence={
            **_evidence(situation, queue),
            "silent_seconds": silence,
            "expected_claims": expected,
        },
        next=(
            "Check that workers for this queue run and are connected to this database.",
            "Restart one worker and watch for the first claim before restarting the rest.",
        ),
    )


def queue_paused(situation: Situation) -> list[Finding]:
    """Find queues whose jobs wait because somebody paused them."""
    paused = [q for q in situation.queues if q.paused_at is not None and q.waiting > 0]
    return largest_first(_paused(situation, queue) for queue in paused)


def _paused(situation: Situation, queue: QueueState) -> Finding:
    due = f", {queue.backlog:,} of them due," if queue.backlog < queue.waiting else ""
    return Finding(
        code="queue-paused",
        severity=Severity.TICKET if queue.backlog else Severity.NOTE,
        layer=Layer.WAITING,
        since=queue.paused_at,
        count=queue.waiting,
        radius=replace(radius_of_queue(situation, queue), jobs=queue.waiting),
        sentence=(
            f"Queue {queue_name(queue.queue)} is paused since "
            f"{when_text(queue.paused_at, situation.now)}: {count_text(queue.waiting, 'job')}{due} "
            f"{fitting(queue.waiting, 'waits', 'wait')} until somebody resumes it."
        ),
        evidence={**_evidence(situation, queue), "paused_at": iso(queue.paused_at)},
        next=("Ask who paused it and why before it is resumed.",),
    )


# Falling behind


def is_backlog(situation: Situation, queue: QueueState) -> bool:
    """Whether the oldest claimable job is older than is normal for its queue."""
    age = oldest_age_seconds(situation, queue)
    if age is None or queue.paused_at is not None or age < YOUNG_SECONDS:
        return False
    if queue.normal_wait_seconds is None:
        return age >= NO_BASELINE_SECONDS
    return age > NORMAL_FACTOR * queue.normal_wait_seconds


def is_late(situation: Situation, queue: QueueState) -> bool:
    """Whether a queue has a backlog that is worked on: one that stands still has other causes."""
    return is_backlog(situation, queue) and not is_stalled(situation, queue)


def is_draining(situation: Situation, queue: QueueState) -> bool:
    """Whether more jobs leave a queue than come; False where that is not known."""
    return situation.knows_flow and queue.left > queue.arrivals


def backlogs(situation: Situation) -> list[Finding]:
    """Find backlogs older than their normal, growing or draining."""
    late = [queue for queue in situation.queues if is_late(situation, queue)]
    return largest_first(_backlog(situation, queue) for queue in late)


def _backlog(situation: Situation, queue: QueueState) -> Finding:
    seconds, known = situation.rate_seconds, situation.knows_flow
    arrival, left = queue.arrivals / seconds, queue.left / seconds
    drain = drain_seconds(queue.backlog, arrival_rate=arrival, completion_rate=left)
    draining = is_draining(situation, queue)
    # Counts scatter by their square root: a smaller difference is none.
    clear = abs(queue.left - queue.arrivals) > 2 * math.sqrt(queue.left + queue.arrivals)
    normal = queue.normal_wait_seconds
    usual = (
        "what is normal is not known"
        if normal is None
        else f"normal is under {duration_text(normal)}"
    )
    age = duration_text(oldest_age_seconds(situation, queue))
    return Finding(
        code="backlog-draining" if draining else "backlog-growing",
        severity=_backlog_severity(situation, queue, drain, clear),
        layer=Layer.WAITING,
        sure=known and clear and not _has_few(queue) and normal is not None,
        since=queue.oldest_at,
        count=queue.backlog,
        radius=radius_of_queue(situation, queue),
        sentence=(
            f"Queue {queue_name(queue.queue)} has {count_text(queue.backlog, 'job')} waiting, the "
            f"oldest for {age} ({usual}); {_flow_text(situation, queue, drain)}."
        ),
        evidence={
            **_evidence(situation, queue),
            "arrival_rate": arrival if situation.knows_arrivals else None,
            "completion_rate": queue.completions / seconds if situation.knows_ends else None,
            "net_rate": net_rate(arrival_rate=arrival, completion_rate=left) if known else None,
            "drain_seconds": drain if known and math.isfinite(drain) else None,
        },
        next=(
            ("Let it drain; estimate the end with: jobplaybook estimate drain --help",)
            if draining
            else (
                "Find what changed: more arrivals, or fewer or slower completions?",
                "Estimate what is needed with: jobplaybook estimate drain --by 4h --help",
            )
        ),
    )


def _backlog_severity(
    situation: Situation, queue: QueueState, drain: float, clear: bool
) -> Severity:
    if is_draining(situation, queue):
        return Severity.TICKET if drain > LONG_DRAIN_SECONDS else Severity.NOTE
    old = (oldest_age_seconds(situation, queue) or 0.0) >= PAGE_AGE_SECONDS
    aside = _is_left_behind(queue) and not clear
    page = old and situation.knows_flow and not _has_few(queue) and not aside
    return Severity.PAGE if page else Severity.TICKET


def _has_few(queue: QueueState) -> bool:
    return queue.arrivals + queue.left < FEW_EVENTS


def _is_left_behind(queue: QueueState) -> bool:
    """Whether claims come in time while the oldest job waits: it is passed over, not in line."""
    return queue.recent_wait_seconds is not None and queue.recent_wait_seconds < YOUNG_SECONDS


def _flow_text(situation: Situation, queue: QueueState, drain: float) -> str:
    seconds = situation.rate_seconds
    came = rate_text(queue.arrivals / seconds) if situation.knows_arrivals else "unknown"
    done = rate_text(queue.completions / seconds) if situation.knows_ends else "unknown"
    dead = f", {rate_text(queue.dead / seconds)} dead" if queue.dead else ""
    end = "it never clears at this rate"
    if not situation.knows_flow:
        end = "whether it grows is not known"
    elif not math.isinf(drain):
        end = f"it clears in about {duration_text(drain)} at this rate"
    elif _has_few(queue):
        runs = f", {count_text(queue.live, 'job')} still running" if queue.live else ""
        end = f"too few came and ended to tell where it goes{runs}"
    elif _is_left_behind(queue):
        wait = duration_text(queue.recent_wait_seconds)
        end += f", though claims wait under {wait}: the oldest is passed over"
    return f"{came} in, {done} done{dead} over {duration_text(seconds)}: {end}"


# How grave a cause is: as grave as the backlogs that stand behind it


def harm_by_queue(situation: Situation) -> dict[str | None, Severity]:
    """Return how grave the backlog of each queue is; a queue without one is left out."""
    return {finding.evidence["queue"]: finding.severity for finding in backlogs(situation)}


def by_queue(
    situation: Situation,
    parts: Iterable[Part],
    told: Callable[[Situation, list[Part], Severity], Finding],
) -> list[Finding]:
    """Return a finding a queue, told of its parts and of how grave its backlog is."""
    found: dict[str | None, list[Part]] = defaultdict(list)
    for part in parts:
        found[part.queue].append(part)
    harm = harm_by_queue(situation) if found else {}
    return largest_first(
        told(situation, listed, harm.get(queue, Severity.NOTE)) for queue, listed in found.items()
    )
