"""Retries: more of them than completions bear, and those that wake at the same moment."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jobplaybook.detectors.change import Rise, rise
from jobplaybook.detectors.findings import (
    BlastRadius,
    Finding,
    first_ids,
    names_text,
    rate_text,
    short,
    when_text,
)
from jobplaybook.detectors.flow import queue_name
from jobplaybook.detectors.harm import harm_by_queue
from jobplaybook.detectors.signs import RetryClass, Waking
from jobplaybook.detectors.situation import Situation
from jobplaybook.model import Layer, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso

STORM_RETRIES = 20
"""Fewer retries than this in the rate window are no storm."""
STORM_FACTOR = 1.5
"""How many times the usual attempts per completion are far above it: a third is work in vain."""
KNOWN_COMPLETIONS = 20
"""Fewer completions before the rise do not tell what is usual."""
UNKNOWN_STORM = 10.0
"""Attempts per completion that are too many whatever is usual."""
HOT_SECONDS = 1.0
"""A retry that starts sooner than this after the failure has no delay worth the name."""
HOT_SHARE = 0.5
"""The share of retries without delay that makes a hot loop."""

HERD_JOBS = 100
"""Fewer jobs than this that wake together hurt nobody."""
HERD_WITHIN_SECONDS = 60.0
"""Within this they wake together."""
HERD_SECONDS = 300.0
"""What wakes together has to take so long to be claimed, at the best rate of the window."""
AHEAD_SECONDS = 86_400.0
"""How far ahead is looked."""


def attempts_per_completion(retries: int, completions: int) -> float:
    """Attempts per completion, 1 + retries/completions; ``math.inf`` where nothing completed.

    Examples
    --------
    >>> attempts_per_completion(50, 200), attempts_per_completion(0, 0)
    (1.25, 1.0)
    """
    if not retries:
        return 1.0
    return 1.0 + retries / completions if completions else math.inf


def retry_storm(situation: Situation) -> list[Finding]:
    """Find queues with types whose attempts per completion rose far above what is usual."""
    by_queue: dict[str | None, list[RetryClass]] = defaultdict(list)
    for each in sorted(situation.retrying, key=lambda each: -each.retries):
        if is_storm(situation, each):
            by_queue[each.queue].append(each)
    harmed = harm_by_queue(situation) if by_queue else {}
    found = [
        _storm(situation, storms, max(Severity.TICKET, harmed.get(queue, Severity.NOTE)))
        for queue, storms in by_queue.items()
    ]
    return sorted(found, key=lambda finding: -finding.count)


def is_storm(situation: Situation, each: RetryClass) -> bool:
    """Whether retries rose, and a completion takes far more attempts than before the rise.

    Where too little completed before to know what is usual, it takes `UNKNOWN_STORM` attempts.
    """
    if each.retries < STORM_RETRIES:
        return False
    rose = rise(each.tried.counts)
    if rose is None and _has_past(situation, each):
        return False
    usual = usual_attempts(each, rose)
    now = attempts_per_completion(each.retries, each.completions)
    return now >= (UNKNOWN_STORM if usual is None else STORM_FACTOR * usual)


def _has_past(situation: Situation, each: RetryClass) -> bool:
    """Whether the class was seen for longer than the rate window: steady retries are its way."""
    seen = (situation.flow_until - each.tried.begin) / MICROS
    return seen >= 2 * situation.rate_seconds


def usual_attempts(each: RetryClass, rose: Rise | None) -> float | None:
    """Return the attempts per completion before the retries rose; None: too few to know."""
    if rose is None:
        return None
    completions = sum(each.completed.counts[: rose.index])
    if completions < KNOWN_COMPLETIONS:
        return None
    return attempts_per_completion(sum(each.tried.counts[: rose.index]), completions)


def _storm(situation: Situation, storms: Sequence[RetryClass], severity: Severity) -> Finding:
    worst, *others = storms
    rises = [(each, rise(each.tried.counts)) for each in storms]
    usual = usual_attempts(worst, rises[0][1])
    # Whose jobs they are is counted by type, and does not add up over several of them.
    tenants = worst.tenants if situation.knows_tenants and not others else None
    return Finding(
        code="retry-storm",
        severity=severity,
        layer=Layer.CLAIMED,
        sure=usual is not None,
        since=min((e.tried.time(r.index) for e, r in rises if r is not None), default=None),
        count=sum(each.retries for each in storms),
        radius=BlastRadius(
            jobs=sum(each.jobs for each in storms), tenants=tenants, types=len(storms)
        ),
        job_ids=first_ids(worst.job_ids),
        sentence=_storm_sentence(situation, worst, usual) + _others_text(others),
        evidence={
            **_storm_evidence(situation, worst, usual),
            "others": [{"job_type": each.job_type, "retries": each.retries} for each in others],
        },
        next=_storm_next(worst),
    )


def _others_text(others: Sequence[RetryClass]) -> str:
    if not others:
        return ""
    names = names_text([each.job_type or "unknown type" for each in others])
    return f" So {'is' if len(others) == 1 else 'are'} {names}."


def is_hot(each: RetryClass) -> bool:
    """Whether most retries start without a delay."""
    return each.quick >= HOT_SHARE * each.retries


def _storm_sentence(situation: Situation, each: RetryClass, usual: float | None) -> str:
    lately = duration_text(situation.rate_seconds)
    now = attempts_per_completion(each.retries, each.completions)
    per = "no completion" if math.isinf(now) else f"{now:,.1f} attempts per completion"
    before = "what is usual is not known" if usual is None else f"{usual:.2f} before"
    worst = f", one of them {each.most:,} times" if each.most > 1 else ""
    hot = (
        f" {_share(each.quick, each.retries)} of them started within "
        f"{duration_text(HOT_SECONDS)} of the failure before: a hot loop."
        if is_hot(each)
        else ""
    )
    return (
        f"{_named(each)} was tried again {count_text(each.retries, 'time')} in the last {lately}: "
        f"{count_text(each.jobs, 'job')}{worst}; {per} ({before}).{hot}"
    )


def _named(each: RetryClass) -> str:
    of_type = short(each.job_type) if each.job_type is not None else "A job of unknown type"
    return f"{of_type} in queue {queue_name(each.queue)}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}"


def _storm_evidence(situation: Situation, each: RetryClass, usual: float | None) -> dict[str, Any]:
    now = attempts_per_completion(each.retries, each.completions)
    return {
        "queue": each.queue,
        "job_type": each.job_type,
        "retries": each.retries,
        "completions": each.completions,
        "attempts_per_completion": now if math.isfinite(now) else None,
        "usual_attempts_per_completion": usual,
        "retry_share": each.retries / (each.retries + each.completions),
        "without_delay": each.quick,
        "most_retries_of_one_job": each.most,
        "rate_window_seconds": situation.rate_seconds,
    }


def _storm_next(each: RetryClass) -> tuple[str, ...]:
    first = (
        "Stop the loop first: give its retries a delay, or take the type out of the workers."
        if is_hot(each)
        else "Find what fails since then: a deploy, an upstream, a credential."
    )
    return first, "Do not start more workers: they only try the same failures more often."


# Herds


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """The jobs of a queue that wake within a minute, at the fullest such minute."""

    queue: str | None
    wakes_at: int
    jobs: int
    retries: int


def herds(wakings: Iterable[Waking]) -> list[Herd]:
    """Return per queue the fullest `HERD_WITHIN_SECONDS` of wakings, where it is a herd at all.

    Parameters
    ----------
    wakings : iterable of Waking
        Per queue in order of time.
    """
    by_queue: dict[str | None, list[Waking]] = defaultdict(list)
    for waking in wakings:
        by_queue[waking.queue].append(waking)
    fullest = (_fullest(queue, listed) for queue, listed in by_queue.items())
    return [herd for herd in fullest if herd.jobs >= HERD_JOBS]


def _fullest(queue: str | None, wakings: Sequence[Waking]) -> Herd:
    inside: deque[Waking] = deque()
    jobs = retries = 0
    best = Herd(queue=queue, wakes_at=wakings[0].wakes_at, jobs=0, retries=0)
    for waking in wakings:
        inside.append(waking)
        jobs, retries = jobs + waking.jobs, retries + waking.retries
        while waking.wakes_at - inside[0].wakes_at >= HERD_WITHIN_SECONDS * MICROS:
            gone = inside.popleft()
            jobs, retries = jobs - gone.jobs, retries - gone.retries
        if jobs > best.jobs:
            best = Herd(queue=queue, wakes_at=inside[0].wakes_at, jobs=jobs, retries=retries)
    return best


def retry_herd(situation: Situation) -> list[Finding]:
    """Find jobs that wake at the same moment, more than the queue claims in minutes at its best."""
    found = [_herd(situation, herd) for herd in herds(situation.wakings) if _hurts(situation, herd)]
    return sorted(found, key=lambda finding: -finding.count)


def claim_seconds(situation: Situation, herd: Herd) -> float:
    """Return how long claiming a herd takes at the best minute of the window, seconds."""
    peak = situation.peak_claims.get(herd.queue, 0)
    return herd.jobs / peak * 60.0 if peak else math.inf


def _hurts(situation: Situation, herd: Herd) -> bool:
    return claim_seconds(situation, herd) >= HERD_SECONDS


def _herd(situation: Situation, herd: Herd) -> Finding:
    takes = claim_seconds(situation, herd)
    # A batch that was planned for a moment is somebody's intention; retries are nobody's.
    failed = 2 * herd.retries >= herd.jobs
    return Finding(
        code="retry-herd",
        severity=Severity.TICKET if failed else Severity.NOTE,
        layer=Layer.WAITING,
        sure=math.isfinite(takes),
        count=herd.jobs,
        radius=BlastRadius(jobs=herd.jobs),
        sentence=_herd_sentence(situation, herd, takes),
        evidence={
            "queue": herd.queue,
            "wakes_at": iso(herd.wakes_at),
            "retries": herd.retries,
            "scheduled": herd.jobs - herd.retries,
            "within_seconds": HERD_WITHIN_SECONDS,
            "most_claims_in_a_minute": situation.peak_claims.get(herd.queue),
            "claim_seconds": takes if math.isfinite(takes) else None,
        },
        next=(
            "Spread them before they wake: move due times apart, or hold workers back and let "
            "them in step by step.",
            "Ask the upstream's owner how many calls a minute it bears.",
        ),
    )


def _herd_sentence(situation: Situation, herd: Herd, takes: float) -> str:
    what = (
        "parked retries"
        if herd.retries == herd.jobs
        else f"parked jobs ({herd.retries:,} retries)"
        if herd.retries
        else "scheduled jobs"
    )
    ahead = duration_text((herd.wakes_at - situation.flow_until) / MICROS)
    peak = situation.peak_claims.get(herd.queue, 0)
    best = (
        f"at its best minute this queue claimed {rate_text(peak / 60.0)}, so that the last of them "
        f"waits {duration_text(takes)}"
        if peak
        else "how fast the queue claims is not known"
    )
    return (
        f"{herd.jobs:,} {what} of queue {queue_name(herd.queue)} wake within a minute at "
        f"{when_text(herd.wakes_at, situation.now)}, in {ahead}: {best}."
    )
