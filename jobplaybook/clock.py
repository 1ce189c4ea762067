"""The only file that reads the time: everything else is handed a ``now`` or a `Clock`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What long-lived objects need of time."""

    def now(self) -> datetime:
        """Return the present moment, aware and in UTC."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow; only differences mean something."""

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""


class SystemClock(Clock):
    """The machine's clock. Leases and ages never use it: the database's clock judges those."""

    def now(self) -> datetime:  # noqa: D102 (as `Clock` says)
        return datetime.now(UTC)

    def monotonic(self) -> float:  # noqa: D102
        return time.monotonic()

    def sleep(self, seconds: float) -> None:  # noqa: D102
        time.sleep(seconds)
