"""The event loop's fast path: one class, first come first served, retries back to the tail.

The same events in the same order as `jobplaybook.simulation.event_loop`, with the same random
numbers, without the bookkeeping of what such a scenario does not use; a test holds them equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from jobplaybook.simulation.draws import Draws, draws_of
from jobplaybook.simulation.record import Run, counted, initial_times, mean, whole_buckets
from jobplaybook.simulation.scenario import LAWS, Scenario

FEATURES = frozenset(
    {
        *(f"{law} service" for law in LAWS),
        "recorded arrivals",
        "cron bursts",
        "retryable failures",
        "permanent failures",
        "failed service",
        "more than 50 attempts",
        "more than 100 M jobs",
        "run_to horizon",
    }
)
# how an attempt ends; above 0 it is the number of the next one
_DONE, _PERMANENT, _EXHAUSTED = 0, -1, -2


def run_plain(scenario: Scenario, seed: np.random.SeedSequence) -> Run:
    """Return one replication of a scenario that uses only `FEATURES`."""
    (draws,), _ = draws_of(scenario, seed)
    course = _played(scenario, draws)
    return _recorded(scenario, course)


@dataclass(slots=True)
class _Course:
    """Entries into the queue, their attempt numbers, claims, and how attempts ended.

    The queue is never shortened: the k-th claim takes the k-th entry, and so entries and claims,
    two sorted lists, tell every wait and age afterwards.
    """

    entered: list[float]
    tries: list[int]
    claimed: list[float] = field(default_factory=list)
    completed: list[float] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    drained: float = math.inf
    ended: float = 0.0


def _played(scenario: Scenario, draws: Draws) -> _Course:
    # one flat loop over locals, because this is where the time goes
    (kind,), stops = scenario.classes, scenario.run_to == "drained"
    permanent, last = kind.failures.permanent, kind.retries.max_attempts
    failing = permanent + kind.failures.retryable
    arrivals, service, failed, outcome = draws.loop
    course = _Course(entered=(entered := initial_times(kind)), tries=(tries := [1] * len(entered)))
    claimed, completed, dead = course.claimed, course.completed, course.dead
    busy: list[tuple[float, int]] = []
    coming, now, head, idle = next(arrivals, math.inf), 0.0, 0, scenario.workers
    while now <= scenario.horizon_seconds:
        if idle and head < len(entered):
            draw = outcome() if failing else 1.0
            if draw >= failing:
                heappush(busy, (now + service(), _DONE))
            elif draw < permanent:
                heappush(busy, (now + failed(), _PERMANENT))
            else:
                again = tries[head] + 1
                heappush(busy, (now + failed(), again if again <= last else _EXHAUSTED))
            claimed.append(now)
            head += 1
            idle -= 1
            continue
        if head == len(entered) and course.drained == math.inf:
            course.drained = now
            if stops:
                break
        if busy and busy[0][0] <= coming:
            now, ending = heappop(busy)
            idle += 1
            if ending == _DONE:
                completed.append(now)
            elif ending < 0:
                dead.append(ending)
            else:
                entered.append(now)
                tries.append(ending)
        else:
            now, coming = coming, next(arrivals, math.inf)
            entered.append(now)
            tries.append(1)
    course.ended = min(now, scenario.horizon_seconds)
    return course


def _recorded(scenario: Scenario, course: _Course) -> Run:
    width = scenario.width_seconds
    steps = whole_buckets(course.ended, width)
    entered, claimed = np.array(course.entered), np.array(course.claimed)
    ticks = width * np.arange(1, steps + 1)
    taken, there = (np.searchsorted(times, ticks, "right") for times in (claimed, entered))
    oldest = np.append(entered, math.inf)[taken]
    first = np.array(course.tries) == 1
    return Run(
        drained_seconds=course.drained,
        ended_seconds=course.ended,
        jobs=int(first.sum()),
        started=int(first[: len(claimed)].sum()),
        attempts=len(claimed),
        completed=len(course.completed),
        dead_letters={
            "permanent": course.dead.count(_PERMANENT),
            "exhausted": course.dead.count(_EXHAUSTED),
        },
        wait_seconds=mean(claimed - entered[: len(claimed)]),
        calls=counted(claimed, width, steps),
        offered=counted(entered[entered > 0], width, steps),
        completions=counted(course.completed, width, steps),
        oldest_age=np.maximum(ticks - oldest, 0.0),
        backlog=(there - taken).astype(float),
    )
