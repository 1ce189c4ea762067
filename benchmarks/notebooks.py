"""Times `run all` against papermill's own API in processes: the same notebooks, one run.

``python -m benchmarks.notebooks`` needs nothing but the bundled sample. Papermill starts no kernel
of ours, writes no report, checks nothing and cleans nothing: it is the floor.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import jobplaybook as jp
from jobplaybook.bundled import bundled_path
from jobplaybook.running import cores

MOST_RATIO = 1.1
_PROCESSES = 4
Way = Callable[[Path], None]


def run_plainly(words: tuple[str, str]) -> None:
    """Run one notebook as papermill's documentation does."""
    from papermill import execute_notebook

    quiet = ["--IPKernelApp.log_level=40"]
    execute_notebook(*words, kernel_name="python3", progress_bar=False, extra_arguments=quiet)


def papermill(folder: Path) -> None:
    """Run all of them by papermill's API, four processes at once."""
    named = [(str(path), str(folder / path.name)) for path in notebooks()]
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
        list(pool.map(run_plainly, named))


def ours(jobs: int) -> Way:
    """Return our way with so many jobs."""

    def run(folder: Path) -> None:
        for ran in jp.run_all("sample", folder=folder, jobs=jobs):
            assert ran.status == "completed", f"{ran.output.stem}: {ran.message}"

    return run


def notebooks() -> list[Path]:
    return sorted(bundled_path("notebooks").glob("*.ipynb"))


def seconds_of(way: Way) -> float:
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        way(Path(folder))
        return time.perf_counter() - begun


def postmortem(folder: Path) -> None:
    assert jp.postmortem("sample", folder=folder).status == "completed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=3, help="each way so often, taking turns")
    rounds = parser.parse_args().runs
    ways = {
        "papermill, 4 processes": papermill,
        "run all --jobs 4": ours(_PROCESSES),
        f"run all (default, {cores()} jobs)": ours(cores()),
        "postmortem": postmortem,
    }
    print(f"{len(notebooks())} notebooks, {cores()} cores, load {os.getloadavg()[0]:.1f}")
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in list(ways) if turn % 2 == 0 else reversed(list(ways)):
            took[name].append(seconds_of(ways[name]))
            print(f"  {name:<28} {took[name][-1]:6.2f} s")
    middle = {name: statistics.median(all_of) for name, all_of in took.items()}
    base = middle["papermill, 4 processes"]
    for name, median in middle.items():
        ratio = f", {median / base:.2f} of papermill" if name.startswith("run all") else ""
        print(f"{name:<30} median {median:6.2f} s{ratio}")
    print(f"load at the end {os.getloadavg()[0]:.1f}; promised: at most {MOST_RATIO} of papermill")


if __name__ == "__main__":
    main()
