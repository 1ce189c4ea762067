"""The runner: every ending is told as what it was, and what is written can be shown to anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import jobplaybook as jp
from tests.conftest import REPOSITORY
from tests.postgres import PASSWORD, Postgres
from tests.small_notebooks import CANARY, RESULT, command, notebook, run, written

LAST = ("--now", "2026-12-01T04:38:47Z")  # the recording's last moment, whenever this runs
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
# How a run ends


@pytest.mark.parametrize(
    ("cell", "status", "said"),
    [
        ("1 / 0", "failed", "code cell 2 raised ZeroDivisionError: division by zero"),
        ("assert count == 4, 'counts differ'", "failed", "AssertionError: counts differ"),
        ("import sys; sys.exit(0)", "exited", "code cell 2 left the notebook with sys.exit(0)"),
        ("import sys; sys.exit(3)", "exited", "sys.exit(3)"),
        ("raise SystemExit", "exited", "sys.exit"),
        ("quit()", "exited", "code cell 2 left the notebook with quit()"),
        ("import os; os._exit(0)", "exited", "code cell 2 ended its own kernel"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", "signal 9"),
        ("import os; os._exit(137)", "killed", "exit code 137"),
        ("while True: pass", "timed-out", "code cell 2 ran longer than 1.0 s"),
    ],
)
def test_a_run_that_did_not_complete(tmp_path: Path, cell: str, status: str, said: str) -> None:
    """Status, reason, banner and result tell the same story, and no cell after it counts."""
    ran = run(notebook(tmp_path, cell, RESULT), cell_seconds=1.0 if "while" in cell else 60.0)
    assert (ran.status, ran.findings) == (status, [])
    assert said in ran.message
    made = json.loads(ran.output.read_text())
    assert f"This run did not complete: {status}." in "".join(made["cells"][0]["source"])
    assert made["cells"][-1]["outputs"] == []
    assert made["cells"][-1]["execution_count"] is None
    document = json.loads(ran.result.read_text())
    assert (document["status"], document["message"]) == (status, ran.message)
    assert document["result"] is None
    assert ran.html is not None
    assert f"This run did not complete: {status}." in ran.html.read_text()


def test_a_run_that_completed(tmp_path: Path) -> None:
    """The last cell's object is in the result, with parameters, versions and a hash."""
    ran = run(notebook(tmp_path, RESULT), parameters={"count": "5"})
    assert (ran.status, ran.message) == ("completed", "")
    assert ran.findings == [{"code": "x", "severity": "note", "sentence": "s"}]
    document = json.loads(ran.result.read_text())
    assert document["result"]["n"] == 5
    assert document["parameters"]["count"] == 5
    with jp.open_snapshot("sample") as snapshot:
        assert document["snapshot"]["content_sha256"] == snapshot.meta["content_sha256"]
    assert document["versions"]["jobplaybook"] == jp.__version__
    made = json.loads(ran.output.read_text())
    assert not any("did not complete" in "".join(cell["source"]) for cell in made["cells"])


def test_a_result_is_the_last_cells_own(tmp_path: Path) -> None:
    """An object that an earlier cell showed is not the notebook's result."""
    ran = run(notebook(tmp_path, RESULT, "print('end')"))
    assert (ran.status, ran.document["result"]) == ("completed", None)


def test_the_notebook_sees_utc_and_a_settled_hash(tmp_path: Path) -> None:
    """Two machines print the same times and the same order of sets."""
    cell = "import os, time; print(os.environ['PYTHONHASHSEED'], time.tzname[0])"
    ran = run(notebook(tmp_path, cell))
    assert "0 UTC" in ran.output.read_text()


def test_two_runs_are_byte_for_byte_the_same(tmp_path: Path) -> None:
    """Nothing of the moment or the machine is left in what is written."""
    path = notebook(tmp_path, "{'a': count}", RESULT)
    first = [run(path, parameters={"count": 4}).output.read_bytes()]
    first.append((tmp_path / "out.result.json").read_bytes())
    second = [run(path, parameters={"count": 4}).output.read_bytes()]
    second.append((tmp_path / "out.result.json").read_bytes())
    assert first == second
    assert b"papermill" not in first[0]
    assert str(tmp_path).encode() not in first[0] + first[1]


def test_defaults_need_no_cell(tmp_path: Path) -> None:
    """A notebook run as it stands keeps its cells; that is how committed ones are renewed."""
    ran = run(notebook(tmp_path, RESULT), parameters={"count": 3})
    assert len(json.loads(ran.output.read_text())["cells"]) == 2


def test_a_notebook_that_ran_before_runs_as_if_new(tmp_path: Path) -> None:
    """The values and the banner of an earlier run are not this one's."""
    path = notebook(tmp_path, "assert count == 3, count", RESULT)
    failed = run(path, parameters={"count": 4})
    assert failed.status == "failed"
    again = jp.run_notebook(failed.output, output=tmp_path / "again.ipynb")
    assert (again.status, again.document["result"]["n"]) == ("completed", 3)
    assert len(json.loads(again.output.read_text())["cells"]) == 3


def test_a_kernel_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the interpreter cannot start again, the run says so and writes what it has."""
    path = notebook(tmp_path, RESULT)
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    ran = run(path)
    assert (ran.status, ran.document["result"]) == ("killed", None)
    assert "the kernel did not start" in ran.message


# Whatever the machine is like


def test_installed_kernels_do_not_matter(tmp_path: Path) -> None:
    """The kernel is this interpreter, though the only one installed by name is broken."""
    broken = tmp_path / "jupyter" / "kernels" / "python3"
    broken.mkdir(parents=True)
    spec = {"argv": ["false"], "display_name": "broken", "language": "python"}
    (broken / "kernel.json").write_text(json.dumps(spec))
    path = notebook(tmp_path, "import sys; print(sys.executable)")
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    kept = {name: os.environ[name] for name in ("PATH", "MPLCONFIGDIR") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "jobplaybook", "run", path, "sample", "-o", tmp_path / "out.ipynb"],
        env={
            **kept, "HOME": str(home), "PYTHONPATH": str(REPOSITORY),
            "JUPYTER_PATH": str(tmp_path / "jupyter"),
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert sys.executable in (tmp_path / "out.ipynb").read_text()


def test_ctrl_c_ends_the_kernel_and_leaves_nothing(tmp_path: Path) -> None:
    """An interrupted run is exit 130, a dead kernel, and no half-written file."""
    mark = tmp_path / "pid"
    cell = f"import os; open({str(mark)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    path, out = notebook(tmp_path, cell), tmp_path / "out"
    out.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "jobplaybook", "run", path, "sample", "-o", out / "o.ipynb"],
        env={**ENVIRONMENT, "TMPDIR": str(out)}, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        wait_until(lambda: mark.is_file() and mark.read_text() != "")
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (130, "jobplaybook: interrupted\n")
    assert list(out.iterdir()) == []
    wait_until(lambda: not is_running(int(mark.read_text())))


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition, or fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Secrets


def test_no_secret_of_an_error_is_written(tmp_path: Path) -> None:
    """A URL in an output or an exception loses its password before anything is written."""
    half = len(CANARY) // 2
    parts = f"secret = {CANARY[:half]!r} + {CANARY[half:]!r}"
    cells = (
        f"{parts}\nurl = f'postgresql://ann:{{secret}}@db.example/jobs'\nprint(url)\nurl",
        "raise ValueError(f'no answer from {url}, password={secret}')",
    )
    ran = run(notebook(tmp_path, *cells))
    assert ran.status == "failed"
    assert CANARY not in written(tmp_path) + repr(ran)
    assert "postgresql://ann:***@db.example/jobs" in ran.message
    assert ran.output.read_text().count("postgresql://ann:***@db.example/jobs") >= 3


def test_the_kernel_does_not_see_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Callable[[str], str]
) -> None:
    """A notebook gets the snapshot; the database's URL is not in its environment."""
    monkeypatch.setenv("JOBS_URL", recording("healthy"))
    ran = run(
        notebook(tmp_path, "import os; print([os.environ['JOBS_URL']], source)"),
        source="env:JOBS_URL",
    )
    assert ran.status == "completed"
    text = ran.output.read_text()
    assert "[''] env:JOBS_URL" in text
    assert "live.db" not in text, "the capture is gone, and so is its name"


def test_a_live_database_with_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Callable[[str], str],
    postgres: Postgres,
) -> None:  # fmt: skip
    """The whole notebook on a live queue: the verdict is there, the password is nowhere."""
    name = recording("killed").rsplit("/", 1)[1].partition("?")[0]
    monkeypatch.setenv("JOBS_URL", postgres.tcp_url(name))
    out, html = tmp_path / "out.ipynb", tmp_path / "report.html"
    result = command(
        "00", "env:JOBS_URL", "-o", out, "--html", html, "--json", *LAST, "--since", "30d"
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert set(answer) >= {"output", "html", "status", "seconds", "findings"}
    assert answer["status"] == "completed"
    assert "lease-expired" in [finding["code"] for finding in answer["findings"]]
    everything = result.output + written(tmp_path)
    assert PASSWORD not in everything
    assert PASSWORD.replace(" ", "%20") not in everything
    assert 'since = "2592000s"' in "".join(json.loads(out.read_text())["cells"][3]["source"])
    assert {path.name for path in tmp_path.iterdir()} == {
        "out.ipynb",
        "out.result.json",
        "report.html",
    }


def test_a_kept_snapshot_gives_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Callable[[str], str]
) -> None:
    """--keep leaves the snapshot, and a run on it has the same result."""
    monkeypatch.setenv("JOBS_URL", recording("killed"))
    out, kept = tmp_path / "a.ipynb", tmp_path / "kept.db"
    assert command("00", "env:JOBS_URL", "-o", out, "--keep", kept, *LAST).exit_code == 0
    assert command("00", kept, "-o", tmp_path / "b.ipynb", *LAST).exit_code == 0
    first, second = (
        json.loads((tmp_path / f"{name}.result.json").read_text())["result"] for name in "ab"
    )
    assert first == second
    assert first["verdict"]["code"] == "lease-expired"
