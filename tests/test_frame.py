"""Laws of the whole repository: what it exports, imports, names and commits."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import jobplaybook
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "jobplaybook"
MOST_LINES = 400
MOST_NOTEBOOK_BYTES = 300_000
SLOW_TO_IMPORT = ("IPython", "matplotlib", "numpy", "pandas", "papermill", "psycopg", "sqlalchemy")
# Folders whose files count before they are committed; elsewhere only what git tracks does.
OURS = ("jobplaybook", "tests", "notebooks", "runbooks", "sample_data", "benchmarks", ".ci")
# Written so that this file does not match its own law.
FOREIGN = (
    re.compile(r"(?<![\w./+~])/(?:[w]ork|[f]arm|[r]oot)\b|(?<![\w.])/[t]mp/\w"),
    re.compile(r"\.\./[s]hared\b"),
    re.compile(r"(?:py[p]i|npm[j]s|deb[i]an|crates|rubygems)\.(?:org|com|io)|python[h]osted"),
)


def git_files(*arguments: str) -> list[Path]:
    # a checkout of another user's is trusted for this one question
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *arguments]
    try:
        listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout: these laws are about what is committed")
    paths = (REPOSITORY / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


def committed(suffix: str = "") -> list[Path]:
    """Return what is committed, or would be, in a settled order."""
    waiting = git_files("--others", "--exclude-standard", "--", *OURS)
    return sorted({p for p in (*git_files(), *waiting) if p.name.endswith(suffix)})


def relative(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


# What a user imports


def test_public_names_exist_and_are_sorted() -> None:
    """Every public name can be had, and __all__ is in order and without doubles."""
    names = list(getattr(jobplaybook, "__all__", ()))
    assert names == sorted(set(names))
    assert [name for name in names if not hasattr(jobplaybook, name)] == []
    assert names or not (PACKAGE / "api.py").exists(), (
        "api.py has functions, the package shows none"
    )


def test_public_names_are_documented() -> None:
    """What is exported says what it is."""
    names = getattr(jobplaybook, "__all__", ())
    public = {name: getattr(jobplaybook, name) for name in names}
    assert [n for n, value in public.items() if callable(value) and not value.__doc__] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A lazy package refuses what it does not have as any other does."""
    name = "no_such_name"
    with pytest.raises(AttributeError, match=name):
        getattr(jobplaybook, name)


def loaded_by(code: str) -> set[str]:
    """Return the slow packages that a fresh Python has loaded after ``code``."""
    program = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split()) & set(SLOW_TO_IMPORT)


def test_importing_the_package_loads_nothing_slow() -> None:
    """``import jobplaybook`` costs what Python itself costs."""
    assert loaded_by("import jobplaybook") == set()
    assert loaded_by("import sqlite3, sqlalchemy") == {"sqlalchemy"}


def command_modules() -> list[str]:
    folder = PACKAGE / "commands"
    found = pkgutil.iter_modules([str(folder)]) if folder.is_dir() else ()
    return [f"jobplaybook.commands.{module.name}" for module in found]


def test_defining_the_commands_loads_nothing_slow() -> None:
    """``jobplaybook --help`` answers before anything heavy is imported."""
    modules = command_modules()
    assert loaded_by("\n".join(f"import {name}" for name in modules)) == set()


# What the modules may hold


def imported_names(source: str) -> Iterator[str]:
    """Yield the full names of the modules that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def beyond_the_standard_library(source: str) -> list[str]:
    """Return what a measure imports though it may not."""
    allowed = {*sys.stdlib_module_names, "jobplaybook.errors", "jobplaybook.measures"}
    names = ((name, name.split(".")) for name in imported_names(source))
    return [name for name, parts in names if not {parts[0], ".".join(parts[:2])} & allowed]


def test_measures_need_only_the_standard_library() -> None:
    """Closed forms run wherever Python runs; they import each other and the errors, no more."""
    modules = [*PACKAGE.glob("measures.py"), *PACKAGE.glob("measures/*.py")]
    assert modules, "expected jobplaybook.measures"
    found = {relative(path): beyond_the_standard_library(path.read_text()) for path in modules}
    assert {name: imports for name, imports in found.items() if imports} == {}


def test_the_import_law_bites() -> None:
    """An import inside a function is seen as well."""
    source = "import math\ndef f():\n    from numpy.linalg import norm\n    import pandas as pd\n"
    assert beyond_the_standard_library(source) == ["numpy.linalg", "pandas"]


def test_no_module_outgrows_its_room() -> None:
    """A module of more than 400 lines has a wall somewhere that nobody built."""
    sizes = {relative(path): len(path.read_text().splitlines()) for path in committed(".py")}
    assert {name: lines for name, lines in sizes.items() if lines > MOST_LINES} == {}


def foreign_words(text: str) -> list[str]:
    return [found.group() for law in FOREIGN for found in law.finditer(text)]


def test_no_file_names_a_place_of_its_making() -> None:
    """Nothing depends on one machine's folders or on where packages come from."""
    files = committed()
    assert files, "expected files to look at"
    found = {
        relative(path): words
        for path in files
        if (words := foreign_words(path.read_bytes().decode("latin-1")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "open('/{}/main/a.db')".format("work"),
        "HOME=/{}".format("root"),
        "?host=/{}/pg".format("tmp"),
        "see ..{}/STYLE.md".format("/shared"),
        "https://{}.org/simple".format("pypi"),
    ],
)
def test_the_law_of_places_bites(text: str) -> None:
    """Each kind of foreign word is seen."""
    assert foreign_words(text)


def test_the_law_of_places_spares_the_rest() -> None:
    """Web addresses, relative paths and the bare temporary folder are nobody's machine."""
    assert (
        foreign_words("https://a.example/work notebooks/work a/root.py /tmp /worker ./tmp/x") == []
    )


# What the notebooks must show


def ends_in_expression(source: str) -> bool:
    """Say whether the last statement of a cell is an expression, whose value is shown."""
    body = ast.parse(source).body
    return bool(body) and isinstance(body[-1], ast.Expr)


def cell_faults(cell: Mapping[str, Any], place: int) -> Iterator[str]:
    """Yield what is wrong with the ``place``-th code cell of an executed notebook."""
    source, outputs = "".join(cell["source"]), cell["outputs"]
    if cell["execution_count"] != place:
        yield f"execution count {cell['execution_count']}, expected {place}"
    if ends_in_expression(source) and not outputs:
        yield "shows nothing"
    if any(output["output_type"] == "error" for output in outputs):
        yield "stopped with an error"
    if any(output.get("name") == "stderr" for output in outputs):
        yield "wrote to standard error"


def notebook_faults(notebook: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a notebook that should have been executed in one go."""
    cells: Sequence[Mapping[str, Any]] = notebook["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    faults = [
        f"code cell {place}: {fault}"
        for place, cell in enumerate(code, start=1)
        for fault in cell_faults(cell, place)
    ]
    return faults if any(cell["outputs"] for cell in code) else [*faults, "no cell has an output"]


def test_committed_notebooks_carry_their_outputs() -> None:
    """Who reads a notebook on the web sees what it found, run once from top to bottom."""
    faults = {
        relative(path): found
        for path in committed(".ipynb")
        if (found := notebook_faults(json.loads(path.read_text())))
    }
    assert faults == {}


def test_committed_notebooks_are_small() -> None:
    """A notebook opens at once, also over a slow line."""
    sizes = {relative(path): path.stat().st_size for path in committed(".ipynb")}
    assert {name: size for name, size in sizes.items() if size > MOST_NOTEBOOK_BYTES} == {}


def code_cell(count: int | None, source: str, *outputs: Mapping[str, str]) -> dict[str, Any]:
    """Return a code cell as a notebook file holds it."""
    return {
        "cell_type": "code",
        "execution_count": count,
        "source": source,
        "outputs": list(outputs),
    }


SHOWN = {"output_type": "execute_result"}


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ([code_cell(1, "x"), code_cell(2, "y", SHOWN)], "code cell 1: shows nothing"),
        ([code_cell(1, "x = 1")], "no cell has an output"),
        ([code_cell(None, "x", SHOWN)], "code cell 1: execution count None, expected 1"),
        ([code_cell(1, "x", SHOWN), code_cell(3, "y", SHOWN)], "code cell 2: execution count 3"),
        ([code_cell(1, "x", {"output_type": "error"})], "code cell 1: stopped with an error"),
        (
            [code_cell(1, "x", {"output_type": "stream", "name": "stderr"})],
            "code cell 1: wrote to standard error",
        ),
    ],
)
def test_the_law_of_notebooks_bites(cells: list[dict[str, Any]], fault: str) -> None:
    """Each kind of unfinished notebook is named."""
    assert any(found.startswith(fault) for found in notebook_faults({"cells": cells}))


def test_the_law_of_notebooks_accepts_a_finished_one() -> None:
    """Cells that only set something up need no output."""
    text = {"cell_type": "markdown", "source": "# Why"}
    cells = [text, code_cell(1, "import math"), code_cell(2, "math.pi", SHOWN)]
    assert notebook_faults({"cells": cells}) == []
