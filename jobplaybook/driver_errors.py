"""What a driver's error means, in our own words and with our own exit codes.

No text of a driver is passed on whole: it may hold parts of a password or the values of a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import sqlalchemy as sa

from jobplaybook.errors import JobPlaybookError, SchemaError, SourceError

CONNECT_SECONDS = 10


class ChunkTooSlow(SourceError):
    """A statement ran into its time limit: the caller may ask for less at once."""


def connect_reason(text: str) -> str:
    """Say in our own words why a login failed: a driver's text may hold parts of a password."""
    reasons = (
        ("password authentication failed", "the server refused the password"),
        ("no password supplied", "the server asks for a password and none was given"),
        ("pg_hba.conf", "the server does not admit this user from this host"),
        ("does not exist", "the database or the user does not exist"),
        ("permission denied for database", "the user may not connect to this database"),
        ("too many", "the server has no connection left"),
        ("starting up", "the server is starting up"),
        ("shutting down", "the server is shutting down"),
        ("Connection refused", "nothing listens at that host and port"),
        ("could not translate host name", "the host name is unknown"),
        ("failed to resolve host", "the host name is unknown"),
        ("timeout", f"no answer within {CONNECT_SECONDS} s"),
        ("No such file", "there is no server at that socket folder"),
        ("SSL", "the encrypted connection could not be made"),
    )
    for mark, reason in reasons:
        if mark in text:
            return f"cannot connect: {reason}"
    return "cannot connect: check host, port, database and user"


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Turn a driver's errors into ours, under the name that may be shown of the source."""
    try:
        yield
    except JobPlaybookError:
        raise
    except sa.exc.PendingRollbackError:  # an earlier statement found it broken
        raise SourceError(f"{label}: the connection to the database was lost") from None
    except sa.exc.DBAPIError as error:
        _raise_translated(error.orig, label)
    except sqlite3.Error as error:
        _raise_translated(error, label)


def _raise_translated(error: BaseException | None, label: str) -> NoReturn:
    if isinstance(error, JobPlaybookError):
        raise error
    if isinstance(error, sqlite3.Error):
        _raise_sqlite(error, label)
    state = str(getattr(error, "sqlstate", None) or "")
    primary = getattr(getattr(error, "diag", None), "message_primary", None) or ""
    # Data errors (class 22) quote the value that was wrong: a row's content stays in the database.
    said = f" ({state}{'' if state.startswith('22') else ': ' + primary})" if state else ""
    if state in ("57014", "40001"):
        raise ChunkTooSlow(f"{label}: a statement was out of time{said}") from None
    if state == "55P03":
        raise SourceError(
            f"{label}: a table is locked by somebody else; gave up after 200 ms so as not "
            f"to queue behind the lock{said}"
        ) from None
    if state in ("42P01", "42703", "3F000"):
        raise SchemaError(f"{label}: a table or column is missing{said}") from None
    if state == "42501":
        raise SourceError(f"{label}: the role may not read this: GRANT SELECT{said}") from None
    if state and not state.startswith(("08", "57P")):
        raise SourceError(f"{label}: the database refused a statement{said}") from None
    raise SourceError(f"{label}: the connection to the database was lost{said}") from None


def _raise_sqlite(error: sqlite3.Error, label: str) -> NoReturn:
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        raise SourceError(f"{label}: the file is locked by a writer ({code})") from None
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_TOOBIG")):
        raise SchemaError(f"{label}: the file is damaged ({code})") from None
    if "no such" in str(error):
        raise SchemaError(f"{label}: a table or column is missing ({code})") from None
    raise SourceError(f"{label}: SQLite refused a statement ({code})") from None
