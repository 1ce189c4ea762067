"""Detectors of held jobs and workers: each condition from both sides of its boundary."""

from __future__ import annotations

from typing import Any

import pytest

from jobplaybook.detectors.situation import RunTime
from jobplaybook.model import Severity
from jobplaybook.units import MICROS
from tests.canonical import ago
from tests.situations import (
    DAY,
    HOUR,
    codes,
    held,
    judged,
    of,
    waiting,
    worker,
)

TICK = 1 / MICROS


# Leases


@pytest.mark.parametrize(("lease", "found"), [(TICK, False), (0, False), (-TICK, True)])
def test_a_lease_is_over_after_its_end(lease: float, found: bool) -> None:
    """lease-expired: locked_until before the moment of judgement; at that moment it still holds."""
    assert ("lease-expired" in codes(held=(held(lease=lease),))) is found


@pytest.mark.parametrize(
    ("sweeper", "overdue", "severity"),
    [
        (None, TICK, "page"),
        ("a reaper", 60, "ticket"),
        ("a reaper", 60 + TICK, "page"),
    ],
)
def test_who_sweeps_decides_how_grave_it_is(
    sweeper: str | None, overdue: float, severity: str
) -> None:
    """lease-expired: a page where nobody sweeps, or the sweeper is two leases late."""
    (finding,) = of(judged(held=(held(lease=-overdue),), sweeper=sweeper), "lease-expired")
    assert finding.severity.word == severity
    assert ("will wait for ever" in finding.sentence) is (sweeper is None)
    assert ("taken back by a reaper" in finding.sentence) is (sweeper is not None)


def test_a_possible_sweeper_is_named_not_trusted() -> None:
    """lease-expired: a task that sounds like a sweeper is told, and it is a page all the same."""
    answer = judged(held=(held(lease=-1),), possible_sweepers=("retry_stalled",))
    assert answer.verdict.severity is Severity.PAGE
    assert "retry_stalled" in answer.verdict.sentence


def test_since_is_the_last_heartbeat_of_who_was_lost() -> None:
    """lease-expired: since the owner was last heard of; where it still beats, since the end."""
    gone = judged(held=(held(lease=-1),), workers=(worker(silence=31),)).verdict
    alive = judged(held=(held(lease=-7),), workers=(worker(silence=2),)).verdict
    assert (gone.since, alive.since) == (ago(31), ago(7))
    assert "stopped beating" in gone.sentence


def test_an_owner_that_beats_is_not_accused() -> None:
    """lease-expired: who was heard of in time is told as alive, and its jobs are to be left."""
    workers = (worker("w1", silence=30), worker("w2", silence=30 + TICK))
    jobs = (held("1", lease=-1, owner="w1"), held("2", lease=-1, owner="w2"))
    alone = of(judged(held=jobs[:1], workers=workers), "lease-expired")[0]
    both = of(judged(held=jobs, workers=workers), "lease-expired")[0]
    assert "really gone" not in " ".join(alone.next)
    assert "Requeue nothing that worker w1" in " ".join(alone.next)
    assert "Check that worker w2 is really gone" in both.next[0]
    assert both.evidence["owners_alive"] == ["w1"]


def test_work_of_nobody() -> None:
    """lease-expired: an owner that is not recorded is no worker of the name unknown."""
    finding = judged(held=(held(lease=-1, owner=None),)).verdict
    assert finding.evidence["owners"] == []
    assert finding.evidence["by_owner"][0]["owner"] is None
    assert "held by an unknown worker" in finding.sentence


@pytest.mark.parametrize(
    ("lease", "owner", "workers", "is_phantom"),
    [
        (None, "w1", ("w1",), True),
        (None, None, (), True),
        (10, "w1", ("w1",), False),
        (10, "w1", (), False),
        (10, "w9", ("w1",), True),
        (10, None, ("w1",), True),
        (-1, "w9", ("w1",), False),
    ],
)
def test_what_speaks_for_a_run(
    lease: float | None, owner: str | None, workers: tuple[str, ...], is_phantom: bool
) -> None:
    """phantom-running: no lease or no known owner; a lease alone where no worker is known."""
    job = held(lease=lease, owner=owner, age=DAY)
    found = codes(held=(job,), workers=tuple(worker(name) for name in workers))
    assert ("phantom-running" in found) is is_phantom


@pytest.mark.parametrize(
    ("age", "runs", "found"),
    [
        (100.0, {"report": RunTime(p99_seconds=100.0, runs=20)}, False),
        (100 + TICK, {"report": RunTime(p99_seconds=100.0, runs=20)}, True),
        (HOUR, {"report": RunTime(p99_seconds=100.0, runs=19)}, False),
        (HOUR + TICK, {"report": RunTime(p99_seconds=100.0, runs=19)}, True),
        (HOUR, {None: RunTime(p99_seconds=0.2, runs=5_000)}, False),
        (2 * HOUR, {None: RunTime(p99_seconds=2.0 * HOUR, runs=20)}, False),
        (2 * HOUR + TICK, {None: RunTime(p99_seconds=2.0 * HOUR, runs=20)}, True),
        (HOUR, {}, False),
        (HOUR + TICK, {}, True),
    ],
)
def test_a_phantom_is_older_than_its_types_p99(
    age: float, runs: dict[str | None, RunTime], found: bool
) -> None:
    """phantom-running: above the type's own p99; an hour at least where few of it ever ended."""
    assert ("phantom-running" in codes(held=(held(lease=None, age=age),), run_times=runs)) is found


@pytest.mark.parametrize(
    ("age", "sweeper", "severity"),
    [(59.9, None, "note"), (60, None, "page"), (60, "a reaper", "ticket")],
)
def test_seconds_above_the_p99_wake_nobody(age: float, sweeper: str | None, severity: str) -> None:
    """phantom-running: one run in a hundred is above the p99; a young one is only noted."""
    runs = {"report": RunTime(p99_seconds=1.0, runs=99)}
    answer = judged(held=(held(lease=None, age=age),), run_times=runs, sweeper=sweeper)
    (finding,) = of(answer, "phantom-running")
    assert (finding.severity.word, finding.sure) == (severity, False)


def test_an_owner_that_started_after_the_claim_is_another() -> None:
    """phantom-running: a worker's name taken over by a restart does not speak for the old run."""
    before, after = (worker(started_at=ago(at)) for at in (2 * HOUR - 1, 2 * HOUR))
    job = held(lease=10, age=2 * HOUR)
    assert "phantom-running" in codes(held=(job,), workers=(before,))
    assert "phantom-running" not in codes(held=(job,), workers=(after,))


def test_no_lease_means_no_sweeper() -> None:
    """phantom-running: a sweeper goes by leases, so it is not said to take back what has none."""
    swept = judged(held=(held(lease=None, age=DAY),), sweeper="a reaper").verdict
    assert "a reaper" not in swept.sentence
    assert "never taken back" in swept.sentence


def test_a_run_without_a_start_is_not_known_to_be_long() -> None:
    """phantom-running: an unknown start is no age; that nothing tells of it is said instead."""
    answer = judged(held=(held(lease=None, age=None),))
    assert of(answer, "phantom-running") == []
    assert answer.verdict.code == "data-blind"
    assert "whether 1 running job still lives" in answer.verdict.sentence


# Workers


@pytest.mark.parametrize(("silence", "found"), [(30, False), (30 + TICK, True)])
def test_a_worker_is_lost_a_lease_after_its_last_beat(silence: float, found: bool) -> None:
    """workers-lost: the heartbeat is older than the lease when it was read."""
    assert ("workers-lost" in codes(workers=(worker(silence=silence),))) is found


@pytest.mark.parametrize(
    "change",
    [
        {"silence": None},
        {"silence": DAY, "lease_seconds": None},
        {"silence": 99, "stopped_at": ago(50)},
        {"silence": -HOUR},
    ],
)
def test_who_is_not_known_to_be_lost_is_not_accused(change: dict[str, Any]) -> None:
    """workers-lost: no heartbeat, no rule, a proper stop or a clock ahead prove nothing."""
    assert "workers-lost" not in codes(workers=(worker(**change),))


@pytest.mark.parametrize(
    ("silence", "holds", "found"),
    [
        (DAY, False, True),
        (DAY + TICK, False, False),
        (DAY + TICK, True, True),
    ],
)
def test_a_worker_of_yesterday_is_history(silence: float, holds: bool, found: bool) -> None:
    """workers-lost: silent since before the window it matters only while it holds something."""
    jobs = (held(lease=5),) if holds else ()
    assert ("workers-lost" in codes(workers=(worker(silence=silence),), held=jobs)) is found


@pytest.mark.parametrize(
    ("others", "jobs", "queues", "severity"),
    [
        ((), (held(lease=5),), (), "page"),
        ((), (), (waiting(1, age=2),), "page"),
        ((), (), (), "note"),
        ((worker("w2"),), (held(lease=5),), (), "ticket"),
        ((worker("w2"),), (), (waiting(1, age=2),), "note"),
        ((worker("w2"),), (), (waiting(9, age=HOUR),), "ticket"),
        ((worker("w2", silence=None),), (held(lease=5),), (), "ticket"),
    ],
    ids=["held", "waiting", "idle", "one left", "redeployed", "missed", "not known"],
)
def test_a_lost_worker_is_as_grave_as_it_is_missed(
    others: tuple[Any, ...], jobs: tuple[Any, ...], queues: tuple[Any, ...], severity: str
) -> None:
    """workers-lost: a page when nobody is left for the work, a note when it is not missed."""
    answer = judged(workers=(worker(silence=99), *others), held=jobs, queues=queues)
    (finding,) = of(answer, "workers-lost")
    assert finding.severity.word == severity
    assert ("no worker is left" in finding.sentence) is (not others)
