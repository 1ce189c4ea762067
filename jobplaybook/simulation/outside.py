"""What comes from outside the queue: jobs, replays, impatient callers, pauses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from jobplaybook.simulation.lanes import Group, Job
from jobplaybook.simulation.record import Diary, initial_times


class Inside(Protocol):
    """What the event loop offers to whatever comes from outside."""

    now: float
    workers: int
    to_come: int
    diary: Diary

    def plan(self, at: float, action: Callable[[Any], None], subject: Any = None) -> None:
        """Let something happen later."""

    def enter(self, job: Job, since: float) -> None:
        """Put a job into the queue."""

    def park(self, job: Job, until: float) -> None:
        """Keep a job out of the queue for a while."""

    def reopen(self, group: Group) -> None:
        """Claim what a class's limit now admits."""

    def dispatch(self) -> None:
        """Give free workers what is claimable."""


class Outside:
    """The world around one class of jobs."""

    def __init__(self, inside: Inside, group: Group) -> None:
        self._in, self._group, self._kind = inside, group, group.kind

    def begin(self) -> None:
        """Fill the queue with what is there at the start, and plan what comes."""
        kind = self._kind
        if kind.pause and kind.pause.length_seconds:
            begins = self._close if kind.pause.start_seconds else None
            if begins is None:
                self._close(None)
            else:
                self._in.plan(kind.pause.start_seconds, begins)
        for since in initial_times(kind):
            self._in.enter(self._job(since, at_start=True), since)
        for due in kind.parked_seconds:
            self._in.park(self._job(0.0, at_start=True), due)
        if kind.replay:
            self._group.to_replay = kind.replay.jobs
            self._in.to_come += kind.replay.jobs
            self._replay(None)
        self._await_arrival()

    def _job(self, created: float, *, at_start: bool = False, replayed: bool = False) -> Job:
        kind, group = self._kind, self._group
        job = Job(group.next_lane(), created, at_start=at_start, replayed=replayed)
        job.wait = kind.retries.base_seconds
        self._in.diary.jobs += 1
        if group.budget:
            group.budget.add(group.budget.rules.per_call)
        self._expect(job)
        return job

    def _await_arrival(self) -> None:
        at = next(self._group.draws.arrivals, math.inf)
        if at < math.inf:
            self._in.plan(at, self._arrive)

    def _arrive(self, _: None) -> None:
        self._in.enter(self._job(self._in.now), self._in.now)
        self._await_arrival()
        self._in.dispatch()

    def _replay(self, _: None) -> None:
        replay, group = self._kind.replay, self._group
        if replay is None or replay.rate == 0 or not group.to_replay:
            return
        if group.replaying < replay.concurrency:
            group.to_replay -= 1
            group.replaying += 1
            self._in.to_come -= 1
            self._in.enter(self._job(self._in.now, at_start=True, replayed=True), self._in.now)
            self._in.dispatch()
        self._in.plan(self._in.now + 1 / replay.rate, self._replay)

    # Callers that wait for an answer

    def _expect(self, job: Job) -> None:
        if self._kind.client:
            patience = self._kind.client.timeout_seconds
            self._in.plan(max(job.created, 0.0) + patience, self._time_out, job)

    def _time_out(self, job: Job) -> None:
        # the caller turns away: what it asked for before is worked on in vain
        if job.over:
            return
        job.over, client = True, self._kind.client
        if client is None or job.asked >= client.attempts:
            self._in.diary.dead["timed out"] += 1
            self._group.replaying -= job.replayed
            return
        now = self._in.now
        again = Job(job.lane, now, asked=job.asked + 1, replayed=job.replayed, wait=job.wait)
        self._expect(again)
        self._in.enter(again, now)
        self._in.dispatch()

    # Pauses

    def _close(self, _: None) -> None:
        pause = self._kind.pause
        assert pause is not None
        self._group.limit = 0
        end, most = self._in.now + pause.length_seconds, self._kind.concurrency
        steps = min(most, self._in.workers) if pause.ramp_seconds else 0
        for step in range(steps):
            self._in.plan(end + pause.ramp_seconds * step / steps, self._open, step + 1)
        self._in.plan(end + pause.ramp_seconds, self._open, most)

    def _open(self, limit: int) -> None:
        self._group.limit = limit
        self._in.reopen(self._group)
