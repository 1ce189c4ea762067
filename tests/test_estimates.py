"""Estimates with their ranges: golden percentiles, laws, what is unknown, and public incidents."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobplaybook.errors import InputError
from jobplaybook.estimates import (
    BacklogSeen,
    DrainEstimate,
    RateSeen,
    RetryLayer,
    amplification,
    estimate_drain,
    estimate_replay,
    estimate_seen,
    exhausted_after,
)
from jobplaybook.units import duration_text

GIVEN: dict[str, Any] = {
    "backlog": 10_000,
    "servers": 20,
    "service_seconds": 5.0,
    "failure_rate": 0.2,
    "max_attempts": 3,
}
SEEN: dict[str, Any] = {
    "observed_seconds": 900.0,
    "completions_seen": 200,
    "failures_seen": (40, 200),
}


def steady(per_bucket: int, *, buckets: int = 60, width: float = 15.0) -> RateSeen:
    return RateSeen(counts=(per_bucket,) * buckets, bucket_seconds=width)


def seen(**changed: Any) -> DrainEstimate:
    """Return the estimate of a backlog of 7,200 that loses two jobs a second and gains one."""
    given: dict[str, Any] = {
        "name": "mail",
        "waiting": 7_200,
        "arrivals": steady(15),
        "left": steady(30),
    }
    estimate = estimate_seen(BacklogSeen(**{**given, **changed}))
    assert estimate is not None
    return estimate


# Golden ranges


def test_known_rates_leave_the_process_alone() -> None:
    """Known inputs: p5, p50, p95 = 7,871, 8,142, 8,421 s, within half a per cent."""
    spread = estimate_drain(arrival_rate=2.0, **GIVEN).seconds
    assert spread.p5 == pytest.approx(7_871, rel=0.005)
    assert spread.p50 == pytest.approx(8_142, rel=0.005)
    assert spread.p95 == pytest.approx(8_421, rel=0.005)


def test_seen_rates_are_the_uncertainty() -> None:
    """Inputs from fifteen minutes: 5,997 to 11,973 s within 10 %, eleven times wider."""
    estimate = estimate_drain(arrival_rate=2.0, **GIVEN, **SEEN)
    assert estimate.seconds.p5 == pytest.approx(5_997, rel=0.1)
    assert estimate.seconds.p50 == pytest.approx(8_171, rel=0.02)
    assert estimate.seconds.p95 == pytest.approx(11_973, rel=0.1)
    assert estimate.never_probability < 0.01


@pytest.mark.parametrize(("rate", "low", "high"), [(2.9, 0.07, 0.12), (3.1, 0.27, 0.36)])
def test_never_has_a_probability(rate: float, low: float, high: float) -> None:
    """Close to capacity some draws never drain: past a twentieth there is no mean and no p95."""
    estimate = estimate_drain(arrival_rate=rate, **GIVEN, **SEEN)
    assert not estimate.never
    assert low <= estimate.never_probability <= high
    document = estimate.to_json()
    assert (document["seconds"]["mean"], document["seconds"]["p95"]) == (None, None)
    assert document["seconds"]["p50"] is not None
    assert "or never (probability" in str(estimate)


def test_the_same_question_has_the_same_answer() -> None:
    """A seed is part of the answer; another one moves it by less than its own spread."""
    first, again = (estimate_drain(arrival_rate=2.0, **GIVEN, **SEEN) for _ in range(2))
    other = estimate_drain(arrival_rate=2.0, seed=1, **GIVEN, **SEEN)
    assert first.to_json() == again.to_json()
    assert other.seconds != first.seconds
    assert other.seconds.p50 == pytest.approx(first.seconds.p50, rel=0.03)


# Laws


@given(
    backlog=st.integers(min_value=0, max_value=10**6),
    into=st.floats(min_value=0.0, max_value=100.0),
    out=st.floats(min_value=0.01, max_value=100.0),
    watched=st.floats(min_value=1.0, max_value=1e5),
)
def test_percentiles_are_in_order(backlog: int, into: float, out: float, watched: float) -> None:
    """p5 <= p50 <= p95, never between 0 and 1, and a wait for all of them where never is 1."""
    watchings: tuple[dict[str, Any], ...] = ({}, {"observed_seconds": watched})
    for extra in watchings:
        estimate = estimate_drain(
            backlog=backlog, arrival_rate=into, completion_rate=out, by_seconds=60.0, **extra
        )
        spread = estimate.seconds
        assert spread.p5 is not None
        assert spread.p50 is not None
        assert spread.p95 is not None
        assert 0 <= spread.p5 <= spread.p50 <= spread.p95
        assert 0.0 <= estimate.never_probability <= 1.0
        assert 0.0 <= (estimate.by_probability or 0.0) <= 1.0


@pytest.mark.parametrize(
    "question",
    [
        {"backlog": 5, "servers": 20, "service_seconds": 5.0, "arrival_rate": 1.0},
        {**GIVEN, "failure_rate": 0.0, "arrival_rate": 2.0},
        {**GIVEN, "failure_rate": 1.0, "arrival_rate": 0.5},
        {**GIVEN, "failure_rate": 1.0, "arrival_rate": 5.0},
        {**GIVEN, "quota_rate": 0.0, "arrival_rate": 0.0},
    ],
)
def test_corners_end_properly(question: dict[str, Any]) -> None:
    """Fewer jobs than workers, p = 0 and 1, quota 0: an answer, drawn and not."""
    seen: tuple[dict[str, Any], ...] = ({}, {"observed_seconds": 900.0, "completions_seen": 50})
    for extra in seen:
        estimate = estimate_drain(**question, **extra)
        assert estimate.never == (estimate.net_rate <= 0)
        assert str(estimate)


# What a snapshot shows


def test_a_seen_backlog_drains_at_what_was_seen() -> None:
    """One job a second less each second: about 7,200 s, and a range around it."""
    spread = seen().seconds
    assert spread.p50 == pytest.approx(7_200, rel=0.05)
    assert spread.p5 is not None
    assert spread.p95 is not None
    assert spread.p5 < 0.9 * 7_200
    assert spread.p95 > 1.1 * 7_200


def test_parked_jobs_count_when_they_come_due() -> None:
    """Parked for less than the drain they lengthen it, parked for a day they do not."""
    soon = seen(parked=(60.0,) * 3_600).seconds.p50
    late = seen(parked=(86_400.0,) * 3_600).seconds.p50
    assert soon == pytest.approx(10_800, rel=0.05)
    assert late == pytest.approx(7_200, rel=0.05)


def test_retries_in_flight_are_not_in_the_queue() -> None:
    """What is parked at the end is not waiting: with as many parked now the two cancel out."""
    # 30 jobs leave and 15 attempts are retried per bucket of 15 s: one retry a second, for 600 s
    cancelling = seen(
        waiting=7_200, parked=tuple(range(600)), retried=15 * 60, retry_delay_seconds=600.0
    )
    assert cancelling.seconds.p50 == pytest.approx(7_200, rel=0.05)


def test_bursts_widen_the_range() -> None:
    """The same mean rate in bursts says less of the time to come."""
    bursts = RateSeen(counts=(0, 0, 30, 30) * 15, bucket_seconds=15.0)
    even, burst = seen(), seen(arrivals=bursts)
    assert burst.inputs.arrival_rate == even.inputs.arrival_rate
    assert width(burst) > 1.3 * width(even)


def width(estimate: DrainEstimate) -> float:
    assert estimate.seconds.p5 is not None
    assert estimate.seconds.p95 is not None
    return min(estimate.seconds.p95, 1e9) - estimate.seconds.p5


def test_a_burst_that_goes_on_may_never_end() -> None:
    """Arrivals that doubled lately: some looks back say never, others say when."""
    climbing = RateSeen(counts=(10,) * 45 + (60,) * 15, bucket_seconds=15.0)
    estimate = seen(arrivals=climbing)
    assert 0.1 < estimate.never_probability < 0.9


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"left": None}, "does not record"),
        ({"arrivals": None}, "does not record"),
        ({"left": RateSeen(counts=(9, 9), bucket_seconds=1.0)}, "only 18 jobs left"),
        ({"why_not": "it is paused"}, "it is paused"),
    ],
)
def test_an_unknown_capacity_is_no_number(changed: dict[str, Any], why: str) -> None:
    """Nothing recorded, too few ends, a pause: no estimate, and the reason in words."""
    given: dict[str, Any] = {"name": None, "waiting": 9, "arrivals": steady(1), "left": steady(9)}
    backlog = BacklogSeen(**{**given, **changed})
    assert why in backlog.unknown
    assert estimate_seen(backlog) is None


def test_a_rate_keeps_its_mean() -> None:
    """Draws of a steady rate have its mean, within four standard errors."""
    draws = steady(15).draws(random.Random(3), ahead_seconds=900.0, count=4_000)
    mean = math.fsum(draws) / len(draws)
    deviation = math.sqrt(math.fsum((draw - mean) ** 2 for draw in draws) / len(draws))
    assert abs(mean - 1.0) < 4 * deviation / math.sqrt(len(draws))


# Amplification and replay


def test_amplification_with_and_without_budget() -> None:
    """64 calls in the worst case; a budget of a tenth at the top leaves 17.6 of them."""
    layers = [RetryLayer(name=name, attempts=4) for name in "abc"]
    free = amplification(layers, failure_rate=1.0, arrival_rate=10.0, capacity_rate=300.0)
    assert (free.expected, free.worst_case, free.exhausted_share) == (64.0, 64.0, 1.0)
    assert free.metastable is True
    held = amplification(
        [RetryLayer(name="a", attempts=4, budget=0.1), *layers[1:]],
        failure_rate=0.0,
        arrival_rate=10.0,
        capacity_rate=300.0,
    )
    assert (held.expected, held.metastable) == (1.0, False)
    assert held.worst_case == pytest.approx(17.6)


def test_amplification_refuses_half_a_question() -> None:
    """No layer, or a capacity without arrivals."""
    with pytest.raises(InputError, match="at least one layer"):
        amplification([], failure_rate=0.1)
    with pytest.raises(InputError, match="together"):
        amplification([RetryLayer(name="a", attempts=2)], failure_rate=0.1, capacity_rate=1.0)


def test_a_replay_takes_what_live_traffic_leaves() -> None:
    """(q - live) a second; Little's law bounds the calls in flight; the rest stays with live."""
    replay = estimate_replay(jobs=6_000, quota_rate=10.0, live_rate=4.0, service_seconds=2.0)
    assert replay.seconds.mean == 1_000.0
    assert (replay.rate, replay.safe_concurrency, replay.share_left_for_live) == (6.0, 12, 0.4)
    none = estimate_replay(jobs=6_000, quota_rate=4.0, live_rate=4.0)
    assert none.to_json()["seconds"]["mean"] is None
    assert (none.safe_concurrency, none.batch) == (0, 0)
    assert "never at this rate" in str(none)


def test_case_42_a_batch_fits_its_lock() -> None:
    """Case 42, `estimate replay`: 8,000 at once time out; a batch is at most lock times rate."""
    replay = estimate_replay(jobs=8_000, quota_rate=10.0, batch=8_000, lease_seconds=300.0)
    assert replay.batch == 2_990  # ten a second for 300 s, less the second that the last one takes


def test_a_call_that_outlasts_its_lease_is_refused() -> None:
    """No batch ends in a lease that one call outlasts: its jobs would run twice."""
    with pytest.raises(InputError, match="expected a lease longer than a call of 1 min"):
        estimate_replay(jobs=8_000, quota_rate=10.0, service_seconds=60.0, lease_seconds=30.0)


def test_few_jobs_are_never_more_calls_than_jobs() -> None:
    """One long job is one call, whatever the quota; when it ends is said beside."""
    replay = estimate_replay(jobs=1, quota_rate=10.0, service_seconds=600.0)
    assert (replay.safe_concurrency, replay.batch) == (1, 1)
    assert "the last call ends 10 min later" in str(replay)


# Public incidents


def test_case_01_a_poller_that_outran_itself() -> None:
    """Case 01, `estimate drain`: 752,318 at 1.7/s in, 2.71/s out: 8.62 days, 3.21 if paused."""
    asked: dict[str, Any] = {"backlog": 752_318, "completion_rate": 2.71}
    running = estimate_drain(arrival_rate=1.7, **asked)
    assert (running.seconds.mean or 0) / 86_400 == pytest.approx(8.62, abs=0.005)
    paused = estimate_drain(arrival_rate=0.0, **asked)
    assert (paused.seconds.mean or 0) / 86_400 == pytest.approx(3.21, abs=0.005)


def test_case_02_two_hours_down_twenty_to_catch_up() -> None:
    """Case 02, `estimate drain`: headroom 10 %; to be back in 4 h takes 1.5 times the arrivals."""
    estimate = estimate_drain(
        backlog=7_200, arrival_rate=1.0, completion_rate=1.1, by_seconds=4 * 3_600.0
    )
    assert estimate.text == duration_text(20 * 3_600)
    assert estimate.headroom == pytest.approx(0.1)
    assert estimate.needed.completion_rate == pytest.approx(1.5)


def test_case_17_a_store_that_fills() -> None:
    """Case 17, `estimate drain --limit`: time to full = free/(λ - μ), and refuse before it."""
    estimate = estimate_drain(
        backlog=1_000_000, arrival_rate=33_000.0, completion_rate=16_000.0, limit=18_000_000
    )
    assert estimate.seconds_to_limit == 1_000.0
    assert estimate.never


def test_case_18_a_limit_and_a_drain() -> None:
    """Case 18, `estimate drain`: 1.26 M after 211 s; gone in 314 s once producers stop."""
    filling = estimate_drain(
        backlog=0, arrival_rate=9_982.0, completion_rate=4_016.0, limit=1_260_000
    )
    assert round(filling.seconds_to_limit or 0) == 211
    stopped = estimate_drain(backlog=1_260_000, arrival_rate=0.0, completion_rate=4_016.0)
    assert round(stopped.seconds.mean or 0) == 314


def test_case_22_a_deficit_of_a_third() -> None:
    """Case 22, `estimate drain`: 60,000 waiting after an hour of 50/s: 16.7/s short, 33 %."""
    deficit = 60_000 / 3_600
    estimate = estimate_drain(
        backlog=60_000, arrival_rate=50.0, completion_rate=50.0 - deficit, limit=120_000
    )
    assert (estimate.never, round(-estimate.net_rate, 1)) == (True, 16.7)
    assert round(-estimate.headroom, 2) == 0.33
    assert estimate.seconds_to_limit == pytest.approx(3_600)


def test_case_46_retries_shorter_than_the_outage() -> None:
    """Case 46, `exhausted_after`: retries for 10 min, an outage of 97: 87 minutes of jobs die."""
    dead = exhausted_after(97 * 60, elapsed_seconds=600, arrival_rate=1.0)
    assert dead == 87 * 60
    assert exhausted_after(300, elapsed_seconds=600, arrival_rate=1.0) == 0
