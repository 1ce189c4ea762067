"""Notebooks without a browser: one, all of them on one snapshot, or the postmortem."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobplaybook.clock import SystemClock
from jobplaybook.cohort import no_queue
from jobplaybook.connect import resolve
from jobplaybook.errors import InputError
from jobplaybook.notebooks.plan import Plan, plan_all, plan_run
from jobplaybook.notebooks.result import RunResult
from jobplaybook.notebooks.runner import Subject, Tell, execute, execute_all
from jobplaybook.opening import AS_IT_IS, Opening, open_snapshot
from jobplaybook.queries import lookup
from jobplaybook.snapshot.file import Snapshot
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
    how: Opening = AS_IT_IS,
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
        Where ``output`` is the notebook itself, only a completed run replaces it: any other goes
        beside it, as ``OUT.failed.ipynb`` or however it ended.
    parameters : Mapping, optional
        Values of its parameters; text is read in the type of the default.
    cell_seconds : float
        A cell that runs longer ends the run.

    Raises
    ------
    JobPlaybookError
        As `open_snapshot`, and for what `jobplaybook.notebooks.plan.plan_run` refuses.
    """
    plan = plan_run(notebook, parameters=parameters or {}, output=output, html=html)
    with _subject([plan], source, how) as subject:
        return execute(plan, subject, cell_seconds=cell_seconds)


def run_all(
    source: str | Snapshot = "sample",
    *,
    folder: str | Path,
    notebooks: Sequence[str | Path] | None = None,
    parameters: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    cell_seconds: float = 600.0,
    how: Opening = AS_IT_IS,
    tell: Tell = lambda name, ended, total: None,
) -> list[RunResult]:
    """Run notebooks on one snapshot, several at once, each in a process of its own.

    Parameters
    ----------
    source, cell_seconds, how
        As in `run_notebook`; a live source is captured once for all of them.
    folder : str or Path
        Where ``NAME.ipynb``, ``NAME.html`` and ``NAME.result.json`` go; made if missing.
    notebooks : sequence of str or Path, optional
        By default all that are bundled.
    parameters : Mapping, optional
        Each notebook gets those that it has; one that none of them has is refused.
    jobs : int, optional
        How many run at once; by default as many as this process has cores.
    tell : callable
        Is told the name of each that has ended, how many have, and of how many.
    """
    with _folder(folder) as place:
        plans = plan_all(place, parameters=parameters or {}, names=notebooks)
        with _subject(plans, source, how) as subject:
            return execute_all(
                plans, subject, jobs=jobs or cores(), cell_seconds=cell_seconds, tell=tell
            )


def postmortem(
    source: str | Snapshot = "sample",
    *,
    folder: str | Path,
    parameters: Mapping[str, Any] | None = None,
    cell_seconds: float = 600.0,
    how: Opening = AS_IT_IS,
) -> RunResult:
    """Write the document at the end: ``postmortem.ipynb``, ``report.html`` and ``result.json``.

    They go to ``folder``, all or none; other files there stay as they are. The parameters are the
    notebook's, such as ``since``, ``until`` and ``events``; the rest is as in `run_notebook`.
    """
    with _folder(folder) as place:
        plan = plan_run(
            POSTMORTEM,
            parameters=parameters or {},
            output=place / "postmortem.ipynb",
            html=place / "report.html",
            result=place / "result.json",
        )
        with _subject([plan], source, how) as subject:
            return execute(plan, subject, cell_seconds=cell_seconds)


@contextmanager
def _subject(plans: Sequence[Plan], source: str | Snapshot, how: Opening) -> Iterator[Subject]:
    """Give the snapshot that serves every plan; a live source is captured once, and hidden."""
    now = to_micros(SystemClock().now())
    windows = [plan.window(how.capture, now=now) for plan in plans]
    widest = max(windows, key=lambda window: window.since_seconds, default=how.capture)
    with open_snapshot(source, replace(how, capture=widest)) as snapshot:
        if snapshot.lease_seconds is not None:
            raise InputError(
                "expected --lease with a live SOURCE only, found a snapshot: a notebook opens it "
                "by itself; leave --lease out, or capture again with it"
            )
        _check_queues(plans, snapshot)
        live = isinstance(source, str) and resolve(source).kind != "snapshot"
        is_named = isinstance(source, str) and source.startswith("env:")
        yield Subject(
            snapshot=snapshot,
            source="sample" if source == "sample" else str(snapshot.path.absolute()),
            hidden=(str(source).removeprefix("env:"),) if live and is_named else (),
            is_passing=live and how.keep is None,
        )


def _check_queues(plans: Sequence[Plan], snapshot: Snapshot) -> None:
    """Refuse a queue that the snapshot does not hold, before any kernel starts."""
    asked = {str(q) for p in plans if p.is_bundled and (q := p.values.get("queue")) is not None}
    if asked:
        known = [name for (name,) in snapshot.rows(lookup.queue_names())]
        for queue in asked.difference(known):
            raise InputError(no_queue(queue, known))


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can say
        return os.cpu_count() or 1


@contextmanager
def _folder(folder: str | Path) -> Iterator[Path]:
    """Give a folder to write to, made if missing; one that stays empty is taken away again."""
    path, named = Path(folder), shown(str(folder), 200)
    is_new = not path.exists()
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError:
        raise InputError(f"expected a folder, found the file {named}") from None
    except OSError as error:
        raise InputError(
            f"expected a folder, or a name for one in a folder that exists, found {named}: "
            f"{error.strerror}"
        ) from None
    try:
        yield path
    finally:
        if is_new:
            with suppress(OSError):  # it holds something
                path.rmdir()
