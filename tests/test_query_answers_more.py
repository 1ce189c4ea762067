"""Queries about clocks, retries and classes: what each of them answers, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook.queries import backlog, classes, clocks, retries, vitals
from jobplaybook.units import MICROS
from tests.canonical import (
    NOW,
    SINCE,
    UNTIL,
    Loaded,
    Rows,
    ago,
    attempt,
    job,
    postgres_tables,
    sqlite_tables,
)
from tests.postgres import Postgres


@pytest.fixture(scope="module")
def both(postgres: Postgres) -> Iterator[tuple[Loaded, Loaded]]:
    with sqlite_tables() as small, postgres_tables(postgres) as large:
        yield small, large


@pytest.fixture(params=["sqlite", "postgresql"])
def one(request: pytest.FixtureRequest, both: tuple[Loaded, Loaded]) -> Loaded:
    return both[request.param == "postgresql"]


def asked(loaded: Loaded, rows: Rows, statement: sa.Executable) -> list[tuple[Any, ...]]:
    loaded.load(rows)
    return loaded.rows(statement)


# Clocks


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (job("1", "processing", created_at=ago(9), claimed_at=ago(10)), None),
        (
            job("1", "processing", created_at=ago(9), claimed_at=ago(10) - 1),
            "claimed-before-created",
        ),
        (job("1", "completed", claimed_at=ago(9), finished_at=ago(10)), None),
        (job("1", "completed", claimed_at=ago(9), finished_at=ago(10) - 1), "ended-before-claimed"),
        (job("1", "cancelled", created_at=ago(9), finished_at=ago(10)), None),
        (
            job("1", "cancelled", created_at=ago(9), finished_at=ago(10) - 1),
            "ended-before-created",
        ),
        (job("1", created_at=NOW, read_at=ago(1)), None),
        (job("1", created_at=NOW, read_at=ago(1) - 1), "created-after-read"),
        (job("1", "processing", claimed_at=NOW, read_at=ago(1) - 1), "claimed-after-read"),
        (job("1", "dead", finished_at=NOW, read_at=ago(1) - 1), "ended-after-read"),
        (job("1", available_at=ago(-9), created_at=NOW), None),
        (job("1", "completed", created_at=None, claimed_at=None, finished_at=NOW), None),
    ],
)
def test_an_order_that_cannot_be(one: Loaded, row: dict[str, Any], kind: str | None) -> None:
    """disorders: more than the tolerance apart; due times may be any, unknown ones are none."""
    found = asked(one, {"jobs": [row]}, clocks.disorders(MICROS))
    assert [each[0] for each in found] == ([kind] if kind else [])
    assert [each[3] for each in found] == [MICROS + 1] * len(found)


def test_a_moment_that_was_given_is_no_clock(one: Loaded) -> None:
    """disorders: where rows bear a given moment for the database's clock, it judges nothing."""
    row = job("1", "processing", created_at=ago(-90), claimed_at=ago(-9), read_at=NOW)
    (found,) = asked(one, {"jobs": [row]}, clocks.disorders(MICROS))
    assert found[0] == "claimed-before-created"
    row["claimed_at"] = ago(-99)
    assert asked(one, {"jobs": [row]}, clocks.disorders(MICROS, clock=False)) == []


ODD: Rows = {
    "jobs": [
        job("10", "completed", created_at=ago(5), claimed_at=ago(60), finished_at=ago(90)),
        job("9", "completed", created_at=ago(3), claimed_at=ago(8), finished_at=ago(1)),
        job("8", "completed", claimed_at=ago(8), finished_at=ago(1), tenant_id="t"),
        job("7", tenant_id="t"),
    ],
    "attempts": [
        attempt("8", outcome="failed", started_at=ago(9), ended_at=ago(40)),
        attempt("10", outcome="failed", started_at=ago(30), ended_at=ago(40)),
        attempt("gone", outcome="failed", started_at=ago(31), ended_at=ago(40)),
        attempt("7", outcome="failed", started_at=ago(31)),
    ],
}


def test_disorders_are_counted_with_the_worst(one: Loaded) -> None:
    """disorders: rows, the first begin and the largest gap of each kind; a job counts once."""
    assert asked(one, ODD, clocks.disorders(MICROS)) == [
        ("attempt-ended-before-started", 3, ago(31), 31 * MICROS),
        ("claimed-before-created", 2, ago(5), 55 * MICROS),
    ]


def test_whom_disorders_hit(one: Loaded) -> None:
    """disordered, examples: different jobs, tenants and types; short ids first."""
    assert asked(one, ODD, clocks.disordered(MICROS)) == [(4, 1, 1)]
    assert asked(one, ODD, clocks.examples(MICROS, limit=3)) == [("8",), ("9",), ("10",)]


# Retries


TRIED: Rows = {
    "jobs": [
        job("1", tenant_id="t1"),
        job("2", tenant_id="t1"),
        job("3", "completed", job_type="pdf", queue=None, finished_at=ago(60)),
        job("4", "completed", finished_at=SINCE - 1),
        job("5", "completed", finished_at=SINCE),
        job("6", "dead", finished_at=ago(60)),
    ],
    "attempts": [
        attempt("1", 1, "failed", started_at=ago(100), ended_at=ago(90)),
        attempt("1", 2, "failed", started_at=ago(89) - 1, ended_at=ago(80)),
        attempt("1", 3, "failed", started_at=ago(79), ended_at=ago(70)),
        attempt("2", 2, started_at=ago(60)),
        attempt("3", 2, started_at=SINCE - 1),
        attempt("3", 3, started_at=SINCE),
        attempt("3", 4),
        attempt("gone", 2, started_at=ago(60)),
    ],
}


def test_retries_are_attempts_after_the_first(one: Loaded) -> None:
    """retried: started in the window; quick ones less than a second after the one before ended."""
    assert asked(one, TRIED, retries.retried(SINCE, UNTIL, quick=MICROS)) == [
        (None, "pdf", 1, 0, 1, 0),
        ("default", "mail", 3, 1, 2, 1),
    ]


def test_the_busiest_jobs(one: Loaded) -> None:
    """busiest: per queue and type, most retries first, so many at most."""
    every = [(None, "pdf", "3", 1), ("default", "mail", "1", 2), ("default", "mail", "2", 1)]
    assert asked(one, TRIED, retries.busiest(SINCE, UNTIL, limit=2)) == every
    assert asked(one, TRIED, retries.busiest(SINCE, UNTIL, limit=1)) == every[:2]


def test_completions_and_their_course(one: Loaded) -> None:
    """completed, course: completed jobs alone, in buckets that begin where the window does."""
    assert asked(one, TRIED, retries.completed(SINCE, UNTIL)) == [
        (None, "pdf", 1),
        ("default", "mail", 1),
    ]
    assert asked(one, TRIED, retries.course(SINCE, UNTIL, bucket=1_800 * MICROS)) == [
        ("completion", None, "pdf", 1, 1),
        ("completion", "default", "mail", 0, 1),
        ("retry", None, "pdf", 0, 1),
        ("retry", "default", "mail", 1, 3),
    ]


def test_attempts_by_their_number_and_end(one: Loaded) -> None:
    """tried, ended_tries, allowed: attempts of the window, how they ended, how many may be."""
    rows = {
        "jobs": [
            job("1", "completed", max_attempts=3),
            job("2", max_attempts=5),
            job("3", "completed", job_type="pdf", queue=None),
        ],
        "attempts": [
            attempt("1", 1, "failed", started_at=ago(90), ended_at=ago(80), upstream_calls=2),
            attempt("1", 2, "succeeded", started_at=ago(70), ended_at=ago(60)),
            attempt("2", 1, "released", started_at=ago(50), ended_at=ago(40)),
            attempt("2", 2, "expired", started_at=ago(30), ended_at=ago(20), upstream_calls=3),
            attempt("2", 3, started_at=ago(10)),
            attempt("3", 1, "unknown", started_at=SINCE - 1, ended_at=SINCE),
            attempt("3", 2, "succeeded", started_at=SINCE, ended_at=NOW + 1),
        ],
    }
    assert asked(one, rows, retries.tried(SINCE, UNTIL)) == [
        (None, "pdf", 0, 1, 1, None),
        ("default", "mail", 2, 3, 2, 5),
    ]
    assert one.rows(retries.ended_tries(SINCE, UNTIL)) == [
        (None, "pdf", 1, 0, 1, 1),
        ("default", "mail", 1, 0, 1, 0),
        ("default", "mail", 2, 1, 1, 0),
    ]
    assert one.rows(retries.allowed(SINCE, UNTIL)) == [
        (None, "pdf", None, None),
        ("default", "mail", 3, 5),
    ]


def test_what_ran_in_a_window(one: Loaded) -> None:
    """backlog.runs: attempts that touch the window, those that still run without an end."""
    rows = {
        "jobs": [job("1"), job("2", "processing"), job("3")],
        "attempts": [
            attempt("1", 1, "failed", started_at=SINCE - 9, ended_at=SINCE),
            attempt("2", 1, started_at=ago(10)),
            attempt("3", 1, "failed", started_at=SINCE - 9, ended_at=SINCE - 1),
            attempt("3", 2, "unknown", started_at=ago(5)),
        ],
    }
    assert asked(one, rows, backlog.runs(SINCE, UNTIL)) == [
        ("default", "mail", SINCE - 9, SINCE),
        ("default", "mail", ago(10), None),
    ]


def test_what_wakes_when(one: Loaded) -> None:
    """wakings: pending and not yet due, up to the horizon; retries are those started before."""
    rows = {
        "jobs": [
            job("due", available_at=NOW),
            job("1", available_at=NOW + 1),
            job("2", available_at=ago(-9.9), attempts=1),
            job("3", available_at=ago(-10), attempts=0),
            job("4", available_at=ago(-60), queue=None),
            job("late", available_at=ago(-60) + 1),
            job("held", "held", available_at=ago(-5)),
        ]
    }
    assert asked(one, rows, retries.wakings(NOW, ago(-60), bucket=10 * MICROS)) == [
        (None, ago(-60), 1, 0),
        ("default", NOW, 2, 1),
        ("default", ago(-10), 1, 0),
    ]


def test_the_best_minute(one: Loaded) -> None:
    """peaks: the fullest bucket of latest claims of each queue, in the window."""
    at = [ago(100), ago(90), ago(70), ago(30), ago(4_000)]
    rows = {"jobs": [job(str(n), "processing", claimed_at=time) for n, time in enumerate(at)]}
    assert asked(one, rows, retries.peaks(SINCE, UNTIL, bucket=60 * MICROS)) == [("default", 3)]


# Classes


def test_what_waits_by_class(one: Loaded) -> None:
    """waiting: what a worker could take, by type and priority; not what is blocked or parked."""
    rows = {
        "jobs": [
            job("1", priority=5, available_at=ago(9)),
            job("2", priority=5, available_at=ago(8)),
            job("3", job_type=None, available_at=None),
            job("4", available_at=ago(-1)),
            job("5", "processing", shard="s"),
            job("6", shard="s"),
        ]
    }
    assert asked(one, rows, classes.waiting(NOW)) == [
        ("default", None, None, 1, None),
        ("default", "mail", 5, 2, ago(9)),
    ]


def test_claims_by_class(one: Loaded) -> None:
    """last_claims, claims: the latest of each class, and all of them in the order they were due."""
    rows = {
        "jobs": [
            job("1", "completed", priority=1, claimed_at=SINCE, available_at=ago(7_000)),
            job("2", priority=1, claimed_at=ago(50), available_at=ago(60)),
            job("3", "dead", claimed_at=ago(40), available_at=None),
            job("4", "completed", claimed_at=SINCE - 1),
        ]
    }
    assert asked(one, rows, classes.last_claims(SINCE, UNTIL)) == [
        ("default", "mail", None, ago(40)),
        ("default", "mail", 1, ago(50)),
    ]
    assert asked(one, rows, classes.claims(SINCE, UNTIL)) == [
        ("default", "mail", 1, ago(7_000)),
        ("default", "mail", 1, ago(60)),
    ]


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ("type", [(None, "mail", 1), ("default", "mail", 2), ("default", "pdf", 1)]),
        ("tenant", [("default", "b", 2)]),
    ],
)
def test_the_largest_classes(one: Loaded, by: str, found: list[Any]) -> None:
    """due_by: what is due, blocked or not; the largest of a queue first, unnamed ones left out."""
    rows = {
        "jobs": [
            job("1", shard="s"),
            job("2", shard="s", tenant_id="b"),
            job("3", job_type="pdf", tenant_id="b"),
            job("4", queue=None),
            job("5", available_at=ago(-1)),
            job("6", job_type=None),
            job("7", "completed"),
        ]
    }
    assert asked(one, rows, classes.due_by(by, NOW)) == found


def test_how_a_class_came(one: Loaded) -> None:
    """became_due: by due time, else by creation; those that still wait beside all of them."""
    rows = {
        "jobs": [
            job("1", "completed", available_at=SINCE),
            job("2", available_at=ago(30)),
            job("3", "completed", available_at=None, created_at=ago(30)),
            job("4", available_at=ago(30), job_type="pdf"),
            job("5", available_at=ago(30), queue=None),
            job("6", available_at=SINCE - 1),
        ]
    }
    bucket = 1_800 * MICROS
    question = classes.became_due("type", "default", "mail", SINCE, UNTIL, bucket=bucket)
    assert asked(one, rows, question) == [(0, 1, 0), (1, 2, 1)]
    unnamed = classes.became_due("type", None, "mail", SINCE, UNTIL, bucket=bucket)
    assert asked(one, rows, unnamed) == [(1, 1, 1)]


def test_vital_signs_in_the_order_they_were_taken(one: Loaded) -> None:
    """samples: the first sample first; a sign that may not be seen is NULL."""
    signs = [(ago(15), "dead_rows", "jobs", 5.0), (ago(30), "oldest", "", None)]
    names = ("taken_at", "name", "subject", "value")
    rows = {"vitals": [dict(zip(names, sign, strict=True)) for sign in signs]}
    assert asked(one, rows, vitals.samples()) == signs[::-1]
