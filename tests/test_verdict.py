"""The verdict: one screen that a tired person reads, and the JSON that a script reads."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from jobplaybook.detectors.situation import RunTime, Situation
from jobplaybook.model import Severity
from jobplaybook.units import MICROS
from jobplaybook.verdict import judge
from tests.canonical import NOW, ago
from tests.situations import (
    DAY,
    HOUR,
    codes,
    dead,
    facts,
    held,
    judged,
    queue,
    silent,
    situation,
    waiting,
    worker,
)

WIDTH = 100
LINES = 25


def screen(**changes: Any) -> str:
    return str(judged(**changes))


# Which one is the verdict


INCIDENT: dict[str, Any] = {
    "workers": (worker("w1", silence=99),),
    "held": (held("1", lease=-60), held("2", lease=None, age=DAY, owner=None)),
    "queues": (
        queue("paused", waiting=5, due=5, claimable=5, paused_at=ago(HOUR)),
        silent(90, seconds=HOUR),
        waiting(50, name="slow", age=HOUR, rates=(900, 100)),
    ),
    "dead": dead(9),
    "finished_in_window": 90,
    "facts": facts("error"),
}


def test_causes_come_before_their_consequences() -> None:
    """Among pages: the lost worker, its jobs, runs of nobody, then queues; tickets; then notes."""
    found = [(f.code, f.severity.word) for f in judged(**INCIDENT).findings]
    assert found == [
        ("workers-lost", "page"),
        ("lease-expired", "page"),
        ("phantom-running", "page"),
        ("queue-stalled", "page"),
        ("backlog-growing", "page"),
        ("queue-paused", "ticket"),
        ("dead-letters-growing", "ticket"),
        ("data-blind", "note"),
    ]


def test_the_largest_of_equal_queues_comes_first() -> None:
    """Of several queues that stand still the one with the most jobs is the verdict."""
    states = tuple(silent(n, seconds=HOUR, name=f"q{n}") for n in (20, 400, 30))
    answer = judged(queues=states)
    assert [f.count for f in answer.findings] == [400, 30, 20]
    assert answer.verdict.evidence["queue"] == "q400"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, "healthy"),
        ({"facts": facts("error", "effects")}, "healthy"),
        ({"not_read": {"vitals": "refused"}}, "healthy"),
        ({"queues": (waiting(400, age=HOUR, rates=(100, 200)),)}, "healthy"),
        ({"queues": (waiting(401, age=HOUR, rates=(100, 200)),)}, "backlog-draining"),
        ({"workers": (worker("w1", silence=99), worker("w2"))}, "healthy"),
        ({"counts": {}}, "unknown"),
        ({"not_read": {"unfinished": "out of time"}}, "unknown"),
        ({"not_read": {"jobs": "out of time"}}, "unknown"),
        ({"not_read": {"jobs": "out of time"}, "held": (held(lease=-1),)}, "lease-expired"),
        ({"held": (held(lease=None, age=None),)}, "data-blind"),
    ],
)
def test_healthy_and_unknown(changes: dict[str, Any], code: str) -> None:
    """healthy: nothing above a note; unknown: nothing there, or the unfinished were not read."""
    answer = judged(**changes)
    assert answer.verdict.code == code
    grave = [f for f in answer.findings if f.severity > Severity.NOTE]
    assert code != "healthy" or not grave


def test_unknown_says_why_and_what_to_do() -> None:
    """unknown: the reason stands in the sentence, the way out under it."""
    unread = judged(not_read={"unfinished": "id above 7: the budget of 60 s was used up"}).verdict
    assert "id above 7: the budget of 60 s was used up" in unread.sentence
    assert unread.next == ("Capture again with a larger --budget.",)
    assert "--since" in judged(counts={}).verdict.next[0]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "no backlog"),
        (waiting(1, age=59), "1 job wait, none too long"),
        (waiting(300, age=HOUR, rates=(100, 200)), "300 jobs in a backlog that drains"),
        (queue(waiting=4, due=4), "4 jobs wait behind another of their shard"),
        (waiting(3, age=0, oldest_at=None), "3 jobs wait, how long is not known"),
        (queue(waiting=4, paused_at=ago(9)), "no backlog"),
    ],
)
def test_healthy_says_no_more_than_is_known(state: Any, said: str) -> None:
    """healthy: what waits is told as it is; "no backlog" only where nothing due waits."""
    answer = judged(queues=() if state is None else (state,))
    assert answer.verdict.code == "healthy"
    assert f"Nothing asks for action: {said}, 0 jobs running" in answer.verdict.sentence
    assert judged(facts=facts("finished_at")).verdict.sentence.endswith("0 jobs running.")


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (queue(), "no backlog"),
        (queue(waiting=2), "nothing due"),
        (queue(waiting=2, due=1), "behind its shard"),
        (waiting(2, age=59), "waiting, capacity unknown"),
        (waiting(2, age=HOUR, rates=(1, 9)), "draining"),
        (waiting(2, age=HOUR, rates=(9, 1)), "growing"),
        (waiting(2, age=HOUR, rates=(9, 9)), "not clearing"),
        (silent(2, seconds=HOUR), "stalled"),
        (silent(2, seconds=HOUR, paused_at=ago(1)), "paused"),
    ],
)
def test_every_queue_has_its_word(state: Any, word: str) -> None:
    """No backlog and capacity unknown are answers too, on the screen and in the JSON."""
    assert screen(queues=(state,)).split("\n")[-2].endswith(word)
    assert judged(queues=(state,)).to_json()["queues"][0]["state"] == word


def test_a_queue_without_rates_shows_none() -> None:
    """Rates that the system does not record are null in the JSON and ? on the screen, never 0."""
    answer = judged(queues=(waiting(2, age=HOUR),), facts=facts("created_at", "finished_at"))
    (told,) = answer.to_json()["queues"]
    names = ("arrival_rate", "completion_rate", "dead_rate", "net_rate")
    assert [told[name] for name in names] == [None] * 4
    line = next(line for line in str(answer).split("\n") if line.startswith("mail"))
    assert line.split() == ["mail", "2", "1", "h", "?", "?", "waiting", "too", "long"]


# The screen


def test_the_screen_of_an_incident() -> None:
    """The verdict, what to do, what else, the queues, what is not known, and as of when."""
    text = screen(**INCIDENT)
    lines = text.split("\n")
    assert lines[0] == "PAGE  claimed · workers-lost · since 02:58:21Z"
    assert (
        lines[1]
        == "      Worker w1 stopped beating at 02:58:21Z, holding 1 job; no worker is left."
    )
    assert [line for line in lines if line.startswith("      Next: ")]
    assert "      Runbook: runbooks/workers-lost.md" in lines
    assert "Not known: contract does not record: error." in lines
    assert lines[-1].startswith("As of 2026-12-01T03:00:00Z, window 1 d, rates over 15 min")
    assert all(len(line) <= WIDTH for line in lines)
    assert len(lines) <= 40


@pytest.mark.parametrize("changes", [{}, {"queues": (silent(90, seconds=HOUR),)}])
def test_a_plain_answer_fits_one_screen(changes: dict[str, Any]) -> None:
    """One finding and its queue take 25 lines at most, none wider than the page."""
    lines = screen(**changes).split("\n")
    assert len(lines) <= LINES
    assert all(len(line) <= WIDTH for line in lines)


def test_many_queues_and_findings_are_counted_not_listed() -> None:
    """A screen shows the queues that matter and counts the rest; the JSON has them all."""
    states = (
        *(queue(f"idle{n:04}") for n in range(2_000)),
        *(waiting(n, name=f"slow{n:04}", age=HOUR, rates=(9, 5)) for n in range(1, 1_001)),
    )
    answer = judged(queues=states)
    text = str(answer)
    assert len(text.split("\n")) <= 45
    assert "slow1000" in text
    assert "and 2,988 queues more: 2,000 no backlog, 988 growing" in text
    assert "and 994 more: backlog-growing 994 (--json has them all)" in text
    document = answer.to_json()
    assert (len(document["queues"]), len(document["findings"])) == (3_000, 1_000)


def test_a_statement_to_be_copied_stays_on_one_line() -> None:
    """The native statement is not wrapped: what is copied must be what runs."""
    advice = "SELECT requeue(id) FROM jobs WHERE id IN (" + ", ".join(map(str, range(99))) + ");"
    answer = judge(situation(held=(held(lease=-1),)), label="test", advice=advice)
    assert [line for line in str(answer).split("\n") if line.endswith(advice)]
    assert answer.verdict.next[-1].endswith(advice)
    other = judge(situation(queues=(silent(90, seconds=HOUR),)), label="test", advice=advice)
    assert advice not in str(other)


@pytest.mark.parametrize("nasty", ["\x1b[2J", "a\nPAGE b", "\u202etxt", "\x00", "x" * 500])
def test_names_cannot_write_on_the_screen(nasty: str) -> None:
    """Whatever a job, an owner, a queue or a file is called, it stays text in its own line."""
    seen = situation(
        system=nasty,
        held=(held(nasty, lease=-1, owner=nasty, job_type=nasty), held("2", lease=None, age=DAY)),
        workers=(worker(nasty, silence=99),),
        queues=(silent(90, name=nasty, seconds=HOUR), queue(nasty + "2", waiting=1, paused_at=NOW)),
        dead=dead(9, job_type=nasty),
        facts=facts("error"),
        not_read={nasty: nasty},
        possible_sweepers=(nasty,),
    )
    answer = judge(seen, label=nasty, warnings=[nasty], advice=nasty)
    lines = str(answer).split("\n")
    plain = str(judge(rename(seen), label="n", warnings=["n"], advice="n")).split("\n")
    assert all(line.isprintable() for line in lines)
    assert [line[:4] for line in lines if line[:4] == "PAGE"] == ["PAGE"] * sum(
        line[:4] == "PAGE" for line in plain
    )
    for finding in answer.findings:
        assert finding.sentence.isprintable()
        assert len(finding.sentence) < 700
    json.loads(json.dumps(answer.to_json(), allow_nan=False))


def rename(seen: Situation) -> Situation:
    """Return the same situation with names that do nothing."""
    return situation(
        system="n",
        held=(held("n", lease=-1, owner="n", job_type="n"), held("2", lease=None, age=DAY)),
        workers=(worker("n", silence=99),),
        queues=(silent(90, name="n", seconds=HOUR), queue("n2", waiting=1, paused_at=NOW)),
        dead=dead(9, job_type="n"),
        facts=seen.facts,
        not_read={"n": "n"},
        possible_sweepers=("n",),
    )


@pytest.mark.parametrize(
    ("age", "text"),
    [(HOUR, "since 02:00:00Z"), (21 * DAY, "since 2026-11-10 03:00:00Z")],
)
def test_since_names_the_day_once_it_is_not_today(age: float, text: str) -> None:
    """A time of day alone would read as today's: what began three weeks ago says its date."""
    runs = {"report": RunTime(p99_seconds=1.0, runs=99)}
    assert text in screen(held=(held(lease=None, age=age),), run_times=runs)
    assert text in screen(workers=(worker(silence=age),), held=(held(lease=-1),))


# Notes about time


def test_a_window_that_ended_before_is_noted() -> None:
    """--until in the past: one note says what is of then and what is as captured."""
    answer = judged(window_until=ago(HOUR), held=(held(lease=-1),))
    assert answer.verdict.sure
    assert len(answer.warnings) == 1
    assert answer.warnings[0].startswith("the window ends at 2026-12-01T02:00:00Z")
    assert "Note: the window ends at" in str(answer)
    assert judged(window_until=NOW).warnings == ()


def test_warnings_of_the_capture_come_first() -> None:
    """What the capture had to say is kept, before what the judgement adds."""
    seen = situation(now=NOW + HOUR * MICROS)
    assert (
        judge(seen, label="x", warnings=["the role may write"]).warnings[0] == "the role may write"
    )
    assert len(judge(seen, label="x", warnings=["the role may write"]).warnings) == 2


def test_the_json_says_when_and_over_what() -> None:
    """now, the last look and the window stand in the JSON, and every rate beside its window."""
    document = judged(
        now=NOW + HOUR * MICROS, window_until=ago(60), queues=(waiting(3, age=90, rates=(9, 18)),)
    ).to_json()
    assert document["now"] == "2026-12-01T04:00:00Z"
    assert document["seen_until"] == "2026-12-01T03:00:00Z"
    assert document["window_until"] == "2026-12-01T02:59:00Z"
    (told,) = document["queues"]
    assert told["rate_window_seconds"] == 840.0
    assert told["net_rate"] == pytest.approx(9 / 840)
    assert told["oldest_claimable_age_seconds"] == 30.0
    assert set(document["layers"]) == set(
        ["intake", "waiting", "claimed", "effect", "result", "notified"]
    )


def test_nothing_is_found_in_a_quiet_queue() -> None:
    """The situation all these tests start from is healthy, so what they find they put there."""
    assert codes() == set()
    assert judged().verdict.code == "healthy"


def test_figures_of_a_queue_in_the_json_and_on_the_screen() -> None:
    """Rates are per second in the JSON, dead ones among what ends, and per minute on the screen."""
    state = waiting(7, age=59, rates=(1_800, 450), claims=900, dead=90)
    answer = judged(queues=(state,))
    (told,) = answer.to_json()["queues"]
    assert {name: told[name] for name in told if name.endswith("_rate")} == {
        "arrival_rate": 2.0,
        "claim_rate": 1.0,
        "completion_rate": 0.6,
        "dead_rate": 0.1,
        "net_rate": -1.4,
    }
    line = next(line for line in str(answer).split("\n") if line.startswith("mail"))
    assert line.split() == ["mail", "7", "59", "s", "120", "36", "waiting,", "capacity", "unknown"]
    small = judged(queues=(waiting(7, age=59, rates=(149, 15)),))
    line = next(line for line in str(small).split("\n") if line.startswith("mail"))
    assert line.split()[4:6] == ["9.9", "1.0"]


@pytest.mark.parametrize(
    ("absent", "null"), [("created_at", "arrival_rate"), ("finished_at", "completion_rate")]
)
def test_one_rate_alone_makes_no_net(absent: str, null: str) -> None:
    """The net rate needs both of its rates; the word of the queue then claims no direction."""
    answer = judged(queues=(waiting(7, age=HOUR, rates=(90, 9)),), facts=facts(absent))
    (told,) = answer.to_json()["queues"]
    assert (told[null], told["net_rate"], told["state"]) == (None, None, "waiting too long")
    rates = {"arrival_rate", "completion_rate"} - {null}
    assert all(told[name] is not None for name in rates)


@pytest.mark.parametrize(("count", "more"), [(12, False), (13, True)])
def test_a_dozen_queues_fit_the_screen(count: int, more: bool) -> None:
    """Up to twelve are listed as they are; of more, those in trouble first, then the longest."""
    quiet = [queue(f"q{n:02}", waiting=n) for n in range(count - 1)]
    answer = judged(queues=(*quiet, silent(1, seconds=DAY, name="stuck")))
    lines = str(answer).split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("queue "))
    assert any(line.startswith("and 1 queue more: 1 no backlog") for line in lines) is more
    first = "stuck" if more else "q00"
    assert lines[start + 1].startswith(first)
    assert ("q11" if more else "q00") in lines[start + 2 if more else start + 1]


def test_columns_are_as_wide_as_the_longest_name() -> None:
    """The table lines up under its head, whatever the names; a very long one is cut."""
    answer = judged(queues=(queue("a"), queue("b" * 30), queue("c" * 99)))
    lines = str(answer).split("\n")
    table = [line for line in lines if line.endswith(("no backlog", "state"))]
    assert len({line.index("no backlog") for line in table[1:]} | {table[0].index("state")}) == 1
    assert max(map(len, table)) <= WIDTH


def test_wrapped_lines_are_indented() -> None:
    """A sentence stays under its verdict, the next finding and the notes under theirs."""
    lines = screen(**INCIDENT).split("\n")
    blank = lines.index("")
    assert all(line.startswith("      ") for line in lines[1:blank])
    rest = lines[blank + 1 : lines.index("", blank + 1)]
    assert all(re.match(r"(PAGE|TICKET|NOTE) |and \d| {6}\S", line) for line in rest)
