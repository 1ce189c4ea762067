"""jobplaybook: the hour after somebody says the jobs are stuck.

The public names are looked up when they are first used: importing the package costs next to
nothing, and a command that needs no database never loads one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobplaybook.api import (
        capture,
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
    from jobplaybook.estimates import estimate_drain
    from jobplaybook.frames import flow, oldest_age, standing
    from jobplaybook.notebooks import notebook_result

__version__ = "0.1.0"

_WHERE = {
    "InputError": "errors",
    "JobPlaybookError": "errors",
    "SchemaError": "errors",
    "SourceError": "errors",
    "UnsafeAction": "errors",
    "capture": "api",
    "estimate_drain": "estimates",
    "find": "api",
    "health": "api",
    "flow": "frames",
    "notebook_result": "notebooks",
    "oldest_age": "frames",
    "open_snapshot": "api",
    "postmortem": "api",
    "read_options": "api",
    "run_all": "api",
    "run_notebook": "api",
    "runbook_path": "api",
    "sample_path": "api",
    "sources": "api",
    "timeline": "api",
    "standing": "frames",
    "triage": "api",
}

__all__ = [
    "InputError",
    "JobPlaybookError",
    "SchemaError",
    "SourceError",
    "UnsafeAction",
    "__version__",
    "capture",
    "estimate_drain",
    "find",
    "flow",
    "health",
    "notebook_result",
    "oldest_age",
    "open_snapshot",
    "postmortem",
    "read_options",
    "run_all",
    "run_notebook",
    "runbook_path",
    "sample_path",
    "sources",
    "standing",
    "timeline",
    "triage",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"jobplaybook.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'jobplaybook' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
