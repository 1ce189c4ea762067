"""Notebooks of a few cells that tests run, and how they run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import jobplaybook as jp
from jobplaybook.commands import cli
from jobplaybook.notebooks.result import RunResult

CANARY = "s3cret-canary"
URL = f"postgresql://ann:{CANARY}@db.example/jobs"
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
