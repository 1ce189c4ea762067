"""What tests of captures share: taking one, looking into one, and the command line as a process."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from jobplaybook import api
from jobplaybook.clock import Clock, SystemClock
from jobplaybook.connect import Reader, open_reader, resolve
from jobplaybook.snapshot.capture import capture_to
from jobplaybook.snapshot.options import CaptureOptions, CaptureReport
from jobplaybook.snapshot.redact import Redactor
from jobplaybook.sources import SOURCES
from tests.conftest import REPOSITORY

ZEROS = "0" * 64


def capture(url: str, path: Path, *, keep_text: bool = False, **options: Any) -> CaptureReport:
    """Capture a database, without rests unless they are asked for."""
    chosen = CaptureOptions(**{"pause_seconds": 0.0, **options})
    return api.capture(url, path, options=chosen, keep_text=keep_text)


def capture_by(
    make_reader: type[Reader], url: str, path: Path, *, clock: Clock | None = None, **options: Any
) -> CaptureReport:
    """Capture through a reader of the test's own making, which sees every statement."""
    with open_reader(resolve(url)) as plain:
        reader = make_reader(plain.engine, plain._connection, plain.target)
        return capture_to(
            path,
            reader=reader,
            sources=SOURCES,
            options=CaptureOptions(**{"pause_seconds": 0.0, **options}),
            redactor=Redactor(None),
            clock=clock or SystemClock(),
            tool_version="test",
        )


def text_of(reader: Reader, statement: sa.Executable) -> str:
    """Return a statement as the database will get it."""
    assert isinstance(statement, sa.ClauseElement)
    return str(statement.compile(dialect=reader.engine.dialect))


def meddling(before: Callable[[int, str], None]) -> type[Reader]:
    """Return a reader that calls ``before`` with each statement's number and text."""

    class Meddling(Reader):
        count = 0

        def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
            Meddling.count += 1
            before(Meddling.count, text_of(self, statement))
            return super().rows(statement, **binds)

    return Meddling


def look(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Return rows of a snapshot as its file holds them."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(statement, values).fetchall()


def meta(path: Path) -> dict[str, str]:
    """Return a snapshot's meta table."""
    return dict(look(path, "SELECT key, value FROM meta"))


def seal(path: Path) -> str:
    """Put a content's hash in its place, as the format says: computed here on our own."""
    content = bytearray(path.read_bytes())
    content[96:100] = b"\0\0\0\0"
    place = content.index(b"content_sha256" + ZEROS.encode()) + len(b"content_sha256")
    digest = hashlib.sha256(content).hexdigest()
    content[place : place + 64] = digest.encode()
    path.write_bytes(content)
    return digest


def files(folder: Path) -> list[str]:
    """Return the names of everything in a folder, hidden files too."""
    return sorted(entry.name for entry in folder.iterdir())


def command_line(
    *words: str, environ: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    return subprocess.run(
        command(*words),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environ or {})},
        **{"text": True, "check": False, "capture_output": True, **more},
    )


def command(*words: str) -> Sequence[str]:
    """Return the words that start the command line."""
    return [sys.executable, "-m", "jobplaybook", *words]


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a refused command says; warnings may stand before it."""
    lines = done.stderr.splitlines()
    warnings = [line for line in lines if line.startswith("jobplaybook: warning: ")]
    rest = [line for line in lines if line not in warnings]
    assert len(rest) == 1, done.stderr
    assert rest[0].startswith("jobplaybook: "), done.stderr
    assert done.stdout == ""
    return rest[0].removeprefix("jobplaybook: ")
