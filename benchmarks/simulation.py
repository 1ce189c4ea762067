"""The simulation beside SimPy and Ciw, its engines beside each other and the closed form.

Ratios within one run, in seconds of CPU, so that a busy machine distorts them little.

::

    python -m benchmarks.simulation            # everything, about fifteen minutes on one core
    python -m benchmarks.simulation --quick    # a tenth of the runs, to see that it works
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jobplaybook.simulation.buckets import run_buckets
from jobplaybook.simulation.event_loop import run_events
from jobplaybook.simulation.scenario import (
    Arrivals,
    Failures,
    JobClass,
    Retries,
    Scenario,
    Service,
)

SERVERS, SERVICE, RATE = 20, 1.0, 18.0
BACKLOG = Scenario(
    classes=(
        JobClass(
            backlog=10_000,
            arrivals=Arrivals(rate=2.0),
            service=Service(mean_seconds=5.0),
            failures=Failures(retryable=0.2),
            retries=Retries(max_attempts=3),
        ),
    ),
    workers=20,
    horizon_seconds=200_000.0,
)
GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "golden" / "aws_backoff.csv"
STRATEGIES = {
    "Exponential": "exponential",
    "Decorr": "decorrelated",
    "EqualJitter": "equal",
    "FullJitter": "full",
    "None": "none",
}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    answer = work()
    return time.process_time() - begun, answer


def seed(replication: int, of: int = 1) -> np.random.SeedSequence:
    return np.random.SeedSequence(of, spawn_key=(replication,))


# The plain model: Poisson arrivals, twenty servers at rho 0.9, no retries


def ours(jobs: int) -> tuple[int, float]:
    plain = Scenario(
        classes=(JobClass(arrivals=Arrivals(rate=RATE), service=Service(mean_seconds=SERVICE)),),
        workers=SERVERS,
        horizon_seconds=jobs / RATE,
        run_to="horizon",
    )
    run = run_events(plain, seed(0))
    return run.jobs, run.wait_seconds


def simpys(jobs: int) -> tuple[int, float]:
    import simpy

    world, waits, dice = simpy.Environment(), [], random.Random(1)
    servers = simpy.Resource(world, SERVERS)

    def job() -> Any:
        came = world.now
        with servers.request() as turn:
            yield turn
            waits.append(world.now - came)
            yield world.timeout(dice.expovariate(1 / SERVICE))

    def source() -> Any:
        while True:
            yield world.timeout(dice.expovariate(RATE))
            world.process(job())

    world.process(source())
    world.run(jobs / RATE)
    return len(waits), sum(waits) / len(waits)


def ciws(jobs: int) -> tuple[int, float]:
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(RATE)],
        service_distributions=[ciw.dists.Exponential(1 / SERVICE)],
        number_of_servers=[SERVERS],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(jobs / RATE)
    waits = [record.waiting_time for record in simulation.get_all_records()]
    return len(waits), sum(waits) / len(waits)


def plain_model(jobs: int) -> None:
    print(f"The plain model, M/M/{SERVERS} at rho 0.9 (an event is an arrival or an end):")
    speeds = {}
    for name, engine in (("event-loop", ours), ("SimPy", simpys), ("Ciw", ciws)):
        seconds, (done, wait) = timed(partial(engine, jobs))
        speeds[name] = done / seconds
        print(f"  {name:<11}{2 * done / seconds / 1e6:7.2f} M events/s   Wq {wait:.3f} (0.275)")
    for name in ("SimPy", "Ciw"):
        print(f"  event loop / {name}: {speeds['event loop'] / speeds[name]:.1f}")


# The backlog of 10,000


def closed_form(scenario: Scenario) -> tuple[float, float]:
    """Return mean and shape of the inverse Gaussian law of the drain, seconds."""
    (kind,) = scenario.classes
    p, n, rate = kind.failures.retryable, kind.retries.max_attempts, kind.arrivals.rate
    attempts = (1 - p**n) / (1 - p)
    squares = sum((2 * k - 1) * p ** (k - 1) for k in range(1, n + 1))
    capacity = scenario.workers / kind.service.mean_seconds / attempts
    spread = (attempts + squares - attempts**2) / attempts**2  # service of cv 1
    net, waiting = capacity - rate, kind.backlog - scenario.workers
    mean = waiting / net
    variance = waiting * (rate + capacity * spread) / net**3
    return mean, mean**3 / variance


def distribution(at: np.ndarray, mean: float, shape: float) -> np.ndarray:
    """Return the inverse Gaussian distribution function."""
    root = np.sqrt(shape / at)
    normal = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    far = root * (at / mean + 1)
    # exp(2 shape / mean) overflows and its factor vanishes: together, by the tail of the normal
    rest = np.exp(2 * shape / mean - far**2 / 2) / (far * math.sqrt(2 * math.pi))
    return np.asarray(normal(root * (at / mean - 1)) + rest)


def distance(values: np.ndarray, mean: float, shape: float) -> float:
    """Return the Kolmogorov-Smirnov distance of the values from the closed form."""
    ordered = np.sort(values)
    law, count = distribution(ordered, mean, shape), len(ordered)
    steps = np.arange(count + 1) / count
    return float(max((steps[1:] - law).max(), (law - steps[:-1]).max()))


def shown(name: str, values: Any) -> float:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    print(f"  {name:<24}{low:9,.0f} {middle:9,.0f} {high:9,.0f}   width {high - low:6.1f}")
    return float(high - low)


def backlog(runs: int) -> None:
    print(f"The backlog of 10,000, {runs:,} runs: p5, p50, p95 of the drain in seconds:")
    loop_seconds, loop = timed(
        lambda: [run_events(BACKLOG, seed(n)).drained_seconds for n in range(runs)]
    )
    chunks = max(runs // 1_000, 1)
    each = runs // chunks
    bucket_seconds, counts = timed(
        lambda: [
            r.drained_seconds for n in range(chunks) for r in run_buckets(BACKLOG, seed(n), each)
        ]
    )
    halved = [
        r.drained_seconds
        for n in range(chunks)
        for r in run_buckets(BACKLOG, seed(n, of=2), each, refine=2)
    ]
    mean, shape = closed_form(BACKLOG)
    law = np.random.default_rng(1).wald(mean, shape, 200_000)
    shown("closed form", law)
    widths = [shown(name, values) for name, values in (("event-loop", loop), ("buckets", counts))]
    shown("buckets, steps halved", halved)
    print(f"  width of the buckets / loop: {widths[1] / widths[0]:.3f}  (1 within 0.05)")
    print(f"  KS distance closed form, loop: {distance(np.array(loop), mean, shape):.4f}  (< 0.03)")
    ratio = bucket_seconds / loop_seconds
    print(f"  CPU of 1,000 runs: loop {loop_seconds / runs * 1e3:.1f} s, buckets ", end="")
    print(f"{bucket_seconds / runs * 1e3:.2f} s: 1/{1 / ratio:.0f} of the loop  (<= 1/15)")
    million = dataclasses.replace(
        BACKLOG,
        classes=(dataclasses.replace(BACKLOG.classes[0], backlog=1_000_000),),
        horizon_seconds=100 * BACKLOG.horizon_seconds,
    )
    small, _ = timed(lambda: run_buckets(BACKLOG, seed(0), 1_000))
    big, _ = timed(lambda: run_buckets(million, seed(0), 1_000))
    print(f"  a backlog of 1,000,000: {big:.2f} s, {big / small:.1f} times that of 10,000  (<= 2)")


def backoff(runs: int) -> None:
    print("Backoff, every line of the AWS simulator's figures, in combined standard errors:")
    worst = 0.0
    with GOLDEN.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        seen = contended(int(row["clients"]), STRATEGIES[row["algorithm"]], runs)
        for name, values in seen.items():
            error = math.hypot(np.std(values, ddof=1) / math.sqrt(runs), float(row[f"{name}_se"]))
            worst = max(worst, float(abs(np.mean(values) - float(row[f"{name}_mean"])) / error))
    print(f"  {len(rows)} lines, 2 figures each: the worst is {worst:.2f} away  (< 4)")


def contended(clients: int, strategy: str, runs: int) -> dict[str, list[float]]:
    retries = Retries(max_attempts=1_000_000, backoff=strategy, base_seconds=0.005, cap_seconds=2.0)
    kind = JobClass(
        backlog=clients,
        contention=True,
        service=Service(law="normal", mean_seconds=0.010, cv=0.2),
        retries=retries,
    )
    scenario = Scenario(
        classes=(kind,), workers=clients, run_to="idle", horizon_seconds=1e6, bucket_seconds=1e6
    )
    made = [run_events(scenario, seed(number)) for number in range(runs)]
    return {
        "time": [run.ended_seconds * 1_000 for run in made],
        "calls": [float(run.attempts) for run in made],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    part = 10 if parser.parse_args().quick else 1
    plain_model(200_000 // part)
    backlog(10_000 // part)
    backoff(100 // part)


if __name__ == "__main__":
    main()
