"""The document at the end: three files or none, and nothing that a job said runs in them."""

from __future__ import annotations

import html
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import jobplaybook as jp
from jobplaybook.commands import cli
from jobplaybook.report import TABLE_MIME
from tests.canonical import NOW, ago, attempt, done, job, known, snapshot_of
from tests.postgres import PASSWORD, Postgres
from tests.small_notebooks import URL, written
from tests.test_report import assert_inert, browse

ATTACK = "<img src=x onerror=alert(1)>"
LOADS = "<img src=https://tracker.example/x onerror=\"document.title='TAKEN'\">"
FILES = {"postmortem.ipynb", "report.html", "result.json"}
EVENT = ["2026-12-01T04:37:40Z", "node drained"]


def postmortem(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["postmortem", *map(str, words)])


# What it writes


def test_three_files_and_the_others_stay(tmp_path: Path) -> None:
    """The notebook, the report and the result; what was in the folder before is untouched."""
    folder = tmp_path / "incident"
    folder.mkdir()
    (folder / "notes.md").write_text("mine")
    (folder / "report.html").write_text("an older one")
    result = postmortem("sample", "-o", folder, "--json", "-p", "events", json.dumps([EVENT]))
    assert (result.exit_code, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert answer["dir"] == str(folder)
    assert answer["status"] == "completed"
    assert answer["verdict"]["code"] == "lease-expired"
    assert answer["findings"][0]["code"] == "lease-expired"
    assert {path.name for path in folder.iterdir()} == {*FILES, "notes.md"}
    assert (folder / "notes.md").read_text() == "mine"
    page = (folder / "report.html").read_text()
    assert_inert(page)
    for said in ("node drained", "What is left to people?", "still stands", "max attempts"):
        assert said in page
    check_document(json.loads((folder / "result.json").read_text()))


def check_document(document: dict[str, Any]) -> None:
    """Assert that the result has parameters, versions, the hash, findings and numbers."""
    assert document["parameters"] == {
        "source": "sample", "now": None, "since": "24h", "until": None, "events": [EVENT],
    }  # fmt: skip
    assert document["versions"]["jobplaybook"] == jp.__version__
    with jp.open_snapshot("sample") as snapshot:
        assert document["snapshot"]["content_sha256"] == snapshot.meta["content_sha256"]
    found = document["result"]
    assert found["verdict"]["code"] == found["findings"][0]["code"] == "lease-expired"
    assert found["numbers"]["during_arrivals"] == 376
    assert found["numbers"]["before_completions"] == 407


def test_the_lines_for_people_begin_with_the_verdict(tmp_path: Path) -> None:
    """A healthy queue is OK, not a note of what it does not record; then come the files."""
    result = postmortem(jp.sample_path("healthy"), "-o", tmp_path / "out")
    done, verdict, *files = result.stdout.splitlines()
    assert done.startswith("completed in ")
    assert verdict.startswith("OK        healthy: Nothing asks for action")
    assert [line.split()[0] for line in files] == ["notebook", "report", "result"]


def test_one_that_does_not_complete_says_so_everywhere(tmp_path: Path) -> None:
    """A window that is empty is found by the notebook: exit 5, banners, and no verdict."""
    folder = tmp_path / "out"
    result = postmortem("sample", "-o", folder, "--json", "--now", "2020-01-01T00:00:00Z")
    assert (result.exit_code, result.stderr) == (5, "")
    answer = json.loads(result.stdout)
    assert (answer["status"], answer["verdict"], answer["findings"]) == ("failed", None, [])
    assert "InputError" in answer["message"]
    for name in ("postmortem.ipynb", "report.html"):
        assert "This run did not complete: failed." in (folder / name).read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", "job", "1"], "no parameter 'job' in this notebook"),
        (["-p", "untill", "x"], "did you mean until?"),
        (["-p", "events", f'["{URL}"]'], "holds a URL"),
        (["-p", "events", '["no time"]'], "expected an event like"),
        (["--until", "yesterday"], "expected a time"),
        (["--since", "1h", "-p", "since", "2h"], "given twice"),
    ],
)
def test_what_cannot_work_does_not_begin(tmp_path: Path, words: list[str], said: str) -> None:
    """One line, exit 2, and no folder."""
    result = postmortem("sample", "-o", tmp_path / "out", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_source_or_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """A missing source is exit 2, an unreachable one exit 4; neither leaves a folder."""
    (tmp_path / "file").write_text("mine")
    assert postmortem(tmp_path / "no.db", "-o", tmp_path / "out").exit_code == 2
    assert postmortem("postgresql://127.0.0.1:1/none", "-o", tmp_path / "out").exit_code == 4
    assert postmortem("sample", "-o", tmp_path / "file").exit_code == 2
    assert postmortem("sample", "-o", tmp_path / "missing" / "out").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full before the last file is written leaves the older ones as they were."""
    folder = tmp_path / "out"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text("an older one")
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if ".report.html." in self.name:
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    result = postmortem("sample", "-o", folder)
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert {path.name for path in folder.iterdir()} == FILES
    assert {path.read_text() for path in folder.iterdir()} == {"an older one"}


def test_a_live_database_and_its_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Callable[[str], str],
    postgres: Postgres,
) -> None:  # fmt: skip
    """A window that ended earlier is captured from before its beginning; no password is left."""
    name = recording("healthy").rsplit("/", 1)[1].partition("?")[0]
    monkeypatch.setenv("JOBS_URL", postgres.tcp_url(name))
    asked = ("--now", "2026-12-01T04:38:47Z", "--until", "2026-12-01T04:38:20Z", "--since", "30s")
    result = postmortem("env:JOBS_URL", "-o", tmp_path / "out", "--json", *asked)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    assert document["source"] == "env:JOBS_URL"
    numbers = document["result"]["numbers"]
    assert numbers["during_seconds"] == 30.0
    assert numbers["before_seconds"] == pytest.approx(30.0, abs=0.1), "the recording begins there"
    assert numbers["before_arrivals"] > 100
    everything = result.output + written(tmp_path)
    assert PASSWORD not in everything
    assert PASSWORD.replace(" ", "%20") not in everything


# Hostile text


def hostile() -> dict[str, Any]:
    """Return an incident whose every text a job or its queue system supplied is an attack."""
    said: dict[str, Any] = {
        "job_type": ATTACK,
        "queue": ATTACK,
        "tenant_id": ATTACK,
        "last_error_code": LOADS,
    }
    held = [
        job(f"{LOADS}{n}", "processing", owner=ATTACK, claimed_at=ago(300), attempts=1,
            locked_until=ago(200 - n), read_at=NOW, **said)
        for n in range(12)
    ]  # fmt: skip
    dead = [job(f"dead-{n}", "dead", attempts=1, finished_at=ago(90), **said) for n in range(40)]
    failed = [
        attempt(row["id"], outcome="failed", error_code=LOADS, started_at=ago(95), ended_at=ago(90))
        for row in dead
    ]
    waits = [job(f"{ATTACK}{n}", available_at=ago(900), **said) for n in range(30)]
    ended = [done(f"done-{n}", ended=400 - n, **said) for n in range(40)]
    return {
        "jobs": [*held, *dead, *waits, *(row for row, _ in ended)],
        "attempts": [*failed, *(tried for _, tried in ended)],
        "workers": [{"owner": ATTACK, "heartbeat_at": ago(290), "lease_seconds": 60.0}],
        "facts": [{**fact, "note": LOADS} for fact in known("effects", "error")],
    }


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a postmortem of an incident in which every text is an attack; return its folder."""
    folder = tmp_path_factory.mktemp("attacked")
    with snapshot_of(folder, hostile()) as snapshot:
        with closing(sqlite3.connect(snapshot.path)) as connection:
            (held,) = connection.execute(
                "SELECT count(*) FROM jobs WHERE queue = ? AND job_type = ? AND tenant_id = ?",
                (ATTACK, ATTACK, ATTACK),
            ).fetchone()
        assert held > 100
        event = ["2026-12-01T02:58:00Z", ATTACK]
        ran = jp.postmortem(
            str(snapshot.path), folder=folder / "out", parameters={"events": [event]}
        )
    assert (ran.status, ran.message) == ("completed", "")
    return folder / "out"


def test_the_report_takes_nothing_for_markup(attacked: Path) -> None:
    """The attacks are there to be read, in cells and lists, and are no tag anywhere."""
    page = (attacked / "report.html").read_text()
    seen = assert_inert(page)
    assert "script" not in seen.tags
    assert seen.text.count(ATTACK) > 5
    assert html.escape(ATTACK, quote=False) in page
    assert ATTACK not in page


def test_the_notebook_takes_nothing_for_markup(attacked: Path) -> None:
    """Each table that JupyterLab would show is escaped, and no Markdown holds a job's text."""
    cells = json.loads((attacked / "postmortem.ipynb").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    shown = [output["data"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(shown) >= 5
    for data in shown:
        assert TABLE_MIME in data
        assert assert_inert("".join(data["text/html"])).tags <= {
            "table", "caption", "thead", "tbody", "tr", "th", "td",
        }  # fmt: skip
    assert not any("text/markdown" in o.get("data", {}) for o in outputs)
    assert not any("image/svg+xml" in o.get("data", {}) for o in outputs)
    written_words = "".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    assert "onerror" not in written_words


def test_a_browser_finds_nothing_to_run_or_load(attacked: Path, tmp_path: Path) -> None:
    """In headless Chromium the whole postmortem asks for nothing and says nothing."""
    title, said, asked = browse(attacked / "report.html", tmp_path)
    assert title != "TAKEN"
    assert (said, asked) == ([], [])
