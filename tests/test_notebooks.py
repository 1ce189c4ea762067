"""The committed notebooks: built alike, true to their stored outputs, and able to run elsewhere."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest

import jobplaybook as jp
from jobplaybook.commands import COMMANDS, cli
from jobplaybook.detectors.findings import CODES
from tests.conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
START_HERE = REPOSITORY / "notebooks" / "00-start-here.ipynb"
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
Cell = dict[str, Any]


def cells_of(path: Path, kind: str = "") -> list[Cell]:
    cells = json.loads(path.read_text())["cells"]
    made = [{**cell, "source": "".join(cell["source"])} for cell in cells]
    return [cell for cell in made if kind in ("", cell["cell_type"])]


# How they are built


@each
def test_it_begins_with_its_question(path: Path) -> None:
    """The first line is a question, and there is no second title."""
    cells = cells_of(path, "markdown")
    assert re.match(r"# .+\?\n", cells[0]["source"])
    assert sum(len(re.findall(r"(?m)^# ", cell["source"])) for cell in cells) == 1
    assert "**You decide at the end:**" in cells[0]["source"]


@each
def test_it_fits_a_tired_reader(path: Path) -> None:
    """Few cells, short ones, no function and no SQL in them."""
    assert len(cells_of(path)) <= 40
    for cell in cells_of(path, "code"):
        assert len(cell["source"].splitlines()) <= 12, cell["id"]
        tree = ast.walk(ast.parse(cell["source"]))
        assert not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree), cell[
            "id"
        ]
        assert not re.search(r"\bSELECT\b|\bFROM\b \w+ \bWHERE\b", cell["source"]), cell["id"]


@each
def test_words_stand_before_every_cell(path: Path) -> None:
    """Each code cell is announced by some thirty words; pictures so have their words twice."""
    cells = cells_of(path)
    assert cells[0]["cell_type"] == "markdown"
    for before, cell in pairwise(cells):
        if cell["cell_type"] == "code":
            assert before["cell_type"] == "markdown", cell["id"]
            assert len(before["source"].split()) >= 20, cell["id"]


@each
def test_readings_hold_no_number_of_the_sample(path: Path) -> None:
    """What is said beside a figure stays true for other data: numbers come from outputs."""
    for cell in cells_of(path, "markdown"):
        if "**Reading:**" in cell["source"]:
            assert not re.search(r"\d", cell["source"]), cell["id"]
            assert "**When it misleads:**" in cell["source"] or len(cell["source"]) < 300


@each
def test_it_opens_its_source_once(path: Path) -> None:
    """One capture serves the whole notebook, and the parameters cell is the one that is tagged."""
    code = cells_of(path, "code")
    assert code[0]["metadata"].get("tags") == ["parameters"]
    assert code[0]["source"].startswith('source = "sample"')
    assert sum(cell["source"].count("open_snapshot(") for cell in code) == 1
    assert "notebook_result(" in code[-1]["source"]
    assert "application/json" in code[-1]["outputs"][0]["data"]


@each
def test_its_pictures_carry_their_words(path: Path) -> None:
    """Each picture is a PNG with a text form that says what it shows."""
    outputs = [output for cell in cells_of(path, "code") for output in cell["outputs"]]
    pictures = [output["data"] for output in outputs if "image/png" in output.get("data", {})]
    assert pictures
    assert all(len("".join(data["text/plain"]).split()) > 10 for data in pictures)
    assert not any("image/svg+xml" in output.get("data", {}) for output in outputs)


@each
def test_its_links_and_commands_exist(path: Path) -> None:
    """What the reader is sent to is there, and every command it names is one of ours."""
    for cell in cells_of(path, "markdown"):
        for link in re.findall(r"\]\(([^)]+)\)", cell["source"]):
            assert (path.parent / link).is_file(), link
        for line in re.findall(r"`(jobplaybook [^`]+)`", cell["source"]):
            assert_command(shlex.split(line)[1:])


def assert_command(words: list[str]) -> None:
    """Assert that the words name a command, and that it has each option among them."""
    assert words[0] in COMMANDS, words
    context = click.Context(cli)
    command = cli.get_command(context, words.pop(0))
    while isinstance(command, click.Group):
        command = command.get_command(context, words.pop(0))
    assert command is not None
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("-")} <= known, words


def test_start_here_leads_to_every_runbook() -> None:
    """Whatever the verdict is, the table has a row for it."""
    table = cells_of(START_HERE, "markdown")[-2]["source"]
    assert set(re.findall(r"runbooks/([a-z-]+)\.md", table)) == set(CODES)


# That their outputs are true


def nbval(path: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Compare a notebook with its stored outputs, as `make test` does, from another folder."""
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
            "--nbval", "--nbval-current-env", "--nbval-cell-timeout=60", path,
        ],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@each
def test_its_outputs_are_what_it_finds(path: Path, tmp_path: Path) -> None:
    """Run again, twice, in another zone, language and folder, it finds what is stored."""
    for zone, language in (("Asia/Kathmandu", "C"), ("America/St_Johns", "tr_TR.UTF-8")):
        done = nbval(path, tmp_path, TZ=zone, LC_ALL=language, PYTHONHASHSEED="7")
        assert done.returncode == 0, done.stdout + done.stderr


CHANGES = {
    "a number on the screen": (r"901 jobs", "902 jobs"),
    "a table's cell": (r"2 min 30 s", "2 min 31 s"),
    "a picture's number": (r"at most 41, 8", "at most 42, 8"),
    "the result": (r'"content_sha256": "[0-9a-f]', '"content_sha256": "x'),
}


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    """The comparison bites: each stored number that is changed fails its own cell."""
    text = START_HERE.read_text()
    for old, new in CHANGES.values():
        assert re.search(old, text), old
        text = re.sub(old, new, text)
    changed = tmp_path / "changed.ipynb"
    changed.write_text(text)
    done = nbval(changed, tmp_path)
    failed = set(re.findall(r"^FAILED \S+::(Cell \d+)", done.stdout, re.MULTILINE))
    assert done.returncode == 1
    assert len(failed) >= len(CHANGES), done.stdout


# That they run elsewhere: see test_regression.py; and what they say where they cannot


@each
def test_it_says_so_when_its_source_is_nothing(path: Path, tmp_path: Path) -> None:
    """A run on a time before the capture fails in the open, not with an empty page."""
    ran = jp.run_notebook(
        path, output=tmp_path / "out.ipynb", parameters={"now": "2020-01-01T00:00:00Z"}
    )
    assert ran.status == "failed"
    assert "InputError" in ran.message
