"""What the commands share that run notebooks: parameters, and lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jobplaybook.commands._common import POSITIVE_DURATION
from jobplaybook.errors import InputError
from jobplaybook.units import duration_text, iso, plain, shown

if TYPE_CHECKING:
    from jobplaybook.notebooks.result import RunResult

NOT_COMPLETED = 5

parameter_option = click.option(
    "-p",
    "--parameter",
    "parameters",
    type=(str, str),
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter of the notebook; may be given several times.",
)
cell_timeout_option = click.option(
    "--cell-timeout",
    "cell_seconds",
    type=POSITIVE_DURATION,
    default="10m",
    show_default=True,
    help="A cell that runs longer ends the run.",
)


def exit_code(*runs: RunResult) -> int:
    """Return 0 where all of them completed."""
    return 0 if all(ran.status == "completed" for ran in runs) else NOT_COMPLETED


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
