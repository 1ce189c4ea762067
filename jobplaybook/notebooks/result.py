"""How a run ended, and what a notebook's last cell hands over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobplaybook.notebooks.kernel import Status
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.verdict import Triage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended, and what it left.

    Parameters
    ----------
    status : str
        ``completed``, ``failed`` (a cell raised), ``timed-out``, ``killed`` (the kernel died) or
        ``exited`` (the notebook left by itself, sys.exit(0) included).
    message : str
        Why it did not complete; empty where it did.
    document : Mapping
        What is in the file ``result``.
    warnings : tuple of str
        What the capture had to say.
    """

    status: Status
    message: str
    output: Path
    result: Path
    html: Path | None
    seconds: float
    document: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The verdict in the notebook's own result; none where the run did not get there."""
        return (self.document["result"] or {}).get("verdict")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings in the notebook's own result; none where the run did not get there."""
        return list((self.document["result"] or {}).get("findings") or [])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook run``."""
        return {
            "output": str(self.output),
            "html": str(self.html) if self.html else None,
            "result": str(self.result),
            "status": self.status,
            "message": self.message,
            "seconds": round(self.seconds, 3),
            "findings": self.findings,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookResult:
    """What a notebook's last cell shows, and the runner picks up."""

    document: Mapping[str, Any]

    def __repr__(self) -> str:
        return json.dumps(self.document["numbers"], indent=2, ensure_ascii=False, allow_nan=False)

    def _repr_json_(self) -> dict[str, Any]:
        return dict(self.document)


def notebook_result(answer: Triage, snapshot: Snapshot, **numbers: float | str) -> NotebookResult:
    """Return the result of a notebook, to be shown by its last cell.

    It holds the verdict and its findings, the snapshot's hash, and the notebook's own numbers.
    """
    document = answer.to_json()
    del document["source"]  # the same rows give the same result, whatever their file is called
    document["content_sha256"] = snapshot.meta["content_sha256"]
    # numpy's numbers are none of JSON's
    document["numbers"] = {n: v.item() if hasattr(v, "item") else v for n, v in numbers.items()}
    return NotebookResult(document=document)
