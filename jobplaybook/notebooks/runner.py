"""Runs a planned notebook, cleans what came of it, and writes it whole or not at all."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jobplaybook import __version__
from jobplaybook.errors import InputError
from jobplaybook.notebooks.crew import run_apart
from jobplaybook.notebooks.kernel import Ending, Ran, run_cells
from jobplaybook.notebooks.plan import BANNER, INJECTED, Plan
from jobplaybook.notebooks.result import RunResult
from jobplaybook.report import readable, report_html
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import iso, plain, shown

_PACKAGES = ("ipykernel", "matplotlib", "pandas", "papermill", "sqlalchemy")
_PASSWORDS = (
    (re.compile(r"(://[^\s/@:'\"]*):[^\s'\"]*@"), r"\1:***@"),
    (re.compile(r"(\bpass\w*\s*=\s*)[^\s,;)]+", re.IGNORECASE), r"\1***"),
)
_MOST_LETTERS = 100_000
_OUR_REPORT = b'<p class="kicker">jobplaybook'
Clean = Callable[[str], str]
Tell = Callable[[str, int, int], None]
"""Is told which notebook has ended, how many have, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The snapshot that the runs of one command share, and as which ``source`` notebooks get it."""

    snapshot: Snapshot
    source: str
    hidden: tuple[str, ...] = ()
    """Environment variables that no kernel must see: they lead to the live database."""
    is_passing: bool = False
    """Whether the file is gone after the run: then nothing written may name it."""


def execute(plan: Plan, subject: Subject, *, cell_seconds: float) -> RunResult:
    """Run a planned notebook on a snapshot and write what came of it."""
    return _conclude(plan, subject, run_cells(**_order(plan, subject, cell_seconds)))


def execute_all(
    plans: Sequence[Plan], subject: Subject, *, jobs: int, cell_seconds: float, tell: Tell
) -> list[RunResult]:
    """Run planned notebooks on one snapshot, so many at a time; results in the plans' order."""
    orders = [_order(plan, subject, cell_seconds) for plan in plans]
    ended: dict[int, RunResult] = {}
    with closing(run_apart(orders, jobs=jobs)) as runs:
        for place, ran in runs:
            ended[place] = _conclude(plans[place], subject, ran)
            tell(plans[place].name, len(ended), len(plans))
    return [ended[place] for place in range(len(plans))]


def _order(plan: Plan, subject: Subject, cell_seconds: float) -> dict[str, Any]:
    given = {"source": subject.source, **plan.values}
    return {
        "notebook": plan.notebook,
        # A value that is the default already needs no cell of its own.
        "injected": {name: value for name, value in given.items() if value != plan.defaults[name]},
        "cell_seconds": cell_seconds,
        "hidden": subject.hidden,
    }


def _conclude(plan: Plan, subject: Subject, ran: Ran) -> RunResult:
    """Clean what came of a run, and write it whole or not at all."""
    # The file of a capture that is not kept is gone by now: what it stands for is written.
    gone = subject.source if subject.is_passing else subject.snapshot.label
    clean: Clean = lambda text: _cleaned_text(text.replace(gone, subject.snapshot.label))  # noqa: E731
    status, message = ran.ending[0], plain(" ".join(clean(ran.ending[1]).split()))[:400]
    notebook = _cleaned(ran.notebook, (status, message), clean)
    document = _document(plan, subject.snapshot, notebook, (status, message))
    output, html = plan.output_of(status), plan.html or _stale_report(plan, status)
    texts = {output: _as_file(notebook)}
    texts[plan.result] = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if html is not None:
        texts[html] = report_html(notebook["cells"], document) + "\n"
    _write_whole(texts)
    return RunResult(
        status=status,
        message=message,
        output=output,
        result=plan.result,
        html=html,
        seconds=ran.seconds,
        document=document,
        warnings=subject.snapshot.notes,
    )


def _stale_report(plan: Plan, status: str) -> Path | None:
    """Return an earlier run's report that would look valid beside one that did not complete."""
    if status == "completed" or plan.output_of(status) != plan.output:
        return None  # that run's notebook stays too
    path = plan.output.with_suffix(".html")
    try:
        return path if _OUR_REPORT in path.read_bytes() else None
    except OSError:  # there is none
        return None


def _cleaned_text(text: str) -> str:
    """Take passwords out of a text, and cut what nobody will read."""
    text = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "\n... cut here\n"
    for secret, mask in _PASSWORDS:
        text = secret.sub(mask, text)
    return text


def _cleaned_output(output: Mapping[str, Any], clean: Clean) -> Any:
    if output["output_type"] == "error":  # one text in lines, cut as one
        output = {**output, "traceback": clean("\n".join(output["traceback"])).split("\n")}
    return _everywhere(output, clean)


def _everywhere(value: Any, clean: Clean) -> Any:
    """Return an output with every text in it cleaned; pictures are no text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_everywhere(item, clean) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key.startswith("image/") else _everywhere(item, clean)
            for key, item in value.items()
        }
    return value


def _cleaned(notebook: Mapping[str, Any], ending: Ending, clean: Clean) -> dict[str, Any]:
    """Take out what differs from run to run or names this machine; put the banner on top."""
    cells = [] if ending[0] == "completed" else [_banner(ending)]
    for cell in notebook["cells"]:
        metadata = cell["metadata"]
        kept = {key: metadata[key] for key in metadata if key not in ("papermill", "execution")}
        made = {**cell, "metadata": kept}
        if INJECTED in metadata.get("tags", ()):
            made |= {"id": INJECTED, "source": clean(cell["source"])}
        if cell["cell_type"] == "code":
            made["outputs"] = [_cleaned_output(output, clean) for output in cell["outputs"]]
        cells.append(made)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _banner(ending: Ending) -> dict[str, Any]:
    status, message = ending
    text = (
        f"**This run did not complete: {status}.** What follows is incomplete: do not act on it."
        f"\n\n    {readable(message)}\n"  # indented: whatever an error said stays text
    )
    return {"cell_type": "markdown", "id": BANNER, "metadata": {"tags": [BANNER]}, "source": text}


def _document(
    plan: Plan, snapshot: Snapshot, notebook: dict[str, Any], ending: Ending
) -> dict[str, Any]:
    label = plain(snapshot.label)
    python = ".".join(str(part) for part in sys.version_info[:3])
    packages = {name: version(name) for name in _PACKAGES}
    return {
        "notebook": plan.name,
        "status": ending[0],
        "message": ending[1],
        "source": label,
        "parameters": {**plan.defaults, **plan.values, "source": label},
        "snapshot": {
            "system": plain(snapshot.system),
            "captured_at": str(iso(snapshot.captured_at)),
            "content_sha256": snapshot.meta["content_sha256"],
        },
        "result": _last_result(notebook["cells"]) if ending[0] == "completed" else None,
        "versions": {"jobplaybook": __version__, "python": python, **packages},
    }


def _last_result(cells: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the object that the last code cell shows, or None where it shows none."""
    last = [cell for cell in cells if cell["cell_type"] == "code"][-1]
    shown_objects = [o["data"].get("application/json") for o in last["outputs"] if "data" in o]
    return next((found for found in shown_objects if isinstance(found, dict)), None)


def _as_file(notebook: dict[str, Any]) -> str:
    """Return a notebook as JupyterLab would save it."""
    import nbformat

    node, writes = nbformat.from_dict(notebook), nbformat.writes  # type: ignore[no-untyped-call]
    return str(writes(node)).rstrip("\n") + "\n"  # type: ignore[no-untyped-call]


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
