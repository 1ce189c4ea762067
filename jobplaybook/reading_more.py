"""From a snapshot to the rest of a `Situation`: clocks, retries, classes, the database itself.

Each part asks one cheap question first, and the dear ones only where its answer calls for them:
a healthy snapshot costs four short scans.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobplaybook.detectors.change import Series, series_over
from jobplaybook.detectors.classes import (
    FLOOD_JOBS,
    TOP_CLASSES,
    Queues,
    has_waited,
    is_most,
    queues_by_name,
)
from jobplaybook.detectors.clocks import TOLERANCE_SECONDS
from jobplaybook.detectors.findings import MAX_IDS
from jobplaybook.detectors.flow import YOUNG_SECONDS, is_backlog, oldest_age_seconds
from jobplaybook.detectors.retries import AHEAD_SECONDS, HOT_SECONDS, STORM_RETRIES, herds
from jobplaybook.detectors.signs import (
    ClassLoad,
    Disorder,
    Disordered,
    RetryClass,
    TableVitals,
    Vitals,
    WaitingClass,
    Waking,
)
from jobplaybook.detectors.situation import Situation
from jobplaybook.queries import classes, clocks, flow, retries, vitals
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS

_WAKING_STEP = 10 * MICROS
_MOST_QUEUES = 5
"""Floods are looked for in the largest backlogs alone: each class is a question of its own."""
_OF_SERVER = (
    "oldest_transaction_seconds",
    "oldest_snapshot_transactions",
    "oldest_snapshot_seconds",
)
_OF_TABLE = {"live_rows", "dead_rows", "last_autovacuum_at", "sequential_scans"}


def read_more(snapshot: Snapshot, situation: Situation) -> Situation:
    """Return a situation, its queues read, with what clocks, retries, classes and vitals say."""
    # A capture takes time: one that ends at the microsecond it began at was given its moment.
    began, ended = (snapshot.meta.get(f"captured_{end}") for end in ("from", "to"))
    clock_at = None if began is not None and began == ended else situation.workers_read_at
    seen = replace(situation, clock_at=clock_at, vitals=read_vitals(snapshot))
    seen = _with_clocks(snapshot, seen)
    seen = replace(seen, retrying=_retrying(snapshot, seen))
    seen = _with_wakings(snapshot, seen)
    if all((oldest_age_seconds(seen, queue) or 0.0) < YOUNG_SECONDS for queue in seen.queues):
        return seen  # while nothing waits for a minute, nobody asks which classes wait
    waiting = _waiting_classes(snapshot, seen)
    return replace(seen, waiting_classes=waiting, loads=_loads(snapshot, seen))


# Clocks


def _with_clocks(snapshot: Snapshot, seen: Situation) -> Situation:
    tolerance, clock = int(TOLERANCE_SECONDS * MICROS), seen.clock_at is not None
    rows = snapshot.rows(clocks.disorders(tolerance, clock=clock))
    if not rows:
        return seen
    ((jobs, tenants, types),) = snapshot.rows(clocks.disordered(tolerance, clock=clock))
    ids = snapshot.rows(clocks.examples(tolerance, limit=MAX_IDS, clock=clock))
    return replace(
        seen,
        disorders=tuple(
            Disorder(kind=kind, rows=count, first_at=first, apart_seconds=apart / MICROS)
            for kind, count, first, apart in rows
        ),
        disordered=Disordered(
            jobs=jobs, tenants=tenants, types=types, job_ids=tuple(row[0] for row in ids)
        ),
    )


# The database


def read_vitals(snapshot: Snapshot) -> Vitals | None:
    """Return the vital signs of a snapshot; None where none were taken.

    Counters are compared between the first and the last sample, where there are two.
    """
    samples: dict[int, dict[tuple[str, str], float]] = defaultdict(dict)
    for taken, name, subject, value in snapshot.rows(vitals.samples()):
        samples[taken]  # a sample of which nothing may be seen is one all the same
        if value is not None and math.isfinite(value):
            samples[taken][name, subject] = value
    if not samples:
        return None
    first, last = min(samples), max(samples)
    signs, before = samples[last], samples[first] if last > first else None
    totals = snapshot.rows(flow.totals(first, last)) if before is not None else ()
    claims = sum(count for kind, _queue, count, *_ in totals if kind == "claim")
    return Vitals(
        taken_at=last,
        first_at=first,
        **{name: signs.get((name, "")) for name in _OF_SERVER},
        claims_between=None if before is None else claims,
        tables=tuple(
            _table(table, signs, before)
            for table in sorted({subject for name, subject in signs if name in _OF_TABLE})
        ),
    )


def _table(
    table: str,
    last: Mapping[tuple[str, str], float],
    first: Mapping[tuple[str, str], float] | None,
) -> TableVitals:
    came = last.get(("last_autovacuum_at", table))
    scans = ("sequential_scans", table)
    between = None
    if first is not None and scans in first and scans in last:
        between = max(last[scans] - first[scans], 0.0)  # a reset in between counts from zero
    return TableVitals(
        table=table,
        live_rows=last.get(("live_rows", table), 0.0),
        dead_rows=last.get(("dead_rows", table), 0.0),
        last_autovacuum_at=None if came is None else int(came),
        scans_between=between,
    )


# Retries


def _retrying(snapshot: Snapshot, seen: Situation) -> tuple[RetryClass, ...]:
    since, until = seen.rates_from, seen.flow_until
    rows = snapshot.rows(retries.retried(since, until, quick=int(HOT_SECONDS * MICROS)))
    many = [row for row in rows if row[2] >= STORM_RETRIES]
    if not many:
        return ()
    completions = {
        tuple(of): count for *of, count in snapshot.rows(retries.completed(since, until))
    }
    worst: dict[tuple[Any, ...], list[tuple[str, int]]] = defaultdict(list)
    for *of, job_id, times in snapshot.rows(retries.busiest(since, until, limit=MAX_IDS)):
        worst[tuple(of)].append((job_id, times))
    empty = _series(seen)
    course: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    asked = retries.course(empty.begin, seen.flow_until, bucket=empty.width)
    for *of, step, count in snapshot.rows(asked):
        course[tuple(of)].append((step, count))
    return tuple(
        RetryClass(
            queue=queue,
            job_type=job_type,
            retries=count,
            quick=quick,
            jobs=jobs,
            tenants=tenants,
            completions=completions.get((queue, job_type), 0),
            tried=empty.of(course["retry", queue, job_type]),
            completed=empty.of(course["completion", queue, job_type]),
            job_ids=tuple(job_id for job_id, _ in worst[queue, job_type]),
            most=max((times for _, times in worst[queue, job_type]), default=0),
        )
        for queue, job_type, count, quick, jobs, tenants in many
    )


def _series(seen: Situation) -> Series:
    """Return empty buckets from the first event of the window to its end."""
    firsts = [queue.first_at for queue in seen.queues if queue.first_at is not None]
    begin = max(seen.window_from, min(firsts, default=seen.rates_from))
    return series_over(begin, seen.flow_until)


def _with_wakings(snapshot: Snapshot, seen: Situation) -> Situation:
    """Add what is parked; how fast a queue ever claimed is asked only where a herd is."""
    until = seen.flow_until
    horizon = until + int(AHEAD_SECONDS * MICROS)
    rows = snapshot.rows(retries.wakings(until, horizon, bucket=_WAKING_STEP))
    wakings = tuple(
        Waking(queue=queue, wakes_at=at, jobs=jobs, retries=again)
        for queue, at, jobs, again in rows
    )
    if not herds(wakings):
        return replace(seen, wakings=wakings)
    peaks = dict(snapshot.rows(retries.peaks(seen.window_from, until, bucket=60 * MICROS)))
    return replace(seen, wakings=wakings, peak_claims=peaks)


# Classes


def _waiting_classes(snapshot: Snapshot, seen: Situation) -> tuple[WaitingClass, ...]:
    until, states = seen.flow_until, queues_by_name(seen)
    found = [
        WaitingClass(
            queue=queue, job_type=job_type, priority=priority, claimable=count, oldest_at=oldest
        )
        for queue, job_type, priority, count, oldest in snapshot.rows(classes.waiting(until))
        if oldest is not None
    ]
    found = [each for each in found if has_waited(seen, states, each)]
    if not found:
        return ()
    claimed = snapshot.rows(classes.last_claims(seen.window_from, until))
    last = {tuple(of): at for *of, at in claimed}
    found = [
        replace(each, last_claim_at=last.get((each.queue, each.job_type, each.priority)))
        for each in found
    ]
    return _overtaken(
        [each for each in found if has_waited(seen, states, each)],
        snapshot.rows(classes.claims(seen.rates_from, until)),
    )


def _overtaken(
    waiting: Iterable[WaitingClass], claims: Sequence[tuple[Any, ...]]
) -> tuple[WaitingClass, ...]:
    """Count for each class the claims of its queue that were due after its oldest job."""
    by_queue: dict[str | None, list[tuple[int, str | None, int | None]]] = defaultdict(list)
    for queue, job_type, priority, available_at in claims:
        by_queue[queue].append((available_at, job_type, priority))
    counted = []
    for each in waiting:
        listed = by_queue[each.queue]
        later = listed[bisect_right(listed, each.oldest_at, key=lambda claim: claim[0]) :]
        by = Counter((job_type, priority) for _, job_type, priority in later)
        counted.append(
            replace(
                each,
                overtaken=len(later),
                overtaking=tuple((*key, count) for key, count in by.most_common(TOP_CLASSES)),
            )
        )
    return tuple(counted)


def _loads(snapshot: Snapshot, seen: Situation) -> tuple[ClassLoad, ...]:
    """Return the largest classes of the largest backlogs, and how those that are most came."""
    late = [q for q in seen.queues if q.backlog >= FLOOD_JOBS and is_backlog(seen, q)]
    largest = {q.queue: q for q in sorted(late, key=lambda q: -q.backlog)[:_MOST_QUEUES]}
    if not largest:
        return ()
    kinds = ("type", "tenant") if seen.knows_tenants else ("type",)
    top = [load for by in kinds for load in _top(snapshot, seen, by, largest)]
    return tuple(
        _with_course(snapshot, seen, load) if is_most(seen, largest[load.queue], load) else load
        for load in top
    )


def _top(snapshot: Snapshot, seen: Situation, by: str, largest: Queues) -> Iterator[ClassLoad]:
    places: Counter[str | None] = Counter()
    for queue, name, due in snapshot.rows(classes.due_by(by, seen.flow_until)):
        places[queue] += 1
        if queue in largest and places[queue] <= TOP_CLASSES:
            yield ClassLoad(queue=queue, by=by, name=name, due=due)


def _with_course(snapshot: Snapshot, seen: Situation, load: ClassLoad) -> ClassLoad:
    empty = _series(seen)
    rows = snapshot.rows(
        classes.became_due(
            load.by, load.queue, load.name, empty.begin, seen.flow_until, bucket=empty.width
        )
    )
    return replace(
        load,
        became_due=empty.of((step, jobs) for step, jobs, _ in rows),
        still_due=empty.of((step, waiting) for step, _, waiting in rows),
    )
