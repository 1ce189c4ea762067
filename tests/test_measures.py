"""The closed forms: golden values, exact references and laws."""

from __future__ import annotations

import csv
import math
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from jobplaybook.measures import (
    attempts_per_job,
    completion_capacity,
    drain_seconds,
    erlang_c,
    exhausted_share,
    headroom,
    little_residual,
    mean_wait,
    needed_arrival_rate,
    needed_completion_rate,
    needed_workers,
    net_rate,
    seconds_to_limit,
    utilisation,
    worker_seconds_per_job,
)
from tests.conftest import REPOSITORY

GOLDEN = REPOSITORY / "tests" / "data" / "golden" / "erlang_c.csv"

law = settings(max_examples=200)
jobs = st.integers(min_value=0, max_value=10**9)
some_jobs = st.integers(min_value=1, max_value=10**9)
rates = st.floats(min_value=0.0, max_value=1e6)
positive_rates = st.floats(min_value=1e-6, max_value=1e6)
seconds = st.floats(min_value=1e-3, max_value=1e6)
shares = st.floats(min_value=0.0, max_value=1.0)
attempts = st.integers(min_value=1, max_value=50)
servers = st.integers(min_value=1, max_value=300)


def golden_rows() -> list[dict[str, float]]:
    with GOLDEN.open() as lines:
        return [
            {name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)
        ]


# Golden values and exact references


def test_erlang_c_golden() -> None:
    """Every golden row, 1 to 5,000 servers: P(wait) and W_q/m agree to nine digits."""
    rows = golden_rows()
    assert len(rows) == 320
    for row in rows:
        c = int(row["c"])
        assert erlang_c(c, offered=row["offered_erlangs"]) == pytest.approx(row["p_wait"], rel=1e-9)
        wait = mean_wait(c, arrival_rate=row["offered_erlangs"] / 7.0, service_seconds=7.0) / 7.0
        assert wait == pytest.approx(row["wq_over_mean_service"], rel=1e-9)


def test_mean_wait_of_the_reference_queue() -> None:
    """M/M/20 at 90 %: a wait of 0.275384502408 service times."""
    wait = mean_wait(20, arrival_rate=18.0, service_seconds=1.0)
    assert wait == pytest.approx(0.275384502408, abs=1e-12)


@law
@given(p=shares, n=attempts)
@example(p=0.0, n=3)
@example(p=1.0, n=3)
@example(p=0.999999999, n=3)
def test_attempts_equal_the_exact_sum(p: float, n: int) -> None:
    """a is 1 + p + ... + p^(n-1), to the last digits also near p = 1."""
    exact = sum((Fraction(p) ** k for k in range(n)), start=Fraction(0))
    assert attempts_per_job(p, max_attempts=n) == pytest.approx(float(exact), rel=1e-12)


@law
@given(p=shares, n=attempts)
def test_attempts_and_exhausted_share_belong_together(p: float, n: int) -> None:
    """A job fails a*p times on average, and the successes 1 - p^n are the rest: a(1 - p)."""
    a, dead = attempts_per_job(p, max_attempts=n), exhausted_share(p, max_attempts=n)
    assert a * (1 + 1e-12) >= 1.0
    assert a <= n * (1 + 1e-12)
    assert a * (1.0 - p) == pytest.approx(1.0 - dead, abs=1e-9)


# Laws of capacity


@law
@given(c=servers, more=st.integers(1, 300), m=seconds, p=shares, n=attempts, q=positive_rates)
def test_more_servers_never_complete_less(
    c: int, more: int, m: float, p: float, n: int, q: float
) -> None:
    """Adding servers never lowers the capacity, and the quota bounds it whatever their number."""
    few, many = (
        completion_capacity(k, service_seconds=m, failure_rate=p, max_attempts=n, quota_rate=q)
        for k in (c, c + more)
    )
    assert few <= many <= q / attempts_per_job(p, max_attempts=n)


@law
@given(c=servers, m=seconds, p=shares, n=attempts, q=positive_rates)
def test_capacity_is_the_scarcer_of_workers_and_quota_over_attempts(
    c: int, m: float, p: float, n: int, q: float
) -> None:
    """Where failures take as long as successes, the capacity is min(c/m, q)/a."""
    expected = min(c / m, q) / attempts_per_job(p, max_attempts=n)
    for failed in (None, m):
        found = completion_capacity(
            c,
            service_seconds=m,
            failure_rate=p,
            max_attempts=n,
            failed_service_seconds=failed,
            quota_rate=q,
        )
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("failed", "held"), [(None, 2.5), (30.0, 11.25), (1.0, 2.1875)])
def test_long_failures_cost_capacity_and_short_ones_give_it_back(
    failed: float | None, held: float
) -> None:
    """A quarter of 1.25 attempts fail: 0.9375 times 2 s and 0.3125 times a failure's time."""
    found = worker_seconds_per_job(
        2.0, failure_rate=0.25, max_attempts=2, failed_service_seconds=failed
    )
    assert found == held


@law
@given(rate=positive_rates, m=seconds, p=shares, n=attempts)
def test_needed_workers_are_enough_and_one_less_is_not(
    rate: float, m: float, p: float, n: int
) -> None:
    """The number of workers asked for reaches the rate; one less does not."""
    work = {"service_seconds": m, "failure_rate": p}
    count = needed_workers(rate, max_attempts=n, **work)
    assert count == int(count) >= 1
    assert completion_capacity(int(count), max_attempts=n, **work) >= rate * (1 - 1e-9)
    if count > 1:
        assert completion_capacity(int(count) - 1, max_attempts=n, **work) < rate


@law
@given(c=servers, m=seconds, p=shares, n=attempts)
def test_a_capacity_needs_the_workers_it_came_from(c: int, m: float, p: float, n: int) -> None:
    """Rounding never asks for one worker more than the rate was computed from."""
    rate = completion_capacity(c, service_seconds=m, failure_rate=p, max_attempts=n)
    assert needed_workers(rate, service_seconds=m, failure_rate=p, max_attempts=n) == c


def test_no_number_of_workers_beats_a_quota() -> None:
    """Rate times attempts above the quota: infinitely many; at the quota: q*m, Little's number."""
    assert needed_workers(1.01, service_seconds=5.0, quota_rate=1.0) == math.inf
    assert needed_workers(1.0, service_seconds=5.0, quota_rate=1.0) == 5
    assert needed_workers(1e200, service_seconds=1e200) == math.inf


# Laws of the drain


@law
@given(backlog=some_jobs, into=rates, out=rates)
@example(backlog=1, into=1 / 3, out=20 / 60)
@example(backlog=1, into=0.1 + 0.2, out=0.3)
def test_never_exactly_when_nothing_is_gained(backlog: int, into: float, out: float) -> None:
    """The drain is infinite if and only if the net rate is <= 0."""
    net = net_rate(out, arrival_rate=into)
    time = drain_seconds(backlog, arrival_rate=into, completion_rate=out)
    assert (time == math.inf) == (net <= 0)
    assert time > 0


@pytest.mark.parametrize(("into", "out"), [(0.3, 0.1 + 0.2), (0.1 + 0.2, 0.3), (7.0, 7.0)])
def test_rates_that_differ_by_rounding_are_in_balance(into: float, out: float) -> None:
    """A net rate in the sixteenth digit is no drain that ends in a million years."""
    assert net_rate(out, arrival_rate=into) == 0.0
    assert drain_seconds(1, arrival_rate=into, completion_rate=out) == math.inf


@pytest.mark.parametrize("out", [0.0, 1.0, 2.0])
def test_an_empty_backlog_is_gone_already(out: float) -> None:
    """Without a backlog there is nothing to wait for, whatever the rates."""
    assert drain_seconds(0, arrival_rate=1.0, completion_rate=out) == 0.0


@law
@given(a=jobs, b=jobs, factor=st.integers(1, 1_000), into=rates, gain=positive_rates)
def test_the_drain_is_linear_in_the_backlog(
    a: int, b: int, factor: int, into: float, gain: float
) -> None:
    """The time of a sum is the sum of the times, and k times the backlog takes k times as long."""

    def time(backlog: int) -> float:
        return drain_seconds(backlog, arrival_rate=into, completion_rate=into + gain)

    assume(time(1) < math.inf)
    assert time(a + b) == pytest.approx(time(a) + time(b), rel=1e-9)
    assert time(factor * a) == pytest.approx(factor * time(a), rel=1e-9)
    assert time(0) == 0.0


@law
@given(backlog=jobs, into=rates, c=servers, more=st.integers(0, 300), m=seconds, p=shares)
def test_more_servers_never_drain_later(
    backlog: int, into: float, c: int, more: int, m: float, p: float
) -> None:
    """Adding servers never makes the drain longer."""
    few, many = (
        drain_seconds(
            backlog,
            arrival_rate=into,
            completion_rate=completion_capacity(
                k, service_seconds=m, failure_rate=p, max_attempts=3
            ),
        )
        for k in (c, c + more)
    )
    assert many <= few


@law
@given(backlog=some_jobs, into=rates, by=seconds)
def test_the_needed_rate_meets_its_deadline(backlog: int, into: float, by: float) -> None:
    """Draining at the needed completion rate takes the time that was asked for."""
    rate = needed_completion_rate(backlog, arrival_rate=into, by_seconds=by)
    assume(rate - into > 1e-6 * rate)  # below that the subtraction has too few digits left
    assert drain_seconds(backlog, arrival_rate=into, completion_rate=rate) == pytest.approx(
        by, rel=1e-6
    )


@law
@given(backlog=some_jobs, out=positive_rates, by=seconds)
def test_the_allowed_arrivals_meet_the_deadline(backlog: int, out: float, by: float) -> None:
    """Draining with the allowed arrivals takes the time asked for; below 0 nothing would help."""
    into = needed_arrival_rate(backlog, completion_rate=out, by_seconds=by)
    if into < 0:
        assert drain_seconds(backlog, arrival_rate=0.0, completion_rate=out) > by
        return
    assume(out - into > 1e-6 * out)
    assert drain_seconds(backlog, arrival_rate=into, completion_rate=out) == pytest.approx(
        by, rel=1e-6
    )


@law
@given(backlog=jobs, limit=jobs, into=rates, out=rates)
def test_a_limit_is_reached_only_by_a_backlog_that_grows(
    backlog: int, limit: int, into: float, out: float
) -> None:
    """0 s at or above the limit, infinite below it without growth, else the free jobs over it."""
    time = seconds_to_limit(backlog, limit=limit, arrival_rate=into, completion_rate=out)
    net = net_rate(out, arrival_rate=into)
    if backlog >= limit:
        assert time == 0.0
    elif net >= 0:
        assert time == math.inf
    else:
        assert time * -net == pytest.approx(limit - backlog, rel=1e-9)


@law
@given(into=positive_rates, out=positive_rates)
def test_headroom_and_utilisation_tell_the_same(into: float, out: float) -> None:
    """Headroom is 1/utilisation - 1."""
    room = headroom(out, arrival_rate=into)
    used = utilisation(into, completion_rate=out)
    assert room == pytest.approx(1 / used - 1, rel=1e-6, abs=1e-9)


def test_the_ends_of_headroom_and_utilisation() -> None:
    """Without arrivals the headroom is infinite; without completions any arrival is too much."""
    assert headroom(0.0, arrival_rate=0.0) == math.inf
    assert headroom(0.0, arrival_rate=2.0) == -1.0
    assert utilisation(2.0, completion_rate=0.0) == math.inf
    assert utilisation(0.0, completion_rate=0.0) == 0.0


# Laws of waiting


@law
@given(c=servers, more=st.integers(1, 50), load=st.floats(min_value=0.0, max_value=400.0))
def test_more_servers_never_wait_longer(c: int, more: int, load: float) -> None:
    """Both the chance and the length of a wait fall as servers are added."""
    assert 0.0 <= erlang_c(c + more, offered=load) <= erlang_c(c, offered=load) <= 1.0
    few, many = (mean_wait(k, arrival_rate=load, service_seconds=1.0) for k in (c, c + more))
    assert many <= few


@pytest.mark.parametrize("load", [3.0, 3.5])
def test_a_queue_that_cannot_keep_up_waits_for_ever(load: float) -> None:
    """At and above full load every job waits, and without end."""
    assert erlang_c(3, offered=load) == 1.0
    assert mean_wait(3, arrival_rate=load, service_seconds=1.0) == math.inf


stays = st.lists(st.tuples(st.floats(-50.0, 100.0), st.floats(0.1, 80.0)), min_size=1, max_size=40)


@law
@given(stays=stays)
@example(stays=[(10.0, 5.0), (20.0, 30.0)])
@example(stays=[(-10.0, 15.0), (90.0, 30.0)])
def test_little_holds_but_for_the_edges(stays: list[tuple[float, float]]) -> None:
    """L - λW is no more than the job seconds over the window's edges, and 0 without any."""
    window = 100.0
    inside = sum(max(0.0, min(at + stay, window) - max(at, 0.0)) for at, stay in stays)
    arrived = [stay for at, stay in stays if 0.0 <= at < window]
    assume(arrived)
    before = sum(max(0.0, min(at + stay, window)) for at, stay in stays if at < 0.0)
    after = sum(max(0.0, at + stay - window) for at, stay in stays if 0.0 <= at < window)
    residual = little_residual(
        inside / window,
        arrival_rate=len(arrived) / window,
        sojourn_seconds=sum(arrived) / len(arrived),
    )
    assert abs(residual) <= (before + after) / window + 1e-9
    if before == after == 0.0:
        assert residual == pytest.approx(0.0, abs=1e-9)


def test_little_finds_a_missing_row() -> None:
    """A job of 30 s that is counted but not timed shows as 0.3 jobs over a window of 100 s."""
    residual = little_residual(0.6, arrival_rate=1 / 100, sojourn_seconds=30.0)
    assert residual == pytest.approx(0.3)
