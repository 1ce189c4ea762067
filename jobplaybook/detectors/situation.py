"""What the detectors look at: a queue at a moment, as counts and times in microseconds UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobplaybook.detectors import signs
from jobplaybook.model import Quality, worst
from jobplaybook.units import MICROS


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """One running job; its lease is judged at ``judged_at``."""

    id: str
    job_type: str | None
    queue: str | None
    tenant_id: str | None
    owner: str | None
    claimed_at: int | None
    locked_until: int | None
    judged_at: int

    @property
    def is_expired(self) -> bool:
        """Whether its lease was over when it was judged."""
        return self.locked_until is not None and self.locked_until < self.judged_at


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """One worker and when it was last heard of."""

    owner: str
    heartbeat_at: int | None
    stopped_at: int | None
    lease_seconds: float | None
    started_at: int | None = None

    def beats(self, read_at: int) -> bool | None:
        """Whether it lives at ``read_at``; None where it stopped, or no lease and beat tell."""
        if self.stopped_at is not None or self.heartbeat_at is None or self.lease_seconds is None:
            return None
        return self.heartbeat_at + self.lease_seconds * MICROS >= read_at


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue: what waits, what flows, and what was normal before."""

    queue: str | None
    waiting: int = 0  # pending jobs, due or not
    claimable: int = 0  # those that a worker could take now: due, and not behind their shard
    due: int = 0  # those whose time has come
    running: int = 0
    live: int = 0  # running jobs that a lease, or their age, vouches for
    tenants: int | None = None  # how many different ones the due jobs have; None: not counted
    types: int | None = None
    oldest_at: int | None = None  # ``available_at`` of the oldest claimable one
    arrivals: int = 0  # this and the next three: events inside the recent rate window
    claims: int = 0
    completions: int = 0
    dead: int = 0
    claims_before: int = 0  # claims in the whole window, up to the last one
    first_at: int | None = None  # first event in the whole window
    last_claim_at: int | None = None
    last_completion_at: int | None = None
    normal_wait_seconds: float | None = None
    """95th percentile of waits before the present backlog began; None: too few to know, or
    nothing waits long enough to ask."""
    recent_wait_seconds: float | None = None  # the same of the claims inside the rate window
    paused_at: int | None = None

    @property
    def backlog(self) -> int:
        """How many jobs have to go before it is empty: those behind their shard too."""
        return max(self.due, self.claimable)

    @property
    def left(self) -> int:
        """How many jobs left the queue inside the rate window: completed or given up."""
        return self.completions + self.dead


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadJob:
    """One dead letter."""

    id: str
    job_type: str | None
    queue: str | None
    tenant_id: str | None
    finished_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """How long runs of a type take: the 99th percentile of ``runs`` finished attempts."""

    p99_seconds: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything the detectors may look at."""

    system: str
    now: int  # the moment that ages and leases are judged at
    seen_until: int  # the last moment anybody looked: heartbeats and statuses are of then
    window_from: int  # from here on finished jobs were read whole
    rates_from: int  # where the recent window of rates begins; it ends where the window does
    window_until: int | None = None  # queues are judged as of then; None: at the last look
    workers_read_at: int | None = None
    held: tuple[HeldJob, ...] = ()
    workers: tuple[WorkerState, ...] = ()
    queues: tuple[QueueState, ...] = ()
    dead: tuple[DeadJob, ...] = ()
    finished_in_window: int = 0
    ahead: int = 0  # jobs created long after the capture says it was made
    run_times: Mapping[str | None, RunTime] = field(default_factory=dict)
    """By job type, with None for all types together; only types that are asked for."""
    counts: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    layers: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[tuple[str, str], Quality] = field(default_factory=dict)  # (fact, state): grade
    fact_notes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    not_read: Mapping[str, str] = field(default_factory=dict)
    sweeper: str | None = None  # who takes expired leases back; None: nobody
    possible_sweepers: tuple[str, ...] = ()  # the user's periodic tasks whose names suggest it
    source_schema: str = ""
    clock_at: int | None = None
    """The database's own clock when heartbeats were read; None where a moment was given for it."""
    vitals: signs.Vitals | None = None
    disorders: tuple[signs.Disorder, ...] = ()
    disordered: signs.Disordered = field(default_factory=signs.Disordered)
    retrying: tuple[signs.RetryClass, ...] = ()
    wakings: tuple[signs.Waking, ...] = ()
    peak_claims: Mapping[str | None, int] = field(default_factory=dict)
    """By queue, the most claims in one minute of the window; only where `wakings` are many."""
    waiting_classes: tuple[signs.WaitingClass, ...] = ()
    loads: tuple[signs.ClassLoad, ...] = ()
    """What waits by class: only of queues whose oldest job is no longer young."""

    @property
    def judged_later(self) -> bool:
        """Whether ``now`` lies after the last look: leases are then judged again, nothing else."""
        return self.now > self.seen_until

    @property
    def flow_until(self) -> int:
        """As of when queues are judged: the end of the window, the last look or ``now``."""
        end = self.seen_until if self.window_until is None else self.window_until
        return min(end, self.seen_until, self.now)

    @property
    def rate_seconds(self) -> float:
        """The width of the recent rate window, in seconds."""
        return max((self.flow_until - self.rates_from) / MICROS, 0.0)

    @property
    def total(self) -> int:
        """How many jobs the snapshot holds."""
        return sum(self.counts.values())

    def grade(self, *names: str, state: str = "live") -> Quality:
        """Return the worst grade of the named facts; a fact nobody graded is absent."""
        return worst(*(self.facts.get((name, state), Quality.ABSENT) for name in names))

    @property
    def knows_arrivals(self) -> bool:
        """Whether the system says when jobs came."""
        return self.grade("created_at") > Quality.ABSENT

    @property
    def knows_claims(self) -> bool:
        """Whether the system says when jobs were claimed."""
        return max(self.grade("claimed_at"), self.grade("attempt_times")) > Quality.ABSENT

    @property
    def knows_ends(self) -> bool:
        """Whether the system says when jobs ended."""
        return self.grade("finished_at", state="finished") > Quality.ABSENT

    @property
    def knows_flow(self) -> bool:
        """Whether the system says when jobs came and when they ended."""
        return self.knows_arrivals and self.knows_ends

    @property
    def knows_tenants(self) -> bool:
        """Whether jobs say whose they are."""
        return self.grade("tenant") > Quality.ABSENT

    def is_lost(self, worker: WorkerState) -> bool:
        """Whether a worker's heartbeat had stopped when it was read, or at an earlier ``now``."""
        return self._beats(worker) is False

    def beats(self, worker: WorkerState) -> bool:
        """Whether a worker was known to live then."""
        return self._beats(worker) is True

    def _beats(self, worker: WorkerState) -> bool | None:
        read_at = self.workers_read_at
        return None if read_at is None else worker.beats(min(read_at, self.now))
