"""The vital signs of a real PostgreSQL: who holds dead rows back, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from jobplaybook.api import triage
from jobplaybook.detectors import database as database_detectors
from jobplaybook.detectors.findings import Finding
from jobplaybook.verdict import Triage
from tests.captures import capture
from tests.postgres import Database
from tests.procrastinate_app import awaited, execute, filled, install, rows
from tests.runbook_blocks import RUNBOOKS
from tests.runbook_checks import runbook

ROUNDS, MOVED = 300, 300 * 58
"""So many transactions move every one of the 58 jobs: each leaves a dead row."""
JOBS = "procrastinate_jobs"
DEFAULT = "READ COMMITTED"


@pytest.fixture
def queue(database: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a queue of the library's own schema, and detectors that need no five minutes."""
    monkeypatch.setattr(database_detectors, "OLD_TRANSACTION_SECONDS", 0.01)
    monkeypatch.setattr(database_detectors, "HELD_TRANSACTIONS", ROUNDS)
    url = filled(install(database.url))
    execute(url, f"ALTER TABLE {JOBS} DISABLE TRIGGER USER")
    return url


@contextmanager
def session(url: str, statement: str, level: str) -> Iterator[int]:
    """Keep a transaction open after a statement; give its process id."""
    connection = psycopg.connect(url)
    try:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        connection.execute(statement.encode())
        yield connection.info.backend_pid
    finally:
        connection.close()


def churn(url: str) -> None:
    """Move every job in many transactions, as work does, and wait for the statistics.

    An indexed column changes: what leaves no trace in an index is tidied up without a vacuum.
    """
    moves = (f"UPDATE {JOBS} SET queue_name = 'q{n}'" for n in range(ROUNDS))
    execute(url, *moves)
    counted = f"SELECT 1 FROM pg_stat_user_tables WHERE relname = '{JOBS}' AND n_tup_upd >= {MOVED}"
    awaited(lambda: rows(url, counted), "the statistics of the moves")


def dead_rows(url: str) -> int:
    """Clear away what can be, and return what is left."""
    execute(url, f"VACUUM {JOBS}")
    ((left,),) = rows(url, f"SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = '{JOBS}'")
    return int(left)


def answered(url: str, tmp_path: Path) -> Triage:
    capture(url, tmp_path / "a.db")
    return triage(str(tmp_path / "a.db"))


def blocked(answer: Triage) -> list[Finding]:
    return [finding for finding in answer.findings if finding.code == "vacuum-blocked"]


HOLDS = {
    "a snapshot": ("SELECT 1", "REPEATABLE READ"),
    "a write that is not committed": ("SELECT procrastinate_register_worker_v1()", DEFAULT),
    "a number of its own": ("SELECT pg_current_xact_id()", DEFAULT),
}
FREE = {
    "a read that is over": ("SELECT 1", DEFAULT),
    "a lock": (f"LOCK TABLE {JOBS} IN ACCESS SHARE MODE", DEFAULT),
}


@pytest.mark.parametrize("name", [*HOLDS, *FREE])
def test_who_holds_dead_rows_back(queue: str, tmp_path: Path, name: str) -> None:
    """A snapshot or an own transaction number does; an idle transaction without either does not.

    PostgreSQL is asked as well: what VACUUM leaves behind is what the finding is about.
    """
    statement, level = {**HOLDS, **FREE}[name]
    with session(queue, statement, level=level):
        churn(queue)
        found = blocked(answered(queue, tmp_path))
        left = dead_rows(queue)
    assert bool(found) is (left >= 10_000) is (name in HOLDS)
    for finding in found:
        assert f"of {JOBS} are dead" in finding.sentence
        assert finding.severity.word == "ticket"
        assert finding.since is not None


def test_the_runbook_finds_and_ends_the_session(queue: str, tmp_path: Path) -> None:
    """Its look names the session that holds most; its statement ends it; vacuum then clears."""
    text = runbook(RUNBOOKS / "vacuum-blocked.md").section("Mitigate")
    (look_up,) = re.findall(r"`(SELECT pid, .+? FROM pg_stat_activity .+?;)`", text)
    (end,) = re.findall(r"`(SELECT pg_terminate_backend\(\d+\);)`", text)
    with session(queue, "SELECT 1", level="REPEATABLE READ") as holder:
        churn(queue)
        assert blocked(answered(queue, tmp_path))
        first = rows(queue, look_up)[0]
        assert first[0] == holder
        rows(queue, re.sub(r"\d+", str(holder), end))
        assert dead_rows(queue) < 10_000
        assert blocked(answered(queue, tmp_path)) == []


def statements(code: str) -> list[str]:
    """Return the whole statements in a runbook's steps, but those that end a session."""
    text = runbook(RUNBOOKS / f"{code}.md").section("Mitigate")
    spans = re.findall(r"`((?:SELECT|VACUUM|ALTER|EXPLAIN) [^`]+;)`", text)
    return [span for span in spans if "_backend" not in span]


@pytest.mark.parametrize(("code", "count"), [("vacuum-blocked", 4), ("claim-slow", 5)])
def test_the_statements_of_the_runbooks_run(queue: str, code: str, count: int) -> None:
    """Looks, vacuum, settings and their undo are accepted as they stand by a real queue."""
    found = statements(code)
    assert len(found) == count
    for statement in found:
        execute(queue, statement)
    options = "SELECT reloptions FROM pg_class WHERE oid = 'procrastinate_jobs'::regclass"
    assert rows(queue, options) == [(None,)]


def test_the_librarys_index_serves_its_claim(queue: str) -> None:
    """What claim-slow explains is answered by an index where the library's own indexes stand."""
    (explain,) = (span for span in statements("claim-slow") if span.startswith("EXPLAIN"))
    execute(
        queue,
        "INSERT INTO procrastinate_jobs (queue_name, task_name)"
        " SELECT 'q', 'send' FROM generate_series(1, 5000)",
        f"ANALYZE {JOBS}",
    )
    plan = "\n".join(line for (line,) in rows(queue, explain))
    assert "procrastinate_jobs_priority_idx_v1" in plan
    execute(queue, "DROP INDEX procrastinate_jobs_priority_idx_v1")
    plan = "\n".join(line for (line,) in rows(queue, explain))
    assert "Sort" in plan
