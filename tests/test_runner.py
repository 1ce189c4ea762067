"""The runner: every ending is told as what it was, and what is written can be shown to anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import jobplaybook as jp
from jobplaybook.commands import cli
from jobplaybook.errors import InputError, SourceError
from jobplaybook.notebooks import RunResult, notebook_path
from tests.conftest import REPOSITORY
from tests.postgres import PASSWORD, Postgres

CANARY = "s3cret-canary"
URL = f"postgresql://ann:{CANARY}@db.example/jobs"
LAST = ("--now", "2026-12-01T04:38:47Z")  # the recording's last moment, whenever this runs
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
DEFAULTS = 'source = "sample"\ncount = 3\nshare = 0.5\nloud = False\nnow = None\nnames = ["a"]'
RESULT = (
    "class Shown:\n"
    "    __repr__ = lambda self: 'shown'\n"
    "    def _repr_json_(self):\n"
    "        return {'findings': [{'code': 'x', 'severity': 'note', 'sentence': 's'}],"
    " 'n': count}\n"
    "Shown()"
)


def notebook(folder: Path, *sources: str, parameters: str = DEFAULTS) -> Path:
    """Write a notebook of code cells after a parameters cell."""
    tagged = [(parameters, ["parameters"]), *((source, []) for source in sources)]
    cells = [
        {
            "cell_type": "code", "id": f"cell-{place}", "metadata": {"tags": tags},
            "execution_count": 9, "outputs": [], "source": source,
        }
        for place, (source, tags) in enumerate(tagged)
    ]  # fmt: skip
    path = folder / "own.ipynb"
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(document))
    return path


def run(path: Path, **more: Any) -> RunResult:
    out = path.parent / "out.ipynb"
    return jp.run_notebook(path, output=out, html=out.with_suffix(".html"), **more)


def written(folder: Path) -> str:
    """Return everything in a folder, as one text."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "own.ipynb"]
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


def command(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["run", *map(str, words)])


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


# What is refused before anything runs


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cuont", "4", "no parameter 'cuont' in this notebook: did you mean count?"),
        ("x = 1; import os", "4", "no parameter"),
        ("source", "other.db", "source is SOURCE itself"),
        ("now", URL, "holds a URL"),
        ("now", "host=db password=x", "holds a URL"),
        ("names", f'["{URL}"]', "holds a URL"),
        ("count", "4.5", "expected count as int, like 3, found '4.5'"),
        ("count", "four", "expected count as int"),
        ("count", "true", "expected count as int"),
        ("share", "nan", "expected share as float"),
        ("share", "1e999", "expected share as float"),
        ("loud", "yes", "expected loud as bool, like False, found 'yes'"),
        ("names", "a", "expected names as list"),
        ("now", "yesterday", "expected a time"),
    ],
)
def test_a_parameter_is_refused(tmp_path: Path, name: str, value: str, said: str) -> None:
    """A wrong name, type or value is one line, exit 2, and no file."""
    path = notebook(tmp_path, "1")
    result = command(path, "sample", "-o", tmp_path / "out.ipynb", "-p", name, value)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert CANARY not in result.output
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"count": "4"}, {"count": 4}),
        ({"share": "1"}, {"share": 1.0}),
        ({"loud": "true"}, {"loud": True}),
        ({"names": '["b", "c"]'}, {"names": ["b", "c"]}),
        ({"now": "2026-12-01T04:38:00Z"}, {"now": "2026-12-01T04:38:00Z"}),
        ({"names": ["'\"; import os #", "\\"]}, {"names": ["'\"; import os #", "\\"]}),
    ],
)
def test_a_parameter_arrives(
    tmp_path: Path, given: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    """Text becomes the type of the default, and no value is code."""
    (name, value), *_ = found.items()
    ran = run(notebook(tmp_path, f"assert {name} == {value!r}, {name}"), parameters=given)
    assert (ran.status, ran.message) == ("completed", "")
    assert ran.document["parameters"][name] == value


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("[]", "expected a notebook of format 4"),
        ('{"cells": [], "nbformat": 3}', "save it again in JupyterLab"),
        ('{"cells": [], "nbformat": 4}', "one code cell tagged 'parameters'"),
        (
            '{"cells": [], "nbformat": 4, "metadata": {"kernelspec": {"language": "R"}}}',
            "expected a Python notebook, found 'R'",
        ),
        ("[" * 100_000, "expected a notebook of format 4"),
    ],
)
def test_what_is_no_notebook_is_refused(tmp_path: Path, cells: str, said: str) -> None:
    """Another file is named as what it is not."""
    path = tmp_path / "own.ipynb"
    path.write_text(cells)
    with pytest.raises(InputError, match=said):
        run(path)


@pytest.mark.parametrize("cell", ["count = 1 + 2", "import os", "source, b = 'a', 'b'", "x = 1"])
def test_a_parameters_cell_holds_literals_only(tmp_path: Path, cell: str) -> None:
    """What the cell computes, nobody could set from outside."""
    with pytest.raises(InputError, match="parameters cell"):
        run(notebook(tmp_path, "1", parameters=cell))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("00-start-hree", "did you mean 00-start-here?"),
        ("99", "expected one of 00-start-here"),
        ("no/such.ipynb", "found no file 'no/such.ipynb'"),
    ],
)
def test_an_unknown_notebook_names_the_nearest(tmp_path: Path, name: str, said: str) -> None:
    """A slip of the keyboard is answered with what was meant."""
    result = command(name, "sample", "-o", tmp_path / "out.ipynb")
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_bundled_notebook_is_found_by_name_and_number() -> None:
    """`00`, the full name and the path are the same notebook."""
    path = notebook_path("00")
    assert path == notebook_path("00-start-here")
    assert notebook_path(path).samefile(path)


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "missing/out.ipynb"],
        ["-o", "out.db"],
        ["-o", "."],
        ["-o", "out.ipynb", "--html", "report.txt"],
        ["-o", "out.ipynb", "--html", "missing/report.html"],
        ["-o", "out.ipynb", "-p", "count", "1", "-p", "count", "2"],
        ["-o", "out.ipynb", "--now", "2026-12-01T04:38:00Z", "-p", "now", "2026-12-01T04:38:00Z"],
        ["-o", "out.ipynb", "--since", "1h"],
        ["-o", "out.ipynb", "--cell-timeout", "0"],
    ],
)
def test_a_command_that_cannot_work_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Outputs that cannot be written and options that contradict are found before the run."""
    monkeypatch.chdir(tmp_path)
    path = notebook(tmp_path, "1")
    result = command(path, "sample", *words)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_source_that_cannot_be_read_writes_nothing(tmp_path: Path) -> None:
    """An unreachable database is exit 4, and no notebook of an empty snapshot."""
    path = notebook(tmp_path, "1")
    with pytest.raises(SourceError):
        run(path, source="postgresql://127.0.0.1:1/none")
    assert list(tmp_path.iterdir()) == [path]


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


# The command


def test_the_command_says_how_it_ended(tmp_path: Path) -> None:
    """Exit 0 with the paths, or exit 5 with the reason; the files are there either way."""
    path, out = notebook(tmp_path, RESULT), tmp_path / "out.ipynb"
    good = command(path, "sample", "-o", out)
    assert good.exit_code == 0
    assert good.stdout.startswith("completed in ")
    assert str(out) in good.stdout
    bad = command(notebook(tmp_path, "import sys; sys.exit(0)"), "sample", "-o", out)
    assert bad.exit_code == 5
    assert bad.stdout.startswith("exited after ")
    assert "do not act on it" in bad.stdout
    slow = command(
        notebook(tmp_path, "while True: pass"), "sample", "-o", out, "--cell-timeout", "1s"
    )
    assert (slow.exit_code, slow.stderr) == (5, "")
    assert "timed-out after" in slow.stdout


def test_the_demo_says_its_verdict_and_writes_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command, no argument: a verdict on screen, a notebook and a report in a folder."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(str(jp.triage("sample")))
    for name in ("00-start-here.ipynb", "report.html"):
        assert (tmp_path / "jobplaybook-demo" / name).is_file()
        assert f"jobplaybook-demo/{name}" in result.stdout
    (tmp_path / "jobplaybook-demo" / "report.html").unlink()
    answer = json.loads(CliRunner().invoke(cli, ["demo", "--json"]).stdout)
    assert answer["verdict"]["code"] == "lease-expired"
    assert Path(answer["report"]).is_file()


def test_the_demo_where_it_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the way is one line, not a traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobplaybook-demo").write_text("mine")
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 2
    assert "run it in another folder" in result.stderr
    assert (tmp_path / "jobplaybook-demo").read_text() == "mine"
