"""What the detectors see beside queues and leases, made for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from jobplaybook.detectors.change import Series
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
from jobplaybook.queries import clocks
from jobplaybook.units import MICROS
from tests.canonical import NOW, ago

HOUR, MINUTE = 3_600, 60
STEP = 5 * MINUTE


def series(*parts: tuple[int, int]) -> Series:
    """Return five-minute buckets up to `NOW`, given as (how many buckets, events in each)."""
    counts = tuple(count for buckets, count in parts for _ in range(buckets))
    return Series(begin=ago(STEP * len(counts)), width=STEP * MICROS, counts=counts)


def steps(begin: float, *counts: int, seconds: float = STEP) -> Series:
    """Return buckets that begin ``begin`` seconds before `NOW`."""
    return Series(begin=ago(begin), width=round(seconds * MICROS), counts=counts)


def table(dead: float = 247_311, live: float = 60_000, **more: Any) -> TableVitals:
    """Return the vital signs of the job table of an incident."""
    return TableVitals(**{"table": "jobs", "live_rows": live, "dead_rows": dead, **more})


def vitals(
    *tables: TableVitals, age: float | None = HOUR, behind: float | None = 180_000, **more: Any
) -> Vitals:
    """Return vital signs taken now: the oldest transaction's age, and how many came after it."""
    signs: dict[str, Any] = {
        "taken_at": NOW,
        "first_at": NOW,
        "oldest_transaction_seconds": age,
        "oldest_snapshot_transactions": behind,
        "tables": tables or (table(),),
    }
    return Vitals(**{**signs, **more})


def retried(retries: int, completions: int, **more: Any) -> RetryClass:
    """Return a type that is tried again since half an hour, with a quiet day before."""
    each: dict[str, Any] = {
        "queue": "mail",
        "job_type": "charge",
        "retries": retries,
        "quick": 0,
        "jobs": max(retries // 2, 1),
        "tenants": 3,
        "completions": completions,
        "tried": series((280, 0), (8, max(retries // 3, 1))),
        "completed": series((288, max(completions // 3, 1))),
        "job_ids": ("7",),
        "most": 2,
    }
    return RetryClass(**{**each, **more})


def waking(jobs: int, *, ahead: float, retries: int | None = None, **more: Any) -> Waking:
    """Return parked jobs that wake in ``ahead`` seconds, all of them retries by default."""
    parked: dict[str, Any] = {"queue": "mail", "wakes_at": ago(-ahead), "jobs": jobs}
    return Waking(**{**parked, "retries": jobs if retries is None else retries, **more})


def starved(age: float = HOUR, *, overtaken: int = 300, **more: Any) -> WaitingClass:
    """Return a class whose oldest job waits for ``age`` seconds while others are taken."""
    each: dict[str, Any] = {
        "queue": "mail",
        "job_type": "report",
        "priority": 0,
        "claimable": 12,
        "oldest_at": ago(age),
        "last_claim_at": None,
        "overtaken": overtaken,
        "overtaking": (("mail", 5, overtaken),),
    }
    return WaitingClass(**{**each, **more})


def flood(due: int, **more: Any) -> ClassLoad:
    """Return a class that is due ``due`` times since a burst half an hour ago."""
    burst = -(-due // 6)
    load: dict[str, Any] = {
        "queue": "mail",
        "by": "type",
        "name": "digest",
        "due": due,
        "became_due": series((282, 1), (6, burst)),
        "still_due": series((282, 0), (6, burst)),
    }
    return ClassLoad(**{**load, **more})


def disorder(rows: int, kind: str = "claimed-before-created", **more: Any) -> dict[str, Any]:
    """Return what a situation says of so many rows in an impossible order."""
    found = {"kind": kind, "rows": rows, "first_at": ago(HOUR), "apart_seconds": 3_600.0, **more}
    hit = Disordered(jobs=rows, tenants=1, types=1, job_ids=("1",) if rows else ())
    return {"disorders": (Disorder(**found),) if rows else (), "disordered": hit}


# Any signs at all

few = st.integers(0, 400)
number = st.none() | st.floats(0, 1e9)
_counts = st.lists(st.integers(0, 50), max_size=12).map(tuple)


def _series(near: st.SearchStrategy[int]) -> st.SearchStrategy[Series]:
    return st.builds(Series, begin=near, width=st.integers(1, 10**9), counts=_counts)


@st.composite
def _retried(
    draw: st.DrawFn, names: st.SearchStrategy[Any], near: st.SearchStrategy[int]
) -> RetryClass:
    retries = draw(st.integers(1, 400))
    tried = draw(_series(near))
    return RetryClass(
        queue=draw(names),
        job_type=draw(names),
        retries=retries,
        quick=draw(st.integers(0, retries)),
        jobs=draw(st.integers(1, retries)),
        tenants=draw(few),
        completions=draw(few),
        tried=tried,
        completed=Series(begin=tried.begin, width=tried.width, counts=tried.counts[::-1]),
        job_ids=tuple(draw(st.lists(st.text(max_size=4), max_size=10))),
        most=draw(few),
    )


@st.composite
def signs(
    draw: st.DrawFn,
    names: st.SearchStrategy[str],
    near: st.SearchStrategy[int],
    queues: Sequence[str | None],
) -> Mapping[str, Any]:
    """Draw the fields of a situation that this module is about."""
    maybe, when = st.none() | names, st.none() | near
    of_queue = st.sampled_from(list(queues) or [None]) | maybe
    tables = st.builds(
        TableVitals,
        table=names,
        live_rows=st.floats(0, 1e9),
        dead_rows=st.floats(0, 1e9),
        last_autovacuum_at=when,
        scans_between=number,
    )
    return {
        "clock_at": draw(when),
        "vitals": draw(
            st.none()
            | st.builds(
                Vitals,
                taken_at=near,
                first_at=near,
                oldest_transaction_seconds=number,
                oldest_snapshot_transactions=number,
                oldest_snapshot_seconds=number,
                claims_between=st.none() | few,
                tables=st.lists(tables, max_size=3).map(tuple),
            )
        ),
        "disorders": draw(
            st.lists(
                st.builds(
                    Disorder,
                    kind=st.sampled_from([*clocks.ORDERS, *clocks.READ, clocks.ATTEMPT]),
                    rows=st.integers(1, 99),
                    first_at=when,
                    apart_seconds=st.floats(1, 1e7),
                ),
                max_size=3,
            ).map(tuple)
        ),
        "disordered": draw(
            st.builds(Disordered, jobs=few, job_ids=st.lists(names, max_size=10).map(tuple))
        ),
        "retrying": tuple(draw(st.lists(_retried(of_queue, near), max_size=3))),
        "wakings": tuple(
            sorted(
                draw(
                    st.lists(
                        st.builds(Waking, queue=of_queue, wakes_at=near, jobs=few, retries=few),
                        max_size=4,
                    )
                ),
                key=lambda waking: waking.wakes_at,
            )
        ),
        "peak_claims": draw(st.dictionaries(of_queue, st.integers(1, 99), max_size=2)),
        "waiting_classes": tuple(
            draw(
                st.lists(
                    st.builds(
                        WaitingClass,
                        queue=of_queue,
                        job_type=maybe,
                        priority=st.none() | st.integers(-9, 9),
                        claimable=st.integers(1, 99),
                        oldest_at=near,
                        last_claim_at=when,
                        overtaken=few,
                        overtaking=st.lists(
                            st.tuples(maybe, st.none() | st.integers(-9, 9), few), max_size=2
                        ).map(tuple),
                    )
                    | st.builds(starved, queue=of_queue, job_type=maybe),
                    max_size=3,
                )
            )
        ),
        "loads": tuple(
            draw(
                st.lists(
                    st.builds(
                        ClassLoad,
                        queue=of_queue,
                        by=st.sampled_from(["type", "tenant"]),
                        name=names,
                        due=few,
                        became_due=_series(near),
                        still_due=_series(near),
                    )
                    | st.builds(flood, st.integers(100, 400), queue=of_queue, name=names),
                    max_size=3,
                )
            )
        ),
    }
