"""``jobplaybook simulate``: what happens if."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from jobplaybook.commands._common import TEXT, emit, json_option, option, whole_number
from jobplaybook.errors import InputError


@click.command(name="simulate")
@click.argument("scenario", type=TEXT, metavar="SCENARIO.toml", required=False)
@click.option("--example", is_flag=True, help="Print a commented scenario, and nothing else.")
@option(
    "--replications",
    whole_number(1, 1_000_000),
    "Runs, each with random numbers of its own.",
    default=200,
    metavar="N",
)
@option("--seed", whole_number(0), "The same seed gives the same numbers.", default=0, metavar="S")
@click.option(
    "--engine",
    type=click.Choice(["auto", "buckets", "event-loop"]),
    default="auto",
    show_default=True,
    help="buckets: fast, for simple scenarios; event-loop: everything.",
)
@json_option
def command(
    scenario: str | None, example: bool, replications: int, seed: int, engine: str, as_json: bool
) -> None:
    """What happens in a scenario: time to drain, calls, ages, dead letters.

    \b
    Example: jobplaybook simulate --example > what-if.toml
             jobplaybook simulate what-if.toml
    """  # noqa: D301
    from jobplaybook.simulation.example import EXAMPLE

    if example:
        click.echo(EXAMPLE, nl=False)
        return
    if scenario is None:
        raise InputError("expected a scenario, found none: jobplaybook simulate --example")
    from pathlib import Path

    from jobplaybook.simulation import Scenario, simulate

    what_if = Scenario.from_toml(Path(scenario))
    with _progress(replications) as progress:
        answer = simulate(
            what_if,
            replications=replications,
            seed=seed,
            engine=engine,
            progress=progress,
        )
    emit(answer.to_json(), as_json, str(answer).splitlines())


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show how many runs are done on stderr, where a person looks at it."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="run", leave=False, file=sys.stderr) as bar:
        yield bar.update
