"""How a capture reads, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from jobplaybook.sources.base import ReadOptions
from jobplaybook.units import iso

Progress = Callable[[str, int], None]
"""Told after every chunk: the table and how many rows were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """How a capture reads.

    Parameters
    ----------
    since_seconds : float
        How far back finished jobs are read; unfinished ones are always read.
    budget_seconds : float
        Wall-clock limit of the whole capture; what was not read is said.
    chunk : int
        Rows examined by one statement.
    pause_seconds : float
        Rest between statements, for the queue.
    now : int, optional
        Stands in for the database's clock, microseconds UTC: for databases that are restored
        recordings.
    look_ahead : bool
        Whether ``now`` may lie after the database's own clock; a command that only judges must
        not pretend to have looked at a moment that is still to come.
    system : str, optional
        Names the queue system where detection is to be overridden.
    read : ReadOptions
        Lease override and payload paths.
    require_readonly : bool
        Refuse a role that may write.
    take_vitals : bool
        False where the server's own statistics say nothing of the recorded system.
    """

    since_seconds: float = 86_400.0
    budget_seconds: float = 60.0
    chunk: int = 5_000
    pause_seconds: float = 0.05
    now: int | None = None
    look_ahead: bool = True
    system: str | None = None
    read: ReadOptions = field(default_factory=ReadOptions)
    require_readonly: bool = False
    take_vitals: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureReport:
    """What a capture wrote and what it could not read."""

    file: str
    system: str
    system_version: str
    captured_from: int
    captured_to: int
    rows: dict[str, int]
    rows_by_status: dict[str, int]
    not_read: dict[str, str]
    moved_during_capture: int
    content_sha256: str
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook capture``."""
        times = {name: iso(getattr(self, name)) for name in ("captured_from", "captured_to")}
        return {**asdict(self), **times, "warnings": list(self.warnings)}
