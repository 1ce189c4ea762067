"""``jobplaybook health``: age, rates and headroom of every queue."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import (
    POSITIVE_DURATION,
    emit,
    json_option,
    keep_option,
    source_argument,
    until_option,
)
from jobplaybook.commands._live import capture_options, live_options, progress_bar


@click.command(name="health")
@source_argument
@click.option("--queue", metavar="Q", help="One queue alone.")
@click.option("--bucket", type=POSITIVE_DURATION, help="Width of the series' buckets, such as 1m.")
@live_options
@until_option
@keep_option
@json_option
def command(source: str, as_json: bool, **given: Any) -> None:
    """Age, rates, headroom of every queue.

    \b
    Example: jobplaybook health sample --bucket 10s
    """  # noqa: D301
    from jobplaybook.api import health

    options = capture_options(given)
    with progress_bar() as progress:
        answer = health(
            source,
            queue=given["queue"],
            bucket_seconds=given["bucket"],
            now=given["now"],
            since_seconds=given["since"],
            until=given["until"],
            options=options,
            keep=given["keep"],
            key_file=given["key_file"],
            progress=progress,
        )
    emit(answer.to_json(), as_json, str(answer).split("\n"))
