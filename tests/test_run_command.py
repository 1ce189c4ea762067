"""What `run` and `demo` refuse before anything runs, and what they say when it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import jobplaybook as jp
from jobplaybook.commands import cli
from jobplaybook.errors import InputError, SourceError
from jobplaybook.notebooks.plan import notebook_path
from tests.small_notebooks import CANARY, RESULT, URL, command, notebook, run

# Parameters, notebooks and outputs that cannot be used


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


@pytest.mark.parametrize("renamed", ["own.ipynb", "./own.ipynb", "link.ipynb"])
def test_a_run_that_fails_does_not_replace_its_own_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renamed: str
) -> None:
    """What was asked to be renewed stays as it is; what came of it lies beside it."""
    monkeypatch.chdir(tmp_path)
    path = notebook(tmp_path, "1 / count", RESULT, parameters='source = "sample"\ncount = 0')
    (tmp_path / "link.ipynb").symlink_to(path)
    before, stem = path.read_bytes(), Path(renamed).stem
    ran = command(path, "sample", "-o", renamed, "--json")
    assert ran.exit_code == 5
    assert json.loads(ran.stdout)["output"] == f"{stem}.failed.ipynb"
    assert "did not complete: failed" in (tmp_path / f"{stem}.failed.ipynb").read_text()
    assert path.read_bytes() == before
    assert command(path, "sample", "-o", renamed, "-p", "count", "2").exit_code == 0
    assert '"findings"' in (tmp_path / renamed).read_text()


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
