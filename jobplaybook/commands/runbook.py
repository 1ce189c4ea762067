"""``jobplaybook runbook``: what a finding means and how to act, from this installation."""

from __future__ import annotations

import click

from jobplaybook.commands._common import TEXT, emit, json_option


@click.command(name="runbook")
@click.argument("code", type=TEXT, metavar="CODE")
@json_option
def command(code: str, as_json: bool) -> None:
    """What a finding means and how to act: its runbook, as text.

    \b
    Example: jobplaybook runbook lease-expired
    """  # noqa: D301
    from jobplaybook.api import runbook_path

    text = runbook_path(code).read_text(encoding="utf-8")
    emit({"code": code, "text": text}, as_json, text.splitlines())
