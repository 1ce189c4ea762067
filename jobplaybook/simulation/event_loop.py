"""The event loop with everything that a scenario can say: the authority of the simulation.

One heap of events, each with the method that it calls. Where a scenario uses little, the same
events run on the fast path of `jobplaybook.simulation.plain_loop`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from jobplaybook.simulation.draws import backoff_seconds, draws_of
from jobplaybook.simulation.lanes import Group, Job, Lanes
from jobplaybook.simulation.limits import Bucket, Budget
from jobplaybook.simulation.outside import Outside
from jobplaybook.simulation.plain_loop import FEATURES, run_plain
from jobplaybook.simulation.record import Diary, Run, whole_buckets
from jobplaybook.simulation.scenario import Scenario


def run_events(scenario: Scenario, seed: np.random.SeedSequence) -> Run:
    """Return one replication of any scenario; the same seed gives the same run."""
    if FEATURES.issuperset(scenario.features()):
        return run_plain(scenario, seed)
    return EventLoop(scenario, seed).run()


@dataclass(slots=True, eq=False)
class _Attempt:
    job: Job
    outcome: str
    holds: bool = True  # its job is locked, and counts for its tenant and its class
    lost: bool = False  # its worker died, and nobody has taken the job over yet


class EventLoop:
    """One run: make it, `run` it once.

    Parameters
    ----------
    scenario : Scenario
        What is simulated.
    seed : numpy.random.SeedSequence
        Of this replication.
    """

    def __init__(self, scenario: Scenario, seed: np.random.SeedSequence) -> None:
        streams, self._crash_draw = draws_of(scenario, seed)
        self._scenario = scenario
        self._groups = [
            Group(kind, draws, kind.concurrency)
            for kind, draws in zip(scenario.classes, streams, strict=True)
        ]
        self._lanes = Lanes(self._groups)
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._number = count()
        self._drained = math.inf
        self._running = self._waiting = self._parked = 0
        quota = scenario.quota
        self._quota = Bucket(quota, float(quota.burst)) if quota else None
        self._free = self.workers = scenario.workers
        self.now, self.diary = 0.0, Diary()
        # jobs of the start that are parked or still to be replayed
        self.to_come = 0

    def run(self) -> Run:
        """Play until the scenario is over, its horizon comes, or nothing happens any more."""
        self._begin()
        while not self._is_over():
            if not self._events or self._events[0][0] > self._scenario.horizon_seconds:
                self.now = self._scenario.horizon_seconds
                break
            self.now, _, action, subject = heappop(self._events)
            action(subject)
        width = self._scenario.width_seconds
        return self.diary.run(drained=self._drained, ended=self.now, width=width)

    def _begin(self) -> None:
        scenario, width = self._scenario, self._scenario.width_seconds
        for step in range(1, whole_buckets(scenario.horizon_seconds, width) + 1):
            self.plan(step * width, self._look)
        for group in self._groups:
            budget = group.kind.retries.budget
            group.budget = Budget(budget, budget.initial) if budget else None
            Outside(self, group).begin()
        self.plan(scenario.disturbed_until, self._go_on)
        self.dispatch()

    def _is_over(self) -> bool:
        calm = self.now >= self._scenario.disturbed_until
        if self._drained == math.inf and calm and not (self._waiting or self.to_come):
            self._drained = self.now
        if self._drained == math.inf or self._scenario.run_to == "horizon":
            return False
        return self._scenario.run_to == "drained" or not (self._running or self._parked)

    def plan(self, at: float, action: Callable[[Any], None], subject: Any = None) -> None:
        """Let something happen later."""
        heappush(self._events, (at, next(self._number), action, subject))

    def _look(self, _: None) -> None:
        self.diary.ages.append(max(self.now - self._lanes.oldest_since(), 0.0))
        replays = sum(group.to_replay for group in self._groups)
        self.diary.backlogs.append(float(self._waiting + self._parked + replays))

    # Into the queue

    def enter(self, job: Job, since: float) -> None:
        """Put a job into the queue, claimable since then."""
        job.since, job.queued = since, True
        job.live += 1
        job.lane.jobs.append(job)
        self._waiting += 1
        if self.now > 0:
            self.diary.offered.append(self.now)
        self._lanes.show(job.lane)

    def park(self, job: Job, until: float) -> None:
        """Keep a job out of the queue for a while."""
        self._parked += 1
        self.to_come += job.at_start
        self.plan(until, self._wake, job)

    def _wake(self, job: Job) -> None:
        self._parked -= 1
        self.to_come -= job.at_start
        self.enter(job, self.now)
        self.dispatch()

    # Out of the queue

    def reopen(self, group: Group) -> None:
        """Claim what a class's limit now admits."""
        for _ in range(len(group.held)):
            self._lanes.release(group)
        self.dispatch()

    def dispatch(self) -> None:
        """Give free workers what is claimable."""
        outage = self._scenario.outage
        if outage and outage.effect == "stall" and self._in_outage():
            return
        while self._free and self._running < self._scenario.concurrency:
            lane = self._lanes.first()
            if lane is None or not self._may_call():
                return
            self._claim(self._lanes.take(lane))

    def _go_on(self, _: None) -> None:
        self.dispatch()

    def _in_outage(self) -> bool:
        outage = self._scenario.outage
        if outage is None:
            return False
        return outage.start_seconds <= self.now < outage.start_seconds + outage.length_seconds

    def _may_call(self) -> bool:
        bucket = self._quota
        if bucket is None or bucket.quota.when_empty == "reject" or bucket.take(self.now):
            return True
        if bucket.quota.rate and not bucket.awaited:
            bucket.awaited = True
            self.plan(bucket.next_at(), self._refilled, bucket)
        return False

    def _refilled(self, bucket: Bucket) -> None:
        bucket.awaited = False
        self.dispatch()

    # In work

    def _claim(self, job: Job) -> None:
        self._waiting -= 1
        self._free -= 1
        self._running += 1
        self.diary.calls.append(self.now)
        self.diary.waited += self.now - job.since
        self.diary.started += job.tries == 0 and job.asked == 1
        self.diary.duplicates += job.live > 1
        job.tries += 1
        group = job.lane.group
        outcome, seconds = self._drawn(group)
        attempt = _Attempt(job, outcome)
        if group.kind.contention and outcome == "done":
            read, write, reply = (group.draws.service() for _ in range(3))
            seen_at = self.now + seconds
            self.plan(seen_at + read + write, self._write, (attempt, seen_at, reply))
        else:
            self._work(attempt, seconds)

    def _drawn(self, group: Group) -> tuple[str, float]:
        failures, draws, bucket = group.kind.failures, group.draws, self._quota
        if bucket and bucket.quota.when_empty == "reject" and not bucket.take(self.now):
            return "rate-limited", bucket.quota.reject_seconds
        outage = self._scenario.outage
        if outage and self._in_outage():
            return "retryable", min(draws.failed_service(), outage.fails_after_seconds)
        draw = draws.outcome()
        for outcome, share in (
            ("permanent", failures.permanent),
            ("retryable", failures.retryable),
            ("rate-limited", failures.rate_limited),
        ):
            if draw < share:
                return outcome, draws.failed_service()
            draw -= share
        return "done", draws.service()

    def _work(self, attempt: _Attempt, seconds: float) -> None:
        lease, crashes, dies = self._scenario.lease, self._scenario.crashes, math.inf
        if crashes and crashes.rate:
            dies = -math.log1p(-self._crash_draw()) / crashes.rate
        ending = self._end if seconds <= dies else self._crash
        self.plan(self.now + min(seconds, dies), ending, attempt)
        lasts = lease.length_seconds if lease and not lease.heartbeat else math.inf
        if lasts < seconds or (lasts < math.inf and dies < seconds):
            self.plan(self.now + lasts, self._take_over, attempt)

    def _write(self, writing: tuple[_Attempt, float, float]) -> None:
        attempt, seen_at, reply = writing
        group = attempt.job.lane.group
        if group.written > seen_at:
            attempt.outcome = "retryable"
        else:
            group.written = self.now
        self.plan(self.now + reply, self._end, attempt)

    # After work

    def _crash(self, attempt: _Attempt) -> None:
        lease, crashes = self._scenario.lease, self._scenario.crashes
        assert lease is not None
        assert crashes is not None
        attempt.job.live -= 1
        attempt.lost = attempt.holds
        self._parked += attempt.lost
        self.to_come += attempt.lost and attempt.job.at_start
        self._running -= 1
        if lease.heartbeat:
            self.plan(self.now + lease.length_seconds, self._take_over, attempt)
        self.plan(self.now + crashes.restart_seconds, self._restart)

    def _restart(self, _: None) -> None:
        self._free += 1
        self.dispatch()

    def _take_over(self, attempt: _Attempt) -> None:
        # the lease is over: the job goes back, whether or not its first attempt is still at work
        job = attempt.job
        if not attempt.holds:
            return
        self._parked -= attempt.lost
        self.to_come -= attempt.lost and job.at_start
        self._let_go(attempt)
        if job.tries < job.lane.group.kind.retries.max_attempts:
            if not job.over and not job.queued:
                self.enter(job, self.now)
        elif not job.over and not job.live:
            self._give_up(job, "exhausted")
        self.dispatch()

    def _let_go(self, attempt: _Attempt) -> None:
        attempt.holds = False
        self._lanes.give_back(attempt.job.lane)

    def _end(self, attempt: _Attempt) -> None:
        job, group = attempt.job, attempt.job.lane.group
        self._free += 1
        self._running -= 1
        job.live -= 1
        if attempt.holds:
            self._let_go(attempt)
        if group.budget:
            group.budget.ended(done=attempt.outcome == "done")
        if not job.over:
            self._judge(job, group, attempt.outcome)
        self.dispatch()

    def _judge(self, job: Job, group: Group, outcome: str) -> None:
        if outcome == "done":
            self._close(job)
            self.diary.completed.append(self.now)
        elif outcome == "permanent":
            self._give_up(job, outcome)
        elif not job.live:  # otherwise another copy goes on
            self._retry(job, group, outcome)

    def _retry(self, job: Job, group: Group, outcome: str) -> None:
        retries, wait = group.kind.retries, group.kind.failures.retry_after_seconds
        if job.tries >= retries.max_attempts:
            return self._give_up(job, "exhausted")
        if outcome != "rate-limited":
            draw = group.draws.jitter() if retries.backoff != "none" else 0.0
            wait = job.wait = backoff_seconds(retries, job.tries, job.wait, draw)
        if self.now + wait - job.created > retries.max_elapsed_seconds:
            return self._give_up(job, "out of time")
        if group.budget and not group.budget.allows():
            return self._give_up(job, "out of budget")
        return self.park(job, self.now + wait) if wait else self.enter(job, self.now)

    def _give_up(self, job: Job, reason: str) -> None:
        self._close(job)
        self.diary.dead[reason] += 1

    def _close(self, job: Job) -> None:
        job.over = True
        job.lane.group.replaying -= job.replayed
        if job.queued:  # a copy that waits is not wanted any more
            job.queued = False
            job.live -= 1
            self._waiting -= 1
