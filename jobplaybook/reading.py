"""From a snapshot to a `Situation`: a few aggregates and the few rows that matter, no frames."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from jobplaybook.detectors.flow import YOUNG_SECONDS
from jobplaybook.detectors.leases import is_doubtful, live_runs
from jobplaybook.detectors.situation import (
    DeadJob,
    HeldJob,
    QueueState,
    RunTime,
    Situation,
    WorkerState,
)
from jobplaybook.errors import InputError
from jobplaybook.model import Quality
from jobplaybook.queries import flow, leases, standing
from jobplaybook.reading_more import read_more
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.tables import facts, queues, windows
from jobplaybook.units import MICROS, iso

RATE_SECONDS = 900.0
"""Rates are taken over the last quarter of an hour, or over what there is of it."""
_MIN_CLAIMS = 20
"""Fewer waits than this do not tell what is normal."""
_AHEAD = 3_600 * MICROS  # no clock that anybody keeps is so far off
_COUNTED = {"arrival": "arrivals", "claim": "claims", "completion": "completions", "dead": "dead"}
_SWEEPER_NAME = re.compile(r"stall|rescue|requeue|sweep|recover|reap|orphan|stuck", re.I)


def read_situation(
    snapshot: Snapshot,
    *,
    now: int | None = None,
    since_seconds: float = 86_400.0,
    until: int | None = None,
) -> Situation:
    """Read what the detectors look at.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    now : int, optional
        The moment of judgement, microseconds UTC; by default each lease is judged when it was
        read, and everything else when the snapshot was captured.
    since_seconds : float
        How far back the window reaches.
    until : int, optional
        Where the window ends, microseconds UTC; by default at ``now``. Queues are judged as of
        then, leases are not.

    Raises
    ------
    InputError
        If the window is empty.
    """
    at = snapshot.captured_at if now is None else now
    seen_until = min(snapshot.captured_at, at)
    end = seen_until if until is None else min(until, seen_until)
    covered = snapshot.time("window_from") or 0
    if end == snapshot.captured_at:
        # a capture that read no finished job covers no time, and still tells of the running ones
        covered = min(covered, end - MICROS)
    since = max(end - int(since_seconds * MICROS), covered)
    if since >= end:
        raise InputError(
            f"expected a window that ends after {iso(covered)}, where what was captured begins, "
            f"found one that ends at {iso(end)}: choose a longer --since, a later --until or --now"
        )
    graded = snapshot.rows(sa.select(facts.c.fact, facts.c.state, facts.c.quality, facts.c.note))
    schedules = snapshot.rows(sa.select(windows.c.schedule).distinct().order_by(windows.c.schedule))
    whole = _flow(snapshot, since, end)
    rates_from = _rates_from(whole.values(), since, end)
    workers = _workers(snapshot)
    held = _held(snapshot, now, workers)
    rows = snapshot.rows(standing.counts(end))
    statuses, states, layers = (_summed(rows, place) for place in (2, 3, 4))
    situation = Situation(
        system=snapshot.system,
        now=at,
        seen_until=seen_until,
        window_from=since,
        window_until=end,
        rates_from=rates_from,
        workers_read_at=snapshot.time("workers_read_at"),
        held=held,
        workers=workers,
        dead=tuple(DeadJob(**d) for d in _dicts(snapshot, flow.dead_letters(since, end))),
        finished_in_window=sum(queue.left for queue in whole.values()),
        ahead=snapshot.rows(standing.created_after(snapshot.captured_at + _AHEAD))[0][0],
        run_times=_run_times(snapshot, held, workers),
        counts=statuses,
        states=states,
        layers=layers,
        facts={(fact, state): Quality[grade.upper()] for fact, state, grade, _ in graded},
        fact_notes={(fact, state): note or "" for fact, state, _, note in graded},
        not_read=snapshot.json("not_read") or {},
        sweeper=snapshot.meta.get("sweeper") or None,
        possible_sweepers=tuple(name for (name,) in schedules if _SWEEPER_NAME.search(name)),
        source_schema=snapshot.meta.get("source_schema", ""),
    )
    return read_more(snapshot, replace(situation, queues=_queues(snapshot, situation, whole, rows)))


def _dicts(snapshot: Snapshot, statement: sa.Select[Any]) -> list[dict[str, Any]]:
    names = statement.selected_columns.keys()
    return [dict(zip(names, row, strict=True)) for row in snapshot.rows(statement)]


def _workers(snapshot: Snapshot) -> tuple[WorkerState, ...]:
    """Return the workers, by the lease that was asked for where one was."""
    asked = {} if snapshot.lease_seconds is None else {"lease_seconds": snapshot.lease_seconds}
    return tuple(WorkerState(**{**row, **asked}) for row in _dicts(snapshot, leases.beats()))


def _held(
    snapshot: Snapshot, now: int | None, workers: Iterable[WorkerState]
) -> tuple[HeldJob, ...]:
    rows = _dicts(snapshot, leases.held())
    beats = {worker.owner: worker.heartbeat_at for worker in workers}
    for row in rows:
        read_at = row.pop("read_at")
        row["judged_at"] = now if now is not None else read_at or snapshot.captured_at
        alive_at = beats.get(row["owner"]) or row["claimed_at"]
        if snapshot.lease_seconds is not None and row["owner"] and alive_at is not None:
            row["locked_until"] = alive_at + int(snapshot.lease_seconds * MICROS)
    return tuple(HeldJob(**row) for row in rows)


def _summed(rows: Sequence[tuple[Any, ...]], place: int) -> dict[str, int]:
    """Return the counts of `standing.counts` by one of its columns."""
    found: Counter[str] = Counter()
    for row in rows:
        found[row[place]] += row[-1]
    return dict(found)


def _run_times(
    snapshot: Snapshot, held: Iterable[HeldJob], workers: Iterable[WorkerState]
) -> dict[str | None, RunTime]:
    """Read run times only for the types of runs that no lease vouches for; None is all types."""
    owners = {worker.owner: worker for worker in workers}
    doubtful = {job.job_type for job in held if is_doubtful(job, owners)}
    types = {None, *doubtful} if doubtful else set()
    found = {job_type: _run_time(snapshot, job_type) for job_type in types}
    return {job_type: run for job_type, run in found.items() if run is not None}


def _run_time(snapshot: Snapshot, job_type: str | None) -> RunTime | None:
    ran = [row[0] for row in snapshot.rows(leases.run_times(job_type))]
    return RunTime(p99_seconds=_percentile(ran, 0.99) / MICROS, runs=len(ran)) if ran else None


def _percentile(ordered: Sequence[int], share: float) -> float:
    """Return the smallest value that at least ``share`` of the ordered values do not exceed."""
    rank = max(-int(-share * len(ordered) // 1), 1)
    return float(ordered[rank - 1])


def _flow(snapshot: Snapshot, since: int, until: int) -> dict[str | None, QueueState]:
    """Return each queue's events in a window; claims go to both of its counts."""
    found: dict[str | None, dict[str, Any]] = defaultdict(dict)
    for kind, queue, count, first, last in snapshot.rows(flow.totals(since, until)):
        state = found[queue]
        state["first_at"] = min(first, state.get("first_at", first))
        state[_COUNTED[kind]] = count
        if kind == "claim":
            state["claims_before"], state["last_claim_at"] = count, last
        elif kind == "completion":
            state["last_completion_at"] = last
    return {queue: QueueState(queue=queue, **state) for queue, state in found.items()}


def _rates_from(queues: Iterable[QueueState], since: int, until: int) -> int:
    """Return where the rate window begins: rates are not thinned by time before the first event."""
    firsts = [queue.first_at for queue in queues if queue.first_at is not None]
    begin = max(until - int(RATE_SECONDS * MICROS), since, min(firsts, default=since))
    return min(begin, until - MICROS)


def _queues(
    snapshot: Snapshot,
    situation: Situation,
    whole: Mapping[str | None, QueueState],
    rows: Sequence[tuple[Any, ...]],
) -> tuple[QueueState, ...]:
    """Return every queue: what stands there, what flowed lately, what is normal for it."""
    end = situation.flow_until
    recent = _flow(snapshot, situation.rates_from, end)
    standing_now: dict[str | None, Counter[str]] = defaultdict(Counter)
    for queue, _type, status, _state, _layer, count in rows:
        standing_now[queue][status] += count
    due = {row.pop("queue"): row for row in _dicts(snapshot, standing.claimable(end))}
    for row in due.values():
        row["claimable"] = row.pop("count")
    waits = _waits(snapshot, situation, {q: row["oldest_at"] for q, row in due.items()})
    # With a later now leases are judged again, but no queue is: its runs are taken as read.
    as_read = situation
    if situation.judged_later:
        as_read = replace(situation, held=_held(snapshot, None, situation.workers))
    live = live_runs(as_read)
    paused = dict(snapshot.rows(sa.select(queues.c.queue, queues.c.paused_at)))
    names = sorted(
        {*whole, *standing_now, *paused}, key=lambda name: (name is not None, name or "")
    )
    return tuple(
        replace(
            whole.get(name, QueueState(queue=name)),
            waiting=standing_now[name]["pending"],
            running=standing_now[name]["processing"],
            live=live[name],
            **_counts(recent.get(name)),
            **due.get(name, {}),
            **waits.get(name, {}),
            paused_at=paused.get(name),
        )
        for name in names
    )


def _counts(lately: QueueState | None) -> dict[str, Any]:
    return {kind: getattr(lately, kind, 0) for kind in _COUNTED.values()}


def _waits(
    snapshot: Snapshot, situation: Situation, oldest: Mapping[str | None, int | None]
) -> dict[str | None, dict[str, Any]]:
    """Return the p95 wait before each present backlog began, and lately, where it may be asked."""
    until = situation.flow_until
    asked = {
        queue: at
        for queue, at in oldest.items()
        if at is not None and (until - at) / MICROS >= YOUNG_SECONDS
    }
    if not asked:
        return {}
    before: dict[str | None, list[int]] = defaultdict(list)
    lately: dict[str | None, list[int]] = defaultdict(list)
    for queue, claimed_at, wait in snapshot.rows(flow.waits(situation.window_from, until)):
        if claimed_at < asked.get(queue, 0):
            before[queue].append(wait)
        if claimed_at >= situation.rates_from:
            lately[queue].append(wait)
    return {
        queue: {
            "normal_wait_seconds": _usual(before[queue]),
            "recent_wait_seconds": _usual(lately[queue]),
        }
        for queue in asked
    }


def _usual(waits: Sequence[int]) -> float | None:
    """Return the p95 of ordered waits in seconds; None where they are too few to tell."""
    return _percentile(waits, 0.95) / MICROS if len(waits) >= _MIN_CLAIMS else None
