"""Queries: what each of them answers, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook.model import Status
from jobplaybook.queries import flow, leases, lookup, standing
from jobplaybook.units import MICROS
from tests.canonical import (
    NOW,
    SINCE,
    UNTIL,
    Loaded,
    Rows,
    ago,
    attempt,
    bare,
    done,
    job,
    postgres_tables,
    sqlite_tables,
)
from tests.postgres import Postgres
from tests.test_queries import STRANGE


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


def named(loaded: Loaded, rows: Rows, statement: sa.Select[Any]) -> list[dict[str, Any]]:
    names = statement.selected_columns.keys()
    return [dict(zip(names, row, strict=True)) for row in asked(loaded, rows, statement)]


def test_claimable_counts_what_a_worker_could_take(one: Loaded) -> None:
    """claimable: due and first of a free shard; parked, later, finished and held ones are not."""
    rows = {
        "jobs": [
            job("due", available_at=NOW, tenant_id="t1"),
            job("undated", available_at=None, tenant_id="t2", job_type="pdf"),
            job("later", available_at=NOW + 1),
            job("parked", attempts=1, available_at=ago(-60)),
            job("stopped", "held"),
            job("over", "completed"),
            job("runs", "processing", shard="busy"),
            job("behind", shard="busy", available_at=ago(900)),
        ]
    }
    assert named(one, rows, standing.claimable(NOW)) == [
        {"queue": "default", "due": 3, "count": 2, "oldest_at": NOW, "tenants": 2, "types": 2}
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": 1}, {"priority": 0, "created_at": ago(99)}),
        ({"created_at": ago(99)}, {"created_at": ago(98)}),
        ({"created_at": ago(99)}, {"created_at": None}),
        ({"id": "9"}, {"id": "10"}),
    ],
    ids=["priority", "age", "known age", "number"],
)
def test_a_shard_gives_one_job_at_a_time(
    one: Loaded, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """claimable: of a free shard only the first in line, and nobody while that one is parked."""
    a = {**job("1", shard="s", available_at=ago(7)), **first}
    b = {**job("2", shard="s", available_at=ago(8)), **second}
    answer = named(one, {"jobs": [b, a]}, standing.claimable(NOW))
    assert [(row["due"], row["count"], row["oldest_at"]) for row in answer] == [(2, 1, ago(7))]
    a["available_at"] = ago(-60)
    answer = named(one, {"jobs": [b, a]}, standing.claimable(NOW))
    assert [(row["due"], row["count"], row["oldest_at"]) for row in answer] == [(1, 0, None)]


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (job("1", available_at=NOW), "available"),
        (job("1", available_at=NOW + 1), "scheduled"),
        (job("1", available_at=NOW + 1, attempts=0), "scheduled"),
        (job("1", available_at=NOW + 1, attempts=1), "retryable"),
        (job("1", available_at=NOW, attempts=1), "available"),
        (job("1", available_at=None, attempts=1), "available"),
        *((job("1", status), status) for status in Status if status != "pending"),
    ],
)
def test_states_follow_from_now(one: Loaded, row: dict[str, Any], state: str) -> None:
    """each_job and counts: pending splits by due time and history, other statuses are states."""
    answer = named(one, {"jobs": [row]}, standing.each_job(NOW))
    assert [found["state"] for found in answer] == [state]
    counted = named(one, {"jobs": [row]}, standing.counts(NOW))
    assert [(found["state"], found["count"]) for found in counted] == [(state, 1)]


def test_layers(one: Loaded) -> None:
    """each_job: waiting, claimed, effect once one is known, result, notified once all are sent."""
    answer = named(one, STRANGE, standing.each_job(NOW))
    layers = {row["id"]: row["layer"] for row in answer}
    wanted = {
        "2": "waiting",
        "null-held": "waiting",
        "owner-B": "claimed",
        "held": "effect",
        "minute": "result",
        "half-told": "result",
        "told": "notified",
    }
    assert {name: layers[name] for name in wanted} == wanted


def test_ages(one: Loaded) -> None:
    """each_job: seconds since acceptance and in the state; NULL without a time, newest first."""
    rows = {
        "jobs": [
            job("new", created_at=ago(5), available_at=ago(4)),
            job("skewed", created_at=ago(-2), available_at=ago(4)),
            job("parked", available_at=ago(-9), updated_at=ago(3)),
            bare("undated"),
        ]
    }
    answer = named(one, rows, standing.each_job(NOW))
    ages = [(row["id"], row["age_seconds"], row["in_state_seconds"]) for row in answer]
    assert ages == [
        ("skewed", -2.0, 4.0),
        ("new", 5.0, 4.0),
        ("parked", 60.0, 3.0),
        ("undated", None, None),
    ]


def test_totals_count_both_edges(one: Loaded) -> None:
    """totals: events in [since, until], with the first and the last of each kind and queue."""
    rows = {
        "jobs": [
            job(str(at), "completed", created_at=None, finished_at=at)
            for at in (SINCE - 1, SINCE, UNTIL, UNTIL + 1)
        ]
    }
    answer = asked(one, rows, flow.totals(SINCE, UNTIL))
    assert answer == [("completion", "default", 2, SINCE, UNTIL)]


def test_buckets_begin_at_multiples(one: Loaded) -> None:
    """buckets: the last microsecond of a minute and the first of the next are apart."""
    minute = 60 * MICROS
    edge = NOW - NOW % minute - minute
    rows = {
        "jobs": [
            job(str(n), created_at=at, queue=None)
            for n, at in enumerate((edge - 1, edge, edge + minute - 1, edge + minute))
        ]
    }
    answer = asked(one, rows, flow.buckets(SINCE, UNTIL, bucket=minute))
    begins = [edge - minute, edge, edge + minute]
    counts = [1, 2, 1]
    assert answer == [("arrival", None, at, n) for at, n in zip(begins, counts, strict=True)]


def test_waits_are_of_the_latest_claim(one: Loaded) -> None:
    """waits: from due to claimed in [since, until); a wait below zero is a skewed clock's."""
    rows = {
        "jobs": [
            job("a", "processing", available_at=ago(9), claimed_at=ago(2)),
            job("b", "completed", available_at=ago(9), claimed_at=SINCE),
            job("c", available_at=ago(9), claimed_at=UNTIL),
            job("skewed", available_at=ago(2), claimed_at=ago(9)),
            job("undated", available_at=None, claimed_at=ago(9)),
        ]
    }
    assert asked(one, rows, flow.waits(SINCE, UNTIL)) == [("default", ago(2), 7 * MICROS)]


def test_claimable_intervals(one: Loaded) -> None:
    """claimable_intervals: due until claimed, open while it waits; only what touches the window."""
    rows = {
        "jobs": [
            job("waits", available_at=ago(30)),
            job("was", "completed", available_at=ago(60), claimed_at=ago(50)),
            job("long-ago", "completed", available_at=SINCE - 9, claimed_at=SINCE - 1),
            job("future", available_at=UNTIL + 1),
            job("skewed", "completed", available_at=ago(5), claimed_at=ago(6)),
        ]
    }
    assert asked(one, rows, flow.claimable_intervals(SINCE, UNTIL)) == [
        ("default", ago(60), ago(50)),
        ("default", ago(30), None),
    ]


def test_dead_letters(one: Loaded) -> None:
    """dead_letters: what was given up in [since, until], in the order of the ends."""
    rows = {
        "jobs": [
            job("b", "dead", finished_at=ago(5), tenant_id="t"),
            job("a", "dead", finished_at=ago(5)),
            job("undated", "dead"),
            job("cancelled", "cancelled", finished_at=ago(5)),
        ]
    }
    ids = [row[0] for row in asked(one, rows, flow.dead_letters(SINCE, UNTIL))]
    assert ids == ["a", "b"]


@pytest.mark.parametrize(("now", "expired"), [(None, 1), (NOW, 0), (NOW + 1, 2)])
def test_leases_are_judged_when_read_or_at_now(one: Loaded, now: int | None, expired: int) -> None:
    """by_owner: a lease that ends at the moment of judgement is not over yet."""
    rows = {
        "jobs": [
            job("1", "processing", owner="w", locked_until=NOW, read_at=NOW),
            job("2", "processing", owner="w", locked_until=NOW, read_at=NOW + 1),
        ],
        "workers": [{"owner": "w", "heartbeat_at": ago(3)}],
    }
    (answer,) = named(one, rows, leases.by_owner(now))
    assert (answer["jobs"], answer["expired"], answer["heartbeat_at"]) == (2, expired, ago(3))


def test_run_times_are_of_ended_attempts(one: Loaded) -> None:
    """run_times: shortest first; running, expired and impossible ones tell of no run."""
    row, tried = done("1", ended=10, ran=4)
    other, quick = done("2", ended=10, ran=2, job_type="pdf")
    odd = [
        attempt("1", 2, started_at=ago(5)),
        attempt("1", 3, "expired", started_at=ago(9), ended_at=ago(1)),
        attempt("1", 4, "failed", started_at=ago(1), ended_at=ago(9)),
    ]
    rows = {"jobs": [row, other], "attempts": [tried, quick, *odd]}
    assert asked(one, rows, leases.run_times()) == [(2 * MICROS,), (4 * MICROS,)]
    assert asked(one, rows, leases.run_times("pdf")) == [(2 * MICROS,)]


@pytest.mark.parametrize(
    ("by", "ids"),
    [
        ("job", {"2"}),
        ("key", {"2"}),
        ("tenant", {"2"}),
        ("provider_id", {"2", "held", "owner-B"}),
        ("delivery", {"9"}),
    ],
)
def test_found(one: Loaded, by: str, ids: set[str]) -> None:
    """found: the job itself, or through its effects and deliveries; never a row without a job."""
    assert {row[0] for row in asked(one, STRANGE, lookup.found(by, "2", NOW))} == ids
