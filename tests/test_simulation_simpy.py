"""The backlog of 10,000 as a model in SimPy, which shares no code with the engines here."""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterator
from statistics import median
from typing import Any

import pytest

from jobplaybook.estimates import estimate_drain
from jobplaybook.simulation import simulate
from tests.simulated import GOLDEN_P5, GOLDEN_P50, GOLDEN_P95, backlog_case

simpy = pytest.importorskip("simpy", reason="simpy is not installed: the `test` extra has it")

RUNS = 25
SD = (GOLDEN_P95 - GOLDEN_P5) / (2 * 1.645)
"""Of one drain, by the closed form: 167 s, 2 % of its median."""
ERROR = 1.2533 * SD / math.sqrt(RUNS) / GOLDEN_P50
"""Standard error of the median of so many runs, as a share of it: 0.5 %."""


class Backlog:
    """Jobs waiting in line for workers; a job that failed goes to the end of it at once."""

    def __init__(self, rng: random.Random, *, waiting: int, arrival: float, workers: int) -> None:
        self.rng, self.environment = rng, simpy.Environment()
        self.line = simpy.Store(self.environment)
        self.line.items.extend([1] * waiting)
        self.empty = self.environment.event()
        self.attempts = 0
        self.environment.process(self.arrive(arrival))
        for _ in range(workers):
            self.environment.process(self.work(mean=5.0, failing=0.2, most=3))

    def arrive(self, rate: float) -> Iterator[Any]:
        while True:
            yield self.environment.timeout(self.rng.expovariate(rate))
            yield self.line.put(1)

    def work(self, *, mean: float, failing: float, most: int) -> Generator[Any, Any, None]:
        while True:
            attempt: int = yield self.line.get()
            self.attempts += 1
            if not self.line.items and not self.empty.triggered:
                self.empty.succeed(self.environment.now)
            yield self.environment.timeout(self.rng.expovariate(1 / mean))
            if self.rng.random() < failing and attempt < most:
                yield self.line.put(attempt + 1)


def drained(seed: int) -> tuple[float, int]:
    """Return when the line was first empty, in seconds, and how many attempts that took."""
    model = Backlog(random.Random(seed), waiting=10_000, arrival=2.0, workers=20)
    return float(model.environment.run(until=model.empty)), model.attempts


def test_an_independent_model_agrees() -> None:
    """Loop, buckets, closed form and SimPy have one median of the drain, within 1 %.

    SimPy's 25 runs have a median with a standard error of 0.5 %, the loop's 100 one of 0.26 %:
    between these two 1 % would be 1.8 standard errors, so each is held to 1 % of the closed form
    (2 and 3.9 of its own standard errors) and they to 3 standard errors of each other. The seeds
    are fixed: the test does not fail by chance.
    """
    runs = [drained(seed) for seed in range(RUNS)]
    by_simpy = median(time for time, _ in runs)
    loop = simulate(backlog_case(), replications=4 * RUNS, seed=11, engine="event-loop")
    counts = simulate(backlog_case(), replications=2_000, seed=11, engine="buckets")
    closed = estimate_drain(
        backlog=10_000,
        arrival_rate=2.0,
        servers=20,
        service_seconds=5.0,
        failure_rate=0.2,
        max_attempts=3,
    )
    assert closed.seconds.p50 == pytest.approx(GOLDEN_P50, rel=1e-3)
    for found in (by_simpy, loop.seconds.p50, counts.seconds.p50):
        assert found == pytest.approx(closed.seconds.p50, rel=0.01)
    assert by_simpy == pytest.approx(loop.seconds.p50, rel=3 * math.hypot(ERROR, ERROR / 2))
    # 4 calls a second for as long as it takes: 20 workers of 5 s
    calls = [attempts / time for time, attempts in runs]
    assert math.fsum(calls) / RUNS == pytest.approx(4.0, rel=0.005)
