"""The snapshot file: the same bytes for the same rows, written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobplaybook import api, tables
from jobplaybook.errors import InputError, SchemaError
from jobplaybook.snapshot.file import SnapshotWriter, writing
from jobplaybook.units import parse_time
from tests.captures import ZEROS, capture, command_line, files, look, meta, refusal, seal
from tests.conftest import REPOSITORY

SAMPLE = REPOSITORY / "sample_data" / "killed.db"
NOW_TEXT = "2026-12-01T04:38:47.694988Z"
NOW = parse_time(NOW_TEXT)
META = {"captured_at": "2026-12-01T03:44:54Z", "window_from": "2026-11-30T03:44:54Z"}

Recording = Callable[[str], str]
Sql = str | tuple[str, Sequence[object]]


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


def test_the_librarys_version_is_not_in_the_file(tmp_path: Path) -> None:
    """SQLite notes its own number in the header: another release would make other bytes."""
    written(tmp_path / "a.db")
    assert (tmp_path / "a.db").read_bytes()[96:100] == b"\0\0\0\0"


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
        older = [tmp_path / name for name in files(tmp_path) if name != "a.db"]
        assert [kept.read_bytes() for kept in older] == ([] if before is None else [before])


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


@pytest.mark.parametrize("limit", [0, 8_192, 100_000, 250_000])
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


@pytest.mark.parametrize(
    "row", [("1", "unheard-of"), ("1", None), (None, "pending"), (b"1", "pending")]
)
def test_rows_that_do_not_fit_are_refused(tmp_path: Path, row: tuple[object, object]) -> None:
    """The canonical table's constraints hold for every source; the value is not shown."""
    with pytest.raises(SchemaError, match="do not fit the canonical table jobs") as told:
        written(tmp_path / "a.db", jobs=[row])
    assert "unheard-of" not in str(told.value)
    assert files(tmp_path) == []


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
