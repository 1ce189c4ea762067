"""How long a recovery takes: a time with its range, or an honest never.

Pure: no clock, no input or output, standard library only. Where the inputs are known only from
what was seen, they are resampled: that is the larger part of the uncertainty by far.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jobplaybook import measures
from jobplaybook.errors import InputError
from jobplaybook.estimates.inputs import SEED, DrainInputs, Spread, rate_text
from jobplaybook.units import duration_text

DRAWS = 2_000
"""Draws of the inputs: the percentiles then lie within about 1 % of where many more put them."""
DRAIN_KEYS = (
    *("never", "never_probability", "seconds", "text", "net_rate", "headroom", "drained_means"),
    *("engine", "inputs", "needed", "by_probability", "seconds_to_limit"),
)
DRAINED_MEANS = (
    "the queue is first found empty: no job waits, those in work still finish, and jobs that"
    " exhausted their attempts count as gone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What would empty the queue by the time asked for, each alone; None where nothing would.

    The plain ones do so on average, so late about every second time; those ending in ``_p95``
    nineteen times in twenty, as far as the inputs are known.
    """

    completion_rate: float | None = None
    workers: float | None = None
    arrival_rate: float | None = None
    completion_rate_p95: float | None = None
    workers_p95: float | None = None
    arrival_rate_p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEstimate:
    """The time until a backlog is gone, what it rests on, and what would make it shorter."""

    never: bool
    never_probability: float
    seconds: Spread
    completion_rate: float
    net_rate: float
    headroom: float
    inputs: DrainInputs
    needed: Needed
    seconds_to_limit: float | None
    by_probability: float | None = None
    engine: Literal["closed-form", "event-loop", "buckets"] = "closed-form"
    drained_means: str = DRAINED_MEANS

    @property
    def text(self) -> str:
        """The answer in words: a duration, or never and why."""
        if self.never:
            none = "no backlog now; one that forms never drains"
            arrivals, out = rate_text(self.inputs.arrival_rate), rate_text(self.completion_rate)
            never = "never" if self.inputs.backlog else none
            return f"{never} at this rate: arrivals {arrivals} >= completions {out}"
        known = self.seconds.mean if self.inputs.is_known else self.seconds.p50
        if known is None or known == math.inf:
            return "more likely never than ever"
        return duration_text(known)

    @property
    def range_text(self) -> str:
        """The 90 % range in words; empty where there is none.

        Examples
        --------
        >>> estimate_drain(backlog=3_600, arrival_rate=0.0, completion_rate=1.0).range_text
        '58 min 22 s to 1 h 2 min'
        """
        low, high = self.seconds.p5, self.seconds.p95
        if low is None or high is None or low == math.inf:
            return ""
        open_end = "never" if high == math.inf else duration_text(high)
        return f"{duration_text(low)} to {open_end}"

    @property
    def outlook(self) -> str:
        """The answer with its range on one line.

        Examples
        --------
        >>> estimate_drain(backlog=3_600, arrival_rate=0.0, completion_rate=1.0).outlook
        'about 1 h; nine times in ten 58 min 22 s to 1 h 2 min'
        """
        if self.never or self.seconds.p50 == math.inf or not self.range_text:
            return self.text
        chance = self.never_probability
        never = f", or never (probability {chance:.0%})" if chance >= 0.05 else ""
        return f"about {self.text}; nine times in ten {self.range_text}{never}"

    def __str__(self) -> str:
        """Return the answer for people, in lines; the first is the time."""
        from jobplaybook.estimates.words import drain_lines

        first, *details = drain_lines(self)
        return "\n".join([first, *(f"      {line}" for line in details)])

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``estimate drain --json``; infinite and unknown become None."""
        given = asdict(self.inputs) | {"completion_rate": self.completion_rate}
        told = {"inputs": given, "needed": asdict(self.needed), "seconds": asdict(self.seconds)}
        return {
            key: _finite(told[key] if key in told else getattr(self, key)) for key in DRAIN_KEYS
        }


def estimate_drain(
    *,
    backlog: int,
    arrival_rate: float,
    completion_rate: float | None = None,
    servers: int | None = None,
    service_seconds: float | None = None,
    service_cv: float = 1.0,
    failure_rate: float | None = None,
    failed_service_seconds: float | None = None,
    max_attempts: int = 1,
    quota_rate: float | None = None,
    observed_seconds: float | None = None,
    completions_seen: int | None = None,
    failures_seen: tuple[int, int] | None = None,
    by_seconds: float | None = None,
    limit: int | None = None,
    seed: int = SEED,
) -> DrainEstimate:
    """Estimate when a backlog B is gone, in seconds, with its range; or never.

    Parameters
    ----------
    backlog : int
        B, jobs waiting now.
    arrival_rate : float
        λ, new jobs per second; retries are no arrivals.
    completion_rate : float or None
        μ, jobs per second that leave the queue while it is saturated. Either this, or ``servers``
        with ``service_seconds``.
    servers : int or None
        c, concurrent workers.
    service_seconds : float or None
        m, mean duration of an attempt, seconds; beside ``completion_rate`` it tells how many
        workers a deadline needs.
    service_cv : float
        Coefficient of variation of an attempt's duration: 1 exponential, 0 constant.
    failure_rate : float or None
        p, the share of attempts that fail, from 0 to 1; None: as seen, or none fails.
    failed_service_seconds : float or None
        Mean duration of an attempt that fails, seconds; None means ``service_seconds``.
    max_attempts : int
        n, the attempts a job has, the first included.
    quota_rate : float or None
        q, calls per second that the upstream admits, one per attempt; None for no quota.
    observed_seconds : float or None
        How long the arrivals were watched for their rate, seconds; None: the rate is exact.
    completions_seen : int or None
        How many completions the completion rate or the service time is from.
    failures_seen : tuple of (int, int) or None
        K of N attempts seen to fail.
    by_seconds : float or None
        T, the time in which the backlog ought to be gone, seconds.
    limit : int or None
        The backlog at which something breaks, jobs.
    seed : int
        Seed of the draws.

    Returns
    -------
    DrainEstimate
        ``never`` exactly when the net rate is <= 0; its mean time is then ``math.inf``, for an
        empty backlog too, because one that forms would stay.

    Raises
    ------
    InputError
        If neither or both of the ways to a completion rate are given, if an argument would be
        ignored, or if a number is out of range.

    Notes
    -----
    For known inputs an inverse Gaussian with mean B/(μ - λ) and the spread of
    `jobplaybook.measures.drain_sd_seconds`; (B - c)/(μ - λ) where c workers are given, who take
    the first at once. What was only seen is drawn `DRAWS` times: arrivals and completions from
    gamma laws of their counts, the failure share from a beta law. Assumes rates that stay; a
    completion rate observed without a backlog is the arrival rate and no capacity.

    References
    ----------
    Cox and Miller, The Theory of Stochastic Processes (1965), sec. 5.7; Gelman et al., Bayesian
    Data Analysis (3rd ed., 2013), ch. 2, for the laws of what was seen.

    Examples
    --------
    >>> estimate_drain(backlog=10_000, arrival_rate=0.0, completion_rate=20 / 60).text
    '8 h 20 min'
    >>> estimate_drain(backlog=9, arrival_rate=1.0, servers=5, service_seconds=5.0).text
    'never at this rate: arrivals 1/s >= completions 1/s'
    """
    inputs = DrainInputs(
        backlog=backlog,
        arrival_rate=arrival_rate,
        completion_rate=completion_rate,
        servers=servers,
        service_seconds=service_seconds,
        service_cv=service_cv,
        failure_rate=failure_rate,
        failed_service_seconds=failed_service_seconds,
        max_attempts=max_attempts,
        quota_rate=quota_rate,
        observed_seconds=observed_seconds,
        completions_seen=completions_seen,
        failures_seen=failures_seen,
        by_seconds=by_seconds,
        limit=limit,
        seed=seed,
    )
    try:
        return _estimated(inputs)
    except ValueError as problem:
        raise InputError(str(problem)) from None
    except OverflowError:
        raise InputError("expected numbers of this world, found one too large") from None


@dataclass(frozen=True, slots=True)
class _Rates:
    """One draw of what the drain runs on: λ and μ, jobs per second."""

    arrival: float
    completion: float


def _estimated(inputs: DrainInputs) -> DrainEstimate:
    inputs.workers_for(0.0)  # what describes the work has to make sense even where unused
    capacity = inputs.capacity()
    flow = {"arrival_rate": inputs.arrival_rate, "completion_rate": capacity}
    net = measures.net_rate(**flow)
    if net > 0 and measures.drain_seconds(inputs.backlog, **flow) == math.inf:
        raise InputError("expected rates further apart: the time is too long for a number")
    rates = [_Rates(inputs.arrival_rate, capacity)] if inputs.is_known else _draws(inputs)
    seconds, never, by_probability = _times(inputs, net, rates)
    return DrainEstimate(
        never=net <= 0,
        never_probability=never,
        seconds=seconds,
        completion_rate=capacity,
        net_rate=net,
        headroom=measures.headroom(**flow),
        inputs=inputs,
        needed=_needed(inputs, capacity, rates),
        seconds_to_limit=(
            None
            if inputs.limit is None
            else measures.seconds_to_limit(inputs.backlog, limit=inputs.limit, **flow)
        ),
        by_probability=by_probability,
    )


def _times(
    inputs: DrainInputs, net: float, rates: Sequence[_Rates]
) -> tuple[Spread, float, float | None]:
    """Return the drain time's spread, the share of never, and that of done in time."""
    if inputs.is_known:
        return _known(inputs, net, rates[0])
    rng = random.Random(inputs.seed + 1)
    waiting, cv2 = inputs.waits_behind(), inputs.job_cv2()
    draws = [_drained(rng, waiting, rate, cv2) for rate in rates]
    never = draws.count(math.inf) / len(draws)
    by = inputs.by_seconds
    in_time = None if by is None else sum(time <= by for time in draws) / len(draws)
    return Spread.of(draws), never, in_time


def _drained(rng: random.Random, waiting: float, rates: _Rates, cv2: float) -> float:
    net = rates.completion - rates.arrival
    if net <= 0:
        return math.inf
    variance = waiting * (rates.arrival + rates.completion * cv2) / net**3
    return measures.drain_draw(rng, mean=waiting / net, sd=math.sqrt(variance))


def _known(inputs: DrainInputs, net: float, rates: _Rates) -> tuple[Spread, float, float | None]:
    by = inputs.by_seconds
    if net <= 0:
        spread = Spread(mean=math.inf, p5=math.inf, p50=math.inf, p95=math.inf)
        return spread, 1.0, None if by is None else 0.0
    waiting = inputs.waits_behind()
    mean = waiting / net
    sd = measures.drain_sd_seconds(
        waiting,
        arrival_rate=rates.arrival,
        completion_rate=rates.completion,
        job_cv2=inputs.job_cv2(),
    )
    p5, p50, p95 = (measures.drain_quantile(q, mean=mean, sd=sd) for q in (0.05, 0.5, 0.95))
    in_time = None if by is None else measures.drain_cdf(by, mean=mean, sd=sd)
    return Spread(mean=mean, p5=p5, p50=p50, p95=p95), 0.0, in_time


def _draws(inputs: DrainInputs) -> list[_Rates]:
    """Return draws of λ and μ, as far as what was seen lets them vary."""
    rng = random.Random(inputs.seed)
    return [_Rates(_drawn_arrival(inputs, rng), _drawn_capacity(inputs, rng)) for _ in range(DRAWS)]


def _drawn_arrival(inputs: DrainInputs, rng: random.Random) -> float:
    if inputs.observed_seconds is None or inputs.arrival_rate == 0:
        return inputs.arrival_rate
    seen = inputs.arrival_rate * inputs.observed_seconds
    return rng.gammavariate(seen, inputs.arrival_rate / seen)


def _drawn_capacity(inputs: DrainInputs, rng: random.Random) -> float:
    seen = inputs.completions_seen
    if inputs.completion_rate is not None:
        if seen is None and inputs.observed_seconds is not None:
            seen = round(inputs.completion_rate * inputs.observed_seconds)
        return inputs.completion_rate * (rng.gammavariate(seen, 1 / seen) if seen else 1.0)
    work = inputs.work()
    p, scale = _drawn_failures(inputs, rng), 1.0
    if seen and inputs.service_cv > 0:
        shape = seen / inputs.service_cv**2
        scale = rng.gammavariate(shape, 1.0 / shape)
    # The closed form of completion_capacity, written out: it runs for every draw.
    n, service = inputs.max_attempts, inputs.service_seconds or 0.0
    failed = service if inputs.failed_service_seconds is None else inputs.failed_service_seconds
    a = float(n) if p >= 1.0 else (1.0 - p**n) / (1.0 - p)
    held = a * ((1.0 - p) * service + p * failed) * scale
    return float(min((inputs.servers or 0) / held, work["quota_rate"] / a))


def _drawn_failures(inputs: DrainInputs, rng: random.Random) -> float:
    if inputs.failures_seen is None:
        return inputs.failed_share
    failed, ended = inputs.failures_seen
    return rng.betavariate(failed + 0.5, ended - failed + 0.5)


def _needed(inputs: DrainInputs, capacity: float, rates: Sequence[_Rates]) -> Needed:
    by = inputs.by_seconds
    if by is None:
        return Needed()
    measures.needed_completion_rate(1, arrival_rate=0.0, by_seconds=by)  # refuses what is no time
    per_second = inputs.waits_behind() / by
    rate = inputs.arrival_rate + inputs.backlog / by
    likely = sorted(draw.arrival for draw in rates)[int(len(rates) * 0.95)] + per_second
    slowest = sorted(draw.completion for draw in rates)[int(len(rates) * 0.05)]
    workers, workers_p95 = inputs.workers_for(rate), None
    if workers is not None:
        pace = sorted((draw.arrival + per_second) / max(draw.completion, 1e-300) for draw in rates)[
            int(len(rates) * 0.95)
        ]
        workers_p95 = (
            math.inf
            if workers == math.inf or inputs.servers is None
            else math.ceil(inputs.servers * pace * (1 - 1e-12))
        )
    return Needed(
        completion_rate=rate,
        workers=workers,
        arrival_rate=_at_least_none(capacity - inputs.backlog / by),
        completion_rate_p95=likely,
        workers_p95=workers_p95,
        arrival_rate_p95=_at_least_none(slowest - per_second),
    )


def _at_least_none(rate: float) -> float | None:
    return rate if rate >= 0 else None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if value == math.inf else value
