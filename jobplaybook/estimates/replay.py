"""How long a throttled replay takes beside live traffic, and how much of it may run at once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from jobplaybook import measures
from jobplaybook.errors import InputError
from jobplaybook.estimates.inputs import Spread, rate_text
from jobplaybook.units import count_text, duration_text

BATCH_SECONDS = 60.0
"""A batch that nobody chose is what a minute replays: small enough to look at before the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayEstimate:
    """The length and the safe size of a replay.

    Parameters
    ----------
    seconds : Spread
        Time until the last call begins, seconds; ``math.inf`` where live traffic needs it all.
    safe_concurrency : int
        Calls at the same time; 0 where nothing may be replayed.
    batch : int
        Jobs to hand over at once.
    rate : float
        Replayed jobs per second.
    share_left_for_live : float
        Share of the quota that the replay leaves alone, from 0 to 1.
    """

    jobs: int
    quota_rate: float
    live_rate: float
    service_seconds: float
    seconds: Spread
    safe_concurrency: int
    batch: int
    rate: float
    share_left_for_live: float

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``estimate replay --json``; infinite becomes None."""
        seconds = {
            name: None if value == math.inf else value
            for name, value in asdict(self.seconds).items()
        }
        return {
            "seconds": seconds,
            "safe_concurrency": self.safe_concurrency,
            "batch": self.batch,
            "rate": self.rate,
            "share_left_for_live": self.share_left_for_live,
            "text": self.text,
        }

    @property
    def text(self) -> str:
        """The answer in words."""
        if self.rate == 0 and self.jobs:
            return (
                f"never at this rate: live traffic of {rate_text(self.live_rate)} uses the whole "
                f"quota of {rate_text(self.quota_rate)}"
            )
        return duration_text(self.seconds.mean or 0.0)

    def __str__(self) -> str:
        """Return the answer for people."""
        if self.rate == 0 and self.jobs:
            return f"{self.text}\nNext: wait for a quiet hour, or ask for a higher quota."
        low, high = self.seconds.p5 or 0.0, self.seconds.p95 or 0.0
        return (
            f"{self.text} for {count_text(self.jobs, 'job')} at {rate_text(self.rate)} "
            f"({duration_text(low)} to {duration_text(high)}); the last call ends "
            f"{duration_text(self.service_seconds)} later\n"
            f"At most {count_text(self.safe_concurrency, 'call')} at the same time, "
            f"{count_text(self.batch, 'job')} a batch; "
            f"{self.share_left_for_live:.0%} of the quota stays with live traffic."
        )


def estimate_replay(
    *,
    jobs: int,
    quota_rate: float,
    live_rate: float = 0.0,
    service_seconds: float = 1.0,
    batch: int | None = None,
    lease_seconds: float | None = None,
) -> ReplayEstimate:
    """Estimate a replay that takes only what live traffic leaves of a quota.

    Parameters
    ----------
    jobs : int
        N, jobs to replay.
    quota_rate : float
        q, calls per second that the upstream admits, above 0.
    live_rate : float
        Calls per second of live traffic, which goes first.
    service_seconds : float
        m, mean duration of a call, seconds.
    batch : int, optional
        Jobs to hand over at once; by default what `BATCH_SECONDS` replay.
    lease_seconds : float, optional
        How long a batch stays locked, seconds: no larger batch than ends in that time, the last
        call included.

    Raises
    ------
    InputError
        If a number is out of range.

    Notes
    -----
    The replay is a backlog that drains through the quota: N/(q - live), with the spread that
    Poisson live traffic gives it. By Little's law rate*m calls are in flight; more of them are
    only refused and burn attempts.

    References
    ----------
    Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961.

    Examples
    --------
    >>> replay = estimate_replay(jobs=1_000, quota_rate=5.0, live_rate=3.0, service_seconds=4.0)
    >>> replay.seconds.mean, replay.safe_concurrency, replay.batch, replay.share_left_for_live
    (500.0, 8, 120, 0.6)
    """
    try:
        measures.quota_concurrency(quota_rate, service_seconds=service_seconds)
        rate = max(measures.net_rate(quota_rate, arrival_rate=live_rate), 0.0)
        if quota_rate <= 0 or jobs < 0 or (batch is not None and batch < 1):
            raise ValueError(
                "expected a quota above 0, jobs of at least 0 and a batch of at least 1"
            )
        seconds = _seconds(jobs, quota_rate, live_rate, rate)
    except (ValueError, OverflowError) as problem:
        raise InputError(str(problem)) from None
    size = max(int(rate * BATCH_SECONDS), 1) if batch is None else batch
    if lease_seconds is not None:
        if lease_seconds <= service_seconds:
            raise InputError(
                f"expected a lease longer than a call of {duration_text(service_seconds)}, found "
                f"{duration_text(lease_seconds)}: no batch ends in it, jobs would run twice"
            )
        size = max(min(size, int(rate * (lease_seconds - service_seconds))), 1)
    return ReplayEstimate(
        jobs=jobs,
        quota_rate=quota_rate,
        live_rate=live_rate,
        service_seconds=service_seconds,
        seconds=seconds,
        safe_concurrency=min(max(int(rate * service_seconds * (1 + 1e-12)), 1), jobs)
        if rate
        else 0,
        batch=min(size, jobs) if rate else 0,
        rate=rate,
        share_left_for_live=1.0 - rate / quota_rate,
    )


def _seconds(jobs: int, quota: float, live: float, rate: float) -> Spread:
    if not jobs:
        return Spread(mean=0.0, p5=0.0, p50=0.0, p95=0.0)
    if not rate:
        return Spread(mean=math.inf, p5=math.inf, p50=math.inf, p95=math.inf)
    mean = jobs / rate
    sd = measures.drain_sd_seconds(jobs, arrival_rate=live, completion_rate=quota, job_cv2=0.0)
    p5, p50, p95 = (measures.drain_quantile(q, mean=mean, sd=sd) for q in (0.05, 0.5, 0.95))
    return Spread(mean=mean, p5=p5, p50=p50, p95=p95)
