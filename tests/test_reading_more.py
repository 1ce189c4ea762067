"""Reading clocks, retries, classes and vital signs: from rows to what is judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jobplaybook.detectors.signs import TableVitals, Vitals, WaitingClass, Waking
from jobplaybook.detectors.situation import Situation
from jobplaybook.units import MICROS, iso
from jobplaybook.verdict import judge
from tests.canonical import NOW, Rows, ago, attempt, done, job, known
from tests.test_reading import Reads

DAY, HOUR, MINUTE = 86_400, 3_600, 60


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Reads]:
    with ExitStack() as stack:
        yield Reads(tmp_path, stack)


def codes(seen: Situation) -> set[str]:
    return {finding.code for finding in judge(seen, label="test").findings}


def steady(count: int, *, every: float, **more: Any) -> list[Any]:
    return [done(f"d{n}", ended=5 + every * n, ran=1, wait=1, **more) for n in range(count)]


def tables(finished: list[Any], jobs: list[Any], **more: Any) -> dict[str, Any]:
    attempts = [tried for _, tried in finished] + more.pop("attempts", [])
    return {"jobs": [*(row for row, _ in finished), *jobs], "attempts": attempts, **more}


# Clocks


@pytest.mark.parametrize(
    ("meta", "clock"),
    [
        ({}, True),
        ({"captured_from": iso(ago(2)), "captured_to": iso(NOW)}, True),
        ({"captured_from": iso(NOW), "captured_to": iso(NOW)}, False),
    ],
)
def test_a_given_moment_is_nobodys_clock(read: Reads, meta: dict[str, str], clock: bool) -> None:
    """A capture at a given moment takes no time: its workers and rows are not ahead of a clock."""
    rows: Rows = {
        "jobs": [job(str(n), "processing", claimed_at=ago(-60), read_at=NOW) for n in range(3)],
        "workers": [{"owner": "w", "heartbeat_at": ago(-60), "lease_seconds": 30.0}],
    }
    seen = read(rows, **meta)
    assert (seen.clock_at == NOW) is clock
    assert ("clock-skew" in codes(seen)) is clock
    assert bool(seen.disorders) is clock


def test_disorders_are_read_with_whom_they_hit(read: Reads) -> None:
    """Kinds, rows and gaps; jobs, tenants and types; nothing more is asked where there is none."""
    odd = [job(str(n), "completed", claimed_at=ago(90), tenant_id=f"t{n % 2}") for n in range(12)]
    seen = read({"jobs": odd})
    (disorder,) = seen.disorders
    assert (disorder.kind, disorder.rows) == ("claimed-before-created", 12)
    assert (disorder.apart_seconds, disorder.first_at) == (30.0, ago(60))
    hit = seen.disordered
    assert (hit.jobs, hit.tenants, hit.types) == (12, 2, 1)
    assert hit.job_ids == tuple(str(n) for n in range(10))
    asked = len(read.statements)
    read({"jobs": [job("1", "completed", claimed_at=ago(60))]})
    assert asked == len(read.statements) + 2


# Vital signs


def sign(at: int, name: str, subject: str, value: float | None) -> dict[str, Any]:
    return {"taken_at": at, "name": name, "subject": subject, "value": value}


def test_vital_signs_of_one_sample(read: Reads) -> None:
    """Levels are those of the sample; what was not seen stays unknown; no counter is compared."""
    signs = [
        sign(NOW, "oldest_transaction_seconds", "", 9.5),
        sign(NOW, "oldest_snapshot_transactions", "", None),
        sign(NOW, "oldest_snapshot_seconds", "", 3.0),
        sign(NOW, "dead_rows", "jobs", 7.0),
        sign(NOW, "live_rows", "jobs", 5.0),
        sign(NOW, "sequential_scans", "jobs", 99.0),
        sign(NOW, "last_autovacuum_at", "jobs", float(ago(60))),
        sign(NOW, "index_uses", "jobs_pkey", 4.0),
    ]
    assert read({"vitals": signs}).vitals == Vitals(
        taken_at=NOW,
        first_at=NOW,
        oldest_transaction_seconds=9.5,
        oldest_snapshot_seconds=3.0,
        tables=(
            TableVitals(table="jobs", live_rows=5.0, dead_rows=7.0, last_autovacuum_at=ago(60)),
        ),
    )
    assert read({}).vitals is None


def test_vital_signs_of_two_samples(read: Reads) -> None:
    """Scans and claims between the first and the last; a counter that was reset is none."""
    signs = [
        sign(at, "sequential_scans", table, value)
        for table, values in (("jobs", (100.0, 150.0)), ("reset", (90.0, 2.0)), ("new", (None, 4)))
        for at, value in zip((ago(15), NOW), values, strict=True)
    ]
    work = steady(9, every=2)
    vitals = read(tables(work, [], vitals=signs)).vitals
    assert vitals is not None
    assert (vitals.first_at, vitals.taken_at, vitals.claims_between) == (ago(15), NOW, 5)
    scans = {table.table: table.scans_between for table in vitals.tables}
    assert scans == {"jobs": 50.0, "reset": 0.0, "new": None}


def test_a_hostile_sign_is_no_sign(read: Reads) -> None:
    """An endless number in a file is left out: no answer holds infinity."""
    signs = [
        sign(NOW, name, subject, float("inf"))
        for name, subject in (
            ("oldest_transaction_seconds", ""),
            ("oldest_snapshot_transactions", ""),
            ("dead_rows", "jobs"),
        )
    ]
    signs += [sign(NOW, "live_rows", "jobs", 1.0)]
    seen = read({"vitals": signs})
    assert seen.vitals == Vitals(
        taken_at=NOW, first_at=NOW, tables=(TableVitals(table="jobs", live_rows=1.0),)
    )
    json.dumps(judge(seen, label="test").to_json(), allow_nan=False)


# Retries


def test_retries_are_read_for_many_alone(read: Reads) -> None:
    """Below twenty nothing more is asked; from twenty on the course, the busiest, completions."""
    rows = tables(steady(100, every=600), [], attempts=tried(19))
    assert read(rows).retrying == ()
    before = len(read.statements)
    rows = tables(steady(100, every=600), [], attempts=tried(20))
    (each,) = read(rows).retrying
    assert len(read.statements) == before + 3
    assert (each.queue, each.job_type, each.retries, each.quick) == ("default", "mail", 20, 20)
    assert (each.jobs, each.most, each.job_ids, each.completions) == (1, 20, ("d0",), 2)
    assert sum(each.tried.counts) == 20
    assert sum(each.completed.counts) == 100
    assert len(each.tried.counts) == len(each.completed.counts) == 288


def tried(times: int) -> list[Any]:
    """Return retries of one job, without a pause, in the last two minutes."""
    return [
        attempt("d0", 2 + n, "failed", started_at=ago(125 - 5 * n), ended_at=ago(120 - 5 * n))
        for n in range(times)
    ]


def test_a_short_past_has_short_buckets(read: Reads) -> None:
    """The course begins with the first event: hours before it are no quiet past."""
    (each,) = read(tables(steady(10, every=1), [], attempts=tried(20))).retrying
    assert each.tried.begin == ago(125)
    assert each.tried.width == MICROS


def test_what_is_parked(read: Reads) -> None:
    """Steps of ten seconds within a day; the best minute is asked only where a herd is."""
    parked = [job(f"p{n}", available_at=ago(-3_605), attempts=n % 2) for n in range(99)]
    late = [job("later", available_at=ago(-DAY)), job("too late", available_at=ago(-DAY) + 1)]
    seen = read(tables(steady(30, every=1), [*parked, *late]))
    assert seen.wakings == (
        Waking(queue="default", wakes_at=ago(-3_600), jobs=99, retries=49),
        Waking(queue="default", wakes_at=ago(-DAY), jobs=1, retries=0),
    )
    assert seen.peak_claims == {}
    parked.append(job("p99", available_at=ago(-3_605)))
    seen = read(tables(steady(30, every=1), parked))
    assert seen.peak_claims == {"default": 30}
    assert "retry-herd" not in codes(seen)


# Classes


def test_classes_are_asked_of_a_late_queue_alone(read: Reads) -> None:
    """While nothing waits for a minute no class is looked at."""
    read({"jobs": [job("1", available_at=ago(59))]})
    young = len(read.statements)
    read({"jobs": [job("1", available_at=ago(60))]})
    # The waits, the classes that wait.
    assert len(read.statements) == young + 2


def test_who_is_overtaken(read: Reads) -> None:
    """Claims of the rate window that were due after the oldest of a class which got none since."""
    flowing = steady(80, every=15, priority=5)
    late = [
        job("old", job_type="report", priority=0, available_at=ago(600), created_at=ago(600)),
        job("young", job_type="report", priority=0, available_at=ago(9), created_at=ago(9)),
        job("mine", priority=5, available_at=ago(900), created_at=ago(900)),
    ]
    (each,) = read(tables(flowing, late)).waiting_classes
    assert each == WaitingClass(
        queue="default",
        job_type="report",
        priority=0,
        claimable=2,
        oldest_at=ago(600),
        overtaken=40,
        overtaking=(("mail", 5, 40),),
    )


def test_a_class_that_was_claimed_since_is_not_starved(read: Reads) -> None:
    """Its last claim in the window is known; one before its oldest job came changes nothing."""
    flowing = steady(80, every=15)
    waits = job("old", job_type="report", available_at=ago(600), created_at=ago(600))
    for ended, starved in ((700, True), (500, False)):
        own = done("r", ended=ended, ran=1, wait=1, job_type="report")
        seen = read(tables([*flowing, own], [waits]))
        assert ("starvation" in codes(seen)) is starved
        assert [each.last_claim_at for each in seen.waiting_classes] == [ago(701)] * starved


def flooded(count: int, **more: Any) -> list[Any]:
    """Return a burst of one class that began half an hour ago, and a few jobs of another."""
    burst = [
        job(
            f"f{n}",
            job_type="digest",
            available_at=ago(1_800 * (n + 1) / count),
            created_at=ago(DAY),
            **more,
        )
        for n in range(count)
    ]
    return [*burst, *(job(f"o{n}", tenant_id=f"t{n}") for n in range(9))]


def test_the_course_of_a_class_that_is_most(read: Reads) -> None:
    """Types and tenants with what is due; when those that are most became due, waiting or not."""
    seen = read(tables(steady(200, every=300), flooded(300, tenant_id="big")))
    loads = {(load.by, load.name): load for load in seen.loads}
    assert {key: load.due for key, load in loads.items()} == {
        ("type", "digest"): 300,
        ("type", "mail"): 9,
        ("tenant", "big"): 300,
        **{("tenant", f"t{n}"): 1 for n in range(4)},
    }
    for key in (("type", "digest"), ("tenant", "big")):
        assert sum(loads[key].still_due.counts) == sum(loads[key].became_due.counts) == 300
    assert sum(loads["type", "mail"].became_due.counts) == 0
    assert "class-flood" in codes(seen)


def test_whose_jobs_are_is_not_asked_where_nobody_says(read: Reads) -> None:
    """Without the fact of tenants only types are looked at."""
    rows = tables(steady(200, every=300), flooded(300, tenant_id="big"), facts=known("tenant"))
    assert {load.by for load in read(rows).loads} == {"type"}


def test_only_the_largest_backlogs_are_asked(read: Reads) -> None:
    """Of many flooded queues five are looked at: the number of statements has a bound."""
    jobs = [
        job(f"{q}-{n}", queue=f"q{q}", available_at=ago(HOUR))
        for q in range(12)
        for n in range(100 + q)
    ]
    work = [done(f"d{q}", ended=9, queue=f"q{q}") for q in range(12)]
    seen = read(tables(work, jobs))
    assert {load.queue for load in seen.loads} == {f"q{q}" for q in range(7, 12)}
    assert len(read.statements) < 30


def test_nothing_moves_after_the_last_look(read: Reads) -> None:
    """A later now changes none of these findings: they are of the moment somebody looked."""
    rows = tables(
        steady(80, every=15),
        flooded(300),
        attempts=tried(20),
        vitals=[
            sign(NOW, "oldest_transaction_seconds", "", 3_600.0),
            sign(NOW, "oldest_snapshot_transactions", "", 5_000.0),
            sign(NOW, "dead_rows", "jobs", 50_000.0),
        ],
    )
    first, later = read(rows), read(rows, now=NOW + HOUR * MICROS)
    more = {"clock-skew", "vacuum-blocked", "claim-slow", "retry-storm", "class-flood"}
    told = [
        [(f.code, f.severity, f.count) for f in judge(seen, label="t").findings if f.code in more]
        for seen in (first, later)
    ]
    assert told[0] == told[1]
    assert {code for code, *_ in told[0]} >= {"vacuum-blocked", "class-flood"}
