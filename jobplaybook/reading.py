"""From a snapshot to a `Situation`: a few aggregates and the few rows that matter, no frames."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from jobplaybook.detectors.flow import YOUNG_SECONDS
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
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.tables import facts, queues, windows
from jobplaybook.units import MICROS, iso

RATE_SECONDS = 900.0
"""Rates are taken over the last quarter of an hour, or over what there is of it."""
_MIN_CLAIMS = 20
"""Fewer waits than this do not tell what is normal."""
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
        Where the window ends, microseconds UTC; by default at ``now``.

    Raises
    ------
    InputError
        If the window is empty.
    """
    at = snapshot.captured_at if now is None else now
    seen_until = min(snapshot.captured_at, at if until is None else min(until, at))
    covered = snapshot.time("window_from") or 0
    since = max(seen_until - int(since_seconds * MICROS), covered)
    if since >= seen_until:
        raise InputError(
            f"expected a window that ends after {iso(covered)}, where what was captured begins, "
            f"found one that ends at {iso(seen_until)}: choose a later --until or --now"
        )
    grades, notes = _facts(snapshot)
    queue_states, rates_from = _queues(snapshot, seen_until, since, seen_until)
    held = _held(snapshot, now)
    statuses, states, layers, _ = _counts(snapshot, seen_until)
    return Situation(
        system=snapshot.system,
        now=at,
        seen_until=seen_until,
        window_from=since,
        rates_from=rates_from,
        workers_read_at=snapshot.time("workers_read_at"),
        held=held,
        workers=tuple(WorkerState(**w) for w in _dicts(snapshot, leases.beats())),
        queues=queue_states,
        dead=tuple(DeadJob(**d) for d in _dicts(snapshot, flow.dead_letters(since, seen_until))),
        finished_in_window=sum(q.completions + q.dead for q in _whole(snapshot, since, seen_until)),
        run_times=_run_times(snapshot, held),
        counts=statuses,
        states=states,
        layers=layers,
        facts=grades,
        fact_notes=notes,
        not_read=snapshot.json("not_read") or {},
        sweeper=snapshot.meta.get("sweeper") or None,
        possible_sweepers=_possible_sweepers(snapshot),
        source_schema=snapshot.meta.get("source_schema", ""),
    )


def _dicts(snapshot: Snapshot, statement: sa.Select[Any]) -> list[dict[str, Any]]:
    names = statement.selected_columns.keys()
    return [dict(zip(names, row, strict=True)) for row in snapshot.rows(statement)]


def _held(snapshot: Snapshot, now: int | None) -> tuple[HeldJob, ...]:
    rows = _dicts(snapshot, leases.held())
    for row in rows:
        read_at = row.pop("read_at")
        row["judged_at"] = now if now is not None else read_at or snapshot.captured_at
    return tuple(HeldJob(**row) for row in rows)


def _counts(
    snapshot: Snapshot, now: int
) -> tuple[dict[str, int], dict[str, int], dict[str, int], list[tuple[Any, ...]]]:
    statuses: Counter[str] = Counter()
    states: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    rows = snapshot.rows(standing.counts(now))
    for _queue, _type, status, state, layer, count in rows:
        statuses[status] += count
        states[state] += count
        layers[layer] += count
    return dict(statuses), dict(states), dict(layers), rows


def _facts(
    snapshot: Snapshot,
) -> tuple[dict[tuple[str, str], Quality], dict[tuple[str, str], str]]:
    rows = snapshot.rows(sa.select(facts.c.fact, facts.c.state, facts.c.quality, facts.c.note))
    grades = {(fact, state): Quality[quality.upper()] for fact, state, quality, _ in rows}
    return grades, {(fact, state): note or "" for fact, state, _, note in rows}


def _possible_sweepers(snapshot: Snapshot) -> tuple[str, ...]:
    rows = snapshot.rows(sa.select(windows.c.schedule).distinct().order_by(windows.c.schedule))
    return tuple(name for (name,) in rows if _SWEEPER_NAME.search(name))


def _run_times(snapshot: Snapshot, held: Iterable[HeldJob]) -> dict[str | None, RunTime]:
    """Read run times only for the types of runs that no lease vouches for."""
    asked = {job.job_type for job in held if not job.is_expired}
    if not asked:
        return {}
    found: dict[str | None, RunTime | None] = {None: _run_time(snapshot, None)}
    for job_type in asked - {None}:
        found[job_type] = _run_time(snapshot, job_type)
    return {job_type: run for job_type, run in found.items() if run is not None}


def _run_time(snapshot: Snapshot, job_type: str | None) -> RunTime | None:
    ran = [row[0] for row in snapshot.rows(leases.run_times(job_type))]
    return RunTime(p99_seconds=_percentile(ran, 0.99) / MICROS, runs=len(ran)) if ran else None


def _percentile(ordered: Sequence[int], share: float) -> float:
    """Return the smallest value that at least ``share`` of the ordered values do not exceed."""
    rank = max(-int(-share * len(ordered) // 1), 1)
    return float(ordered[rank - 1])


def _whole(snapshot: Snapshot, since: int, until: int) -> list[QueueState]:
    """Return each queue's events in the whole window."""
    found: dict[str | None, dict[str, Any]] = defaultdict(dict)
    for kind, queue, count, first, last in snapshot.rows(flow.totals(since, until)):
        state = found[queue]
        state["first_at"] = min(first, state.get("first_at", first))
        if kind == "claim":
            state["claims_before"], state["last_claim_at"] = count, last
        elif kind == "completion":
            state["completions"], state["last_completion_at"] = count, last
        else:
            state["arrivals" if kind == "arrival" else "dead"] = count
    return [QueueState(queue=queue, **state) for queue, state in found.items()]


def _queues(
    snapshot: Snapshot, now: int, since: int, until: int
) -> tuple[tuple[QueueState, ...], int]:
    """Return every queue with its rates, and where the rate window begins."""
    whole = {state.queue: state for state in _whole(snapshot, since, until)}
    firsts = [state.first_at for state in whole.values() if state.first_at is not None]
    begin = max(until - int(RATE_SECONDS * MICROS), since, min(firsts, default=since))
    rates_from = min(begin, until - MICROS)
    recent = {state.queue: state for state in _whole(snapshot, rates_from, until)}
    waiting: Counter[str | None] = Counter()
    running: Counter[str | None] = Counter()
    *_, rows = _counts(snapshot, now)
    for queue, _type, status, _state, _layer, count in rows:
        waiting[queue] += count if status == "pending" else 0
        running[queue] += count if status == "processing" else 0
    due = {queue: (count, at) for queue, count, at in snapshot.rows(standing.claimable(now))}
    paused = dict(snapshot.rows(sa.select(queues.c.queue, queues.c.paused_at)))
    names = sorted(
        {*whole, *waiting, *due, *paused}, key=lambda name: (name is not None, name or "")
    )
    states = []
    for name in names:
        in_window, lately = whole.get(name), recent.get(name)
        claimable, oldest = due.get(name, (0, None))
        states.append(
            QueueState(
                queue=name,
                waiting=waiting[name],
                claimable=claimable,
                running=running[name],
                oldest_at=oldest,
                arrivals=lately.arrivals if lately else 0,
                claims=lately.claims_before if lately else 0,
                completions=lately.completions if lately else 0,
                dead=lately.dead if lately else 0,
                claims_before=in_window.claims_before if in_window else 0,
                first_at=in_window.first_at if in_window else None,
                last_claim_at=in_window.last_claim_at if in_window else None,
                last_completion_at=in_window.last_completion_at if in_window else None,
                normal_wait_seconds=_normal_wait(snapshot, name, since, oldest, until),
                paused_at=paused.get(name),
            )
        )
    return tuple(states), rates_from


def _normal_wait(
    snapshot: Snapshot, queue: str | None, since: int, oldest: int | None, now: int
) -> float | None:
    """Return the p95 wait of claims made before the present backlog began, where one may be."""
    if oldest is None or (now - oldest) / MICROS < YOUNG_SECONDS:
        return None
    found = [row[0] for row in snapshot.rows(flow.waits(queue, since, oldest))]
    return _percentile(found, 0.95) / MICROS if len(found) >= _MIN_CLAIMS else None
