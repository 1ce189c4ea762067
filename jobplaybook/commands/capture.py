"""``jobplaybook capture``: a live database into a snapshot."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import OUTPUT_FILE, emit, json_option, source_argument, warn
from jobplaybook.commands._live import capture_options, live_options, progress_bar


@click.command(name="capture")
@source_argument
@click.option("-o", "--out", type=OUTPUT_FILE, required=True, help="The snapshot to write.")
@live_options
@click.option("--keep-text", is_flag=True, help="Keep tenants and keys readable, not hashed.")
@json_option
def command(source: str, as_json: bool, **given: Any) -> None:
    """A live database into a snapshot, gently.

    Short read-only transactions, within a budget; payloads and error texts stay out.

    \b
    Example: jobplaybook capture env:JOBS_DATABASE_URL -o incident.db --tenant-path args.tenant
    """  # noqa: D301
    from jobplaybook.api import capture

    options = capture_options(given)
    with progress_bar() as progress:
        report = capture(
            source,
            given["out"],
            options=options,
            key_file=given["key_file"],
            keep_text=given["keep_text"],
            progress=progress,
        )
    for warning in report.warnings:
        warn(warning)
    emit(report.to_json(), as_json, _lines(report))


def _lines(report: Any) -> list[str]:
    from shlex import quote

    from jobplaybook.units import count_text, iso, plain

    by_status = ", ".join(f"{plain(k)} {n:,}" for k, n in sorted(report.rows_by_status.items()))
    lines = [
        f"{count_text(report.rows['jobs'], 'job')} of {report.system} {report.system_version} "
        f"in {report.file}",
        f"as of {iso(report.captured_from)} .. {iso(report.captured_to)}; {by_status or 'no jobs'}",
    ]
    lines += [f"not read: {name}: {why}" for name, why in report.not_read.items()]
    return [*lines, f"next: jobplaybook triage {quote(report.file)}"]
