"""How long a recovery takes, from rates that are given: a time, or an honest never.

Pure: no clock, no input or output. The figures are means of the closed forms in
`jobplaybook.measures`; percentiles stay None until the inputs are measured and resampled.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jobplaybook import measures
from jobplaybook.errors import InputError
from jobplaybook.units import duration_text

_UNITS = ((1, "s"), (60, "min"), (3_600, "h"))
DRAINED_MEANS = (
    "the queue is first found empty: no job waits, those in work still finish, and jobs that"
    " exhausted their attempts count as gone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A time in seconds: its mean, and percentiles where they are known."""

    mean: float
    p5: float | None = None
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInputs:
    """What is known of the queue, as it was given; see `estimate_drain` for each."""

    backlog: int
    arrival_rate: float
    completion_rate: float | None
    servers: int | None
    service_seconds: float | None
    failure_rate: float
    failed_service_seconds: float | None
    max_attempts: int
    quota_rate: float | None
    by_seconds: float | None
    limit: int | None

    def __post_init__(self) -> None:
        """Refuse a question that has two answers or none, and what would be ignored."""
        given = self.completion_rate is not None
        if given == (self.servers is not None):
            found = "both" if given else "neither"
            raise InputError(
                "expected either a completion rate, or workers with their service time,"
                f" found {found}"
            )
        if given and self.quota_rate is not None:
            raise InputError(
                "expected no quota beside a completion rate: a quota caps what workers could do,"
                " give the workers and their service time instead"
            )
        retries = self.failure_rate != 0 or self.max_attempts != 1
        if self.service_seconds is None and (
            self.servers is not None or retries or self.failed_service_seconds is not None
        ):
            raise InputError(
                "expected a service time beside workers, failures or attempts, found none;"
                " a completion rate alone counts retries already"
            )

    def capacity(self) -> float:
        """Jobs per second that leave the queue while it is saturated, given or derived."""
        if self.completion_rate is not None:
            return self.completion_rate
        return measures.completion_capacity(self.servers or 0, **self._work())

    def workers_for(self, completion_rate: float) -> float | None:
        """Fewest workers for a rate; None where the service time is unknown."""
        if self.service_seconds is None:
            return None
        return measures.needed_workers(completion_rate, **self._work())

    def _work(self) -> dict[str, Any]:
        return {
            "service_seconds": self.service_seconds,
            "failure_rate": self.failure_rate,
            "max_attempts": self.max_attempts,
            "failed_service_seconds": self.failed_service_seconds,
            "quota_rate": math.inf if self.quota_rate is None else self.quota_rate,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What would empty the queue by the time asked for, each alone; None where nothing would."""

    completion_rate: float | None = None
    workers: float | None = None
    arrival_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEstimate:
    """The time until a backlog is gone, what it rests on, and what would make it shorter."""

    never: bool
    seconds: Spread
    completion_rate: float
    net_rate: float
    headroom: float
    inputs: DrainInputs
    needed: Needed
    seconds_to_limit: float | None
    never_probability: float | None = None
    engine: Literal["closed-form", "event-loop", "buckets"] = "closed-form"
    drained_means: str = DRAINED_MEANS

    @property
    def text(self) -> str:
        """The answer in words: a duration, or never and why."""
        if not self.never:
            return duration_text(self.seconds.mean)
        never = "never" if self.inputs.backlog else "no backlog now; one that forms never drains"
        arrivals, completions = rate_text(self.inputs.arrival_rate), rate_text(self.completion_rate)
        return f"{never} at this rate: arrivals {arrivals} >= completions {completions}"

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``estimate drain --json``; infinite and unknown become None."""
        return {
            "never": self.never,
            "never_probability": self.never_probability,
            "seconds": _finite(asdict(self.seconds)),
            "text": self.text,
            "net_rate": self.net_rate,
            "headroom": _finite(self.headroom),
            "drained_means": self.drained_means,
            "engine": self.engine,
            "inputs": _finite({**asdict(self.inputs), "completion_rate": self.completion_rate}),
            "needed": _finite(asdict(self.needed)),
            "seconds_to_limit": _finite(self.seconds_to_limit),
        }


def estimate_drain(
    *,
    backlog: int,
    arrival_rate: float,
    completion_rate: float | None = None,
    servers: int | None = None,
    service_seconds: float | None = None,
    failure_rate: float = 0.0,
    failed_service_seconds: float | None = None,
    max_attempts: int = 1,
    quota_rate: float | None = None,
    by_seconds: float | None = None,
    limit: int | None = None,
) -> DrainEstimate:
    """Estimate when a backlog B is gone, in seconds, from constant rates; or never.

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
    failure_rate : float
        p, the share of attempts that fail, from 0 to 1.
    failed_service_seconds : float or None
        Mean duration of an attempt that fails, seconds; None means ``service_seconds``.
    max_attempts : int
        n, the attempts a job has, the first included.
    quota_rate : float or None
        q, calls per second that the upstream admits, one per attempt; None for no quota.
    by_seconds : float or None
        T, the time in which the backlog ought to be gone, seconds.
    limit : int or None
        The backlog at which something breaks, jobs.

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
    B/(μ - λ), with μ from `jobplaybook.measures.completion_capacity` where workers are given.
    Assumes constant rates and workers busy from the start. A completion rate that was observed
    without a backlog is the arrival rate, not the capacity: the answer is then "never", wrongly.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

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
        failure_rate=failure_rate,
        failed_service_seconds=failed_service_seconds,
        max_attempts=max_attempts,
        quota_rate=quota_rate,
        by_seconds=by_seconds,
        limit=limit,
    )
    try:
        return _estimated(inputs)
    except ValueError as problem:
        raise InputError(str(problem)) from None
    except OverflowError:
        raise InputError("expected numbers of this world, found one too large") from None


def rate_text(rate: float) -> str:
    """Return a rate for people, in the unit that gives it sensible digits.

    Examples
    --------
    >>> rate_text(20 / 60), rate_text(2.71), rate_text(33_000), rate_text(0)
    ('20/min', '2.71/s', '33,000/s', '0')
    """
    if rate == 0:
        return "0"
    per, unit = next(
        ((rate * size, unit) for size, unit in _UNITS if abs(rate) * size >= 0.9995),
        (rate * 86_400, "d"),
    )
    return f"{per:,.0f}/{unit}" if abs(per) >= 999.5 else f"{per:.3g}/{unit}"


def _estimated(inputs: DrainInputs) -> DrainEstimate:
    inputs.workers_for(0.0)  # what describes the work has to make sense even where unused
    capacity = inputs.capacity()
    flow = {"arrival_rate": inputs.arrival_rate, "completion_rate": capacity}
    net = measures.net_rate(**flow)
    mean = measures.drain_seconds(inputs.backlog, **flow)
    if net > 0 and mean == math.inf:
        raise InputError("expected rates further apart: the time is too long for a number")
    return DrainEstimate(
        never=net <= 0,
        seconds=Spread(mean=mean if net > 0 else math.inf),
        completion_rate=capacity,
        net_rate=net,
        headroom=measures.headroom(**flow),
        inputs=inputs,
        needed=_needed(inputs, capacity),
        seconds_to_limit=(
            None
            if inputs.limit is None
            else measures.seconds_to_limit(inputs.backlog, limit=inputs.limit, **flow)
        ),
    )


def _needed(inputs: DrainInputs, capacity: float) -> Needed:
    if inputs.by_seconds is None:
        return Needed()
    rate = measures.needed_completion_rate(
        inputs.backlog, arrival_rate=inputs.arrival_rate, by_seconds=inputs.by_seconds
    )
    arrivals = measures.needed_arrival_rate(
        inputs.backlog, completion_rate=capacity, by_seconds=inputs.by_seconds
    )
    return Needed(
        completion_rate=rate,
        workers=inputs.workers_for(rate),
        arrival_rate=arrivals if arrivals >= 0 else None,
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if value == math.inf else value
