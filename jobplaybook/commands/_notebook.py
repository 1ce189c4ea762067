"""What the commands share that run notebooks: parameters, and lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from jobplaybook.commands._common import POSITIVE_DURATION
from jobplaybook.errors import InputError
from jobplaybook.units import duration_text, iso, plain, shown

if TYPE_CHECKING:
    from jobplaybook.notebooks import RunResult

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
    type=POSITIVE_DURATION,
    default="10m",
    show_default=True,
    help="A cell that runs longer ends the run.",
)


def exit_code(*runs: RunResult) -> int:
    """Return 0 where all of them completed."""
    return 0 if all(ran.status == "completed" for ran in runs) else NOT_COMPLETED


def parameters_of(ctx: click.Context, given: dict[str, Any]) -> dict[str, str]:
    """Return the notebook's parameters: those of -p, and --now, --since and --until if given."""
    found = dict(given["parameters"])
    if len(found) < len(given["parameters"]):
        raise InputError("a parameter is given twice: leave one -p out")
    seconds = given["since"]
    whole = int(seconds) if seconds == int(seconds) else seconds
    texts = {"now": iso(given["now"]), "since": f"{whole}s", "until": iso(given.get("until"))}
    for name, text in texts.items():
        if ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT or text is None:
            continue
        if name in found:
            raise InputError(f"{shown(name)} is given twice, as --{name} and by -p: leave one out")
        found[name] = text
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


def line(ran: RunResult) -> str:
    """Return one line for people about one of several runs."""
    how = f"{ran.status} in {duration_text(ran.seconds)}"
    if ran.status != "completed":
        how += f": {plain(ran.message)}; do not act on it"
    return f"{ran.output.stem:<20} {how}"


def _finding(finding: dict[str, Any]) -> str:
    word = "OK" if finding["code"] == "healthy" else finding["severity"].upper()
    return f"{word:<9} {finding['code']}: {plain(finding['sentence'])}"


@contextmanager
def runs_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show notebooks as they end, on stderr, where a person is watching."""
    import sys

    if not sys.stderr.isatty():
        yield lambda name, ended, total: None
        return
    from tqdm import tqdm

    with tqdm(unit=" notebooks", leave=False, desc="running", file=sys.stderr) as bar:

        def tell(name: str, ended: int, total: int) -> None:
            bar.total = total
            bar.update()
            bar.set_description(f"ended {name}")

        yield tell
