"""Detectors of floods and starvation: each condition from both of its sides."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from jobplaybook.detectors.findings import BlastRadius
from jobplaybook.units import MICROS
from tests.canonical import NOW, ago
from tests.signs import disorder, flood, retried, series, starved, table, vitals, waking
from tests.situations import HOUR, codes, judged, of, only, silent, waiting, worker

TICK = 1 / MICROS
MORE = {
    "clock-skew",
    "vacuum-blocked",
    "claim-slow",
    "retry-storm",
    "retry-herd",
    "class-flood",
    "starvation",
}
GROWING: dict[str, Any] = {"age": HOUR, "rates": (900, 100)}


# class-flood

BACKLOG: dict[str, Any] = {"age": 0.5 * HOUR, "rates": (900, 100)}


@pytest.mark.parametrize(
    ("due", "backlog", "found"),
    [(100, 200, True), (99, 99, False), (100, 201, False), (600, 1_200, True)],
)
def test_a_flood_is_most_of_a_backlog(due: int, backlog: int, found: bool) -> None:
    """class-flood: a hundred jobs of a class, and at least half of what is due."""
    seen = codes(queues=(waiting(backlog, **BACKLOG),), loads=(flood(due),))
    assert ("class-flood" in seen) is found


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (waiting(600, **BACKLOG), True),
        (waiting(600, age=30, rates=(900, 100)), False),
        (waiting(600, **BACKLOG, normal_wait_seconds=600.0), False),
        (waiting(600, **BACKLOG, paused_at=ago(9)), False),
        (silent(600, seconds=HOUR), False),
        (waiting(600, **BACKLOG, name="other"), False),
    ],
)
def test_a_flood_needs_a_backlog_that_moves(state: Any, found: bool) -> None:
    """class-flood: only where the backlog is older than normal, and its queue does not stand."""
    assert ("class-flood" in codes(queues=(state,), loads=(flood(600),))) is found


@pytest.mark.parametrize(
    ("usual", "burst", "found"),
    [(100, 300, True), (100, 299, False), (0, 9, True), (100, 100, False)],
)
def test_a_flood_is_three_times_what_is_usual(usual: int, burst: int, found: bool) -> None:
    """class-flood: three times the usual rate; a type that always makes most of it is none."""
    load = flood(600, became_due=series((282, usual), (6, burst)))
    assert ("class-flood" in codes(queues=(waiting(600, **BACKLOG),), loads=(load,))) is found


@pytest.mark.parametrize(
    ("past", "backlog", "found"), [(19, 601, True), (20, 601, False), (19, 600, False)]
)
def test_a_class_without_a_past(past: int, backlog: int, found: bool) -> None:
    """class-flood: where fewer than 20 of it ever left, most of what waits beside others."""
    load = flood(600, became_due=series((1, 600 + past)), still_due=series((1, 600)))
    answer = judged(queues=(waiting(backlog, **BACKLOG),), loads=(load,))
    assert [f.sure for f in of(answer, "class-flood")] == [False] * found
    for finding in of(answer, "class-flood"):
        assert "what is usual for it is not known; 1 of others wait among them" in finding.sentence
        assert finding.since == ago(BACKLOG["age"])
        assert finding.evidence["usual_rate"] is None


@pytest.mark.parametrize(("came", "found"), [(90, True), (89, False)])
def test_a_flood_came_with_its_rise(came: int, found: bool) -> None:
    """class-flood: nine in ten of what waits came since the rise, or that explains nothing."""
    load = flood(600, still_due=series((281, 0), (1, 600 - 6 * came), (6, came)))
    assert ("class-flood" in codes(queues=(waiting(600, **BACKLOG),), loads=(load,))) is found


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        (waiting(600, age=HOUR, rates=(900, 100)), "page"),
        (waiting(600, age=61, rates=(900, 100)), "ticket"),
        (waiting(600, age=HOUR, rates=(100, 9_000)), "note"),
    ],
)
def test_a_flood_is_as_grave_as_its_backlog(state: Any, severity: str) -> None:
    """class-flood: page, ticket or note as the backlog, and told before it."""
    answer = judged(queues=(state,), loads=(flood(600),))
    (found,) = of(answer, "class-flood")
    assert found.severity.word == severity
    assert answer.findings[0] is found


def test_a_flood_names_type_and_tenant() -> None:
    """class-flood: both classes that are most, the largest others as evidence, since the rise."""
    loads = (
        flood(600),
        flood(40, name="mail", became_due=series((288, 1))),
        flood(550, by="tenant", name="8d7967572e07"),
    )
    found = only("class-flood", queues=(waiting(640, **BACKLOG, tenants=4, types=2),), loads=loads)
    assert found.sentence == (
        "Of 640 jobs that wait in queue mail, 600 (94%) are of type digest and 550 (86%) are of "
        "tenant 8d7967572e07: 20/min came due where 12/h is usual; 40 of others wait among them."
    )
    assert found.since == ago(6 * 300)
    assert found.radius == BlastRadius(jobs=640, tenants=4, types=2)
    assert [(top["by"], top["due"]) for top in found.evidence["top"]] == [
        ("tenant", 550),
        ("type", 600),
        ("type", 40),
    ]
    assert found.evidence["class"]["name"] == "digest"


# starvation


@pytest.mark.parametrize(
    ("waits", "state", "found"),
    [
        (starved(300), waiting(90, **GROWING), True),
        (starved(300 - TICK), waiting(90, **GROWING), False),
        (starved(), waiting(90, **GROWING, normal_wait_seconds=1_200.0), True),
        (starved(), waiting(90, **GROWING, normal_wait_seconds=1_200.1), False),
        (starved(overtaken=10), waiting(90, **GROWING), True),
        (starved(overtaken=9), waiting(90, **GROWING), False),
        (starved(last_claim_at=ago(HOUR)), waiting(90, **GROWING), False),
        (starved(last_claim_at=ago(HOUR + TICK)), waiting(90, **GROWING), True),
        (starved(), waiting(90, **GROWING, paused_at=ago(9)), False),
        (starved(), waiting(90, **GROWING, name="other"), False),
    ],
)
def test_a_class_starves_while_others_are_taken(waits: Any, state: Any, found: bool) -> None:
    """starvation: five minutes and three normal waits, ten later jobs taken, none of its own."""
    assert ("starvation" in codes(queues=(state,), waiting_classes=(waits,))) is found


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        (waiting(90, **GROWING), "page"),
        (waiting(90, **{**GROWING, "age": 400}), "ticket"),
        (waiting(90, age=HOUR, rates=(100, 9_000)), "ticket"),
    ],
)
def test_starvation_is_a_ticket_at_least(state: Any, severity: str) -> None:
    """starvation: it has no end of its own, so a ticket; a page where the backlog is one."""
    answer = judged(queues=(state,), waiting_classes=(starved(),))
    assert answer.verdict.code == "starvation"
    assert answer.verdict.severity.word == severity


@pytest.mark.parametrize(
    ("mine", "others", "said"),
    [
        (0, 5, "a higher priority"),
        (5, 5, "No priority explains it"),
        (None, 5, "No priority explains it"),
        (5, None, "No priority explains it"),
    ],
)
def test_whether_priority_explains_it(mine: int | None, others: int | None, said: str) -> None:
    """starvation: strict priority starves by design; without one it is no design."""
    waits = starved(priority=mine, overtaking=(("mail", others, 300),))
    found = only("starvation", queues=(waiting(90, **GROWING),), waiting_classes=(waits,))
    assert said in found.next[0]


def test_starvation_is_told_with_both_sides() -> None:
    """starvation: who waits how long, and who was taken meanwhile; the worst class first."""
    small = starved(2 * HOUR, job_type=None, priority=None, claimable=1, last_claim_at=ago(9_000))
    found = only("starvation", queues=(waiting(90, **GROWING),), waiting_classes=(starved(), small))
    assert found.sentence == (
        "12 jobs of report (priority 0) wait in queue mail for up to 1 h, none was claimed in the "
        "window, and 1 other class with it; meanwhile 300 jobs that were due later were claimed "
        "in the last 15 min (300 of mail (priority 5))."
    )
    assert (found.count, found.since) == (13, ago(2 * HOUR))
    assert found.radius == BlastRadius(jobs=13, types=2)
    alone = only("starvation", queues=(waiting(90, **GROWING),), waiting_classes=(small,))
    assert "1 job of unknown type waits in queue mail for up to 2 h" in alone.sentence
    assert "the last was claimed at 00:30:00Z" in alone.sentence


# Order


def test_causes_are_told_before_what_they_cause() -> None:
    """Of equal severity: the storm, the flood, the starved class, and then the backlog."""
    answer = judged(
        queues=(waiting(600, **GROWING),),
        retrying=(retried(60, 6),),
        loads=(flood(600),),
        waiting_classes=(starved(),),
        wakings=(waking(200, ahead=600),),
    )
    assert [finding.code for finding in answer.findings] == [
        "retry-storm",
        "class-flood",
        "starvation",
        "backlog-growing",
        "retry-herd",
    ]


def test_larger_ones_come_first() -> None:
    """Storms, herds, floods and starved queues each stand by their size."""
    names = ("a", "b")
    small, large = (waiting(200, **GROWING, name=name) for name in names)
    answer = judged(
        queues=(small, large),
        retrying=tuple(retried(60 + n, 6, queue=name) for n, name in enumerate(names)),
        loads=tuple(flood(150 + n, queue=name) for n, name in enumerate(names)),
        waiting_classes=tuple(starved(queue=name, claimable=5 + n) for n, name in enumerate(names)),
        wakings=tuple(
            replace(waking(200 + n, ahead=600), queue=name) for n, name in enumerate(names)
        ),
    )
    for code in ("retry-storm", "class-flood", "starvation", "retry-herd"):
        assert [finding.evidence["queue"] for finding in of(answer, code)] == ["b", "a"]


@pytest.mark.parametrize("name", ["\x1b[31mred", "\u202egnp", "a\nb", "w" * 300])
def test_no_job_writes_on_the_screen(name: str) -> None:
    """Types, tenants, queues, workers and tables with hostile names: one clean line each, cut."""
    answer = judged(
        queues=(waiting(600, **GROWING, name=name),),
        retrying=(retried(60, 6, queue=name, job_type=name),),
        loads=(flood(600, queue=name, name=name), flood(590, queue=name, name=name, by="tenant")),
        waiting_classes=(starved(queue=name, job_type=name, overtaking=((name, 1, 300),)),),
        wakings=(replace(waking(200, ahead=600), queue=name),),
        workers=(worker(name, silence=-60),),
        clock_at=NOW,
        vitals=vitals(table(table=name), age=1.0, behind=1.0),
        **disorder(3),
    )
    found = {finding.code for finding in answer.findings}
    assert found >= MORE - {"vacuum-blocked"}
    blocked = judged(vitals=vitals(table(table=name)))
    texts = [t for f in (*answer.findings, *blocked.findings) for t in (f.sentence, *f.next)]
    assert all(text.isprintable() and len(text) < 700 for text in texts)
    assert all(len(line) <= 120 and line.isprintable() for line in str(answer).split("\n"))
    json.dumps([answer.to_json(), blocked.to_json()], allow_nan=False)
