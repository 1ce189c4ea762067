"""The simulation against queueing theory, its engines against each other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from jobplaybook import measures
from jobplaybook.simulation import simulate
from jobplaybook.simulation.buckets import run_buckets
from jobplaybook.simulation.event_loop import EventLoop, run_events
from jobplaybook.simulation.plain_loop import run_plain
from jobplaybook.simulation.scenario import Arrivals, Failures, Retries, Scenario, Service
from tests.simulated import GOLDEN_P5, GOLDEN_P50, GOLDEN_P95, backlog_case, one_class, seed


def queue_of(servers: int, rho: float, jobs: int) -> Scenario:
    """Return M/M/c with mean service 1 s, long enough for so many jobs."""
    horizon = jobs / (servers * rho)
    return one_class(
        workers=servers,
        horizon_seconds=horizon,
        bucket_seconds=1.0,
        run_to="horizon",
        arrivals=Arrivals(rate=servers * rho),
        service=Service(mean_seconds=1.0),
    )


def test_twenty_servers_wait_as_erlang_says() -> None:
    """M/M/20 at rho 0.9: Wq = 0.275384502408 m; a run of 200,000 jobs has sd 0.021, so 3 sd."""
    run = run_events(queue_of(20, 0.9, 200_000), seed())
    assert run.wait_seconds == pytest.approx(0.275384502408, abs=0.06)


def test_one_server_waits_as_the_textbook_says() -> None:
    """M/M/1 at rho 0.5: Wq = rho/(mu - lambda) = 1 s; 20 runs give the sd of their mean."""
    waits = [run_events(queue_of(1, 0.5, 10_000), seed(2, n)).wait_seconds for n in range(20)]
    error = np.std(waits, ddof=1) / math.sqrt(len(waits))
    assert abs(np.mean(waits) - 1.0) < 3 * error
    assert error < 0.05


def test_the_count_that_waits_is_rate_times_wait() -> None:
    """Little: the mean number waiting, seen every second, is lambda Wq."""
    run = run_events(queue_of(4, 0.8, 60_000), seed(3))
    seen = float(run.backlog.mean())
    assert seen == pytest.approx(3.2 * run.wait_seconds, rel=0.03)


@pytest.mark.parametrize("law", ["exponential", "lognormal", "normal"])
def test_both_paths_of_the_event_loop_are_one(law: str) -> None:
    """The fast path gives the run of the full loop, number by number.

    Of events at the same instant each takes another first, so the laws here are continuous ones.
    """
    scenario = backlog_case(
        backlog=300,
        workers=8,
        service=Service(law=law, mean_seconds=2.0),
        failures=Failures(retryable=0.2, permanent=0.05),
        horizon_seconds=4_000.0,
        bucket_seconds=7.0,
    )
    fast, full = run_plain(scenario, seed(4)), EventLoop(scenario, seed(4)).run()
    assert (fast.drained_seconds, fast.attempts, fast.jobs, fast.started, fast.completed) == (
        full.drained_seconds,
        full.attempts,
        full.jobs,
        full.started,
        full.completed,
    )
    assert {name: number for name, number in fast.dead_letters.items() if number} == dict(
        full.dead_letters
    )
    for name in ("calls", "offered", "completions", "oldest_age", "backlog"):
        np.testing.assert_allclose(getattr(fast, name), getattr(full, name), err_msg=name)


def test_three_engines_agree_on_the_backlog() -> None:
    """`jobplaybook simulate`: loop, buckets and closed form have one median, within 1 %.

    The loop's 40 runs have a median with sd of 0.4 %, the buckets' 4,000 one of 0.04 %.
    """
    loop = simulate(backlog_case(), replications=40, seed=5, engine="event-loop")
    counts = simulate(backlog_case(), replications=4_000, seed=5, engine="buckets")
    assert loop.engine == "event-loop"
    assert counts.engine == "buckets"
    assert loop.seconds.p50 == pytest.approx(GOLDEN_P50, rel=0.01)
    assert counts.seconds.p50 == pytest.approx(GOLDEN_P50, rel=0.003)
    assert counts.seconds.p5 == pytest.approx(GOLDEN_P5, rel=0.005)
    assert counts.seconds.p95 == pytest.approx(GOLDEN_P95, rel=0.005)
    width = counts.seconds.p95 - counts.seconds.p5
    assert width == pytest.approx(GOLDEN_P95 - GOLDEN_P5, rel=0.06)
    attempts = measures.attempts_per_job(0.2, max_attempts=3)
    assert loop.attempts_per_job == pytest.approx(attempts, rel=0.005)
    assert counts.attempts_per_job == pytest.approx(attempts, rel=0.005)
    assert counts.dead_letters["exhausted"] == pytest.approx(26_280 * 0.2**3, rel=0.05)
    assert loop.wait_seconds == pytest.approx(counts.wait_seconds, rel=0.02)


def test_series_of_both_engines_agree() -> None:
    """Calls, ages and backlog over time are the same, bucket by bucket, before the drain."""
    scenario = backlog_case(bucket_seconds=600.0)
    loop = simulate(scenario, replications=10, seed=6, engine="event-loop")
    counts = simulate(scenario, replications=500, seed=6, engine="buckets")
    for name, unit in (("upstream_calls", 4.0), ("oldest_age", 3_000.0), ("backlog", 10_000.0)):
        pairs = list(zip(getattr(loop, name), getattr(counts, name), strict=False))[:11]
        assert len(pairs) == 11
        for ours, theirs in pairs:
            assert ours.value.mean == pytest.approx(theirs.value.mean, abs=0.03 * unit), name


def test_finer_steps_move_nothing() -> None:
    """Halving the buckets' steps moves median and ends by less than their sampling error."""
    ends = [
        np.quantile(
            [run.drained_seconds for run in run_buckets(backlog_case(), seed(7), 4_000, refine=n)],
            [0.05, 0.5, 0.95],
        )
        for n in (1, 2)
    ]
    np.testing.assert_allclose(ends[0], ends[1], rtol=0.004)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("engine", ["buckets", "event-loop"])
def test_nothing_or_everything_fails(share: float, engine: str) -> None:
    """p = 0 needs one attempt a job and p = 1 all of them: 200 jobs, 10 workers of 1 s."""
    scenario = backlog_case(
        backlog=200,
        workers=10,
        arrivals=Arrivals(),
        service=Service(mean_seconds=1.0),
        failures=Failures(retryable=share),
    )
    answer = simulate(scenario, replications=40, seed=8, engine=engine)
    tries = 3 if share else 1
    assert answer.attempts_per_job == pytest.approx(tries, abs=0.1)
    assert answer.seconds.p50 == pytest.approx((200 * tries - 10) / 10, rel=0.08)
    # ten are still in work when the queue is found empty
    assert answer.dead_letters["total"] == pytest.approx(190 * share, abs=4 * share)


@pytest.mark.parametrize("engine", ["buckets", "event-loop"])
@pytest.mark.parametrize("backlog", [0, 1, 20])
def test_fewer_jobs_than_workers_is_drained_at_once(engine: str, backlog: int) -> None:
    """Whatever fits into the workers waits for nobody."""
    answer = simulate(backlog_case(backlog=backlog), replications=5, engine=engine)
    assert (answer.seconds.p50, answer.never_probability) == (0.0, 0.0)
    assert answer.upstream_calls == ()


@pytest.mark.parametrize("engine", ["buckets", "event-loop"])
def test_too_few_workers_never_drain(engine: str) -> None:
    """Arrivals above the capacity: never, with no mean and no p95; and so without any worker."""
    for workers in (0, 5):
        scenario = backlog_case(backlog=100, workers=workers, horizon_seconds=2_000.0)
        answer = simulate(scenario, replications=10, engine=engine)
        assert answer.never
        assert answer.never_probability == 1.0
        assert (answer.seconds.mean, answer.seconds.p95) == (math.inf, math.inf)
        assert answer.to_json()["drain"]["seconds"]["p50"] is None


def test_bursts_by_the_clock_are_the_same_in_both_engines() -> None:
    """A burst of 300 each 200 s delays the drain of both engines alike."""
    bursts = Arrivals(rate=1.0, every_seconds=200.0, burst=300)
    scenario = backlog_case(backlog=3_000, arrivals=bursts)
    medians = [
        simulate(scenario, replications=n, seed=9, engine=engine).seconds.p50
        for engine, n in (("event-loop", 30), ("buckets", 1_000))
    ]
    assert medians[0] == pytest.approx(medians[1], rel=0.03)
    plain = replace(scenario.classes[0], arrivals=Arrivals(rate=1.0))
    without = simulate(replace(scenario, classes=(plain,)), replications=100, seed=9)
    assert medians[0] > 1.5 * without.seconds.p50


@pytest.mark.parametrize("number", range(5))
def test_one_more_worker_makes_no_wait_longer(number: int) -> None:
    """With common random numbers, more workers drain no later and wait no longer."""
    runs = [
        run_events(backlog_case(backlog=500, workers=workers, retries=Retries()), seed(10, number))
        for workers in (18, 19, 20, 25)
    ]
    assert sorted(run.drained_seconds for run in runs)[::-1] == [r.drained_seconds for r in runs]
    assert sorted(run.wait_seconds for run in runs)[::-1] == [run.wait_seconds for run in runs]
