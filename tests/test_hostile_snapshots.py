"""A snapshot file may be hostile: it is opened with distrust, and what it holds is not believed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from jobplaybook import api, tables
from jobplaybook.errors import SchemaError
from jobplaybook.snapshot.file import opened
from tests.captures import ZEROS, look, seal
from tests.conftest import REPOSITORY

SAMPLE = REPOSITORY / "sample_data" / "killed.db"
Sql = str | tuple[str, Sequence[object]]


def forged(path: Path, *statements: Sql) -> Path:
    """Write the sample as somebody with bad intentions would: changed, and with a right hash."""
    draft = path.with_suffix(".draft")
    shutil.copyfile(SAMPLE, draft)
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            text, values = (statement, ()) if isinstance(statement, str) else statement
            connection.execute(text, values)
        blank = "UPDATE meta SET value = ? WHERE key = 'content_sha256'"
        connection.execute(blank, (ZEROS,))
        connection.execute("VACUUM INTO ?", (str(path),))
    draft.unlink()
    seal(path)
    return path


def refused(path: Path) -> str:
    """Return why a file is not opened; it is left as it is."""
    before = path.read_bytes()
    with pytest.raises(SchemaError) as told, opened(path, path.name):
        pytest.fail("it should not be opened")
    assert path.read_bytes() == before
    return str(told.value)


def test_an_honest_forgery_is_opened(tmp_path: Path) -> None:
    """The tests below fail for what they change, not for how they change it."""
    path = forged(tmp_path / "a.db")
    with opened(path, "a.db") as snapshot:
        assert snapshot.rows(sa.select(sa.func.count()).select_from(tables.jobs))[0][0] > 900
        with pytest.raises(SchemaError):
            snapshot.rows(sa.text("DELETE FROM jobs"))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    """Wherever it was cut: in the header, between pages, in the last page."""
    content = SAMPLE.read_bytes()
    size = max(int(len(content) * share), 100)
    for at in (size, size // 8192 * 8192 or 8192, len(content) - 1):
        path = tmp_path / "a.db"
        path.write_bytes(content[:at])
        assert "truncated or has grown" in refused(path)


def test_a_file_that_has_grown_is_refused(tmp_path: Path) -> None:
    """Nothing may hang on behind the content."""
    path = tmp_path / "a.db"
    path.write_bytes(SAMPLE.read_bytes() + b"\0" * 8192)
    assert "truncated or has grown" in refused(path)


@pytest.mark.parametrize("place", [40, 97, 200, 9_000, 100_000, -1])
def test_one_changed_byte_is_noticed(tmp_path: Path, place: int) -> None:
    """The hash covers the whole file, header and free space too."""
    content = bytearray(SAMPLE.read_bytes())
    content[place] ^= 1
    path = tmp_path / "a.db"
    path.write_bytes(content)
    assert "its SHA-256" in (told := refused(path)) or "damaged" in told


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("PRAGMA user_version = 2", "made by a newer jobplaybook (snapshot version 2"),
        ("PRAGMA user_version = 2147483647", "upgrade jobplaybook"),
        ("PRAGMA user_version = 0", "has no version"),
        ("CREATE VIEW v AS SELECT 1", "holds a 'view' 'v' that no snapshot has"),
        ("CREATE TRIGGER x INSERT ON jobs BEGIN SELECT 1; END", "holds a 'trigger' 'x'"),
        ("CREATE INDEX i ON jobs (status)", "holds a 'index' 'i'"),
        ("CREATE TABLE other (a)", "holds a 'table' 'other'"),
        ('CREATE TABLE "a\x1b[31m\u202eb" (a)', "holds a 'table' 'a?[31m?b'"),
        ("DROP TABLE effects", "its table effects is not a snapshot's"),
        ("ALTER TABLE jobs ADD COLUMN extra TEXT", "its table jobs is not a snapshot's"),
        ("ALTER TABLE jobs RENAME COLUMN owner TO lessor", "its table jobs is not"),
        ("ALTER TABLE jobs DROP COLUMN owner", "its table jobs is not"),
        (
            "ALTER TABLE jobs ADD COLUMN g TEXT GENERATED ALWAYS AS (id) VIRTUAL",
            "its table jobs is not",
        ),
        ("UPDATE jobs SET status = 'unheard-of'", "its table jobs holds rows that no capture"),
        ("UPDATE jobs SET attempts = -1", "its table jobs holds rows that no capture"),
        ("UPDATE facts SET quality = 'great'", "its table facts holds rows that no capture"),
        ("UPDATE attempts SET outcome = 'x'", "its table attempts holds rows that no capture"),
        ("DELETE FROM meta WHERE key = 'captured_at'", "its meta table is not a snapshot's"),
        ("UPDATE meta SET value = 'noon' WHERE key = 'captured_at'", "its meta table is not"),
        ("UPDATE meta SET value = 'noon' WHERE key = 'window_from'", "its meta table is not"),
        ("UPDATE meta SET value = '5' WHERE key = 'warnings'", "its meta table is not"),
        ("UPDATE meta SET value = 'NaN' WHERE key = 'warnings'", "its meta table is not"),
        ("UPDATE meta SET value = '[null]' WHERE key = 'warnings'", "its meta table is not"),
        ("UPDATE meta SET value = '[\"x\"]' WHERE key = 'not_read'", "its meta table is not"),
        ("UPDATE meta SET value = '{\"x\": NaN}' WHERE key = 'not_read'", "its meta table is not"),
        ("UPDATE meta SET value = '{' WHERE key = 'not_read'", "its meta table is not"),
        (
            ("UPDATE meta SET value = ? WHERE key = 'not_read'", ["[" * 10_000 + "]" * 10_000]),
            "its meta table is not",
        ),
        (
            ("UPDATE meta SET value = ? WHERE key = 'warnings'", ["9" * 10_000]),
            "its meta table is not",
        ),
        (
            ("UPDATE meta SET value = ? WHERE key = 'sweeper'", ["x" * 2_000_000]),
            "too large for a snapshot",
        ),
    ],
)
def test_a_hostile_snapshot_is_refused(tmp_path: Path, statement: Sql, said: str) -> None:
    """Its hash is right, and still nothing in it is run or believed."""
    path = forged(tmp_path / "a.db", statement)
    assert said in refused(path)


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("jobs", "attempts INTEGER", "attempts TEXT"),
        ("jobs", "status TEXT NOT NULL", "status TEXT"),
        ("workers", ",\n STRICT", ""),
    ],
)
def test_a_loosened_table_is_refused(tmp_path: Path, table: str, old: str, new: str) -> None:
    """Types, NOT NULL and STRICT are what a snapshot's rows are read by."""
    (sql,) = look(SAMPLE, "SELECT sql FROM sqlite_schema WHERE name = ?", table)[0]
    assert old in sql
    loose = sql.replace(old, new).replace(f"TABLE {table}", f"TABLE loose_{table}")
    path = forged(
        tmp_path / "a.db",
        loose,
        f"DROP TABLE {table}",
        f"ALTER TABLE loose_{table} RENAME TO {table}",
    )
    assert f"its table {table} is not a snapshot's" in refused(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET created_at = 9223372036854775807, available_at = 9223372036854775807",
        "UPDATE jobs SET created_at = -9223372036854775808, claimed_at = -9223372036854775808",
        "UPDATE jobs SET locked_until = -9223372036854775808 WHERE status = 'processing'",
        "UPDATE jobs SET read_at = NULL, queue = NULL, job_type = NULL, attempts = NULL",
        "UPDATE attempts SET started_at = -9223372036854775808",
        "UPDATE attempts SET ended_at = 9223372036854775807 WHERE outcome <> 'running'",
        "UPDATE workers SET heartbeat_at = -9223372036854775808, lease_seconds = 9e999",
        "UPDATE jobs SET id = 'x''; DROP TABLE y; --' WHERE id = '319'",
        "UPDATE jobs SET owner = ') OR true; --' WHERE status = 'processing'",
        "UPDATE jobs SET job_type = char(27) || '[31m' || char(8238), queue = char(27) || ']8;;x'",
        "UPDATE meta SET value = 'a\"; DROP TABLE y; --' WHERE key = 'source_schema'",
        "UPDATE meta SET value = '0001-01-01T00:00:00Z' WHERE key = 'window_from'",
        "UPDATE meta SET value = '9999-12-31T23:59:59Z' WHERE key = 'captured_at'",
        "UPDATE meta SET value = '9999-12-31T23:59:59Z' WHERE key = 'window_from'",
        "DELETE FROM facts",
        "DELETE FROM jobs",
        "DELETE FROM meta WHERE key <> 'captured_at' AND key <> 'content_sha256'",
    ],
)
def test_strange_but_possible_rows_get_an_answer(tmp_path: Path, statement: str) -> None:
    """Values that no clock and no queue has, but a column takes: an answer, never a defect."""
    path = forged(tmp_path / "a.db", statement)
    answer = api.triage(str(path))
    assert json.dumps(answer.to_json(), allow_nan=False)
    assert all(c.isprintable() or c == "\n" for c in str(answer))
    assert api.find(str(path), by="job", value="528").total in (0, 1)


@pytest.mark.parametrize(
    "statement",
    [
        ("UPDATE jobs SET job_type = ? WHERE id = '319'", ["x" * 11_000_000]),
        ("UPDATE jobs SET job_type = CAST(x'ff' AS TEXT)", []),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, statement: Sql) -> None:
    """A value beyond all measure, or text that is none."""
    path = forged(tmp_path / "a.db", statement)
    with pytest.raises(SchemaError):
        api.triage(str(path))


def test_a_snapshot_through_a_link_is_opened(tmp_path: Path) -> None:
    """Reading follows links, as everybody expects."""
    (tmp_path / "a.db").symlink_to(SAMPLE)
    assert api.triage(str(tmp_path / "a.db")).verdict.code == "lease-expired"
