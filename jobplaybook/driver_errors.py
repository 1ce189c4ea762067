"""What a driver's error means, in our own words and with our own exit codes.

No text of a driver is passed on whole: it may hold parts of a password or the values of a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from jobplaybook.errors import JobPlaybookError, SchemaError, SourceError
from jobplaybook.units import plain

CONNECT_SECONDS = 10


class ChunkFailed(SourceError):
    """A statement that may do where it is asked for less; ``why`` completes "reading them ..."."""

    why = "failed"


class ChunkTooSlow(ChunkFailed):
    """A statement ran into its time limit."""

    why = "took longer than 5 s"


class ChunkUnreadable(ChunkFailed):
    """A statement met a row that the database itself cannot read: a wrong value, a broken page."""


Meanings = tuple[tuple[tuple[str, ...], type[JobPlaybookError], str], ...]
_LOGIN_FAILURES = {
    "password authentication failed": "the server refused the password",
    "no password supplied": "the server asks for a password and none was given",
    "pg_hba.conf": "the server does not admit this user from this host",
    "does not exist": "the database or the user does not exist",
    "permission denied for database": "the user may not connect to this database",
    "too many": "the server has no connection left",
    "starting up": "the server is starting up",
    "shutting down": "the server is shutting down",
    "Connection refused": "nothing listens at that host and port",
    "could not translate host name": "the host name is unknown",
    "failed to resolve host": "the host name is unknown",
    "timeout": f"no answer within {CONNECT_SECONDS} s",
    "No such file": "there is no server at that socket folder",
    "SSL": "the encrypted connection could not be made",
}
"""What stands in libpq's text, and what it means; the first that fits."""
_STATES: Meanings = (
    (("57014", "40001"), ChunkTooSlow, "a statement was out of time"),
    (
        ("55P03",),
        SourceError,
        "a table is locked by somebody else; gave up after 200 ms so as not to queue behind the"
        " lock",
    ),
    (("42P01", "42703", "3F000"), SchemaError, "a table or column is missing"),
    (("42501",), SourceError, "the role may not read this: GRANT SELECT"),
    (("22", "XX"), ChunkUnreadable, "the database refused a statement"),
    (("08", "57P"), SourceError, "the connection to the database was lost"),
    (("",), SourceError, "the database refused a statement"),
)
"""How SQLSTATEs begin, and what they mean; the first that fits."""
_SQLITE: Meanings = (
    (("SQLITE_BUSY", "SQLITE_LOCKED"), SourceError, "the file is locked by a writer"),
    (("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_TOOBIG"), SchemaError, "the file is damaged"),
    (("",), SourceError, "SQLite refused a statement"),
)


def connect_reason(text: str) -> str:
    """Say in our own words why a login failed: a driver's text may hold parts of a password."""
    found = (reason for mark, reason in _LOGIN_FAILURES.items() if mark in text)
    return next(found, "check host, port, database and user")


def place_text(login: Mapping[str, Any]) -> str:
    """Say where a connection was to go, as far as its own words tell; nothing of a service.

    Examples
    --------
    >>> place_text({"host": "db", "port": "5432", "dbname": "app", "user": "ann", "password": "x"})
    'db:5432/app as ann'
    >>> place_text({"host": "::1", "port": 5433}), place_text({"service": "jobs", "host": "db"})
    ('[::1]:5433', '')
    """
    if login.get("service"):
        return ""
    names = ("host", "port", "dbname", "user")
    # what looks like a connection string within a part of one may hold a password
    parts = [plain(str(login.get(name) or "")) for name in names]
    host, port, database, user = ("" if "://" in p or "=" in p else p[:100] for p in parts)
    host = f"[{host}]" if ":" in host else host
    place = host + (f":{port}" if port else "") + (f"/{database}" if database else "")
    return f"{place} as {user}".strip() if user else place


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Turn a driver's errors into ours, under the name that may be shown of the source."""
    try:
        yield
    except sa.exc.PendingRollbackError:  # an earlier statement found it broken
        raise SourceError(f"{label}: the connection to the database was lost") from None
    except sa.exc.DBAPIError as error:
        raise _translation(error.orig, label) from None
    except sqlite3.Error as error:
        raise _translation(error, label) from None


def _translation(error: BaseException | None, label: str) -> JobPlaybookError:
    if isinstance(error, JobPlaybookError):
        return error
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorname", "") or ""
        make, said = _first(_SQLITE, code)
        if "no such" in str(error):
            make, said = SchemaError, "a table or column is missing"
        elif "decode" in str(error):
            make = ChunkUnreadable
        return make(f"{label}: {said} ({code})")
    state = str(getattr(error, "sqlstate", None) or "")
    if not state:
        return SourceError(f"{label}: the connection to the database was lost")
    primary = getattr(getattr(error, "diag", None), "message_primary", None) or ""
    # Data errors (class 22) quote the value that was wrong: a row's content stays in the database.
    quoted = "" if state.startswith("22") else f": {primary}"
    make, said = _first(_STATES, state)
    return make(f"{label}: {said} ({state}{quoted})")


def _first(meanings: Meanings, code: str) -> tuple[type[JobPlaybookError], str]:
    return next((make, said) for begins, make, said in meanings if code.startswith(begins))
