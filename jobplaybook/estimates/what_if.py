"""What a change would make of a drain: rates scaled, and the fan of the backlog over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jobplaybook.errors import InputError
from jobplaybook.estimates.inputs import SEED
from jobplaybook.estimates.seen import BacklogSeen, drain_draws, first_empty, jobs_due

FAN_STEPS = 60
_SHARES = (0.05, 0.5, 0.95)
_MOST_TIMES = 4.0
"""Where even the median never drains, the fan goes so many times as far as a drain unhindered."""

_FARTHEST = 5.0
"""A deadline so many times later than the end would leave the fan too narrow to be seen."""


def changed(
    seen: BacklogSeen,
    *,
    arrivals: float = 1.0,
    completions: float = 1.0,
    completions_at_most: float | None = None,
) -> BacklogSeen:
    """Return a backlog whose rates are so many times what was seen.

    Parameters
    ----------
    seen : BacklogSeen
        What a snapshot shows.
    arrivals, completions : float
        Factors of the two rates, above 0.
    completions_at_most : float, optional
        A limit to the jobs that leave per second, such as a quota's.

    Notes
    -----
    A rate is known no better for being scaled: its relative spread stays. Twice the workers are
    twice the completions only where nothing else is short, such as the database or a quota.

    Raises
    ------
    InputError
        If a factor or the limit is not above 0.

    Examples
    --------
    >>> from jobplaybook.estimates.rates import RateSeen
    >>> rate = RateSeen(counts=(60,) * 60, bucket_seconds=30.0)
    >>> seen = BacklogSeen(name="mail", waiting=7_200, left=rate, arrivals=rate)
    >>> more = changed(seen, arrivals=0.5, completions=2.0, completions_at_most=3.0)
    >>> more.arrivals.rate, more.left.rate
    (1.0, 3.0)
    """
    limit = math.inf if completions_at_most is None else completions_at_most
    if not (0 < arrivals < math.inf and 0 < completions < math.inf and limit > 0):
        raise InputError(
            "expected factors and a limit above 0, found "
            f"{arrivals:g} times the arrivals, {completions:g} times the completions, {limit:g}/s"
        )
    into, out = seen.arrivals, seen.left
    if out is not None:
        times = min(completions, limit / out.recent) if out.recent > 0 else completions
        out = replace(out, factor=out.factor * times)
    if into is not None:
        into = replace(into, factor=into.factor * arrivals)
    return replace(seen, arrivals=into, left=out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """The waiting jobs over time: at each of ``seconds`` ahead, three percentiles of the draws.

    ``unhindered`` is the median without arrivals: nothing but the capacity.
    """

    seconds: tuple[float, ...]
    p5: tuple[float, ...]
    p50: tuple[float, ...]
    p95: tuple[float, ...]
    unhindered: tuple[float, ...]
    never_probability: float


def backlog_fan(
    seen: BacklogSeen, *, by_seconds: float | None = None, seed: int = SEED
) -> Fan | None:
    """Return how the waiting jobs become fewer, or more; None where the capacity is unknown.

    Parameters
    ----------
    seen : BacklogSeen
        What a snapshot shows.
    by_seconds : float, optional
        A time that the fan reaches, seconds, unless it is over long before.
    seed : int
        Seed of the draws.

    Notes
    -----
    Each draw of `jobplaybook.estimates.seen.drain_draws` runs along waiting + due - parked
    meanwhile - (μ - λ)t, stretched so that it is empty when the draw is drained: percentiles of
    the jobs and of the time are those of the same draws. The shape between is that of the mean.

    Examples
    --------
    >>> from jobplaybook.estimates.rates import RateSeen
    >>> steady = RateSeen(counts=(60,) * 60, bucket_seconds=30.0)
    >>> seen = BacklogSeen(name="mail", waiting=7_200, left=steady,
    ...                    arrivals=RateSeen(counts=(30,) * 60, bucket_seconds=30.0))
    >>> fan = backlog_fan(seen)
    >>> fan.p50[0], fan.p95[-1], fan.never_probability
    (7200.0, 0.0, 0.0)
    """
    draws = drain_draws(seen, seed=seed)
    if not draws:
        return None
    seconds = _steps(seen, draws, by_seconds)
    rows: list[list[float]] = []
    paths = [_path(seen, *draw) for draw in draws]
    for time in seconds:
        jobs = sorted(_jobs_at(seen, time, path) for path in paths)
        rows.append([jobs[int(len(jobs) * share)] for share in _SHARES])
    p5, p50, p95 = (tuple(row[place] for row in rows) for place in range(3))
    out = sorted(out for _, out, _ in draws)[len(draws) // 2]
    return Fan(
        seconds=seconds,
        p5=p5,
        p50=p50,
        p95=p95,
        unhindered=tuple(max(jobs_due(seen, time, out) - out * time, 0.0) for time in seconds),
        never_probability=sum(time == math.inf for *_, time in draws) / len(draws),
    )


@dataclass(frozen=True, slots=True)
class _Path:
    """One draw: jobs fewer per second, jobs out per second, when it is empty, time stretched."""

    net: float
    out: float
    drained: float
    stretch: float


def _path(seen: BacklogSeen, into: float, out: float, drained: float) -> _Path:
    net = out - into
    stretch = first_empty(seen, net, out) / drained if net > 0 and drained > 0 else 1.0
    return _Path(net, out, drained, stretch)


def _jobs_at(seen: BacklogSeen, time: float, path: _Path) -> float:
    """Return the waiting jobs of one draw at a time; none once it was drained."""
    if time >= path.drained:
        return 0.0
    at = time * path.stretch
    return max(jobs_due(seen, at, path.out) - path.net * at, 0.0)


def _steps(
    seen: BacklogSeen, draws: Sequence[tuple[float, float, float]], by: float | None
) -> tuple[float, ...]:
    """Return the moments of the fan: up to where nineteen in twenty are drained, if they are."""
    times = sorted(time for *_, time in draws)
    p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
    out = sorted(out for _, out, _ in draws)[len(draws) // 2]
    alone = (seen.waiting + len(seen.parked)) / out if out > 0 else 3_600.0
    end = next((time for time in (1.05 * p95, 2.0 * p50) if time < math.inf), _MOST_TIMES * alone)
    if by is not None and by <= _FARTHEST * end:
        end = max(end, 1.15 * by)
    end = max(end, 1.0)
    return tuple(end * step / FAN_STEPS for step in range(FAN_STEPS + 1))
