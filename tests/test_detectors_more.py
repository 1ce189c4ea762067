"""Detectors of clocks and of the database itself: each condition from both of its sides."""

from __future__ import annotations

from typing import Any

import pytest

from jobplaybook.detectors import database
from jobplaybook.units import MICROS
from tests.canonical import NOW, ago
from tests.signs import disorder, table, vitals
from tests.situations import DAY, HOUR, codes, dead, facts, held, judged, of, only, silent, waiting
from tests.situations import worker as beating

TICK = 1 / MICROS


# clock-skew


@pytest.mark.parametrize(
    ("silence", "clock_at", "found"),
    [
        (-1, NOW, False),
        (-1 - TICK, NOW, True),
        (-HOUR, None, False),
        (5, ago(7), True),
        (5, ago(6), False),
        (None, NOW, False),
    ],
)
def test_a_heartbeat_from_the_future(
    silence: float | None, clock_at: int | None, found: bool
) -> None:
    """clock-skew: more than a second ahead of the clock it was read with, where that is known."""
    seen = codes(workers=(beating(silence=silence),), clock_at=clock_at)
    assert ("clock-skew" in seen) is found


def test_a_worker_that_stopped_is_not_asked_for_its_clock() -> None:
    """clock-skew: a heartbeat of a worker that signed off keeps no lease alive."""
    gone = beating(silence=-HOUR, stopped_at=ago(5))
    assert "clock-skew" not in codes(workers=(gone,), clock_at=NOW)


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        (disorder(0), None),
        (disorder(1), "note"),
        (disorder(2), "note"),
        (disorder(3), "ticket"),
        ({**disorder(1), "workers": (beating(silence=-2),), "clock_at": NOW}, "ticket"),
    ],
)
def test_a_few_odd_rows_are_noted(seen: dict[str, Any], severity: str | None) -> None:
    """clock-skew: a ticket from three rows on, or with any worker's clock; a note before."""
    found = of(judged(**seen), "clock-skew")
    assert [finding.severity.word for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("absent", "sure"), [((), True), (("claimed_at",), False), (("finished_at",), False)]
)
def test_an_order_is_as_sure_as_its_times(absent: tuple[str, ...], sure: bool) -> None:
    """clock-skew: inferred where the times themselves are."""
    assert only("clock-skew", **disorder(3), facts=facts(*absent)).sure is sure


def test_the_skew_is_told_with_its_size() -> None:
    """clock-skew: which order, how many rows and jobs, how far apart, which worker, since when."""
    found = only(
        "clock-skew",
        **disorder(4, "ended-before-claimed", apart_seconds=65.0),
        workers=(beating("w7", silence=-90),),
        clock_at=NOW,
    )
    assert "4 ended before they were claimed; up to 1 min 5 s apart" in found.sentence
    assert "worker w7 lies up to 1 min 30 s ahead of the database's clock" in found.sentence
    assert "host of worker w7" in found.next[0]
    assert (found.count, found.radius.jobs, found.since) == (5, 4, ago(HOUR))
    assert found.evidence["orders"]["ended-before-claimed"]["apart_seconds"] == 65.0
    assert found.evidence["heartbeat-after-read"] == [{"owner": "w7", "apart_seconds": 90.0}]


def test_a_skew_began_before_it_was_seen() -> None:
    """clock-skew: since when never lies in the future, whatever the rows say."""
    assert only("clock-skew", **disorder(3, first_at=ago(-DAY))).since == NOW


# vacuum-blocked

GROWING: dict[str, Any] = {"queues": (waiting(90, age=HOUR, rates=(900, 100)),)}
YOUNG: dict[str, Any] = {"queues": (waiting(90, age=61, rates=(900, 100)),)}
DRAINING: dict[str, Any] = {"queues": (waiting(90, age=HOUR, rates=(100, 900)),)}
STILL: dict[str, Any] = {"queues": (silent(90, seconds=HOUR),)}


@pytest.mark.parametrize(
    ("signs", "found"),
    [
        (vitals(age=300.0), True),
        (vitals(age=300.0 - TICK), False),
        (vitals(behind=1_000), True),
        (vitals(behind=999), False),
        (vitals(age=None), False),
        (vitals(behind=None), True),
        (vitals(age=299.9, behind=None), False),
        (vitals(oldest_snapshot_seconds=299.0), False),
        (vitals(age=9.0, oldest_snapshot_seconds=300.0), True),
        (vitals(table(dead=10_000, live=49_999)), True),
        (vitals(table(dead=10_000, live=50_000)), False),
        (vitals(table(dead=9_999, live=0)), False),
        (vitals(table(dead=9, table="a"), table(table="b")), True),
        (None, False),
    ],
)
def test_an_old_snapshot_holds_dead_rows(signs: Any, found: bool) -> None:
    """vacuum-blocked: 5 min, 1,000 transactions, 10,000 dead rows and more than 20 % of live."""
    assert ("vacuum-blocked" in codes(vitals=signs)) is found


@pytest.mark.parametrize(
    ("seen", "severity"),
    [({}, "ticket"), (YOUNG, "ticket"), (GROWING, "page"), (DRAINING, "ticket"), (STILL, "ticket")],
)
def test_it_is_as_grave_as_its_backlog(seen: dict[str, Any], severity: str) -> None:
    """vacuum-blocked: a ticket, a page where a backlog is one; it explains no stand-still."""
    answer = judged(vitals=vitals(), **seen)
    (found,) = of(answer, "vacuum-blocked")
    assert found.severity.word == severity
    expected = "queue-stalled" if seen is STILL else "vacuum-blocked"
    assert answer.verdict.code == expected
    assert ("falls behind" in found.sentence) is (seen in (YOUNG, GROWING))
    assert bool(found.radius.jobs) is (seen in (YOUNG, GROWING))


@pytest.mark.parametrize(("came", "sure"), [(None, False), (HOUR, False), (HOUR - 1, True)])
def test_a_vacuum_that_came_in_vain_proves_it(came: float | None, sure: bool) -> None:
    """vacuum-blocked: sure once autovacuum ended after the transaction began and rows stayed."""
    at = None if came is None else ago(came)
    found = only("vacuum-blocked", vitals=vitals(table(last_autovacuum_at=at)))
    assert found.sure is sure
    assert ("could not remove them" in found.sentence) is sure
    late = only("vacuum-blocked", vitals=vitals(table(last_autovacuum_at=at)), **GROWING)
    cause = "cause" if sure else "likely cause"
    assert f"Queue mail falls behind: the transaction is the {cause}, not" in late.sentence
    assert found.since == ago(HOUR)


def test_the_table_with_the_most_dead_rows_is_named() -> None:
    """vacuum-blocked: the worst table in the sentence, all of them in the evidence."""
    found = only("vacuum-blocked", vitals=vitals(table(dead=20_000, table="a"), table(table="b")))
    assert "247,311 rows of b are dead (beside 60,000 live ones)" in found.sentence
    assert found.count == 247_311
    assert [each["table"] for each in found.evidence["tables"]] == ["a", "b"]
    assert found.evidence["not_shown"] == list(database.UNSEEN)


# claim-slow

CALM: dict[str, Any] = {"age": 2.0, "behind": 40.0}


@pytest.mark.parametrize(
    ("signs", "found"),
    [
        (vitals(table(dead=10_000, live=10_000), **CALM), True),
        (vitals(table(dead=10_000, live=10_001), **CALM), False),
        (vitals(table(dead=9_999, live=0), **CALM), False),
        (vitals(table(dead=10_000, live=0), age=None, behind=None), True),
        (vitals(table(dead=500_000, live=0)), False),
    ],
)
def test_dead_rows_make_claims_dear(signs: Any, found: bool) -> None:
    """claim-slow: 10,000 dead rows, as many as live ones; not twice where vacuum is blocked."""
    assert ("claim-slow" in codes(vitals=signs)) is found


@pytest.mark.parametrize(
    ("scans", "claims", "rows", "found"),
    [
        (50, 100, 10_000, True),
        (49, 100, 10_000, False),
        (50, 100, 9_999, False),
        (10, 0, 10_000, True),
        (9, 0, 10_000, False),
        (None, 100, 10_000, False),
        (50, None, 10_000, False),
    ],
)
def test_scans_of_the_whole_table(
    scans: float | None, claims: int | None, rows: int, found: bool
) -> None:
    """claim-slow: between two samples a scan for every other claim, ten at least, of 10,000 rows.

    One sample tells how often a table was ever scanned: that is no finding.
    """
    signs = vitals(
        table(dead=rows // 2, live=rows - rows // 2, scans_between=scans),
        **CALM,
        first_at=ago(15),
        claims_between=claims,
    )
    assert ("claim-slow" in codes(vitals=signs)) is found


IDLE = (beating("w1"), beating("w2"))
SLOW: dict[str, Any] = {"age": HOUR, "rates": (100, 100), "recent_wait_seconds": 60.0}


@pytest.mark.parametrize(
    ("state", "workers", "found"),
    [
        (waiting(10, **SLOW), IDLE, True),
        (waiting(9, **SLOW), IDLE, False),
        (waiting(10, **{**SLOW, "recent_wait_seconds": 60.0 - TICK}), IDLE, False),
        (waiting(10, **{**SLOW, "recent_wait_seconds": None}), IDLE, False),
        (waiting(10, **SLOW, normal_wait_seconds=20.0), IDLE, False),
        (waiting(10, **SLOW, normal_wait_seconds=20.0 - TICK), IDLE, True),
        (waiting(10, **SLOW, normal_wait_seconds=None), IDLE, False),
        (waiting(10, **SLOW, paused_at=ago(9)), IDLE, False),
        (waiting(10, **SLOW), (*IDLE, beating("w3")), True),
        (waiting(10, **SLOW), (beating("busy"), beating("busy 2"), beating("w3")), False),
        (waiting(10, **SLOW), (beating("busy"), beating("w3")), True),
        (waiting(10, **SLOW), (beating("busy"),), False),
        (waiting(10, **SLOW), (beating("w1", silence=31),), False),
        (silent(10, seconds=HOUR, recent_wait_seconds=60.0), IDLE, False),
    ],
)
def test_claims_wait_beside_idle_workers(state: Any, workers: Any, found: bool) -> None:
    """claim-slow: ten jobs, waits of a minute and three times normal, half of the workers idle."""
    running = (held("1", lease=9, owner="busy"), held("2", lease=9, owner="busy 2"))
    seen = judged(queues=(state,), workers=workers, held=running)
    assert [f.severity.word for f in of(seen, "claim-slow")] == ["note"] * found


@pytest.mark.parametrize(
    ("seen", "severity"),
    [({}, "note"), (YOUNG, "ticket"), (GROWING, "page"), (DRAINING, "note"), (STILL, "note")],
)
def test_what_is_measured_is_as_grave_as_its_backlog(seen: dict[str, Any], severity: str) -> None:
    """claim-slow: dead rows alone hurt nobody; with a backlog they are its cause."""
    found = only("claim-slow", vitals=vitals(table(dead=99_000, live=10), **CALM), **seen)
    assert found.severity.word == severity
    assert not found.sure


@pytest.mark.parametrize(
    ("signs", "said"),
    [
        (vitals(table(dead=99_000, live=0), age=None, behind=None), "open transactions: this role"),
        (vitals(table(dead=99_000, live=0), **CALM), "scans at the moment: that takes two samples"),
        (None, "dead rows"),
    ],
)
def test_what_the_vital_signs_do_not_show_is_said(signs: Any, said: str) -> None:
    """claim-slow: what nobody could look at stands in the evidence, and nothing is guessed."""
    found = only("claim-slow", vitals=signs, queues=(waiting(10, **SLOW),), workers=IDLE)
    assert any(text.startswith(said) for text in found.evidence["not_shown"])
    assert ("hidden from this role" in found.sentence) is (said[:4] == "open")


def test_two_samples_are_told_with_their_claims() -> None:
    """claim-slow: how many scans during how many claims, and what follows."""
    signs = vitals(
        table(dead=0, live=600_000, scans_between=400), **CALM, first_at=ago(15), claims_between=410
    )
    found = only("claim-slow", vitals=signs)
    assert "jobs was scanned whole 400 times during 410 claims" in found.sentence
    assert found.evidence["scanned"] == ["jobs"]
    assert "scans at the moment" not in " ".join(found.evidence["not_shown"])
    assert found.evidence["dead"] == []


# Since when


def test_growth_of_dead_letters_is_dated_by_its_rise() -> None:
    """dead-letters-growing: since the first after the rate rose, not of the last hour."""
    ages = [20 * HOUR, 12 * HOUR, *(4 * HOUR - 36 * n for n in range(400))]
    letters = tuple(letter for age in ages for letter in dead(1, age=age))
    found = only("dead-letters-growing", dead=letters, finished_in_window=99_999)
    assert found.since is not None
    assert 0 <= found.since - ago(4 * HOUR) <= 300 * MICROS
    assert found.evidence["in_the_last_hour"] == 100
