"""A life in words: what attempts waited for, what comes next, and nothing that is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobplaybook.life_events import attempts_of
from tests.canonical import Rows, ago, attempt, bare, done, job, known
from tests.test_life import lived


@pytest.mark.parametrize(
    ("row", "tried", "waited", "exact"),
    [
        # never put off, so the first attempt's wait is known even after a retry
        ({"available_at": ago(100), "status": "pending", "attempts": 1}, 1, 2.0, True),
        # put off after a failure: the first due time is gone
        ({"available_at": ago(10), "status": "pending", "attempts": 1}, 1, 2.0, False),
        # scheduled for later than it was accepted: the wait begins when it was due
        ({"available_at": ago(99), "status": "processing", "attempts": 1}, 1, 1.0, True),
        # the attempt before is not kept: from when it waited is not known
        ({"available_at": None, "status": "processing", "attempts": 4}, 4, None, False),
        ({"available_at": None, "created_at": None, "status": "processing"}, 1, None, False),
    ],
)
def test_from_when_an_attempt_waited(
    row: dict[str, Any], tried: int, waited: float | None, exact: bool
) -> None:
    """A wait is exact where its beginning is kept, a bound where it is not, else unknown."""
    made = {"created_at": ago(100), **row}
    tries = [{"attempt": tried, "owner": "w", "started_at": ago(98), "ended_at": None,
              "outcome": "running"}]  # fmt: skip
    (found,) = attempts_of(made, tries)
    assert (found.waited_seconds, found.wait_is_exact) == (waited, exact)


NEXT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (job("1", available_at=ago(-90)), {}, "It becomes due at 2026-12-01T03:01:30Z, in 1 min 30 s."),
    (job("1"), {}, "It waits for a worker to claim it since 2026-12-01T02:59:00Z, for 1 min."),
    (bare("1"), {}, "It waits for a worker to claim it."),
    (
        job("1", queue="stopped"),
        {},
        "its queue is paused since 2026-12-01T02:59:51Z, and nothing is claimed there.",
    ),
    (job("1", "held"), {}, "It is held back until somebody releases it."),
    (job("1", "dead"), {}, "It is a dead letter: it waits for somebody to close or to replay it."),
    (job("1", "cancelled", finished_at=ago(1)), {}, "Nothing more happens to it."),
    (
        job("1", "processing", locked_until=ago(5)),
        {"sweeper": "the rescuer"},
        "the system does not say by whom. Its lease was over at 2026-12-01T02:59:55Z; the rescuer "
        "takes it back.",
    ),
    (
        job("1", "processing", owner="gone", locked_until=ago(-5)),
        {},
        "worker gone, of which nothing else is recorded. Its lease is over at "
        "2026-12-01T03:00:05Z, unless it is renewed; then nothing sweeps it.",
    ),
    (
        job("1", "processing", owner="stopped"),
        {},
        "which stopped at 2026-12-01T02:59:53Z. No lease says when its worker must be given up",
    ),
    (job("1", "processing", owner="mute"), {}, "of which no heartbeat is recorded"),
]


@pytest.mark.parametrize(("row", "meta", "said"), NEXT)
def test_what_comes_next(
    row: dict[str, Any], meta: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Every place where a job can stand says what happens next, and when."""
    rows: Rows = {
        "jobs": [row],
        "queues": [{"queue": "stopped", "paused_at": ago(9)}],
        "workers": [{"owner": "stopped", "stopped_at": ago(7)}, {"owner": "mute"}],
    }
    assert said in lived(tmp_path, rows, **meta).next


def test_a_job_that_nothing_is_known_of(tmp_path: Path) -> None:
    """Without a single time there is a life still, and none of it is made up."""
    rows = {
        "jobs": [{**bare("1", "processing"), "attempts": 1}],
        "attempts": [attempt("1")],
        "facts": known("effects"),
    }
    life = lived(tmp_path, rows)
    assert life.events == ()
    assert "accepted at a time that is not recorded" in life.explanation
    assert "Attempt 1 started at a time that is not recorded and has not ended" in life.explanation
    assert life.not_recorded == ("effects", "which worker ran attempt 1")


def test_a_hundred_attempts_are_not_told_one_by_one(tmp_path: Path) -> None:
    """The first and the last are told, the others counted; the events list them all."""
    tries = [
        attempt("1", n, "failed", started_at=ago(900 - 2 * n), ended_at=ago(899 - 2 * n))
        for n in range(1, 101)
    ]
    life = lived(tmp_path, {"jobs": [job("1", attempts=100)], "attempts": tries})
    assert "95 attempts like it followed" in life.explanation
    assert "Attempt 1 started" in life.explanation
    assert "Attempt 100 started again" in life.explanation
    assert "Attempt 50 " not in life.explanation
    assert [event.event for event in life.events].count("failed") == 100


def test_a_life_over_days_says_the_day(tmp_path: Path) -> None:
    """A time of day alone would mislead where the job is older than a day."""
    row, tried = done("1", ended=10, ran=200_000)
    life = lived(tmp_path, {"jobs": [row], "attempts": [tried]})
    assert "started at 2026-11-28T19:26:30Z" in life.explanation
    assert "at 2026-12-01T02:59:50Z, after 2 d 8 h, it succeeded" in life.explanation
