"""``jobplaybook find``: which jobs a ticket is about."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import emit, json_option, keep_option, source_argument
from jobplaybook.commands._live import capture_options, live_options, progress_bar

_BY = ("key", "tenant", "provider_id", "delivery", "job")


@click.command(name="find")
@source_argument
@click.option("--key", help="A business (idempotency) key.")
@click.option("--tenant", help="A tenant.")
@click.option("--provider-id", help="The id an upstream gave.")
@click.option("--delivery", help="The id of a webhook delivery.")
@click.option("--job", help="A job id.")
@live_options
@keep_option
@json_option
def command(source: str, as_json: bool, **given: Any) -> None:
    """Which jobs a ticket is about.

    Keys and tenants are hashed here where the snapshot holds hashes.

    \b
    Example: jobplaybook find sample --tenant t3
    """  # noqa: D301
    from jobplaybook.api import find

    asked = [(by, given[by]) for by in _BY if given[by] is not None]
    if len(asked) != 1:
        raise click.UsageError(
            "expected one of --key, --tenant, --provider-id, --delivery and --job, "
            f"found {len(asked)} of them"
        )
    options = capture_options(given)
    with progress_bar() as progress:
        answer = find(
            source,
            by=asked[0][0],
            value=asked[0][1],
            now=given["now"],
            options=options,
            keep=given["keep"],
            key_file=given["key_file"],
            progress=progress,
        )
    emit(answer.to_json(), as_json, _lines(answer))


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
    if more:
        lines.append(f"and {count_text(more, 'older job')}")
    return [*lines, *notes]
