"""What one run leaves behind: when it drained, what it did, and its course over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jobplaybook.simulation.scenario import JobClass

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One replication.

    Parameters
    ----------
    drained_seconds : float
        When the queue was first found drained; ``math.inf``: not before the horizon.
    ended_seconds : float
        When the run ended.
    jobs, started, attempts, completed, duplicates : int
        Jobs accepted, those started at least once, attempts begun, jobs completed, and attempts
        begun while an earlier one of the same job was still at work.
    dead_letters : Mapping
        Jobs given up, by the reason.
    wait_seconds : float
        Mean time from claimable to claimed, of every attempt.
    calls, offered, completions : Array
        Attempts begun, entries into the queue (retries too) and jobs completed, in each time
        bucket of the run, jobs.
    oldest_age, backlog : Array
        At the end of each bucket: age of the oldest claimable job in seconds, and jobs waiting,
        parked ones too.
    """

    drained_seconds: float
    ended_seconds: float
    jobs: int
    started: int
    attempts: int
    completed: int
    duplicates: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    wait_seconds: float = math.nan
    calls: Array
    offered: Array
    completions: Array
    oldest_age: Array
    backlog: Array


@dataclass(slots=True)
class Diary:
    """What the event loop writes down while it runs."""

    calls: list[float] = field(default_factory=list)
    offered: list[float] = field(default_factory=list)
    completed: list[float] = field(default_factory=list)
    dead: Counter[str] = field(default_factory=Counter)
    ages: list[float] = field(default_factory=list)
    backlogs: list[float] = field(default_factory=list)
    waited: float = 0.0
    jobs: int = 0
    started: int = 0
    duplicates: int = 0

    def run(self, *, drained: float, ended: float, width: float) -> Run:
        """Return the run that this diary is of."""
        steps = min(whole_buckets(ended, width), len(self.ages))
        return Run(
            drained_seconds=drained,
            ended_seconds=ended,
            jobs=self.jobs,
            started=self.started,
            attempts=len(self.calls),
            completed=len(self.completed),
            duplicates=self.duplicates,
            dead_letters=dict(self.dead),
            wait_seconds=self.waited / len(self.calls) if self.calls else math.nan,
            calls=counted(self.calls, width, steps),
            offered=counted(self.offered, width, steps),
            completions=counted(self.completed, width, steps),
            oldest_age=np.array(self.ages[:steps]),
            backlog=np.array(self.backlogs[:steps]),
        )


def counted(times: Sequence[float] | Array, width: float, steps: int) -> Array:
    """Return how many of the times lie in each bucket.

    Examples
    --------
    >>> counted([0.0, 1.0, 2.5], 1.0, 3).tolist()
    [1.0, 1.0, 1.0]
    """
    places = (np.asarray(times, dtype=float) / width).astype(np.int64)
    return np.bincount(places[places < steps], minlength=steps).astype(float)


def mean(values: Array) -> float:
    """Return the mean, nan of nothing."""
    return float(values.mean()) if len(values) else math.nan


def initial_times(kind: JobClass) -> list[float]:
    """Return since when each job of the starting backlog is claimable, the oldest first.

    Examples
    --------
    >>> from jobplaybook.simulation.scenario import Service
    >>> second = Service(mean_seconds=1.0)
    >>> initial_times(JobClass(backlog=2, backlog_age_seconds=10.0, service=second))
    [-10.0, -5.0]
    """
    each = kind.backlog_age_seconds / max(kind.backlog, 1)
    return [-each * (kind.backlog - number) for number in range(kind.backlog)]


def whole_buckets(ended: float, width: float) -> int:
    """Return how many whole buckets a run of ``ended`` seconds has."""
    return int(ended / width + 1e-9)
