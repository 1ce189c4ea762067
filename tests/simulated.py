"""Scenarios that several tests of the simulation use."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobplaybook.simulation.scenario import (
    Arrivals,
    Failures,
    JobClass,
    Retries,
    Scenario,
    Service,
)

GOLDEN_P5, GOLDEN_P50, GOLDEN_P95 = 7_871.0, 8_142.0, 8_421.0
"""Closed form of `backlog_case`, seconds."""


def seed(number: int = 1, replication: int = 0) -> np.random.SeedSequence:
    return np.random.SeedSequence(number, spawn_key=(replication,))


def constant(seconds: float) -> Service:
    return Service(law="constant", mean_seconds=seconds)


def backlog_case(**changes: Any) -> Scenario:
    """Return 10,000 jobs, 2/s more, 20 workers of 5 s, one attempt in five fails, three each."""
    kind: dict[str, Any] = {
        "backlog": 10_000,
        "arrivals": Arrivals(rate=2.0),
        "service": Service(mean_seconds=5.0),
        "failures": Failures(retryable=0.2),
        "retries": Retries(max_attempts=3),
    }
    of_class = {name: changes.pop(name) for name in list(changes) if name in kind}
    given = {"workers": 20, "horizon_seconds": 200_000.0} | changes
    return Scenario(classes=(JobClass(**(kind | of_class)),), **given)


def one_class(workers: int = 1, horizon_seconds: float = 3_600.0, **kind: Any) -> Scenario:
    """Return a scenario of one class; what belongs to the scenario keeps its name."""
    names = ("run_to", "bucket_seconds", "quota", "outage", "lease", "crashes", "concurrency_all")
    over = {name: kind.pop(name) for name in names if name in kind}
    if "concurrency_all" in over:
        over["concurrency"] = over.pop("concurrency_all")
    return Scenario(
        classes=(JobClass(**kind),), workers=workers, horizon_seconds=horizon_seconds, **over
    )
