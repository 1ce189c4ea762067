"""Frames: what their schemas demand, and that their numbers are those of the rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pandas as pd
import pytest

import jobplaybook as jp
from jobplaybook.errors import SchemaError
from jobplaybook.frames import FLOW, OLDEST_AGE, STANDING, Buckets, buckets_of, check_frame
from jobplaybook.frames import oldest_ages as swept_ages
from jobplaybook.queries import flow as flow_queries
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.units import MICROS, parse_time

SAMPLES = ("killed", "healthy")


# The border


def good() -> pd.DataFrame:
    return pd.DataFrame(
        {"jobs": [3], "oldest_seconds": [1.5], "state": ["available"], "queue": ["mail"]}
    )


def test_check_frame_puts_columns_in_order() -> None:
    """What comes in any order goes out in the schema's."""
    assert list(check_frame(good(), STANDING).columns) == list(STANDING)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop(columns="jobs"), "expected the columns"),
        (lambda frame: frame.assign(more=1), "expected the columns"),
        (lambda frame: frame.assign(jobs=1.5), "column jobs as int64, found float64"),
        (lambda frame: frame.assign(state=7), "column state as text, found int64"),
        (
            lambda frame: frame.assign(state=pd.Series([None], dtype="object")),
            "no hole in column state",
        ),
    ],
)
def test_check_frame_refuses(change: Callable[[pd.DataFrame], pd.DataFrame], said: str) -> None:
    """A missing, unknown or mistyped column and a forbidden hole are each named."""
    with pytest.raises(SchemaError, match=said):
        check_frame(change(good()), STANDING)


def test_a_hole_is_allowed_where_the_schema_says_so() -> None:
    """A job without a queue is a job."""
    frame = good().assign(queue=pd.Series([None], dtype="object"), oldest_seconds=float("nan"))
    assert len(check_frame(frame, STANDING)) == 1


@pytest.mark.parametrize("schema", [STANDING, FLOW, OLDEST_AGE])
def test_every_column_says_what_it_is(schema: dict[str, Any]) -> None:
    """Times and durations carry their unit, in the schema and in the name."""
    assert all(column.doc for column in schema.values())
    assert all(name.endswith("_seconds") == (c.unit == "s") for name, c in schema.items())
    assert all(name.endswith("_at") == (c.unit == "UTC") for name, c in schema.items())


# Steps of time


@hypothesis.given(since=st.integers(0, 10**15), length=st.integers(0, 10**14))
def test_buckets_cover_the_window(since: int, length: int) -> None:
    """Steps are equal, begin at a multiple of their width, and end with the window."""
    steps = buckets_of(since, since + length)
    ends = steps.ends()
    assert steps.first <= since
    assert steps.first % steps.width == 0
    assert ends[-1] == since + length
    assert len(ends) == len(steps) <= 121
    assert all(b - a == steps.width for a, b in pairwise(ends[:-1]))


@hypothesis.given(st.integers(0, 10**13), st.integers(1, 10**12), st.integers(0, 10**12))
def test_a_moment_falls_into_its_bucket(since: int, length: int, offset: int) -> None:
    """A moment in the window lies between the beginning and the end of its step."""
    steps = buckets_of(since, since + length)
    at = since + offset % (length + 1)
    end = steps.ends()[steps.index(at)]
    assert end - steps.width <= at <= end or end == steps.until


# The oldest claimable job


def brute_ages(intervals: list[tuple[int, int | None]], steps: Buckets) -> list[int]:
    """Return the same by looking at every interval in every step."""
    ages = []
    begin = steps.first
    for end in steps.ends():
        met = [
            min(end if to is None else to, end) - since
            for since, to in intervals
            if since <= end and (to is None or to >= begin)
        ]
        ages.append(max(met, default=0))
        begin = end
    return ages


waits = st.lists(
    st.tuples(st.integers(-50, 120), st.none() | st.integers(0, 80)).map(
        lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
    ),
    max_size=40,
)


@hypothesis.given(waits, st.integers(1, 40), st.integers(0, 20))
def test_the_sweep_agrees_with_looking_at_everything(
    intervals: list[tuple[int, int | None]], width: int, extra: int
) -> None:
    """The sweep finds the same ages as the slow way that needs no thought."""
    steps = Buckets(first=0, until=width * 3 + extra, width=width)
    met = [i for i in intervals if i[0] <= steps.until and (i[1] is None or i[1] >= 0)]
    met.sort(key=lambda interval: interval[0])
    assert swept_ages(met, steps) == brute_ages(met, steps)


def test_ages_by_hand() -> None:
    """A job that waits from 2 to 7 is 3 old at the end of the first step and 5 in the second."""
    steps = Buckets(first=0, until=15, width=5)
    assert swept_ages([(2, 7)], steps) == [3, 5, 0]
    assert swept_ages([(2, 7), (4, None)], steps) == [3, 6, 11]


def test_no_interval_no_age() -> None:
    """Where nothing waits the age is 0, not unknown."""
    assert swept_ages([], Buckets(first=0, until=10, width=5)) == [0, 0]


# Frames of real snapshots


@pytest.mark.parametrize("name", SAMPLES)
def test_standing_adds_up_to_the_verdict(name: str) -> None:
    """The jobs by queue and state are all the jobs that triage counted."""
    with jp.open_snapshot(str(jp.sample_path(name))) as snapshot:
        seen = jp.triage(snapshot).situation
        frame = jp.standing(snapshot, now=seen.seen_until)
    assert frame.groupby("state")["jobs"].sum().to_dict() == dict(seen.states)
    assert (frame["oldest_seconds"] >= 0).all()


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("bucket_seconds", [None, 1.0, 37.5, 10_000.0])
def test_flow_holds_every_event_once(name: str, bucket_seconds: float | None) -> None:
    """Whatever the buckets, their sums are the events of the window, and no queue has a gap."""
    with jp.open_snapshot(str(jp.sample_path(name))) as snapshot:
        seen = jp.triage(snapshot).situation
        since, until = seen.window_from, seen.seen_until
        frame = jp.flow(snapshot, since=since, until=until, bucket_seconds=bucket_seconds)
        totals = snapshot.rows(flow_queries.totals(since, until))
    for kind, column in (
        ("arrival", "arrivals"),
        ("claim", "claims"),
        ("completion", "completions"),
        ("dead", "dead"),
    ):
        expected = {row[1]: row[2] for row in totals if row[0] == kind}
        found = frame.groupby("queue")[column].sum()
        assert {queue: n for queue, n in found.items() if n} == expected
    assert frame.groupby("queue").size().nunique() == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_oldest_age_of_a_snapshot_agrees_with_looking_at_everything(name: str) -> None:
    """The series of the sample is what its intervals say, to the microsecond."""
    with jp.open_snapshot(str(jp.sample_path(name))) as snapshot:
        seen = jp.triage(snapshot).situation
        since, until = seen.window_from, seen.seen_until
        frame = jp.oldest_age(snapshot, since=since, until=until)
        rows = snapshot.rows(flow_queries.claimable_intervals(since, until))
        first = min(row[3] for row in snapshot.rows(flow_queries.totals(since, until)))
    steps = buckets_of(first, until)
    for queue in {row[0] for row in rows}:
        expected = brute_ages([(a, b) for name, a, b in rows if name == queue], steps)
        found = frame.loc[frame["queue"] == queue, "oldest_claimable_age_seconds"]
        assert found.tolist() == [age / MICROS for age in expected]


def test_a_backlog_is_as_old_in_the_series_as_in_the_verdict(
    recording: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With jobs that wait, the last value of a queue's line is the age that triage says."""
    monkeypatch.setenv("JOBS_URL", recording("after_kill"))
    jp.capture("env:JOBS_URL", tmp_path / "a.db")
    with jp.open_snapshot(str(tmp_path / "a.db")) as snapshot:
        seen = jp.triage(snapshot).situation
        frame = jp.oldest_age(snapshot, since=seen.window_from, until=seen.seen_until)
    ends = frame.groupby("queue")["oldest_claimable_age_seconds"].last().to_dict()
    waiting = {q.queue: q.oldest_at for q in seen.queues if q.oldest_at is not None}
    assert waiting, "the recording has jobs that wait"
    for queue, oldest_at in waiting.items():
        assert ends[queue] == pytest.approx((seen.seen_until - oldest_at) / MICROS)


def test_what_came_has_ended_or_is_unfinished(
    recording: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrivals less endings of every kind are the unfinished jobs, cancelled ones included."""
    monkeypatch.setenv("JOBS_URL", recording("final"))
    options = CaptureOptions(now=parse_time("2026-12-01T03:50:00Z"))
    jp.capture("env:JOBS_URL", tmp_path / "a.db", options=options)
    with jp.open_snapshot(str(tmp_path / "a.db")) as snapshot:
        seen = jp.triage(snapshot).situation
        frame = jp.flow(snapshot, since=seen.window_from, until=seen.seen_until)
    total = frame.drop(columns=["queue", "until_at"]).sum()
    ended = total["completions"] + total["dead"] + total["cancelled"]
    assert (total["dead"], total["cancelled"]) == (17, 1)
    assert total["arrivals"] - ended == seen.counts["pending"] + seen.counts.get("processing", 0)


def test_an_empty_window_makes_empty_frames(tmp_path: Path) -> None:
    """A moment in which nothing happened is no error."""
    with jp.open_snapshot("sample") as snapshot:
        flow = jp.flow(snapshot, since=0, until=MICROS)
        ages = jp.oldest_age(snapshot, since=0, until=MICROS)
    assert (len(flow), len(ages)) == (0, 0)
