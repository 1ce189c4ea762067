"""Detectors of queues, dead letters and blind spots: each condition from both of its sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobplaybook.detectors import flow
from jobplaybook.detectors.blindness import QUESTIONS
from jobplaybook.detectors.findings import BlastRadius
from jobplaybook.model import Severity
from jobplaybook.units import MICROS
from tests.canonical import ago
from tests.situations import (
    DAY,
    HOUR,
    codes,
    dead,
    facts,
    held,
    judged,
    of,
    queue,
    silent,
    situation,
    waiting,
)

TICK = 1 / MICROS


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (silent(30, seconds=60), True),
        (silent(30, seconds=60 - TICK), False),
        (silent(9, seconds=60), False),
        (silent(10, seconds=60), True),
        (silent(30, seconds=60, paused_at=ago(5)), False),
        (silent(30, seconds=60, last_claim_at=ago(59)), False),
        (silent(30, seconds=60, last_completion_at=ago(59)), False),
        (silent(30, seconds=60, oldest_at=ago(59)), False),
        (silent(30, seconds=60, oldest_at=None), False),
        (silent(0, seconds=60, oldest_at=None), False),
        (silent(30, seconds=60, live=4), True),
    ],
)
def test_the_rate_before_proves_a_silence(state: Any, found: bool) -> None:
    """queue-stalled: a minute's silence is enough where ten of the waiting jobs were due."""
    busy = replace(state, claims_before=DAY)
    assert ("queue-stalled" in codes(queues=(busy,))) is found


@pytest.mark.parametrize("rate", [10.0, 9.99])
def test_ten_claims_must_have_been_due(rate: float) -> None:
    """queue-stalled: ten expected claims in the silence prove it, fewer do not."""
    span = DAY - 200
    state = silent(50, seconds=200, claims_before=round(rate / 200 * span))
    assert ("queue-stalled" in codes(queues=(state,))) is (rate >= 10)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"seconds": 300}, True),
        ({"seconds": 300 - TICK}, False),
        ({"seconds": 300, "live": 1}, False),
        ({"seconds": 300, "normal_wait_seconds": 100.0}, True),
        ({"seconds": 300, "normal_wait_seconds": 100.1}, False),
        ({"seconds": 300, "normal_wait_seconds": None, "claims_before": 0}, True),
        ({"seconds": 300, "last_claim_at": None, "last_completion_at": None}, True),
    ],
)
def test_a_long_silence_needs_no_rate(change: dict[str, Any], found: bool) -> None:
    """queue-stalled: five minutes, or three normal waits, while no run in order explains it."""
    state = silent(3, **{"claims_before": 2, **change})
    answer = judged(queues=(state,))
    assert bool(of(answer, "queue-stalled")) is found
    assert [f.sure for f in of(answer, "queue-stalled")] == [False] * found


@pytest.mark.parametrize(("count", "severity"), [(9, "ticket"), (10, "page")])
def test_a_few_jobs_that_stand_still_wake_nobody(count: int, severity: str) -> None:
    """queue-stalled: a page from ten jobs on; a forgotten queue with three is a ticket."""
    (finding,) = of(judged(queues=(silent(count, seconds=DAY),)), "queue-stalled")
    assert finding.severity.word == severity


def test_no_silence_is_longer_than_what_was_looked_at() -> None:
    """queue-stalled: before the window nobody looked, so nothing there counts as silence."""
    state = silent(50, seconds=10 * HOUR, claims_before=0, last_claim_at=None)
    state = replace(state, last_completion_at=None)
    assert "queue-stalled" in codes(queues=(state,), window_from=ago(300))
    assert "queue-stalled" not in codes(queues=(state,), window_from=ago(299))


def test_quiet_hours_belong_to_the_rate() -> None:
    """queue-stalled: after a nightly burst, a job that waits a minute at noon is no stand-still."""
    burst = silent(
        20, seconds=10 * HOUR, claims_before=1_000, first_at=ago(10 * HOUR + 600), oldest_at=ago(61)
    )
    assert flow.expected_claims(situation(), burst, 61) == pytest.approx(1.67, abs=0.01)
    assert "queue-stalled" not in codes(queues=(burst,))


@pytest.mark.parametrize(
    ("absent", "found", "said"),
    [
        (("claimed_at", "attempt_times"), True, "nothing was completed for"),
        (("finished_at",), True, "nothing was claimed for"),
        (("claimed_at", "attempt_times", "finished_at"), False, ""),
    ],
)
def test_what_is_not_recorded_is_no_silence(
    absent: tuple[str, ...], found: bool, said: str
) -> None:
    """queue-stalled: where neither claims nor ends are recorded, their absence says nothing."""
    answer = judged(queues=(silent(50, seconds=HOUR),), facts=facts(*absent))
    assert [said in f.sentence for f in of(answer, "queue-stalled")] == [True] * found
    assert all(not f.sure for f in of(answer, "queue-stalled"))


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        (queue(waiting=3, due=1, paused_at=ago(HOUR)), "ticket"),
        (queue(waiting=3, paused_at=ago(HOUR)), "note"),
        (queue(paused_at=ago(HOUR)), None),
        (queue(waiting=3, due=3), None),
    ],
)
def test_a_paused_queue_is_told_once_something_waits(state: Any, severity: str | None) -> None:
    """queue-paused: a ticket while due jobs wait, a note while none is due, else nothing."""
    found = of(judged(queues=(state,)), "queue-paused")
    assert [finding.severity.word for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("age", "normal", "found"),
    [
        (60 - TICK, 1.0, False),
        (60, 1.0, True),
        (300, 100.0, False),
        (300 + TICK, 100.0, True),
        (300 - TICK, None, False),
        (300, None, True),
    ],
)
def test_a_backlog_is_older_than_its_normal(age: float, normal: float | None, found: bool) -> None:
    """backlog: a minute at least, three times the normal wait, five minutes where none is known."""
    state = waiting(9, age=age, rates=(90, 50), normal_wait_seconds=normal)
    answer = judged(queues=(state,))
    assert bool(of(answer, "backlog-growing")) is found
    assert [f.sure for f in of(answer, "backlog-growing")] == [normal is not None] * found


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"rates": (100, 101)}, "backlog-draining", "ticket"),
        ({"rates": (100, 100)}, "backlog-growing", "page"),
        ({"rates": (100, 101), "dead": 0}, "backlog-draining", "ticket"),
        ({"rates": (100, 50), "dead": 51}, "backlog-draining", "ticket"),
        ({"rates": (100, 900)}, "backlog-draining", "note"),
        ({"rates": (900, 100), "age": 900 - TICK}, "backlog-growing", "ticket"),
        ({"rates": (900, 100), "age": 900}, "backlog-growing", "page"),
        ({"rates": (0, 0), "live": 4}, "backlog-growing", "ticket"),
        ({"rates": (9, 0)}, "backlog-growing", "ticket"),
        ({"rates": (10, 0)}, "backlog-growing", "page"),
        ({"rates": (100, 99), "recent_wait_seconds": 59.9}, "backlog-growing", "ticket"),
        ({"rates": (100, 99), "recent_wait_seconds": 60.0}, "backlog-growing", "page"),
        ({"rates": (900, 100), "recent_wait_seconds": 1.0}, "backlog-growing", "page"),
    ],
)
def test_a_backlog_grows_or_drains(change: dict[str, Any], code: str, severity: str) -> None:
    """backlog: by what comes and what leaves, dead ones too; an old one that grows is a page."""
    state = waiting(90, **{"age": HOUR, **change})
    (finding,) = (f for f in judged(queues=(state,)).findings if f.code.startswith("backlog"))
    assert (finding.code, finding.severity.word) == (code, severity)


@pytest.mark.parametrize(("backlog", "severity"), [(400, "note"), (401, "ticket")])
def test_a_long_drain_is_a_ticket(backlog: int, severity: str) -> None:
    """backlog-draining: a ticket where it takes more than an hour, at 100 a quarter hour net."""
    state = waiting(backlog, age=HOUR, rates=(100, 200))
    (finding,) = of(judged(queues=(state,)), "backlog-draining")
    assert finding.severity.word == severity
    assert finding.evidence["drain_seconds"] == pytest.approx(backlog * 9.0)


def test_the_whole_backlog_has_to_go() -> None:
    """backlog-draining: jobs behind their shard are part of what has to drain, not of the age."""
    state = replace(waiting(5, age=HOUR, rates=(0, 90)), due=900, waiting=900)
    (finding,) = of(judged(queues=(state,)), "backlog-draining")
    assert (finding.count, finding.evidence["drain_seconds"]) == (900, 9_000.0)


@pytest.mark.parametrize("absent", ["created_at", "finished_at"])
def test_no_missing_fact_becomes_a_rate(absent: str) -> None:
    """backlog: where arrivals or ends are not recorded no rate, no drain and no page is made up."""
    answer = judged(queues=(waiting(90, age=HOUR, rates=(0, 0)),), facts=facts(absent))
    (finding,) = of(answer, "backlog-growing")
    assert (finding.sure, finding.severity) == (False, Severity.TICKET)
    assert finding.evidence["net_rate"] is None
    assert finding.evidence["drain_seconds"] is None
    assert "whether it grows is not known" in finding.sentence


def test_rates_come_with_their_window() -> None:
    """backlog: the sentence and the evidence say over how long the rates were taken."""
    (finding,) = of(judged(queues=(waiting(90, age=HOUR, rates=(900, 30)),)), "backlog-growing")
    assert "60/min in, 2.0/min done over 15 min" in finding.sentence
    assert finding.evidence["rate_window_seconds"] == 900.0


# Dead letters and missing facts


@pytest.mark.parametrize(
    ("letters", "finished", "found"),
    [
        (dead(2, age=5 * HOUR), 2, False),
        (dead(3, age=5 * HOUR), 300, True),
        (dead(3, age=5 * HOUR), 301, False),
        (dead(3, age=HOUR), 10_000, True),
        (dead(3, age=HOUR + 1), 10_000, False),
        ((*dead(23, age=5 * HOUR), *dead(3)), 10_000, False),
        ((*dead(23, age=5 * HOUR), *dead(4)), 10_000, False),
        ((*dead(23, age=5 * HOUR), *dead(5)), 10_000, True),
    ],
)
def test_dead_letters_grow(letters: Any, finished: int, found: bool) -> None:
    """dead-letters-growing: three, and 1 % of what finished or 3 sigma above the usual hour."""
    assert ("dead-letters-growing" in codes(dead=letters, finished_in_window=finished)) is found


@pytest.mark.parametrize(("looked", "found"), [(2 * HOUR, True), (2 * HOUR - 1, False)])
def test_growth_needs_a_past(looked: float, found: bool) -> None:
    """dead-letters-growing: a window without an hour before the last one knows no usual."""
    answer = judged(dead=dead(3), finished_in_window=10_000, window_from=ago(looked))
    assert bool(of(answer, "dead-letters-growing")) is found


def test_growth_is_dated_from_the_hour_it_began() -> None:
    """dead-letters-growing: since the first of the growth, not since the oldest of a trickle."""
    letters = (*dead(1, age=20 * HOUR), *dead(30, age=600))
    (finding,) = of(judged(dead=letters, finished_in_window=99_999), "dead-letters-growing")
    assert finding.since == ago(600)
    assert "30 in the last hour where" in finding.sentence


@pytest.mark.parametrize("fact", QUESTIONS)
def test_every_missing_fact_is_told_with_its_question(fact: str) -> None:
    """data-blind: which fact is missing, and what goes unanswered without it."""
    (finding,) = of(judged(facts=facts(fact)), "data-blind")
    assert finding.evidence["missing"] == {fact: QUESTIONS[fact]}
    assert fact.replace("_", " ") in finding.sentence
    assert judged().findings == ()


@pytest.mark.parametrize(
    ("change", "severity"),
    [
        ({"facts": facts("lease", "heartbeat")}, "note"),
        ({"facts": facts("lease", "heartbeat"), "held": (held(lease=None),)}, "ticket"),
        ({"facts": facts("lease"), "held": (held(lease=None),)}, "note"),
        ({"not_read": {"vitals": "refused"}}, "note"),
        ({"not_read": {"unfinished": "out of time"}}, "ticket"),
    ],
)
def test_blindness_is_grave_where_it_hides_work(change: dict[str, Any], severity: str) -> None:
    """data-blind: a ticket where running jobs may be dead, or unfinished ones were not read."""
    (finding,) = of(judged(**change), "data-blind")
    assert finding.severity.word == severity


# Words and figures


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            silent(1, seconds=300, claims_before=1, arrivals=1, live=0),
            "Queue mail stands still: 1 job could be claimed, nothing was claimed or completed for "
            "5 min. Intake is safe: 1 came in the last 15 min and is stored.",
        ),
        (
            silent(2_000, seconds=600, claims_before=DAY - 600, arrivals=600, live=1, name=None),
            "Queue (no queue) stands still: 2,000 jobs could be claimed, nothing was claimed or "
            "completed for 10 min, where about 600 claims were due. 1 job still runs: busy "
            "workers, or stuck. Intake is safe: 600 came in the last 15 min and are stored.",
        ),
        (
            queue(waiting=1, due=1, paused_at=ago(HOUR)),
            "Queue mail is paused since 02:00:00Z: 1 job waits until somebody resumes it.",
        ),
        (
            queue(waiting=30, due=4, paused_at=ago(DAY)),
            "Queue mail is paused since 2026-11-30 03:00:00Z: 30 jobs, 4 of them due, wait until "
            "somebody resumes it.",
        ),
        (
            waiting(90, age=HOUR, rates=(90, 30), dead=15),
            "Queue mail has 90 jobs waiting, the oldest for 1 h (normal is under 10 s); 6.0/min "
            "in, 2.0/min done, 1.0/min dead over 15 min: it never clears at this rate.",
        ),
        (
            waiting(1, age=HOUR, rates=(1, 0), live=1, normal_wait_seconds=None),
            "Queue mail has 1 job waiting, the oldest for 1 h (what is normal is not known); 4.0/h "
            "in, 0/min done over 15 min: too few came and ended to tell where it goes, 1 job still "
            "running.",
        ),
        (
            waiting(20, age=DAY, rates=(100, 100), recent_wait_seconds=3.0),
            "Queue mail has 20 jobs waiting, the oldest for 1 d (normal is under 10 s); 6.7/min "
            "in, 6.7/min done over 15 min: it never clears at this rate, though claims wait under "
            "3.0 s: the oldest is passed over.",
        ),
    ],
    ids=["few", "many", "paused", "partly due", "growing", "quiet", "passed over"],
)
def test_sentences(change: Any, sentence: str) -> None:
    """A sentence says which queue, how many, how long, at what rate over which window."""
    assert judged(queues=(change,)).verdict.sentence == sentence


@pytest.mark.parametrize(("rates", "sure"), [((60, 40), False), ((61, 39), True)])
def test_a_difference_within_the_scatter_is_inferred(rates: tuple[int, int], sure: bool) -> None:
    """backlog: counts scatter by their square root; less than two of them apart is not sure."""
    (finding,) = of(judged(queues=(waiting(90, age=HOUR, rates=rates),)), "backlog-growing")
    assert finding.sure is sure


@pytest.mark.parametrize("absent", [None, "created_at", "finished_at"])
def test_rates_in_the_evidence(absent: str | None) -> None:
    """backlog: arrivals and completions per second, null where the system records none."""
    state = waiting(90, age=HOUR, rates=(1_800, 450), dead=450)
    answer = judged(queues=(state,), facts=facts(*[absent] if absent else []))
    evidence = of(answer, "backlog-growing")[0].evidence
    wanted = {"arrival_rate": 2.0, "completion_rate": 0.5, "net_rate": -1.0}
    missing = {"created_at": "arrival_rate", "finished_at": "completion_rate"}
    if absent:
        wanted |= {missing[absent]: None, "net_rate": None}  # type: ignore[dict-item]
    assert {name: evidence[name] for name in wanted} == wanted


@pytest.mark.parametrize(("claims", "known"), [(1, False), (2, True)])
def test_one_claim_is_no_rate(claims: int, known: bool) -> None:
    """expected_claims: two claims at least make a rate; it is never more than what waits."""
    state = silent(5, seconds=60, claims_before=claims)
    assert (flow.expected_claims(situation(), state, 60) is not None) is known
    busy = silent(5, seconds=60, claims_before=DAY)
    assert flow.expected_claims(situation(), busy, 60) == 5.0


def test_whose_jobs_wait() -> None:
    """backlog: tenants only where the system says whose jobs are; no type known is not 0 types."""
    state = waiting(90, age=HOUR, tenants=3, types=0)
    assert judged(queues=(state,)).verdict.radius == BlastRadius(jobs=90, tenants=3, types=None)
    blind = judged(queues=(state,), facts=facts("tenant")).verdict
    assert blind.radius.tenants is None
