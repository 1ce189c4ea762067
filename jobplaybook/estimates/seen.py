"""The drain of a backlog that was seen: its rates are resampled as far as a snapshot shows them."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from jobplaybook import measures
from jobplaybook.estimates.drain import DRAWS, DrainEstimate, Needed
from jobplaybook.estimates.inputs import SEED, DrainInputs, Spread
from jobplaybook.estimates.rates import RateSeen

FEWEST_LEFT = 30
"""With fewer jobs gone while the queue was busy its capacity is not known."""
_STEPS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogSeen:
    """One queue, one job type, or all of them, as a snapshot shows it.

    Parameters
    ----------
    name : str or None
        What it is called.
    waiting : int
        Jobs that wait and are due.
    parked : tuple of float
        Seconds until each job that is not yet due is, in ascending order: retries and scheduled
        ones.
    arrivals : RateSeen or None
        New jobs over the window; None where the system does not record them.
    left : RateSeen or None
        Jobs that completed or died since something has been waiting all the time; None where
        that is not recorded, or nothing waits.
    retried : int
        Attempts in that time that ended in a retry.
    retry_delay_seconds : float
        Mean time from such a failure to the retry's due time, seconds.
    why_not : str
        Why its capacity is unknown, where something else than these numbers says so.
    """

    name: str | None
    waiting: int
    parked: tuple[float, ...] = ()
    arrivals: RateSeen | None = None
    left: RateSeen | None = None
    retried: int = 0
    retry_delay_seconds: float = 0.0
    why_not: str = ""

    @property
    def unknown(self) -> str:
        """Why there is no estimate, in words; empty where there is one."""
        if self.why_not:
            return self.why_not
        if self.arrivals is None or self.left is None:
            return "the system does not record when jobs come and end"
        gone = sum(self.left.counts)
        if gone < FEWEST_LEFT:
            return (
                f"only {gone} jobs left while it was busy ({FEWEST_LEFT} say something of a rate)"
            )
        return ""


def estimate_seen(
    seen: BacklogSeen,
    *,
    by_seconds: float | None = None,
    limit: int | None = None,
    seed: int = SEED,
) -> DrainEstimate | None:
    """Estimate when a backlog that was seen is gone; None where its capacity is unknown.

    Parameters
    ----------
    seen : BacklogSeen
        What a snapshot shows.
    by_seconds : float, optional
        T, the time in which it ought to be gone, seconds.
    limit : int, optional
        The backlog at which something breaks, jobs.
    seed : int
        Seed of the draws.

    Notes
    -----
    Each draw takes λ and the leaving rate μ from `RateSeen.draws` and looks for the first t at
    which waiting + parked jobs due by t - (retries parked meanwhile and not yet back) = (μ - λ)t:
    the queue is then first found empty. Its spread is that of
    `jobplaybook.measures.drain_sd_seconds`. Assumes that workers and upstream stay as they are.

    Examples
    --------
    >>> steady = RateSeen(counts=(60,) * 60, bucket_seconds=30.0)
    >>> seen = BacklogSeen(name="mail", waiting=7_200, left=steady,
    ...                    arrivals=RateSeen(counts=(30,) * 60, bucket_seconds=30.0))
    >>> estimate_seen(seen).text
    '2 h 2 min'
    """
    if seen.unknown or seen.arrivals is None or seen.left is None:
        return None
    arrivals, left = seen.arrivals, seen.left
    backlog = seen.waiting + len(seen.parked)
    flow = {"arrival_rate": arrivals.recent, "completion_rate": left.recent}
    net = measures.net_rate(**flow)
    into, out, times = zip(*drain_draws(seen, seed=seed), strict=True)
    inputs = DrainInputs(
        backlog=backlog,
        arrival_rate=arrivals.recent,
        completion_rate=left.recent,
        observed_seconds=arrivals.seconds,
        completions_seen=sum(left.counts),
        by_seconds=by_seconds,
        limit=limit,
        seed=seed,
    )
    return DrainEstimate(
        never=net <= 0,
        never_probability=times.count(math.inf) / DRAWS,
        seconds=Spread.of(times),
        completion_rate=left.recent,
        net_rate=net,
        headroom=measures.headroom(**flow),
        inputs=inputs,
        needed=_needed(seen, by_seconds, into, out),
        seconds_to_limit=None
        if limit is None
        else measures.seconds_to_limit(backlog, limit=limit, **flow),
        by_probability=None
        if by_seconds is None
        else sum(time <= by_seconds for time in times) / DRAWS,
    )


def drain_draws(seen: BacklogSeen, *, seed: int = SEED) -> list[tuple[float, float, float]]:
    """Return `DRAWS` draws of (λ, μ, drain time), jobs per second and seconds; none if unknown.

    Parameters
    ----------
    seen : BacklogSeen
        What a snapshot shows.
    seed : int
        Seed of the draws: the same as of `estimate_seen`, which is made of them.
    """
    if seen.unknown or seen.arrivals is None or seen.left is None:
        return []
    arrivals, left = seen.arrivals, seen.left
    net = left.recent - arrivals.recent
    ahead = (seen.waiting + len(seen.parked)) / max(net, left.rate / 20.0)
    rng = random.Random(seed)
    # Two orders of the same look backs: a long look at arrivals may meet a short one at the rest.
    into = arrivals.draws(rng, ahead_seconds=ahead, count=DRAWS)
    out = left.draws(rng, ahead_seconds=ahead, count=DRAWS)
    rng.shuffle(out)
    return [(*pair, _drained(rng, seen, *pair)) for pair in zip(into, out, strict=True)]


def _drained(rng: random.Random, seen: BacklogSeen, into: float, out: float) -> float:
    net = out - into
    if net <= 0:
        return math.inf
    mean = first_empty(seen, net, out)
    sd = math.sqrt(mean * (into + out)) / net
    return measures.drain_draw(rng, mean=mean, sd=sd)


def first_empty(seen: BacklogSeen, net: float, out: float) -> float:
    """Return the first t with `jobs_due` at t = net*t, seconds; ``net`` and ``out`` per second."""
    time = seen.waiting / net
    for _ in range(_STEPS):
        following = max(jobs_due(seen, time, out), 0.0) / net
        if math.isclose(following, time, rel_tol=1e-3, abs_tol=1e-3):
            return following
        time = following
    return time


def jobs_due(seen: BacklogSeen, time: float, out: float) -> float:
    """Return the jobs waiting now, and due by ``time``, less the retries parked meanwhile."""
    gone = sum(seen.left.counts) if seen.left else 0
    per_second = out * seen.retried / gone if gone else 0.0
    meanwhile = per_second * min(seen.retry_delay_seconds, time)
    return seen.waiting + bisect_right(seen.parked, time) - meanwhile


def _needed(
    seen: BacklogSeen, by: float | None, into: Sequence[float], out: Sequence[float]
) -> Needed:
    if by is None or seen.arrivals is None or seen.left is None:
        return Needed()
    per_second = (seen.waiting + bisect_right(seen.parked, by)) / by
    likely = sorted(into)[int(len(into) * 0.95)]
    slowest = sorted(out)[int(len(out) * 0.05)]
    room, sure = seen.left.recent - per_second, slowest - per_second
    return Needed(
        completion_rate=seen.arrivals.recent + per_second,
        arrival_rate=room if room >= 0 else None,
        completion_rate_p95=likely + per_second,
        arrival_rate_p95=sure if sure >= 0 else None,
    )
