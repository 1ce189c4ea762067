"""Queues that stand still, are paused, or fall behind."""

from __future__ import annotations

import math
from typing import Any

from jobplaybook.detectors.findings import BlastRadius, Finding
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.measures import drain_seconds, net_rate
from jobplaybook.model import Layer, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso, plain

STILL_SECONDS = 60.0
"""A queue is not called still before this: workers poll every few seconds."""
EXPECTED_CLAIMS = 10.0
"""So many claims were due in the silence that chance hardly explains it (e^-10)."""
NO_BASELINE_SECONDS = 300.0
"""How old the oldest claimable job must be where no claim was ever seen to compare with."""
YOUNG_SECONDS = 60.0
"""A backlog whose oldest job is younger than this is no backlog."""
NORMAL_FACTOR = 3.0
"""How many times the normal wait (p95) makes a backlog older than its normal."""
PAGE_AGE_SECONDS = 900.0
"""A growing backlog this old is a page."""
LONG_DRAIN_SECONDS = 3_600.0
"""A draining backlog that needs longer than this is a ticket."""


def queue_name(queue: str | None) -> str:
    """Return a queue's name for people."""
    return plain(queue) if queue is not None else "(no queue)"


def oldest_age_seconds(situation: Situation, queue: QueueState) -> float | None:
    """Return the age of the oldest claimable job, seconds; None where nothing is claimable.

    It is judged at the last look, or at an earlier ``now``: after the last look nobody knows
    whether the job still waits.
    """
    if queue.oldest_at is None:
        return None
    at = min(situation.now, situation.seen_until)
    return max((at - queue.oldest_at) / MICROS, 0.0)


def is_stalled(situation: Situation, queue: QueueState) -> bool:
    """Whether claimable jobs wait while neither claims nor completions come that were due."""
    if not queue.claimable or queue.paused_at is not None or queue.oldest_at is None:
        return False
    silence = silent_seconds(situation, queue)
    if silence < STILL_SECONDS:
        return False
    expected = expected_claims(situation, queue, silence)
    if expected is None:
        return silence >= NO_BASELINE_SECONDS
    return expected >= EXPECTED_CLAIMS


def silent_seconds(situation: Situation, queue: QueueState) -> float:
    """Return how long there was something to claim and nothing was claimed or completed."""
    marks = [queue.oldest_at, queue.last_claim_at, queue.last_completion_at]
    last = max(mark for mark in marks if mark is not None)
    return max((min(situation.now, situation.seen_until) - last) / MICROS, 0.0)


def expected_claims(situation: Situation, queue: QueueState, silence: float) -> float | None:
    """Return how many claims the silence should have seen, from the rate before it."""
    if queue.claims_before < 2 or queue.first_at is None or queue.last_claim_at is None:
        return None
    before = max((queue.last_claim_at - queue.first_at) / MICROS, 1.0)
    return queue.claims_before / before * silence


def queue_stalled(situation: Situation) -> list[Finding]:
    """Find queues with claimable jobs and no claim and no completion where many were due."""
    return [
        _stalled(situation, queue) for queue in situation.queues if is_stalled(situation, queue)
    ]


def _stalled(situation: Situation, queue: QueueState) -> Finding:
    silence = silent_seconds(situation, queue)
    expected = expected_claims(situation, queue, silence)
    due = f", where about {expected:,.0f} claims were due" if expected is not None else ""
    since = min(situation.now, situation.seen_until) - int(silence * MICROS)
    return Finding(
        code="queue-stalled",
        severity=Severity.PAGE,
        layer=Layer.WAITING,
        sure=expected is not None,
        since=since,
        count=queue.claimable,
        radius=BlastRadius(jobs=queue.claimable),
        sentence=(
            f"Queue {queue_name(queue.queue)} stands still: {count_text(queue.claimable, 'job')} "
            f"could be claimed, nothing was claimed or completed for {duration_text(silence)}{due}."
        ),
        evidence={
            **_queue_evidence(situation, queue),
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
    return [
        Finding(
            code="queue-paused",
            severity=Severity.TICKET,
            layer=Layer.WAITING,
            since=queue.paused_at,
            count=queue.waiting,
            radius=BlastRadius(jobs=queue.waiting),
            sentence=(
                f"Queue {queue_name(queue.queue)} is paused since {iso(queue.paused_at)}: "
                f"{count_text(queue.waiting, 'job')} wait until somebody resumes it."
            ),
            evidence=_queue_evidence(situation, queue),
            next=("Ask who paused it and why before it is resumed.",),
        )
        for queue in situation.queues
        if queue.paused_at is not None and queue.waiting
    ]


def backlogs(situation: Situation) -> list[Finding]:
    """Find backlogs older than their normal, growing or draining."""
    return [
        _backlog(situation, queue)
        for queue in situation.queues
        if is_backlog(situation, queue) and not is_stalled(situation, queue)
    ]


def is_backlog(situation: Situation, queue: QueueState) -> bool:
    """Whether the oldest claimable job is older than is normal for its queue."""
    age = oldest_age_seconds(situation, queue)
    if age is None or queue.paused_at is not None or age < YOUNG_SECONDS:
        return False
    if queue.normal_wait_seconds is None:
        return age >= NO_BASELINE_SECONDS
    return age > NORMAL_FACTOR * queue.normal_wait_seconds


def _backlog(situation: Situation, queue: QueueState) -> Finding:
    seconds = situation.rate_seconds
    arrival, completion = queue.arrivals / seconds, queue.completions / seconds
    net = net_rate(arrival_rate=arrival, completion_rate=completion)
    drain = drain_seconds(queue.claimable, arrival_rate=arrival, completion_rate=completion)
    age = oldest_age_seconds(situation, queue) or 0.0
    draining = net > 0
    return Finding(
        code="backlog-draining" if draining else "backlog-growing",
        severity=_backlog_severity(draining, age, drain),
        layer=Layer.WAITING,
        sure=queue.normal_wait_seconds is not None,
        since=queue.oldest_at,
        count=queue.claimable,
        radius=BlastRadius(jobs=queue.claimable),
        sentence=_backlog_sentence(queue, age, drain, arrival, completion),
        evidence={
            **_queue_evidence(situation, queue),
            "arrival_rate": arrival,
            "completion_rate": completion,
            "net_rate": net,
            "drain_seconds": None if math.isinf(drain) else drain,
        },
        next=_backlog_next(draining),
    )


def _backlog_severity(draining: bool, age: float, drain: float) -> Severity:
    if draining:
        return Severity.TICKET if drain > LONG_DRAIN_SECONDS else Severity.NOTE
    return Severity.PAGE if age >= PAGE_AGE_SECONDS else Severity.TICKET


def _backlog_sentence(
    queue: QueueState, age: float, drain: float, arrival: float, completion: float
) -> str:
    normal = (
        f"normal is under {duration_text(queue.normal_wait_seconds)}"
        if queue.normal_wait_seconds is not None
        else "what is normal is not known"
    )
    flow = f"{arrival * 60:,.0f}/min in, {completion * 60:,.0f}/min done"
    end = (
        "it never clears at this rate"
        if math.isinf(drain)
        else f"it clears in about {duration_text(drain)} at this rate"
    )
    return (
        f"Queue {queue_name(queue.queue)} has {count_text(queue.claimable, 'job')} waiting, the "
        f"oldest for {duration_text(age)} ({normal}); {flow}: {end}."
    )


def _backlog_next(draining: bool) -> tuple[str, ...]:
    if draining:
        return ("Let it drain; estimate the end with: jobplaybook estimate drain --help",)
    return (
        "Find what changed: more arrivals, or fewer or slower completions?",
        "Estimate what is needed with: jobplaybook estimate drain --by 4h --help",
    )


def _queue_evidence(situation: Situation, queue: QueueState) -> dict[str, Any]:
    return {
        "queue": queue.queue,
        "waiting": queue.waiting,
        "claimable": queue.claimable,
        "oldest_claimable_age_seconds": oldest_age_seconds(situation, queue),
        "normal_wait_seconds": queue.normal_wait_seconds,
        "last_claim_at": iso(queue.last_claim_at),
        "last_completion_at": iso(queue.last_completion_at),
        "rate_window_seconds": situation.rate_seconds,
    }
