"""``jobplaybook sources``: the queue systems understood, and what each can tell."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import emit, json_option


@click.command(name="sources")
@json_option
def command(as_json: bool) -> None:
    """The queue systems understood, and what each can tell.

    \b
    Example: jobplaybook sources
    """  # noqa: D301
    from jobplaybook.api import sources

    found = sources()
    emit({"sources": found}, as_json, [line for source in found for line in _lines(source)])


def _lines(source: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{v['range']} (verified by {v['verified']})" for v in source["versions"])
    lines = [f"{source['name']} {versions} on {' and '.join(source['databases'])}"]
    for quality in ("exact", "bound", "inferred", "absent"):
        names = [
            f["fact"] for f in source["facts"] if f["quality"] == quality and f["state"] == "live"
        ]
        if names:
            lines.append(f"  {quality:<9}{', '.join(names).replace('_', ' ')}")
    sweeps = source["sweeper"] or "nobody, unless a task of yours does"
    return [*lines, f"  sweeps expired leases: {sweeps}", ""]
