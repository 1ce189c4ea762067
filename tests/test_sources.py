"""The sources: how a queue system is recognised, what it may tell, and tables that are odd."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobplaybook import api, model
from jobplaybook.errors import InputError, SchemaError
from jobplaybook.sources import SOURCES
from jobplaybook.sources.base import ReadOptions, choose
from jobplaybook.sources.catalog import Catalog, TableInfo
from jobplaybook.sources.procrastinate import PROCRASTINATE
from tests.captures import capture, command_line, look
from tests.conftest import RECORDINGS
from tests.postgres import Database, Postgres
from tests.procrastinate_app import execute, filled, install

TABLES = RECORDINGS / "procrastinate" / "tables.sql"
JOB = "(id, queue_name, task_name, priority, status, attempts)"


@pytest.fixture
def bare(postgres: Postgres, database: Database) -> str:
    """Give procrastinate's tables without any index, constraint or trigger."""
    postgres.psql(database.name, TABLES)
    return database.url


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue with jobs of every status in the library's own schema."""
    return filled(install(database.url))


def refused(url: str, path: Path, **options: Any) -> str:
    with pytest.raises(SchemaError) as told:
        capture(url, path, **options)
    assert not path.exists()
    return str(told.value)


# What every source says of itself


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.name))
def test_every_source_grades_every_fact(source: Any) -> None:
    """Each fact of the list once for live and once for finished rows, with a reason."""
    graded = [(fact.fact, fact.state) for fact in source.facts]
    assert sorted(graded) == sorted((f, s) for f in model.FACTS for s in ("live", "finished"))
    assert all(fact.note for fact in source.facts)


def test_sources_are_told_as_json() -> None:
    """`sources --json` has INTERFACE's keys and words."""
    done = command_line("sources", "--json")
    found = {source["name"]: source for source in json.loads(done.stdout)["sources"]}
    assert set(found) == {"contract", "procrastinate"}
    for source in found.values():
        assert {"name", "versions", "verified", "facts", "actions"} <= source.keys()
        assert {v["verified"] for v in source["versions"]} <= {"run", "source"}
        assert {f["state"] for f in source["facts"]} == {"live", "finished"}
        assert {f["quality"] for f in source["facts"]} <= {"exact", "bound", "inferred", "absent"}
    assert found["procrastinate"]["sweeper"] is None


def test_what_procrastinate_does_not_keep_is_absent() -> None:
    """No error text, no ledger of effects, no retry policy: said, not left as empty columns."""
    absent = {f.fact for f in PROCRASTINATE.facts if f.quality is model.Quality.ABSENT}
    assert {"error", "effects", "outbox", "deliveries", "max_attempts", "paused"} <= absent


# Choosing one


def table(name: str, *columns: str, schema: str = "public", rank: int | None = 1) -> TableInfo:
    return TableInfo(
        schema=schema,
        name=name,
        columns=dict.fromkeys(columns, "text"),
        indexed=frozenset(),
        partly_indexed=frozenset(),
        path_rank=rank,
        row_security=False,
        unlogged=False,
        estimated_rows=-1,
        readable=True,
        writable=False,
    )


def tables_of(source: Any, schema: str, rank: int | None = 1) -> list[TableInfo]:
    return [table(n, *columns, schema=schema, rank=rank) for n, columns in source.signature.items()]


def catalog(*tables: TableInfo) -> Catalog:
    return Catalog("postgresql", tables)


def test_two_systems_in_one_database_must_be_told_apart() -> None:
    """Two known systems: the user says which; one is chosen by itself."""
    both = [t for source in SOURCES for t in tables_of(source, source.default_schema or "public")]
    with pytest.raises(InputError, match="found contract and procrastinate: choose with --system"):
        choose(SOURCES, catalog(*both), None)
    assert choose(SOURCES, catalog(*both), "procrastinate")[0] is PROCRASTINATE
    only = catalog(*tables_of(PROCRASTINATE, "public"))
    assert choose(SOURCES, only, None)[0] is PROCRASTINATE


@pytest.mark.parametrize(
    ("system", "said"),
    [("procrastinat", "did you mean procrastinate?"), ("oban", "known: contract, procrastinate")],
)
def test_an_unknown_system_is_answered_with_the_nearest(system: str, said: str) -> None:
    """`--system` takes the names that `sources` lists."""
    with pytest.raises(InputError, match=re.escape(said)):
        choose(SOURCES, catalog(), system)


def test_the_search_path_decides_between_twins() -> None:
    """Tables of the same names in several schemas: the first on the path is read, and said."""
    twins = [
        *tables_of(PROCRASTINATE, "archive", rank=None),
        *tables_of(PROCRASTINATE, "late", rank=2),
        *tables_of(PROCRASTINATE, "early", rank=1),
    ]
    found = PROCRASTINATE.detect(catalog(*twins))
    assert found is not None
    assert found.schema == "early"
    assert found.warnings == (
        "procrastinate tables stand in several schemas: read 'early', not 'late', 'archive'",
    )


@pytest.mark.parametrize("name", ["procrastinate_events", "procrastinate_workers"])
def test_a_missing_table_is_named(name: str) -> None:
    """Half a schema is another version, or a role that may not see the rest."""
    rest = [t for t in tables_of(PROCRASTINATE, "public") if t.name != name]
    with pytest.raises(SchemaError, match=rf"table public\.{name}, found none"):
        PROCRASTINATE.detect(catalog(*rest))


def test_the_native_statement_holds_numbers_only() -> None:
    """It is put together from ids that were read as numbers, and a quoted schema."""
    told = PROCRASTINATE.advice({"2": ["30", "4"], "x'; --": ["9"], "7": ["no"]}, 'a"; --')
    assert told == (
        'SET search_path TO "a""; --"; '
        "SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM procrastinate_jobs"
        " WHERE status = 'doing' AND worker_id IN (2) AND id IN (4, 30);"
    )
    assert PROCRASTINATE.advice({"x": ["1"]}, "public") is None
    assert PROCRASTINATE.advice({}, "public") is None


def test_the_native_statement_can_be_read() -> None:
    """Beyond a hundred jobs it names the first hundred and their owners, and says how many more."""
    owners = {str(owner): [str(job) for job in range(owner, 100, 10)] for owner in range(10)}
    told = PROCRASTINATE.advice(owners, "public")
    assert told is not None
    assert told.endswith(f" AND id IN ({', '.join(map(str, range(100)))});")
    more = PROCRASTINATE.advice({**owners, "77": ["999", "9999"]}, "public")
    assert more == f"{told} -- the first 100 of 102 jobs: triage again for the other 2"


# On a real server: what is missing or strange


def test_a_database_without_a_queue_is_said(database: Database, tmp_path: Path) -> None:
    """No known table: which ones were looked for."""
    told = refused(database.url, tmp_path / "a.db")
    assert "procrastinate_jobs (procrastinate)" in told
    assert "found none that this role may see" in told


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("procrastinate_jobs", "worker_id"),
        ("procrastinate_jobs", "queueing_lock"),
        ("procrastinate_events", "at"),
        ("procrastinate_workers", "last_heartbeat"),
    ],
)
def test_a_renamed_column_is_named(bare: str, tmp_path: Path, table: str, column: str) -> None:
    """One line says which column of which table was expected."""
    execute(bare, f'ALTER TABLE {table} RENAME COLUMN "{column}" TO gone')
    told = refused(bare, tmp_path / "a.db")
    assert f"expected public.{table} to have the column '{column}', found none" in told


def test_an_empty_queue_is_an_answer(bare: str, tmp_path: Path) -> None:
    """No rows at all: a snapshot, a warning, and a verdict that does not call it healthy."""
    report = capture(bare, tmp_path / "a.db")
    assert set(report.rows.values()) == {0}
    assert any("hold no job that is unfinished" in warning for warning in report.warnings)
    assert api.triage(str(tmp_path / "a.db")).verdict.code == "unknown"


def test_one_row_in_each_table(bare: str, tmp_path: Path) -> None:
    """The smallest queue there is."""
    execute(
        bare,
        f"INSERT INTO procrastinate_jobs {JOB} VALUES (1, 'q', 'send', 0, 'doing', 0)",
        "INSERT INTO procrastinate_events VALUES (1, 1, 'deferred', now())",
        "INSERT INTO procrastinate_events VALUES (2, 1, 'started', now())",
        "INSERT INTO procrastinate_workers VALUES (1, now())",
    )
    report = capture(bare, tmp_path / "a.db", chunk=1)
    assert (report.rows["jobs"], report.rows["attempts"], report.rows["workers"]) == (1, 1, 1)


def test_nothing_but_an_id_is_a_job(bare: str, tmp_path: Path) -> None:
    """NULL in every column that takes it, in every table."""
    execute(
        bare,
        "INSERT INTO procrastinate_jobs (id, status) VALUES (1, 'todo'), (2, 'doing')",
        "INSERT INTO procrastinate_events (id, job_id) VALUES (1, 1), (2, NULL)",
        "INSERT INTO procrastinate_events (id, job_id, type) VALUES (3, 2, 'started')",
        "INSERT INTO procrastinate_workers (id) VALUES (1)",
    )
    capture(bare, tmp_path / "a.db", read=ReadOptions(tenant_path=("args", "tenant")))
    told = "SELECT id, status, owner, locked_until, created_at, attempts FROM jobs ORDER BY id"
    assert look(tmp_path / "a.db", told) == [
        ("1", "pending", None, None, None, 0),
        ("2", "processing", None, None, None, 1),
    ]
    assert api.triage(str(tmp_path / "a.db")).to_json()["counts"] == {
        "pending": 1,
        "processing": 1,
    }


def test_infinite_times_are_the_edges_of_time(bare: str, tmp_path: Path) -> None:
    """'infinity' and '-infinity' are legal times: due then is parked for ever, or due long ago."""
    execute(
        bare,
        "INSERT INTO procrastinate_jobs (id, status, scheduled_at, worker_id) VALUES"
        " (1, 'todo', 'infinity', NULL), (2, 'todo', '-infinity', NULL), (3, 'doing', NULL, 1),"
        " (4, 'todo', '9999-12-31 23:59:59Z', NULL), (5, 'todo', '0001-01-01 BC', NULL)",
        "INSERT INTO procrastinate_events VALUES (1, 3, 'started', '-infinity')",
        "INSERT INTO procrastinate_events VALUES (2, 1, 'succeeded', 'infinity')",
        "INSERT INTO procrastinate_workers VALUES (1, 'infinity')",
    )
    capture(bare, tmp_path / "a.db")
    told = "SELECT id, available_at > 1796096722000000, locked_until > 0 FROM jobs ORDER BY id"
    parked, late, running = (1, None), (0, None), (None, 1)
    found = look(tmp_path / "a.db", told)
    assert [row[1:] for row in found] == [parked, late, running, parked, late]
    answer = api.triage(str(tmp_path / "a.db")).to_json()
    assert answer["states"] == {"available": 2, "scheduled": 2, "processing": 1}


@pytest.mark.parametrize("schema", ["library's own", "bare"])
def test_a_new_status_word_is_not_passed_over(
    postgres: Postgres, database: Database, tmp_path: Path, schema: str
) -> None:
    """Jobs in a status of a newer version are not read; that is said, and no verdict is given."""
    if schema == "bare":
        postgres.psql(database.name, TABLES)
    else:
        install(database.url)
    execute(
        database.url,
        "ALTER TYPE procrastinate_job_status ADD VALUE 'paused\x1b[31m'",
        f"INSERT INTO procrastinate_jobs {JOB} VALUES (1, 'q', 'send', 0, 'paused\x1b[31m', 0),"
        " (2, 'q', 'send', 0, 'todo', 0)",
    )
    report = capture(database.url, tmp_path / "a.db")
    assert report.rows_by_status == {"todo": 1}
    assert report.not_read == {
        "unfinished": "jobs of a status that is newer than this version: 'paused?[31m'"
    }
    assert api.triage(str(tmp_path / "a.db")).verdict.code != "healthy"


def test_a_status_of_older_workers_is_a_running_job(bare: str, tmp_path: Path) -> None:
    """`aborting` is what 2.x wrote; STYLE's table maps it."""
    execute(bare, f"INSERT INTO procrastinate_jobs {JOB} VALUES (1, 'q', 's', 0, 'aborting', 0)")
    capture(bare, tmp_path / "a.db")
    told = look(tmp_path / "a.db", "SELECT status, native_status FROM jobs")
    assert told == [("processing", "aborting")]


def test_partitions_and_views_are_tables_too(queue: str, tmp_path: Path) -> None:
    """Jobs in partitions and events behind a view give the same snapshot."""
    plain = capture(queue, tmp_path / "a.db")
    columns = "id, queue_name, task_name, priority, lock, queueing_lock, args, status"
    execute(
        queue,
        "ALTER TABLE procrastinate_jobs RENAME TO plain_jobs",
        "CREATE TABLE procrastinate_jobs (LIKE plain_jobs) PARTITION BY RANGE (id)",
        "CREATE TABLE part_1 PARTITION OF procrastinate_jobs FOR VALUES FROM (0) TO (30)",
        "CREATE TABLE part_2 PARTITION OF procrastinate_jobs FOR VALUES FROM (30) TO (1000)",
        "CREATE INDEX ON procrastinate_jobs (id)",
        "INSERT INTO procrastinate_jobs SELECT * FROM plain_jobs",
        "ALTER TABLE procrastinate_events RENAME TO plain_events",
        "CREATE VIEW procrastinate_events AS SELECT * FROM plain_events",
    )
    parted = capture(queue, tmp_path / "b.db", chunk=7)
    assert parted.rows == plain.rows
    told = f"SELECT {columns.split(',')[0]}, native_status, attempts, created_at FROM jobs"
    assert look(tmp_path / "a.db", told) == look(tmp_path / "b.db", told)


def test_a_missing_index_is_warned_about(bare: str, tmp_path: Path) -> None:
    """Without an index on the key every chunk scans the table: never in the dark."""
    report = capture(bare, tmp_path / "a.db")
    said = [text.partition(":")[0] for text in report.warnings if "has no index" in text]
    without = " (never analysed) has no index that starts with "
    needed = (("jobs", "id"), ("events", "id"), ("events", "job_id"))
    assert said == [f"procrastinate_{table}{without}{column}" for table, column in needed]
    execute(
        bare,
        "CREATE INDEX ON procrastinate_jobs (id)",
        "CREATE INDEX ON procrastinate_events (job_id)",
        "CREATE INDEX ON procrastinate_events (id)",
    )
    report = capture(bare, tmp_path / "a.db")
    assert not [text for text in report.warnings if "has no index" in text]


def test_twins_on_a_real_search_path(queue: str, tmp_path: Path) -> None:
    """What is read is what the application's own names mean for this login."""
    execute(
        queue,
        "CREATE SCHEMA twin",
        *(
            f"CREATE TABLE twin.procrastinate_{name} AS SELECT * FROM procrastinate_{name} LIMIT 2"
            for name in ("jobs", "events", "workers", "periodic_defers")
        ),
    )
    report = capture(queue, tmp_path / "a.db")
    assert (report.rows["jobs"], len([w for w in report.warnings if "several schemas" in w])) == (
        58,
        1,
    )
    other = f"{queue}&options=-c%20search_path%3Dtwin"
    assert capture(other, tmp_path / "b.db").rows["jobs"] < 58
