"""What every notebook found on the sample, stored, and how another finding is compared with it.

``python -m tests.stored_results`` writes them anew: look at the difference before you commit it.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jobplaybook as jp
from jobplaybook.notebooks.result import RunResult

STORED = Path(__file__).parent / "data" / "results"
RELATIVE, ABSOLUTE = 1e-9, 1e-6
"""Fractions may differ so much, by the order in which a library sums; all else not at all."""
_OF_THE_MACHINE = ("versions",)


def lasting(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a result that is the same on every machine."""
    return {name: value for name, value in document.items() if name not in _OF_THE_MACHINE}


def differences(stored: Any, found: Any, where: str = "") -> list[str]:
    """Return where two results differ, as paths with both values.

    Examples
    --------
    >>> differences({"a": [1, 2.0]}, {"a": [1, 2.0 + 1e-12]})
    []
    >>> differences({"a": [1, 2.0]}, {"a": [1, 2.1]})
    ['a.1: stored 2.0, found 2.1']
    """
    if isinstance(stored, Mapping) and isinstance(found, Mapping):
        names = sorted({*stored, *found})
        parts = [(name, stored.get(name, "nothing"), found.get(name, "nothing")) for name in names]
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        parts = [(str(n), *pair) for n, pair in enumerate(zip(stored, found, strict=True))]
    elif _same(stored, found):
        return []
    else:
        return [f"{where}: stored {stored!r}, found {found!r}"]
    lead = f"{where}." if where else ""
    return [line for name, old, new in parts for line in differences(old, new, lead + name)]


def _same(stored: Any, found: Any) -> bool:
    if isinstance(stored, float) and isinstance(found, float):
        return math.isclose(stored, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(stored) is type(found) and bool(stored == found)


def stored(name: str) -> dict[str, Any]:
    """Return what a notebook found when its result was stored."""
    found: dict[str, Any] = json.loads((STORED / f"{name}.json").read_text())
    return found


def write(ran: RunResult) -> None:
    """Store what a run found."""
    assert ran.status == "completed", f"{ran.output.stem}: {ran.message}"
    text = json.dumps(lasting(ran.document), indent=1, ensure_ascii=False, sort_keys=True)
    (STORED / f"{ran.output.stem}.json").write_text(text + "\n")


def main() -> None:
    """Run every notebook on the sample and store what it finds."""
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for ran in jp.run_all("sample", folder=folder):
            write(ran)


if __name__ == "__main__":
    main()
