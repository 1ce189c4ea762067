"""``jobplaybook capture``: a live database into a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from jobplaybook.commands._common import OUTPUT_FILE
from jobplaybook.commands._source import Said, source_argument, source_command


@source_command("capture", keeps=False)
@source_argument
@click.option("-o", "--out", type=OUTPUT_FILE, required=True, help="The snapshot to write.")
@click.option("--keep-text", is_flag=True, help="Keep tenants and keys readable, not hashed.")
def command(source: str, *, out: Path, how: Any, keep_text: bool, **window: Any) -> Said:
    """A live database into a snapshot, gently.

    Short read-only transactions, within a budget; payloads and error texts stay out.

    \b
    Example: jobplaybook capture env:JOBS_DATABASE_URL -o incident.db --tenant-path args.tenant
    """  # noqa: D301
    from jobplaybook.api import capture

    report = capture(
        source,
        out,
        options=how.capture,
        key_file=how.key_file,
        keep_text=keep_text,
        progress=how.progress,
    )
    return Said(report.to_json(), _lines(report), report.warnings)


def _lines(report: Any) -> Iterator[str]:
    from shlex import quote

    from jobplaybook.units import count_text, iso, plain

    by_status = ", ".join(f"{plain(k)} {n:,}" for k, n in sorted(report.rows_by_status.items()))
    jobs = count_text(report.rows["jobs"], "job")
    yield f"{jobs} of {report.system} {report.system_version} in {report.file}"
    looked = f"{iso(report.captured_from)} .. {iso(report.captured_to)}"
    yield f"as of {looked}; {by_status or 'no jobs'}"
    yield from (f"not read: {name}: {why}" for name, why in report.not_read.items())
    # a name that begins with - would be read as an option
    file = f"./{report.file}" if report.file.startswith("-") else report.file
    yield f"next: jobplaybook triage {quote(file)}"
