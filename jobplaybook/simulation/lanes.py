"""Who may be claimed next: lanes of classes and tenants, in order of priority and age."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from jobplaybook.simulation.draws import Draws
from jobplaybook.simulation.limits import Budget
from jobplaybook.simulation.scenario import JobClass


@dataclass(slots=True, eq=False)
class Job:
    """One request; ``since`` is when it became claimable, ``live`` how many copies there are."""

    lane: Lane
    created: float
    since: float = 0.0
    tries: int = 0
    wait: float = 0.0
    live: int = 0
    asked: int = 1
    at_start: bool = False
    queued: bool = False
    over: bool = False
    replayed: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """The queue of one tenant of one class; listed while its oldest job is up for a claim."""

    group: Group
    number: int
    jobs: deque[Job] = field(default_factory=deque)
    running: int = 0
    listed: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """A class at run time: its lanes, its limit, and the lanes that wait for the limit."""

    kind: JobClass
    draws: Draws
    limit: int
    lanes: list[Lane] = field(default_factory=list)
    held: list[tuple[float, int, Lane]] = field(default_factory=list)
    running: int = 0
    dealt: int = 0
    budget: Budget | None = None
    to_replay: int = 0
    replaying: int = 0
    written: float = -math.inf

    def next_lane(self) -> Lane:
        """Return the tenant that the next job is dealt to."""
        self.dealt += 1
        return self.lanes[(self.dealt - 1) % len(self.lanes)]


class Lanes:
    """All lanes, those with a claimable job in a heap by priority and age."""

    def __init__(self, groups: list[Group]) -> None:
        self.all: list[Lane] = []
        self._heads: list[tuple[int, float, int, Lane]] = []
        for group in groups:
            first = len(self.all)
            group.lanes = [Lane(group, first + number) for number in range(group.kind.tenants)]
            self.all += group.lanes

    def show(self, lane: Lane) -> None:
        """List a lane if its oldest job may be claimed as far as its tenant goes."""
        while lane.jobs and not lane.jobs[0].queued:
            lane.jobs.popleft()  # ended by another copy while it waited
        if lane.jobs and not lane.listed and lane.running < lane.group.kind.tenant_concurrency:
            lane.listed = True
            urgency = -lane.group.kind.priority
            heappush(self._heads, (urgency, lane.jobs[0].since, lane.number, lane))

    def release(self, group: Group) -> None:
        """List the oldest lane that waited for its class's limit."""
        while group.held and group.running < group.limit:
            *_, lane = heappop(group.held)
            lane.listed = False
            self.show(lane)
            if lane.listed:
                return

    def first(self) -> Lane | None:
        """Return the lane whose turn it is, or None; those of a full class are put aside."""
        while self._heads:
            lane = self._heads[0][-1]
            while lane.jobs and not lane.jobs[0].queued:
                lane.jobs.popleft()
            if lane.jobs and lane.group.running < lane.group.limit:
                return lane
            heappop(self._heads)
            if lane.jobs:
                heappush(lane.group.held, (lane.jobs[0].since, lane.number, lane))
            else:
                lane.listed = False
        return None

    def take(self, lane: Lane) -> Job:
        """Claim the oldest job of the lane that `first` gave."""
        heappop(self._heads)
        job = lane.jobs.popleft()
        job.queued = lane.listed = False
        lane.running += 1
        lane.group.running += 1
        self.show(lane)
        return job

    def give_back(self, lane: Lane) -> None:
        """Let the tenant and the class have one more attempt at work."""
        lane.running -= 1
        lane.group.running -= 1
        self.show(lane)
        self.release(lane.group)

    def oldest_since(self) -> float:
        """Return since when the oldest claimable job waits; infinite if none does."""
        heads = (
            next((job.since for job in lane.jobs if job.queued), math.inf) for lane in self.all
        )
        return min(heads, default=math.inf)
