"""Replications of a scenario, on one core or on many, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobplaybook.errors import InputError
from jobplaybook.simulation import buckets
from jobplaybook.simulation.event_loop import run_events
from jobplaybook.simulation.record import Array, Run
from jobplaybook.simulation.scenario import Scenario
from jobplaybook.units import count_text, duration_text

ENGINES = ("auto", "buckets", "event-loop")
Progress = Callable[[int], None]
# What one task of an executor does: fixed, because the buckets' numbers depend on it.
_CHUNK = {"buckets": 500, "event-loop": 20}
_MOST_NEVER = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Percentiles of the replications; ``math.inf`` where they are never."""

    p5: float
    p50: float
    p95: float
    mean: float

    def to_json(self) -> dict[str, float | None]:
        """Return the JSON object: null for never and for what nobody knows."""
        return {name: _finite(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One time bucket: how long after the start it ends, and the range over replications."""

    until_seconds: float
    value: Range

    def to_json(self) -> dict[str, float | None]:
        """Return the JSON object."""
        return {"until_seconds": self.until_seconds, **self.value.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What the replications of a scenario say.

    Parameters
    ----------
    seconds : Range
        Until it is drained (see `Scenario`); its mean and p95 are infinite where more than 5 % of
        the replications are never drained, otherwise the mean is of those that are.
    never_probability : float
        Share of replications not drained at the horizon.
    attempts_per_job : float
        Attempts begun over jobs started.
    upstream_calls, offered, completions : tuple of Point
        Attempts begun, entries into the queue and jobs completed, per second.
    oldest_age, backlog : tuple of Point
        Age of the oldest claimable job in seconds, and jobs waiting or parked.
    dead_letters : Mapping
        Mean number of jobs given up in a run, by the reason and in ``total``.

    Notes
    -----
    A series is over the replications that were still going on, as long as half of them were.
    """

    scenario: Scenario
    replications: int
    seed: int
    engine: str
    never_probability: float
    seconds: Range
    attempts_per_job: float
    wait_seconds: float
    upstream_calls: tuple[Point, ...]
    offered: tuple[Point, ...]
    completions: tuple[Point, ...]
    oldest_age: tuple[Point, ...]
    backlog: tuple[Point, ...]
    dead_letters: Mapping[str, float]

    @property
    def never(self) -> bool:
        """Whether it is more likely than not never drained before the horizon."""
        return self.seconds.p50 == math.inf

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook simulate``."""
        names = ("upstream_calls", "offered", "completions", "oldest_age", "backlog")
        return {
            "drain": {
                "never": self.never,
                "never_probability": self.never_probability,
                "seconds": self.seconds.to_json(),
                "horizon_seconds": self.scenario.horizon_seconds,
            },
            "attempts_per_job": _finite(self.attempts_per_job),
            "wait_seconds": _finite(self.wait_seconds),
            **{name: [point.to_json() for point in getattr(self, name)] for name in names},
            "dead_letters": dict(self.dead_letters),
            "engine": self.engine,
            "replications": self.replications,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        """Return the answer for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        horizon, never = duration_text(self.scenario.horizon_seconds), self.never_probability
        low, middle, high, _ = (duration_text(getattr(self.seconds, n)) for n in Range.__slots__)
        if self.never:
            yield f"Never drained within {horizon} in {never:.3g} of the runs."
        else:
            yield f"Drained in {middle} (p5 {low}, p95 {high})."
        if never > 0 and not self.never:
            yield f"Never within {horizon}: {never:.2g} of the runs."
        yield (
            f"Attempts per job {self.attempts_per_job:.3g}; "
            f"highest load {_peak(self.upstream_calls):.3g} calls/s; "
            f"oldest job {duration_text(_peak(self.oldest_age))} at worst."
        )
        dead = {name: number for name, number in self.dead_letters.items() if number}
        reasons = ", ".join(f"{number:,.0f} {name}" for name, number in dead.items())
        yield f"Dead letters: {reasons or 'none'}."
        runs = count_text(self.replications, "run")
        yield f"Engine: {self.engine}, {runs}, seed {self.seed}."


def simulate(
    scenario: Scenario,
    *,
    replications: int = 200,
    seed: int = 0,
    engine: str = "auto",
    executor: Executor | None = None,
    progress: Progress = lambda done: None,
) -> Simulation:
    """Return what happens in a scenario: the drain, calls, ages and dead letters, with ranges.

    Parameters
    ----------
    scenario : Scenario
        What is simulated.
    replications : int
        Runs with random numbers of their own.
    seed : int
        The same seed gives the same numbers, on whatever executor.
    engine : str
        ``buckets`` for what they understand, ``event loop`` for everything; ``auto`` takes the
        buckets where it can.
    executor : concurrent.futures.Executor, optional
        Where runs are made: a process pool, or a Dask client's ``get_executor()``.
    progress : callable
        Is told how many more runs are done.

    Raises
    ------
    InputError
        If a number is out of range, or an engine is asked for what it does not understand.

    Examples
    --------
    >>> from jobplaybook.simulation.scenario import JobClass, Service
    >>> work = JobClass(backlog=1_000, service=Service(mean_seconds=1.0))
    >>> answer = simulate(Scenario(classes=(work,), workers=10), replications=100, seed=1)
    >>> answer.engine, 97 < answer.seconds.p50 < 101
    ('buckets', True)
    """
    _check(replications, seed)
    chosen = _engine(scenario, engine)
    size = _CHUNK[chosen]
    chunks = [range(at, min(at + size, replications)) for at in range(0, replications, size)]
    tasks = [(scenario, chosen, seed, chunk) for chunk in chunks]
    runs: list[Run] = []
    for made in executor.map(_chunk_of, tasks) if executor else map(_chunk_of, tasks):
        runs += made
        progress(len(made))
    return _summed(scenario, runs, seed, chosen)


def _check(replications: int, seed: int) -> None:
    if isinstance(replications, bool) or not 1 <= replications <= 1_000_000:
        raise InputError(f"expected 1 to 1,000,000 replications, found {replications}")
    if seed < 0:
        raise InputError(f"expected a seed not below 0, found {seed}")


def _engine(scenario: Scenario, engine: str) -> str:
    if engine not in ENGINES:
        raise InputError(f"expected the engine {', '.join(ENGINES)}, found {engine!r}")
    strange = [name for name in scenario.features() if name not in buckets.FEATURES]
    if engine == "buckets" and strange:
        raise InputError(f"the buckets do not understand: {', '.join(strange)}; use the event loop")
    if engine != "auto":
        return engine
    return "event-loop" if strange else "buckets"


def _chunk_of(task: tuple[Scenario, str, int, range]) -> list[Run]:
    scenario, engine, seed, numbers = task
    if engine == "buckets":
        together = np.random.SeedSequence(seed, spawn_key=(numbers.start,))
        return buckets.run_buckets(scenario, together, len(numbers))
    seeds = (np.random.SeedSequence(seed, spawn_key=(number,)) for number in numbers)
    return [run_events(scenario, each) for each in seeds]


def _summed(scenario: Scenario, runs: Sequence[Run], seed: int, engine: str) -> Simulation:
    drained = np.array([run.drained_seconds for run in runs])
    width = scenario.width_seconds
    reasons = sorted({reason for run in runs for reason in run.dead_letters})
    dead = {r: sum(run.dead_letters.get(r, 0) for run in runs) / len(runs) for r in reasons}
    waits = [run.wait_seconds for run in runs if run.attempts]
    return Simulation(
        scenario=scenario,
        replications=len(runs),
        seed=seed,
        engine=engine,
        never_probability=float(np.isinf(drained).mean()),
        seconds=_drain_range(drained),
        attempts_per_job=_ratio(sum(r.attempts for r in runs), sum(r.started for r in runs)),
        wait_seconds=float(np.mean(waits)) if waits else math.nan,
        upstream_calls=_series([run.calls / width for run in runs], width),
        offered=_series([run.offered / width for run in runs], width),
        completions=_series([run.completions / width for run in runs], width),
        oldest_age=_series([run.oldest_age for run in runs], width),
        backlog=_series([run.backlog for run in runs], width),
        dead_letters={"total": sum(dead.values()), **dead},
    )


def _range(values: Array) -> Range:
    # of runs that happened: no value between two of them, which infinity would make no number
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], method="inverted_cdf").tolist()
    return Range(p5=low, p50=middle, p95=high, mean=float(values.mean()))


def _drain_range(drained: Array) -> Range:
    seen, finite = _range(drained), drained[np.isfinite(drained)]
    if 1 - len(finite) / len(drained) > _MOST_NEVER:
        return Range(p5=seen.p5, p50=seen.p50, p95=math.inf, mean=math.inf)
    return Range(p5=seen.p5, p50=seen.p50, p95=seen.p95, mean=float(finite.mean()))


def _series(rows: Sequence[Array], width: float) -> tuple[Point, ...]:
    lengths = sorted((len(row) for row in rows), reverse=True)
    steps = lengths[(len(rows) - 1) // 2]
    points = []
    for step in range(steps):
        values = np.array([row[step] for row in rows if len(row) > step])
        points.append(Point(until_seconds=(step + 1) * width, value=_range(values)))
    return tuple(points)


def _peak(points: Sequence[Point]) -> float:
    return max((point.value.p50 for point in points), default=0.0)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
