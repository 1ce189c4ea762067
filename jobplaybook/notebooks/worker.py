"""A process that runs notebooks one after the other, as `jobplaybook.notebooks.crew` asks it to.

A line of JSON on stdin is one run, a line on stdout is how it ended. A closed stdin ends it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from jobplaybook.clock import SystemClock
from jobplaybook.errors import InputError
from jobplaybook.notebooks.plan import Plan
from jobplaybook.notebooks.runner import execute
from jobplaybook.notebooks.subject import Subject

_INTERRUPTED = 130


def main() -> None:
    """Answer until nothing more is asked."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # though the caller may ignore it
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not answer
    try:
        for line in sys.stdin:
            print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return execute(
            Plan.from_json(asked["plan"]),
            Subject(**asked["subject"]),
            cell_seconds=asked["cell_seconds"],
            clock=SystemClock(),
            tool_version=asked["tool_version"],
        ).dump()
    except InputError as refusal:
        return {"refused": str(refusal)}


if __name__ == "__main__":
    main()
