"""What is simulated: classes of jobs, workers, an upstream, and what goes wrong.

Durations are float seconds in fields ending ``_seconds`` and rates are per second; the TOML file
writes them as people do (``"90s"``, ``"2/s"``) under the same name without its ending.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobplaybook.errors import InputError
from jobplaybook.simulation.reading import Checked, from_table, option, read_toml

if TYPE_CHECKING:
    from jobplaybook.snapshot.file import Snapshot

LAWS = ("exponential", "lognormal", "normal", "constant", "empirical")
BACKOFFS = ("none", "exponential", "full", "equal", "decorrelated")
_MOST_BUCKETS = 240
_WIDTHS = (0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Checked):
    """How long an attempt takes: a law with its mean and coefficient of variation, or a sample."""

    law: str = option(LAWS, "exponential")
    mean_seconds: float = option("seconds", 0.0)
    cv: float = option("number", 1.0)
    values_seconds: tuple[float, ...] = option("times", ())

    def __post_init__(self) -> None:
        """Refuse a law without its numbers."""
        Checked.__post_init__(self)
        if (self.law == "empirical") != bool(self.values_seconds):
            raise InputError('values: expected with the law "empirical", and with no other')
        if self.law != "empirical" and self.mean_seconds == 0:
            raise InputError("mean: expected a duration above 0, found 0")
        if not all(value > 0 for value in self.values_seconds):
            raise InputError("values: expected durations above 0, found 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals(Checked):
    """New jobs: a Poisson rate, a recorded trace, a burst by the clock, or several together."""

    rate: float = option("rate", 0.0)
    trace_seconds: tuple[float, ...] = option("times", ())
    every_seconds: float = option("seconds", math.inf)
    first_seconds: float = option("seconds", 0.0)
    burst: int = option("count", 0)

    def __post_init__(self) -> None:
        """Refuse a burst without its rhythm."""
        Checked.__post_init__(self)
        if self.every_seconds == 0 or (self.burst > 0) != (self.every_seconds < math.inf):
            raise InputError("burst: expected with every, and every with burst, both above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures(Checked):
    """Shares of attempts that fail, and how long a failing one takes where it differs."""

    retryable: float = option("share", 0.0)
    permanent: float = option("share", 0.0)
    rate_limited: float = option("share", 0.0)
    retry_after_seconds: float = option("seconds", 60.0)
    service: Service | None = option(Service, None)

    def __post_init__(self) -> None:
        """Refuse shares that are more than the whole."""
        Checked.__post_init__(self)
        if self.retryable + self.permanent + self.rate_limited > 1 + 1e-12:
            raise InputError("retryable: expected shares of at most 1 together, found more")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget(Checked):
    """Tokens that retries need: a retry is allowed while more than ``floor`` are there."""

    initial: float = option("number", 0.0)
    most: float = option("number", math.inf)
    per_call: float = option("number", 0.0)
    per_success: float = option("number", 0.0)
    per_failure: float = option("number", 0.0)
    per_retry: float = option("number", 1.0)
    floor: float = option("number", 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries(Checked):
    """How a failed job is tried again: attempts with the first, the wait, and where it ends.

    After k failures the ceiling is v = min(cap, base * 2^k): exponential waits v, full jitter
    U(0, v), equal v/2 + U(0, v/2), decorrelated min(cap, U(base, 3 * previous wait)).
    """

    max_attempts: int = option("positive", 1)
    max_elapsed_seconds: float = option("seconds", math.inf)
    backoff: str = option(BACKOFFS, "none")
    base_seconds: float = option("seconds", 1.0)
    cap_seconds: float = option("seconds", 3600.0)
    budget: RetryBudget | None = option(RetryBudget, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Checked):
    """A time in which the class is not claimed, then a ramp in which its limit grows again."""

    start_seconds: float = option("seconds", 0.0)
    length_seconds: float = option("seconds")
    ramp_seconds: float = option("seconds", 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Checked):
    """Dead letters that come back beside live traffic, so many a second, so many at a time."""

    jobs: int = option("count")
    rate: float = option("rate")
    concurrency: int = option("positive", 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client(Checked):
    """A caller that waits so long and asks again; the earlier request is worked on in vain."""

    timeout_seconds: float = option("seconds")
    attempts: int = option("positive", 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass(Checked):
    """One class of jobs; a higher ``priority`` is claimed first, otherwise the oldest first.

    Parameters
    ----------
    backlog : int
        Jobs that wait when it starts, the oldest of them for ``backlog_age_seconds``.
    parked_seconds : tuple of float
        When each job that is parked at the start becomes claimable.
    tenants, tenant_concurrency : int
        Jobs are dealt to the tenants in turn; so many of one tenant run at a time.
    concurrency : int
        So many of the class run at a time.
    contention : bool
        Each attempt reads and writes one row with four trips of the service time, and is lost if
        another was written in between; a lost one counts as a retryable failure.
    """

    name: str = option("text", "jobs")
    backlog: int = option("count", 0)
    backlog_age_seconds: float = option("seconds", 0.0)
    parked_seconds: tuple[float, ...] = option("times", ())
    arrivals: Arrivals = option(Arrivals, Arrivals())
    service: Service = option(Service)
    failures: Failures = option(Failures, Failures())
    retries: Retries = option(Retries, Retries())
    priority: int = option("count", 0)
    tenants: int = option("positive", 1)
    tenant_concurrency: int = option("positive", 1_000_000)
    concurrency: int = option("positive", 1_000_000)
    pause: Pause | None = option(Pause, None)
    replay: Replay | None = option(Replay, None)
    client: Client | None = option(Client, None)
    contention: bool = option("flag", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Checked):
    """Calls that the upstream admits: a bucket of ``burst`` tokens, refilled at ``rate``.

    ``wait``: workers claim nothing without a token. ``reject``: the call is made, is refused
    after ``reject_seconds``, and the job comes back after the class's Retry-After.
    """

    rate: float = option("rate")
    burst: int = option("positive", 1)
    when_empty: str = option(("wait", "reject"), "wait")
    reject_seconds: float = option("seconds", 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage(Checked):
    """A time in which attempts that begin fail (after ``fails_after``), or none can begin."""

    start_seconds: float = option("seconds", 0.0)
    length_seconds: float = option("seconds")
    effect: str = option(("fail", "stall"), "fail")
    fails_after_seconds: float = option("seconds", math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Checked):
    """How long a job stays locked: since the claim, or since the last sign of its worker."""

    length_seconds: float = option("seconds")
    heartbeat: bool = option("flag", True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashes(Checked):
    """Workers that die at work, each at this rate, and come back after ``restart_seconds``."""

    rate: float = option("rate")
    restart_seconds: float = option("seconds", 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Checked):
    """One what-if: read it with `from_toml`, measure it with `from_snapshot`, or write it.

    Parameters
    ----------
    workers, concurrency : int
        Attempts that can run at a time, and a limit on them.
    horizon_seconds : float
        Where a run is given up: a queue not drained by then counts as never.
    run_to : str
        ``drained``, ``idle`` (no job is left anywhere) or ``horizon``.
    bucket_seconds : float
        Width of the time buckets of series; 0: a round one that makes at most 240.

    Notes
    -----
    Drained means: first found with no job claimable, and none of the starting backlog parked or
    still to be replayed, at the end of every pause and outage or later. Jobs in work do not
    count, and neither do parked retries of later jobs, of which a healthy queue has some always.
    """

    classes: tuple[JobClass, ...] = option((JobClass,))
    workers: int = option("count")
    concurrency: int = option("positive", 1_000_000)
    horizon_seconds: float = option("seconds", 86_400.0)
    run_to: str = option(("drained", "idle", "horizon"), "drained")
    bucket_seconds: float = option("seconds", 0.0)
    quota: Quota | None = option(Quota, None)
    outage: Outage | None = option(Outage, None)
    lease: Lease | None = option(Lease, None)
    crashes: Crashes | None = option(Crashes, None)

    def __post_init__(self) -> None:
        """Refuse what has no end or no sense."""
        Checked.__post_init__(self)
        if not 0 < self.horizon_seconds < math.inf:
            raise InputError("horizon: expected a duration above 0, found none")
        names = [kind.name for kind in self.classes]
        if not names or len(set(names)) < len(names):
            raise InputError("classes: expected at least one, each with a name of its own")
        if self.crashes and not self.lease:
            raise InputError("crashes: expected a lease too, found none: nobody would take over")

    @classmethod
    def from_toml(cls, source: str | Path) -> Scenario:
        """Read a scenario from a file (a Path) or a text (a str).

        Raises
        ------
        InputError
            If it is no TOML, has an unknown key, lacks one, or holds a value that cannot be.
        """
        return from_table(cls, read_toml(source))

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, **given: Any) -> Scenario:
        """Measure a scenario; see `jobplaybook.simulation.measured.measured_scenario`."""
        from jobplaybook.simulation.measured import measured_scenario

        return measured_scenario(snapshot, **given)

    @property
    def width_seconds(self) -> float:
        """Width of the time buckets."""
        if self.bucket_seconds:
            return self.bucket_seconds
        least = self.horizon_seconds / _MOST_BUCKETS
        return float(next((width for width in _WIDTHS if width >= least), least))

    @property
    def disturbed_until(self) -> float:
        """When the last pause or outage is over, seconds: nothing counts as drained before."""
        gaps = [self.outage, *(kind.pause for kind in self.classes)]
        ends = [gap.start_seconds + gap.length_seconds for gap in gaps if gap]
        return max(ends, default=0.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of what a run of this scenario has to understand."""
        named = {
            "more than one class": len(self.classes) > 1,
            f"run_to {self.run_to}": self.run_to != "drained",
            "concurrency": self.concurrency < self.workers,
            "quota": self.quota,
            "outage": self.outage,
            "leases": self.lease,
            "crashes": self.crashes,
        }
        for kind in self.classes:
            named |= _features(kind)
        return tuple(name for name, used in named.items() if used)


def _features(kind: JobClass) -> dict[str, Any]:
    retries, failures = kind.retries, kind.failures
    return {
        f"{kind.service.law} service": True,
        "recorded arrivals": kind.arrivals.trace_seconds,
        "cron bursts": kind.arrivals.burst,
        "parked jobs": kind.parked_seconds,
        "retryable failures": failures.retryable,
        "permanent failures": failures.permanent,
        "rate-limited failures": failures.rate_limited,
        "failed service": failures.service,
        "more than 50 attempts": retries.max_attempts > 50 and failures.retryable,
        "more than 100 M jobs": kind.backlog > 100_000_000,
        "backoff": retries.backoff != "none" and retries.max_attempts > 1,
        "max elapsed": retries.max_elapsed_seconds < math.inf,
        "retry budget": retries.budget,
        "tenant concurrency": kind.tenant_concurrency < 1_000_000,
        "class concurrency": kind.concurrency < 1_000_000,
        "pause": kind.pause,
        "replay": kind.replay,
        "client time-outs": kind.client,
        "contention": kind.contention,
    }
