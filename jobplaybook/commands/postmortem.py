"""``jobplaybook postmortem``: the document at the end of an incident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobplaybook.commands._source import Said, source_argument, source_command, until_option
from jobplaybook.commands.run import (
    cell_timeout_option,
    exit_code,
    lines,
    out_option,
    parameter_option,
    parameters_of,
)


@source_command("postmortem")
@source_argument
@out_option("The folder to write to; other files in it stay as they are.")
@parameter_option
@cell_timeout_option
@until_option
def command(
    source: str, *, out: Path, parameters: Any, now: int | None, since: float, until: int | None,
    **more: Any,
) -> Said:  # fmt: skip
    """One document at the end: what happened, whom it hit, what is left to do.

    Writes postmortem.ipynb, report.html and result.json, all or none. A live SOURCE is captured
    once.

    \b
    Example: jobplaybook postmortem incident.db -o postmortem --since 4h
    Example: jobplaybook postmortem sample -o pm -p events '[["2026-12-01T04:37:40Z", "deploy"]]'
    """  # noqa: D301
    from jobplaybook.api import postmortem

    asked = parameters_of(parameters, now=now, since=since, until=until)
    ran = postmortem(source, folder=out, parameters=asked, **more)
    document = {"dir": str(out), "verdict": ran.verdict, **ran.to_json()}
    return Said(document, lines(ran), ran.warnings, exit_code(ran))
