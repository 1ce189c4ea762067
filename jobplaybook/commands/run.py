"""``jobplaybook run``: a notebook, or all of them, executed without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobplaybook.commands._common import (
    OUTPUT_FILE,
    PositiveInt,
    emit,
    json_option,
    keep_option,
    source_argument,
    warn,
)
from jobplaybook.commands._live import capture_options, live_options, progress_bar
from jobplaybook.commands._notebook import (
    cell_timeout_option,
    exit_code,
    line,
    lines,
    parameter_option,
    parameters_of,
    runs_bar,
)
from jobplaybook.errors import InputError

_ALL = "all"
_MOST_JOBS = 64


@click.command(name="run")
@click.argument("notebook", metavar="NOTEBOOK")
@source_argument
@parameter_option
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The notebook to write; for all of them, a folder.",
)
@click.option("--html", type=OUTPUT_FILE, help="The report to write; all of them write theirs.")
@click.option(
    "--jobs",
    type=PositiveInt(high=_MOST_JOBS),
    help="With all: how many run at once [default: as many as there are cores].",
)
@cell_timeout_option
@live_options
@keep_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, notebook: str, source: str, as_json: bool, **given: Any) -> int:
    """A notebook, executed without a browser; OUT.result.json is written beside OUT.ipynb.

    NOTEBOOK is a name (00-start-here), a number (00), a file, or all. A live SOURCE is captured
    once, for all of them too.

    \b
    Example: jobplaybook run 00-start-here env:JOBS_DATABASE_URL -o out.ipynb --html report.html
    Example: jobplaybook run 00 sample -o start.ipynb -p since 1h
    Example: jobplaybook run all sample -o incident
    """  # noqa: D301
    given["parameters"] = parameters_of(ctx, given)
    if notebook == _ALL:
        return _run_all(source, as_json, given)
    if given["jobs"] is not None:
        raise InputError("--jobs is for `run all`: a notebook alone is one job, leave it out")
    return _run_one(notebook, source, as_json, given)


def _run_one(notebook: str, source: str, as_json: bool, given: dict[str, Any]) -> int:
    from jobplaybook.api import run_notebook

    options = capture_options(given)
    with progress_bar() as progress:
        ran = run_notebook(
            notebook,
            source,
            output=given["out"],
            parameters=given["parameters"],
            html=given["html"],
            cell_seconds=given["cell_timeout"],
            options=options,
            keep=given["keep"],
            key_file=given["key_file"],
            progress=progress,
        )
    for warning in ran.warnings:
        warn(warning)
    emit(ran.to_json(), as_json, lines(ran))
    return exit_code(ran)


def _run_all(source: str, as_json: bool, given: dict[str, Any]) -> int:
    from jobplaybook.api import run_all

    if given["html"] is not None:
        raise InputError("with all, every notebook's report is written beside it: leave --html out")
    options = capture_options(given)
    with progress_bar() as progress, runs_bar() as tell:
        runs = run_all(
            source,
            folder=given["out"],
            parameters=given["parameters"],
            jobs=given["jobs"],
            cell_seconds=given["cell_timeout"],
            options=options,
            keep=given["keep"],
            key_file=given["key_file"],
            progress=progress,
            tell=tell,
        )
    for warning in runs[0].warnings if runs else ():
        warn(warning)
    said = [*(line(ran) for ran in runs), f"notebooks, reports and results are in {given['out']}"]
    emit({"dir": str(given["out"]), "runs": [ran.to_json() for ran in runs]}, as_json, said)
    return exit_code(*runs)
