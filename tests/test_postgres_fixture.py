"""The tests' own PostgreSQL: it holds what was loaded, asks for passwords, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import REPOSITORY
from tests.postgres import LOGIN, PASSWORD, Database, Postgres, libpq_url, running_server
from tests.postgres_server import (
    NoServer,
    Server,
    newest_first,
    run_as,
    wheel_binaries,
    within_reach,
)


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def count_tables(url: str) -> object:
    return rows(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")[0][0]


def test_a_recording_is_loaded_whole(recording: Callable[[str], str]) -> None:
    """The jobs by status are those of the recorded run."""
    found = rows(
        recording("after_kill"),
        "SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY 1 ORDER BY 1",
    )
    assert found == [("cancelled", 1), ("doing", 3), ("succeeded", 147), ("todo", 51)]


def test_a_recording_is_loaded_once_and_cannot_be_changed(recording: Callable[[str], str]) -> None:
    """Tests that share a recording cannot spoil it for each other."""
    assert recording("after_kill") == recording("after_kill")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        rows(recording("after_kill"), "DELETE FROM procrastinate_jobs RETURNING id")


def test_a_database_starts_empty(postgres: Postgres, database: Database) -> None:
    """What one test leaves in its database, no other sees."""
    assert count_tables(database.url) == 0
    postgres.execute("CREATE TABLE here (id int)", dbname=database.name)
    assert count_tables(database.url) == 1


def test_a_dropped_database_is_gone_whoever_used_it(postgres: Postgres) -> None:
    """A connection left open does not keep a database alive."""
    url = postgres.create("jobplaybook_dropped")
    with psycopg.connect(url):
        postgres.drop("jobplaybook_dropped")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_tcp_demands_the_right_password(postgres: Postgres, database: Database) -> None:
    """Only the right password opens the TCP side, and the login reads but does not write."""
    postgres.execute("CREATE TABLE jobs AS SELECT 1 AS id", dbname=database.name)
    url = postgres.tcp_url(database.name)
    assert rows(url, "SELECT id FROM jobs") == [(1,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        rows(url, "DELETE FROM jobs RETURNING id")
    for password in ("wrong", None):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(postgres.tcp_url(database.name, LOGIN, password))
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.tcp_url(database.name, "postgres", PASSWORD))


def test_the_wheel_alone_gives_a_server() -> None:
    """A machine without PostgreSQL runs these tests all the same, and nothing stays behind."""
    with running_server(wheel_binaries()[0]) as server:
        url = server.create("fresh")
        assert rows(url, "SELECT 1") == [(1,)]
    assert not Path(server.login["host"]).exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


KILLED_RUN = """
import json, sys
from tests.postgres import running_server
with running_server() as server:
    print(json.dumps(dict(server.login)), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_leaves_no_server(ending: signal.Signals) -> None:
    """The server ends with the run that started it, however that run ended."""
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdout is not None
    login = json.loads(run.stdout.readline())
    run.send_signal(ending)
    run.communicate(timeout=60)  # the supervisor shares standard error: this awaits its end too
    assert not Path(login["host"]).exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(**login)


def test_a_server_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    """The reason comes from the server's own programs, and their folder is not left behind."""
    folder = tmp_path / "install" / "bin"
    folder.mkdir(parents=True)
    for name, text in (("initdb", "echo no room in $PWD >&2; exit 1"), ("postgres", "exit 0")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    failure = r"initdb .* failed: no room in"
    with pytest.raises(NoServer, match=failure) as refused, running_server(folder):
        pass
    assert not Path(str(refused.value).rsplit(" ", 1)[1]).exists()


def test_unreachable_programs_are_copied(tmp_path: Path) -> None:
    """Programs that the server's user may not run are copied to where it may."""
    closed = tmp_path / "closed" / "package" / "install"
    folder = tmp_path / "folder"
    for place in (closed / "bin", tmp_path / "closed" / "package.libs", folder):
        place.mkdir(parents=True)
    program = closed / "bin" / "postgres"
    program.write_text("#!/bin/sh\n")
    assert within_reach(closed / "bin", folder, None) != closed / "bin"
    copied = Server(binaries=folder / "programs/package/install/bin", folder=folder, uid=None)
    (copied.binaries / "postgres").chmod(0o755)
    assert copied.call("postgres").returncode == 0
    assert (folder / "programs" / "package.libs").is_dir()
    program.chmod(0o755)
    assert within_reach(closed / "bin", folder, None) == closed / "bin"


def test_the_newest_server_is_taken() -> None:
    """Versions are compared as numbers."""
    folders = [Path(f"/usr/lib/postgresql/{version}/bin") for version in ("9.6", "18", "15")]
    assert [path.parent.name for path in newest_first(iter(folders))] == ["18", "15", "9.6"]


def test_urls_say_what_libpq_reads() -> None:
    """A password with every awkward character arrives as it is."""
    login = {"host": "db", "user": "some user", "password": "p%zz@:/#? ä", "dbname": "some db"}
    assert conninfo_to_dict(libpq_url(login)) == login


def test_only_root_changes_the_user() -> None:
    """Without root the server runs as the user who runs the tests."""
    assert run_as(None) == {}
    if os.geteuid() == 0:
        assert subprocess.check_output(["id", "-u"], **run_as(65534)).strip() == b"65534"
