"""Detectors of retries and herds: each condition from both of its sides."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobplaybook.detectors.findings import BlastRadius
from jobplaybook.detectors.retries import attempts_per_completion, herds
from jobplaybook.detectors.signs import Waking
from jobplaybook.units import MICROS
from tests.canonical import ago
from tests.signs import retried, series, waking
from tests.situations import HOUR, codes, facts, judged, of, only, queue, waiting

TICK = 1 / MICROS
GROWING: dict[str, Any] = {"age": HOUR, "rates": (900, 100)}


# retry-storm


@pytest.mark.parametrize(
    ("retries", "completions", "found"), [(20, 40, True), (19, 9, False), (20, 41, False)]
)
def test_a_storm_is_far_above_what_is_usual(retries: int, completions: int, found: bool) -> None:
    """retry-storm: twenty retries, and 1.5 times the attempts per completion of before."""
    assert ("retry-storm" in codes(retrying=(retried(retries, completions),))) is found


@pytest.mark.parametrize(("retries", "found"), [(38, True), (37, False)])
def test_what_is_usual_lies_before_the_rise(retries: int, found: bool) -> None:
    """retry-storm: 1.5 attempts were usual, so it takes 2.25; the storm itself is not counted."""
    storm = retried(
        retries,
        30,
        tried=series((280, 1), (8, 20)),
        completed=series((280, 2), (8, 10)),
    )
    answer = judged(retrying=(storm,))
    assert bool(of(answer, "retry-storm")) is found
    for finding in of(answer, "retry-storm"):
        assert finding.evidence["usual_attempts_per_completion"] == 1.5
        assert finding.since == ago(8 * 300)
        assert finding.sure


@pytest.mark.parametrize(
    ("before", "retries", "found", "sure"),
    [
        (20, 20, True, True),
        (19, 20, False, True),
        (19, 179, False, True),
        (19, 180, True, False),
    ],
)
def test_a_new_type_needs_many_more(before: int, retries: int, found: bool, sure: bool) -> None:
    """retry-storm: with fewer than 20 completions before, 10 attempts per completion, inferred."""
    storm = retried(retries, 20, completed=series((279, 0), (1, before), (8, 2)))
    answer = judged(retrying=(storm,))
    assert [f.sure for f in of(answer, "retry-storm")] == [sure] * found


@pytest.mark.parametrize(
    ("tried", "found"),
    [
        (series((288, 30)), False),
        (series((6, 30)), False),
        (series((5, 30)), True),
        (series((280, 30), (8, 2)), False),
    ],
)
def test_steady_retries_are_a_types_way(tried: Any, found: bool) -> None:
    """retry-storm: no rise in twice the rate window is none; a shorter past tells of no way."""
    storm = retried(500, 9, tried=tried, completed=series((len(tried.counts), 3)))
    assert ("retry-storm" in codes(retrying=(storm,))) is found


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        (queue(), "ticket"),
        (waiting(90, age=61, rates=(900, 100)), "ticket"),
        (waiting(90, **GROWING), "page"),
        (waiting(90, **GROWING, name="other"), "ticket"),
        (waiting(90, age=HOUR, rates=(100, 900)), "ticket"),
    ],
)
def test_a_storm_is_as_grave_as_the_backlog_of_its_queue(state: Any, severity: str) -> None:
    """retry-storm: a ticket, a page where its own queue's backlog is one."""
    assert (
        only("retry-storm", retrying=(retried(60, 6),), queues=(state,)).severity.word == severity
    )


@pytest.mark.parametrize(("quick", "hot"), [(30, True), (29, False)])
def test_half_without_a_delay_is_a_hot_loop(quick: int, hot: bool) -> None:
    """retry-storm: at least half of the retries within a second make a hot loop."""
    found = only("retry-storm", retrying=(retried(60, 6, quick=quick),))
    assert ("a hot loop" in found.sentence) is hot
    assert found.next[0].startswith("Stop the loop first") is hot


def test_a_storm_is_told_with_its_numbers() -> None:
    """retry-storm: type, queue, how often, of how many, against what before; whom it hits."""
    found = only("retry-storm", retrying=(retried(60, 6, job_ids=("9", "10"), most=7),))
    assert found.sentence == (
        "charge in queue mail was tried again 60 times in the last 15 min: 30 jobs, one of them "
        "7 times; 11.0 attempts per completion (1.00 before)."
    )
    assert found.radius == BlastRadius(jobs=30, tenants=3, types=1)
    assert found.job_ids == ("9", "10")
    assert found.evidence["retry_share"] == pytest.approx(60 / 66)
    blind = only("retry-storm", retrying=(retried(60, 6),), facts=facts("tenant"))
    assert blind.radius.tenants is None


def test_types_of_one_queue_are_one_storm() -> None:
    """retry-storm: a finding a queue, its worst type in the sentence and the others by name."""
    later = series((284, 0), (4, 20))
    storms = (
        retried(40, 4, job_type="mail", jobs=7),
        retried(60, 6, tried=later),
        retried(30, 4, job_type=None, jobs=2, tried=later),
        retried(90, 4, queue="other"),
    )
    own = of(judged(retrying=storms), "retry-storm")
    assert [(f.evidence["queue"], f.count) for f in own] == [("mail", 130), ("other", 90)]
    assert own[0].sentence.startswith("charge in queue mail was tried again 60 times")
    assert own[0].sentence.endswith(" So are mail, unknown type.")
    assert own[0].evidence["others"] == [
        {"job_type": "mail", "retries": 40},
        {"job_type": None, "retries": 30},
    ]
    assert own[0].radius == BlastRadius(jobs=39, tenants=None, types=3)
    assert own[0].since == ago(8 * 300)
    two = of(judged(retrying=storms[:2]), "retry-storm")
    assert two[0].sentence.endswith(" So is mail.")


def test_no_completion_is_no_number() -> None:
    """retry-storm: where nothing completes the answer is in words, and null in JSON."""
    found = only("retry-storm", retrying=(retried(60, 0, job_type=None, queue=None),))
    assert "no completion (1.00 before)" in found.sentence
    assert found.sentence.startswith("A job of unknown type in queue (no queue)")
    assert found.evidence["attempts_per_completion"] is None


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_attempts_per_completion(retries: int, completions: int) -> None:
    """1 without retries, 1 + R/C with them, endless where nothing completes; never below 1."""
    each = attempts_per_completion(retries, completions)
    assert each >= 1.0
    assert math.isinf(each) is (retries > 0 and completions == 0)
    if completions:
        assert each * completions == pytest.approx(completions + retries)


# retry-herd


@pytest.mark.parametrize(
    ("jobs", "peak", "found"),
    [(100, 20, True), (99, 1, False), (100, 21, False), (101, 20, True), (100, None, True)],
)
def test_a_herd_takes_minutes_to_claim(jobs: int, peak: int | None, found: bool) -> None:
    """retry-herd: a hundred jobs, and five minutes to claim them at the best minute seen."""
    peaks = {} if peak is None else {"mail": peak}
    answer = judged(wakings=(waking(jobs, ahead=600),), peak_claims=peaks)
    assert [f.sure for f in of(answer, "retry-herd")] == [peak is not None] * found


@pytest.mark.parametrize(("apart", "found"), [(60 - TICK, True), (60, False)])
def test_a_herd_wakes_within_a_minute(apart: float, found: bool) -> None:
    """retry-herd: what wakes a minute later is no part of it."""
    both = (waking(50, ahead=600), waking(50, ahead=600 + apart))
    assert ("retry-herd" in codes(wakings=both)) is found


@pytest.mark.parametrize(
    ("retries", "severity", "said"),
    [
        (200, "ticket", "200 parked retries of queue mail wake within a minute at 03:10:00Z"),
        (100, "ticket", "200 parked jobs (100 retries) of queue mail wake"),
        (99, "note", "200 parked jobs (99 retries) of queue mail wake"),
        (0, "note", "200 scheduled jobs of queue mail wake"),
    ],
)
def test_a_planned_batch_is_a_note(retries: int, severity: str, said: str) -> None:
    """retry-herd: a ticket where half of them are retries; a batch is somebody's intention."""
    found = only(
        "retry-herd", wakings=(waking(200, ahead=600, retries=retries),), peak_claims={"mail": 10}
    )
    assert found.severity.word == severity
    assert said in found.sentence
    assert "in 10 min: at its best minute this queue claimed 10/min" in found.sentence
    assert "the last of them waits 20 min" in found.sentence
    assert (found.count, found.evidence["claim_seconds"]) == (200, 1_200.0)
    assert found.evidence["scheduled"] == 200 - retries


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", None]), st.integers(0, 300), st.integers(0, 80)),
        max_size=30,
    )
)
def test_no_minute_is_fuller_than_the_herd(parked: list[tuple[str | None, int, int]]) -> None:
    """herds: per queue the fullest minute there is, by counting every one of them."""
    wakings = sorted(
        (
            Waking(queue=name, wakes_at=ago(-10 * step), jobs=jobs, retries=jobs // 2)
            for name, step, jobs in parked
        ),
        key=lambda each: each.wakes_at,
    )
    told = {herd.queue: herd for herd in herds(wakings)}
    for name in ("a", None):
        own = [each for each in wakings if each.queue == name]
        fullest = max(
            (
                sum(each.jobs for each in own if 0 <= each.wakes_at - first.wakes_at < 60 * MICROS)
                for first in own
            ),
            default=0,
        )
        assert (name in told) is (fullest >= 100)
        if name in told:
            assert told[name].jobs == fullest
