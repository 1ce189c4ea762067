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
from jobplaybook.cohort import no_queue
from jobplaybook.detectors.flow import oldest_age_seconds, queue_name
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.errors import InputError
from jobplaybook.estimates import estimate_drain
from jobplaybook.frames import Buckets, Interval, buckets_of, oldest_ages
from jobplaybook.measures.balance import LittleCheck, busy_share, little_check
from jobplaybook.pulse_words import a_minute, capacity_words, state_word
from jobplaybook.queries import flow
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, duration_text, iso, plain
from jobplaybook.verdict import time_warnings

_MOST_BUCKETS = 5_000
SATURATED_SHARE = 0.95
"""A queue is called saturated when something waited for so much of the rate window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePulse:
    """One queue's health; rates per second over the rate window, None where not recorded.

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
    capacity : str
        What is known of its capacity, in words.
    """

    queue: str | None
    waiting: int
    claimable: int
    running: int
    oldest_claimable_age_seconds: float | None
    arrival_rate: float | None
    claim_rate: float | None
    completion_rate: float | None
    net_rate: float | None
    busy_share: float
    saturated: bool
    utilisation: float | None
    headroom: float | None
    drain: Mapping[str, Any]
    state: str
    capacity: str

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
class Pulse:
    """The answer of `jobplaybook.health`.

    Parameters
    ----------
    queues : tuple of QueuePulse
        The queues that were asked for.
    overall : QueuePulse
        All of these together; saturated only where each of them is that had work.
    series : tuple of Point
        Every queue has every bucket of the window.
    unfinished : int
        Jobs not ended where the window ends.
    little : LittleCheck
        Whether the counts agree with the times.
    """

    queues: tuple[QueuePulse, ...]
    overall: QueuePulse
    series: tuple[Point, ...]
    unfinished: int
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
            "unfinished": self.unfinished,
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
        said = [
            f"Rates over the {duration_text(seen.rate_seconds)} before {iso(seen.flow_until)}; "
            "waited: share of that time in which a job could be claimed and was not."
        ]
        said += [f"{queue_name(q.queue)}: {q.capacity}" for q in self.queues if q.claimable]
        if not self.little.agrees:
            said.append(
                "Little's law does not hold in this window: times are missing or wrong, so trust "
                "ages and rates less than counts."
            )
        said += [f"Note: {plain(warning)}." for warning in self.warnings]
        lines += said
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
        If there is no queue of that name, or there would be too many buckets.
    """
    states = [state for state in situation.queues if queue is None or state.queue == queue]
    if queue is not None and not states:
        raise InputError(no_queue(queue, [state.queue for state in situation.queues]))
    since, until = situation.rates_from, situation.flow_until
    steps = _steps(_first(situation, states), until, bucket_seconds)
    waits = _by_queue(snapshot.rows(flow.claimable_intervals(situation.window_from, until)))
    shares = {state.queue: busy_share(waits[state.queue], since, until) for state in states}
    pulses = tuple(_pulse(situation, state, shares[state.queue]) for state in states)
    every = sorted((i for state in states for i in waits[state.queue]), key=_begin)
    names = {state.queue for state in states}
    counted = snapshot.rows(flow.unfinished(until))
    unfinished = sum(count for name, count in counted if name in names)
    gaps = situation.not_read.items()
    unread = [f"not everything was read: {phase}: {why}" for phase, why in gaps]
    return Pulse(
        queues=pulses,
        overall=_overall(situation, states, pulses, busy_share(every, since, until)),
        series=tuple(_series(snapshot, situation, states, waits, steps)),
        unfinished=unfinished,
        little=little_check(
            [
                (created / MICROS, None if ended is None else ended / MICROS)
                for name, created, ended in snapshot.rows(flow.sojourns(since, until))
                if name in names
            ],
            unfinished,
            since / MICROS,
            until / MICROS,
        ),
        situation=situation,
        bucket_seconds=steps.width / MICROS,
        warnings=(*snapshot.notes, *unread, *time_warnings(situation)),
    )


def _steps(since: int, until: int, bucket_seconds: float | None) -> Buckets:
    steps = buckets_of(since, until, bucket_seconds)
    if len(steps) > _MOST_BUCKETS:
        least = duration_text((until - since) / MICROS / _MOST_BUCKETS)
        raise InputError(
            f"expected at most {_MOST_BUCKETS:,} buckets, found {len(steps):,} in a window of "
            f"{duration_text((until - since) / MICROS)}: choose a --bucket of more than {least}"
        )
    return steps


def _known(times: Iterable[int | None]) -> list[int]:
    return [time for time in times if time is not None]


def _begin(interval: Interval) -> int:
    return interval[0]


def _first(situation: Situation, states: Sequence[QueueState]) -> int:
    firsts = _known(state.first_at for state in states)
    return max(min(firsts, default=situation.rates_from), situation.window_from)


def _by_queue(rows: Iterable[Sequence[Any]]) -> dict[str | None, list[Interval]]:
    found: dict[str | None, list[Interval]] = defaultdict(list)
    for queue, begin, end in rows:
        found[queue].append((begin, end))
    return found


def _summed(states: Sequence[QueueState]) -> QueueState:
    names = ("waiting", "claimable", "due", "running", "arrivals", "claims", "completions", "dead")
    return QueueState(
        queue=None, **{name: sum(getattr(state, name) for state in states) for name in names}
    )


def _overall(
    situation: Situation,
    states: Sequence[QueueState],
    pulses: Sequence[QueuePulse],
    busy: float,
) -> QueuePulse:
    oldest = min(_known(state.oldest_at for state in states), default=None)
    at_work = [queue for queue in pulses if queue.claimable or queue.completion_rate]
    # One queue that is short of workers says nothing of what the others could do.
    limited = bool(at_work) and all(queue.saturated for queue in at_work)
    together = replace(_summed(states), oldest_at=oldest)
    overall = _pulse(situation, together, busy, saturated=limited)
    return replace(overall, queue="all queues")


def _pulse(
    situation: Situation, state: QueueState, busy: float, *, saturated: bool | None = None
) -> QueuePulse:
    seconds = situation.rate_seconds
    arrival = state.arrivals / seconds if situation.knows_arrivals else None
    completion = state.left / seconds if situation.knows_ends else None
    known = arrival is not None and completion is not None
    net = (
        measures.net_rate(completion, arrival_rate=arrival)
        if arrival is not None and completion is not None
        else None
    )
    if saturated is None:
        saturated = busy >= SATURATED_SHARE and state.paused_at is None and bool(completion)
    limit = (completion or 0.0, arrival or 0.0)
    shown_limit = saturated and known and limit[1] > 0
    drain = _drain(state, *limit, saturated=saturated and known)
    if not state.backlog and "unfinished" in situation.not_read:
        drain = {"text": "not read whole", "never": None, "seconds": None}
    return QueuePulse(
        queue=state.queue,
        waiting=state.waiting,
        claimable=state.claimable,
        running=state.running,
        oldest_claimable_age_seconds=oldest_age_seconds(situation, state),
        arrival_rate=arrival,
        claim_rate=state.claims / seconds if situation.knows_claims else None,
        completion_rate=completion,
        net_rate=net,
        busy_share=busy,
        saturated=saturated,
        utilisation=measures.utilisation(limit[1], completion_rate=limit[0])
        if shown_limit
        else None,
        headroom=measures.headroom(limit[0], arrival_rate=limit[1]) if shown_limit else None,
        drain=drain,
        state=state_word(situation, state, saturated=saturated, net=net),
        capacity=capacity_words(state, completion=completion, net=net, saturated=saturated),
    )


def _drain(
    state: QueueState, completion: float, arrival: float, *, saturated: bool
) -> dict[str, Any]:
    if not state.backlog:
        return {"text": "no backlog", "never": False, "seconds": None}
    if state.paused_at is not None:
        return {"text": "not while it is paused", "never": None, "seconds": None}
    if not saturated:
        return {"text": "capacity unknown", "never": None, "seconds": None}
    return estimate_drain(
        backlog=state.backlog, arrival_rate=arrival, completion_rate=completion
    ).to_json()


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


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value


def _row(queue: QueuePulse) -> tuple[str, ...]:
    age = queue.oldest_claimable_age_seconds
    return (
        queue_name(queue.queue),
        f"{queue.waiting:,}",
        "-" if age is None else duration_text(age),
        a_minute(queue.arrival_rate),
        a_minute(queue.completion_rate),
        f"{queue.busy_share:.0%}",
        queue.state,
    )
