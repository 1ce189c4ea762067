"""``jobplaybook run``: a notebook, executed without a browser."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import (
    OUTPUT_FILE,
    POSITIVE_DURATION,
    emit,
    json_option,
    keep_option,
    source_argument,
    warn,
)
from jobplaybook.commands._live import capture_options, live_options, progress_bar
from jobplaybook.errors import InputError
from jobplaybook.units import duration_text, iso, plain, shown

_NOT_COMPLETED = 5


@click.command(name="run")
@click.argument("notebook", metavar="NOTEBOOK")
@source_argument
@click.option(
    "-p",
    "--parameter",
    "parameters",
    type=(str, str),
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter of the notebook; may be given several times.",
)
@click.option("-o", "--out", type=OUTPUT_FILE, required=True, help="The notebook to write.")
@click.option("--html", type=OUTPUT_FILE, help="The report to write.")
@click.option(
    "--cell-timeout",
    type=POSITIVE_DURATION,
    default="10m",
    show_default=True,
    help="A cell that runs longer ends the run.",
)
@live_options
@keep_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, notebook: str, source: str, as_json: bool, **given: Any) -> int:
    """A notebook, executed without a browser; OUT.result.json is written beside OUT.ipynb.

    NOTEBOOK is a name (00-start-here), a number (00) or a file. A live SOURCE is captured once.

    \b
    Example: jobplaybook run 00-start-here env:JOBS_DATABASE_URL -o out.ipynb --html report.html
    Example: jobplaybook run 00 sample -o start.ipynb -p since 1h
    """  # noqa: D301
    from jobplaybook.api import run_notebook

    parameters = _parameters(ctx, given)
    options = capture_options(given)
    with progress_bar() as progress:
        ran = run_notebook(
            notebook,
            source,
            output=given["out"],
            parameters=parameters,
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
    return 0 if ran.status == "completed" else _NOT_COMPLETED


def _parameters(ctx: click.Context, given: dict[str, Any]) -> dict[str, str]:
    """Return the notebook's parameters: those of -p, and --now and --since where they are given."""
    found = dict(given["parameters"])
    if len(found) < len(given["parameters"]):
        raise InputError("a parameter is given twice: leave one -p out")
    seconds = given["since"]
    whole = int(seconds) if seconds == int(seconds) else seconds
    texts = {"now": iso(given["now"]), "since": f"{whole}s"}
    for name, text in texts.items():
        if ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT or text is None:
            continue
        if name in found:
            raise InputError(f"{shown(name)} is given twice, as --{name} and by -p: leave one out")
        found[name] = text
    return found


def lines(ran: Any) -> list[str]:
    """Return the lines for people: how it ended, and where what it wrote is."""
    took = duration_text(ran.seconds)
    if ran.status == "completed":
        said = [f"completed in {took}", *(_finding(f) for f in ran.findings[:1])]
    else:
        said = [
            f"{ran.status} after {took}: {plain(ran.message)}",
            "what was written is incomplete: do not act on it",
        ]
    written = [("notebook", ran.output), ("report", ran.html), ("result", ran.result)]
    return said + [f"{name:<9} {path}" for name, path in written if path is not None]


def _finding(finding: dict[str, Any]) -> str:
    return f"{finding['severity'].upper():<9} {finding['code']}: {plain(finding['sentence'])}"
