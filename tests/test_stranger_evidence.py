"""Evidence is not lost, and a slip of the keyboard does not look healthy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jobplaybook as jp
from jobplaybook.units import parse_time
from tests.canonical import ago, done, job, snapshot_of
from tests.captures import capture, command_line
from tests.test_recordings import AFTER_KILL_AT, LEASE_OVER_AT

NOW = parse_time(AFTER_KILL_AT)


def test_an_older_snapshot_is_kept(recording: Callable[[str], str], tmp_path: Path) -> None:
    """A second capture to the same file puts the first aside and says so; the same bytes do not."""
    url, path = recording("after_kill"), tmp_path / "incident.db"
    first = capture(url, path, now=NOW, take_vitals=False)
    before = path.read_bytes()
    assert not [text for text in first.warnings if "older snapshot" in text]
    assert not [text for text in again(url, path) if "older snapshot" in text]
    assert len(list(tmp_path.glob("*.db"))) == 1
    said = [text for text in again(url, path, budget_seconds=0.001) if "older snapshot" in text]
    (aside,) = [file for file in tmp_path.glob("incident.*.db") if file != path]
    assert said == [f"an older snapshot stood there: it is kept as '{aside}'"]
    assert aside.read_bytes() == before
    assert aside.stat().st_mode & 0o777 == 0o600
    again(url, path)
    assert len(list(tmp_path.glob("incident.*.db"))) == 2


def again(url: str, path: Path, **options: Any) -> tuple[str, ...]:
    return capture(url, path, now=NOW, take_vitals=False, **options).warnings


def test_a_wrong_year_is_no_healthy_queue(recording: Callable[[str], str]) -> None:
    """A live source as of a year ago: its jobs come from the future, and nothing can be said."""
    url = recording("killed")
    result = command_line("triage", url, "--now", "2025-12-01T04:38:47Z", "--json")
    verdict = json.loads(result.stdout)["verdict"]
    assert verdict["code"] == "unknown"
    assert "901 of 901 jobs were created after" in verdict["sentence"]


@pytest.mark.parametrize(("future", "code"), [(2, "unknown"), (1, "healthy")])
def test_a_few_jobs_of_the_future_are_no_wrong_moment(
    tmp_path: Path, future: int, code: str
) -> None:
    """Only where most jobs were created long after the capture is its moment doubted."""
    old = done("1", ended=5)
    new = [job(f"n{n}", created_at=ago(-9_000), available_at=ago(-9_000)) for n in range(future)]
    rows = {"jobs": [old[0], *new], "attempts": [old[1]]}
    with snapshot_of(tmp_path, rows) as snapshot:
        assert jp.triage(snapshot).verdict.code == code


def test_a_later_judgement_asks_for_a_new_look(
    recording: Callable[[str], str], tmp_path: Path
) -> None:
    """Leases judged long after the look: the first step is to look again; other days are named."""
    capture(recording("after_kill"), tmp_path / "a.db", now=NOW)
    soon = jp.triage(str(tmp_path / "a.db"), now=LEASE_OVER_AT).verdict
    assert soon.next[0].startswith("Capture again before anything is requeued")
    late = jp.triage(str(tmp_path / "a.db"), now="2026-12-03T00:00:00Z").verdict
    assert "is over by 2026-12-03 00:00:00Z" in late.sentence
