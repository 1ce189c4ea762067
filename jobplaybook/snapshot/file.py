"""The snapshot file: one SQLite file, written whole or not at all, opened with distrust.

The same rows give the same bytes: fixed page size, tables without rowid, rewritten in key order,
and the library's version number blanked in the header.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import mmap
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.schema import CreateTable

from jobplaybook import tables
from jobplaybook.connect import create_sqlite, open_snapshot_engine, open_sqlite_readonly
from jobplaybook.errors import InputError, SchemaError
from jobplaybook.snapshot.redact import Redactor
from jobplaybook.units import MICROS, iso, parse_time, shown

_HASH_KEY = "content_sha256"
_MAX_BYTES = 64 * 2**30
_MAX_META = 1_000_000
_GROUP = 250
"""Rows a statement: a third faster than one by one, and a reading thread is held up less often."""


class SnapshotWriter:
    """Collects rows in a temporary file beside the target; `finish` puts it in place.

    An older snapshot there is put aside, unless it is the same; any other file is refused.

    Raises
    ------
    InputError
        If the target cannot be written.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.aside: Path | None = None
        _check_writable(target)
        stem = f".{target.name}.{secrets.token_hex(4)}"
        self._draft = target.with_name(stem + ".draft")
        self._whole = target.with_name(stem + ".whole")
        try:
            with _refusals(f"expected to write {shown(str(target), 200)}, the file system refused"):
                _make_private(self._draft)
                self._sqlite = create_sqlite(self._draft)
                self._create()
        except BaseException:  # told to end, perhaps, before anybody has the writer in hand
            self.abandon()
            raise

    def _create(self) -> None:
        dialect = sqlite_dialect.dialect()
        dialect.default_schema_name = "main"
        self._sqlite.execute(f"PRAGMA application_id = {tables.APPLICATION_ID}")
        self._sqlite.execute(f"PRAGMA user_version = {tables.SCHEMA_VERSION}")
        for table in tables.metadata.sorted_tables:
            create = CreateTable(table).compile(
                dialect=dialect,
                schema_translate_map={tables.SCHEMA: None},
                render_schema_translate=True,
            )
            self._sqlite.execute(str(create))
        self._sqlite.execute("BEGIN")

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write rows of a canonical table; a later reading of a row replaces the earlier one."""
        try:
            with _refusals():
                for start in range(0, len(rows), _GROUP):
                    group = rows[start : start + _GROUP]
                    statement = _insert(table, tuple(columns), len(group))
                    self._sqlite.execute(statement, list(chain.from_iterable(group)))
        except (sqlite3.IntegrityError, OverflowError) as error:
            raise SchemaError(
                f"the rows do not fit the canonical table {table}: {error}; the source's tables "
                "hold what this version does not expect"
            ) from None

    def count(self, table: str, by: str = "''") -> dict[str, int]:
        """Return the number of rows written so far, by a column."""
        counted = self._sqlite.execute(f"SELECT {by}, count(*) FROM {table} GROUP BY 1")  # noqa: S608
        return {key: number for key, number in counted}

    def finish(self, meta: Mapping[str, str]) -> str:
        """Write ``meta``, put the file in place and return the SHA-256 of its content."""
        # What stands in for the hash is random: no text of a job can be mistaken for it.
        blank = secrets.token_hex(32)
        self.insert("meta", ("key", "value"), [*meta.items(), (_HASH_KEY, blank)])
        try:
            with _refusals():
                self._sqlite.execute("COMMIT")
                _make_private(self._whole)
                self._sqlite.execute("VACUUM INTO ?", (str(self._whole),))
                self._sqlite.close()
                digest = _seal(self._whole, blank)
                self.aside = _put_aside(self.target, self._whole)
                os.replace(self._whole, self.target)
        finally:
            self.abandon()
        return digest

    def abandon(self) -> None:
        """Remove what is not in place yet."""
        if hasattr(self, "_sqlite"):
            self._sqlite.close()
        for path in (self._draft, self._whole):
            path.unlink(missing_ok=True)


@contextmanager
def _refusals(what: str = "cannot write the snapshot") -> Iterator[None]:
    """Turn what SQLite or the file system refuses into our own error."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise InputError(f"{what}: {error.sqlite_errorname or type(error).__name__}") from None
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or type(error).__name__}") from None


def _put_aside(older: Path, newer: Path) -> Path | None:
    """Keep an older snapshot under another name, where it is not the same: it may be evidence.

    A second name for the same file, so that there is one under the first at every moment.
    """
    if not older.exists() or filecmp.cmp(older, newer, shallow=False):
        return None
    made = iso(int(older.stat().st_mtime) * MICROS) or ""
    stem = f"{older.stem}.{made.replace(':', '')}"
    for number in count(1):
        path = older.with_name(f"{stem}{f'-{number}' if number > 1 else ''}{older.suffix}")
        try:
            os.link(older, path)
        except FileExistsError:
            continue
        except OSError:  # no second names here
            shutil.copy2(older, path)
        path.chmod(0o600)
        return path
    return None


def _make_private(path: Path) -> None:
    """Make an empty file that only its owner may read: it will hold what is in the queue."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


@cache
def _insert(table: str, columns: tuple[str, ...], rows: int) -> str:
    marks = "(" + ", ".join("?" * len(columns)) + ")"
    values = ", ".join([marks] * rows)
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES {values}"  # noqa: S608


@contextmanager
def writing(target: Path) -> Iterator[SnapshotWriter]:
    """Give a writer whose temporary files are gone at the end, whatever happens."""
    writer = SnapshotWriter(target)
    try:
        yield writer
    finally:
        writer.abandon()


def _check_writable(target: Path) -> None:
    where = shown(str(target), 200)
    if target.exists() and not target.is_file():  # a device would be replaced by a file
        what = "a folder" if target.is_dir() else "something else"
        raise InputError(f"expected a file to write the snapshot to, found {what}: {where}")
    if not target.parent.is_dir():
        raise InputError(f"expected the folder of {where} to exist: make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"expected to be allowed to write in the folder of {where}")
    head = _head(target) if target.exists() else b""
    if head and int.from_bytes(head[68:72]) != tables.APPLICATION_ID:
        raise InputError(
            f"expected no file or an older snapshot at {where}, found another file: it is not "
            "overwritten"
        )


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)


def _seal(path: Path, blank: str) -> str:
    """Blank the library version, put the content's hash in its place, make it durable."""
    with path.open("r+b") as file:
        file.seek(96)
        file.write(b"\0\0\0\0")
        file.flush()
        digest, place = _digest(file.fileno(), blank)
        file.seek(place)
        file.write(digest.encode())
        file.flush()
        os.fsync(file.fileno())
    return digest


def _digest(descriptor: int, stored: str) -> tuple[str, int]:
    """Return the SHA-256 of the file with its own hash blanked, and where that hash stands."""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
        place = content.find((_HASH_KEY + stored).encode())
        if place < 0:
            return "", -1
        place += len(_HASH_KEY)
        with memoryview(content) as view, view[:place] as head, view[place + 64 :] as tail:
            digest = hashlib.sha256(head)
            digest.update(b"0" * 64)
            digest.update(tail)
    return digest.hexdigest(), place


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An open snapshot: what was captured, when, and a read-only connection to its rows."""

    path: Path
    label: str
    meta: Mapping[str, str]
    engine: sa.Engine = field(repr=False)
    notes: tuple[str, ...] = ()
    redactor: Redactor | None = field(default=None, repr=False)
    lease_seconds: float | None = None

    @property
    def system(self) -> str:
        """The queue system that was captured."""
        return self.meta.get("system", "unknown")

    @property
    def captured_at(self) -> int:
        """The moment the snapshot stands for, microseconds UTC."""
        return parse_time(self.meta["captured_at"])

    def time(self, key: str) -> int | None:
        """Return a time of ``meta`` in microseconds UTC, or None where it is not said."""
        value = self.meta.get(key)
        return parse_time(value) if value else None

    def json(self, key: str) -> Any:
        """Return a JSON value of ``meta``, or None where it is not said."""
        return json.loads(self.meta.get(key) or "null")

    def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement as plain tuples."""
        try:
            with self.engine.connect() as connection:
                return [tuple(row) for row in connection.execute(statement, binds)]
        except sa.exc.DBAPIError:
            where = shown(self.label, 200)
            raise SchemaError(f"{where}: the snapshot holds what cannot be read") from None


@contextmanager
def opened(path: Path, label: str) -> Iterator[Snapshot]:
    """Open a snapshot file after checking that it is whole and only what it may be.

    Raises
    ------
    SchemaError
        If it is truncated, changed, made by a newer version, or holds anything but the
        canonical tables.
    """
    try:
        fault, meta = _size_fault(path), dict[str, str]()
        if not fault:
            with closing(open_sqlite_readonly(path, immutable=True)) as connection:
                fault, meta = _examined(connection, path)
    except (sqlite3.Error, OSError, UnicodeDecodeError):
        fault = "the snapshot is damaged and cannot be read"
    if fault:
        raise SchemaError(f"{shown(label, 200)}: {fault}")
    with open_snapshot_engine(path) as engine:
        notes = tuple(json.loads(meta.get("warnings") or "[]"))
        yield Snapshot(path=path, label=label, meta=meta, engine=engine, notes=notes)


# What may be wrong with a file, from what must be known first to what is dear to find out


def _size_fault(path: Path) -> str:
    head, size = _head(path), path.stat().st_size
    page = int.from_bytes(head[16:18]) or 1
    if size != (65_536 if page == 1 else page) * int.from_bytes(head[28:32]):
        return "the snapshot is truncated or has grown: capture it again"
    if size > _MAX_BYTES:
        return "the snapshot is larger than 64 GiB: capture less with --since"
    return ""


def _examined(connection: sqlite3.Connection, path: Path) -> tuple[str, dict[str, str]]:
    """Return what is wrong with a file, or nothing, and its meta table."""
    fault = _version_fault(connection) or _tables_fault(connection)
    if fault:
        return fault, {}
    (size,) = connection.execute("SELECT sum(length(value)) FROM meta").fetchone()
    if (size or 0) > _MAX_META:
        return "its meta table is too large for a snapshot: not opened", {}
    meta = {key: value or "" for key, value in connection.execute("SELECT key, value FROM meta")}
    if not _is_sound(meta):
        return "its meta table is not a snapshot's: not opened", {}
    return _content_fault(connection, path, meta.get(_HASH_KEY, "")), meta


def _version_fault(connection: sqlite3.Connection) -> str:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > tables.SCHEMA_VERSION:
        return (
            f"made by a newer jobplaybook (snapshot version {version}, this one reads "
            f"{tables.SCHEMA_VERSION}): upgrade jobplaybook"
        )
    return "" if version >= 1 else "the snapshot has no version: capture it again"


def _tables_fault(connection: sqlite3.Connection) -> str:
    expected = {table.name: table for table in tables.metadata.sorted_tables}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_schema"):
        if kind != "table" or name not in expected:
            return f"holds a {shown(kind)} {shown(name)} that no snapshot has: not opened"
    dialect = sqlite_dialect.dialect()
    for name, table in expected.items():
        columns = [
            (c.name, c.type.compile(dialect), not c.nullable, c.primary_key, False)
            for c in table.columns
        ]
        found = connection.execute(
            'SELECT name, type, "notnull", pk > 0, hidden FROM pragma_table_xinfo(?)', (name,)
        ).fetchall()
        strict = connection.execute("SELECT strict FROM pragma_table_list(?)", (name,)).fetchall()
        if found != columns or strict != [(1,)]:
            return f"its table {name} is not a snapshot's: not opened"
    return ""


def _is_sound(meta: Mapping[str, str]) -> bool:
    """Whether the values of ``meta`` that are read again are of the kinds they should be."""
    times = ("captured_at", "captured_from", "captured_to", "window_from", "workers_read_at")
    try:
        for key in times:
            parse_time(meta.get(key) or "1970-01-01T00:00:00Z")
        notes = json.loads(meta.get("warnings") or "[]")
        gaps = json.loads(meta.get("not_read") or "{}")
    except (InputError, ValueError, RecursionError):
        return False
    if not (meta.get("captured_at") and isinstance(notes, list) and isinstance(gaps, dict)):
        return False
    return all(isinstance(text, str) for text in (*notes, *gaps.values()))


def _content_fault(connection: sqlite3.Connection, path: Path, stored: str) -> str:
    with path.open("rb") as file:
        digest, _ = _digest(file.fileno(), stored)
    if not stored or digest != stored:
        return "its content does not match its SHA-256: it was changed after the capture"
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        return "the snapshot's pages are damaged: capture it again"
    # The rows are held to the canonical CHECKs: SQLite ignores those of a read-only file.
    for table in tables.metadata.sorted_tables:
        checks = [c.sqltext for c in table.constraints if isinstance(c, sa.CheckConstraint)]
        broken = " OR ".join(f"NOT ({check})" for check in checks) or "false"
        query = f"SELECT 1 FROM {table.name} WHERE {broken} LIMIT 1"  # noqa: S608 (our own text)
        if connection.execute(query).fetchone():
            return f"its table {table.name} holds rows that no capture writes"
    return ""
