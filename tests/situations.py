"""Situations for the detectors: a quiet queue of the contract, and what a test changes in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from jobplaybook.detectors.findings import Finding
from jobplaybook.detectors.situation import (
    DeadJob,
    HeldJob,
    QueueState,
    RunTime,
    Situation,
    WorkerState,
)
from jobplaybook.model import FACTS, Quality
from jobplaybook.units import MICROS
from jobplaybook.verdict import Triage, judge
from tests.canonical import NOW, ago
from tests.signs import signs

DAY, HOUR, MINUTE = 86_400, 3_600, 60
EXACT = {(fact, state): Quality.EXACT for fact in FACTS for state in ("live", "finished")}


def facts(*absent: str) -> dict[tuple[str, str], Quality]:
    """Return every fact exact, but for the absent ones."""
    return {key: Quality.ABSENT if key[0] in absent else grade for key, grade in EXACT.items()}


def situation(**changes: Any) -> Situation:
    """Return a queue at `NOW` that was seen whole for a day and where all is well."""
    seen: dict[str, Any] = {
        "system": "contract",
        "now": NOW,
        "seen_until": NOW,
        "workers_read_at": NOW,
        "window_from": ago(DAY),
        "rates_from": ago(15 * MINUTE),
        "counts": {"completed": 1_000},
        "facts": EXACT,
        **changes,
    }
    return Situation(**seen)


def queue(name: str | None = "mail", **changes: Any) -> QueueState:
    """Return a queue with nothing in it."""
    return QueueState(queue=name, **changes)


def waiting(count: int, *, age: float, rates: tuple[int, int] = (0, 0), **changes: Any) -> Any:
    """Return a queue with ``count`` claimable jobs, the oldest ``age`` seconds old.

    ``rates`` are arrivals and completions inside the rate window of 15 minutes.
    """
    state = {
        "waiting": count,
        "due": count,
        "claimable": count,
        "oldest_at": ago(age),
        "arrivals": rates[0],
        "completions": rates[1],
        "claims": rates[1],
        "first_at": ago(DAY),
        "claims_before": 1_000,
        "last_claim_at": ago(1),
        "last_completion_at": ago(1),
        "normal_wait_seconds": 10.0,
    }
    return queue(**{"name": "mail", **state, **changes})


def silent(count: int, *, seconds: float, **changes: Any) -> QueueState:
    """Return a queue that has ``count`` jobs to claim and did nothing for so many seconds."""
    marks = {"last_claim_at": ago(seconds), "last_completion_at": ago(seconds)}
    state: QueueState = waiting(count, age=seconds + 1, **{**marks, **changes})
    return state


def held(
    job_id: str = "1", *, lease: float | None, age: float | None = 5, **changes: Any
) -> HeldJob:
    """Return a running job whose lease ends in ``lease`` seconds, claimed ``age`` seconds ago."""
    job: dict[str, Any] = {
        "id": job_id,
        "job_type": "report",
        "queue": "mail",
        "tenant_id": "t1",
        "owner": "w1",
        "claimed_at": None if age is None else ago(age),
        "locked_until": None if lease is None else ago(-lease),
        "judged_at": NOW,
        **changes,
    }
    return HeldJob(**job)


def worker(owner: str = "w1", *, silence: float | None = 1, **changes: Any) -> WorkerState:
    """Return a worker with a lease of 30 s, last heard of ``silence`` seconds ago."""
    beat = None if silence is None else ago(silence)
    state: dict[str, Any] = {"heartbeat_at": beat, "stopped_at": None, "lease_seconds": 30.0}
    return WorkerState(owner=owner, **{**state, **changes})


def dead(count: int, *, age: float = MINUTE, **changes: Any) -> tuple[DeadJob, ...]:
    """Return dead letters, all of one moment ``age`` seconds ago."""
    letter = DeadJob(id="0", job_type="charge", queue="mail", tenant_id="t1", finished_at=ago(age))
    return tuple(replace(letter, id=str(number), **changes) for number in range(count))


def judged(**changes: Any) -> Triage:
    """Return the verdict on `situation`."""
    return judge(situation(**changes), label="test")


def of(triage: Triage, code: str) -> list[Finding]:
    """Return the findings of one code."""
    return [finding for finding in triage.findings if finding.code == code]


def only(code: str, **changes: Any) -> Finding:
    """Return the one finding of a code."""
    (finding,) = of(judged(**changes), code)
    return finding


def codes(**changes: Any) -> set[str]:
    """Return the codes of everything found, notes about missing facts left out."""
    return {finding.code for finding in judged(**changes).findings} - {"data-blind"}


# Any situation at all

names = st.text(max_size=8) | st.sampled_from(
    ["\x1b[31m", "\u202egnp", "a\nb", "w" * 300, "2", "10"]
)
maybe = st.none() | names
near = st.integers(ago(2 * DAY), ago(-2 * DAY)) | st.sampled_from([NOW, ago(30), ago(DAY)])
when = st.none() | near
few = st.integers(0, 50)
seconds = st.none() | st.floats(0, 1e6)


GRADES = [
    EXACT,
    facts("created_at", "error"),
    facts("finished_at", "tenant"),
    facts("lease", "heartbeat", "claimed_at", "attempt_times"),
    {},
]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Draw a situation that a snapshot could hold, however odd its rows and clocks are."""
    jobs = draw(
        st.lists(
            st.builds(
                HeldJob,
                id=names,
                job_type=maybe,
                queue=maybe,
                tenant_id=maybe,
                owner=maybe,
                claimed_at=when,
                locked_until=when,
                judged_at=near,
            ),
            max_size=6,
            unique_by=lambda job: job.id,
        )
    )
    owners = st.sampled_from([job.owner for job in jobs if job.owner] or ["w"]) | names
    workers = draw(
        st.lists(
            st.builds(
                WorkerState,
                owner=owners,
                heartbeat_at=when,
                stopped_at=when,
                lease_seconds=st.none() | st.floats(1, 1e5),
                started_at=when,
            ),
            max_size=5,
            unique_by=lambda worker: worker.owner,
        )
    )
    queues = draw(st.lists(any_queue(), max_size=4, unique_by=lambda queue: queue.queue))
    letters = draw(
        st.lists(
            st.builds(
                DeadJob, id=names, job_type=maybe, queue=maybe, tenant_id=maybe, finished_at=near
            ),
            max_size=6,
        )
    )
    seen = draw(near)
    return Situation(
        system=draw(names),
        now=draw(st.just(seen) | near.filter(lambda now: now >= seen)),
        seen_until=seen,
        window_from=ago(3 * DAY),
        window_until=draw(st.none() | st.just(seen) | st.just(seen - MINUTE * MICROS)),
        rates_from=seen - 15 * MINUTE * MICROS,
        workers_read_at=draw(st.none() | st.just(seen)),
        held=tuple(jobs),
        workers=tuple(workers),
        queues=tuple(queues),
        dead=tuple(sorted(letters, key=lambda letter: letter.finished_at)),
        finished_in_window=draw(few) + len(letters),
        run_times=draw(
            st.dictionaries(
                maybe, st.builds(RunTime, p99_seconds=st.floats(0, 1e6), runs=st.integers(1, 99))
            )
        ),
        counts=draw(st.sampled_from([{}, {"pending": 3}, {"completed": 9, "processing": 1}])),
        facts=draw(st.sampled_from(GRADES)),
        not_read=draw(st.dictionaries(st.sampled_from(["unfinished", "vitals"]), names)),
        sweeper=draw(maybe),
        possible_sweepers=tuple(draw(st.lists(names, max_size=2))),
        **draw(signs(names, near, [queue.queue for queue in queues])),
    )


@st.composite
def any_queue(draw: st.DrawFn) -> QueueState:
    """Draw a queue whose counts agree with each other."""
    claimable = draw(few)
    due = claimable + draw(st.integers(0, 3))
    return QueueState(
        queue=draw(maybe),
        waiting=due + draw(st.integers(0, 3)),
        due=due,
        claimable=claimable,
        running=draw(few),
        live=draw(st.integers(0, 2)),
        tenants=draw(st.none() | few),
        types=draw(st.none() | few),
        oldest_at=draw(when) if claimable else None,
        arrivals=draw(few),
        claims=draw(few),
        completions=draw(few),
        dead=draw(few),
        claims_before=draw(st.integers(0, 10**6)),
        first_at=draw(when),
        last_claim_at=draw(when),
        last_completion_at=draw(when),
        normal_wait_seconds=draw(seconds),
        recent_wait_seconds=draw(seconds),
        paused_at=draw(when),
    )
