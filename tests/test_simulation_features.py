"""What a scenario can say, feature by feature, with numbers that one can check by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from jobplaybook.simulation import simulate
from jobplaybook.simulation.event_loop import run_events
from jobplaybook.simulation.record import Run
from jobplaybook.simulation.scenario import (
    Arrivals,
    Crashes,
    Failures,
    JobClass,
    Lease,
    Outage,
    Pause,
    Replay,
    Retries,
    Scenario,
    Service,
)
from tests.simulated import constant, one_class, seed

HOUR, DAY = 3_600.0, 86_400.0


def run(scenario: Scenario, number: int = 1) -> Run:
    return run_events(scenario, seed(number))


# Who comes first


def two_classes(**second: Any) -> tuple[JobClass, JobClass]:
    first = JobClass(name="bulk", backlog=100, service=constant(1.0))
    given: dict[str, Any] = {
        "name": "urgent",
        "arrivals": Arrivals(trace_seconds=(10.5,)),
        "service": constant(1.0),
    }
    return first, JobClass(**(given | second))


@pytest.mark.parametrize(("priority", "wait"), [(1, 0.5), (0, 89.5)])
def test_a_higher_number_goes_first(priority: int, wait: float) -> None:
    """One worker: an urgent job waits for the one in work, an equal one for the whole backlog."""
    bulk, urgent = two_classes()
    scenario = Scenario(
        classes=(bulk, replace(urgent, priority=priority)), workers=1, run_to="idle"
    )
    total = run(scenario).wait_seconds * 101
    before = sum(range(100))
    overtaken = 89 if priority else 0
    assert total == pytest.approx(before + wait + overtaken)


def test_a_tenant_gets_no_more_than_its_share_of_workers() -> None:
    """Four workers, one tenant with one at a time: its ten jobs take 10 s instead of 3."""
    alone = one_class(workers=4, run_to="idle", backlog=10, service=constant(1.0))
    assert run(alone).ended_seconds == 3.0
    limited = replace(alone, classes=(replace(alone.classes[0], tenant_concurrency=1),))
    assert run(limited).ended_seconds == 10.0
    two = replace(limited, classes=(replace(limited.classes[0], tenants=2),))
    assert run(two).ended_seconds == 5.0


@pytest.mark.parametrize("where", ["class", "global"])
def test_a_limit_leaves_workers_idle(where: str) -> None:
    """Ten workers, five at a time, three tenants: 100 jobs of 1 s take 20 s."""
    limit = {"concurrency": 5} if where == "class" else {"concurrency_all": 5}
    scenario = one_class(
        workers=10, run_to="idle", backlog=100, tenants=3, service=constant(1.0), **limit
    )
    assert run(scenario).ended_seconds == 20.0


def test_a_paused_class_is_left_alone_and_comes_back_slowly() -> None:
    """Paused for 100 s and let in over 40 s: a worker more each 4 s, 55 jobs later all ten."""
    pause = Pause(length_seconds=100.0, ramp_seconds=40.0)
    scenario = one_class(
        workers=10,
        run_to="idle",
        bucket_seconds=10.0,
        backlog=400,
        service=constant(1.0),
        pause=pause,
    )
    seen = run(scenario)
    assert seen.calls[:10].sum() == 0
    assert seen.calls[10] == pytest.approx(4 * 1 + 4 * 2 + 2 * 3, abs=2)
    assert seen.drained_seconds == pytest.approx(140 + (400 - 4 * 55) / 10, abs=2)


# Leases, crashes, copies


def test_a_dead_workers_job_waits_for_its_lease() -> None:
    """One job, a worker that dies all the time: each try costs the rest of a lease."""
    scenario = one_class(
        run_to="idle",
        horizon_seconds=1e6,
        backlog=200,
        service=constant(10.0),
        retries=Retries(max_attempts=100),
        lease=Lease(length_seconds=60.0),
        crashes=Crashes(rate=0.02, restart_seconds=5.0),
    )
    seen = run(scenario)
    survives = math.exp(-0.2)
    assert seen.completed == 200
    assert seen.duplicates == 0
    assert seen.attempts / 200 == pytest.approx(1 / survives, rel=0.08)


def test_crashes_use_up_attempts_too() -> None:
    """With two attempts a job dies if both its workers do: share (1 - exp(-rt))^2."""
    scenario = one_class(
        workers=5,
        run_to="idle",
        horizon_seconds=1e6,
        backlog=3_000,
        service=constant(10.0),
        retries=Retries(max_attempts=2),
        lease=Lease(length_seconds=20.0),
        crashes=Crashes(rate=0.05),
    )
    dead = run(scenario).dead_letters["exhausted"] / 3_000
    assert dead == pytest.approx((1 - math.exp(-0.5)) ** 2, abs=0.025)


@pytest.mark.parametrize(("hours", "copies"), [(5.5, 6), (0.5, 1), (1.5, 2)])
def test_a_lease_without_heartbeat_makes_copies(hours: float, copies: int) -> None:
    """Case 34, `jobplaybook simulate`: one job under a visibility time-out of 1 h.

    copies = floor(wait / timeout) + 1: six receives an hour apart.
    """
    scenario = one_class(
        workers=10,
        horizon_seconds=DAY,
        run_to="idle",
        backlog=1,
        service=constant(hours * HOUR),
        retries=Retries(max_attempts=20),
        lease=Lease(length_seconds=HOUR, heartbeat=False),
    )
    seen = run(scenario)
    assert seen.attempts == copies == math.floor(hours) + 1
    assert seen.duplicates == copies - 1
    assert seen.completed == 1


# Failures


def test_a_limited_job_comes_back_when_it_is_told_to() -> None:
    """Every call is answered 429, come back in 30 s: three attempts end after 60 s and 3 s."""
    failures = Failures(rate_limited=1.0, retry_after_seconds=30.0)
    scenario = one_class(
        run_to="idle",
        backlog=1,
        service=constant(1.0),
        failures=failures,
        retries=Retries(max_attempts=3, backoff="full"),
    )
    seen = run(scenario)
    assert (seen.ended_seconds, dict(seen.dead_letters)) == (63.0, {"exhausted": 1})


def test_failing_attempts_may_take_their_own_time() -> None:
    """Time-outs of 30 s beside answers of 1 s: half of 2,000 attempts makes 15.5 s on average."""
    failures = Failures(permanent=0.5, service=constant(30.0))
    scenario = one_class(
        workers=1,
        run_to="idle",
        horizon_seconds=1e6,
        backlog=2_000,
        service=constant(1.0),
        failures=failures,
    )
    assert run(scenario).ended_seconds / 2_000 == pytest.approx(15.5, rel=0.08)


def test_parked_retries_of_the_start_count() -> None:
    """An empty queue with a retry parked for 500 s is not drained before."""
    parked = one_class(service=constant(1.0), parked_seconds=(100.0, 500.0))
    assert run(parked).drained_seconds == 500.0


def test_an_outage_of_no_length_changes_nothing() -> None:
    """A window of 0 ends as if it had not been."""
    plain = one_class(backlog=50, service=constant(1.0))
    for effect in ("fail", "stall"):
        outage = Outage(length_seconds=0.0, effect=effect)
        assert run(replace(plain, outage=outage)).drained_seconds == run(plain).drained_seconds
    paused = replace(plain.classes[0], pause=Pause(length_seconds=0.0))
    assert run(replace(plain, classes=(paused,))).drained_seconds == 49.0


def test_a_replay_is_throttled_and_shares_the_workers() -> None:
    """500 dead letters at 5/s beside live traffic of 2/s: done after 100 s, live waits little."""
    scenario = one_class(
        workers=10,
        run_to="drained",
        bucket_seconds=10.0,
        arrivals=Arrivals(rate=2.0),
        service=constant(1.0),
        replay=Replay(jobs=500, rate=5.0, concurrency=8),
    )
    seen = run(scenario)
    assert seen.drained_seconds == pytest.approx(100.0, abs=2.0)
    assert seen.calls.mean() / 10 == pytest.approx(7.0, abs=0.5)
    assert seen.wait_seconds < 0.2
    slow = replace(scenario.classes[0], replay=Replay(jobs=500, rate=50.0, concurrency=2))
    assert run(replace(scenario, classes=(slow,))).drained_seconds > 240.0


def test_a_replay_at_no_rate_never_ends() -> None:
    """Dead letters that are not let in stay, and so the queue is not drained."""
    scenario = one_class(
        service=constant(1.0), replay=Replay(jobs=5, rate=0.0), horizon_seconds=100.0
    )
    assert run(scenario).drained_seconds == math.inf


# What happened to others


def test_a_poller_behind_its_work_takes_days() -> None:
    """Case 01, `jobplaybook simulate`: B 752,318, L 1.7, 12 workers of 4.427 s.

    8.62 days, and 3.21 with intake paused.
    """
    service = Service(mean_seconds=4.427)
    for rate, days in ((1.7, 8.62), (0.0, 3.21)):
        work = JobClass(backlog=752_318, arrivals=Arrivals(rate=rate), service=service)
        scenario = Scenario(classes=(work,), workers=12, horizon_seconds=30 * DAY)
        answer = simulate(scenario, replications=200, seed=1)
        assert answer.seconds.p50 / DAY == pytest.approx(days, abs=0.03)


@pytest.mark.parametrize(("capacity", "recovery_hours"), [(1.1, 20.0), (1.5, 4.0)])
def test_two_hours_down_take_twenty_to_catch_up(capacity: float, recovery_hours: float) -> None:
    """Case 02, `jobplaybook simulate`: 10 % headroom; for 4 h M must be 1.5 L."""
    scenario = one_class(
        workers=1,
        horizon_seconds=48 * HOUR,
        outage=Outage(length_seconds=2 * HOUR, effect="stall"),
        arrivals=Arrivals(every_seconds=10.0, burst=1),
        service=constant(10.0 / capacity),
    )
    assert run(scenario).drained_seconds / HOUR - 2 == pytest.approx(recovery_hours, rel=0.01)


def test_a_drained_million_once_producers_stop() -> None:
    """Case 18, `jobplaybook simulate`: B 1.26 M at M 4,016 drains in 314 s."""
    work = JobClass(backlog=1_260_000, service=Service(mean_seconds=1.0))
    scenario = Scenario(classes=(work,), workers=4_016, horizon_seconds=HOUR)
    answer = simulate(scenario, replications=100, seed=3)
    assert answer.engine == "buckets"
    assert answer.seconds.p50 == pytest.approx(313, abs=2)


def test_a_failure_share_makes_attempts() -> None:
    """Case 38, `jobplaybook simulate`: 280,000 of 1.7 M fail, 16.5 %: 1.20 attempts a success."""
    share = 280_000 / 1_700_000
    scenario = one_class(
        workers=10,
        run_to="idle",
        horizon_seconds=1e6,
        backlog=20_000,
        service=constant(1.0),
        failures=Failures(retryable=share),
        retries=Retries(max_attempts=25),
    )
    seen = run(scenario)
    assert seen.attempts / seen.completed == pytest.approx(1.20, abs=0.01)


def test_retries_that_end_before_the_outage_lose_what_came_before() -> None:
    """Case 46, `jobplaybook simulate`: retries end after 10 min, the outage lasts 97.

    What came more than 10 min before its end is lost: about rate x 87 min, give or take a wait.
    """
    rate = 0.5
    scenario = one_class(
        workers=50,
        horizon_seconds=3 * HOUR,
        run_to="horizon",
        outage=Outage(length_seconds=97 * 60.0, fails_after_seconds=1.0),
        arrivals=Arrivals(rate=rate),
        service=constant(1.0),
        retries=Retries(
            max_attempts=1_000,
            max_elapsed_seconds=600.0,
            backoff="full",
            base_seconds=1.0,
            cap_seconds=30.0,
        ),
    )
    seen = run(scenario)
    assert seen.dead_letters["out of time"] == pytest.approx(rate * 87 * 60, rel=0.05)
