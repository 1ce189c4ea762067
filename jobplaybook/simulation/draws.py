"""Random numbers in blocks: one stream for each process, so that scenarios can be compared.

Two scenarios with the same seed meet the same arrivals, service times and failures (common random
numbers): what differs between them is the scenario, not the luck.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from jobplaybook.simulation.scenario import Arrivals, Retries, Scenario, Service

Next = Callable[[], float]
_FIRST_BLOCK, _BLOCK = 256, 8_192


@dataclass(frozen=True, slots=True)
class Draws:
    """The streams of one class: each call gives its next number."""

    arrivals: Iterator[float]
    service: Next
    failed_service: Next
    outcome: Next
    jitter: Next

    @property
    def loop(self) -> tuple[Iterator[float], Next, Next, Next]:
        """The streams that every attempt draws from, to be unpacked into locals."""
        return self.arrivals, self.service, self.failed_service, self.outcome


def draws_of(scenario: Scenario, seed: np.random.SeedSequence) -> tuple[list[Draws], Next]:
    """Return the streams of each class, and one of uniform numbers for crashes.

    Arrivals, service, failures, jitter and crashes are a child of ``seed`` each, and each class
    has a child of these: one more class or one more retry shifts no other stream.
    """
    processes = [child.spawn(len(scenario.classes)) for child in seed.spawn(5)]
    streams = []
    for index, kind in enumerate(scenario.classes):
        arrivals, service, failures, jitter, _ = (
            np.random.default_rng(process[index]) for process in processes
        )
        failed = kind.failures.service or kind.service
        seconds = np.random.default_rng(processes[1][index].spawn(1)[0])
        streams.append(
            Draws(
                arrivals=arrival_times(kind.arrivals, arrivals),
                service=service_times(kind.service, service),
                failed_service=service_times(failed, seconds),
                outcome=_stream(failures.random),
                jitter=_stream(jitter.random),
            )
        )
    return streams, _stream(np.random.default_rng(processes[4][0]).random)


def service_times(service: Service, rng: np.random.Generator) -> Next:
    """Return a stream of service times in seconds.

    Lognormal: s2 = ln(1 + cv^2), mu = ln(mean) - s2/2. Normal: |N(mean, cv * mean)|.
    """
    mean, cv = service.mean_seconds, service.cv
    spread = math.log1p(cv**2)
    centre = math.log(mean) - spread / 2 if mean else 0.0
    laws: dict[str, Callable[[int], np.ndarray]] = {
        "exponential": lambda size: rng.exponential(mean, size),
        "lognormal": lambda size: rng.lognormal(centre, math.sqrt(spread), size),
        "normal": lambda size: np.abs(rng.normal(mean, cv * mean, size)),
        "constant": lambda size: np.full(size, mean),
        "empirical": lambda size: rng.choice(np.array(service.values_seconds), size),
    }
    return _stream(laws[service.law])


def arrival_times(arrivals: Arrivals, rng: np.random.Generator) -> Iterator[float]:
    """Yield the times of new jobs in order, without end where the law has none."""
    sources: list[Iterator[float]] = []
    if arrivals.rate:
        sources.append(_poisson(arrivals.rate, rng))
    if arrivals.trace_seconds:
        sources.append(iter(sorted(arrivals.trace_seconds)))
    if arrivals.burst:
        sources.append(_bursts(arrivals))
    return sources[0] if len(sources) == 1 else heapq.merge(*sources)


def backoff_seconds(retries: Retries, failures: int, previous: float, uniform: float) -> float:
    """Return the wait before the next attempt, seconds.

    Parameters
    ----------
    retries : Retries
        Strategy, base and cap.
    failures : int
        How many attempts have failed, at least 1.
    previous : float
        The wait before, seconds; the base at first.
    uniform : float
        A random number in [0, 1).

    References
    ----------
    Brooker, Exponential Backoff and Jitter, AWS Architecture Blog (2015).

    Examples
    --------
    >>> backoff_seconds(Retries(backoff="equal", base_seconds=5.0), 2, 5.0, 0.5)
    15.0
    """
    base, cap = retries.base_seconds, retries.cap_seconds
    if retries.backoff == "none":
        return 0.0
    if retries.backoff == "decorrelated":
        return min(cap, base + uniform * (3 * previous - base))
    # 2**60 times any base is beyond every cap, and a float holds it
    ceiling = min(cap, base * 2.0 ** min(failures, 60))
    if retries.backoff == "exponential":
        return ceiling
    return ceiling * (uniform if retries.backoff == "full" else (1 + uniform) / 2)


def _stream(draw: Callable[[int], np.ndarray]) -> Next:
    return _blocks(draw).__next__


def _blocks(draw: Callable[[int], np.ndarray]) -> Iterator[float]:
    size = _FIRST_BLOCK
    while True:
        yield from draw(size).tolist()
        size = min(size * 2, _BLOCK)


def _poisson(rate: float, rng: np.random.Generator) -> Iterator[float]:
    at, size = 0.0, _FIRST_BLOCK
    while True:
        times = (at + rng.exponential(1 / rate, size).cumsum()).tolist()
        yield from times
        at, size = times[-1], min(size * 2, _BLOCK)


def _bursts(arrivals: Arrivals) -> Iterator[float]:
    for beat in count():
        at = arrivals.first_seconds + beat * arrivals.every_seconds
        for _ in range(arrivals.burst):
            yield at
