"""The snapshot file: the same bytes for the same rows, whole or not at all, opened with distrust."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook import api, tables
from jobplaybook.errors import InputError, SchemaError
from jobplaybook.snapshot.file import SnapshotWriter, opened, writing
from jobplaybook.units import parse_time
from tests.captures import capture, command_line, files, look, meta, refusal
from tests.conftest import REPOSITORY

SAMPLE = REPOSITORY / "sample_data" / "killed.db"
NOW_TEXT = "2026-12-01T04:38:47.694988Z"
NOW = parse_time(NOW_TEXT)
META = {"captured_at": "2026-12-01T03:44:54Z", "window_from": "2026-11-30T03:44:54Z"}
ZEROS = "0" * 64

Recording = Callable[[str], str]
Sql = str | tuple[str, Sequence[object]]


def seal(path: Path) -> str:
    """Put a content's hash in its place, as the format says: computed here on our own."""
    content = bytearray(path.read_bytes())
    content[96:100] = b"\0\0\0\0"
    place = content.index(b"content_sha256" + ZEROS.encode()) + len(b"content_sha256")
    digest = hashlib.sha256(content).hexdigest()
    content[place : place + 64] = digest.encode()
    path.write_bytes(content)
    return digest


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


# The same rows give the same bytes


def test_two_captures_of_one_state_are_the_same_file(recording: Recording, tmp_path: Path) -> None:
    """As processes, with `--now` and one key file: byte for byte."""
    words = ("capture", "env:U", "--now", NOW_TEXT, "--pause", "0", "--json")
    digests = set()
    for name in ("a.db", "b.db"):
        done = command_line(*words, "-o", str(tmp_path / name), environ={"U": recording("killed")})
        assert done.returncode == 0, done.stderr
        digests.add(json.loads(done.stdout)["content_sha256"])
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()
    assert len(digests) == 1


@pytest.mark.parametrize("chunk", [1, 7, 100, 900, 901, 100_000])
def test_the_size_of_the_chunks_leaves_no_trace(
    recording: Recording, tmp_path: Path, chunk: int
) -> None:
    """Rows read in any portion end in the same file."""
    steps = {"chunk": chunk} if chunk > 1 else {"chunk": 1, "since_seconds": 30.0}
    whole = {"since_seconds": steps.get("since_seconds", 86_400.0)}
    reports = [
        capture(recording("killed"), tmp_path / name, now=NOW, take_vitals=False, **options)
        for name, options in (("a.db", whole), ("b.db", whole | steps))
    ]
    assert reports[0].content_sha256 == reports[1].content_sha256
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    """Anybody can check it: SHA-256 of the file with the hash itself blanked."""
    path = tmp_path / "a.db"
    shutil.copyfile(SAMPLE, path)
    told = meta(path)["content_sha256"]
    path.write_bytes(path.read_bytes().replace(told.encode(), ZEROS.encode()))
    assert seal(path) == told
    assert path.read_bytes() == SAMPLE.read_bytes()


def test_the_tables_are_the_canonical_ones() -> None:
    """STRICT tables without rowid, named as INTERFACE says, and nothing else in the file."""
    found = look(SAMPLE, "SELECT type, name, sql FROM sqlite_schema ORDER BY name")
    assert {(kind, name) for kind, name, _ in found} == {
        ("table", table.name) for table in tables.metadata.sorted_tables
    }
    assert all(sql.rstrip().endswith("STRICT") and "WITHOUT ROWID" in sql for *_, sql in found)


# Whole or not at all


def written(path: Path, **rows: Sequence[Any]) -> str:
    with writing(path) as writer:
        for table, values in rows.items():
            writer.insert(table, ("id", "status"), values)
        return writer.finish(META)


def test_nobody_sees_half_a_file(tmp_path: Path) -> None:
    """Until the end the target is what it was before: nothing, or the older snapshot."""
    path = tmp_path / "a.db"
    for expected in ([], ["a.db"]):
        before = path.read_bytes() if expected else None
        with writing(path) as writer:
            writer.insert("jobs", ("id", "status"), [("1", "pending")])
            visible = [name for name in files(tmp_path) if not name.startswith(".")]
            assert visible == expected
            if before is not None:
                assert path.read_bytes() == before
            writer.finish({**META, "system": str(expected)})
        assert files(tmp_path) == ["a.db"]


def begin_and_fail(path: Path, error: type[BaseException]) -> None:
    with writing(path) as writer:
        writer.insert("jobs", ("id", "status"), [("1", "pending")])
        raise error


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, SchemaError])
def test_a_capture_that_fails_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    """Whatever ends it, the temporary files are gone and an older snapshot stands."""
    path = tmp_path / "a.db"
    for _ in range(2):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(error):
            begin_and_fail(path, error)
        assert files(tmp_path) == (["a.db"] if before else [])
        if before is not None:
            assert path.read_bytes() == before
        written(path)


def test_an_older_snapshot_is_replaced(tmp_path: Path) -> None:
    """So is an empty file; the hash in the report is the one in the file."""
    path = tmp_path / "a.db"
    path.touch()
    assert written(path) == meta(path)["content_sha256"]
    digest = written(path, jobs=[("1", "pending")])
    assert look(path, "SELECT id, status FROM jobs") == [("1", "pending")]
    assert meta(path)["content_sha256"] == digest


@pytest.mark.parametrize("content", [b"notes", b"SQLite format 3\0" + b"x" * 200, b"\0" * 100])
def test_another_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    """A slip of the hand costs nobody a file."""
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(InputError, match="it is not overwritten"):
        written(path)
    assert (path.read_bytes(), files(tmp_path)) == (content, ["a.db"])


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """As root a device or a pipe would be turned into a file."""
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(InputError, match="expected a file to write the snapshot to"):
            written(place)
    assert files(tmp_path) == ["pipe"]


def test_a_link_is_followed_by_nobody(tmp_path: Path) -> None:
    """A snapshot is put in the place of a link; the file that the link names is not changed."""
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "old.db"
    written(target)
    before = target.read_bytes()
    (tmp_path / "a.db").symlink_to(target)
    written(tmp_path / "a.db", jobs=[("1", "pending")])
    assert target.read_bytes() == before
    assert look(tmp_path / "a.db", "SELECT count(*) FROM jobs") == [(1,)]


@pytest.mark.parametrize("place", ["missing/a.db", "file/a.db", "/proc/a.db", "/sys/a.db"])
def test_a_place_that_takes_no_file_is_refused(tmp_path: Path, place: str) -> None:
    """Before anything is read; root's rights do not help there."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"folder|file system refused"):
        SnapshotWriter(tmp_path / place)
    assert files(tmp_path) == ["file"]


FULL = """
import resource, signal, sys
from pathlib import Path
from jobplaybook.commands import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""


@pytest.mark.parametrize("limit", [0, 8_192, 100_000, 300_000])
def test_a_full_disk_is_one_line(recording: Recording, tmp_path: Path, limit: int) -> None:
    """Where the disk is full, at whatever point, the older snapshot stands and nothing is left."""
    older = written(tmp_path / "a.db")
    words = ["capture", "env:U", "-o", str(tmp_path / "a.db"), "--keep-text", "--pause", "0"]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(limit), *words],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "U": recording("killed")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, files(tmp_path)) == (2, ["a.db"]), done.stderr
    assert "write" in refusal(done)
    assert meta(tmp_path / "a.db")["content_sha256"] == older


def test_the_limit_of_the_full_disk_would_bite() -> None:
    """The file that those captures would write is larger than every limit they got."""
    assert SAMPLE.stat().st_size > 300_000
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] in (-1, resource.RLIM_INFINITY)


@pytest.mark.parametrize(
    "row", [("1", "unheard-of"), ("1", None), (None, "pending"), (b"1", "pending")]
)
def test_rows_that_do_not_fit_are_refused(tmp_path: Path, row: tuple[object, object]) -> None:
    """The canonical table's constraints hold for every source; the value is not shown."""
    with pytest.raises(SchemaError, match="do not fit the canonical table jobs") as told:
        written(tmp_path / "a.db", jobs=[row])
    assert "unheard-of" not in str(told.value)
    assert files(tmp_path) == []


# Opened with distrust


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


def test_a_live_triage_keeps_its_snapshot_where_asked(recording: Recording, tmp_path: Path) -> None:
    """With `--keep` the answer can be had again from the file; without it nothing is left."""
    kept = tmp_path / "kept.db"
    words = ("triage", "env:U", "--now", NOW_TEXT, "--pause", "0", "--json")
    environ = {"U": recording("healthy"), "TMPDIR": str(tmp_path)}
    answers = [
        json.loads(command_line(*words, *more, environ=environ).stdout)
        for more in ((), ("--keep", str(kept)))
    ]
    assert files(tmp_path) == ["jobplaybook.key", "kept.db"]
    answers.append(api.triage(str(kept)).to_json())
    assert [answer["verdict"]["code"] for answer in answers] == ["healthy"] * 3
