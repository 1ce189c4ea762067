"""``jobplaybook health``: age, rates and headroom of every queue."""

from __future__ import annotations

from typing import Any

from jobplaybook.commands._common import POSITIVE_DURATION, TEXT, option
from jobplaybook.commands._source import Said, source_argument, source_command, until_option


@source_command("health")
@source_argument
@option("--queue", TEXT, "One queue alone.", metavar="Q")
@option("--bucket", POSITIVE_DURATION, "Width of the series' buckets, such as 1m.")
@until_option
def command(source: str, *, bucket: float | None, since: float, **asked: Any) -> Said:
    """Age, rates, headroom of every queue.

    \b
    Example: jobplaybook health sample --bucket 10s
    """  # noqa: D301
    from jobplaybook.api import health

    answer = health(source, bucket_seconds=bucket, since_seconds=since, **asked)
    return Said(answer.to_json(), str(answer).split("\n"))
