"""``jobplaybook triage``: the verdict on one screen."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import (
    emit,
    json_option,
    keep_option,
    source_argument,
    until_option,
)
from jobplaybook.commands._live import capture_options, live_options, progress_bar


@click.command(name="triage")
@source_argument
@live_options
@until_option
@keep_option
@click.option(
    "--fail-on",
    type=click.Choice(["page", "ticket"]),
    help="Exit 1 if a finding is at least this severe.",
)
@json_option
def command(source: str, as_json: bool, **given: Any) -> int:
    """The verdict on one screen: which layer, since when, whom it hits, what next.

    A live SOURCE is captured first, within its budget.

    \b
    Example: jobplaybook triage env:JOBS_DATABASE_URL --tenant-path args.tenant
    Example: jobplaybook triage sample
    """  # noqa: D301
    from jobplaybook.api import triage

    options = capture_options(given)
    with progress_bar() as progress:
        answer = triage(
            source,
            now=given["now"],
            since_seconds=given["since"],
            until=given["until"],
            options=options,
            keep=given["keep"],
            key_file=given["key_file"],
            progress=progress,
        )
    emit(answer.to_json(), as_json, str(answer).split("\n"))
    return _exit_code(answer, given["fail_on"])


def _exit_code(answer: Any, fail_on: str | None) -> int:
    if fail_on is None:
        return 0
    from jobplaybook.model import Severity

    least = Severity[fail_on.upper()]
    return int(any(finding.severity >= least for finding in answer.findings))
