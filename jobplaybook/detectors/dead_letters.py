"""Dead letters: more of them than before, or a noticeable share of all that finished."""

from __future__ import annotations

import math
from collections import Counter

from jobplaybook.detectors.change import rise, series_over
from jobplaybook.detectors.findings import (
    Finding,
    first_ids,
    radius_of,
    rate_text,
    short,
    when_text,
)
from jobplaybook.detectors.situation import Situation
from jobplaybook.model import Layer, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso

FEW = 3  # fewer dead letters than this are not called growth
SHARE = 0.01  # the share of finished jobs that, dead, is above any normal
SIGMAS = 3.0
RECENT_SECONDS = 3_600.0


def dead_letters_growing(situation: Situation) -> list[Finding]:
    """Find dead letters that grow against their own past, or make 1 % of what finished."""
    dead = situation.dead
    if len(dead) < FEW:
        return []
    share = len(dead) / max(situation.finished_in_window, 1)
    recent, usual = _recent(situation)
    lately, since = "", dead[0].finished_at
    if usual is not None and recent >= FEW and recent > usual + SIGMAS * math.sqrt(usual):
        per = rate_text(usual / RECENT_SECONDS)
        lately = f", {recent:,} in the last hour where {per} is usual"
        since = _growing_from(situation, recent)
    elif share < SHARE:
        return []
    types = Counter(job.job_type or "of unknown type" for job in dead).most_common(5)
    most, count = types[0]
    first_at = dead[0].finished_at
    return [
        Finding(
            code="dead-letters-growing",
            severity=Severity.TICKET,
            layer=Layer.RESULT,
            since=since,
            count=len(dead),
            radius=radius_of(dead, knows_tenants=situation.knows_tenants),
            job_ids=first_ids(job.id for job in dead),
            sentence=(
                f"{count_text(len(dead), 'job')} ended as dead letters since "
                f"{when_text(first_at, situation.now)} ({share:.1%} of what finished{lately}), "
                f"{count:,} of them {short(most)}; the oldest waits "
                f"{duration_text((situation.now - first_at) / MICROS)} for a decision."
            ),
            evidence={
                "by_type": dict(types),
                "share_of_finished": share,
                "in_the_last_hour": recent,
                "usual_per_hour": usual,
                "first_at": iso(first_at),
                "last_at": iso(dead[-1].finished_at),
            },
            next=(
                "Group them by type and error before anything is replayed: is the cause fixed?",
                "Close what must not run again; replay the rest in small batches.",
            ),
        )
    ]


def _recent(situation: Situation) -> tuple[int, float | None]:
    """Return the dead of the last hour, and how many are usual for an hour.

    Less than another hour before it is no past to compare with: then nothing is usual.
    """
    edge = situation.flow_until - int(RECENT_SECONDS * MICROS)
    recent = sum(job.finished_at >= edge for job in situation.dead)
    past = (edge - situation.window_from) / MICROS
    if past < RECENT_SECONDS:
        return recent, None
    return recent, (len(situation.dead) - recent) / past * RECENT_SECONDS


def _growing_from(situation: Situation, recent: int) -> int:
    """Return the first dead letter after the rate of them rose, or else of the last hour."""
    times = [job.finished_at for job in situation.dead]
    empty = series_over(situation.window_from, max(situation.flow_until, times[-1]))
    rose = rise(empty.of((empty.index(at), 1) for at in times).counts)
    begin = times[-recent] if rose is None else empty.time(rose.index)
    return next(at for at in times if at >= begin)
