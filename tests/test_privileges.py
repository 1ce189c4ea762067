"""Reading needs SELECT alone: more is warned about or refused, less is said."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from jobplaybook.errors import SchemaError, SourceError, UnsafeAction
from jobplaybook.sources.base import ReadOptions
from tests.captures import capture, command_line, files, look, refusal
from tests.postgres import Database, Postgres
from tests.procrastinate_app import execute, filled, install

JOBS, EVENTS = "procrastinate_jobs", "procrastinate_events"
WORKERS, PERIODIC = "procrastinate_workers", "procrastinate_periodic_defers"


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue with jobs of every status in the library's own schema."""
    return filled(install(database.url))


@pytest.fixture
def role(postgres: Postgres, database: Database) -> Iterator[str]:
    """Give a role without any right; it is gone with its rights at the end."""
    name = f"jobplaybook_{secrets.token_hex(4)}"
    try:
        postgres.execute(f"CREATE ROLE {name}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the server of DATABASE_URL lets this login create no role")
    yield name
    postgres.execute(f"DROP OWNED BY {name}", dbname=database.name)
    postgres.execute(f"DROP ROLE {name}")


def as_role(url: str, role: str) -> str:
    """Return the URL under which one reads with the rights of a role."""
    return f"{url}&options=-c%20role%3D{role}"


def grant_reading(url: str, role: str) -> None:
    execute(
        url,
        f"GRANT USAGE ON SCHEMA public TO {role}",
        f"GRANT SELECT ON {JOBS}, {EVENTS}, {WORKERS}, {PERIODIC} TO {role}",
    )


def test_select_alone_is_enough(queue: str, role: str, tmp_path: Path) -> None:
    """The role that the runbook asks for reads everything, without a word of warning."""
    grant_reading(queue, role)
    report = capture(as_role(queue, role), tmp_path / "a.db", require_readonly=True)
    assert (report.rows["jobs"], report.warnings, report.not_read) == (58, (), {})
    ours = capture(queue, tmp_path / "b.db")
    assert report.rows == ours.rows


def test_the_vitals_that_a_role_may_not_see_are_empty(
    queue: str, role: str, tmp_path: Path
) -> None:
    """What other sessions do is hidden from a plain role: NULL, and not a reassuring 0."""
    grant_reading(queue, role)
    told = "SELECT count(*), count(value) FROM vitals WHERE name = 'oldest_transaction_seconds'"
    for url, seen in ((as_role(queue, role), 0), (queue, 1)):
        capture(url, tmp_path / "a.db")
        assert look(tmp_path / "a.db", told) == [(1, seen)]
    names = {name for (name,) in look(tmp_path / "a.db", "SELECT DISTINCT name FROM vitals")}
    assert {"table_bytes", "dead_rows", "last_autovacuum_at", "index_uses"} <= names


def test_a_superuser_is_warned_and_may_be_refused(queue: str, tmp_path: Path) -> None:
    """Never refused for reading, unless the user asks for it: exit code 3."""
    report = capture(queue, tmp_path / "a.db")
    (warning,) = report.warnings
    assert warning == "the role is a superuser: a role with SELECT alone is enough and safer"
    words = ("capture", "env:U", "-o", str(tmp_path / "b.db"), "--require-readonly")
    done = command_line(*words, environ={"U": queue})
    assert done.returncode == 3
    assert "expected a role that may only read, found one that is a superuser" in refusal(done)
    assert files(tmp_path) == ["a.db", "jobplaybook.key"]


@pytest.mark.parametrize("right", ["INSERT", "UPDATE", "DELETE", "TRUNCATE"])
def test_a_role_that_may_write_is_warned_and_may_be_refused(
    queue: str, role: str, tmp_path: Path, right: str
) -> None:
    """Any one right to change any one table is more than reading needs."""
    grant_reading(queue, role)
    execute(queue, f"GRANT {right} ON {WORKERS} TO {role}")
    report = capture(as_role(queue, role), tmp_path / "a.db")
    assert [w.split(":")[0] for w in report.warnings] == [f"the role may write {WORKERS}"]
    with pytest.raises(UnsafeAction, match=f"may write {WORKERS}: use a role with SELECT"):
        capture(as_role(queue, role), tmp_path / "b.db", require_readonly=True)
    assert files(tmp_path) == ["a.db", "jobplaybook.key"]


@pytest.mark.parametrize("table", [JOBS, EVENTS, WORKERS, PERIODIC])
def test_a_table_that_may_not_be_read_is_said(
    queue: str, role: str, tmp_path: Path, table: str
) -> None:
    """What to grant is in the line."""
    grant_reading(queue, role)
    execute(queue, f"REVOKE SELECT ON {table} FROM {role}")
    with pytest.raises(SourceError, match=f"may not read this: GRANT SELECT .*{table}"):
        capture(as_role(queue, role), tmp_path / "a.db")
    assert files(tmp_path) == []


def test_a_schema_that_may_not_be_entered_hides_its_tables(
    queue: str, role: str, tmp_path: Path
) -> None:
    """Without USAGE nothing is found, and that may be why."""
    grant_reading(queue, role)
    execute(
        queue,
        "CREATE SCHEMA inner_room",
        *(f"ALTER TABLE {name} SET SCHEMA inner_room" for name in (JOBS, EVENTS, WORKERS)),
    )
    with pytest.raises(SchemaError, match="found none that this role may see"):
        capture(as_role(queue, role), tmp_path / "a.db")
    execute(queue, f"GRANT USAGE ON SCHEMA inner_room TO {role}")
    assert capture(as_role(queue, role), tmp_path / "a.db").rows["jobs"] == 58


def test_row_security_is_said(queue: str, role: str, tmp_path: Path) -> None:
    """Policies may hide rows from this role: a count that looks whole may not be."""
    grant_reading(queue, role)
    execute(
        queue,
        f"ALTER TABLE {JOBS} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY few ON {JOBS} FOR SELECT TO {role} USING (id <= 40)",
    )
    report = capture(as_role(queue, role), tmp_path / "a.db")
    assert report.rows["jobs"] < 58
    assert report.warnings == (
        f"row security is active on {JOBS}: rows may be hidden from this role",
    )
    told = look(tmp_path / "a.db", "SELECT value FROM meta WHERE key = 'warnings'")
    assert "row security" in told[0][0]
    assert not [w for w in capture(queue, tmp_path / "b.db").warnings if "row security" in w]


def test_only_the_named_fields_need_to_be_readable(queue: str, role: str, tmp_path: Path) -> None:
    """A role that may read some columns only reads them; the payload is asked for by path."""
    grant_reading(queue, role)
    execute(
        queue,
        f"REVOKE SELECT ON {JOBS} FROM {role}",
        f"GRANT SELECT (id, queue_name, task_name, priority, lock, queueing_lock, status,"
        f" scheduled_at, worker_id) ON {JOBS} TO {role}",
        f"DROP TABLE {PERIODIC} CASCADE",
    )
    report = capture(as_role(queue, role), tmp_path / "a.db")
    assert report.rows["jobs"] == 58
    with pytest.raises(SourceError, match="GRANT SELECT"):
        capture(
            as_role(queue, role),
            tmp_path / "b.db",
            read=ReadOptions(tenant_path=("args", "tenant")),
        )
