"""Time buckets, vectorised over replications: distributions and big backlogs in a second.

For a backlog that keeps all workers busy until it is drained. Then completions of exponential
service are a Poisson process of rate c/m whatever the queue does, and a step of any length can be
drawn exactly: arrivals, completions, and how many of these fail, as counts. Each replication has
a clock of its own, whose steps are a share of the time that its queue needs: the cost hardly
depends on the backlog.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jobplaybook.simulation.record import Array, Run, whole_buckets
from jobplaybook.simulation.scenario import Scenario

FEATURES = frozenset(
    {"exponential service", "cron bursts", "retryable failures", "permanent failures"}
)
# A step takes so much of the time in which all jobs that wait could be worked on once, but at
# least the time of so many completions. Finer steps move no result: a test halves them.
_SHARE, _LEAST_COMPLETIONS = 0.25, 25.0
_SERIES = ("calls", "offered", "completed", "dead", "exhausted", "started", "waited")


def run_buckets(
    scenario: Scenario, seed: np.random.SeedSequence, replications: int, *, refine: int = 1
) -> list[Run]:
    """Return replications of a scenario that uses only `FEATURES`.

    Parameters
    ----------
    scenario : Scenario
        What is simulated, up to the moment when it is drained.
    seed : numpy.random.SeedSequence
        Of all the replications together.
    replications : int
        How many.
    refine : int
        Divides the steps of time.

    Notes
    -----
    Which jobs end in a step is drawn at random among those in the system, not first come first
    served: this moves the order of attempts, but neither their number nor the drain. Between two
    ends of a step the queue crosses zero where a Brownian bridge does; without this, excursions
    below zero would be missed and every drain seen late.

    References
    ----------
    Glasserman, Monte Carlo Methods in Financial Engineering (2004), sec. 6.4, barrier crossings.
    """
    batch = _Batch(scenario, np.random.default_rng(seed), replications, refine)
    while len(batch.alive):
        batch.step()
    course = batch.course()
    return [batch.recorded(number, course) for number in range(replications)]


@dataclass(slots=True)
class _Step:
    """What happened in one step, an element a replication."""

    seconds: Array
    arrived: Array
    ended: Array
    retried: Array
    permanent: Array
    exhausted: Array
    begun: Array


class _Batch:
    """All replications: ``alive`` are the numbers of those that are not over yet."""

    def __init__(
        self, scenario: Scenario, rng: np.random.Generator, replications: int, refine: int
    ) -> None:
        (kind,) = scenario.classes
        self._scenario, self._kind, self._rng = scenario, kind, rng
        self._rate = scenario.workers / kind.service.mean_seconds
        self._failing = kind.failures.retryable + kind.failures.permanent
        self._share = kind.failures.permanent / self._failing if self._failing else 0.0
        self._steps = _SHARE / refine, _LEAST_COMPLETIONS / refine
        # jobs in the system by the number of attempts that they have begun or wait for
        tries = kind.retries.max_attempts if self._failing else 1
        self._jobs = np.zeros((tries, replications), dtype=np.int64)
        self._jobs[0] = kind.backlog
        self._now = np.zeros(replications)
        self._drained = np.full(replications, math.inf)
        self._beats = self._beats_until(self._now)
        self._sums = {name: np.zeros(replications) for name in _SERIES}
        working = min(kind.backlog, scenario.workers)
        self._sums["calls"] += working
        self._sums["started"] += working
        self._arrived = np.full(replications, float(kind.backlog))
        if kind.backlog <= scenario.workers:
            self._drained[:] = 0.0
        else:
            self._jobs[0] += (self._beats * kind.arrivals.burst).astype(np.int64)
            self._arrived += self._beats * kind.arrivals.burst
        self.alive = np.flatnonzero(self._drained > 0)
        self._past: list[dict[str, Array]] = []
        self._remember()

    def step(self) -> None:
        """Move every replication that is not over by a step of its own."""
        alive, kind = self.alive, self._kind
        before = self._jobs[:, alive].sum(axis=0) - self._scenario.workers
        step = self._drawn(before)
        after = before + step.arrived - step.ended + step.retried
        part = self._crossed(before, after, step)
        over = part <= 1
        part = np.minimum(part, 1.0)
        self._count(step, part, before, after)
        self._now[alive] += part * step.seconds
        self._drained[alive[over]] = self._now[alive[over]]
        beats = self._beats_until(self._now[alive])
        burst = np.where(over, 0, (beats - self._beats[alive]) * kind.arrivals.burst)
        self._jobs[0, alive] += burst.astype(np.int64)
        self._arrived[alive] += burst
        self._sums["offered"][alive] += burst
        self._beats[alive] = beats
        self.alive = alive[~over & (self._now[alive] < self._scenario.horizon_seconds)]
        self._remember()

    def _beats_until(self, at: Array) -> Array:
        arrivals = self._kind.arrivals
        if not arrivals.burst:
            return np.zeros(len(at))
        passed = (at - arrivals.first_seconds) / arrivals.every_seconds
        beats: Array = np.maximum(np.floor(passed + 1e-9) + 1, 0)
        return beats

    def _length(self, waiting: Array) -> Array:
        share, least = self._steps
        pace, arrivals = max(self._rate, 1e-12), self._kind.arrivals
        seconds = np.minimum(
            np.maximum(share * waiting, least) / pace, self._scenario.width_seconds
        )
        now = self._now[self.alive]
        if arrivals.burst:  # a step ends where a burst comes
            beat = arrivals.first_seconds + self._beats[self.alive] * arrivals.every_seconds
            seconds = np.minimum(seconds, np.maximum(beat - now, 1e-9))
        return np.minimum(seconds, self._scenario.horizon_seconds - now)

    def _drawn(self, waiting: Array) -> _Step:
        rng, jobs, seconds = self._rng, self._jobs[:, self.alive], self._length(waiting)
        total = jobs.sum(axis=0)
        ended = left = np.minimum(rng.poisson(self._rate * seconds), total)
        arrived = rng.poisson(self._kind.arrivals.rate * seconds)
        zero = np.zeros(len(total), dtype=np.int64)
        retried, permanent, begun, again = zero.copy(), zero.copy(), zero, zero
        for tries, there in enumerate(jobs):
            total = total - there
            ends = rng.hypergeometric(there, total, left) if tries < len(jobs) - 1 else left
            left = left - ends
            failed = rng.binomial(ends, self._failing)
            lost = rng.binomial(failed, self._share)
            permanent += lost
            jobs[tries] += again - ends
            again = failed - lost
            retried += again
            begun = ends if tries == 0 else begun
        jobs[0] += arrived
        self._jobs[:, self.alive] = jobs
        return _Step(seconds, arrived, ended, retried - again, permanent, again, begun)

    def _crossed(self, before: Array, after: Array, step: _Step) -> Array:
        """Return at which part of the step the queue was first empty; infinite: not at all."""
        rng, jumps = self._rng, np.maximum(step.arrived + step.ended - step.retried, 1.0)
        below = rng.random(len(before)) < np.exp(-2 * before * np.maximum(after, 0) / jumps)
        part = rng.wald(before / np.maximum(np.abs(after), 0.5), before**2 / jumps)
        return np.where(below, part / (1 + part), math.inf)

    def _count(self, step: _Step, part: Array, before: Array, after: Array) -> None:
        failed = step.retried + step.permanent + step.exhausted
        counts = {
            "calls": step.ended,
            "offered": step.arrived + step.retried,
            "completed": step.ended - failed,
            "dead": step.permanent,
            "exhausted": step.exhausted,
            "started": step.begun,
            "waited": (before + np.maximum(after, 0)) / 2 * step.seconds,
        }
        for name, counted in counts.items():
            self._sums[name][self.alive] += part * counted
        self._arrived[self.alive] += part * step.arrived

    def _remember(self) -> None:
        waiting = self._jobs.sum(axis=0) - self._scenario.workers
        waiting = np.where(np.isfinite(self._drained), 0, np.maximum(waiting, 0))
        names = ("calls", "offered", "completed")
        course = {name: self._sums[name].copy() for name in names}
        self._past.append(course | {"now": self._now.copy(), "waiting": waiting.astype(float)})

    def course(self) -> dict[str, Array]:
        """Return the running sums, a row a replication."""
        return {name: np.stack([row[name] for row in self._past], axis=1) for name in self._past[0]}

    def recorded(self, number: int, course: dict[str, Array]) -> Run:
        """Return one replication as the event loop would record it."""
        width, ended = self._scenario.width_seconds, float(self._now[number])
        ticks = width * np.arange(whole_buckets(ended, width) + 1)
        past = {name: rows[number] for name, rows in course.items()}
        at = {name: np.interp(ticks, past["now"], values) for name, values in past.items()}
        sums = {name: float(values[number]) for name, values in self._sums.items()}
        drained, jobs = float(self._drained[number]), round(float(self._arrived[number]))
        return Run(
            drained_seconds=drained,
            ended_seconds=ended,
            jobs=jobs,
            started=min(jobs, round(sums["started"])),
            attempts=round(sums["calls"]),
            completed=round(sums["completed"]),
            dead_letters={
                "permanent": round(sums["dead"]),
                "exhausted": round(sums["exhausted"]),
            },
            wait_seconds=sums["waited"] / max(sums["calls"], 1.0),
            calls=np.diff(at["calls"]),
            offered=np.diff(at["offered"]),
            completions=np.diff(at["completed"]),
            oldest_age=self._ages(ticks, past, at)[1:],
            backlog=at["waiting"][1:],
        )

    def _ages(self, ticks: Array, past: dict[str, Array], at: dict[str, Array]) -> Array:
        # first come first served: the oldest is the entry whose number is that of the next claim
        backlog, age = self._kind.backlog, self._kind.backlog_age_seconds
        entered = np.interp(at["calls"] - backlog, past["offered"], past["now"])
        first = -age * (1 - at["calls"] / max(backlog, 1))
        since = np.where(at["calls"] < backlog, first, entered)
        return np.where(at["waiting"] > 0, np.maximum(ticks - since, 0.0), 0.0)
