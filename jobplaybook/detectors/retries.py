"""Retries: more of them than completions bear, and those that wake at the same moment."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobplaybook.detectors.change import Rise, rise
from jobplaybook.detectors.findings import (
    BlastRadius,
    Finding,
    fields_of,
    first_ids,
    fitting,
    largest_first,
    names_text,
    rate_text,
    short,
    when_text,
)
from jobplaybook.detectors.flow import by_queue, queue_name
from jobplaybook.detectors.signs import RetryClass, Waking
from jobplaybook.detectors.situation import Situation
from jobplaybook.model import Layer, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso

STORM_RETRIES = 20  # fewer retries than this in the rate window are no storm
STORM_FACTOR = 1.5  # times the usual attempts per completion: a third is work in vain
KNOWN_COMPLETIONS = 20  # fewer completions before the rise do not tell what is usual
UNKNOWN_STORM = 10.0  # attempts per completion that are too many whatever is usual
HOT_SECONDS = 1.0  # a retry so soon after the failure has no delay worth the name
HOT_SHARE = 0.5  # the share of retries without delay that makes a hot loop

HERD_JOBS = 100  # fewer jobs than this that wake together hurt nobody
HERD_WITHIN_SECONDS = 60.0  # within this they wake together
HERD_SECONDS = 300.0  # how long claiming a herd has to take at the best rate of the window
AHEAD_SECONDS = 86_400.0  # how far ahead is looked


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
    ordered = sorted(situation.retrying, key=lambda each: -each.retries)
    storms = [each for each in ordered if _is_storm(situation, each)]
    return by_queue(situation, storms, _storm)


def _is_storm(situation: Situation, each: RetryClass) -> bool:
    """Whether retries rose, and a completion takes far more attempts than before the rise.

    Where too little completed before to know what is usual, it takes `UNKNOWN_STORM` attempts.
    """
    if each.retries < STORM_RETRIES:
        return False
    rose = rise(each.tried.counts)
    seen = (situation.flow_until - each.tried.begin) / MICROS
    if rose is None and seen >= 2 * situation.rate_seconds:
        return False  # steady retries are its way
    usual = _usual_attempts(each, rose)
    now = attempts_per_completion(each.retries, each.completions)
    return now >= (UNKNOWN_STORM if usual is None else STORM_FACTOR * usual)


def _usual_attempts(each: RetryClass, rose: Rise | None) -> float | None:
    """Return the attempts per completion before the retries rose; None: too few to know."""
    if rose is None:
        return None
    completions = sum(each.completed.counts[: rose.index])
    if completions < KNOWN_COMPLETIONS:
        return None
    return attempts_per_completion(sum(each.tried.counts[: rose.index]), completions)


def _storm(situation: Situation, storms: Sequence[RetryClass], harm: Severity) -> Finding:
    worst, *others = storms
    rises = [(each, rise(each.tried.counts)) for each in storms]
    usual = _usual_attempts(worst, rises[0][1])
    now = attempts_per_completion(worst.retries, worst.completions)
    hot = worst.quick >= HOT_SHARE * worst.retries
    # Whose jobs they are is counted by type, and does not add up over several of them.
    tenants = worst.tenants if situation.knows_tenants and not others else None
    names = names_text([each.job_type or "unknown type" for each in others])
    so = f" So {fitting(len(others), 'is', 'are')} {names}." if others else ""
    return Finding(
        code="retry-storm",
        severity=max(Severity.TICKET, harm),
        layer=Layer.CLAIMED,
        sure=usual is not None,
        since=min((e.tried.time(r.index) for e, r in rises if r is not None), default=None),
        count=sum(each.retries for each in storms),
        radius=BlastRadius(
            jobs=sum(each.jobs for each in storms), tenants=tenants, types=len(storms)
        ),
        job_ids=first_ids(worst.job_ids),
        sentence=_storm_sentence(situation, worst, now, usual, hot) + so,
        evidence={
            **fields_of(worst, "queue", "job_type", "retries", "completions"),
            "attempts_per_completion": now if math.isfinite(now) else None,
            "usual_attempts_per_completion": usual,
            "retry_share": worst.retries / (worst.retries + worst.completions),
            "without_delay": worst.quick,
            "most_retries_of_one_job": worst.most,
            "rate_window_seconds": situation.rate_seconds,
            "others": [fields_of(each, "job_type", "retries") for each in others],
        },
        next=(
            "Stop the loop first: give its retries a delay, or take the type out of the workers."
            if hot
            else "Find what fails since then: a deploy, an upstream, a credential.",
            "Do not start more workers: they only try the same failures more often.",
        ),
    )


def _storm_sentence(
    situation: Situation, each: RetryClass, now: float, usual: float | None, hot: bool
) -> str:
    of_type = short(each.job_type) if each.job_type is not None else "A job of unknown type"
    per = "no completion" if math.isinf(now) else f"{now:,.1f} attempts per completion"
    before = "what is usual is not known" if usual is None else f"{usual:.2f} before"
    worst = f", one of them {each.most:,} times" if each.most > 1 else ""
    loop = (
        f" {each.quick / each.retries:.0%} of them started within {duration_text(HOT_SECONDS)} of "
        "the failure before: a hot loop."
    )
    return (
        f"{of_type} in queue {queue_name(each.queue)} was tried again "
        f"{count_text(each.retries, 'time')} in the last {duration_text(situation.rate_seconds)}: "
        f"{count_text(each.jobs, 'job')}{worst}; {per} ({before}).{loop if hot else ''}"
    )


# Herds


def herds(wakings: Iterable[Waking]) -> list[Waking]:
    """Return per queue the fullest `HERD_WITHIN_SECONDS` of wakings, where it is a herd at all.

    The wakings of a queue have to come in order of time.
    """
    by_name: dict[str | None, list[Waking]] = defaultdict(list)
    for waking in wakings:
        by_name[waking.queue].append(waking)
    fullest = (_fullest(listed) for listed in by_name.values())
    return [herd for herd in fullest if herd.jobs >= HERD_JOBS]


def _fullest(wakings: Sequence[Waking]) -> Waking:
    inside: deque[Waking] = deque()
    jobs = retries = 0
    best = replace(wakings[0], jobs=0, retries=0)
    for waking in wakings:
        inside.append(waking)
        jobs, retries = jobs + waking.jobs, retries + waking.retries
        while waking.wakes_at - inside[0].wakes_at >= HERD_WITHIN_SECONDS * MICROS:
            gone = inside.popleft()
            jobs, retries = jobs - gone.jobs, retries - gone.retries
        if jobs > best.jobs:
            best = replace(inside[0], jobs=jobs, retries=retries)
    return best


def retry_herd(situation: Situation) -> list[Finding]:
    """Find jobs that wake at the same moment, more than the queue claims in minutes at its best."""
    found = ((herd, _claim_seconds(situation, herd)) for herd in herds(situation.wakings))
    return largest_first(
        _herd(situation, herd, takes) for herd, takes in found if takes >= HERD_SECONDS
    )


def _claim_seconds(situation: Situation, herd: Waking) -> float:
    """Return how long claiming a herd takes at the best minute of the window, seconds."""
    peak = situation.peak_claims.get(herd.queue, 0)
    return herd.jobs / peak * 60.0 if peak else math.inf


def _herd(situation: Situation, herd: Waking, takes: float) -> Finding:
    known = math.isfinite(takes)
    return Finding(
        code="retry-herd",
        # A batch that was planned for a moment is somebody's intention; retries are nobody's.
        severity=Severity.TICKET if 2 * herd.retries >= herd.jobs else Severity.NOTE,
        layer=Layer.WAITING,
        sure=known,
        count=herd.jobs,
        radius=BlastRadius(jobs=herd.jobs),
        sentence=_herd_sentence(situation, herd, takes),
        evidence={
            **fields_of(herd, "queue", "retries"),
            "wakes_at": iso(herd.wakes_at),
            "scheduled": herd.jobs - herd.retries,
            "within_seconds": HERD_WITHIN_SECONDS,
            "most_claims_in_a_minute": situation.peak_claims.get(herd.queue),
            "claim_seconds": takes if known else None,
        },
        next=(
            "Spread them before they wake: move due times apart, or hold workers back and let "
            "them in step by step.",
            "Ask the upstream's owner how many calls a minute it bears.",
        ),
    )


def _herd_sentence(situation: Situation, herd: Waking, takes: float) -> str:
    what = f"parked jobs ({herd.retries:,} retries)" if herd.retries else "scheduled jobs"
    if herd.retries == herd.jobs:
        what = "parked retries"
    ahead = duration_text((herd.wakes_at - situation.flow_until) / MICROS)
    best = "how fast the queue claims is not known"
    if math.isfinite(takes):
        peak = rate_text(situation.peak_claims[herd.queue] / 60.0)
        best = (
            f"at its best minute this queue claimed {peak}, so that the last of them waits "
            f"{duration_text(takes)}"
        )
    return (
        f"{herd.jobs:,} {what} of queue {queue_name(herd.queue)} wake within a minute at "
        f"{when_text(herd.wakes_at, situation.now)}, in {ahead}: {best}."
    )
