"""A scenario measured from a snapshot, as far as the facts allow; nothing unknown is guessed."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import micros, words
from jobplaybook.errors import InputError
from jobplaybook.model import Outcome, Quality, Status
from jobplaybook.pulse import read_pulse
from jobplaybook.queries.standing import is_due
from jobplaybook.reading import read_situation
from jobplaybook.simulation.scenario import Arrivals, Failures, JobClass, Retries, Scenario, Service
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.tables import attempts, jobs
from jobplaybook.units import MICROS

LEAST_ATTEMPTS = 20
"""Fewer attempts than this say too little of service times and failures."""


def measured_scenario(
    snapshot: Snapshot,
    *,
    queue: str | None = None,
    workers: int | None = None,
    max_attempts: int | None = None,
    since_seconds: float = 86_400.0,
    **more: Any,
) -> Scenario:
    """Return the scenario of a queue as the snapshot shows it.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    queue : str, optional
        One queue alone; by default all together, as one class.
    workers : int, optional
        How many attempts can run at a time; by default what ran at the capture, which is the
        capacity only where jobs waited all the time.
    max_attempts : int, optional
        Attempts a job has; by default the most that the jobs were given.
    since_seconds : float
        Attempts that ended so long before the end are looked at.
    **more
        Other fields of `Scenario`.

    Returns
    -------
    Scenario
        Backlog and parked jobs as they stand, arrivals at their measured rate, service times of
        succeeded and of failed attempts as they were, and the share that failed.

    Raises
    ------
    InputError
        If arrivals, service times, capacity or the number of attempts are not known: the message
        names what to give.
    """
    situation = read_situation(snapshot, since_seconds=since_seconds)
    pulse = read_pulse(snapshot, situation, queue=queue, bucket_seconds=None)
    state = pulse.overall if queue is None else pulse.queues[0]
    if state.arrival_rate is None or situation.rate_seconds == 0:
        raise InputError("arrivals unknown: expected a window with times of creation, found none")
    if workers is None and not (state.saturated and state.running):
        raise InputError(
            "capacity unknown: only a queue in which jobs wait all the time shows it; "
            "give workers=N"
        )
    if situation.grade("attempt_outcome", "attempt_times", state="finished") is Quality.ABSENT:
        raise InputError("service times unknown: expected recorded attempts, found none")
    now = situation.flow_until
    done, failed = (
        _run_times(snapshot, queue, outcome, now - round(since_seconds * MICROS), now)
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED)
    )
    if len(done) < LEAST_ATTEMPTS:
        raise InputError(
            f"service times unknown: expected {LEAST_ATTEMPTS} succeeded attempts or more, "
            f"found {len(done)}: take a longer window"
        )
    kind = JobClass(
        name=queue or "all",
        backlog=state.claimable,
        backlog_age_seconds=state.oldest_claimable_age_seconds or 0.0,
        parked_seconds=_parked(snapshot, queue, now),
        arrivals=Arrivals(rate=state.arrival_rate),
        service=_sample(done),
        failures=Failures(
            retryable=len(failed) / (len(done) + len(failed)),
            service=_sample(failed) if failed else None,
        ),
        retries=Retries(max_attempts=_most_attempts(snapshot, queue, max_attempts, bool(failed))),
    )
    return Scenario(classes=(kind,), workers=workers or state.running, **more)


def _sample(seconds: tuple[float, ...]) -> Service:
    return Service(law="empirical", values_seconds=seconds)


def _of(queue: str | None) -> list[sa.ColumnElement[bool]]:
    return [] if queue is None else [jobs.c.queue == queue]


def _run_times(
    snapshot: Snapshot, queue: str | None, outcome: Outcome, since: int, until: int
) -> tuple[float, ...]:
    attempt = attempts.c
    ended = micros(attempt.ended_at)
    ran = ended - micros(attempt.started_at)
    query = (
        sa.select(ran)
        .select_from(attempts.join(jobs, jobs.c.id == attempt.job_id))
        .where(ran > 0, ended.between(since, until), attempt.outcome == words(outcome)[0])
        .where(*_of(queue))
        .order_by(ran)
    )
    return tuple(ran / MICROS for (ran,) in snapshot.rows(query))


def _parked(snapshot: Snapshot, queue: str | None, now: int) -> tuple[float, ...]:
    due = micros(jobs.c.available_at)
    pending = jobs.c.status == words(Status.PENDING)[0]
    query = sa.select(due).where(pending, sa.not_(is_due(now)), *_of(queue)).order_by(due)
    return tuple((at - now) / MICROS for (at,) in snapshot.rows(query))


def _most_attempts(snapshot: Snapshot, queue: str | None, given: int | None, needed: bool) -> int:
    if given is not None or not needed:
        return given or 1
    query = sa.select(sa.func.max(jobs.c.max_attempts)).where(*_of(queue))
    ((most,),) = snapshot.rows(query)
    if not most:
        raise InputError("attempts unknown: the system does not record them; give max_attempts=N")
    return int(most)
