"""The numbers of incidents that were reported in public, as the measures see them."""

from __future__ import annotations

import math

import pytest

from jobplaybook.measures import (
    completion_capacity,
    drain_seconds,
    headroom,
    needed_completion_rate,
    net_rate,
    seconds_to_limit,
)

HOUR, DAY = 3_600.0, 86_400.0


def test_case_01_mikrotik_manager() -> None:
    """drain_seconds: 8.62 days, 3.21 with the intake paused; M/L of 1.59 looked fine."""
    time = drain_seconds(752_318, arrival_rate=1.7, completion_rate=2.71)
    paused = drain_seconds(752_318, arrival_rate=0.0, completion_rate=2.71)
    assert round(time / DAY, 2) == 8.62
    assert round(paused / DAY, 2) == 3.21
    assert round(1 + headroom(2.71, arrival_rate=1.7), 2) == 1.59
    assert round(completion_capacity(12, service_seconds=4.427), 2) == 2.71


def test_case_02_mastodon() -> None:
    """headroom: 2 h down and 20 h to catch up mean 10 %; 4 h would need 1.5 times the arrivals."""
    arrivals = 7.0
    backlog = arrivals * 2 * HOUR
    completions = needed_completion_rate(backlog, arrival_rate=arrivals, by_seconds=20 * HOUR)
    assert headroom(completions, arrival_rate=arrivals) == pytest.approx(0.10)
    faster = needed_completion_rate(backlog, arrival_rate=arrivals, by_seconds=4 * HOUR)
    assert faster / arrivals == pytest.approx(1.5)


def test_case_17_slack() -> None:
    """seconds_to_limit: 10 M free places at the peak of 33,000/s, the day's mean done, 10 min."""
    completions = 1.4e9 / DAY
    time = seconds_to_limit(0, limit=10_000_000, arrival_rate=33_000, completion_rate=completions)
    assert round(time) == 595
    # A full store that blocks the dequeue too has no completions left: it stays full.
    assert drain_seconds(10_000_000, arrival_rate=33_000, completion_rate=0.0) == math.inf


def test_case_18_awa() -> None:
    """seconds_to_limit and drain_seconds: 1.26 M after 211 s; gone 314 s after the last arrival."""
    reached = seconds_to_limit(0, limit=1_260_000, arrival_rate=9_982, completion_rate=4_016)
    gone = drain_seconds(1_260_000, arrival_rate=0.0, completion_rate=4_016)
    assert (round(reached), round(gone)) == (211, 314)


def test_case_22_heroku() -> None:
    """net_rate and headroom: 60,000 waiting after 1 h at 50/s is a deficit of 16.7/s, 33 %."""
    completions = 50 - 60_000 / HOUR
    assert round(net_rate(completions, arrival_rate=50), 1) == -16.7
    assert round(headroom(completions, arrival_rate=50), 2) == -0.33
    reached = seconds_to_limit(0, limit=60_000, arrival_rate=50, completion_rate=completions)
    assert reached == pytest.approx(HOUR)
