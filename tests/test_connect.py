"""What a SOURCE names, how it is opened, and that no password ever comes back out."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from jobplaybook.connect import (
    Reader,
    Target,
    create_sqlite,
    open_reader,
    open_sqlite_readonly,
    resolve,
)
from jobplaybook.driver_errors import ChunkTooSlow
from jobplaybook.errors import InputError, JobPlaybookError, SchemaError, SourceError
from tests.captures import files
from tests.conftest import REPOSITORY
from tests.postgres import LOGIN, PASSWORD, Database, Postgres
from tests.procrastinate_app import rows

SECRET = "s3cr3t-canary"
SAMPLE = REPOSITORY / "sample_data" / "killed.db"


def refused(source: str, value: str | None = None) -> str:
    """Return what is said when a source cannot be resolved; never a password."""
    environ = {} if value is None else {"U": value}
    with pytest.raises(InputError) as told:
        resolve(source, environ)
    assert SECRET[:6] not in str(told.value)
    assert "\n" not in str(told.value)
    return str(told.value)


# What a SOURCE names


def test_the_bundled_sample_is_a_snapshot() -> None:
    """`sample` needs no file of the user's."""
    target = resolve("sample")
    assert (target.kind, target.label) == ("snapshot", "sample")


def test_a_snapshot_is_told_from_other_sqlite_files(tmp_path: Path) -> None:
    """The application id in the header decides, not the name."""
    named = tmp_path / "anything.txt"
    named.write_bytes(SAMPLE.read_bytes())
    assert resolve(str(named)).kind == "snapshot"
    with closing(sqlite3.connect(tmp_path / "snapshot.db")) as other:
        other.execute("CREATE TABLE jobs (id)")
    assert resolve(str(tmp_path / "snapshot.db")).kind == "sqlite"


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://jobs@db/app",
        "postgres://jobs@db/app",
        "POSTGRESQL://jobs@db/app",
        "postgresql+psycopg://jobs@db/app",
        " postgresql://jobs@db/app\n",
        "host=db user=jobs dbname=app",
        "postgresql:///app?host=db&user=jobs",
        "postgresql://db/app?user=jobs",
    ],
)
def test_every_libpq_form_names_a_database(value: str) -> None:
    """URLs, key=value pairs and a socket folder as ?host= are the same to libpq."""
    target = resolve("env:U", {"U": value})
    assert (target.kind, target.label) == ("postgresql", "env:U")
    found = conninfo_to_dict(target.conninfo)
    assert (found["host"], found["user"], found["dbname"]) == ("db", "jobs", "app")


@pytest.mark.parametrize(
    "password",
    ["%25zz", "a%40b", "a%2Fb", "a:b", "a#b", "a?b", "%20", "p%C3%A4ss", "a%3Ab%23c%3Fd"],
)
def test_an_escaped_password_is_read_as_it_is_meant(password: str) -> None:
    """What libpq can read is left alone, even where an escape was not needed."""
    target = resolve("env:U", {"U": f"postgresql://jobs:{password}@db:6543/app"})
    found = conninfo_to_dict(target.conninfo)
    assert (found["host"], found["port"], found["dbname"]) == ("db", "6543", "app")
    assert password not in repr(target)


@pytest.mark.parametrize(
    "password",
    ["%zz", "%", "a@b", "a/b", "a/b@c", "@", "a?b@c", "a#b@c", "a@b/c", "/", "50%off"],
)
def test_an_unescaped_password_is_told_how_to_be_written(password: str) -> None:
    """Nothing of it is taken for a host that would be looked up, and nothing of it is shown."""
    said = refused("env:U", f"postgresql://jobs:{SECRET}{password}{SECRET}@db:6543/app")
    assert said.startswith("env:U is no connection string")
    assert "% as %25, @ as %40, / as %2F" in said


@pytest.mark.parametrize(
    ("source", "value", "said"),
    [
        ("env:U", None, "variable U to hold a database URL, found it unset or empty"),
        ("env:U", "", "unset or empty: export U=postgresql://"),
        ("env:U", "  ", "unset or empty"),
        ("env:", None, "expected env:NAME"),
        ("env:A B", None, "expected env:NAME"),
        ("env:$U", None, "expected env:NAME"),
        ("env:U", f"mysql://u:{SECRET}@db/app", "expected env:U to hold a PostgreSQL URL"),
        ("env:U", f"mysql://u:{SECRET}@db/app?a=b", "env:U is no connection string"),
        ("env:U", SECRET, "expected env:U to hold a PostgreSQL URL"),
        ("env:U", f"host=db password='{SECRET}", "env:U is no connection string"),
        ("env:U", f"host=db pasword={SECRET}", "env:U is no connection string"),
        ("env:U", f"postgresql://u:{SECRET}@db:port/app", "env:U is no connection string"),
        (f"mysql://u:{SECRET}@db/app", None, "found a 'mysql' URL"),
        (f"redis://:{SECRET}@db/0", None, "found a 'redis' URL"),
        (f"postgresql://u:{SECRET}%zz@db/app", None, "the URL is no connection string"),
        ("", None, "found"),
        ("no-such-file", None, "or a readable file, found 'no-such-file'"),
        ("a\0b", None, "or a readable file, found"),
        ("x" * 5_000, None, "or a readable file, found"),
        ("/dev/zero", None, "or a readable file, found"),
    ],
)
def test_what_names_nothing_is_refused(source: str, value: str | None, said: str) -> None:
    """One line says what was expected and what was found."""
    assert said in refused(source, value)


@pytest.mark.parametrize(
    "content", [b"", b"S", b"SQLite format 3\0", b"x" * 100, SAMPLE.read_bytes()[:99]]
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    """Empty, short or foreign: it is neither a snapshot nor a SQLite database."""
    (tmp_path / "f").write_bytes(content)
    assert "found another kind of file" in refused(str(tmp_path / "f"))
    with pytest.raises(SchemaError):
        resolve(str(tmp_path / "f"))


def test_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    """A pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    assert "found a folder" in refused(str(tmp_path))
    assert "readable file" in refused(str(tmp_path / "pipe"))


def test_a_password_on_the_command_line_warns(tmp_path: Path) -> None:
    """It works, but it stands in the history and the process list; the label leaves it out."""
    target = resolve(f"postgresql://jobs:{SECRET}@db/app")
    (warning,) = target.warnings
    assert "use env:NAME or service=NAME" in warning
    assert target.label == "postgresql://db/app"
    assert SECRET not in repr(target) + warning
    assert resolve("postgresql://jobs@db/app").warnings == ()


# Opening PostgreSQL


def login_failure(source: Target | str) -> str:
    target = source if isinstance(source, Target) else resolve("env:U", {"U": source})
    with pytest.raises(JobPlaybookError) as told, open_reader(target):
        pytest.fail("nobody should get in")
    assert SECRET not in str(told.value)
    assert PASSWORD not in str(told.value)
    assert "\n" not in str(told.value)
    return f"{told.value.exit_code} {told.value}"


def test_why_a_login_failed_is_said_in_our_own_words(
    postgres: Postgres, database: Database
) -> None:
    """libpq's text may hold parts of a password: the reason is told without it."""
    wrong = postgres.tcp_url(database.name, LOGIN, SECRET)
    server = conninfo_to_dict(wrong)
    place = f"env:U ({server['host']}:{server['port']}/{database.name} as {LOGIN})"
    assert login_failure(wrong) == f"4 cannot connect to {place}: the server refused the password"
    none = postgres.tcp_url(database.name, LOGIN, None)
    assert login_failure(none).endswith("asks for a password and none was given")
    nobody = postgres.tcp_url(database.name, "nobody", SECRET)
    assert login_failure(nobody).startswith(
        f"4 cannot connect to {place.replace(LOGIN, 'nobody')}: "
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql://u:{SECRET}@127.0.0.1:1/app", "nothing listens at that host and port"),
        (f"postgresql://u:{SECRET}@nowhere.invalid/app", "the host name is unknown"),
        ("postgresql:///app?host=/nowhere", "no server at that socket folder"),
        (f"postgresql://u:{SECRET}@127.0.0.1:99999/app", "cannot connect"),
    ],
)
def test_why_a_server_cannot_be_reached_is_said(url: str, said: str) -> None:
    """Each reason has its words and exit code 4."""
    told = login_failure(url)
    assert told.startswith("4 cannot connect to env:U (")
    assert said in told


def test_an_unknown_service_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is in no service file is a slip, not a server that is down."""
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none"))
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    told = login_failure(resolve("service=unknown"))
    assert told.startswith("2 service=unknown: ")


def test_a_service_file_gives_the_login(
    postgres: Postgres, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`service=NAME` is libpq's own look-up."""
    parameters = conninfo_to_dict(database.url)
    text = "".join(f"{key}={value}\n" for key, value in parameters.items())
    (tmp_path / "services").write_text(f"[incident]\n{text}")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    target = resolve("service=incident")
    with open_reader(target) as reader:
        assert reader.scalar(sa.text("SELECT current_database()")) == database.name
    assert target.label == "service=incident"


def setting(reader: Reader, name: str) -> object:
    return reader.scalar(sa.text("SELECT current_setting(:name)"), name=name)


def test_every_statement_has_its_limits_and_leaves_none_behind(database: Database) -> None:
    """The limits hold inside the transaction; the session that a pooler shares has its own."""
    with open_reader(resolve(database.url)) as reader:
        inside = {
            "transaction_read_only": "on",
            "transaction_isolation": "read committed",
            "statement_timeout": "5s",
            "lock_timeout": "200ms",
            "max_parallel_workers_per_gather": "0",
            "TimeZone": "UTC",
            "application_name": "jobplaybook",
        }
        assert {name: setting(reader, name) for name in inside} == inside
        outside = {"statement_timeout": "0", "lock_timeout": "0", "transaction_read_only": "off"}
        raw = reader._connection.exec_driver_sql
        found = {name: raw(f"SELECT current_setting('{name}')").scalar() for name in outside}
        assert found == outside
        assert raw("SELECT count(*) FROM pg_prepared_statements").scalar() == 0


def test_an_application_name_that_was_given_is_kept(database: Database) -> None:
    """A DBA may ask for a name of their own."""
    with open_reader(resolve(f"{database.url}&application_name=night-watch")) as reader:
        assert setting(reader, "application_name") == "night-watch"


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("INSERT INTO t VALUES (2)", SourceError, "25006"),
        ("SELECT * FROM nowhere", SchemaError, "a table or column is missing (42P01"),
        ("SELECT nothing FROM t", SchemaError, "a table or column is missing (42703"),
        (f"SELECT '{SECRET}'::int", SourceError, "refused a statement (22P02)"),
        ("SELECT 1/0", SourceError, "refused a statement (22012)"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", SourceError, "connection to the data"),
    ],
)
def test_what_the_database_refuses_is_one_clear_line(
    postgres: Postgres, database: Database, statement: str, error: type[Exception], said: str
) -> None:
    """The state and the primary message, never a row's value."""
    postgres.execute("CREATE TABLE t AS SELECT 1 AS id", dbname=database.name)
    with open_reader(resolve("env:U", {"U": database.url})) as reader:
        with pytest.raises(error) as told:
            reader.rows(sa.text(statement))
        assert said in str(told.value)
        assert SECRET not in str(told.value)
    assert rows(database.url, "SELECT count(*) FROM t") == [(1,)]


def test_a_reader_goes_on_after_a_refusal(database: Database) -> None:
    """Each statement stands alone: one that failed leaves no broken transaction."""
    with open_reader(resolve(database.url)) as reader:
        with pytest.raises(SchemaError):
            reader.rows(sa.text("SELECT * FROM nowhere"))
        assert reader.rows(sa.text("SELECT 1, 'a'")) == [(1, "a")]
        assert reader.scalar(sa.text("SELECT 1 WHERE false")) is None


def test_a_lost_connection_stays_lost(database: Database) -> None:
    """Later statements say the same, they do not fail in another way."""
    with open_reader(resolve(database.url)) as reader:
        for _ in range(3):
            with pytest.raises(SourceError, match="connection to the database was lost"):
                reader.rows(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))


def test_a_statement_that_is_cancelled_may_be_asked_for_less(database: Database) -> None:
    """A time-out is the one failure that a smaller chunk can mend."""
    with open_reader(resolve(database.url)) as reader:
        with pytest.raises(ChunkTooSlow, match="out of time"):
            reader.rows(sa.text("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)"))
        assert reader.scalar(sa.text("SELECT 1")) == 1


def test_a_locked_table_is_not_queued_behind(postgres: Postgres, database: Database) -> None:
    """A waiting reader would stop every claim behind it: it gives up at once."""
    postgres.execute("CREATE TABLE t AS SELECT 1 AS id", dbname=database.name)
    with (
        psycopg.connect(database.url) as other,
        open_reader(resolve(database.url)) as reader,
    ):
        other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError, match="locked by somebody else; gave up after 200 ms"):
            reader.rows(sa.text("SELECT * FROM t"))
        other.rollback()
        assert reader.rows(sa.text("SELECT * FROM t")) == [(1,)]


# Opening SQLite


def test_a_snapshot_cannot_be_written(tmp_path: Path) -> None:
    """Whatever a file holds, opening it changes nothing and leaves nothing beside it."""
    path = tmp_path / "a.db"
    path.write_bytes(SAMPLE.read_bytes())
    with closing(open_sqlite_readonly(path, immutable=True)) as connection:
        for statement in ("DELETE FROM jobs", "PRAGMA user_version = 7", "CREATE TABLE t (a)"):
            with pytest.raises(sqlite3.OperationalError):
                connection.execute(statement)
        with pytest.raises(sqlite3.Error):
            connection.execute("ATTACH DATABASE ? AS other", (str(tmp_path / "other.db"),))
        with pytest.raises(sqlite3.DataError):
            connection.execute("SELECT zeroblob(20000000)").fetchall()
    assert path.read_bytes() == SAMPLE.read_bytes()
    assert files(tmp_path) == ["a.db"]


def test_a_live_sqlite_database_is_read_beside_its_writer(tmp_path: Path) -> None:
    """Committed rows are seen, a lock is reported, and the file is not touched."""
    path = tmp_path / "live.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("CREATE TABLE t (id INTEGER)")
        writer.execute("INSERT INTO t VALUES (1)")
        with open_reader(resolve(str(path))) as reader:
            assert reader.rows(sa.text("SELECT id FROM t")) == [(1,)]
            writer.execute("BEGIN EXCLUSIVE")
            with pytest.raises(SourceError, match="locked by a writer"):
                reader.rows(sa.text("SELECT id FROM t"))
            writer.execute("COMMIT")
            with pytest.raises(SourceError):
                reader.rows(sa.text("DELETE FROM t"))
            with pytest.raises(SchemaError, match="missing"):
                reader.rows(sa.text("SELECT id FROM nowhere"))
        assert writer.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_a_new_file_is_written_in_bulk(tmp_path: Path) -> None:
    """One page size on every machine, and no journal beside a file that nobody may see yet."""
    with closing(create_sqlite(tmp_path / "new.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
        assert connection.execute("PRAGMA page_size").fetchone() == (8192,)
        assert files(tmp_path) == ["new.db"]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
def test_text_of_any_server_encoding_is_text(postgres: Postgres, encoding: str) -> None:
    """A database without an encoding hands out bytes unless it is asked for text."""
    name = f"jobplaybook_{encoding.lower()}"
    postgres.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0"
        " LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        with open_reader(resolve(postgres.url(name))) as reader:
            assert reader.rows(sa.text("SELECT 'Grüße', 1")) == [("Grüße", 1)]
    finally:
        postgres.drop(name)
