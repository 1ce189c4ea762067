"""The pace of a capture: one budget, chunks that shrink when they are slow, rests in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import sqlalchemy as sa

from jobplaybook.clock import Clock
from jobplaybook.connect import Reader
from jobplaybook.errors import SourceError
from jobplaybook.snapshot.options import CaptureOptions

T = TypeVar("T")

SMALLEST_CHUNK = 100
SLOW_SECONDS = 1.0
"""A chunk's snapshot holds back vacuum while it is open: past this, the next one is halved."""
_NAP_SECONDS = 0.2
"""A long rest is taken in naps, so that Ctrl-C need not wait for its end."""


class Pace:
    """Reads statement by statement within a budget, so that the queue does not notice."""

    def __init__(self, reader: Reader, clock: Clock, options: CaptureOptions) -> None:
        self._reader, self._clock, self._options = reader, clock, options
        self._deadline = clock.monotonic() + options.budget_seconds
        self.chunk = options.chunk
        self._stopped = False

    @property
    def used_up(self) -> str:
        """That the budget is used up, in words; nothing while there is some left."""
        if self._clock.monotonic() < self._deadline:
            return ""
        return f"the budget of {self._options.budget_seconds:g} s was used up"

    def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
        """Run one statement; ask for less next time if it took long; rest after it."""
        if self._stopped:
            raise SourceError("the capture was stopped")
        started = self._clock.monotonic()
        rows = self._reader.rows(statement, **binds)
        if self._clock.monotonic() - started > SLOW_SECONDS:
            self.shrink(2)
        left = self._options.pause_seconds
        while left > 0 and not self._stopped:
            self._clock.sleep(min(left, _NAP_SECONDS))
            left -= _NAP_SECONDS
        return rows

    def shrink(self, divisor: int = 4) -> bool:
        """Ask for less from now on; False where the chunk is as small as it gets."""
        if self.chunk <= SMALLEST_CHUNK:
            return False
        self.chunk = max(SMALLEST_CHUNK, self.chunk // divisor)
        return True

    def stop(self) -> None:
        """Let the thread that reads come to its end, from another one: within a statement."""
        self._stopped = True


def read_ahead(items: Iterator[T], *, stop: Callable[[], None]) -> Iterator[T]:
    """Give the items of an iterator, reading the next one while the last is worked on.

    The database then works while the file is written, as it would for a single long COPY. Only
    one thread ever touches the iterator; its errors come out here. ``stop`` is called where the
    work ends before the items do, so that the thread is not waited for in vain.
    """
    with ThreadPoolExecutor(1) as reading:
        try:
            coming = reading.submit(next, items, None)
            while (item := coming.result()) is not None:
                coming = reading.submit(next, items, None)
                yield item
        except BaseException:
            stop()
            raise
