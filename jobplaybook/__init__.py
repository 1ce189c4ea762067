"""jobplaybook: the hour after somebody says the jobs are stuck.

The public names are looked up when they are first used: importing the package costs next to
nothing, and a command that needs no database never loads one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobplaybook.api import (
        Opening,
        capture,
        estimate_backlog,
        find,
        health,
        open_snapshot,
        postmortem,
        read_options,
        run_all,
        run_notebook,
        runbook_path,
        sample_path,
        sources,
        timeline,
        triage,
    )
    from jobplaybook.errors import (
        InputError,
        JobPlaybookError,
        SchemaError,
        SourceError,
        UnsafeAction,
    )
    from jobplaybook.estimates import amplification, estimate_drain, estimate_replay
    from jobplaybook.frames import flow, oldest_age, standing
    from jobplaybook.notebooks.result import notebook_result
    from jobplaybook.prospect import Assumptions, Change, read_prospect
    from jobplaybook.retrying import read_retries
    from jobplaybook.simulation import Scenario, Simulation, simulate

__version__ = "0.1.0"

# what is not in jobplaybook.api
_ELSEWHERE = {
    **dict.fromkeys(
        ("InputError", "JobPlaybookError", "SchemaError", "SourceError", "UnsafeAction"), "errors"
    ),
    **dict.fromkeys(("flow", "oldest_age", "standing"), "frames"),
    **dict.fromkeys(("amplification", "estimate_drain", "estimate_replay"), "estimates"),
    **dict.fromkeys(("Scenario", "Simulation", "simulate"), "simulation"),
    **dict.fromkeys(("Assumptions", "Change", "read_prospect"), "prospect"),
    "notebook_result": "notebooks.result",
    "read_retries": "retrying",
}

__all__ = [
    "Assumptions",
    "Change",
    "InputError",
    "JobPlaybookError",
    "Opening",
    "Scenario",
    "SchemaError",
    "Simulation",
    "SourceError",
    "UnsafeAction",
    "__version__",
    "amplification",
    "capture",
    "estimate_backlog",
    "estimate_drain",
    "estimate_replay",
    "find",
    "flow",
    "health",
    "notebook_result",
    "oldest_age",
    "open_snapshot",
    "postmortem",
    "read_options",
    "read_prospect",
    "read_retries",
    "run_all",
    "run_notebook",
    "runbook_path",
    "sample_path",
    "simulate",
    "sources",
    "standing",
    "timeline",
    "triage",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"jobplaybook.{_ELSEWHERE.get(name, 'api')}"), name)
    raise AttributeError(f"module 'jobplaybook' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
