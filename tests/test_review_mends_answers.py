"""What the answers owe their reader: no calm word on what was not read, and statements that run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from procrastinate.schema import SchemaManager

from jobplaybook import api, connect, tables
from jobplaybook.connect import open_reader, resolve
from jobplaybook.detectors import findings
from jobplaybook.snapshot.capture import detect
from jobplaybook.snapshot.chunks import history_chunk, key_chunk
from jobplaybook.sources import SOURCES
from jobplaybook.sources.base import ReadOptions
from tests.captures import capture, command_line, files, refusal
from tests.postgres import Database
from tests.procrastinate_app import execute, filled, install, rows
from tests.situations import held, situation, worker

NATIVE = "Native statement, to be copied and checked: "


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue with jobs of every status."""
    return filled(install(database.url))


@pytest.fixture
def unread(queue: str, tmp_path: Path) -> str:
    """Give a snapshot that holds the running jobs and the workers, for its budget was used up."""
    path = tmp_path / "unread.db"
    report = capture(queue, path, budget_seconds=1e-9)
    assert report.not_read.keys() == {"unfinished", "finished"}
    return str(path)


# What was not read


def test_a_tenant_is_not_missing_where_none_was_read(queue: str, tmp_path: Path) -> None:
    """Law: `find --tenant` on jobs without tenants says that it cannot tell; with them, it tells.

    Each of the two captures shows that the words hang on the facts alone.
    """
    plain, told = tmp_path / "plain.db", tmp_path / "told.db"
    capture(queue, plain)
    capture(queue, told, read=ReadOptions(tenant_path=("args", "tenant")))
    blind = command_line("find", str(plain), "--tenant", "t1")
    assert "cannot tell: tenants are not recorded here" in blind.stdout
    assert "--tenant-path" in blind.stdout
    found = command_line("find", str(told), "--tenant", "t1")
    assert "cannot tell" not in found.stdout
    assert api.find(str(told), by="tenant", value="nobody").warnings == ()
    assert api.find(str(told), by="tenant", value="t1").total > 0


def test_nothing_calm_is_said_of_what_was_not_read(unread: str, queue: str) -> None:
    """Law: with the waiting jobs unread no command says "no backlog" or blames the intake.

    The same jobs read whole are found, and are a backlog: the calm words would be wrong.
    """
    waits = rows(queue, "SELECT min(id)::text FROM procrastinate_jobs WHERE status = 'todo'")[0][0]
    assert api.find(queue, by="job", value=waits).total == 1
    assert api.timeline(unread, waits).layer is None
    asked = (("timeline", unread, waits), ("find", unread, "--job", waits))
    for words in (*asked, ("triage", unread), ("health", unread)):
        for form in ((), ("--json",)):
            done = command_line(*words, *form)
            assert done.returncode == 0, done.stderr
            for calm in ("no backlog", "look at the intake", "healthy", "Nothing asks for action"):
                assert calm not in done.stdout, (words, calm)
            assert "the budget of 1e-09 s was used up" in done.stdout, words


def test_health_estimates_nothing_from_half_a_queue(unread: str) -> None:
    """Law: where nothing waits among what was read, the drain is not read, and not none."""
    pulse = api.health(unread).to_json()
    drains = [queue["drain"] for queue in (*pulse["queues"], pulse["overall"])]
    assert {drain["text"] for drain in drains} == {"not read whole"}
    assert {queue["state"] for queue in pulse["queues"]} == {"not read whole"}


# What is asked of a snapshot


@pytest.fixture
def snapshot(queue: str, tmp_path: Path) -> str:
    """Give a snapshot of a worker that beats, read whole."""
    execute(queue, "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '10 s'")
    capture(queue, tmp_path / "a.db")
    return str(tmp_path / "a.db")


def test_a_lease_is_judged_anew_on_a_snapshot(snapshot: str) -> None:
    """Law: `--lease` of 5 s finds the worker silent for 10 s, `--lease` of 60 s does not."""
    for lease, expired in (("5s", True), ("60s", False)):
        done = command_line("triage", snapshot, "--lease", lease, "--json")
        codes = {finding["code"] for finding in json.loads(done.stdout)["findings"]}
        assert ("lease-expired" in codes) == expired
        assert ("workers-lost" in codes) == expired


@pytest.mark.parametrize("command", [("triage",), ("health",), ("timeline", "38")])
def test_what_a_snapshot_cannot_do_is_said(
    snapshot: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Law: a snapshot is not kept again or taken for another system; a path comes too late."""
    before = files(tmp_path)
    name, *words = command
    kept = command_line(name, snapshot, *words, "--keep", str(tmp_path / "kept.db"))
    assert kept.returncode == 2
    assert "expected --keep with a live SOURCE only" in refusal(kept)
    other = command_line(name, snapshot, *words, "--system", "contract")
    assert other.returncode == 2
    assert "expected a snapshot of 'contract', found one of 'procrastinate'" in refusal(other)
    same = command_line(name, snapshot, *words, "--system", "procrastinate")
    assert same.returncode == 0
    assert "concerns a capture" not in same.stdout
    late = command_line(name, snapshot, *words, "--tenant-path", "args.tenant")
    assert late.returncode == 0
    assert "--tenant-path concerns a capture" in " ".join(late.stdout.split())
    assert files(tmp_path) == before


# The native statement


def test_the_native_statement_runs_in_any_schema(database: Database, tmp_path: Path) -> None:
    """Law: it requeues the dead worker's jobs where the library's schema is not on the path.

    Without its first part, the search path, the library's function is not found.
    """
    room = '"Rec ""room"'
    execute(
        database.url,
        f"CREATE SCHEMA {room}",
        f"SET search_path TO {room}",
        SchemaManager.get_schema(),
        f"ALTER DATABASE {database.name} SET search_path TO {room}",
    )
    filled(database.url)
    execute(
        database.url,
        "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'",
        f"ALTER DATABASE {database.name} RESET search_path",
    )
    answer = api.triage(database.url).to_json()
    (steps,) = [f["next"] for f in answer["findings"] if f["code"] == "lease-expired"]
    (statement,) = [s.removeprefix(NATIVE) for s in steps if s.startswith(NATIVE)]
    with pytest.raises((psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable)):
        execute(database.url, statement.partition("; ")[2])
    asked = f"SELECT status::text, count(*) FROM {room}.procrastinate_jobs GROUP BY 1"
    before = dict(rows(database.url, asked))
    execute(database.url, statement)
    after = dict(rows(database.url, asked))
    assert (before["doing"], after.get("doing", 0)) == (3, 0)
    assert after["todo"] == before["todo"] + 3


# Work that grows


class Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def named(number: int) -> Counted:
    return Counted(f"w{number}")


def comparisons(work: Callable[[], object]) -> int:
    Counted.compared = 0
    work()
    return Counted.compared


def test_many_dead_owners_do_not_take_quadratic_work() -> None:
    """Law: twice the dead owners take about twice the comparisons, in all detectors together.

    A single scan of a list for every owner would take 8 million for 4,000 of them.
    """

    def work(count: int) -> int:
        seen = situation(
            held=tuple(held(f"j{n}", lease=-60, age=700, owner=named(n)) for n in range(count)),
            workers=tuple(worker(named(n), silence=600) for n in range(count)),
            counts={"processing": count},
        )
        return comparisons(lambda: findings(seen))

    few, many = work(1_000), work(4_000)
    assert many < 6 * few
    assert many < 4_000 * 100
    names = [named(n) for n in range(1_000)]
    assert comparisons(lambda: [named(n) in names for n in range(1_000)]) > 1_000 * 100


# The connection, and the indexes


def test_a_silent_connection_is_given_up(database: Database) -> None:
    """Law: the connection itself has keepalives, and the user's own figures stay theirs."""
    for url, idle in ((database.url, "5"), (f"{database.url}&keepalives_idle=77", "77")):
        with open_reader(resolve(url)) as reader:
            driver = reader._connection.connection.driver_connection
            assert driver is not None
            found = driver.info.get_parameters()
        assert found["keepalives_idle"] == idle
        assert (found["keepalives_interval"], found["keepalives_count"]) == ("2", "3")
        assert found["tcp_user_timeout"] == "10000"
        assert found["application_name"] == "jobplaybook"


def contract_tables(url: str) -> None:
    """Make the contract's tables with 30,000 jobs, of which 20 wait."""
    execute(url, f"CREATE SCHEMA {tables.SCHEMA}")
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    tables.metadata.create_all(engine)
    engine.dispose()
    begun = "'2026-11-01Z'::timestamptz + n * interval '1 s'"
    execute(
        url,
        "INSERT INTO jobplaybook.jobs (id, status, queue, attempts, created_at, available_at,"
        " finished_at)"
        " SELECT lpad(n::text, 6, '0'), CASE WHEN n % 1500 = 0 THEN 'pending' ELSE 'completed' END,"
        f" 'q', 1, {begun}, {begun}, CASE WHEN n % 1500 <> 0 THEN {begun} END"
        " FROM generate_series(1, 30000) n",
        "INSERT INTO jobplaybook.attempts (job_id, attempt, outcome)"
        " SELECT id, 1, 'succeeded' FROM jobplaybook.jobs WHERE status = 'completed'",
        "ANALYZE",
    )


def plans(url: str) -> dict[str, str]:
    """Return how PostgreSQL runs the statements of a capture's chunks."""
    with open_reader(resolve(url)) as reader:
        source, found = detect(reader, SOURCES, None)
        statements = source.statements(found, ReadOptions())
        asked = {
            "unfinished": key_chunk(statements, "000100", statements.indexed, 100),
            "history": history_chunk(statements, (), 0, 100),
            "attempts": statements.by_job["attempts"].params(ids=["000001", "000002"]),
            "effects": statements.by_job["effects"].params(ids=["000001", "000002"]),
        }
        return {name: explained(reader, statement) for name, statement in asked.items()}


def explained(reader: connect.Reader, statement: Any) -> str:
    literal = statement.compile(
        dialect=reader.engine.dialect, compile_kwargs={"literal_binds": False}
    )
    driver: Any = reader._connection.connection.driver_connection
    cursor = driver.cursor()
    processors = literal._bind_processors
    binds = {
        name: processors[name](value) if name in processors else value
        for name, value in literal.params.items()
    }
    cursor.execute("SET enable_seqscan = off")
    return "\n".join(line for (line,) in cursor.execute(f"EXPLAIN {literal}", binds))


def test_the_contracts_own_indexes_serve_every_chunk(database: Database) -> None:
    """Law: no chunk of a capture scans or sorts a table of the contract; the indexes are ours.

    Without `jobs_unfinished_id` the unfinished are found along all keys, without
    `jobs_ended_at_id` the history is sorted.
    """
    contract_tables(database.url)
    found = plans(database.url)
    assert "jobs_unfinished_id" in found["unfinished"]
    assert "jobs_ended_at_id" in found["history"]
    assert "Index" in found["attempts"]
    assert "attempts_pkey" in found["attempts"]
    assert "effects_job_id" in found["effects"]
    execute(database.url, "DROP INDEX jobplaybook.jobs_unfinished_id, jobplaybook.jobs_ended_at_id")
    bare = plans(database.url)
    assert "jobs_pkey" in bare["unfinished"]
    assert "Sort" in bare["history"]


INDEXES = {
    "jobs_ended_at_id": "jobs (about 30,000 rows) has no index that starts with finished_at",
    "effects_job_id": "effects (never analysed) has no index that starts with job_id",
    "outbox_job_id": "outbox (never analysed) has no index that starts with job_id",
}


def of_indexes(url: str, folder: Path) -> list[str]:
    return [said for said in capture(url, folder / "a.db").warnings if "has no index" in said]


def test_a_missing_index_is_warned_of(database: Database, tmp_path: Path) -> None:
    """Law: with the contract's indexes nothing is said; each that is dropped is named, alone."""
    contract_tables(database.url)
    assert of_indexes(database.url, tmp_path) == []
    for number, (index, words) in enumerate(INDEXES.items(), 1):
        execute(database.url, f"DROP INDEX jobplaybook.{index}")
        found = of_indexes(database.url, tmp_path)
        assert len(found) == number
        start = words.partition(" (")[0]
        assert any(w.startswith(start) and words.partition(") ")[2] in w for w in found)


def test_a_missing_index_of_the_library_is_warned_of(queue: str, tmp_path: Path) -> None:
    """Law: the events are read by job; that every chunk scans them without the index is said."""
    dropped = rows(
        queue,
        "SELECT indexrelid::regclass::text FROM pg_index"
        " WHERE indrelid = 'procrastinate_events'::regclass AND NOT indisprimary",
    )
    assert of_indexes(queue, tmp_path) == []
    execute(queue, *(f"DROP INDEX {name}" for (name,) in dropped))
    (said,) = of_indexes(queue, tmp_path)
    assert "has no index that starts with job_id: every chunk scans it" in said
