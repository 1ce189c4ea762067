"""Since when: the split of a counted series into a lower and a higher rate."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobplaybook.detectors import change
from jobplaybook.detectors.change import Series, rise, series_over
from jobplaybook.units import MICROS

counts = st.lists(st.integers(0, 60), max_size=40)


def fit(series: list[int]) -> float:
    """Return the log-likelihood of one Poisson rate, up to what no split changes."""
    return sum(series) * math.log(sum(series) / len(series)) if sum(series) else 0.0


def by_hand(series: list[int]) -> tuple[float, list[int]]:
    """Return the most evidence that any split has, and the splits that have it."""
    found = {
        cut: fit(series[:cut]) + fit(series[cut:]) - fit(series)
        for cut in range(1, len(series))
        if sum(series[cut:]) / len(series[cut:]) > sum(series[:cut]) / cut
    }
    most = max(found.values(), default=0.0)
    return most, [cut for cut, value in found.items() if value >= most - 1e-9]


@given(counts)
def test_the_split_is_the_best_there_is(series: list[int]) -> None:
    """No other split into a lower and a higher part explains the counts better."""
    most, cuts = by_hand(series)
    found = rise(series)
    if found is None:
        assert most < change.MIN_EVIDENCE + 1e-9
        return
    assert found.index in cuts
    assert found.evidence == pytest.approx(most)
    assert found.evidence >= change.MIN_EVIDENCE
    assert found.before == pytest.approx(sum(series[: found.index]) / found.index)
    assert found.after == pytest.approx(sum(series[found.index :]) / len(series[found.index :]))
    assert found.after > found.before


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 40))
def test_a_clean_step_is_found_where_it_is(before: int, after: int, factor: int) -> None:
    """Nothing, and then at least eleven events in all at a steady rate: the step itself."""
    found = rise([0] * before + [factor] * after)
    evidence = factor * after * math.log((before + after) / after)
    assert (found is not None) is (evidence >= change.MIN_EVIDENCE)
    if found is not None:
        assert (found.index, found.before, found.after) == (before, 0.0, factor)


@given(counts, st.integers(1, 5))
def test_quiet_buckets_in_front_move_the_step_and_nothing_else(
    series: list[int], quiet: int
) -> None:
    """A step after silence stays where it is, however long the silence before it was."""
    found, later = rise([0, 0, *series]), rise([0] * (quiet + 2) + series)
    if found is not None and found.before == 0:
        assert later is not None
        assert later.index == found.index + quiet


@pytest.mark.parametrize("series", [[], [5], [900], [0] * 288, [7] * 288, [9, 9, 9, 1, 1, 1]])
def test_no_rise(series: list[int]) -> None:
    """Nothing, one bucket, a steady rate and a fall have no rise."""
    assert rise(series) is None


def test_a_past_storm_is_not_the_present_one() -> None:
    """Of two bursts the one that still goes on is dated, not the one that is over."""
    found = rise([1] * 100 + [40] * 6 + [1] * 150 + [40] * 24)
    assert found is not None
    assert found.index == 256


@pytest.mark.parametrize(("events", "found"), [(2, False), (3, True)])
def test_evidence_has_a_floor(events: int, found: bool) -> None:
    """Two events against 287 empty buckets are 2 ln 144 = 9.9 nats: chance; three are 14.9."""
    assert (rise([0] * 286 + [events - 1, 1]) is not None) is found


@pytest.mark.parametrize("rate", [0.05, 0.5, 3.0, 20.0])
def test_chance_is_no_rise(rate: float) -> None:
    """At a steady rate fewer than one day in a thousand shows a rise (400 days each here)."""
    rng = random.Random(20)
    alarms = sum(rise([poisson(rng, rate) for _ in range(288)]) is not None for _ in range(400))
    assert alarms <= 1


def poisson(rng: random.Random, rate: float) -> int:
    count, left = 0, math.exp(-rate)
    product = rng.random()
    while product > left:
        count, product = count + 1, product * rng.random()
    return count


# Buckets


@given(st.integers(-(10**16), 10**16), st.integers(0, 10**13))
def test_every_moment_of_a_span_has_its_bucket(since: int, length: int) -> None:
    """The buckets cover the span from end to end, at most 288 of them, a second at least each."""
    empty = series_over(since, since + length)
    assert 1 <= len(empty.counts) <= 288
    assert empty.width >= MICROS
    assert (empty.begin, empty.index(since)) == (since, 0)
    assert empty.index(since + length) == len(empty.counts) - 1
    starts = [empty.time(index) for index in range(len(empty.counts) + 1)]
    assert all(later - earlier == empty.width for earlier, later in pairwise(starts))
    assert starts[-2] <= since + length < starts[-1]


def test_counts_are_put_where_they_belong() -> None:
    """Counts of one bucket add up, all others are 0, and the buckets stay as they were."""
    empty = Series(begin=50, width=10, counts=(0, 0, 0))
    assert empty.of([(2, 4), (0, 1), (2, 3)]) == Series(begin=50, width=10, counts=(1, 0, 7))
    assert empty.counts == (0, 0, 0)


def test_a_span_that_ends_before_it_begins_is_one_bucket() -> None:
    """An odd clock makes no negative number of buckets."""
    assert len(series_over(100, 50).counts) == 1
