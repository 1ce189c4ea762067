"""The contract's own tables, on PostgreSQL and on SQLite: the same rows give the same snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook import api, tables
from jobplaybook.errors import InputError, SchemaError
from jobplaybook.snapshot.redact import Redactor, read_key
from jobplaybook.sources.base import ReadOptions
from jobplaybook.units import MICROS, parse_time
from tests.captures import capture, files, look, meta
from tests.postgres import Postgres

NOW = parse_time("2026-12-01T12:00:00Z")
SECOND, HOUR = MICROS, 3_600 * MICROS


def job(name: str, status: str, **more: Any) -> dict[str, Any]:
    begun = {"created_at": NOW - 600 * SECOND, "available_at": NOW - 600 * SECOND, "attempts": 0}
    return {"id": name, "status": status, "queue": "q", "job_type": "send", **begun, **more}


def running(name: str, until: int) -> dict[str, Any]:
    return job(
        name,
        "processing",
        attempts=1,
        claimed_at=NOW - 60 * SECOND,
        locked_until=NOW + until,
        owner="w1",
        fencing_token=7,
    )


def ended(name: str, status: str, ago: int) -> dict[str, Any]:
    times = {"claimed_at": NOW - ago - SECOND, "finished_at": NOW - ago}
    return job(name, status, attempts=1, **times)


ROWS: dict[str, list[dict[str, Any]]] = {
    "jobs": [
        job("waits", "pending", tenant_id="acme", idempotency_key="order-1", shard="s1"),
        job("later", "pending", available_at=NOW + HOUR),
        running("lives", 20 * SECOND),
        running("over", -20 * SECOND),
        job("held", "held"),
        ended("done", "completed", 60 * SECOND),
        ended("dead", "dead", 120 * SECOND),
        ended("cancelled", "cancelled", 180 * SECOND),
        ended("old", "completed", 30 * HOUR),
    ],
    "attempts": [
        {"job_id": name, "attempt": 1, "owner": "w1", "started_at": NOW - HOUR, "outcome": outcome}
        for name, outcome in (
            ("lives", "running"),
            ("over", "running"),
            ("done", "succeeded"),
            ("dead", "failed"),
            ("old", "succeeded"),
        )
    ],
    "workers": [{"owner": "w1", "heartbeat_at": NOW - 5 * SECOND, "lease_seconds": 30.0}],
    "queues": [{"queue": "q", "paused_at": NOW - HOUR, "note": None}],
    "effects": [{"effect_key": "e1", "job_id": "done", "attempt": 1, "status": "confirmed"}],
    "outbox": [{"id": "o1", "job_id": "done", "topic": "mail", "attempts": 0}],
    "deliveries": [{"id": "d1", "job_id": "done", "times_received": 2}],
    "windows": [{"schedule": "nightly", "window_at": NOW - HOUR, "job_id": "done"}],
}


def sqlite_engine(path: str) -> sa.Engine:
    plain = sa.create_engine(f"sqlite:///{path}")
    return plain.execution_options(schema_translate_map={tables.SCHEMA: None})


Filled = Callable[[dict[str, list[dict[str, Any]]]], str]


@pytest.fixture(params=["postgresql", "sqlite"])
def contract(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Give a function that fills the contract's tables and returns their SOURCE."""
    engine: sa.Engine
    if request.param == "sqlite":
        source = str(tmp_path_factory.mktemp("live") / "live.sqlite")
        engine = sqlite_engine(source)
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        source = request.getfixturevalue("database").url
        postgres.execute(
            f"CREATE SCHEMA {tables.SCHEMA}", dbname=source.split("/")[3].split("?")[0]
        )
        engine = sa.create_engine(source.replace("postgresql:", "postgresql+psycopg:"))

    def fill(rows: dict[str, list[dict[str, Any]]]) -> str:
        tables.metadata.create_all(engine)
        with engine.begin() as connection:
            for table in tables.metadata.sorted_tables:
                for row in rows.get(table.name, ()):
                    connection.execute(sa.insert(table).values(**row))
        engine.dispose()
        return source

    return fill


def test_every_table_is_captured(contract: Filled, tmp_path: Path) -> None:
    """Unfinished jobs always, finished ones of the window, and what hangs on them."""
    source, path = contract(ROWS), tmp_path / "a.db"
    report = capture(source, path, keep_text=True, now=NOW, chunk=2)
    assert (report.system, report.not_read) == ("contract", {})
    assert report.rows == {
        "jobs": 8,
        "attempts": 4,
        "effects": 1,
        "outbox": 1,
        "deliveries": 1,
        "workers": 1,
        "windows": 1,
        "queues": 1,
    }
    assert dict(look(path, "SELECT id, status FROM jobs")) == {
        row["id"]: row["status"] for row in ROWS["jobs"] if row["id"] != "old"
    }
    told = "SELECT tenant_id, idempotency_key, key_shape, shard FROM jobs WHERE id = 'waits'"
    assert look(path, told) == [("acme", "order-1", "plain", "s1")]
    lease = "SELECT owner, locked_until, fencing_token, read_at FROM jobs WHERE id = 'over'"
    assert look(path, lease) == [("w1", NOW - 20 * SECOND, 7, NOW)]


def test_both_databases_give_the_same_rows(contract: Filled, tmp_path: Path) -> None:
    """Whatever the database, the snapshot's content is this."""
    path = tmp_path / "a.db"
    capture(contract(ROWS), path, keep_text=True, now=NOW)
    names = [column.name for column in tables.jobs.columns]
    rows = look(path, f"SELECT {', '.join(names)} FROM jobs")
    found = {row[0]: dict(zip(names, row, strict=True)) for row in rows}
    for row in ROWS["jobs"]:
        if row["id"] != "old":
            told = {name: found[row["id"]][name] for name in row}
            assert told == row


@pytest.mark.parametrize("chunk", [1, 3, 1_000])
def test_the_window_and_the_chunks_do_not_touch_each_other(
    contract: Filled, tmp_path: Path, chunk: int
) -> None:
    """A longer window finds the older job, in chunks of any size."""
    source = contract(ROWS)
    for hours, count in ((24, 8), (48, 9)):
        report = capture(
            source, tmp_path / "a.db", now=NOW, chunk=chunk, since_seconds=hours * 3_600.0
        )
        assert report.rows["jobs"] == count


def test_leases_are_the_contracts_own(contract: Filled, tmp_path: Path) -> None:
    """locked_until judges; `--lease` counts from the claim instead; its reaper takes jobs back."""
    source = contract(ROWS)
    capture(source, tmp_path / "a.db", keep_text=True, now=NOW)
    (expired,) = [
        f for f in api.triage(str(tmp_path / "a.db")).findings if f.code == "lease-expired"
    ]
    assert expired.job_ids == ("over",)
    assert expired.evidence["sweeper"] == "the contract's reaper"
    longer = ReadOptions(lease_seconds=3_600.0)
    capture(source, tmp_path / "b.db", keep_text=True, now=NOW, read=longer)
    codes = {finding.code for finding in api.triage(str(tmp_path / "b.db")).findings}
    assert "lease-expired" not in codes


def test_a_paused_queue_is_told(contract: Filled, tmp_path: Path) -> None:
    """Jobs wait because somebody paused the queue."""
    capture(contract(ROWS), tmp_path / "a.db", now=NOW)
    answer = api.triage(str(tmp_path / "a.db"))
    assert "queue-paused" in {finding.code for finding in answer.findings}


def test_names_are_hashed_here_too(contract: Filled, tmp_path: Path) -> None:
    """The contract keeps tenants and keys in columns of their own: they are hashed all the same."""
    path = tmp_path / "a.db"
    capture(contract(ROWS), path, now=NOW)
    redactor = Redactor(read_key(tmp_path / "jobplaybook.key"))
    told = "SELECT tenant_id, idempotency_key, shard FROM jobs WHERE id = 'waits'"
    assert look(path, told) == [
        (redactor.hashed("acme"), redactor.hashed("order-1"), redactor.hashed("s1"))
    ]
    assert b"acme" not in path.read_bytes()
    assert [j.id for j in api.find(str(path), by="tenant", value="acme").jobs] == ["waits"]


def test_a_live_source_is_answered_from(contract: Filled) -> None:
    """`triage` of the live tables, with their own clock."""
    answer = api.triage(contract(ROWS)).to_json()
    assert answer["system"] == "contract"
    assert answer["counts"]["pending"] == 2


def test_payload_paths_are_refused(contract: Filled, tmp_path: Path) -> None:
    """The contract's payload is elsewhere: there is no column to look into."""
    source = contract(ROWS)
    with pytest.raises(InputError, match="neither --tenant-path nor --key-path"):
        capture(source, tmp_path / "a.db", read=ReadOptions(tenant_path=("args", "tenant")))


def test_somebody_elses_jobs_table_is_not_ours(tmp_path: Path) -> None:
    """A SQLite database with a table of that name is no contract."""
    with closing(sqlite3.connect(tmp_path / "app.sqlite")) as connection:
        connection.execute("CREATE TABLE jobs (id INTEGER, status TEXT)")
    with pytest.raises(SchemaError, match="found none that this role may see"):
        capture(str(tmp_path / "app.sqlite"), tmp_path / "a.db")
    assert files(tmp_path) == ["app.sqlite"]


def test_the_live_sqlite_file_is_left_alone(tmp_path: Path) -> None:
    """Reading changes no byte of it and leaves no journal beside it."""
    source = tmp_path / "live.sqlite"
    engine = sqlite_engine(str(source))
    tables.metadata.create_all(engine)
    engine.dispose()
    before = source.read_bytes()
    capture(str(source), tmp_path / "a.db")
    assert source.read_bytes() == before
    assert files(tmp_path) == ["a.db", "jobplaybook.key", "live.sqlite"]
    assert meta(tmp_path / "a.db")["system"] == "contract"
