"""Several notebooks at once: each in a process of its own, never in threads.

A process is a fresh interpreter that is told over a pipe what to run, so that nothing of the
caller's program is imported again. It stands in a session of its own: Ctrl-C reaches only the
caller, who passes it on and waits until every kernel is gone.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from jobplaybook.notebooks.kernel import Ran, run_cells

_COMMAND = (sys.executable, "-c", "from jobplaybook.notebooks.crew import answer; answer()")
_PATIENCE_SECONDS = 10.0
_INTERRUPTED = 130
Ended = Generator[tuple[int, Ran], None, None]
_Process = subprocess.Popen[bytes]


def run_apart(orders: Sequence[Mapping[str, Any]], *, jobs: int) -> Ended:
    """Yield what came of each order, and its place, as they end; so many run at once.

    An order is the arguments of `jobplaybook.notebooks.kernel.run_cells`.
    """
    waiting = deque(enumerate(orders))
    with selectors.DefaultSelector() as selector, _crew() as processes:
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < jobs:
                place, order = waiting.popleft()
                process = _started(order)
                processes.append(process)
                selector.register(process.stdout or 0, selectors.EVENT_READ, (place, process))
            for key, _ in selector.select():  # its answer has begun, or it died without one
                place, process = key.data
                selector.unregister(key.fileobj)
                said, _ = process.communicate()
                yield place, _ran(orders[place], said, process.returncode)


def _started(order: Mapping[str, Any]) -> _Process:
    with tempfile.TemporaryFile() as asked:  # a pipe that is full would hold the others up
        asked.write(json.dumps(order).encode())
        asked.seek(0)
        return subprocess.Popen(
            _COMMAND,
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # how a run ended is said by its answer
            start_new_session=True,
        )


def answer() -> None:
    """Run the cells that stdin asks for and answer on stdout: what each process does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # though the caller may ignore it
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not answer
    try:
        ran = run_cells(**json.load(sys.stdin))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    with answers:
        json.dump(asdict(ran), answers)


def _ran(order: Mapping[str, Any], said: bytes, code: int) -> Ran:
    """Return a process's answer, or what can be said of a run whose process is gone."""
    if code == 0:
        told = json.loads(said)
        return Ran(**{**told, "ending": tuple(told["ending"])})
    why = f"the process that ran it ended with exit code {code}: run it alone to see why"
    if code < 0:
        why = (
            f"the process that ran it died (signal {-code}): out of memory, or killed from outside"
        )
    fresh = [
        {**cell, "outputs": [], "execution_count": None} if cell["cell_type"] == "code" else cell
        for cell in order["notebook"]["cells"]
    ]
    return Ran(notebook={**order["notebook"], "cells": fresh}, ending=("killed", why), seconds=0.0)


@contextmanager
def _crew() -> Iterator[list[_Process]]:
    """Give a list for processes; in the end they stop their kernels and tidy up, or are killed."""
    processes: list[_Process] = []
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        try:
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PATIENCE_SECONDS)
        finally:
            for process in processes:
                process.kill()
                with process:  # closes its pipe
                    pass
