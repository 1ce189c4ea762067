"""`run all`: many notebooks, one snapshot, processes of our own, and nothing half done."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import jobplaybook as jp
from jobplaybook.commands.run import _notebooks_bar
from jobplaybook.errors import InputError
from jobplaybook.notebooks.plan import plan_all
from tests.small_notebooks import RESULT, command, notebook, written
from tests.test_runner import ENVIRONMENT, LAST, is_running, wait_until

MOMENT = "2026-12-01T04:38:00Z"
SMALL = 'source = "sample"\nnow = None'


def several(folder: Path, **cells: str) -> list[Path]:
    """Write one small notebook a name; its last cell shows a result."""
    made = []
    for name, cell in cells.items():
        path = notebook(folder, cell, RESULT.replace("count", "1"), parameters=SMALL)
        made.append(path.rename(folder / f"{name}.ipynb"))
    return made


# What comes of it


def test_each_ends_as_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails, one that leaves and one whose process dies do not touch the others."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a process that is killed cannot tidy up
    kills = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"  # the kernel's parent
    paths = several(
        tmp_path, good="1", bad="1 / 0", leaves="import sys; sys.exit(0)", lost=kills, last="2"
    )
    told: list[tuple[str, int, int]] = []
    runs = jp.run_all(
        folder=tmp_path / "out", notebooks=paths, jobs=2, tell=lambda *said: told.append(said)
    )
    assert [ran.status for ran in runs] == ["completed", "failed", "exited", "killed", "completed"]
    assert "the process that ran it died (signal 9)" in runs[3].message
    assert sorted(name for name, _, _ in told) == sorted(path.stem for path in paths)
    assert [ended for _, ended, _ in told] == [1, 2, 3, 4, 5]
    for ran, path in zip(runs, paths, strict=True):
        assert ran.output == tmp_path / "out" / path.name
        assert json.loads(ran.result.read_text())["status"] == ran.status
        assert ran.html is not None
        banner = f"This run did not complete: {ran.status}."
        for file in (ran.output, ran.html):
            assert (banner in file.read_text()) == (ran.status != "completed"), file
    assert runs[0].findings == [{"code": "x", "severity": "note", "sentence": "s"}]


def test_a_run_among_others_leaves_what_it_leaves_alone(tmp_path: Path) -> None:
    """A notebook and its result are the same bytes, run alone or in a process beside others."""
    (path,) = several(tmp_path, one="source, now")
    (ran,) = jp.run_all(folder=tmp_path / "all", notebooks=[path], parameters={"now": MOMENT})
    alone = jp.run_notebook(path, output=tmp_path / "one.ipynb", parameters={"now": MOMENT})
    assert ran.output.read_bytes() == alone.output.read_bytes()
    assert ran.result.read_bytes() == alone.result.read_bytes()


def test_it_works_from_a_program_without_a_main_guard(tmp_path: Path) -> None:
    """Nothing of the caller is imported again: a script of a few lines may call it."""
    paths = [str(path) for path in several(tmp_path, one="1", two="2")]
    script = tmp_path / "script.py"
    script.write_text(
        "import jobplaybook as jp\n"
        f"print('once', *[r.status for r in jp.run_all(folder={str(tmp_path / 'out')!r}, "
        f"notebooks={paths!r}, jobs=2)])\n"
    )
    done = subprocess.run(
        [sys.executable, script], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("once completed completed\n", "")


# One snapshot for all


def test_a_live_source_is_captured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Callable[[str], str]
) -> None:
    """All of them read the same file, which is gone afterwards, and none sees the database."""
    monkeypatch.setenv("JOBS_URL", recording("healthy"))
    marks = tmp_path / "marks"
    marks.mkdir()
    cell = (
        "import os, pathlib\n"
        f"pathlib.Path({str(marks)!r}, str(os.getpid())).write_text(source)\n"
        "assert not os.environ['JOBS_URL']\nsource"
    )
    paths = several(tmp_path, a=cell, b=cell, c=cell)
    runs = jp.run_all("env:JOBS_URL", folder=tmp_path / "out", notebooks=paths, jobs=3)
    assert [ran.status for ran in runs] == ["completed"] * 3, [ran.message for ran in runs]
    seen = [mark.read_text() for mark in marks.iterdir()]
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert not Path(seen[0]).exists()
    assert {ran.document["snapshot"]["content_sha256"] for ran in runs} == {
        runs[0].document["snapshot"]["content_sha256"]
    }
    assert "live.db" not in written(tmp_path / "out")


def test_the_command_runs_every_bundled_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Callable[[str], str]
) -> None:
    """With their own parameters where they have them; --keep leaves the snapshot they read."""
    monkeypatch.setenv("JOBS_URL", recording("killed"))
    out, kept = tmp_path / "out", tmp_path / "kept.db"
    events = '[["2026-12-01T04:37:40Z", "node drained"]]'
    result = command(
        "all", "env:JOBS_URL", "-o", out, "--json", "--keep", kept, "-p", "events", events, *LAST
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    names = [path.stem for path in plan_names()]
    assert [Path(run["output"]).stem for run in answer["runs"]] == names
    for run in answer["runs"]:
        assert set(run) >= {"output", "html", "status", "seconds", "findings"}
        assert run["status"] == "completed"
        assert all(Path(run[kind]).is_file() for kind in ("output", "html", "result"))
        asked = json.loads(Path(run["result"]).read_text())["parameters"]
        assert asked.get("events", json.loads(events)) == json.loads(events)
        assert asked["source"] == "env:JOBS_URL"
    assert kept.is_file()
    everything = {path.name for path in out.iterdir()}
    assert everything == {
        f"{name}.{kind}" for name in names for kind in ("ipynb", "html", "result.json")
    }


def plan_names() -> list[Path]:
    folder = Path(jp.__file__).parent.parent / "notebooks"
    return sorted(folder.glob("*.ipynb"))


# What is refused, and how it stops


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", "evnets", "[]"], "no notebook has a parameter 'evnets': did you mean events?"),
        (["-p", "source", "x.db"], "source is SOURCE itself"),
        (["-p", "since", "yesterday"], "expected a duration"),
        (["--html", "report.html"], "leave --html out"),
        (["--jobs", "0"], "from 1 to 64"),
    ],
)
def test_what_cannot_work_does_not_begin(tmp_path: Path, words: list[str], said: str) -> None:
    """One line, exit 2, and no folder."""
    result = command("all", "sample", "-o", tmp_path / "out", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    """A file in the way, a folder that is missing above, a source that cannot be read."""
    (tmp_path / "file").write_text("mine")
    for folder in ("file", "missing/out"):
        with pytest.raises(InputError, match="expected a folder"):
            jp.run_all(folder=tmp_path / folder)
    assert command("all", tmp_path / "no.db", "-o", tmp_path / "out").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_that_would_write_the_same_file(tmp_path: Path) -> None:
    """Notebooks of the same name are refused before one overwrites the other."""
    (tmp_path / "other").mkdir()
    (one,), (two,) = (several(folder, one="1") for folder in (tmp_path, tmp_path / "other"))
    with pytest.raises(InputError, match="two notebooks are called 'one'"):
        jp.run_all(folder=tmp_path / "out", notebooks=[one, two])


def test_jobs_are_for_all(tmp_path: Path) -> None:
    """An option that would do nothing is refused."""
    path = notebook(tmp_path, "1")
    result = command(path, "sample", "-o", tmp_path / "o.ipynb", "--jobs", "2")
    assert result.exit_code == 2
    assert "--jobs is for `run all`" in result.stderr


def test_one_that_did_not_complete_is_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5, a line a notebook, and the others are there."""
    paths = several(tmp_path, good="1", leaves="import sys; sys.exit(0)")
    monkeypatch.setattr(
        "jobplaybook.running.plan_all",
        lambda folder, *, parameters, names: plan_all(folder, parameters=parameters, names=paths),
    )
    result = command("all", "sample", "-o", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (5, "")
    good, leaves, where = result.stdout.splitlines()
    assert good.startswith("good ")
    assert "completed in" in good
    assert "exited in" in leaves
    assert "do not act on it" in leaves
    assert str(tmp_path / "out") in where


def test_progress_is_for_a_person_who_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the names of those that ended, in a pipe nothing at all."""
    for watches in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda watches=watches: watches)
        monkeypatch.setattr(sys, "stderr", stream)
        with _notebooks_bar() as tell:
            tell("00-start-here", 1, 4)
        assert ("ended 00-start-here" in stream.getvalue()) == watches
        assert watches or stream.getvalue() == ""


def test_ctrl_c_stops_every_kernel_and_leaves_no_half_file(tmp_path: Path) -> None:
    """Exit 130, dead kernels, and a folder with whole files or none."""
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    cell = (
        f"import os, pathlib\npathlib.Path({str(marks)!r}, str(os.getpid())).touch()\n"
        "while True: pass"
    )
    paths = [str(path) for path in several(tmp_path, a=cell, b=cell, c=cell)]
    program = (
        "import sys, jobplaybook.running as running\n"
        "from jobplaybook.notebooks.plan import plan_all\n"
        "running.plan_all = lambda folder, *, parameters, names: plan_all(\n"
        f"    folder, parameters=parameters, names={paths!r})\n"
        "from jobplaybook.commands import main\nmain()\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words = ["run", "all", "sample", "-o", str(out), "--jobs", "2"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **ENVIRONMENT, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        wait_until(lambda: len(list(marks.iterdir())) == 2)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (130, "jobplaybook: interrupted\n")
    assert not out.exists()
    assert list(temporary.iterdir()) == []
    pids = [int(mark.name) for mark in marks.iterdir()]
    wait_until(lambda: not any(is_running(pid) for pid in pids))
