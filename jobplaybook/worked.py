"""The work of the last hours: how long attempts took, how many ran at once, of which type."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from jobplaybook.detectors.situation import Situation
from jobplaybook.queries import backlog as queries
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS

WORK_SECONDS = 7_200.0
"""Run times are looked for so long before the last job that completed, which may be long ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeWork:
    """One job type and its part of the work."""

    job_type: str | None
    waiting: int
    arrivals: int  # inside the rate window
    left: int  # jobs completed or dead since `WORK_SECONDS` before the last that completed
    work_seconds: float  # worker time of its attempts, in that time


class Work:
    """The attempts of the last hours, read once; ``queue`` is one alone, None means all.

    ``came`` are the times at which jobs came, microseconds; ``runs`` attempts ended and took
    ``seconds`` together; ``left`` jobs completed or died; ``most_at_once`` attempts ran at a time.
    """

    def __init__(self, snapshot: Snapshot, situation: Situation, queue: str | None) -> None:
        until = situation.flow_until
        states = [state for state in situation.queues if queue in (None, state.queue)]
        lasts = [s.last_completion_at for s in states if s.last_completion_at is not None]
        last = min(max(lasts, default=until), until)
        since = max(situation.window_from, last - round(WORK_SECONDS * MICROS))
        lives = snapshot.rows(queries.lives(since, until))
        self._since, self._until, self._rates_from = since, until, situation.rates_from
        # queue, job_type, pending, ended, created_at, available_at, claimed_at, finished_at
        self._lives = [life for life in lives if queue in (None, life[0])]
        runs = snapshot.rows(queries.runs(since, until))
        self._runs = [run for run in runs if queue in (None, run[0])]
        self.came = [life[4] for life in self._lives]
        ended = [run for run in self._runs if self._ended(run[3])]
        self.runs = len(ended)
        self.seconds = sum(max(end - begin, 0) for *_, begin, end in ended) / MICROS
        self.left = sum(1 for life in self._lives if life[3] and self._ended(life[7]))
        self.most_at_once = most_at_once((begin, end) for *_, begin, end in self._runs)

    def _ended(self, at: int | None) -> bool:
        return at is not None and self._since <= at <= self._until

    def types(self) -> tuple[TypeWork, ...]:
        """Return the parts of the work by type, the most worker time first."""
        counts: dict[str | None, Counter[str]] = defaultdict(Counter)
        for _, kind, pending, ended, created, available, _, finished in self._lives:
            came = created is not None and self._rates_from <= created <= self._until
            counts[kind]["waiting"] += bool(pending) and (available or 0) <= self._until
            counts[kind]["arrivals"] += came
            counts[kind]["left"] += bool(ended) and self._ended(finished)
        for _, kind, begin, end in self._runs:
            counts[kind]["micros"] += max(end - begin, 0) if self._ended(end) else 0
        found = [
            TypeWork(job_type=kind, work_seconds=count.pop("micros", 0) / MICROS, **_counts(count))
            for kind, count in counts.items()
        ]
        return tuple(sorted(found, key=lambda each: (-each.work_seconds, each.job_type or "")))


def _counts(count: Counter[str]) -> dict[str, int]:
    return {name: count[name] for name in ("waiting", "arrivals", "left")}


def most_at_once(runs: Iterable[tuple[int, int | None]]) -> int:
    """Return how many of the intervals, in order of their beginnings, overlap at most.

    One without an end lasts.

    Examples
    --------
    >>> most_at_once([(0, 10), (5, None), (10, 12), (11, 20)])
    3
    """
    ends: list[int] = []
    most = lasting = 0
    for begin, end in runs:
        while ends and ends[0] <= begin:
            heappop(ends)
        if end is None:
            lasting += 1
        else:
            heappush(ends, end)
        most = max(most, len(ends) + lasting)
    return most
