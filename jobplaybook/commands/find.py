"""``jobplaybook find``: which jobs a ticket is about."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import TEXT, option
from jobplaybook.commands._source import Said, source_argument, source_command


@source_command("find")
@source_argument
@option("--key", TEXT, "A business (idempotency) key.")
@option("--tenant", TEXT, "A tenant.")
@option("--provider-id", TEXT, "The id an upstream gave.")
@option("--delivery", TEXT, "The id of a webhook delivery.")
@option("--job", TEXT, "A job id.")
def command(source: str, *, now: int | None, how: Any, since: float, **given: str | None) -> Said:
    """Which jobs a ticket is about.

    Keys and tenants are hashed here where the snapshot holds hashes.

    \b
    Example: jobplaybook find sample --tenant t3
    """  # noqa: D301
    from jobplaybook.api import find

    asked = [(by, value) for by, value in given.items() if value is not None]
    if len(asked) != 1:
        raise click.UsageError(
            "expected one of --key, --tenant, --provider-id, --delivery and --job, "
            f"found {len(asked)} of them"
        )
    ((by, value),) = asked
    answer = find(source, by=by, value=value, now=now, how=how)
    return Said(answer.to_json(), _lines(answer))


def _lines(answer: Any) -> list[str]:
    from jobplaybook.units import count_text, duration_text, plain

    notes = [f"Note: {plain(warning)}" for warning in answer.warnings]
    if not answer.jobs:
        return [f"No job found; looked through {answer.looked_through}.", *notes]
    lines = [f"{'job':<12}  {'type':<24}  {'state':<11}  {'layer':<8}  age"]
    for job in answer.jobs:
        kind = plain(job.job_type or "-")
        lines.append(
            f"{plain(job.id):<12}  {kind:<24}  {job.state:<11}  {job.layer:<8}  "
            f"{duration_text(job.age_seconds)}"
        )
    more = answer.total - len(answer.jobs)
    return [*lines, *([f"and {count_text(more, 'older job')}"] if more else []), *notes]
