"""``jobplaybook postmortem``: the document at the end of an incident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobplaybook.commands._common import (
    emit,
    json_option,
    keep_option,
    source_argument,
    until_option,
    warn,
)
from jobplaybook.commands._live import capture_options, live_options, progress_bar
from jobplaybook.commands._notebook import (
    cell_timeout_option,
    exit_code,
    lines,
    parameter_option,
    parameters_of,
)


@click.command(name="postmortem")
@source_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder to write to; other files in it stay as they are.",
)
@parameter_option
@cell_timeout_option
@live_options
@until_option
@keep_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, source: str, as_json: bool, **given: Any) -> int:
    """One document at the end: what happened, whom it hit, what is left to do.

    Writes postmortem.ipynb, report.html and result.json, all or none. A live SOURCE is captured
    once.

    \b
    Example: jobplaybook postmortem incident.db -o postmortem --since 4h
    Example: jobplaybook postmortem sample -o pm -p events '[["2026-12-01T04:37:40Z", "deploy"]]'
    """  # noqa: D301
    from jobplaybook.api import postmortem

    parameters = parameters_of(ctx, given)
    options = capture_options(given)
    with progress_bar() as progress:
        ran = postmortem(
            source,
            folder=given["out"],
            parameters=parameters,
            cell_seconds=given["cell_timeout"],
            options=options,
            keep=given["keep"],
            key_file=given["key_file"],
            progress=progress,
        )
    for warning in ran.warnings:
        warn(warning)
    document = {"dir": str(given["out"]), "verdict": ran.verdict, **ran.to_json()}
    emit(document, as_json, lines(ran))
    return exit_code(ran)
