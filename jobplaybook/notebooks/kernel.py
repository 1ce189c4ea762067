"""One notebook in one kernel of this very interpreter, and how that ended."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jobplaybook.clock import SystemClock
from jobplaybook.units import limit_text

Status = Literal["completed", "failed", "timed-out", "killed", "exited"]
Ending = tuple[Status, str]
"""How a run ended, and why it did not complete."""
_START_SECONDS = 60
_NO_KERNEL: Ending = ("killed", "the kernel did not start: try `python -m ipykernel --version`")
_MARKER = "papermill-error-cell-tag"
"""papermill puts cells with this tag around an error; they come off, and a banner says more."""

logging.getLogger("papermill").addHandler(logging.NullHandler())  # how a run ended is said here


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a notebook's cells: the notebook as far as it came, and how it ended."""

    notebook: Mapping[str, Any]
    ending: Ending
    seconds: float


class _Quit(Exception):
    """A cell called quit(): the kernel would go on for a moment, and cells with it."""


def run_cells(
    notebook: Mapping[str, Any],
    *,
    injected: Mapping[str, Any],
    cell_seconds: float,
    hidden: Iterable[str] = (),
) -> Ran:
    """Run a notebook's cells from top to bottom.

    Parameters
    ----------
    injected : Mapping
        Values that differ from the notebook's own; papermill puts them in a cell of their own.
    cell_seconds : float
        A cell that runs longer ends the run.
    hidden : iterable of str
        Environment variables that the kernel must not see.
    """
    clock = SystemClock()
    begun = clock.monotonic()
    # Ports of kernels that start at the same moment may collide: one more try costs little.
    for _ in range(2):
        # holds the draft, the kernel's connection file and its history
        with tempfile.TemporaryDirectory(prefix="jobplaybook-") as folder:
            ran, ending = _run_once(notebook, injected, Path(folder), cell_seconds, hidden)
        if ending != _NO_KERNEL:
            break
    plain = json.loads(json.dumps(ran))
    return Ran(notebook=plain, ending=ending, seconds=clock.monotonic() - begun)


def _run_once(
    notebook: Mapping[str, Any],
    injected: Mapping[str, Any],
    folder: Path,
    cell_seconds: float,
    hidden: Iterable[str],
) -> tuple[Any, Ending]:
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
            # on stderr, where a person is watching
            progress_bar=sys.stderr.isatty()
            and {"desc": "running", "leave": False, "file": sys.stderr},
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
        return _notebook(draft.read_text(encoding="utf-8")), _NO_KERNEL
    ran = _notebook(draft.read_text(encoding="utf-8"))
    ran.cells = [cell for cell in ran.cells if _MARKER not in cell.metadata.get("tags", ())]
    last = begun[-1] if begun else 0
    number = sum(cell.cell_type == "code" for cell in ran.cells[: last + 1])
    return ran, _ending(ran, f"code cell {number}", why, managers, cell_seconds)


def _notebook(text: str) -> Any:
    import nbformat

    reads: Any = nbformat.reads  # carries no types
    return reads(text, as_version=4)


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
    if not os.environ.get("MPLCONFIGDIR") and not _has_home():
        environment["MPLCONFIGDIR"] = str(folder / "matplotlib")
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


def _has_home() -> bool:
    """Whether matplotlib may keep its list of fonts: if not, it complains in the notebook."""
    try:
        for name, usual in (("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache")):
            place = Path(os.environ.get(name) or Path.home() / usual) / "matplotlib"
            place.mkdir(parents=True, exist_ok=True)  # as it will do itself
            if not os.access(place, os.W_OK | os.X_OK):
                return False
    except (OSError, RuntimeError):
        return False
    return True


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
        return "timed-out", f"{where} ran longer than {limit_text(cell_seconds)}"
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
