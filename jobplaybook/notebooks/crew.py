"""Several notebooks at once: each in a process of our own, never in threads.

A process is a fresh interpreter that is told what to run over a pipe, so that nothing of the
caller's program is imported again. It stands in a session of its own: Ctrl-C reaches only the
caller, who passes it on and waits until every kernel is gone.
"""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from jobplaybook.errors import InputError
from jobplaybook.notebooks.kernel import Ending
from jobplaybook.notebooks.plan import Plan
from jobplaybook.notebooks.result import RunResult
from jobplaybook.notebooks.runner import conclude
from jobplaybook.notebooks.subject import Subject

Tell = Callable[[str, int, int], None]
"""Is told which notebook has ended, how many have, and of how many."""
_COMMAND = (sys.executable, "-m", "jobplaybook.notebooks.worker")
_PATIENCE_SECONDS = 10.0


def execute_all(
    plans: Sequence[Plan],
    subject: Subject,
    *,
    jobs: int,
    cell_seconds: float,
    tool_version: str,
    tell: Tell = lambda name, ended, total: None,
) -> list[RunResult]:
    """Run planned notebooks on one snapshot, so many at a time; results in the plans' order.

    Parameters
    ----------
    plans : sequence of Plan
        From `jobplaybook.notebooks.plan_all`.
    subject : Subject
        The snapshot that all of them read.
    jobs : int
        How many run at once.
    cell_seconds : float
        A cell that runs longer ends its run.
    tool_version : str
        Our own version, for the record.
    tell : callable
        Is told of each that has ended.

    Raises
    ------
    InputError
        If an output cannot be written.
    """
    more = {"cell_seconds": cell_seconds, "tool_version": tool_version, "subject": asdict(subject)}
    asked = deque((n, {**more, "plan": plan.to_json()}) for n, plan in enumerate(plans))
    ended: dict[int, RunResult] = {}
    with _crew() as crew:
        for _ in range(min(jobs, len(plans))):
            crew.hire(*asked.popleft())
        while len(ended) < len(plans):
            for worker in crew.ready():
                place, plan, answer = worker.place, plans[worker.place], worker.answer()
                if answer is None:
                    ended[place] = _lost(plan, subject, worker, tool_version)
                elif "refused" in answer:
                    raise InputError(answer["refused"])
                else:
                    ended[place] = RunResult.load(answer)
                tell(plan.name, len(ended), len(plans))
                if not asked:
                    crew.dismiss(worker)
                elif answer is None:
                    crew.dismiss(worker)
                    crew.hire(*asked.popleft())
                else:
                    worker.ask(*asked.popleft())
    return [ended[place] for place in range(len(plans))]


def _lost(plan: Plan, subject: Subject, worker: _Worker, tool_version: str) -> RunResult:
    """Write what can be said of a run whose process is gone."""
    code = worker.process.wait()
    said = f"the process that ran it ended with exit code {code}: run it alone to see why"
    if code < 0:
        said = (
            f"the process that ran it died (signal {-code}): out of memory, or killed from outside"
        )
    ending: Ending = ("killed", said)
    fresh = [
        {**cell, "outputs": [], "execution_count": None} if cell["cell_type"] == "code" else cell
        for cell in plan.notebook["cells"]
    ]
    ran = {**plan.notebook, "cells": fresh}
    return conclude(plan, subject, ran, ending, seconds=0.0, tool_version=tool_version)


@dataclass(slots=True)
class _Worker:
    """One process, and which of the runs it has in hand."""

    process: subprocess.Popen[bytes]
    place: int = -1

    def ask(self, place: int, run: dict[str, Any]) -> None:
        assert self.process.stdin is not None, "it was started with a pipe"
        self.place = place
        with suppress(BrokenPipeError):  # it died: its silence tells
            self.process.stdin.write(json.dumps(run).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """Return its answer, or None where it died without one."""
        assert self.process.stdout is not None, "it was started with a pipe"
        line = self.process.stdout.readline()
        found: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return found


class _Crew:
    """The processes of one command."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []

    def hire(self, place: int, run: dict[str, Any]) -> None:
        """Start a process and give it a run."""
        process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # how a run ended is said by its result
            start_new_session=True,
        )
        worker = _Worker(process)
        self._workers.append(worker)
        self._selector.register(process.stdout or 0, selectors.EVENT_READ, worker)
        worker.ask(place, run)

    def ready(self) -> list[_Worker]:
        """Wait until some have something to say, and return them."""
        return [key.data for key, _ in self._selector.select()]

    def dismiss(self, worker: _Worker) -> None:
        """Let a process go that has nothing more to do."""
        self._selector.unregister(worker.process.stdout or 0)
        with suppress(BrokenPipeError):
            if worker.process.stdin is not None:
                worker.process.stdin.close()

    def end(self) -> None:
        """End all of them: those at work stop their kernels and take back what is half written."""
        self._selector.close()
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGINT)
        try:
            for worker in self._workers:
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(_PATIENCE_SECONDS)
        finally:
            for worker in self._workers:
                worker.process.kill()
                with suppress(BrokenPipeError), worker.process:
                    pass


@contextmanager
def _crew() -> Iterator[_Crew]:
    crew = _Crew()
    try:
        yield crew
    finally:
        crew.end()
