"""Situations that show each finding, for the screens in the runbooks and for their severities.

The bundled sample shows lease-expired, workers-lost, data-blind and healthy; what it does not
show is judged here from counts like those that operators have published.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jobplaybook.detectors.situation import (
    DeadJob,
    HeldJob,
    QueueState,
    RunTime,
    Situation,
    WorkerState,
)
from jobplaybook.model import Fact
from jobplaybook.sources.contract import CONTRACT
from jobplaybook.sources.procrastinate import PROCRASTINATE
from jobplaybook.units import MICROS, parse_time
from tests.signs import disorder, flood, retried, series, starved, table, vitals, waking

NOW = parse_time("2026-12-01T03:00:00Z")
DAY, HOUR, MINUTE = 86_400, 3_600, 60
SWEEPER = CONTRACT.sweeper


def ago(seconds: float) -> int:
    return NOW - int(seconds * MICROS)


def situation(facts: tuple[Fact, ...] = PROCRASTINATE.facts, **more: Any) -> Situation:
    """Return a procrastinate queue at `NOW`, seen whole for a day; ``more`` says what it holds."""
    seen: dict[str, Any] = {
        "system": "procrastinate",
        "now": NOW,
        "seen_until": NOW,
        "workers_read_at": NOW,
        "window_from": ago(DAY),
        "rates_from": ago(15 * MINUTE),
        "counts": {"completed": 1},
        "facts": {(fact.fact, fact.state): fact.quality for fact in facts},
        "fact_notes": {(fact.fact, fact.state): fact.note for fact in facts},
    }
    return Situation(**{**seen, **more})


def held(number: int = 1, *, lease: float | None, age: float, owner: str | None = "2") -> HeldJob:
    """Return a running job, claimed ``age`` seconds ago, its lease over in ``lease`` seconds."""
    return HeldJob(
        id=str(number),
        job_type="build_report",
        queue="reports",
        tenant_id=None,
        owner=owner,
        claimed_at=ago(age),
        locked_until=None if lease is None else ago(-lease),
        judged_at=NOW,
    )


def worker(owner: str, silent: float) -> WorkerState:
    return WorkerState(owner=owner, heartbeat_at=ago(silent), stopped_at=None, lease_seconds=30.0)


def backlog(
    *, claimable: int, oldest: float, per_minute: tuple[int, int], **more: Any
) -> Situation:
    """Return a queue with a backlog: the oldest's age, arrivals and completions a minute."""
    came, done = (rate * 15 for rate in per_minute)
    state: dict[str, Any] = {
        "queue": "deliveries",
        "waiting": claimable,
        "claimable": claimable,
        "oldest_at": ago(oldest),
        "arrivals": came,
        "claims": done,
        "completions": done,
        "claims_before": 900_000,
        "first_at": ago(DAY),
        "last_claim_at": ago(0.2),
        "last_completion_at": ago(0.1),
        "normal_wait_seconds": 38.0,
    }
    return situation(queues=(QueueState(**{**state, **more}),))


def stalled(*, claimable: int, silent: float, claims_before: int, **more: Any) -> Situation:
    """Return a queue where nothing was claimed or completed for ``silent`` seconds."""
    return backlog(
        claimable=claimable,
        oldest=silent + 1,
        per_minute=(70, 0),
        queue="mail",
        claims_before=claims_before,
        last_claim_at=ago(silent) if claims_before else None,
        last_completion_at=ago(silent),
        **more,
    )


def paused(waiting: int, *, due: int | None = None) -> Situation:
    """Return a queue that was paused two hours ago; all its jobs are due by default."""
    state = QueueState(
        queue="digests",
        waiting=waiting,
        due=waiting if due is None else due,
        paused_at=ago(2 * HOUR),
    )
    return situation(CONTRACT.facts, system="contract", sweeper=SWEEPER, queues=(state,))


def dead(
    count: int, *, finished: int, age: float = 40 * MINUTE, seen_seconds: float = DAY
) -> Situation:
    """Return ``count`` dead letters among ``finished`` jobs, the oldest ``age`` seconds old."""
    step = age / max(count, 1)
    letters = tuple(
        DeadJob(
            id=str(number),
            job_type="charge_card",
            queue="billing",
            tenant_id=None,
            finished_at=ago(age - step * number),
        )
        for number in range(count)
    )
    return situation(dead=letters, finished_in_window=finished, window_from=ago(seen_seconds))


RUNS = {"build_report": RunTime(p99_seconds=20.4, runs=96)}
SLOW = RunTime(p99_seconds=2.0 * HOUR, runs=20)
UNREAD = {"unfinished": "id above 41000: the budget of 60 s was used up"}

TABLE = "procrastinate_jobs"
FALLS_BACK = backlog(claimable=60_000, oldest=HOUR, per_minute=(3_000, 2_000))
YOUNG = backlog(claimable=900, oldest=3 * MINUTE, per_minute=(900, 600))
RECOVERS = backlog(claimable=60, oldest=HOUR, per_minute=(9, 300))
STILL = stalled(claimable=99, silent=HOUR, claims_before=95_000)
CONTRACT_SEEN = situation(CONTRACT.facts, system="contract", sweeper=SWEEPER, clock_at=NOW)
BLOCKED = vitals(table(dead=247_311, live=60_000, table=TABLE, last_autovacuum_at=ago(9 * MINUTE)))
DEAD_ROWS = vitals(table(dead=400_000, live=90_000, table=TABLE), age=2.0, behind=310.0)
STORM = retried(
    1_240,
    310,
    queue="deliveries",
    job_type="post_webhook",
    quick=1_150,
    jobs=290,
    tried=series((285, 2), (3, 400)),
    completed=series((288, 100)),
    job_ids=("88210", "88214"),
    most=14,
)
BURST = flood(9_200, queue="deliveries", name="sync_policy")
PASSED_OVER = starved(
    50 * MINUTE,
    queue="deliveries",
    job_type="send_receipt",
    claimable=340,
    last_claim_at=ago(51 * MINUTE),
    overtaking=(("migrate_account", 10, 11_200),),
    overtaken=11_200,
)

EXAMPLES = {
    "clock-skew": replace(
        CONTRACT_SEEN,
        workers=(worker("api-7", -62),),
        **disorder(41, first_at=ago(26 * MINUTE), apart_seconds=64.2),
    ),
    "vacuum-blocked": replace(FALLS_BACK, vitals=BLOCKED),
    "claim-slow": replace(FALLS_BACK, vitals=DEAD_ROWS),
    "retry-storm": replace(YOUNG, retrying=(STORM,)),
    "class-flood": replace(
        backlog(claimable=10_000, oldest=28 * MINUTE, per_minute=(320, 90)),
        loads=(
            BURST,
            flood(610, queue="deliveries", name="post_webhook", still_due=series((1, 0))),
        ),
    ),
    "starvation": replace(
        backlog(claimable=340, oldest=50 * MINUTE, per_minute=(770, 745)),
        waiting_classes=(PASSED_OVER,),
    ),
    "retry-herd": situation(
        wakings=(waking(4_100, ahead=12 * MINUTE, queue="deliveries"),),
        peak_claims={"deliveries": 240},
    ),
    "unknown": situation(counts={}),
    "phantom-running": situation(
        held=(held(769, lease=None, age=21 * DAY, owner=None),),
        workers=(worker("7", 4),),
        run_times=RUNS,
    ),
    "queue-stalled": stalled(claimable=1_540, silent=22 * MINUTE, claims_before=95_000),
    "queue-paused": paused(4_210),
    "backlog-growing": backlog(claimable=13_950, oldest=31 * MINUTE, per_minute=(1_200, 750)),
    "backlog-draining": backlog(claimable=72_000, oldest=2 * HOUR, per_minute=(600, 660)),
}
"""By finding: the situation whose screen its runbook shows."""

SEVERITIES = [
    ("lease-expired", situation(held=(held(lease=-1, age=60),)), "page"),
    ("lease-expired", situation(held=(held(lease=-59, age=90),), sweeper=SWEEPER), "ticket"),
    ("lease-expired", situation(held=(held(lease=-61, age=90),), sweeper=SWEEPER), "page"),
    ("lease-expired", situation(held=(held(lease=1, age=90),)), None),
    ("phantom-running", EXAMPLES["phantom-running"], "page"),
    (
        "phantom-running",
        situation(held=(held(lease=None, age=HOUR + 1),), sweeper=SWEEPER),
        "ticket",
    ),
    ("phantom-running", situation(held=(held(lease=None, age=HOUR - 1),)), None),
    ("phantom-running", situation(held=(held(lease=None, age=20),), run_times=RUNS), None),
    ("phantom-running", situation(held=(held(lease=None, age=21),), run_times=RUNS), "note"),
    ("phantom-running", situation(held=(held(lease=None, age=61),), run_times=RUNS), "page"),
    (
        "phantom-running",
        situation(held=(held(lease=9, age=61),), workers=(worker("7", 4),), run_times=RUNS),
        "page",
    ),
    ("phantom-running", situation(held=(held(lease=9, age=61),), run_times=RUNS), None),
    (
        "phantom-running",
        situation(held=(held(lease=None, age=HOUR + 1),), run_times={None: SLOW}),
        None,
    ),
    ("workers-lost", situation(workers=(worker("2", 31),), held=(held(lease=9, age=9),)), "page"),
    (
        "workers-lost",
        situation(workers=(worker("1", 5), worker("2", 31)), held=(held(lease=9, age=9),)),
        "ticket",
    ),
    ("workers-lost", situation(workers=(worker("1", 5), worker("2", 31))), "note"),
    ("workers-lost", situation(workers=(worker("2", 31),)), "note"),
    ("workers-lost", situation(workers=(worker("1", 5), worker("2", 29))), None),
    (
        "workers-lost",
        replace(EXAMPLES["backlog-growing"], workers=(worker("1", 5), worker("2", 31))),
        "ticket",
    ),
    ("workers-lost", situation(workers=(worker("2", 2 * DAY),)), None),
    ("queue-stalled", EXAMPLES["queue-stalled"], "page"),
    ("queue-stalled", stalled(claimable=99, silent=61, claims_before=95_000), "page"),
    ("queue-stalled", stalled(claimable=99, silent=59, claims_before=95_000), None),
    ("queue-stalled", stalled(claimable=99, silent=61, claims_before=10_000), None),
    ("queue-stalled", stalled(claimable=10, silent=301, claims_before=0), "page"),
    ("queue-stalled", stalled(claimable=9, silent=301, claims_before=0), "ticket"),
    ("queue-stalled", stalled(claimable=9, silent=299, claims_before=0), None),
    ("queue-stalled", stalled(claimable=9, silent=301, claims_before=0, live=1), None),
    (
        "queue-stalled",
        stalled(claimable=9, silent=301, claims_before=0, normal_wait_seconds=101.0),
        None,
    ),
    ("queue-paused", EXAMPLES["queue-paused"], "ticket"),
    ("queue-paused", paused(3, due=0), "note"),
    ("queue-paused", paused(0), None),
    ("backlog-growing", EXAMPLES["backlog-growing"], "page"),
    ("backlog-growing", backlog(claimable=9, oldest=900, per_minute=(9, 9)), "page"),
    ("backlog-growing", backlog(claimable=9, oldest=899, per_minute=(9, 9)), "ticket"),
    ("backlog-growing", backlog(claimable=9, oldest=900, per_minute=(0, 0)), "ticket"),
    (
        "backlog-growing",
        backlog(claimable=9, oldest=900, per_minute=(9, 9), recent_wait_seconds=59.0),
        "ticket",
    ),
    (
        "backlog-growing",
        backlog(claimable=9, oldest=900, per_minute=(9, 9), recent_wait_seconds=60.0),
        "page",
    ),
    (
        "backlog-growing",
        backlog(claimable=9, oldest=900, per_minute=(9, 3), recent_wait_seconds=59.0),
        "page",
    ),
    ("backlog-growing", backlog(claimable=9, oldest=113, per_minute=(9, 8)), None),
    ("backlog-growing", backlog(claimable=9, oldest=115, per_minute=(9, 8)), "ticket"),
    (
        "backlog-growing",
        backlog(claimable=9, oldest=299, per_minute=(9, 8), normal_wait_seconds=None),
        None,
    ),
    (
        "backlog-growing",
        backlog(claimable=9, oldest=59, per_minute=(9, 8), normal_wait_seconds=1.0),
        None,
    ),
    ("backlog-draining", EXAMPLES["backlog-draining"], "ticket"),
    ("backlog-draining", backlog(claimable=61, oldest=HOUR, per_minute=(9, 10)), "ticket"),
    ("backlog-draining", backlog(claimable=59, oldest=HOUR, per_minute=(9, 10)), "note"),
    ("dead-letters-growing", dead(17, finished=203), "ticket"),
    ("dead-letters-growing", dead(2, finished=2), None),
    ("dead-letters-growing", dead(3, finished=10_000), "ticket"),
    ("dead-letters-growing", dead(3, finished=10_000, age=5 * HOUR), None),
    ("dead-letters-growing", dead(3, finished=300, age=5 * HOUR), "ticket"),
    ("dead-letters-growing", dead(3, finished=10_000, seen_seconds=100 * MINUTE), None),
    ("clock-skew", EXAMPLES["clock-skew"], "ticket"),
    ("clock-skew", situation(**disorder(2)), "note"),
    ("clock-skew", replace(CONTRACT_SEEN, workers=(worker("api-7", -2),)), "ticket"),
    ("clock-skew", replace(CONTRACT_SEEN, workers=(worker("api-7", -1),)), None),
    ("vacuum-blocked", EXAMPLES["vacuum-blocked"], "page"),
    ("vacuum-blocked", situation(vitals=BLOCKED), "ticket"),
    ("vacuum-blocked", replace(RECOVERS, vitals=BLOCKED), "ticket"),
    ("vacuum-blocked", replace(STILL, vitals=BLOCKED), "ticket"),
    ("vacuum-blocked", situation(vitals=replace(BLOCKED, oldest_snapshot_seconds=299.0)), None),
    ("claim-slow", EXAMPLES["claim-slow"], "page"),
    ("claim-slow", replace(YOUNG, vitals=DEAD_ROWS), "ticket"),
    ("claim-slow", situation(vitals=DEAD_ROWS), "note"),
    ("claim-slow", EXAMPLES["vacuum-blocked"], None),
    (
        "claim-slow",
        replace(
            backlog(claimable=900, oldest=HOUR, per_minute=(900, 600), recent_wait_seconds=120.0),
            workers=(worker("1", 5),),
        ),
        "note",
    ),
    ("retry-storm", EXAMPLES["retry-storm"], "ticket"),
    ("retry-storm", situation(retrying=(STORM,)), "ticket"),
    ("retry-storm", replace(FALLS_BACK, retrying=(STORM,)), "page"),
    ("retry-storm", replace(FALLS_BACK, retrying=(replace(STORM, retries=19),)), None),
    ("class-flood", EXAMPLES["class-flood"], "page"),
    ("class-flood", replace(YOUNG, loads=(replace(BURST, due=800),)), "ticket"),
    ("class-flood", replace(RECOVERS, loads=(replace(BURST, due=100),)), "note"),
    ("class-flood", replace(STILL, loads=(replace(BURST, queue="mail"),)), None),
    ("starvation", EXAMPLES["starvation"], "page"),
    ("starvation", replace(RECOVERS, waiting_classes=(PASSED_OVER,)), "ticket"),
    ("starvation", replace(RECOVERS, waiting_classes=(replace(PASSED_OVER, overtaken=9),)), None),
    ("retry-herd", EXAMPLES["retry-herd"], "ticket"),
    (
        "retry-herd",
        situation(wakings=(waking(4_100, ahead=MINUTE, retries=0),), peak_claims={"mail": 240}),
        "note",
    ),
    (
        "retry-herd",
        situation(wakings=(waking(4_100, ahead=MINUTE),), peak_claims={"mail": 821}),
        None,
    ),
    ("data-blind", situation(), "note"),
    ("data-blind", situation(not_read=UNREAD), "ticket"),
    ("data-blind", situation(not_read={"vitals": "no right to see them"}), "note"),
    ("data-blind", situation(CONTRACT.facts), None),
    ("unknown", EXAMPLES["unknown"], "note"),
    ("unknown", situation(not_read=UNREAD), "note"),
    ("unknown", situation(not_read=UNREAD, held=(held(lease=-1, age=60),)), None),
    ("healthy", situation(CONTRACT.facts), "note"),
    ("healthy", EXAMPLES["queue-paused"], None),
]
"""A finding, a situation, and how severe it then is; None: it is not found."""
