"""What a snapshot shows of a backlog: read once, told by queue, by job type and overall."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from jobplaybook.detectors.situation import Situation
from jobplaybook.errors import InputError
from jobplaybook.estimates import (
    DRAIN_KEYS,
    DRAINED_MEANS,
    FEWEST_LEFT,
    SEED,
    BacklogSeen,
    DrainEstimate,
    RateSeen,
    estimate_seen,
)
from jobplaybook.queries import backlog as queries
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, clock_text, count_text, duration_text, nearest, plain, shown

LOOK_BACK_SECONDS = 7_200.0
"""Rates are looked for so far back at most: what is older says little of the next hours."""
QUICK_LOOK_SECONDS = 1_800.0
"""So far back for the first answer, which has to be there at once."""
BUCKETS = 64
"""So that halving them comes to the quarter of an hour that rates are shown over."""
LEAST_BUCKET_SECONDS = 15.0
SILENT_SECONDS = 60.0
"""Where nothing has left a queue for so long, and ten times its usual gap, it does not drain."""
NO_BACKLOG_SECONDS = 60.0
"""What has waited for less, with few jobs, is a queue that keeps up and no backlog of its own."""


class _Life(NamedTuple):
    """One job: times in microseconds."""

    queue: str | None
    job_type: str | None
    pending: bool
    ended: bool
    created_at: int | None
    available_at: int | None
    claimed_at: int | None
    finished_at: int | None


class _Retry(NamedTuple):
    queue: str | None
    job_type: str | None
    ended_at: int
    due_at: int | None


_Row = TypeVar("_Row", _Life, _Retry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlogs:
    """The backlogs of a snapshot: of everything, of each queue and of each type that waits."""

    overall: BacklogSeen
    queues: tuple[BacklogSeen, ...]
    types: tuple[BacklogSeen, ...]


def read_backlogs(snapshot: Snapshot, situation: Situation) -> Backlogs:
    """Read what is known of how the backlogs drain.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    situation : Situation
        What was read of it already.
    """
    rows = _read(snapshot, situation)
    queues = rows.by(lambda row: row.queue)
    return Backlogs(
        overall=_whole(rows, queues), queues=queues, types=rows.by(lambda row: row.job_type)
    )


def read_whole(snapshot: Snapshot, situation: Situation) -> BacklogSeen:
    """Read `Backlogs.overall` alone, looking back no further than the first answer needs."""
    rows = _read(snapshot, situation, QUICK_LOOK_SECONDS)
    return _whole(rows, rows.by(lambda row: row.queue))


def read_backlog(snapshot: Snapshot, situation: Situation, queue: str | None) -> BacklogSeen:
    """Read the backlog of one queue alone, as quickly; None: of the jobs without one."""
    rows = _read(snapshot, situation, QUICK_LOOK_SECONDS, queue=queue)
    return rows.reader.seen(queue, rows.lives, rows.retries)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The lives and retries of a snapshot, and what counts them."""

    lives: Sequence[_Life]
    retries: Sequence[_Retry]
    reader: _Reader

    def by(self, key: Callable[[_Life | _Retry], str | None]) -> tuple[BacklogSeen, ...]:
        """Return the backlog of each name under which something waits."""
        own, again = _grouped(self.lives, key), _grouped(self.retries, key)
        names = {key(life) for life in self.lives if life.pending}
        return tuple(
            self.reader.seen(name, own[name], again.get(name, ()))
            for name in sorted(names, key=lambda name: (name is not None, name or ""))
        )


def _read(
    snapshot: Snapshot,
    situation: Situation,
    look_back: float = LOOK_BACK_SECONDS,
    **chosen: str | None,
) -> _Rows:
    since, until = _window(situation, snapshot.time("captured_from"), look_back)
    return _Rows(
        [_Life._make(row) for row in snapshot.rows(queries.lives(since, until, **chosen))],
        [_Retry._make(row) for row in snapshot.rows(queries.retried(since, until, **chosen))],
        _Reader(situation, since, until),
    )


def _whole(rows: _Rows, queues: Iterable[BacklogSeen]) -> BacklogSeen:
    overall = rows.reader.seen(None, rows.lives, rows.retries)
    ended = Counter(life.queue for life in rows.lives if life.ended)
    stuck = [each for each in queues if _keeps_waiting(each, ended[each.name])]
    if not stuck or overall.unknown:
        return overall
    # one queue that does not drain keeps the whole from ever being empty
    why = f"of queue {stuck[0].name or '(none)'}: {stuck[0].unknown}"
    return replace(overall, why_not=why)


def _window(situation: Situation, captured_from: int | None, look_back: float) -> tuple[int, int]:
    """Return since when and until when rates are looked for.

    They are not thinned by time before the first event, of which nobody knows anything, nor by
    the time that the capture took: what happened in it was read in part.
    """
    end = situation.flow_until
    until = end if captured_from is None else min(end, captured_from)
    firsts = [queue.first_at for queue in situation.queues if queue.first_at is not None]
    back = max(situation.window_from, until - int(look_back * MICROS))
    return min(max(back, min(firsts, default=back)), until - MICROS), until


def _grouped(
    rows: Iterable[_Row], key: Callable[[_Life | _Retry], str | None]
) -> dict[str | None, list[_Row]]:
    found: dict[str | None, list[_Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _keeps_waiting(seen: BacklogSeen, ended: int) -> bool:
    """Whether a queue has a backlog of which nobody knows that it drains.

    ``ended``: how many jobs left it in the whole window.
    """
    if not seen.waiting or not seen.unknown:
        return False
    if seen.why_not or seen.left is None or min(ended, FEWEST_LEFT) <= seen.waiting:
        return True
    return seen.left.seconds >= NO_BACKLOG_SECONDS


class _Reader:
    """Counts lives and retries of one snapshot into what an estimate is made from."""

    def __init__(self, situation: Situation, since: int, until: int) -> None:
        self._seen, self._since, self._until = situation, since, until
        self._paused = {queue.queue for queue in situation.queues if queue.paused_at is not None}
        unread = "unfinished" in situation.not_read
        self._why = "the unfinished jobs were not read whole" if unread else ""

    def seen(
        self, name: str | None, lives: Sequence[_Life], retries: Sequence[_Retry]
    ) -> BacklogSeen:
        """Return one backlog."""
        # what came after the last moment is not part of the backlog but of the arrivals to come
        pending = [life for life in lives if life.pending and (life.created_at or 0) <= self._until]
        due = [life for life in pending if (life.available_at or 0) <= self._until]
        parked = sorted(
            (life.available_at - self._until) / MICROS
            for life in pending
            if life.available_at is not None and life.available_at > self._until
        )
        left = [life.finished_at for life in lives if life.ended and life.finished_at is not None]
        busy = self._working_since(sorted(left), self._busy_since(lives))
        again = [retry for retry in retries if retry.ended_at >= busy]
        rests = [(r.due_at - r.ended_at) / MICROS for r in again if r.due_at is not None]
        return BacklogSeen(
            name=name,
            waiting=len(due),
            parked=tuple(parked),
            arrivals=rate_seen((life.created_at for life in lives), self._since, self._until)
            if self._seen.knows_arrivals
            else None,
            left=rate_seen(left, busy, self._until) if self._seen.knows_ends else None,
            retried=len(again),
            retry_delay_seconds=sum(rests) / len(rests) if rests else 0.0,
            why_not=self._why_not(due, left, busy),
        )

    def _why_not(self, due: Sequence[_Life], left: Sequence[int], busy: int) -> str:
        if self._why or not due:
            return self._why
        if all(life.queue in self._paused for life in due):
            return "it is paused"
        last = max((at for at in left if at <= self._until), default=busy)
        silent = (self._until - last) / MICROS
        if busy == self._until and last < busy:
            return f"nothing has left it since {clock_text(last)}, {duration_text(silent)} ago"
        return ""

    def _working_since(self, left: Sequence[int], busy: int) -> int:
        """Return since when jobs have left a busy queue without a silence that is no chance.

        ``left``: when they did, in order. The present itself where the silence goes on.
        """
        gone = [at for at in left if busy < at <= self._until]
        if len(gone) >= FEWEST_LEFT:
            # before the first of many nobody worked yet, if that was long as they go
            rests = [after - before for before, after in pairwise(gone)]
            if gone[0] - busy > max(10 * sum(rests) // len(rests), 2 * max(rests)):
                busy = gone[0]
        usual = 10 * (self._until - busy) // max(len(gone), 1)
        silence = max(int(SILENT_SECONDS * MICROS), usual)
        ends = [
            after
            for before, after in pairwise([busy, *gone, self._until])
            if after - before > silence
        ]
        return max(ends, default=busy)

    def _busy_since(self, lives: Iterable[_Life]) -> int:
        """Return since when at least one job could be claimed and was not, without a gap."""
        begin = reached = self._since
        for life in lives:  # in the order in which they could be claimed
            came, gone = life.available_at, self._until if life.pending else life.claimed_at
            if came is None or gone is None or came > self._until:
                continue
            if came > reached:
                begin = came
            if gone > reached:
                reached = gone
        return max(begin, self._since) if reached >= self._until else self._until


def rate_seen(times: Iterable[int | None], since: int, until: int) -> RateSeen:
    """Return how many of the times lie in each bucket of (since, until], all in microseconds.

    Where the count begins with an event, that one is the beginning and no part of the rate.
    """
    length = (until - since) / MICROS
    buckets = min(max(int(length / LEAST_BUCKET_SECONDS), 1), BUCKETS)
    counts = [0] * buckets
    for at in times:
        if at is not None and since < at <= until:
            counts[(at - since) * buckets // (until - since + 1)] += 1
    return RateSeen(counts=tuple(counts), bucket_seconds=max(length, 1e-6) / buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """When backlogs are gone: each as it was seen, and its estimate where there is one."""

    overall: BacklogSeen
    estimate: DrainEstimate | None
    queues: tuple[tuple[BacklogSeen, DrainEstimate | None], ...]
    types: tuple[tuple[BacklogSeen, DrainEstimate | None], ...]

    @property
    def text(self) -> str:
        """The answer in words."""
        return _told(self.overall, self.estimate)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``estimate drain --from``: the whole, then its parts."""
        return {
            **backlog_json(self.overall, self.estimate),
            "queues": [
                {"queue": seen.name, **backlog_json(seen, est)} for seen, est in self.queues
            ],
            "types": [
                {"job_type": seen.name, **backlog_json(seen, est)} for seen, est in self.types
            ],
        }

    def __str__(self) -> str:
        """Return the answer for people: the whole, then each queue and each type in a line."""
        lines = [self.text if self.estimate is None else str(self.estimate)]
        for word, parts in (("queue", self.queues), ("type", self.types)):
            for seen, estimate in sorted(parts, key=lambda part: -part[0].waiting):
                many = count_text(seen.waiting, "job")
                rest = f" and {len(seen.parked):,} parked" if seen.parked else ""
                name = plain(seen.name or f"(no {word})")
                lines.append(f"{word} {name}: {many} due{rest}; {_told(seen, estimate)}")
        return "\n".join(lines)


def recovery_of(
    backlogs: Backlogs,
    situation: Situation,
    *,
    queue: str | None = None,
    by_seconds: float | None = None,
    limit: int | None = None,
    seed: int = SEED,
) -> Recovery:
    """Return when backlogs are gone, as far as they show it.

    Parameters
    ----------
    backlogs : Backlogs
        What was read.
    situation : Situation
        What they were read beside.
    queue : str, optional
        One queue alone.
    by_seconds, limit, seed
        As `jobplaybook.estimates.estimate_seen`.

    Raises
    ------
    InputError
        If there is no queue of that name.
    """

    def estimated(seen: BacklogSeen) -> tuple[BacklogSeen, DrainEstimate | None]:
        if not seen.waiting:
            return seen, None
        return seen, estimate_seen(seen, by_seconds=by_seconds, limit=limit, seed=seed)

    if queue is None:
        whole = estimated(backlogs.overall)
        queues, types = map(estimated, backlogs.queues), map(estimated, backlogs.types)
        return Recovery(
            overall=whole[0], estimate=whole[1], queues=tuple(queues), types=tuple(types)
        )
    names = [state.queue for state in situation.queues if state.queue is not None]
    if queue not in names:
        raise InputError(f"no queue {shown(queue)}: {nearest(queue, names)}")
    own = [seen for seen in backlogs.queues if seen.name == queue]
    one = estimated(own[0] if own else BacklogSeen(name=queue, waiting=0))
    return Recovery(overall=one[0], estimate=one[1], queues=(), types=())


def _told(seen: BacklogSeen, estimate: DrainEstimate | None) -> str:
    if not seen.waiting:
        return "nothing due" if seen.parked else "no backlog"
    return f"capacity unknown: {seen.unknown}" if estimate is None else estimate.outlook


def backlog_json(seen: BacklogSeen, estimate: DrainEstimate | None) -> dict[str, Any]:
    """Return one backlog's JSON object; what is not known of it is None."""
    counts = {"waiting": seen.waiting, "parked": len(seen.parked)}
    if estimate is not None:
        return {**estimate.to_json(), **counts}
    return {
        **dict.fromkeys(DRAIN_KEYS),
        "never": None if seen.waiting else False,
        "seconds": dict.fromkeys(("mean", "p5", "p50", "p95")),
        "text": _told(seen, None),
        "drained_means": DRAINED_MEANS,
        "engine": "closed-form",
        "inputs": {"backlog": seen.waiting + len(seen.parked)},
        "needed": {},
        **counts,
    }
