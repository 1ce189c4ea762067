"""Queries: one suite over both databases, as a queue's drivers are tested."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from jobplaybook import queries, tables
from jobplaybook.model import EffectStatus, Outcome, Status
from jobplaybook.queries import leases, standing
from tests.canonical import (
    DIALECTS,
    GOLDEN,
    INFINITE,
    NOW,
    QUERIES,
    SINCE,
    UNTIL,
    Loaded,
    Rows,
    ago,
    attempt,
    bare,
    compiled,
    job,
    postgres_tables,
    sqlite_tables,
)
from tests.postgres import Postgres


@pytest.fixture(scope="module")
def both(postgres: Postgres) -> Iterator[tuple[Loaded, Loaded]]:
    with sqlite_tables() as small, postgres_tables(postgres) as large:
        yield small, large


# The same rows, the same tuples


STRANGE = {
    "jobs": [
        *(bare(f"null-{status}", status) for status in Status),
        {**bare("null-times"), "shard": "s0", "queue": "Ä", "attempts": 2},
        job("2", tenant_id="2", idempotency_key="2", provider_request_id="2", priority=-5),
        job("10", queue=None, job_type=None, tenant_id="Ä"),
        job("9", queue="b", priority=10),
        job("a", queue="B", job_type="Z"),
        job("parked", attempts=3, available_at=ago(-600), updated_at=ago(5)),
        job("future", available_at=ago(-600), updated_at=ago(6)),
        job("due-now", available_at=NOW),
        job("due-next", available_at=NOW + 1),
        job("held", "processing", shard="s1", owner="w", claimed_at=ago(10), locked_until=ago(-20)),
        job("blocked", shard="s1"),
        job("no-owner", "processing", claimed_at=ago(9), locked_until=ago(1), read_at=NOW),
        job("owner-B", "processing", owner="B", locked_until=ago(1), read_at=NOW, attempts=1),
        job("owner-a", "processing", owner="a", locked_until=ago(1), read_at=ago(2), attempts=1),
        *(
            {**bare(f"∞-{status}", status), "available_at": INFINITE, "created_at": INFINITE}
            for status in Status
        ),
        {**bare("∞-end", "completed"), "finished_at": INFINITE, "claimed_at": INFINITE},
        {**bare("∞-lease", "processing"), "locked_until": INFINITE, "claimed_at": INFINITE},
        job("early", "completed", claimed_at=ago(90), available_at=ago(60), finished_at=ago(95)),
        job("edge-from", "completed", created_at=SINCE, claimed_at=SINCE, finished_at=SINCE),
        job("edge-to", "dead", created_at=UNTIL, claimed_at=UNTIL, finished_at=UNTIL),
        job("before", "dead", created_at=SINCE - 1, claimed_at=SINCE - 1, finished_at=SINCE - 1),
        job("after", "dead", created_at=UNTIL + 1, claimed_at=UNTIL + 1, finished_at=UNTIL + 1),
        job("minute", "completed", created_at=ago(120), claimed_at=ago(120), finished_at=ago(60)),
        job("told", "completed", claimed_at=ago(50), finished_at=ago(49)),
        job("half-told", "completed", claimed_at=ago(50), finished_at=ago(49)),
        job("old", "completed", created_at=-(10**15), finished_at=0),
    ],
    "attempts": [
        attempt("2", started_at=ago(100), ended_at=ago(98), outcome="failed"),
        attempt("2", 2, started_at=ago(90), ended_at=ago(95), outcome="unknown"),
        attempt("10", started_at=ago(100), ended_at=ago(97.5), outcome="succeeded"),
        attempt("minute", started_at=ago(120), ended_at=ago(60), outcome="succeeded"),
        attempt("owner-B", started_at=ago(30)),
        attempt("early", outcome="expired", started_at=ago(80), ended_at=ago(70)),
        attempt("early", 2, outcome="cancelled"),
        attempt("nobody's", started_at=ago(10), ended_at=ago(5), outcome="succeeded"),
    ],
    "effects": [
        {"effect_key": "e1", "job_id": "held", "status": "confirmed", "provider_id": "2"},
        {"effect_key": "e2", "job_id": "held", "status": "reconciled"},
        {"effect_key": "e3", "job_id": "owner-B", "status": "intended", "provider_id": "2"},
        {"effect_key": "ä", "job_id": "2", "status": "confirmed", "intended_at": ago(8)},
        {"effect_key": "B", "job_id": "2", "status": "confirmed", "intended_at": ago(8)},
        {"effect_key": "a", "job_id": "2", "status": "unknown"},
        {"effect_key": "e4", "job_id": None, "status": "unknown", "provider_id": "2"},
    ],
    "outbox": [
        {"id": "o1", "job_id": "told", "published_at": ago(40)},
        {"id": "o2", "job_id": "half-told", "published_at": ago(40)},
        {"id": "o3", "job_id": "half-told"},
        {"id": "o4"},
        *({"id": f"o{n}", "job_id": "2", "created_at": ago(n)} for n in (7, 5)),
        {"id": "o6", "job_id": "2"},
    ],
    "deliveries": [
        {"id": "2", "job_id": "9"},
        {"id": "3", "job_id": "a"},
        {"id": "4", "job_id": "2", "times_received": 2},
        {"id": "5", "job_id": "2", "received_at": ago(4)},
    ],
    "windows": [{"schedule": "nightly", "window_at": ago(99), "job_id": "2"}],
    "queues": [{"queue": "default", "paused_at": ago(9)}],
    "workers": [
        {"owner": "w", "heartbeat_at": ago(1), "lease_seconds": 30.0, "started_at": ago(99)},
        {"owner": "B", "stopped_at": ago(7)},
        {"owner": "a"},
    ],
    "vitals": [
        {"taken_at": ago(at), "name": name, "subject": subject, "value": value}
        for at in (15, 0)
        for name, subject, value in (("dead_rows", "Ä", 5.0), ("dead_rows", "b", None))
    ],
}
"""NULL wherever it may be, times at every edge and none, text whose order is not the alphabet's."""


def assert_same(both: tuple[Loaded, Loaded], rows: Rows) -> None:
    for loaded in both:
        loaded.load(rows)
    for name, query in QUERIES.items():
        found, wanted = (loaded.rows(query()) for loaded in both)
        if name == "flow.events":  # the one answer without an order
            found.sort(key=repr)
            wanted.sort(key=repr)
        kinds, same = ([[type(value) for value in row] for row in each] for each in (found, wanted))
        assert found == wanted, name
        assert kinds == same, name


@pytest.mark.parametrize("rows", [{}, STRANGE], ids=["empty", "strange"])
def test_both_databases_give_the_same_tuples(both: tuple[Loaded, Loaded], rows: Rows) -> None:
    """The same rows give the same tuples of the same types, in the same order."""
    assert_same(both, rows)


def test_no_locale_reorders_an_answer(postgres: Postgres) -> None:
    """In a database that sorts text as a dictionary does, every answer stays in byte order."""
    locale = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'"
    with sqlite_tables() as small:
        try:
            with postgres_tables(postgres, locale=locale) as large:
                assert large.rows(sa.text("SELECT 'a' < 'B'")) == [(True,)]
                assert_same((small, large), STRANGE)
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.SyntaxError):
            pytest.skip("this PostgreSQL has no ICU locales")


moments = st.none() | st.integers(ago(4_000), ago(-400)) | st.sampled_from([NOW, SINCE, UNTIL])
words = st.none() | st.sampled_from(["a", "B", "ä", "", "10", "9"])


@st.composite
def any_jobs(draw: st.DrawFn) -> Rows:
    """Draw jobs of any status and time, with attempts and effects of some of them."""
    count = draw(st.integers(0, 8))
    jobs = []
    for number in range(count):
        row: dict[str, Any] = {"id": str(number), "status": draw(st.sampled_from([*Status]))}
        for column in ("queue", "job_type", "tenant_id", "shard", "owner"):
            row[column] = draw(words)
        for column in ("created_at", "available_at", "claimed_at", "updated_at", "read_at"):
            row[column] = draw(moments)
        if row["status"] == "processing":
            row["locked_until"] = draw(moments)
        if row["status"] in ("completed", "dead", "cancelled"):
            row["finished_at"] = draw(moments)
        row["priority"] = draw(st.none() | st.integers(-2, 2))
        row["attempts"] = draw(st.none() | st.integers(0, 3))
        jobs.append(row)
    tried = []
    for number in range(draw(st.integers(0, count))):
        outcome = draw(st.sampled_from([*Outcome]))
        times: dict[str, Any] = {"started_at": draw(moments)}
        if outcome != Outcome.RUNNING:
            times["ended_at"] = draw(moments)
        tried.append(attempt(str(number), outcome=outcome, **times))
    kinds = st.sampled_from([*EffectStatus])
    effects = [
        {"effect_key": str(n), "job_id": str(n), "status": draw(kinds)} for n in range(count)
    ]
    return {"jobs": jobs, "attempts": tried, "effects": effects}


@settings(max_examples=60)
@given(rows=any_jobs())
def test_any_rows_give_the_same_tuples(both: tuple[Loaded, Loaded], rows: Rows) -> None:
    """No combination of statuses, NULLs and times tells the two databases apart."""
    assert_same(both, rows)


def test_the_comparison_bites(both: tuple[Loaded, Loaded]) -> None:
    """A row that only one of the two has is seen."""
    for loaded in both:
        loaded.load({"jobs": [job("1")]})
    both[1].load({"jobs": [job("2")]})
    assert both[0].rows(leases.held()) == both[1].rows(leases.held()) == []
    assert both[0].rows(standing.each_job(NOW)) != both[1].rows(standing.each_job(NOW))


def test_no_query_is_left_out() -> None:
    """Every function of jobplaybook.queries that returns a statement stands in the suite."""
    found = set()
    for module in pkgutil.iter_modules(queries.__path__):
        for name, function in inspect.getmembers(
            importlib.import_module(f"{queries.__name__}.{module.name}"), inspect.isfunction
        ):
            is_ours = function.__module__ == f"{queries.__name__}.{module.name}"
            if is_ours and "Select[Any]" in str(function.__annotations__["return"]):
                found.add(f"{module.name}.{name}")
    private = {name for name in found if name.split(".")[1].startswith("_")}
    assert found - private == {".".join(name.split(".")[:2]) for name in QUERIES}


def test_the_readers_may_not_write(both: tuple[Loaded, Loaded]) -> None:
    """The suite reads as a role with SELECT only, and under query_only: nothing else succeeds."""
    for loaded, said in zip(both, ("readonly", "permission denied"), strict=True):
        loaded.load({})
        with (
            loaded.reader.connect() as connection,
            pytest.raises(sa.exc.DBAPIError, match=said),
        ):
            connection.execute(tables.jobs.insert(), job("1"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", QUERIES)
def test_golden_sql(name: str, dialect: str) -> None:
    """What a query compiles to changes on purpose only: ``python -m tests.canonical`` accepts."""
    kept = (GOLDEN / f"{name}.{dialect}.sql").read_text(encoding="utf-8")
    assert compiled(name, dialect).split() == kept.split()


def test_golden_files_all_belong_to_a_query() -> None:
    """No golden file outlives its query."""
    wanted = {f"{name}.{dialect}.sql" for name in QUERIES for dialect in DIALECTS}
    assert {path.name for path in GOLDEN.iterdir()} == wanted


@pytest.mark.parametrize("name", QUERIES)
def test_text_is_ordered_by_its_bytes(name: str) -> None:
    """On PostgreSQL every text in an ORDER BY names the collation: no locale reorders an answer."""
    for element in getattr(QUERIES[name](), "_order_by_clauses", ()):
        inner = element
        while isinstance(inner, sa.UnaryExpression):
            inner = inner.element
        if isinstance(inner.type, sa.Text):
            assert 'COLLATE "C"' in str(element.compile(dialect=DIALECTS["postgresql"]))
