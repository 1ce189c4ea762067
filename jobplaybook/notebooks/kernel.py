"""One notebook in one kernel of this very interpreter, and how that ended."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobplaybook.notebooks.result import Status
from jobplaybook.units import duration_text

Ending = tuple[Status, str]
_START_SECONDS = 60
NO_KERNEL: Ending = ("killed", "the kernel did not start: try `python -m ipykernel --version`")
_MARKER = "papermill-error-cell-tag"
"""papermill puts cells with this tag around an error; they come off, and a banner says more."""

logging.getLogger("papermill").addHandler(logging.NullHandler())  # how a run ended is said here


class _Quit(Exception):
    """A cell called quit(): the kernel would go on for a moment, and cells with it."""


def run_cells(
    notebook: Mapping[str, Any],
    *,
    injected: Mapping[str, Any],
    folder: Path,
    cell_seconds: float,
    hidden: Iterable[str] = (),
) -> tuple[Any, Ending]:
    """Run a notebook's cells from top to bottom.

    Parameters
    ----------
    notebook : Mapping
        The notebook, as JSON.
    injected : Mapping
        Values that differ from the notebook's own; papermill puts them in a cell of their own.
    folder : Path
        A folder for the draft, the kernel's connection file and its history.
    cell_seconds : float
        A cell that runs longer ends the run.
    hidden : iterable of str
        Environment variables that the kernel must not see.

    Returns
    -------
    notebook : NotebookNode
        As far as it came.
    ending : tuple of str
        The status, and why it did not complete.
    """
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    draft = folder / "draft.ipynb"
    managers: list[Any] = []
    begun: list[int] = []
    why: BaseException | None = None
    try:
        execute_notebook(
            _notebook(json.dumps(notebook)),
            draft,
            parameters=dict(injected),
            kernel_name="python3",
            language="python",
            progress_bar=_progress(),
            start_timeout=_START_SECONDS,
            execution_timeout=max(math.ceil(cell_seconds), 1),
            kernel_manager_class=_own_kernel(folder, hidden, managers),
            extra_arguments=["--IPKernelApp.log_level=40"],
            shutdown_kernel="immediate",
            on_cell_execute=lambda cell, cell_index: begun.append(cell_index),
            on_cell_executed=_stop_at_quit,
        )
    except (PapermillExecutionError, CellTimeoutError, DeadKernelError, _Quit) as error:
        why = error
    except RuntimeError as error:
        if begun or "kernel" not in str(error).lower():
            raise
        return _notebook(draft.read_text(encoding="utf-8")), NO_KERNEL
    ran = _notebook(draft.read_text(encoding="utf-8"))
    ran.cells = [cell for cell in ran.cells if _MARKER not in cell.metadata.get("tags", ())]
    last = begun[-1] if begun else 0
    number = sum(cell.cell_type == "code" for cell in ran.cells[: last + 1])
    return ran, _ending(ran, f"code cell {number}", why, managers, cell_seconds)


def _notebook(text: str) -> Any:
    import nbformat

    reads: Any = nbformat.reads  # carries no types
    return reads(text, as_version=4)


def _progress() -> bool | dict[str, Any]:
    """Show cells as they run, on stderr, where a person is watching."""
    return {"desc": "running", "leave": False, "file": sys.stderr} if sys.stderr.isatty() else False


def _stop_at_quit(*, execute_reply: Mapping[str, Any], **_: Any) -> None:
    payload = execute_reply["content"].get("payload") or ()
    if any(item.get("source") == "ask_exit" for item in payload):
        raise _Quit


def _own_kernel(folder: Path, hidden: Iterable[str], made: list[Any]) -> type[Any]:
    """Return a kernel manager that starts this interpreter, whatever kernels are installed.

    Everything the kernel writes for itself goes to ``folder``: a home may be missing, and a
    person's own start-up files are no part of a notebook. ``made`` keeps the managers, whose
    kernel's exit code is asked for later.
    """
    from ipykernel.kernelspec import RESOURCES, get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    environment = {"TZ": "UTC", "PYTHONHASHSEED": "0", "IPYTHONDIR": str(folder / "ipython")}
    environment.update(dict.fromkeys(hidden, ""))
    spec = KernelSpec(resource_dir=RESOURCES, env=environment, **get_kernel_dict())

    class OwnKernel(AsyncKernelManager):
        def __init__(self, **given: Any) -> None:
            super().__init__(connection_file=str(folder / "kernel.json"), **given)
            made.append(self)

        @property
        def kernel_spec(self) -> KernelSpec:
            return spec

    return OwnKernel


def _ending(
    ran: Any, where: str, why: BaseException | None, managers: Sequence[Any], cell_seconds: float
) -> Ending:
    """Return the status and its reason; a cell's own metadata says "completed" too easily."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    outputs = [out for cell in ran.cells for out in cell.get("outputs", ())]
    for error in (out for out in outputs if out.output_type == "error"):
        if error.ename == "SystemExit":
            return "exited", f"{where} left the notebook with sys.exit({error.evalue})"
        return "failed", f"{where} raised {error.ename}: {error.evalue}"
    if isinstance(why, _Quit):
        return "exited", f"{where} left the notebook with quit()"
    if isinstance(why, CellTimeoutError):
        return "timed-out", f"{where} ran longer than {duration_text(cell_seconds)}"
    if isinstance(why, DeadKernelError):
        return _death(where, managers)
    if why is not None:
        return "failed", f"{where} ended with an error"
    return "completed", ""


def _death(where: str, managers: Sequence[Any]) -> Ending:
    process = managers[-1].provisioner.process
    code = None if process is None else process.poll()
    if code == 0:
        return "exited", f"{where} ended its own kernel"
    reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return "killed", f"the kernel died in {where} ({reason}): out of memory, or killed from outside"
