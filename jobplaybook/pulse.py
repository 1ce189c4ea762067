"""How the queues are: age, rates, headroom, and whether the data agree with themselves.

Only a queue that is kept busy shows its capacity. One that completes what arrives tells nothing
of how much more it could do: then "no backlog" or "capacity unknown" is the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from jobplaybook import frames, measures
from jobplaybook.backlog import backlog_json, read_backlogs
from jobplaybook.cohort import no_queue
from jobplaybook.detectors.findings import rate_text
from jobplaybook.detectors.flow import is_backlog, is_stalled, oldest_age_seconds, queue_name
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.errors import InputError
from jobplaybook.estimates import BacklogSeen, estimate_seen
from jobplaybook.frames import Buckets, Interval
from jobplaybook.measures.balance import LittleCheck, busy_share, little_check
from jobplaybook.queries import flow
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, count_text, duration_text, iso, limit_text, plain
from jobplaybook.verdict import queue_word, time_warnings

_MOST_BUCKETS = 5_000
_MOST_QUEUES = 12
SATURATED_SHARE = 0.95
"""A queue is called saturated when something waited for so much of the rate window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePulse:
    """One queue's health; rates per second over the rate window, None where not recorded."""

    queue: str | None  # None: jobs without a queue
    waiting: int  # pending jobs
    claimable: int  # those that a worker could take
    running: int
    oldest_claimable_age_seconds: float | None  # never a parked retry's; None: nothing is claimable
    arrival_rate: float | None
    claim_rate: float | None
    completion_rate: float | None
    net_rate: float | None
    busy_share: float  # of the rate window, in which at least one job could be claimed and was not
    saturated: bool  # whether that share is at least `SATURATED_SHARE`
    utilisation: float | None  # arrivals over capacity; None: capacity unknown
    headroom: float | None  # the net rate over arrivals; None: capacity unknown
    drain: Mapping[str, Any]  # what ``estimate drain`` says of the backlog, or its ``text`` alone
    state: str
    capacity: str  # what is known of it, in words

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One bucket of one queue's series; ``at`` is the bucket's end, microseconds UTC."""

    queue: str | None
    at: int
    arrivals: int
    claims: int
    completions: int
    oldest_claimable_age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The answer of `jobplaybook.health`."""

    queues: tuple[QueuePulse, ...]  # those that were asked for
    overall: QueuePulse  # all of these; saturated only where each of them is that had work
    series: tuple[Point, ...]  # every queue has every bucket of the window
    unfinished: int  # jobs not ended where the window ends
    little: LittleCheck  # whether the counts agree with the times
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
            "series": [asdict(point) | {"at": iso(point.at)} for point in self.series],
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
        queues, rest = self._shown()
        rows = [_HEAD, *(_row(queue) for queue in (*queues, self.overall))]
        width = max(len(name) for name, *_ in rows)
        lines = [
            f"{name:<{width}}  {waiting:>7}  {oldest:>10}  {came:>7}  {done:>8}  {busy:>6}  {word}"
            for name, waiting, oldest, came, done, busy, word in rows
        ]
        if rest:
            words = Counter(queue.state for queue in rest)
            counted = ", ".join(f"{count:,} {word}" for word, count in words.most_common())
            more = f"and {count_text(len(rest), 'queue')} more: {counted} (--json has them all)"
            lines.insert(-1, more)
        seen = self.situation
        lines.append(
            f"Rates over the {duration_text(seen.rate_seconds)} before {iso(seen.flow_until)}; "
            "waited: share of that time in which a job could be claimed and was not."
        )
        lines += [f"{queue_name(q.queue)}: {q.capacity}" for q in queues if q.claimable]
        if not self.little.agrees:
            lines.append(
                "Little's law does not hold in this window: times are missing or wrong, so trust "
                "ages and rates less than counts."
            )
        return "\n".join([*lines, *(f"Note: {plain(warning)}." for warning in self.warnings)])

    def _shown(self) -> tuple[Sequence[QueuePulse], Sequence[QueuePulse]]:
        """Return the queues that a screen has room for, the longest if not all, and the rest."""
        if len(self.queues) <= _MOST_QUEUES:
            return self.queues, ()
        states = {state.queue: state for state in self.situation.queues}

        def rank(queue: QueuePulse) -> tuple[bool, bool, int, int]:
            state = states[queue.queue]
            still, late = is_stalled(self.situation, state), is_backlog(self.situation, state)
            return not still, not late, -queue.waiting, -state.arrivals

        ordered = sorted(self.queues, key=rank)
        return ordered[:_MOST_QUEUES], ordered[_MOST_QUEUES:]


_HEAD = ("queue", "waiting", "oldest", "in/min", "done/min", "waited", "state")


def _row(queue: QueuePulse) -> tuple[str, ...]:
    age = queue.oldest_claimable_age_seconds
    return (
        queue_name(queue.queue),
        f"{queue.waiting:,}",
        "-" if age is None else duration_text(age),
        _a_minute(queue.arrival_rate),
        _a_minute(queue.completion_rate),
        f"{queue.busy_share:.0%}",
        queue.state,
    )


def _a_minute(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate * 60:,.0f}" if rate == 0 or rate * 60 >= 9.95 else f"{rate * 60:.1f}"


def read_pulse(
    snapshot: Snapshot, situation: Situation, *, queue: str | None, bucket_seconds: float | None
) -> Pulse:
    """Read how the queues are, or one queue alone, out of a snapshot and what was read of it.

    Raises
    ------
    InputError
        If there is no queue of that name, or there would be too many buckets.
    """
    states = [state for state in situation.queues if queue is None or state.queue == queue]
    if queue is not None and not states:
        raise InputError(no_queue(queue, [state.queue for state in situation.queues]))
    since, until = situation.rates_from, situation.flow_until
    steps = _steps(situation, states, bucket_seconds)
    found = frames.waits_by_queue(snapshot, situation.window_from, until)
    waits = {state.queue: found.get(state.queue, []) for state in states}
    backlogs = read_backlogs(snapshot, situation)
    seen = {each.name: each for each in backlogs.queues}
    pulses = tuple(
        _pulse(
            situation,
            state,
            busy_share(waits[state.queue], since, until),
            _drain(situation, seen.get(state.queue)),
        )
        for state in states
    )
    every = sorted(chain(*waits.values()), key=lambda wait: wait[0])
    counted = snapshot.rows(flow.unfinished(until))
    unfinished = sum(count for name, count in counted if name in waits)
    stays = [
        (created / MICROS, None if ended is None else ended / MICROS)
        for name, created, ended in snapshot.rows(flow.sojourns(since, until))
        if name in waits
    ]
    gaps = situation.not_read.items()
    unread = [f"not everything was read: {phase}: {why}" for phase, why in gaps]
    return Pulse(
        queues=pulses,
        overall=_overall(
            situation,
            states,
            pulses,
            busy_share(every, since, until),
            _drain(situation, backlogs.overall if queue is None else seen.get(queue)),
        ),
        series=tuple(_series(snapshot, situation, waits, steps)),
        unfinished=unfinished,
        little=little_check(stays, unfinished, since / MICROS, until / MICROS),
        situation=situation,
        bucket_seconds=steps.width / MICROS,
        warnings=(*snapshot.notes, *unread, *time_warnings(situation)),
    )


def _steps(
    situation: Situation, states: Sequence[QueueState], bucket_seconds: float | None
) -> Buckets:
    firsts = [state.first_at for state in states if state.first_at is not None]
    until = situation.flow_until
    since = max(min(firsts, default=situation.rates_from), situation.window_from)
    steps = frames.buckets_of(since, until, bucket_seconds)
    if len(steps) > _MOST_BUCKETS:
        seconds = (until - since) / MICROS
        at_least = math.ceil(seconds / _MOST_BUCKETS * 1_000) / 1_000
        raise InputError(
            f"expected at most {_MOST_BUCKETS:,} buckets, found {len(steps):,} in a window of "
            f"{duration_text(seconds)}: choose a --bucket of at least "
            f"{limit_text(at_least)}"
        )
    return steps


def _series(
    snapshot: Snapshot,
    situation: Situation,
    waits: Mapping[str | None, list[Interval]],
    steps: Buckets,
) -> Iterator[Point]:
    counts = frames.count_events(snapshot, situation.window_from, situation.flow_until, steps)
    for queue, intervals in waits.items():
        ages = frames.oldest_ages(intervals, steps)
        for step, (end, age) in enumerate(zip(steps.ends(), ages, strict=True)):
            yield Point(
                queue=queue,
                at=end,
                arrivals=counts[queue, step, "arrival"],
                claims=counts[queue, step, "claim"],
                completions=counts[queue, step, "completion"],
                oldest_claimable_age_seconds=age / MICROS,
            )


_SUMMED = ("waiting", "claimable", "due", "running", "arrivals", "claims", "completions", "dead")


def _drain(situation: Situation, seen: BacklogSeen | None) -> dict[str, Any]:
    if "unfinished" in situation.not_read and (seen is None or not seen.waiting):
        return {"text": "not read whole", "never": None, "seconds": None}
    if seen is None:
        seen = BacklogSeen(name=None, waiting=0)
    return backlog_json(seen, estimate_seen(seen) if seen.waiting else None)


def _overall(
    situation: Situation,
    states: Sequence[QueueState],
    pulses: Sequence[QueuePulse],
    busy: float,
    drain: Mapping[str, Any],
) -> QueuePulse:
    together = QueueState(
        queue=None,
        oldest_at=min((s.oldest_at for s in states if s.oldest_at is not None), default=None),
        **{name: sum(getattr(state, name) for state in states) for name in _SUMMED},
    )
    at_work = [queue for queue in pulses if queue.claimable or queue.completion_rate]
    # One queue that is short of workers says nothing of what the others could do.
    limited = bool(at_work) and all(queue.saturated for queue in at_work)
    together_pulse = _pulse(situation, together, busy, drain, saturated=limited)
    return replace(together_pulse, queue="all queues")


def _pulse(
    situation: Situation,
    state: QueueState,
    busy: float,
    drain: Mapping[str, Any],
    *,
    saturated: bool | None = None,
) -> QueuePulse:
    seconds = situation.rate_seconds
    arrival = state.arrivals / seconds if situation.knows_arrivals else None
    completion = state.left / seconds if situation.knows_ends else None
    if saturated is None:
        saturated = busy >= SATURATED_SHARE and state.paused_at is None and bool(completion)
    net = utilisation = headroom = None
    if arrival is not None and completion is not None:
        net = measures.net_rate(completion, arrival_rate=arrival)
        if saturated and arrival:
            utilisation = measures.utilisation(arrival, completion_rate=completion)
            headroom = measures.headroom(completion, arrival_rate=arrival)
    word = queue_word(situation, state)
    if saturated and net is not None and word == "waiting, capacity unknown":
        word = "saturated, draining" if net > 0 else "saturated, not clearing"
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
        utilisation=utilisation,
        headroom=headroom,
        drain=drain,
        state=word,
        capacity=_capacity(state, completion, net, saturated=saturated),
    )


def _capacity(
    state: QueueState, completion: float | None, net: float | None, *, saturated: bool
) -> str:
    """Return what a window shows of a queue's capacity; only one kept busy shows its limit."""
    if completion is None:
        return "Capacity unknown: this system does not record when jobs end."
    if state.paused_at is not None:
        return "Capacity unknown: it is paused."
    if not completion:
        return "Capacity unknown: nothing ended in the window."
    done = rate_text(completion)
    if not saturated:
        return f"At least {done}; its limit was not seen."
    if net is None:
        return f"About {done}, its limit."
    word = "more" if net > 0 else "less"
    against = f"{rate_text(abs(net))} {word} than comes" if net else "just what comes"
    return f"About {done}, its limit: {against}."
