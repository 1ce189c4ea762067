"""Bad inputs, as a shell gives them: one clear line, the exit code, no secret, no file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jobplaybook import api
from tests.captures import command, command_line, files, look, refusal
from tests.conftest import REPOSITORY
from tests.postgres import LOGIN, Database, Postgres
from tests.procrastinate_app import execute, install

SECRET = "s3cr3t-canary-pw"
SAMPLE = REPOSITORY / "sample_data" / "killed.db"
DRAIN = ("estimate", "drain", "--arrival", "0", "--completion", "20/min", "--backlog", "10")
Recording = Callable[[str], str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a working folder with some files to be mistaken for others."""
    (tmp_path / "notes.txt").write_text("not a snapshot, whatever its name")
    (tmp_path / "empty.db").touch()
    content = SAMPLE.read_bytes()
    (tmp_path / "half.db").write_bytes(content[: len(content) // 2])
    (tmp_path / "bent.db").write_bytes(content[:5_000] + b"x" + content[5_001:])
    (tmp_path / "room").mkdir()
    return tmp_path


def refuse(folder: Path, *words: str, code: int = 2, **environ: str) -> str:
    """Return the one line of a refusal; no secret in it, no file made, nothing on stdout."""
    before = files(folder)
    environ = {"PGCONNECT_TIMEOUT": "5", "PGPASSFILE": str(folder / "none"), **environ}
    done = command_line(*words, environ=environ, cwd=folder, timeout=120)
    line = refusal(done)
    assert done.returncode == code, done.stderr
    assert not any(SECRET[at : at + 5] in done.stderr for at in range(len(SECRET) - 5))
    assert "Traceback" not in done.stderr
    assert files(folder) == before
    return line


# The source

URLS = [
    ("", 2, "expected the environment variable U to hold a database URL, found it unset or empty"),
    (f"postgresql://u:{SECRET}@127.0.0.1:1/app", 4, "nothing listens at that host and port"),
    (f"postgresql://u:{SECRET}@nowhere.invalid/app", 4, "the host name is unknown"),
    (f"postgresql://u:{SECRET}%zz@127.0.0.1:1/app", 2, "write % as %25, @ as %40, / as %2F"),
    (f"postgresql://u:{SECRET}@{SECRET}@127.0.0.1:1/app", 2, "write % as %25, @ as %40"),
    (f"postgresql://u:{SECRET}/{SECRET}@127.0.0.1:1/app", 2, "write % as %25, @ as %40"),
    (f"postgresql://u:{SECRET}?{SECRET}@127.0.0.1:1/app", 4, "nothing listens"),
    (f"postgresql://u:{SECRET}#{SECRET}@127.0.0.1:1/app", 4, "nothing listens"),
    (f"postgresql://u:{SECRET}:{SECRET}@127.0.0.1:1/app", 4, "nothing listens"),
    (f"postgresql://u:{SECRET}@127.0.0.1:port/app", 2, "no connection string"),
    (f"mysql://u:{SECRET}@127.0.0.1/app", 2, "expected env:U to hold a PostgreSQL URL"),
    (f"host=127.0.0.1 port=1 password='{SECRET}", 2, "no connection string"),
]


@pytest.mark.parametrize(("url", "code", "said"), URLS)
def test_a_url_that_leads_nowhere(folder: Path, url: str, code: int, said: str) -> None:
    """Unset, unreachable, unknown or unescaped: for the commands that read a live database."""
    words = {
        "capture": ("capture", "env:U", "-o", "a.db"),
        "triage": ("triage", "env:U", "--keep", "a.db", "--json"),
    }
    for name in words if code == 4 else ["capture"]:
        assert said in refuse(folder, *words[name], code=code, U=url)


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("env:NOT_SET_ANYWHERE", 2, "environment variable NOT_SET_ANYWHERE"),
        ("env:", 2, "expected env:NAME"),
        ("service=unknown", 2, "expected it in the service file"),
        (f"mysql://u:{SECRET}@db/app", 2, "found a 'mysql' URL"),
        (f"postgresql://u:{SECRET}@127.0.0.1:1/app", 4, "nothing listens at that host and port"),
        (f"postgresql://u:{SECRET}%zz@127.0.0.1:1/app", 2, "the URL is no connection string"),
        ("no-such-file.db", 2, "or a readable file, found 'no-such-file.db'"),
        ("room", 2, "found a folder: 'room'"),
        ("notes.txt", 2, "found another kind of file: 'notes.txt'"),
        ("empty.db", 2, "found another kind of file"),
        ("half.db", 2, "'half.db': the snapshot is truncated or has grown: capture it again"),
        ("bent.db", 2, "'bent.db': "),
        ("", 2, "expected a SOURCE, found an empty one"),
    ],
)
def test_a_source_that_is_none(folder: Path, source: str, code: int, said: str) -> None:
    """A slip in the name, or a file that is no snapshot or no whole one."""
    environ = {"PGSERVICEFILE": str(folder / "none"), "PGSYSCONFDIR": str(folder)}
    assert said in refuse(folder, "triage", source, "--json", code=code, **environ)


@pytest.mark.parametrize("source", ["sample", str(SAMPLE), "half.db", "notes.txt"])
def test_a_file_is_not_captured(folder: Path, source: str) -> None:
    """`capture` wants a live database; a snapshot is one already."""
    assert "expected" in (said := refuse(folder, "capture", source, "-o", "a.db"))
    assert "live database" in said or "another kind of file" in said


def test_a_wrong_password(postgres: Postgres, database: Database, folder: Path) -> None:
    """The server refuses it; what it was is not repeated."""
    url = postgres.tcp_url(database.name, LOGIN, SECRET)
    for words in (("capture", "env:U", "-o", "a.db"), ("find", "env:U", "--job", "1", "--json")):
        assert "the server refused the password" in refuse(folder, *words, code=4, U=url)


def test_a_password_on_the_command_line_works_and_warns(
    postgres: Postgres, database: Database, folder: Path
) -> None:
    """It stands in the shell's history now: said once, and not echoed."""
    install(database.url)
    url = postgres.tcp_url(database.name)
    done = command_line("capture", url, "-o", "a.db", cwd=folder)
    assert done.returncode == 0
    assert "use env:NAME or service=NAME" in done.stderr
    password = "correct%20horse"
    assert password in url
    for text in (done.stdout, done.stderr, (folder / "a.db").read_bytes().decode("latin-1")):
        assert password not in text
        assert "correct horse" not in text


def test_a_missing_column(database: Database, folder: Path) -> None:
    """Changed tables are named, on every command that reads them."""
    install(database.url)
    execute(database.url, "ALTER TABLE procrastinate_workers RENAME last_heartbeat TO beat")
    for words in (
        ("capture", "env:U", "-o", "a.db"),
        ("triage", "env:U", "--keep", "a.db"),
        ("find", "env:U", "--job", "1"),
    ):
        said = refuse(folder, *words, U=database.url)
        assert "expected public.procrastinate_workers to have the column 'last_heartbeat'" in said


def test_no_queue_at_all(database: Database, folder: Path) -> None:
    """Not the right database: which tables were looked for."""
    said = refuse(folder, "triage", "env:U", U=database.url)
    assert "looked for jobs (contract), procrastinate_jobs (procrastinate)" in said


# Numbers, times, names

NUMBERS = [
    ("--chunk", "0"),
    ("--chunk", "-1"),
    ("--chunk", "1e3"),
    ("--chunk", "nan"),
    ("--chunk", "1000000000"),
    ("--budget", "0"),
    ("--budget", "-1s"),
    ("--budget", "inf"),
    ("--budget", "60"),
    ("--pause", "-50ms"),
    ("--pause", "nan"),
    ("--since", "0"),
    ("--since", "nan"),
    ("--since", "1000000000000d"),
    ("--lease", "0"),
    ("--lease", "-30s"),
    ("--now", "2026-12-01T03:44:54"),
    ("--now", "yesterday"),
    ("--now", "nan"),
    ("--now", "9999-12-31T23:59:59-01:00"),
    ("--until", "2026-12-01"),
    ("--tenant-path", "args..tenant"),
    ("--tenant-path", "args.'; DROP TABLE x"),
    ("--key-path", ""),
]


@pytest.mark.parametrize(("option", "value"), NUMBERS)
def test_a_number_that_is_none(folder: Path, option: str, value: str) -> None:
    """What was expected, what was found, and where to read more."""
    said = refuse(folder, "triage", "sample", option, value)
    assert said.startswith(f"Invalid value for '{option}': expected ")
    assert said.endswith("(see: jobplaybook triage --help)")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--backlog", "-1"),
        ("--backlog", "nan"),
        ("--backlog", "1e9"),
        ("--arrival", "-1/s"),
        ("--arrival", "nan"),
        ("--completion", "inf"),
        ("--completion", "20"),
        ("--by", "0"),
        ("--by", "nan"),
        ("--limit", "-1"),
        ("--limit", "1000000000000000"),
        ("--failure-rate", "1.5"),
        ("--failure-rate", "nan"),
    ],
)
def test_an_estimate_of_nonsense(folder: Path, option: str, value: str) -> None:
    """Rates and counts below 0, infinite or not numbers."""
    said = refuse(folder, *DRAIN, option, value)
    assert said.startswith(f"Invalid value for '{option}': expected ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("triage", "sample", "--until", "2020-01-01T00:00:00Z"),
            "expected a window that ends after",
        ),
        (
            ("triage", "sample", "--now", "2020-01-01T00:00:00Z"),
            "expected a window that ends after",
        ),
        (("triage", "sample", "--sinec", "1h"), "--since"),
        (("triaje", "sample"), "did you mean triage?"),
        (("triage",), "Missing argument 'SOURCE'"),
        (("triage", "sample", "sample"), "unexpected extra argument"),
        (("triage", "sample", "--fail-on", "never"), "--fail-on"),
        (("capture", "env:U"), "Missing option '-o' / '--out'"),
        (("find", "sample"), "expected one of --key, --tenant"),
        (("find", "sample", "--tenant", "t1", "--job", "2"), "found 2 of them"),
        (("find", "sample", "--tenant", "t1", "--key-file", "none.key"), "expected a key file"),
        (("find", "sample", "--tenant", "t1", "--key-file", "notes.txt"), "expected a key file"),
    ],
)
def test_a_command_that_is_none(folder: Path, words: Sequence[str], said: str) -> None:
    """Unknown, missing or contradicting words end with 2 and the nearest name."""
    assert said in refuse(folder, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--system", "procrastinat"), "did you mean procrastinate?"),
        (("--system", "contract"), "expected the tables of a known queue system, found none"),
        (("--tenant-path", "nowhere.tenant"), "expected --tenant-path to begin with a payload"),
        (("--key-path", "queue_name"), "expected --key-path to begin with a payload column (args)"),
        (("--key-file", "notes.txt"), "expected a key file of hexadecimal digits"),
        (("--key-file", "none/a.key"), "expected to write the key file 'none/a.key'"),
    ],
)
def test_options_that_do_not_fit_the_source(
    recording: Recording, folder: Path, words: Sequence[str], said: str
) -> None:
    """What only the tables can tell: before anything is written."""
    url = recording("killed")
    assert said in refuse(folder, "capture", "env:U", "-o", "a.db", *words, U=url)


# Outputs


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("room", "expected a file to write, found the folder 'room'"),
        ("none/a.db", "expected a file in a folder that exists, found 'none/a.db'"),
        ("notes.txt/a.db", "expected a file in a folder that exists"),
        ("notes.txt", "found another file: it is not overwritten"),
        ("/proc/a.db", "/proc/"),
        ("/dev/null", "expected a file to write the snapshot to, found something else"),
        ("x" * 300, "x"),
    ],
)
def test_an_output_that_cannot_be_written(
    recording: Recording, folder: Path, out: str, said: str
) -> None:
    """A folder, no folder, somebody else's file, a device: nothing is touched."""
    url, before = recording("killed"), (folder / "notes.txt").read_text()
    assert said in refuse(folder, "capture", "env:U", "-o", out, "--keep-text", U=url)
    assert (folder / "notes.txt").read_text() == before
    if out == "room":
        assert said in refuse(folder, "triage", "env:U", "--keep", out, U=url)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_an_answer_that_cannot_be_written(recording: Recording, folder: Path) -> None:
    """A full disk under stdout: the snapshot that was asked for is whole all the same."""
    for words in (("triage", "sample", "--json"), ("sources",), ("capture", "env:U", "-o", "a.db")):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                command(*words),
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "U": recording("killed")},
                cwd=folder,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("jobplaybook: reading or writing failed: No")
    assert api.triage(str(folder / "a.db")).to_json()["system"] == "procrastinate"


@pytest.mark.parametrize(
    "words", [("triage", "sample"), ("triage", "sample", "--json"), ("sources", "--json")]
)
def test_a_closed_pipe_ends_silently(folder: Path, words: Sequence[str]) -> None:
    """`| head -0` has seen enough: no word, no failure."""
    reading, writing = os.pipe()
    os.close(reading)
    done = command_line(
        *words, cwd=folder, capture_output=False, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_exit_code_tells_what_was_found(recording: Recording, folder: Path) -> None:
    """0 answered, 1 where --fail-on was met; JSON on stdout, warnings on stderr only."""
    done = command_line("triage", "sample", "--fail-on", "page", "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["verdict"]["code"] == "lease-expired"
    now = ("--now", "2026-12-01T04:38:47.535922Z")
    done = command_line(
        "triage", "env:U", *now, "--fail-on", "page", "--json", environ={"U": recording("healthy")}
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"]["code"] == "healthy"
    assert all(line.startswith("jobplaybook: warning: ") for line in done.stderr.splitlines())


def test_an_older_snapshot_survives_a_failure(
    postgres: Postgres, database: Database, folder: Path
) -> None:
    """A capture that fails does not take yesterday's with it."""
    shutil.copyfile(SAMPLE, folder / "a.db")
    execute(database.url, "CREATE TABLE procrastinate_jobs (id bigint)")
    refuse(folder, "capture", "env:U", "-o", "a.db", U=database.url)
    assert (folder / "a.db").read_bytes() == SAMPLE.read_bytes()
    assert look(folder / "a.db", "SELECT count(*) FROM jobs WHERE id = '319'") == [(1,)]
