"""Retries, budgets, back-off and the law of the drain: golden numbers, exact sums and laws."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobplaybook import measures

shares = st.floats(min_value=0.0, max_value=1.0)
layers = st.lists(st.integers(min_value=1, max_value=5), min_size=1, max_size=5)
means = st.floats(min_value=1.0, max_value=1e6)
spreads = st.floats(min_value=0.001, max_value=2.0)

# Golden numbers


def test_retry_formulas() -> None:
    """Three retries at p = 0.5: success 0.9375, load 1.875."""
    assert 1.0 - measures.exhausted_share(0.5, max_attempts=4) == 0.9375
    assert measures.attempts_per_job(0.5, max_attempts=4) == 1.875


def test_layers_multiply() -> None:
    """Three layers of four attempts make 64 calls, five of three make 243."""
    assert measures.layered_attempts([4, 4, 4], failure_rate=1.0) == 64.0
    assert measures.layered_attempts([3] * 5, failure_rate=1.0) == 243.0


def test_budgets() -> None:
    """Token bucket plateau 1 + r + initial/calls; windowed budget floor(d*pct) + min*ttl."""
    assert measures.budget_plateau(ratio=0.1, initial=10, calls=100) == pytest.approx(1.2)
    assert measures.budget_retries(105, percent=0.2, least_rate=10, window_seconds=10.0) == 121
    share = measures.breaker_failure_share(per_failure=1.0, per_success=0.1)
    assert round(share * 100, 1) == 9.1


@pytest.mark.parametrize(("rate", "doomed"), [(148.0, False), (152.0, True), (280.0, True)])
def test_metastable_loads(rate: float, doomed: bool) -> None:
    """Capacity 300/s and one retry: 148/s recovers, 152/s and 280/s hold themselves up."""
    assert measures.is_metastable(rate, attempts=2.0, capacity_rate=300.0) is doomed


# Layers


@given(attempts=layers, p=shares)
def test_layers_telescope(attempts: list[int], p: float) -> None:
    """Layers without budgets are one layer with the product of their attempts."""
    together = math.prod(attempts)
    found = measures.layered_attempts(attempts, failure_rate=p)
    assert found == pytest.approx(measures.attempts_per_job(p, max_attempts=together), rel=1e-9)
    dead = measures.layered_exhausted_share(attempts, failure_rate=p)
    assert dead == pytest.approx(measures.exhausted_share(p, max_attempts=together), abs=1e-12)


@given(attempts=layers, p=shares, budget=st.floats(min_value=0.0, max_value=5.0))
def test_a_budget_bounds_the_calls(attempts: list[int], p: float, budget: float) -> None:
    """With budgets no layer's factor is above 1 + r, and more fail in the end, but not all."""
    budgets = [budget] * len(attempts)
    calls = measures.layered_attempts(attempts, failure_rate=p, budgets=budgets)
    assert calls <= (1 + budget) ** len(attempts) * (1 + 1e-9)
    dead = measures.layered_exhausted_share(attempts, failure_rate=p, budgets=budgets)
    assert measures.layered_exhausted_share(attempts, failure_rate=p) - 1e-9 <= dead <= p + 1e-9
    assert calls * (1 - p) == pytest.approx(1 - dead, abs=1e-6)  # each success is one call


def test_layers_refuse_what_they_cannot_mean() -> None:
    """Attempts below one, a failure share above one, budgets of another number: refused."""
    with pytest.raises(ValueError, match="expected attempts"):
        measures.layered_attempts([0], failure_rate=0.5)
    with pytest.raises(ValueError, match="expected failure_rate"):
        measures.layered_attempts([2], failure_rate=1.5)
    with pytest.raises(ValueError, match="zip"):
        measures.layered_attempts([2, 2], failure_rate=0.5, budgets=[0.1])


# Back-off


@pytest.mark.parametrize("jitter", ["none", "full", "equal", "decorrelated"])
def test_backoff_stays_below_its_cap(jitter: str) -> None:
    """Ceilings grow to the cap and stay there, for retries of any number."""
    tops = [
        measures.backoff_seconds(k, base_seconds=1.0, cap_seconds=60.0, jitter=jitter)[1]
        for k in (*range(12), 5_000)
    ]
    assert all(low <= high for low, high in pairwise(tops))
    assert tops[-1] == 60.0


def test_an_unknown_jitter_is_refused() -> None:
    """The error names those there are."""
    with pytest.raises(ValueError, match="full, equal, decorrelated"):
        measures.backoff_seconds(0, base_seconds=1.0, cap_seconds=2.0, jitter="fuzzy")


# The law of the drain


def exact_moments(p: float, n: int, m: float, m_failed: float, cv2: float) -> tuple[float, float]:
    """Return mean and variance of a job's worker time by summing over its number of failures."""
    first = second = 0.0
    for failures in range(n + 1):
        dead = failures == n
        chance = p**n if dead else p**failures * (1 - p)
        mean = failures * m_failed + (0.0 if dead else m)
        spread = cv2 * (failures * m_failed**2 + (0.0 if dead else m * m))
        first += chance * mean
        second += chance * (mean * mean + spread)
    return first, second - first**2


@given(
    p=shares,
    n=st.integers(min_value=1, max_value=40),
    m_failed=st.floats(min_value=0.01, max_value=100.0),
    cv=st.floats(min_value=0.0, max_value=3.0),
)
@example(p=0.9995, n=40, m_failed=5.0, cv=1.0)
@example(p=1.0, n=7, m_failed=5.0, cv=0.0)
def test_a_jobs_work_varies_as_the_sum_says(p: float, n: int, m_failed: float, cv: float) -> None:
    """cvJ2 equals the variance summed over every number of failures."""
    mean, variance = exact_moments(p, n, 5.0, m_failed, cv * cv)
    found = measures.work_cv2(
        failure_rate=p,
        max_attempts=n,
        service_seconds=5.0,
        failed_service_seconds=m_failed,
        service_cv=cv,
    )
    assert found == pytest.approx(variance / mean**2, rel=1e-6, abs=1e-8)


@given(mean=means, relative=spreads, share=st.floats(min_value=0.001, max_value=0.999))
def test_a_quantile_is_the_inverse(mean: float, relative: float, share: float) -> None:
    """The probability of being done at the quantile is its share."""
    sd = mean * relative
    at = measures.drain_quantile(share, mean=mean, sd=sd)
    assert measures.drain_cdf(at, mean=mean, sd=sd) == pytest.approx(share, abs=1e-6)


def test_draws_follow_the_law() -> None:
    """20,000 draws: mean and deviation within four standard errors, shares below quantiles too."""
    rng = random.Random(7)
    draws = [measures.drain_draw(rng, mean=100.0, sd=50.0) for _ in range(20_000)]
    mean = math.fsum(draws) / len(draws)
    assert abs(mean - 100.0) < 4 * 50.0 / math.sqrt(len(draws))
    for share in (0.05, 0.5, 0.95):
        at = measures.drain_quantile(share, mean=100.0, sd=50.0)
        below = sum(draw <= at for draw in draws) / len(draws)
        assert abs(below - share) < 4 * math.sqrt(share * (1 - share) / len(draws))


# Public incidents


def test_case_34_visibility_timeout() -> None:
    """Case 34, `measures.lease_copies`: copies = floor(wait/timeout) + 1; six receives in 5 h."""
    assert measures.lease_copies(5 * 3_600 + 60, lease_seconds=3_600.0) == 6


def test_case_32_effects_before_their_record() -> None:
    """Case 32, arithmetic: 3,987 messages to 7 people, 3,980 surplus, bound 7 * 240 * 3 = 5,040."""
    surplus = 3_987 - 7
    assert (surplus, round(surplus / 7)) == (3_980, 569)
    assert surplus <= 7 * measures.layered_attempts([240, 3], failure_rate=1.0) == 5_040


def test_case_38_failures_in_a_day() -> None:
    """Case 38, `measures.attempts_per_job`: 280,000 of 1.7 M failed: 16.5 %, 1.20 per success."""
    failed = 280_000 / 1_700_000
    assert round(failed, 3) == 0.165
    assert round(measures.attempts_per_job(failed, max_attempts=25), 2) == 1.2


def test_case_39_rejected_events() -> None:
    """Case 39, arithmetic: 4.2 M more an hour are 84 times the baseline of 50,000/h."""
    assert 4_200_000 / 50_000 == 84.0
    assert measures.utilisation(85 * 50_000, completion_rate=0.05 * 85 * 50_000) == pytest.approx(
        20.0
    )
