"""How the queues are: age, rates, headroom, and whether the data agree with themselves.

Only a queue that is kept busy shows its capacity. One that completes what arrives tells nothing
of how much more it could do: then "no backlog" or "capacity unknown" is the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobplaybook import measures
from jobplaybook.detectors.flow import oldest_age_seconds, queue_name
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.errors import InputError
from jobplaybook.estimates import estimate_drain
from jobplaybook.frames import Buckets, Interval, buckets_of, oldest_ages
from jobplaybook.queries import flow
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, duration_text, iso, shown
from jobplaybook.verdict import queue_word

SATURATED_SHARE = 0.95
"""A queue is called saturated when something waited for so much of the rate window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePulse:
    """One queue's health; rates per second over the rate window, None where unknown.

    Parameters
    ----------
    queue : str or None
        Its name; None for jobs without a queue.
    waiting, claimable, running : int
        Pending jobs, those a worker could take, and those in work.
    oldest_claimable_age_seconds : float or None
        Never the age of a parked retry; None where nothing is claimable.
    busy_share : float
        Share of the rate window in which at least one job could be claimed and was not.
    saturated : bool
        Whether that share is at least `SATURATED_SHARE`.
    utilisation, headroom : float or None
        Arrivals over capacity, and the net rate over arrivals; None: capacity unknown.
    drain : dict
        The answer of ``estimate drain`` for the backlog, or its ``text`` alone.
    """

    queue: str | None
    waiting: int
    claimable: int
    running: int
    oldest_claimable_age_seconds: float | None
    arrival_rate: float
    claim_rate: float
    completion_rate: float
    net_rate: float
    busy_share: float
    saturated: bool
    utilisation: float | None
    headroom: float | None
    drain: Mapping[str, Any]
    state: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: _finite(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One bucket of one queue's series; ``at`` is the bucket's end, microseconds UTC."""

    queue: str | None
    at: int
    arrivals: int
    claims: int
    completions: int
    oldest_claimable_age_seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: getattr(self, name) for name in self.__slots__} | {"at": iso(self.at)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LittleCheck:
    """Little's law over the rate window: whether counts and times agree.

    Parameters
    ----------
    jobs_in_system : float
        Time average of jobs waiting and in work.
    arrival_rate : float
        Jobs accepted per second.
    sojourn_seconds : float or None
        Mean time from acceptance to the end, or to now; None where nothing arrived.
    residual : float or None
        Jobs that the law does not account for.
    edge : float
        Jobs that those accepted before the window account for; a residual outside of
        [0, edge] says that rows are missing or times are wrong.
    agrees : bool
        Whether it is inside.
    """

    jobs_in_system: float
    arrival_rate: float
    sojourn_seconds: float | None
    residual: float | None
    edge: float
    agrees: bool

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The answer of `jobplaybook.health`."""

    queues: tuple[QueuePulse, ...]
    overall: QueuePulse
    series: tuple[Point, ...]
    little: LittleCheck
    situation: Situation
    bucket_seconds: float
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook health``."""
        seen = self.situation
        return {
            "queues": [queue.to_json() for queue in self.queues],
            "overall": self.overall.to_json(),
            "series": [point.to_json() for point in self.series],
            "little": self.little.to_json(),
            "now": iso(seen.now),
            "window_from": iso(seen.window_from),
            "rates_from": iso(seen.rates_from),
            "rates_until": iso(seen.flow_until),
            "bucket_seconds": self.bucket_seconds,
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """Return the health for people: a line a queue, then what the numbers rest on."""
        rows = [_row(queue) for queue in (*self.queues, self.overall)]
        width = max(5, *(len(row[0]) for row in rows))
        lines = [
            f"{'queue':<{width}}  {'waiting':>7}  {'oldest':>10}  {'in/min':>7}  {'done/min':>8}  "
            f"{'waited':>6}  state"
        ]
        lines += [
            f"{name:<{width}}  {waiting:>7}  {oldest:>10}  {came:>7}  {done:>8}  {busy:>6}  {word}"
            for name, waiting, oldest, came, done, busy, word in rows
        ]
        seen = self.situation
        lines.append(
            f"Rates over the {duration_text(seen.rate_seconds)} before {iso(seen.flow_until)}; "
            "waited: share of that time in which a job could be claimed and was not."
        )
        if not self.little.agrees:
            lines.append(
                "Little's law does not hold in this window: rows are missing or times are wrong."
            )
        return "\n".join(lines)


def read_pulse(
    snapshot: Snapshot,
    situation: Situation,
    *,
    queue: str | None = None,
    bucket_seconds: float | None = None,
) -> Pulse:
    """Read how the queues are.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    situation : Situation
        What was read of it already.
    queue : str, optional
        One queue alone.
    bucket_seconds : float, optional
        Width of the series' buckets; by default a round one that makes at most 120.

    Raises
    ------
    InputError
        If there is no queue of that name.
    """
    states = [state for state in situation.queues if queue is None or state.queue == queue]
    if queue is not None and not states:
        raise InputError(_no_queue(queue, situation))
    since, until = situation.rates_from, situation.flow_until
    waits = _by_queue(snapshot.rows(flow.claimable_intervals(situation.window_from, until)))
    shares = {state.queue: busy_share(waits[state.queue], since, until) for state in states}
    every = [interval for state in states for interval in waits[state.queue]]
    together = replace(
        _summed(states), oldest_at=min(_known(s.oldest_at for s in states), default=None)
    )
    overall = _pulse(situation, together, busy_share(sorted(every, key=_begin), since, until))
    steps = buckets_of(_first(situation), until, bucket_seconds)
    names = {state.queue for state in states}
    jobs = [row[1:] for row in snapshot.rows(flow.sojourns(since, until)) if row[0] in names]
    return Pulse(
        queues=tuple(_pulse(situation, state, shares[state.queue]) for state in states),
        overall=replace(overall, queue="all queues", state=_overall_word(overall)),
        series=tuple(_series(snapshot, situation, states, waits, steps)),
        little=little_check(jobs, since, until),
        situation=situation,
        bucket_seconds=steps.width / MICROS,
        warnings=snapshot.notes,
    )


def _no_queue(queue: str, situation: Situation) -> str:
    from difflib import get_close_matches

    names = [state.queue for state in situation.queues if state.queue is not None]
    near = get_close_matches(queue, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names[:10]) or 'none'}"
    return f"expected a queue of this snapshot, found {shown(queue)}: {hint}"


def _known(times: Iterable[int | None]) -> list[int]:
    return [time for time in times if time is not None]


def _begin(interval: Interval) -> int:
    return interval[0]


def _first(situation: Situation) -> int:
    firsts = _known(state.first_at for state in situation.queues)
    return max(min(firsts, default=situation.rates_from), situation.window_from)


def _by_queue(rows: Iterable[Sequence[Any]]) -> dict[str | None, list[Interval]]:
    found: dict[str | None, list[Interval]] = defaultdict(list)
    for queue, begin, end in rows:
        found[queue].append((begin, end))
    return found


def busy_share(intervals: Iterable[Interval], since: int, until: int) -> float:
    """Return the share of [since, until] that at least one interval covers.

    Parameters
    ----------
    intervals : iterable of (int, int or None)
        In order of their beginnings; None: still open.

    Examples
    --------
    >>> busy_share([(0, 4), (2, 5), (8, None)], 0, 10)
    0.7
    """
    covered, reached = 0, since
    for begin, end in intervals:
        begin, end = max(begin, reached), min(until if end is None else end, until)
        if end > begin:
            covered += end - begin
            reached = end
    return covered / max(until - since, 1)


def _summed(states: Sequence[QueueState]) -> QueueState:
    names = ("waiting", "claimable", "due", "running", "arrivals", "claims", "completions", "dead")
    return QueueState(
        queue=None, **{name: sum(getattr(state, name) for state in states) for name in names}
    )


def _pulse(situation: Situation, state: QueueState, busy: float) -> QueuePulse:
    seconds = situation.rate_seconds
    arrival, completion = state.arrivals / seconds, state.left / seconds
    saturated = busy >= SATURATED_SHARE and state.paused_at is None and completion > 0
    known = saturated and arrival > 0
    return QueuePulse(
        queue=state.queue,
        waiting=state.waiting,
        claimable=state.claimable,
        running=state.running,
        oldest_claimable_age_seconds=oldest_age_seconds(situation, state),
        arrival_rate=arrival,
        claim_rate=state.claims / seconds,
        completion_rate=completion,
        net_rate=measures.net_rate(completion, arrival_rate=arrival),
        busy_share=busy,
        saturated=saturated,
        utilisation=measures.utilisation(arrival, completion_rate=completion) if known else None,
        headroom=measures.headroom(completion, arrival_rate=arrival) if known else None,
        drain=_drain(state, arrival, completion, saturated=saturated),
        state=queue_word(situation, state),
    )


def _drain(
    state: QueueState, arrival: float, completion: float, *, saturated: bool
) -> dict[str, Any]:
    if not state.backlog:
        return {"text": "no backlog", "never": False, "seconds": None}
    if not saturated:
        return {"text": "capacity unknown", "never": None, "seconds": None}
    return estimate_drain(
        backlog=state.backlog, arrival_rate=arrival, completion_rate=completion
    ).to_json()


def _overall_word(overall: QueuePulse) -> str:
    if not overall.claimable:
        return "no backlog" if not overall.waiting else "nothing due"
    return str(overall.drain["text"]) if overall.saturated else "waiting, capacity unknown"


def _series(
    snapshot: Snapshot,
    situation: Situation,
    states: Sequence[QueueState],
    waits: Mapping[str | None, Sequence[Interval]],
    steps: Buckets,
) -> Iterable[Point]:
    counted = flow.buckets(situation.window_from, situation.flow_until, bucket=steps.width)
    cells: dict[tuple[str | None, int, str], int] = defaultdict(int)
    for kind, queue, begin, count in snapshot.rows(counted):
        cells[queue, steps.index(begin), kind] += count
    for state in states:
        ages = oldest_ages(waits[state.queue], steps)
        for step, (end, age) in enumerate(zip(steps.ends(), ages, strict=True)):
            yield Point(
                queue=state.queue,
                at=end,
                arrivals=cells[state.queue, step, "arrival"],
                claims=cells[state.queue, step, "claim"],
                completions=cells[state.queue, step, "completion"],
                oldest_claimable_age_seconds=age / MICROS,
            )


def little_check(jobs: Sequence[tuple[int, int | None]], since: int, until: int) -> LittleCheck:
    """Check Little's law L = λW on the jobs that were in the system in [since, until].

    Parameters
    ----------
    jobs : sequence of (int, int or None)
        Acceptance and end of each job, microseconds UTC; None: not ended.

    Examples
    --------
    >>> check = little_check([(0, 4_000_000), (2_000_000, None)], 0, 10_000_000)
    >>> check.jobs_in_system, check.sojourn_seconds, check.agrees
    (1.2, 6.0, True)
    """
    width = max(until - since, 1)
    ends = [until if end is None or end > until else end for _, end in jobs]
    inside = [max(e - max(b, since), 0) for (b, _), e in zip(jobs, ends, strict=True)]
    before = [begin < since for begin, _ in jobs]
    stayed = [e - b for (b, _), e, old in zip(jobs, ends, before, strict=True) if not old]
    edge = sum(t for t, old in zip(inside, before, strict=True) if old) / width
    average = sum(inside) / width
    arrival = len(stayed) / (width / MICROS)
    sojourn = sum(stayed) / len(stayed) / MICROS if stayed else None
    residual = None if sojourn is None else average - arrival * sojourn
    slack = 1e-6 * max(average, 1.0)
    return LittleCheck(
        jobs_in_system=average,
        arrival_rate=arrival,
        sojourn_seconds=sojourn,
        residual=residual,
        edge=edge,
        agrees=residual is None or -slack <= residual <= edge + slack,
    )


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value


def _row(queue: QueuePulse) -> tuple[str, ...]:
    age = queue.oldest_claimable_age_seconds
    return (
        queue_name(queue.queue),
        f"{queue.waiting:,}",
        "-" if age is None else duration_text(age),
        f"{queue.arrival_rate * 60:,.0f}",
        f"{queue.completion_rate * 60:,.0f}",
        f"{queue.busy_share:.0%}",
        queue.state,
    )
