"""The recordings of real procrastinate runs: what the verdict says, and what happened.

The truth files were written by the job handlers themselves; no connector reads them.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from jobplaybook.sources.base import ReadOptions
from jobplaybook.units import MICROS, iso, parse_time, to_micros
from tests.captures import capture, command_line, look, meta
from tests.conftest import RECORDINGS

FOLDER = RECORDINGS / "procrastinate"
AFTER_KILL_AT = "2026-12-01T03:44:54.3Z"
LEASE_OVER_AT = "2026-12-01T03:45:22Z"
FINAL_AT = "2026-12-01T04:10:00Z"

Recording = Callable[[str], str]
Snapshot = Callable[[str], Path]


def captured_at(name: str) -> str:
    """Return the moment a recording was made, as its label or the README says."""
    label = FOLDER / f"{name}.label.json"
    if label.exists():
        return str(json.loads(label.read_text())["captured_at"])
    return {"after_kill": AFTER_KILL_AT, "final": FINAL_AT}[name]


@pytest.fixture(scope="module")
def snapshot(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Give the snapshot of a recording, in clear text, as of the moment it was made."""
    folder = tmp_path_factory.mktemp("recordings")

    def made(name: str) -> Path:
        path = folder / f"{name}.db"
        if not path.exists():
            capture(
                recording(name),
                path,
                keep_text=True,
                now=parse_time(captured_at(name)),
                read=ReadOptions(tenant_path=("args", "tenant"), key_path=("args", "key")),
            )
        return path

    return made


def answer(*words: str, url: str | None = None) -> dict[str, Any]:
    """Return the JSON that the command line answers, as a process."""
    done = command_line(*words, "--json", environ={"U": url or ""})
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def finding(document: dict[str, Any], code: str) -> dict[str, Any]:
    (found,) = [found for found in document["findings"] if found["code"] == code]
    return dict(found)


def codes(document: dict[str, Any]) -> set[str]:
    return {found["code"] for found in document["findings"]}


# after_kill


def test_a_capture_counts_what_the_tables_hold(recording: Recording, tmp_path: Path) -> None:
    """`capture --now` of after_kill: all 202 jobs, by the library's own words."""
    path = tmp_path / "a.db"
    words = ("capture", "env:U", "-o", str(path), "--now", AFTER_KILL_AT)
    report = answer(*words, url=recording("after_kill"))
    assert report["rows"]["jobs"] == 202
    assert report["rows_by_status"] == {"succeeded": 147, "todo": 51, "doing": 3, "cancelled": 1}
    assert (report["system"], report["not_read"], report["moved_during_capture"]) == (
        "procrastinate",
        {},
        0,
    )
    moment = iso(parse_time(AFTER_KILL_AT))
    assert {report["captured_from"], report["captured_to"]} == {moment}
    assert (meta(path)["captured_at"], meta(path)["content_sha256"]) == (
        moment,
        report["content_sha256"],
    )
    assert look(path, "SELECT DISTINCT read_at FROM jobs") == [(parse_time(AFTER_KILL_AT),)]


def test_a_lease_that_runs_out_later_is_inferred(snapshot: Snapshot) -> None:
    """Judged at a later moment exactly the dead worker's three jobs are expired."""
    found = answer("triage", str(snapshot("after_kill")), "--now", LEASE_OVER_AT)
    assert found["verdict"]["code"] == "lease-expired"
    expired = finding(found, "lease-expired")
    assert expired["job_ids"] == ["191", "192", "193"]
    assert (expired["count"], expired["evidence"]["owners"]) == (3, ["2"])
    assert expired["confidence"] == "inferred"
    assert any("nobody looked" in text or "last look" in text for text in found["warnings"])


def test_no_lease_is_over_when_it_was_captured(snapshot: Snapshot) -> None:
    """At captured_at the dead worker is only seconds silent: nothing is accused."""
    found = answer("triage", str(snapshot("after_kill")))
    assert not codes(found) & {"lease-expired", "phantom-running", "workers-lost"}


def test_nothing_but_leases_is_judged_later(snapshot: Snapshot) -> None:
    """A later `now` calls no worker lost and no queue still: nobody looked since."""
    path = str(snapshot("after_kill"))
    later = answer("triage", path, "--now", "2026-12-01T09:00:00Z")
    assert codes(later) <= codes(answer("triage", path)) | {"lease-expired"}


# killed and healthy


def test_the_killed_workers_jobs_are_named(snapshot: Snapshot) -> None:
    """`killed` at its captured_at: four jobs, one owner, and nobody else is accused."""
    found = answer("triage", str(snapshot("killed")))
    assert found["verdict"]["code"] == "lease-expired"
    assert found["verdict"]["layer"] == "claimed"
    assert found["verdict"]["blast_radius"]["jobs"] == 4
    expired = finding(found, "lease-expired")
    assert (expired["severity"], expired["confidence"]) == ("page", "sure")
    assert expired["job_ids"] == ["319", "406", "528", "530"]
    assert expired["evidence"]["owners"] == ["2"]
    lost = finding(found, "workers-lost")
    assert (lost["count"], lost["evidence"]["owners"]) == (1, ["2"])
    assert all(
        "1" not in found.get("evidence", {}).get("owners", []) for found in found["findings"]
    )


def test_the_native_statement_names_the_same_jobs(snapshot: Snapshot) -> None:
    """The statement to be copied is procrastinate's own, for these jobs of that worker."""
    found = answer("triage", str(snapshot("killed")))
    (statement,) = [step for step in finding(found, "lease-expired")["next"] if "SELECT" in step]
    assert "procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL)" in statement
    assert "worker_id IN (2)" in statement
    assert "id IN (319, 406, 528, 530)" in statement


def test_health_is_an_answer(snapshot: Snapshot) -> None:
    """`healthy` at its captured_at: the verdict is healthy and nothing wakes anybody."""
    found = answer("triage", str(snapshot("healthy")))
    assert found["verdict"]["code"] == "healthy"
    assert not [one for one in found["findings"] if one["severity"] == "page"]
    assert (found["counts"]["completed"], found["counts"]["processing"]) == (897, 4)


@pytest.mark.parametrize("name", ["killed", "healthy"])
def test_a_live_triage_says_the_same(recording: Recording, snapshot: Snapshot, name: str) -> None:
    """`triage env:U` captures by itself and answers as the snapshot does."""
    now = ("--now", captured_at(name))
    live = answer("triage", "env:U", *now, "--tenant-path", "args.tenant", url=recording(name))
    kept = answer("triage", str(snapshot(name)))
    assert live["verdict"]["code"] == kept["verdict"]["code"]
    assert (live["counts"], codes(live)) == (kept["counts"], codes(kept))


# final


def test_the_dead_letters_of_the_end(snapshot: Snapshot) -> None:
    """`final`: seventeen dead jobs, nothing running, nothing expired."""
    found = answer("triage", str(snapshot("final")))
    assert (found["counts"]["dead"], found["counts"].get("processing", 0)) == (17, 0)
    assert "lease-expired" not in codes(found)


# Graded against the truth


def true_starts(name: str) -> dict[str, list[int]]:
    starts = defaultdict(list)
    with (FOLDER / f"{name}.truth.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["phase"] == "start":
                starts[row["job_key"]].append(to_micros(datetime.fromisoformat(row["at"] + ":00")))
    return {key: sorted(times) for key, times in starts.items()}


def told_starts(path: Path) -> tuple[dict[str, list[int]], Counter[str]]:
    """Return the starts per key, and how many starts per type have no key."""
    starts, keyless = defaultdict(list), Counter[str]()
    for key, job_type, at in look(
        path,
        "SELECT j.idempotency_key, j.job_type, a.started_at FROM attempts a"
        " JOIN jobs j ON j.id = a.job_id ORDER BY a.started_at",
    ):
        if key is None:
            keyless[job_type] += 1
        else:
            starts[key].append(at)
    return dict(starts), keyless


def counted(starts: dict[str, list[int]]) -> dict[str, int]:
    return {key: len(times) for key, times in starts.items()}


@pytest.mark.parametrize("name", ["after_kill", "final", "killed", "healthy"])
def test_starts_are_those_that_happened(snapshot: Snapshot, name: str) -> None:
    """Every start a handler wrote down is told, at its time, and no other."""
    truth, (told, _) = true_starts(name), told_starts(snapshot(name))
    assert counted(told) == counted(truth)
    apart = [
        abs(ours - theirs) / MICROS
        for key, times in truth.items()
        for ours, theirs in zip(told[key], times, strict=True)
    ]
    assert max(apart) < 0.1


def test_the_final_starts_are_262_and_9_ticks(snapshot: Snapshot) -> None:
    """The figures of the recording: 262 starts of the truth's keys, 9 of the periodic tasks."""
    told, keyless = told_starts(snapshot("final"))
    assert sum(counted(told).values()) == sum(counted(true_starts("final")).values()) == 262
    assert keyless == {"retry_stalled": 7, "tick": 2}


@pytest.mark.parametrize("name", ["after_kill", "final", "killed", "healthy"])
def test_attempts_say_what_the_tables_know(snapshot: Snapshot, name: str) -> None:
    """Running attempts have no end, ended ones have; a retry's outcome is not guessed."""
    path = snapshot(name)
    outcomes = dict(look(path, "SELECT outcome, count(*) FROM attempts GROUP BY 1"))
    by_status = dict(look(path, "SELECT native_status, count(*) FROM jobs GROUP BY 1"))
    assert outcomes.get("running", 0) == by_status.get("doing", 0)
    assert outcomes["succeeded"] == by_status["succeeded"]
    assert outcomes.get("failed", 0) == by_status.get("failed", 0)
    odd = "SELECT count(*) FROM attempts WHERE (outcome = 'running') = (ended_at IS NOT NULL)"
    assert look(path, odd) == [(0,)]
    assert look(path, "SELECT count(*) FROM attempts WHERE ended_at < started_at") == [(0,)]
    numbered = "SELECT sum(attempts), max(attempts) FROM jobs"
    rows = "SELECT count(*), max(attempt) FROM attempts"
    assert look(path, numbered) == look(path, rows)


def test_an_owner_is_told_only_where_it_is_known(snapshot: Snapshot) -> None:
    """25 retries still carry the worker of their last run: it owns that attempt, not the job."""
    path = snapshot("after_kill")
    owners = "SELECT DISTINCT native_status FROM jobs WHERE owner IS NOT NULL"
    assert look(path, owners) == [("doing",)]
    earlier = (
        "SELECT count(*) FROM attempts a JOIN jobs j ON j.id = a.job_id"
        " WHERE a.owner IS NOT NULL AND a.attempt < j.attempts"
    )
    assert look(path, earlier) == [(0,)]
    waiting = (
        "SELECT count(a.owner) FROM attempts a JOIN jobs j ON j.id = a.job_id"
        " WHERE j.native_status = 'todo'"
    )
    assert look(path, waiting) == [(25,)]


def columns(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [value for (value,) in rows]


def test_tenants_and_keys_come_from_the_payload(snapshot: Snapshot) -> None:
    """Only the two named fields are read from a payload, and the facts say so."""
    path = snapshot("final")
    tenants = "SELECT DISTINCT tenant_id FROM jobs WHERE tenant_id IS NOT NULL ORDER BY 1"
    assert columns(look(path, tenants)) == ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t9"]
    fact = "SELECT DISTINCT quality, note FROM facts WHERE fact = ?"
    assert look(path, fact, "tenant") == [("exact", "read from the payload at args.tenant")]
