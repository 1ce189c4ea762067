"""Detectors of held jobs and workers: each condition from both sides of its boundary."""

from __future__ import annotations

from typing import Any

import pytest

from jobplaybook.detectors.situation import RunTime
from jobplaybook.model import Quality, Severity
from jobplaybook.units import MICROS
from tests.canonical import ago
from tests.situations import (
    DAY,
    EXACT,
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


W1_W2 = (held("1", lease=-1), held("2", lease=-9, owner="w2"))
EVER = "Nothing sweeps this queue: "


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"held": (held(lease=-1),), "workers": (worker(silence=2),)},
            "1 job (1 type, 1 tenant) is held by worker w1, past the end of its lease; worker w1 "
            f"still beating. {EVER}it will wait for ever.",
        ),
        (
            {"held": W1_W2, "workers": (worker(silence=2), worker("w2", silence=99))},
            "2 jobs (1 type, 1 tenant) are held by workers w1, w2, past the end of their leases; "
            f"worker w1 still beating. {EVER}they will wait for ever.",
        ),
        (
            {"held": W1_W2, "workers": (worker(silence=99), worker("w2", silence=99))},
            "2 jobs (1 type, 1 tenant) are held by workers w1, w2, which stopped beating. "
            f"{EVER}they will wait for ever.",
        ),
        (
            {"held": W1_W2, "workers": (worker(silence=99),), "sweeper": "a reaper"},
            "2 jobs (1 type, 1 tenant) are held by workers w1, w2, past the end of their leases. "
            "They will be taken back by a reaper.",
        ),
        (
            {
                "held": (held("1", lease=-1), held("3", lease=-1, owner=None)),
                "workers": (worker(silence=99),),
                "possible_sweepers": ("retry_stalled",),
            },
            "2 jobs (1 type, 1 tenant) are held by worker w1 and by nobody named, past the end of "
            "its lease. Nothing sweeps this queue by itself: they will wait for ever unless "
            "your own periodic task (retry_stalled) requeues stalled jobs.",
        ),
        (
            {"held": (held(lease=30, judged_at=ago(-31)),), "now": ago(-31)},
            "1 job (1 type, 1 tenant) is held by worker w1, whose lease is over by 03:00:31Z; "
            f"nobody looked after 03:00:00Z. {EVER}it will wait for ever.",
        ),
        (
            {"held": (held(lease=None, age=DAY), held("2", lease=9, owner="w2", age=DAY))}
            | {"workers": (worker(),), "sweeper": "a reaper"},
            "2 jobs (1 type, 1 tenant) run longer than their type ever should (the oldest for 1 "
            "d), and no lease or known worker vouches for them. What has no lease is never taken "
            "back.",
        ),
        (
            {"held": (held(lease=9, owner="w2", age=DAY),)}
            | {"workers": (worker(),), "sweeper": "a reaper"},
            "1 job (1 type, 1 tenant) runs longer than its type ever should (the oldest for 1 d), "
            "and no lease or known worker vouches for it. It will be taken back by a reaper.",
        ),
        (
            {"workers": tuple(worker(f"w{n}", silence=40 + n) for n in range(1, 6))},
            "Workers w1, w2, w3 and 2 more stopped beating, the first at 02:59:15Z, holding "
            "nothing; no worker is left.",
        ),
        (
            {"workers": (worker(silence=99), worker("w2"), worker("w3", silence=None))},
            "Worker w1 stopped beating at 02:58:21Z, holding nothing; 1 still known to beat, of 1 "
            "nothing is known.",
        ),
    ],
    ids=[
        *("alive", "mixed", "lost", "swept", "nobody"),
        *("later", "phantoms", "leased", "workers", "unknown"),
    ],
)
def test_sentences(changes: dict[str, Any], sentence: str) -> None:
    """A sentence says who holds how many of whose jobs, what is known of them, and what follows."""
    found = [f for f in judged(**changes).findings if f.code != "workers-lost" or len(changes) == 1]
    assert [f.sentence for f in found] == [sentence]


@pytest.mark.parametrize(
    ("grade", "sure"),
    [(Quality.INFERRED, False), (Quality.BOUND, True), (Quality.EXACT, True)],
)
def test_an_inferred_lease_is_no_certainty(grade: Quality, sure: bool) -> None:
    """lease-expired: as sure as the lease's own grade, and never after the last look."""
    grades = {**EXACT, ("lease", "live"): grade}
    assert judged(held=(held(lease=-1),), facts=grades).verdict.sure is sure
    later = judged(held=(held(lease=-1),), facts=grades, now=ago(-1)).verdict
    assert not later.sure


def test_several_leases() -> None:
    """lease-expired: since the first end; the longest lease and the latest job set the patience."""
    jobs = (held("1", lease=-10), held("2", lease=-200))
    assert judged(held=jobs).verdict.since == ago(200)
    patient = (worker(lease_seconds=30.0), worker("w2", lease_seconds=120.0))
    for workers, severity in ((patient, "ticket"), (patient[:1], "page")):
        answer = judged(held=jobs, workers=workers, sweeper="a reaper")
        assert answer.verdict.severity.word == severity


def test_a_later_now_does_not_blame_the_sweeper() -> None:
    """lease-expired: after the last look nobody saw whether the sweeper came, so it is no page."""
    job = held(lease=5, judged_at=ago(-HOUR))
    answer = judged(held=(job,), now=ago(-HOUR), sweeper="a reaper")
    assert answer.verdict.severity.word == "ticket"


def test_the_doubts_are_counted() -> None:
    """phantom-running: why nothing speaks for a run, how many, and whose they are."""
    jobs = (
        held("1", lease=None, age=DAY),
        held("2", lease=None, age=DAY, owner=None),
        held("3", lease=None, age=DAY, owner="w9"),
        held("4", lease=9, age=DAY, owner="w9"),
    )
    evidence = judged(held=jobs, workers=(worker(),)).verdict.evidence
    assert evidence["doubts"] == {
        "no lease": 1,
        "no lease and no known owner": 2,
        "no known owner": 1,
    }
    shares = [(each["owner"], each["jobs"]) for each in evidence["by_owner"]]
    assert shares == [("w1", 1), ("w9", 2), (None, 1)]
    gone = judged(held=(held(lease=-7),), workers=(worker(silence=40),))
    assert of(gone, "lease-expired")[0].evidence["by_owner"] == [
        {
            "owner": "w1",
            "jobs": 1,
            "last_heartbeat_at": "2026-12-01T02:59:20Z",
            "lease_over_at": "2026-12-01T02:59:53Z",
        }
    ]


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


def test_since_the_first_of_several() -> None:
    """workers-lost and lease-expired: since the first owner fell silent, named in number order."""
    workers = (worker("10", silence=40), worker("9", silence=50))
    jobs = (held("1", lease=-10, owner="10"), held("2", lease=-20, owner="9"))
    answer = judged(workers=workers, held=jobs)
    for code in ("workers-lost", "lease-expired"):
        (finding,) = of(answer, code)
        assert finding.since == ago(50)
        assert finding.evidence["owners"] == ["9", "10"]


@pytest.mark.parametrize(("now", "found"), [(ago(-DAY), False), (ago(50), False), (ago(0), True)])
def test_a_run_does_not_age_where_nobody_looked(now: int, found: bool) -> None:
    """phantom-running: its age ends with the last look, or at an earlier now."""
    runs = {"report": RunTime(p99_seconds=80.0, runs=20)}
    (age, late) = (81, 79) if found else (79, 129)
    job = held(lease=None, age=age if now >= ago(0) else late)
    seen = {"now": now, "seen_until": min(now, ago(0)), "rates_from": ago(DAY)}
    assert ("phantom-running" in codes(held=(job,), run_times=runs, **seen)) is found


def test_the_oldest_phantom_dates_them_all() -> None:
    """phantom-running: since the oldest; runs of nobody are counted apart from their owners."""
    jobs = (held("1", lease=None, age=2 * HOUR), held("2", lease=None, age=DAY, owner=None))
    found = judged(held=jobs).verdict
    assert (found.since, found.evidence["without_owner"]) == (ago(DAY), 1)
    over = judged(held=(held("1", lease=-1), held("2", lease=-1, owner=None))).verdict
    assert over.evidence["without_owner"] == 1
