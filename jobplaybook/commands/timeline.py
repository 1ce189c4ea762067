"""``jobplaybook timeline``: one job across the layers."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import TIME, emit, json_option, keep_option, source_argument
from jobplaybook.commands._live import capture_options, live_options, progress_bar


class _OutsideEvent(click.ParamType):  # type: ignore[type-arg]
    """``TIME=TEXT``: something that happened outside the queue."""

    name = "TIME=TEXT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, str]:
        """Return the time in microseconds UTC and the text."""
        if isinstance(value, tuple):
            return value
        time, equals, text = str(value).partition("=")
        if not equals or not text.strip():
            self.fail("expected TIME=TEXT, like 2026-12-01T03:40:00Z=deploy 412", param, ctx)
        return TIME.convert(time, param, ctx), text.strip()


@click.command(name="timeline")
@source_argument
@click.argument("job_id", metavar="JOB_ID")
@click.option(
    "--event",
    "events",
    type=_OutsideEvent(),
    multiple=True,
    help="A deploy, a flag, an outage: told in its place.",
)
@live_options
@keep_option
@json_option
def command(source: str, job_id: str, as_json: bool, **given: Any) -> None:
    """One job across the layers, in events and plain words.

    \b
    Example: jobplaybook timeline sample 319 --event 2026-12-01T04:37:40Z="node drained"
    """  # noqa: D301
    from jobplaybook.api import timeline

    options = capture_options(given)
    with progress_bar() as progress:
        answer = timeline(
            source,
            job_id,
            now=given["now"],
            events=given["events"],
            options=options,
            keep=given["keep"],
            key_file=given["key_file"],
            progress=progress,
        )
    emit(answer.to_json(), as_json, str(answer).split("\n"))
