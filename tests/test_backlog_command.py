"""`estimate drain --from` and the eta of `triage`: what scripts rely on, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jobplaybook.commands import cli
from tests.canonical import Rows, ago, job, snapshot_of
from tests.test_backlog import busy_queue, tables, together
from tests.test_estimate_command import KEYS

Saved = Callable[[Rows], str]
PART_KEYS = [*KEYS, "waiting", "parked"]


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """Give a function that writes a snapshot of canonical rows and returns its path."""

    def write(rows: Rows) -> str:
        with snapshot_of(tmp_path, rows) as snapshot:
            return str(tmp_path / snapshot.label)

    return write


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def answer(*words: str) -> dict[str, Any]:
    done = run(*words, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    document = json.loads(done.stdout, parse_constant=pytest.fail)
    assert isinstance(document, dict)
    return document


def drain(path: str, *words: str) -> dict[str, Any]:
    return answer("estimate", "drain", "--from", path, *words)


# What it answers


def test_the_json_has_the_promised_keys(saved: Saved) -> None:
    """`estimate drain --from`: the whole with the keys of a drain, then each queue and type."""
    known = drain(saved(together(busy_queue(), busy_queue("sms"))))
    empty = drain(saved(tables(jobs=[])))
    for document in (known, empty):
        assert list(document) == [*PART_KEYS, "queues", "types"]
        assert list(document["seconds"]) == ["mean", "p5", "p50", "p95"]
    assert [part["queue"] for part in known["queues"]] == ["mail", "sms"]
    assert [part["job_type"] for part in known["types"]] == ["mail"]
    for part in (*known["queues"], *known["types"]):
        assert list(part)[1:] == PART_KEYS
    assert (known["waiting"], known["never"], known["engine"]) == (80, False, "closed-form")
    assert (empty["text"], empty["never"], empty["waiting"]) == ("no backlog", False, 0)
    assert "first found empty" in known["drained_means"]


def test_an_unknown_capacity_is_null_and_no_failure(saved: Saved) -> None:
    """Unknown is an answer: exit code 0, null for the numbers, the reason in words."""
    document = drain(saved({"jobs": [job("1")]}))
    assert (document["never"], document["net_rate"]) == (None, None)
    assert set(document["seconds"].values()) == {None}
    assert document["text"].startswith("capacity unknown: ")
    done = run("estimate", "drain", "--from", saved({"jobs": [job("1")]}))
    assert done.exit_code == 0
    assert done.stdout.startswith("capacity unknown: ")


def test_one_queue_alone(saved: Saved) -> None:
    """With --queue the document is of that queue, and no part is told."""
    path = saved(together(busy_queue(), busy_queue("sms", left=90)))
    one = drain(path, "--queue", "sms")
    every = drain(path)
    (part,) = [part for part in every["queues"] if part["queue"] == "sms"]
    assert one["seconds"] == part["seconds"]
    assert (one["queues"], one["types"]) == ([], [])


def test_a_deadline_and_a_limit(saved: Saved) -> None:
    """--by and --limit ask the same of a measured backlog as of given numbers."""
    document = drain(saved(busy_queue()), "--by", "200s", "--limit", "100")
    assert document["needed"]["completion_rate"] == pytest.approx(40 / 200)
    assert document["needed"]["workers"] is None
    assert 0 < document["by_probability"] < 0.1
    assert document["seconds_to_limit"] is None  # it shrinks
    assert drain(saved(busy_queue()), "--seed", "5")["seconds"] != document["seconds"]


def test_the_screen_has_a_line_for_each_part(saved: Saved) -> None:
    """The answer, what it rests on, then queues and types, the largest backlog first."""
    path = saved(together(busy_queue(), busy_queue("sms", waiting=90)))
    done = run("estimate", "drain", "--from", path)
    assert done.exit_code == 0
    first, *rest = done.stdout.splitlines()
    assert "until the backlog of 130 jobs is gone" in first
    parts = [line.partition(":")[0] for line in rest if line.startswith(("queue", "type"))]
    assert parts == ["queue sms", "queue mail", "type mail"]


# What it refuses


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--backlog", "9"], "expected --backlog or --from SOURCE, found both"),
        (["--arrival", "2/s"], "expected --arrival or --from SOURCE, found both"),
        (["--completion", "2/s"], "found both"),
        (["--workers", "2"], "found both"),
        (["--service", "5s"], "found both"),
        (["--service-cv", "1"], "found both"),
        (["--failure-rate", "0.1"], "found both"),
        (["--failed-service", "5s"], "found both"),
        (["--max-attempts", "2"], "found both"),
        (["--quota", "5/s"], "found both"),
        (["--observed", "15m"], "found both"),
        (["--completions-seen", "9"], "found both"),
        (["--failures-seen", "1/9"], "found both"),
        (["--queue", "maul"], "no queue 'maul': did you mean mail?"),
    ],
)
def test_numbers_beside_a_source_are_refused(saved: Saved, words: list[str], reason: str) -> None:
    """What would be ignored is refused with exit code 2, one line, and nothing on stdout."""
    done = run("estimate", "drain", "--from", saved(busy_queue()), *words)
    said = done.stderr
    assert done.exit_code == 2
    assert done.stdout == ""
    assert reason in said


@pytest.mark.parametrize("option", ["--queue", "--now", "--since"])
def test_options_of_a_source_are_refused_without_one(option: str) -> None:
    """--queue, --now and --since would be ignored beside given numbers."""
    value = {"--queue": "mail", "--now": "2026-12-01T00:00:00Z", "--since": "1h"}[option]
    numbers = ["--backlog", "9", "--arrival", "0", "--completion", "1/s"]
    done = run("estimate", "drain", *numbers, option, value)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"expected {option} with --from SOURCE alone" in done.stderr


def test_a_source_that_is_none() -> None:
    """A file that is not there is refused, not answered with an empty backlog."""
    done = run("estimate", "drain", "--from", "nowhere.db")
    assert done.exit_code == 2
    assert done.stdout == ""


# triage


def test_triage_tells_when_it_is_over(saved: Saved) -> None:
    """`triage`: eta is p5, p50, p95 of the backlog where it shows its rates, in that order."""
    eta = answer("triage", saved(busy_queue(left=120)))["verdict"]["eta"]
    assert list(eta) == ["p5", "p50", "p95"]
    assert 0 < eta["p5"] < eta["p50"] < eta["p95"]
    assert eta["p50"] == pytest.approx(400, rel=0.15)


def test_triage_knows_no_eta_without_rates(saved: Saved) -> None:
    """`triage`: eta is null for no backlog, and for one of unknown capacity."""
    late = tables(jobs=[job("1", available_at=ago(9_000))])
    for rows in (tables(), late, busy_queue(left=9)):
        assert answer("triage", saved(rows))["verdict"]["eta"] is None


def test_an_end_that_may_never_come_is_null(saved: Saved) -> None:
    """`triage`: p95 is null where more than a twentieth of the draws never end."""
    came = [job(f"+{n}", queue="mail", created_at=ago(n), available_at=ago(n)) for n in range(600)]
    eta = answer("triage", saved(together(busy_queue(left=300), tables(jobs=came))))["verdict"]
    assert eta["eta"] == {"p5": None, "p50": None, "p95": None}
