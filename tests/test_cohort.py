"""The jobs that are worst off: who is among them, in which order, and what their frames hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import jobplaybook as jp
from jobplaybook import cohort
from jobplaybook.errors import InputError
from jobplaybook.frames import check_frame
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import to_micros
from tests.canonical import NOW, Rows, ago, attempt, bare, done, job, snapshot_of

WINDOW: Mapping[str, Any] = {"since": ago(3_600), "until": NOW}
SCHEMAS = (cohort.COHORT, cohort.ATTEMPTS, cohort.WAITS, cohort.EVENTS)


def held(job_id: str, *, lease: float, **values: Any) -> dict[str, Any]:
    """Return a running job whose lease ends in ``lease`` seconds."""
    made = {"attempts": 1, "claimed_at": ago(50), "locked_until": ago(-lease), **values}
    return job(job_id, "processing", **made)


def worst(folder: Path, *jobs: Any, **asked: Any) -> list[tuple[str, str]]:
    """Return the ids of the worst jobs and why they are it."""
    with snapshot_of(folder, {"jobs": jobs}) as snapshot:
        frame = cohort.worst_jobs(snapshot, **{**WINDOW, **asked})
    return list(zip(frame["job"], frame["why"], strict=True))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_column_says_what_it_is(schema: Mapping[str, Any]) -> None:
    """Times and durations carry their unit, and every column is described."""
    assert all(column.doc for column in schema.values())
    assert all(name.endswith("_seconds") == (c.unit == "s") for name, c in schema.items())
    times = {name for name, column in schema.items() if column.unit == "UTC"}
    assert times == {name for name in schema if name.endswith("_at") or name == "at"}


def test_the_gravest_come_first(tmp_path: Path) -> None:
    """Lease over, dead, tried again, unfinished, slow: each job once, by its gravest kind."""
    ended, _ = done("slow", ended=5, ran=40)
    found = worst(
        tmp_path,
        ended,
        job("waits"),
        job("again", attempts=2, available_at=ago(-60)),
        job("dead", "dead", attempts=9, finished_at=ago(5)),
        held("lost", lease=-1, attempts=7),
        held("runs", lease=5),
    )
    assert found == [
        ("lost", "lease over"),
        ("dead", "dead"),
        ("again", "tried again"),
        ("runs", "unfinished"),
        ("waits", "unfinished"),
        ("slow", "slow"),
    ]


def test_a_few_of_each_kind(tmp_path: Path) -> None:
    """Of one kind those with most attempts, then the longest in the system; no more than asked."""
    jobs = [job(str(n), attempts=1, created_at=ago(60 + n)) for n in range(9)]
    tried = job("tried", attempts=3)
    assert worst(tmp_path, *jobs, tried, each=2) == [
        ("tried", "tried again"),
        ("8", "unfinished"),
        ("7", "unfinished"),
    ]


def test_who_is_not_badly_off(tmp_path: Path) -> None:
    """What is only scheduled for later, or ended before the window, is none of them."""
    old, _ = done("old", ended=7_200)
    assert worst(tmp_path, old, job("later", available_at=ago(-900))) == []
    assert worst(tmp_path, bare("no-times")) == [("no-times", "unfinished")]


def test_leases_are_judged_when_asked_for(tmp_path: Path) -> None:
    """By default when the row was read; at a given moment all over again."""
    row = held("1", lease=30, read_at=NOW)
    assert worst(tmp_path, row) == [("1", "unfinished")]
    assert worst(tmp_path, row, now=ago(-31)) == [("1", "lease over")]
    before = held("2", lease=-5, read_at=ago(9))
    assert worst(tmp_path, before) == [("2", "unfinished")]


def test_one_queue_alone(tmp_path: Path) -> None:
    """A queue's own jobs, and an unknown one is an error that names the nearest."""
    rows = (job("1", queue="mail"), job("2", queue="pdf"), job("3", queue=None))
    assert worst(tmp_path, *rows, queue="mail") == [("1", "unfinished")]
    with pytest.raises(InputError, match="'mial': did you mean 'mail'"):
        worst(tmp_path, *rows, queue="mial")
    with pytest.raises(InputError, match="known: 'mail', 'pdf'"):
        worst(tmp_path, *rows, queue="other")


def attempts(folder: Path, rows: Rows, *ids: str, **asked: Any) -> list[dict[str, Any]]:
    with snapshot_of(folder, rows) as snapshot:
        frame = cohort.attempts(snapshot, ids, **asked)
    found: list[Any] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return found


def test_attempts_know_their_lease(tmp_path: Path) -> None:
    """Only the attempt that runs has a lease and a worker that beats; the others are over."""
    rows: Rows = {
        "jobs": [held("1", lease=-5, attempts=2, owner="w"), job("2", attempts=1)],
        "attempts": [
            attempt("1", 1, "failed", owner="w", started_at=ago(90), ended_at=ago(80)),
            attempt("1", 2, owner="w", started_at=ago(50)),
            attempt("2", 1, "unknown", started_at=ago(99)),
        ],
        "workers": [{"owner": "w", "heartbeat_at": ago(35)}],
    }
    found = attempts(tmp_path, rows, "1", "2", "unknown")
    assert [(row["job"], row["attempt"]) for row in found] == [("2", 1), ("1", 1), ("1", 2)]
    assert [row["lease_over_at"] is None for row in found] == [True, True, False]
    assert to_micros(found[2]["lease_over_at"].to_pydatetime()) == ago(5)
    assert to_micros(found[2]["heartbeat_at"].to_pydatetime()) == ago(35)
    assert found[0]["ended_at"] is None
    assert attempts(tmp_path, rows, "1", now=ago(6))[1]["lease_over_at"] is None
    assert attempts(tmp_path, rows) == []


def test_a_microsecond_is_kept_beside_holes(tmp_path: Path) -> None:
    """A column with a missing time loses no digit of the others."""
    at = ago(90) + 1
    rows: Rows = {
        "jobs": [job("1")],
        "attempts": [
            attempt("1", 1, "failed", started_at=at, ended_at=at + 1),
            attempt("1", 2),
        ],
    }
    first, second = attempts(tmp_path, rows, "1")
    assert to_micros(first["ended_at"].to_pydatetime()) == at + 1
    assert (second["started_at"], second["ended_at"]) == (None, None)


def sample_frames(snapshot: Snapshot) -> list[tuple[pd.DataFrame, Mapping[str, Any]]]:
    seen = jp.triage(snapshot).situation
    found = cohort.worst_jobs(snapshot, since=seen.window_from, until=seen.flow_until)
    life = jp.timeline(snapshot, found["job"].iloc[0], events=[(NOW, "a\x1b[31m deploy")])
    return [
        (found, cohort.COHORT),
        (cohort.attempts(snapshot, list(found["job"])), cohort.ATTEMPTS),
        (cohort.wait_frame(life.attempts), cohort.WAITS),
        (cohort.event_frame(life.events), cohort.EVENTS),
    ]


def test_the_frames_of_the_sample_pass_the_border() -> None:
    """Each frame is of its schema; the four jobs of the killed worker lead."""
    with jp.open_snapshot("sample") as snapshot:
        frames = sample_frames(snapshot)
    for frame, schema in frames:
        assert len(check_frame(frame, schema))
    first, _ = frames[0]
    assert list(first["job"][:4]) == ["319", "406", "528", "530"]
    assert set(first["why"][:4]) == {"lease over"}
    assert "\x1b" not in "".join(frames[3][0]["note"])


def test_empty_frames_keep_their_columns(tmp_path: Path) -> None:
    """Nothing at all is a frame without rows."""
    with snapshot_of(tmp_path, {}) as snapshot:
        assert cohort.worst_jobs(snapshot, **WINDOW).empty
        assert list(cohort.attempts(snapshot, []).columns) == list(cohort.ATTEMPTS)
    assert cohort.wait_frame(()).empty
    assert cohort.event_frame(()).empty
