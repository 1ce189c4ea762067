"""``jobplaybook triage``: the verdict on one screen."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._source import Said, source_argument, source_command, until_option


@source_command("triage")
@source_argument
@until_option
@click.option(
    "--fail-on",
    type=click.Choice(["page", "ticket"]),
    help="Exit 1 if a finding is at least this severe, or the verdict is unknown.",
)
def command(source: str, *, fail_on: str | None, since: float, **asked: Any) -> Said:
    """The verdict on one screen: which layer, since when, whom it hits, what next.

    A live SOURCE is captured first, within its budget.

    \b
    Example: jobplaybook triage env:JOBS_DATABASE_URL --tenant-path args.tenant
    Example: jobplaybook triage sample
    """  # noqa: D301
    from jobplaybook.api import triage
    from jobplaybook.model import Severity

    answer = triage(source, since_seconds=since, **asked)
    is_met = fail_on is not None and (
        # who asks a script whether all is well must not take "cannot tell" for yes
        answer.verdict.code == "unknown"
        or any(finding.severity >= Severity[fail_on.upper()] for finding in answer.findings)
    )
    return Said(answer.to_json(), str(answer).split("\n"), code=int(is_met))
