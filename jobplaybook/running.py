"""Notebooks without a browser: one, all of them on one snapshot, or the postmortem."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jobplaybook import __version__
from jobplaybook.clock import SystemClock
from jobplaybook.errors import InputError
from jobplaybook.notebooks import (
    Plan,
    RunResult,
    execute,
    execute_all,
    plan_all,
    plan_run,
    subject_of,
)
from jobplaybook.notebooks.crew import Tell
from jobplaybook.opening import SILENT, open_snapshot
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.snapshot.options import CaptureOptions, Progress
from jobplaybook.units import shown, to_micros

POSTMORTEM = "10-postmortem"
"""The notebook of the document at the end."""


def run_notebook(
    notebook: str | Path,
    source: str | Snapshot = "sample",
    *,
    output: str | Path,
    parameters: Mapping[str, Any] | None = None,
    html: str | Path | None = None,
    cell_seconds: float = 600.0,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = SILENT,
) -> RunResult:
    """Run a notebook without a browser; its result is written beside it.

    Parameters
    ----------
    notebook : str or Path
        A bundled one by its name or number (``00-start-here``, ``00``), or a file.
    source : str or Snapshot
        What it reads; a live one is captured once, and the notebook gets the snapshot.
    output, html : str or Path
        The executed notebook, ``OUT.ipynb``, and the report; ``OUT.result.json`` comes with them.
    parameters : Mapping, optional
        Values of its parameters; text is read in the type of the default.
    cell_seconds : float
        A cell that runs longer ends the run.

    Raises
    ------
    JobPlaybookError
        As `open_snapshot`, and for what `jobplaybook.notebooks.plan_run` refuses.
    """
    plan = plan_run(notebook, parameters=parameters or {}, output=output, html=html)
    how: dict[str, Any] = {"keep": keep, "key_file": key_file, "progress": progress}
    return _run(plan, source, cell_seconds=cell_seconds, options=options, how=how)


def _run(
    plan: Plan,
    source: str | Snapshot,
    *,
    cell_seconds: float,
    options: CaptureOptions | None,
    how: Mapping[str, Any],
) -> RunResult:
    asked = _asked([plan], options)
    with open_snapshot(source, options=asked, **how) as snapshot:
        return execute(
            plan,
            subject_of(snapshot, source, kept=how["keep"] is not None),
            cell_seconds=cell_seconds,
            clock=SystemClock(),
            tool_version=__version__,
        )


def run_all(
    source: str | Snapshot = "sample",
    *,
    folder: str | Path,
    notebooks: Sequence[str | Path] | None = None,
    parameters: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    cell_seconds: float = 600.0,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = SILENT,
    tell: Tell = lambda name, ended, total: None,
) -> list[RunResult]:
    """Run notebooks on one snapshot, several at once, each in a process of its own.

    Parameters
    ----------
    source : str or Snapshot
        What they read; a live one is captured once for all of them.
    folder : str or Path
        Where ``NAME.ipynb``, ``NAME.html`` and ``NAME.result.json`` go; made if missing.
    notebooks : sequence of str or Path, optional
        By default all that are bundled.
    parameters : Mapping, optional
        Each notebook gets those that it has.
    jobs : int, optional
        How many run at once; by default as many as this process has cores.
    cell_seconds : float
        A cell that runs longer ends its run.
    tell : callable
        Is told the name of each that has ended, how many have, and of how many.

    Raises
    ------
    JobPlaybookError
        As `run_notebook`; a parameter is unknown if no notebook has it.
    """
    with _folder(folder) as place:
        plans = plan_all(place, parameters=parameters or {}, names=notebooks)
        asked = _asked(plans, options)
        with open_snapshot(
            source, options=asked, keep=keep, key_file=key_file, progress=progress
        ) as snapshot:
            return execute_all(
                plans,
                subject_of(snapshot, source, kept=keep is not None),
                jobs=jobs or cores(),
                cell_seconds=cell_seconds,
                tool_version=__version__,
                tell=tell,
            )


def postmortem(
    source: str | Snapshot = "sample",
    *,
    folder: str | Path,
    parameters: Mapping[str, Any] | None = None,
    cell_seconds: float = 600.0,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = SILENT,
) -> RunResult:
    """Write the document at the end: ``postmortem.ipynb``, ``report.html`` and ``result.json``.

    Parameters
    ----------
    source : str or Snapshot
        What it is about; a live one is captured once.
    folder : str or Path
        Where the three files go, all or none; other files there stay as they are.
    parameters : Mapping, optional
        Values of the notebook's parameters, such as ``since``, ``until`` and ``events``.
    cell_seconds : float
        A cell that runs longer ends the run.

    Raises
    ------
    JobPlaybookError
        As `run_notebook`.
    """
    with _folder(folder) as place:
        plan = plan_run(
            POSTMORTEM,
            parameters=parameters or {},
            output=place / "postmortem.ipynb",
            html=place / "report.html",
            result=place / "result.json",
        )
        how: dict[str, Any] = {"keep": keep, "key_file": key_file, "progress": progress}
        return _run(plan, source, cell_seconds=cell_seconds, options=options, how=how)


def _asked(plans: Sequence[Plan], options: CaptureOptions | None) -> CaptureOptions:
    """Return how a live source is captured, so that it serves every plan."""
    given = options or CaptureOptions()
    now = to_micros(SystemClock().now())
    windows = [plan.window(given, now=now) for plan in plans]
    return max(windows, key=lambda window: window.since_seconds, default=given)


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can say
        return os.cpu_count() or 1


@contextmanager
def _folder(folder: str | Path) -> Iterator[Path]:
    """Give a folder to write to, made if missing; one that stays empty is taken away again."""
    path = Path(folder)
    try:
        path.mkdir()
        is_new = True
    except FileExistsError:
        is_new = False
    except OSError as error:
        raise InputError(
            f"expected a folder, or a name for one in a folder that exists, found "
            f"{shown(str(path), 200)}: {error.strerror}"
        ) from None
    if not path.is_dir():
        raise InputError(f"expected a folder, found the file {shown(str(path), 200)}")
    try:
        yield path
    finally:
        if is_new:
            with suppress(OSError):  # it holds something
                path.rmdir()
