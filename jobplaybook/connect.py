"""The only file that makes engines and connections: what a SOURCE names, time-outs, secrets.

A live database is read through a `Reader`: every statement in its own short read-only
transaction, with limits that reach no other client of a pooled connection. No error text of a
driver is passed on whole: it may hold parts of a password or the values of a row.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from jobplaybook.bundled import bundled_path
from jobplaybook.driver_errors import CONNECT_SECONDS, connect_reason, place_text, translated
from jobplaybook.errors import InputError, SchemaError, SourceError
from jobplaybook.tables import APPLICATION_ID, SCHEMA
from jobplaybook.units import given, shown

if TYPE_CHECKING:
    import psycopg

Kind = Literal["snapshot", "sqlite", "postgresql"]

# SET LOCAL, never SET: behind a transaction pooler a session setting would stay on the server
# connection and reach the application. The figures are what a queue does not notice.
_BEGIN = (
    "BEGIN READ ONLY; SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '200ms';"
    " SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL idle_in_transaction_session_timeout"
    " = '10s'; SET LOCAL timezone = 'UTC'"
)
_SQLITE_MAGIC = b"SQLite format 3\x00"
_MAX_VALUE_BYTES = 10_000_000
_ENCODE = (
    "in a password write % as %25, @ as %40, / as %2F, : as %3A, # as %23, ? as %3F; in key=value"
    " pairs put it in single quotes"
)
_PORT = "its port is no number: a port is digits alone, such as 5432"
_PARAMETERS = (
    "it has a parameter that libpq does not know: look for a slip in the names after ? or before ="
)
_SCHEME = re.compile(r"(postgres(?:ql)?)(?:\+\w+)?://(.*)", re.ASCII | re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a SOURCE names: a file or a database, with the label that may be shown of it."""

    kind: Kind
    label: str
    path: Path | None = None
    conninfo: str = field(default="", repr=False)
    warnings: tuple[str, ...] = ()


def resolve(source: str, environ: Mapping[str, str] | None = None) -> Target:
    """Return what ``source`` names, without connecting.

    It is ``sample``, a file, ``env:NAME``, ``service=NAME`` or a PostgreSQL URL; what is none of
    these, or cannot be used, is an InputError.

    Examples
    --------
    >>> resolve("env:JOBS_URL", {"JOBS_URL": "postgresql://jobs@db/app"}).label
    'env:JOBS_URL'
    """
    if given(source, "a SOURCE") == "sample":
        return Target(kind="snapshot", label="sample", path=bundled_path("sample_data/killed.db"))
    if source.startswith("env:"):
        return _from_environment(source, os.environ if environ is None else environ)
    if source.startswith("service="):
        return Target(kind="postgresql", label=shown(source)[1:-1], conninfo=source)
    if _SCHEME.match(source):
        return _from_url(source)
    if "://" in source:
        scheme = source.partition("://")[0]
        raise InputError(
            f"expected a PostgreSQL URL or a SQLite file, found a {shown(scheme)} URL: "
            "other databases come in as an export"
        )
    return _from_file(source)


def _from_environment(source: str, environ: Mapping[str, str]) -> Target:
    name = source.removeprefix("env:")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InputError(f"expected env:NAME with a variable's name, found {shown(source)}")
    value = environ.get(name, "").strip()
    if not value:
        raise InputError(
            f"expected the environment variable {name} to hold a database URL, found it unset "
            f"or empty: export {name}=postgresql://..."
        )
    if value.startswith("sqlite:"):
        return _from_file(value.removeprefix("sqlite:").removeprefix("///"), label=source)
    return Target(kind="postgresql", label=source, conninfo=_normalised(value, label=source))


def _from_url(source: str) -> Target:
    from psycopg.conninfo import conninfo_to_dict

    conninfo = _normalised(source, label="the URL")
    found = conninfo_to_dict(conninfo)
    warning = (
        "the URL on the command line holds a password: it stands in the shell's history and "
        "in the process list; use env:NAME or service=NAME"
    )
    return Target(
        kind="postgresql",
        label=f"postgresql://{found.get('host', '')}/{found.get('dbname', '')}",
        conninfo=conninfo,
        warnings=(warning,) if found.get("password") else (),
    )


def _normalised(value: str, *, label: str) -> str:
    """Return a libpq connection string, checked by libpq itself; never echo it."""
    match = _SCHEME.fullmatch(value)
    conninfo = f"postgresql://{match[2]}" if match else value
    if not match and "=" not in value:
        raise InputError(f"expected {label} to hold a PostgreSQL URL or key=value pairs")
    # An unescaped password is looked for first: what it is misread as has other faults.
    misread = match is not None and _is_misread(match[2])
    if fault := _ENCODE if misread else _fault(conninfo):
        raise InputError(
            f"{label} is no connection string that PostgreSQL's client can read: {fault}"
        )
    return conninfo


def _fault(conninfo: str) -> str:
    """Return what is wrong with a connection string, in our own words; nothing if libpq reads it.

    libpq's text may quote a part of a password: only what kind of fault it names is used.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        port = str(conninfo_to_dict(conninfo).get("port") or "")
    except (psycopg.Error, UnicodeError, ValueError) as error:
        unknown = ("invalid connection option", "invalid URI query parameter")
        return _PARAMETERS if any(mark in str(error) for mark in unknown) else _ENCODE
    return "" if re.fullmatch(r"[0-9,]*", port, re.ASCII) else _PORT


def _is_misread(rest: str) -> bool:
    """Whether libpq would take a part of an unescaped password for the host or the database."""
    login, at, after = rest.partition("@")
    beyond = after if at and "/" not in login else rest
    return "@" in beyond.partition("?")[0]


def _from_file(source: str, *, label: str = "") -> Target:
    path = Path(source)
    try:
        if path.is_dir():
            raise InputError(f"expected a snapshot file, found a folder: {shown(source, 200)}")
        if not path.is_file():  # a pipe would be waited for, for ever
            raise ValueError
        with path.open("rb") as file:
            head = file.read(100)
    except (OSError, ValueError):
        forms = "sample, env:NAME, service=NAME, a URL or a readable file"
        raise InputError(f"expected {forms}, found {shown(source, 200)}") from None
    if head[:16] != _SQLITE_MAGIC or len(head) < 100:
        raise SchemaError(
            f"expected a snapshot or a SQLite database, found another kind of file: "
            f"{shown(source, 200)}"
        )
    kind: Kind = "snapshot" if int.from_bytes(head[68:72]) == APPLICATION_ID else "sqlite"
    return Target(kind=kind, label=label or path.name, path=path)


class Reader:
    """Reads a live database: each statement alone in its own short read-only transaction."""

    def __init__(self, engine: sa.Engine, connection: sa.Connection, target: Target) -> None:
        self.engine = engine
        self.target = target
        self.dialect = engine.dialect.name
        self._connection = connection

    def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
        """Return the rows of one statement as plain tuples; `driver_errors` says what may fail."""
        with translated(self.target.label):
            self._connection.exec_driver_sql(_BEGIN if self.dialect == "postgresql" else "BEGIN")
            try:
                result = self._connection.execute(statement, binds)
                # The driver's own tuples: every statement selects plain integers and text, so
                # there is nothing left to convert, and a capture reads millions of them.
                return list(cast("Any", result).cursor.fetchall())
            finally:
                if not self._connection.invalidated:
                    self._connection.exec_driver_sql("ROLLBACK")

    def scalar(self, statement: sa.Executable, **binds: Any) -> Any:
        """Return the first column of the first row, or None."""
        found = self.rows(statement, **binds)
        return found[0][0] if found else None


@contextmanager
def open_reader(target: Target) -> Iterator[Reader]:
    """Connect to a live database for reading; a SourceError where it refuses."""
    if target.path is None:
        engine = _engine("postgresql+psycopg://", lambda: _postgresql(target))
    else:
        engine = _engine("sqlite://", partial(open_sqlite_readonly, target.path, immutable=False))
    try:
        with translated(target.label), engine.connect() as connection:
            yield Reader(engine, connection, target)
    finally:
        engine.dispose()


@contextmanager
def open_snapshot_engine(path: Path) -> Iterator[sa.Engine]:
    """Open a snapshot file read-only and distrustfully; its contents are checked elsewhere."""
    engine = _engine("sqlite://", partial(open_sqlite_readonly, path, immutable=True))
    try:
        yield engine
    finally:
        engine.dispose()


def create_sqlite(path: Path) -> sqlite3.Connection:
    """Create a new SQLite file for bulk writing: no journal, for it is renamed only when whole."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
        " PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -262144; PRAGMA temp_store = MEMORY"
    )
    return connection


def open_sqlite_readonly(path: Path, *, immutable: bool) -> sqlite3.Connection:
    """Open a SQLite file that may be hostile: nothing in it is run, nothing can be written."""
    uri = path.absolute().as_uri() + "?mode=ro" + ("&immutable=1" if immutable else "")
    # A capture reads in a thread of its own; there too only one thread uses it at a time.
    connection = sqlite3.connect(
        uri, uri=True, timeout=0.2, isolation_level=None, check_same_thread=False
    )
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return connection


def _engine(url: str, creator: Callable[[], Any]) -> sa.Engine:
    # hstore would be looked up in a transaction of its own, which is not ours to open.
    more = {"use_native_hstore": False} if url.startswith("postgresql") else {}
    engine = sa.create_engine(
        url,
        creator=creator,
        poolclass=StaticPool,
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",
        **more,
    )
    # One definition of the tables: PostgreSQL keeps them in a schema, SQLite has none.
    if engine.dialect.name == "sqlite":
        return engine.execution_options(schema_translate_map={SCHEMA: None})
    return engine


def _named(target: Target, given: Mapping[str, Any]) -> str:
    """Name a database that cannot be reached: a URL by its parts, all else by its label too."""
    place = place_text(given)
    if "://" in target.label:
        return place or target.label
    return f"{target.label} ({place})" if place else target.label


def _postgresql(target: Target) -> psycopg.Connection[Any]:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = conninfo_to_dict(target.conninfo)
    defaults: dict[str, str | int] = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "jobplaybook",
        "client_encoding": "UTF8",
        # A connection that goes silent is given up, not waited for.
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    extra = {key: value for key, value in defaults.items() if key not in given}
    try:
        # Prepared statements live in the server connection, which a pooler hands to others.
        return psycopg.connect(
            make_conninfo(target.conninfo, **extra), autocommit=True, prepare_threshold=None
        )
    except psycopg.OperationalError as error:
        if "definition of service" in str(error) or "service file" in str(error):
            raise InputError(
                f"{target.label}: expected it in the service file, found no such service"
            ) from None
        raise SourceError(
            f"cannot connect to {_named(target, given)}: {connect_reason(str(error))}"
        ) from None
    except (psycopg.Error, UnicodeError, ValueError):
        raise InputError(f"{target.label}: the connection string cannot be used") from None
