"""``jobplaybook timeline``: one job across the layers."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import TEXT, Kind
from jobplaybook.commands._source import Said, source_argument, source_command
from jobplaybook.errors import InputError
from jobplaybook.units import parse_time, shown


def _outside_event(text: str) -> tuple[int, str]:
    time, _, words = text.partition("=")
    if not words.strip():
        raise InputError(
            f"expected TIME=TEXT, like 2026-12-01T03:40:00Z=deploy 412, found {shown(text)}"
        )
    return parse_time(time), words.strip()


@source_command("timeline")
@source_argument
@click.argument("job_id", type=TEXT, metavar="JOB_ID")
@click.option(
    "--event",
    "events",
    type=Kind("TIME=TEXT", _outside_event),
    multiple=True,
    help="A deploy, a flag, an outage: told in its place.",
)
def command(source: str, job_id: str, *, since: float, **asked: Any) -> Said:
    """One job across the layers, in events and plain words.

    \b
    Example: jobplaybook timeline sample 319 --event 2026-12-01T04:37:40Z="node drained"
    """  # noqa: D301
    from jobplaybook.api import timeline

    answer = timeline(source, job_id, **asked)
    return Said(answer.to_json(), str(answer).split("\n"))
