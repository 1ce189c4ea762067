"""``jobplaybook run``: a notebook, or all of them, executed without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobplaybook.commands._common import (
    ANY_TEXT,
    OUTPUT,
    OUTPUT_FILE,
    POSITIVE_DURATION,
    TEXT,
    option,
    whole_number,
)
from jobplaybook.commands._source import Said, source_argument, source_command
from jobplaybook.errors import InputError
from jobplaybook.units import duration_text, iso, plain, shown

if TYPE_CHECKING:
    from jobplaybook.notebooks.result import RunResult

_ALL = "all"
_MOST_JOBS = 64
_NOT_COMPLETED = 5

parameter_option = click.option(
    "-p",
    "--parameter",
    "parameters",
    type=(TEXT, ANY_TEXT),
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter of the notebook; may be given several times.",
)
out_option = partial(option, "-o", OUTPUT, to="--out", required=True)
cell_timeout_option = option(
    "--cell-timeout",
    POSITIVE_DURATION,
    "A cell that runs longer ends the run.",
    to="cell_seconds",
    default="10m",
)


@source_command("run")
@click.argument("notebook", type=TEXT, metavar="NOTEBOOK")
@source_argument
@parameter_option
@out_option("The notebook to write; for all of them, a folder.")
@option("--html", OUTPUT_FILE, "The report to write; all of them write theirs.")
@click.option(
    "--jobs",
    type=whole_number(1, _MOST_JOBS),
    help="With all: how many run at once [default: as many as there are cores].",
)
@cell_timeout_option
def command(
    notebook: str, source: str, *, out: Path, html: Path | None, jobs: int | None, parameters: Any,
    now: int | None, since: float, **more: Any,
) -> Said:  # fmt: skip
    """A notebook, executed without a browser; OUT.result.json is written beside OUT.ipynb.

    NOTEBOOK is a name (00-start-here), a number (00), a file, or all. A live SOURCE is captured
    once, for all of them too. A run that does not complete never replaces NOTEBOOK itself.

    \b
    Example: jobplaybook run 00-start-here env:JOBS_DATABASE_URL -o out.ipynb --html report.html
    Example: jobplaybook run 00 sample -o start.ipynb -p since 1h
    Example: jobplaybook run all sample -o incident
    """  # noqa: D301
    from jobplaybook.api import run_all, run_notebook

    more["parameters"] = parameters_of(parameters, now=now, since=since)
    if notebook == _ALL:
        if html is not None:
            raise InputError(
                "with all, every notebook's report is written beside it: leave --html out"
            )
        with _notebooks_bar() as tell:
            return _said(out, run_all(source, folder=out, jobs=jobs, tell=tell, **more))
    if jobs is not None:
        raise InputError("--jobs is for `run all`: a notebook alone is one job, leave it out")
    ran = run_notebook(notebook, source, output=out, html=html, **more)
    return Said(ran.to_json(), lines(ran), ran.warnings, exit_code(ran))


def _said(folder: Path, runs: list[RunResult]) -> Said:
    document = {"dir": str(folder), "runs": [ran.to_json() for ran in runs]}
    said = [_line(ran) for ran in runs] + [f"notebooks, reports and results are in {folder}"]
    return Said(document, said, runs[0].warnings if runs else (), exit_code(*runs))


def _line(ran: RunResult) -> str:
    how = f"{ran.status} in {duration_text(ran.seconds)}"
    if ran.status != "completed":
        how += f": {plain(ran.message)}; do not act on it"
    return f"{ran.output.stem:<20} {how}"


def exit_code(*runs: RunResult) -> int:
    """Return 0 where all of them completed."""
    return 0 if all(ran.status == "completed" for ran in runs) else _NOT_COMPLETED


def parameters_of(parameters: tuple[tuple[str, str], ...], **window: Any) -> dict[str, str]:
    """Return the notebook's parameters: those of -p, and --now, --since and --until if given."""
    found = dict(parameters)
    if len(found) < len(parameters):
        raise InputError("a parameter is given twice: leave one -p out")
    given = click.get_current_context().get_parameter_source
    for name, value in window.items():
        if value is None or given(name) is click.core.ParameterSource.DEFAULT:
            continue
        if name in found:
            raise InputError(f"{shown(name)} is given twice, as --{name} and by -p: leave one out")
        found[name] = f"{value:.15g}s" if name == "since" else str(iso(value))
    return found


def lines(ran: RunResult) -> list[str]:
    """Return the lines for people: how it ended, and where what it wrote is."""
    took = duration_text(ran.seconds)
    if ran.status == "completed":
        first = [ran.verdict] if ran.verdict else ran.findings[:1]
        said = [f"completed in {took}", *(_finding(f) for f in first)]
    else:
        said = [
            f"{ran.status} after {took}: {plain(ran.message)}",
            "what was written is incomplete: do not act on it",
        ]
    written = [("notebook", ran.output), ("report", ran.html), ("result", ran.result)]
    return said + [f"{name:<9} {path}" for name, path in written if path is not None]


def _finding(finding: dict[str, Any]) -> str:
    word = "OK" if finding["code"] == "healthy" else finding["severity"].upper()
    return f"{word:<9} {finding['code']}: {plain(finding['sentence'])}"


@contextmanager
def _notebooks_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show notebooks as they end, on stderr, where a person is watching."""
    from tqdm import tqdm

    with tqdm(unit=" notebooks", leave=False, desc="running", disable=None) as bar:

        def tell(name: str, ended: int, total: int) -> None:
            bar.total = total
            bar.update()
            bar.set_description(f"ended {name}")

        yield tell
