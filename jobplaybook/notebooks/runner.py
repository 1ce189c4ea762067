"""Runs a planned notebook, cleans what came of it, and writes it whole or not at all."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobplaybook.clock import Clock
from jobplaybook.errors import InputError
from jobplaybook.notebooks.kernel import NO_KERNEL, Ending, run_cells
from jobplaybook.notebooks.plan import BANNER, INJECTED, Plan
from jobplaybook.notebooks.result import RunResult
from jobplaybook.notebooks.subject import Subject
from jobplaybook.report import readable, report_html
from jobplaybook.units import plain, shown

_PACKAGES = ("ipykernel", "matplotlib", "pandas", "papermill", "sqlalchemy")
_PASSWORDS = (
    (re.compile(r"(://[^\s/@:'\"]*):[^\s'\"]*@"), r"\1:***@"),
    (re.compile(r"(\bpass\w*\s*=\s*)[^\s,;)]+", re.IGNORECASE), r"\1***"),
)
_MOST_LETTERS = 100_000
Clean = Callable[[str], str]


def execute(
    plan: Plan,
    subject: Subject,
    *,
    cell_seconds: float,
    clock: Clock,
    tool_version: str,
) -> RunResult:
    """Run a planned notebook on a snapshot and write what came of it.

    Parameters
    ----------
    plan : Plan
        From `jobplaybook.notebooks.plan_run`.
    subject : Subject
        What the notebook reads.
    cell_seconds : float
        A cell that runs longer ends the run.
    clock : Clock
        Times the run.
    tool_version : str
        Our own version, for the record.
    """
    begun = clock.monotonic()
    given = {"source": subject.source, **plan.values}
    # A value that is the default already needs no cell of its own.
    injected = {name: value for name, value in given.items() if value != plan.defaults[name]}
    # Ports of kernels that start at the same moment may collide: one more try costs little.
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="jobplaybook-") as folder:
            ran, ending = run_cells(
                plan.notebook,
                injected=injected,
                folder=Path(folder),
                cell_seconds=cell_seconds,
                hidden=subject.hidden,
            )
        if ending != NO_KERNEL:
            break
    notebook = json.loads(json.dumps(ran))
    seconds = clock.monotonic() - begun
    return conclude(plan, subject, notebook, ending, seconds=seconds, tool_version=tool_version)


def conclude(
    plan: Plan,
    subject: Subject,
    ran: Mapping[str, Any],
    ending: Ending,
    *,
    seconds: float,
    tool_version: str,
) -> RunResult:
    """Clean what came of a run, and write it whole or not at all."""
    # The file of a capture that is not kept is gone by now: what it stands for is written.
    clean = _cleaner({subject.source: subject.label} if subject.is_passing else {})
    ending = (ending[0], plain(" ".join(clean(ending[1]).split()))[:400])
    notebook = _cleaned(ran, ending, clean)
    document = _document(plan, subject, notebook, ending)
    document["versions"] = {"jobplaybook": tool_version, **_versions()}
    _write_all(plan, notebook, document)
    return RunResult(
        status=ending[0],
        message=ending[1],
        output=plan.output,
        result=plan.result,
        html=plan.html,
        seconds=seconds,
        document=document,
        warnings=subject.notes,
    )


def _cleaner(instead: Mapping[str, str]) -> Clean:
    """Return what takes passwords out of a text, and replaces the names of files that are gone."""

    def clean(text: str) -> str:
        for name, other in instead.items():
            text = text.replace(name, other)
        text = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "\n... cut here\n"
        for secret, mask in _PASSWORDS:
            text = secret.sub(mask, text)
        return text

    return clean


def _cleaned(notebook: Mapping[str, Any], ending: Ending, clean: Clean) -> dict[str, Any]:
    """Take out what differs from run to run or names this machine; put the banner on top."""
    cells = []
    for cell in notebook["cells"]:
        metadata = cell["metadata"]
        metadata.pop("papermill", None)
        metadata.pop("execution", None)
        if INJECTED in metadata.get("tags", ()):
            cell["id"] = INJECTED
            cell["source"] = clean(cell["source"])
        cell["outputs"] = [_cleaned_output(output, clean) for output in cell.get("outputs", ())]
        if cell["cell_type"] != "code":
            del cell["outputs"]
        cells.append(cell)
    if ending[0] != "completed":
        cells.insert(0, _banner(ending))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cleaned_output(output: dict[str, Any], clean: Clean) -> dict[str, Any]:
    """Clean every text of an output; pictures are no text."""
    if output["output_type"] == "stream":
        return {**output, "text": clean(output["text"])}
    if output["output_type"] == "error":
        lines = clean("\n".join(output["traceback"])).split("\n")
        return {**output, "evalue": clean(output["evalue"]), "traceback": lines}
    texts = {
        kind: clean(value) if isinstance(value, str) and not kind.startswith("image/") else value
        for kind, value in output["data"].items()
    }
    return {**output, "data": texts}


def _banner(ending: Ending) -> dict[str, Any]:
    status, message = ending
    text = (
        f"**This run did not complete: {status}.** What follows is incomplete: do not act on it."
        f"\n\n    {readable(message)}\n"  # indented: whatever an error said stays text
    )
    return {"cell_type": "markdown", "id": BANNER, "metadata": {"tags": [BANNER]}, "source": text}


def _document(
    plan: Plan, subject: Subject, notebook: dict[str, Any], ending: Ending
) -> dict[str, Any]:
    label = plain(subject.label)
    return {
        "notebook": plan.name,
        "status": ending[0],
        "message": ending[1],
        "source": label,
        "parameters": {**plan.defaults, **plan.values, "source": label},
        "snapshot": {
            "system": plain(subject.system),
            "captured_at": subject.captured_at,
            "content_sha256": subject.content_sha256,
        },
        "result": _last_result(notebook["cells"]) if ending[0] == "completed" else None,
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    python = ".".join(str(part) for part in sys.version_info[:3])
    return {"python": python, **{name: version(name) for name in _PACKAGES}}


def _last_result(cells: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the object that the last code cell shows, or None where it shows none."""
    last = [cell for cell in cells if cell["cell_type"] == "code"][-1]
    shown_objects = [o["data"].get("application/json") for o in last["outputs"] if "data" in o]
    return next((found for found in shown_objects if isinstance(found, dict)), None)


def _write_all(plan: Plan, notebook: dict[str, Any], document: dict[str, Any]) -> None:
    made = [
        (plan.output, _as_file(notebook)),
        (plan.result, json.dumps(document, indent=2, ensure_ascii=False)),
    ]
    if plan.html is not None:
        made.append((plan.html, report_html(notebook["cells"], document)))
    _write_whole({path: text + "\n" for path, text in made})


def _as_file(notebook: dict[str, Any]) -> str:
    """Return a notebook as JupyterLab would save it."""
    import nbformat

    node, writes = nbformat.from_dict(notebook), nbformat.writes  # type: ignore[no-untyped-call]
    return str(writes(node)).rstrip("\n")  # type: ignore[no-untyped-call]


def _write_whole(texts: Mapping[Path, str]) -> None:
    """Write files whole or not at all: none is put in place before all of them are written."""
    drafts = {path: path.with_name(f".{path.name}.{secrets.token_hex(4)}") for path in texts}
    path = next(iter(texts))
    try:
        for path, text in texts.items():
            # a lone surrogate in a job's text must not cost the whole report
            drafts[path].write_bytes(text.encode("utf-8", errors="replace"))
        for path, draft in drafts.items():
            os.replace(draft, path)
    except OSError as error:
        raise InputError(
            f"expected to write {shown(str(path), 200)}, the file system refused: {error.strerror}"
        ) from None
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
