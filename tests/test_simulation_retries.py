"""Retrying under load: backoff as AWS simulated it, budgets, and queues that never recover."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from jobplaybook import measures
from jobplaybook.simulation.draws import backoff_seconds
from jobplaybook.simulation.event_loop import run_events
from jobplaybook.simulation.record import Run
from jobplaybook.simulation.scenario import (
    Arrivals,
    Client,
    Failures,
    Outage,
    Quota,
    Retries,
    RetryBudget,
    Scenario,
    Service,
)
from tests.conftest import REPOSITORY
from tests.simulated import constant, one_class, seed

GOLDEN = Path(REPOSITORY, "tests", "data", "golden", "aws_backoff.csv")
STRATEGIES = {
    "Exponential": "exponential",
    "Decorr": "decorrelated",
    "EqualJitter": "equal",
    "FullJitter": "full",
    "None": "none",
}
SEEN_CLIENTS = ("10", "40", "70")
"""Enough to see a wrong strategy; `benchmarks.simulation` runs every line of the file."""


def contended(clients: int, backoff: str) -> Scenario:
    """Return so many clients that each update one row once, with hops of |Normal(10, 2)| ms."""
    return one_class(
        workers=clients,
        horizon_seconds=1e5,
        run_to="idle",
        backlog=clients,
        contention=True,
        service=Service(law="normal", mean_seconds=0.010, cv=0.2),
        retries=Retries(
            max_attempts=1_000_000, backoff=backoff, base_seconds=0.005, cap_seconds=2.0
        ),
    )


def golden_rows() -> list[dict[str, str]]:
    with GOLDEN.open() as file:
        return [row for row in csv.DictReader(file) if row["clients"] in SEEN_CLIENTS]


@pytest.mark.parametrize("row", golden_rows(), ids=lambda r: f"{r['clients']}-{r['algorithm']}")
def test_backoff_costs_what_the_reference_says(row: dict[str, str]) -> None:
    """Calls and completion time lie within 4 combined SE of awslabs/aws-arch-backoff-simulator."""
    scenario = contended(int(row["clients"]), STRATEGIES[row["algorithm"]])
    runs = [run_events(scenario, seed(1, number)) for number in range(40)]
    seen = {
        "time": [run.ended_seconds * 1_000 for run in runs],
        "calls": [float(run.attempts) for run in runs],
    }
    for name, values in seen.items():
        error = math.hypot(np.std(values, ddof=1) / math.sqrt(40), float(row[f"{name}_se"]))
        assert abs(np.mean(values) - float(row[f"{name}_mean"])) < 4 * error, name


@pytest.mark.parametrize(
    ("backoff", "low", "high"),
    [
        ("none", 0.0, 0.0),
        ("exponential", 40.0, 40.0),
        ("full", 0.0, 40.0),
        ("equal", 20.0, 40.0),
        ("decorrelated", 5.0, 30.0),
    ],
)
def test_a_backoff_stays_between_its_ends(backoff: str, low: float, high: float) -> None:
    """After three failures with base 5 s and 10 s before, the wait lies where the formula says."""
    retries = Retries(backoff=backoff, base_seconds=5.0)
    assert backoff_seconds(retries, 3, 10.0, 0.0) == low
    assert backoff_seconds(retries, 3, 10.0, 1.0) == high
    assert backoff_seconds(Retries(backoff=backoff, cap_seconds=0.5), 5_000, 1.0, 1.0) <= 0.5


def retried(
    failure: float, budget: RetryBudget | None, *, jobs: int = 2_000, tries: int = 5
) -> Run:
    scenario = one_class(
        workers=1,
        horizon_seconds=1e6,
        run_to="idle",
        backlog=jobs,
        service=constant(1.0),
        failures=Failures(retryable=failure),
        retries=Retries(max_attempts=tries, budget=budget),
    )
    return run_events(scenario, seed(2))


def test_four_attempts_at_even_odds() -> None:
    """Measure attempts_per_job: 3 retries at p = 0.5 succeed for 0.9375 and load 1.875-fold."""
    run = retried(0.5, None, jobs=20_000, tries=4)
    assert run.attempts / run.jobs == pytest.approx(1.875, abs=0.03)
    assert run.attempts / run.jobs == pytest.approx(
        measures.attempts_per_job(0.5, max_attempts=4), abs=0.03
    )
    assert run.completed / run.jobs == pytest.approx(0.9375, abs=0.007)


@pytest.mark.parametrize(("ratio", "initial"), [(0.1, 10.0), (0.2, 100.0), (0.0, 30.0)])
def test_a_token_budget_caps_the_load(ratio: float, initial: float) -> None:
    """Where everything fails, a budget of ratio r loads by 1 + r + initial/calls, Finagle's rule.

    That is floor(calls * r) + initial retries; a tenth is no binary number, so within one.
    """
    run = retried(1.0, RetryBudget(initial=initial, per_call=ratio))
    assert run.attempts == pytest.approx(2_000 + 2_000 * ratio + initial, abs=1)
    assert run.dead_letters["out of budget"] == pytest.approx(2_000, abs=200)


@pytest.mark.parametrize(("failure", "retried_share"), [(0.05, 1.0), (0.15, 0.0)])
def test_retries_stop_where_failures_pass_the_equilibrium(
    failure: float, retried_share: float
) -> None:
    """gRPC A6: +0.1 a success, -1 a failure, off at 5 of 10: in balance at 0.1/1.1 = 9.1 %."""
    throttle = RetryBudget(
        initial=10.0, most=10.0, per_success=0.1, per_failure=1.0, per_retry=0.0, floor=5.0
    )
    run = retried(failure, throttle, jobs=20_000)
    failures = run.attempts - run.completed
    allowed = 1 - run.dead_letters.get("out of budget", 0) / failures
    assert allowed == pytest.approx(retried_share, abs=0.1)


def impatient(rate: float, horizon: float, run_to: str) -> Run:
    """Return a server of 300/s whose callers wait 1 s and ask once more; it stalls for 10 s."""
    scenario = one_class(
        workers=1,
        horizon_seconds=horizon,
        run_to=run_to,
        bucket_seconds=10.0,
        outage=Outage(start_seconds=10.0, length_seconds=10.0, effect="stall"),
        arrivals=Arrivals(rate=rate),
        service=constant(1 / 300),
        client=Client(timeout_seconds=1.0, attempts=2),
    )
    return run_events(scenario, seed(3))


def test_below_half_the_capacity_the_server_recovers() -> None:
    """HotOS 2021: at 148/s, with retries 296/s, the queue of the outage drains in the end."""
    run = impatient(148.0, 3_000.0, "drained")
    assert run.drained_seconds < 3_000.0


@pytest.mark.parametrize(("rate", "offered"), [(152.0, 304.0), (280.0, 559.0)])
def test_above_half_the_capacity_it_never_does(rate: float, offered: float) -> None:
    """HotOS 2021: at 152/s goodput stays at 0, and 280/s goes on offering 559/s for ever."""
    run = impatient(rate, 120.0, "horizon")
    assert run.drained_seconds == math.inf
    assert run.completions[5:].sum() == 0
    assert run.calls[5:].mean() / 10 == pytest.approx(300.0, rel=0.01)
    assert run.offered[5:].mean() / 10 == pytest.approx(offered, rel=0.02)


def test_before_the_outage_the_same_load_was_well() -> None:
    """The same 280/s without an outage is answered in time: it is metastable, not overloaded."""
    scenario = one_class(
        horizon_seconds=60.0,
        run_to="horizon",
        bucket_seconds=10.0,
        arrivals=Arrivals(rate=280.0),
        service=constant(1 / 300),
        client=Client(timeout_seconds=1.0, attempts=2),
    )
    run = run_events(scenario, seed(3))
    assert run.completed == pytest.approx(run.jobs, abs=20)
    assert "timed out" not in run.dead_letters


def test_a_quota_that_waits_is_the_capacity() -> None:
    """With 3 calls/s admitted, 10 workers of 1 s clear 900 jobs in 300 s, not in 90."""
    quota = Quota(rate=3.0)
    run = run_events(one_class(workers=10, backlog=900, service=constant(1.0), quota=quota), seed())
    assert run.drained_seconds == pytest.approx(899 / 3, abs=1)
    assert run.attempts == 900


@pytest.mark.parametrize("workers", [3, 30])
def test_more_workers_than_the_quota_feeds_only_burn_attempts(workers: int) -> None:
    """Concurrency quota x service = 3 wastes nothing; ten times as many lose jobs to 429s."""
    scenario = one_class(
        workers=workers,
        horizon_seconds=7_200.0,
        run_to="idle",
        backlog=600,
        service=constant(1.0),
        failures=Failures(retry_after_seconds=5.0),
        retries=Retries(max_attempts=5),
        quota=Quota(rate=3.0, burst=3, when_empty="reject"),
    )
    run = run_events(scenario, seed())
    lost = run.dead_letters.get("exhausted", 0)
    assert (lost > 100) if workers == 30 else (lost == 0 and run.attempts < 620)


def test_no_quota_at_all_ends_at_the_horizon() -> None:
    """A quota of 0 admits its first token and then nothing: never, in no time."""
    scenario = one_class(
        workers=2, backlog=10, service=constant(1.0), quota=Quota(rate=0.0), horizon_seconds=50.0
    )
    run = run_events(scenario, seed())
    assert (run.drained_seconds, run.attempts, run.ended_seconds) == (math.inf, 1, 50.0)
