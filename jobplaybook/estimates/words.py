"""A drain estimate in words: the answer first, then what it rests on and what would change it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobplaybook import measures
from jobplaybook.estimates.inputs import rate_text
from jobplaybook.units import count_text, duration_text

if TYPE_CHECKING:
    from jobplaybook.estimates.drain import DrainEstimate


def drain_lines(estimate: DrainEstimate) -> list[str]:
    """Return the lines for people; the first is the answer."""
    details = (_range, _flow, _dead_letters, _quota, _deadline, _limit, _caution, _meaning)
    return [_answer(estimate), *(line for say in details for line in say(estimate))]


def _answer(estimate: DrainEstimate) -> str:
    if estimate.never or estimate.seconds.p50 == math.inf:
        return estimate.text
    if estimate.inputs.backlog == 0:
        return "no backlog"
    chance = estimate.never_probability
    never = f", or never (probability {chance:.0%})" if chance >= 0.05 else ""
    jobs = count_text(estimate.inputs.backlog, "job")
    return f"{estimate.text} until the backlog of {jobs} is gone{never}"


def _range(estimate: DrainEstimate) -> Iterator[str]:
    if estimate.inputs.backlog == 0 or not estimate.range_text:
        return
    why = (
        "for rates that stay exactly so; --observed and --completions-seen widen it to what is "
        "known of them"
        if estimate.inputs.is_known
        else "as far as the rates are known"
    )
    yield f"Nine times in ten: {estimate.range_text} ({why})."


def _flow(estimate: DrainEstimate) -> Iterator[str]:
    inputs = estimate.inputs
    into, out = rate_text(inputs.arrival_rate), rate_text(estimate.completion_rate)
    by = f" by {count_text(inputs.servers, 'worker')}" if inputs.servers else ""
    trend = "the backlog stays as it is"
    if estimate.net_rate > 0:
        trend = f"the backlog shrinks by {rate_text(estimate.net_rate)}"
    elif estimate.net_rate < 0:
        trend = f"the backlog grows by {rate_text(-estimate.net_rate)}"
    yield f"In {into}, out {out}{by}: {trend}{_headroom(estimate)}."


def _headroom(estimate: DrainEstimate) -> str:
    if not 0 < estimate.headroom < math.inf:
        return ""
    again = duration_text(3_600 / estimate.headroom)
    return f" (headroom {estimate.headroom:.0%}: an hour's outage takes {again} to make up)"


def _dead_letters(estimate: DrainEstimate) -> Iterator[str]:
    inputs = estimate.inputs
    share = measures.exhausted_share(inputs.failed_share, max_attempts=inputs.max_attempts)
    if share == 0:
        return
    dead = round(inputs.backlog * share)
    about = f", about {count_text(dead)} of the backlog" if dead else ""
    times = count_text(inputs.max_attempts, "time")
    yield f"{share * 100:.3g} % of the jobs fail {times} and end as dead letters{about}."


def _quota(estimate: DrainEstimate) -> Iterator[str]:
    inputs = estimate.inputs
    if inputs.quota_rate is not None and inputs.service_seconds is not None:
        safe = measures.quota_concurrency(inputs.quota_rate, service_seconds=inputs.service_seconds)
        yield f"The quota keeps {safe:,.3g} workers busy; more of them are only refused."


def _deadline(estimate: DrainEstimate) -> Iterator[str]:
    by, needed = estimate.inputs.by_seconds, estimate.needed
    if by is None or needed.completion_rate is None:
        return
    chance = estimate.by_probability or 0.0
    verdict = "in time" if chance >= 0.5 else "not in time"
    likely = f" (probability {chance:.0%})" if 0.005 < chance < 0.995 else ""
    ways = [f"completions of {rate_text(needed.completion_rate)}"]
    if needed.workers == math.inf:
        ways = ["a higher quota: no number of workers is enough"]
    elif needed.workers is not None:
        ways[0] += f" ({count_text(int(needed.workers), 'worker')})"
    if needed.arrival_rate is not None:
        ways.append(f"arrivals of at most {rate_text(needed.arrival_rate)}")
    yield f"In {duration_text(by)}: {verdict}{likely}; it takes {', or '.join(ways)}."
    if needed.completion_rate_p95 is not None and not estimate.inputs.is_known:
        sure = needed.workers_p95
        workers = "" if sure is None or sure == math.inf else f", {count_text(int(sure), 'worker')}"
        yield (
            f"To be in time nineteen times in twenty: completions of "
            f"{rate_text(needed.completion_rate_p95)}{workers}."
        )


def _limit(estimate: DrainEstimate) -> Iterator[str]:
    limit, seconds = estimate.inputs.limit, estimate.seconds_to_limit
    if limit is None or seconds is None:
        return
    jobs = count_text(limit, "job")
    if seconds == 0:
        yield f"The limit of {jobs} is reached already."
    elif seconds == math.inf:
        yield f"The limit of {jobs} is not reached at these rates."
    else:
        yield f"The limit of {jobs} is reached in {duration_text(seconds)}."


def _caution(estimate: DrainEstimate) -> Iterator[str]:
    if estimate.net_rate == 0 and estimate.inputs.completion_rate is not None:
        yield (
            "A queue without a backlog completes what arrives: if the completions were counted"
            " then, its capacity is unknown and so is the answer."
        )
    elif estimate.never and estimate.inputs.by_seconds is None:
        yield "Next: raise the completions or hold arrivals back; --by 4h says by how much."


def _meaning(estimate: DrainEstimate) -> Iterator[str]:
    if estimate.inputs.backlog and not estimate.never:
        yield f"Gone means: {estimate.drained_means}."
