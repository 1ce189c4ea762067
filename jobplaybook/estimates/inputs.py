"""What a drain is estimated from, as it was given, and the spread of a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobplaybook import measures
from jobplaybook.errors import InputError

SEED = 20_261_201
"""The seed where none is given: the same question has the same answer."""
_UNITS = ((1, "s"), (60, "min"), (3_600, "h"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A time in seconds: its mean and percentiles, ``math.inf`` for never, None where unknown."""

    mean: float | None
    p5: float | None = None
    p50: float | None = None
    p95: float | None = None

    @classmethod
    def of(cls, draws: Sequence[float]) -> Spread:
        """Return the spread of draws; no mean once some never end, no p95 past a twentieth.

        Examples
        --------
        >>> Spread.of([1.0] * 10 + [3.0] * 10)
        Spread(mean=2.0, p5=1.0, p50=3.0, p95=3.0)
        >>> Spread.of([1.0] * 18 + [math.inf] * 2)
        Spread(mean=inf, p5=1.0, p50=1.0, p95=inf)
        """
        ordered = sorted(draws)
        p5, p50, p95 = (ordered[int(len(ordered) * share)] for share in (0.05, 0.5, 0.95))
        mean = math.fsum(ordered) / len(ordered) if ordered[-1] < math.inf else math.inf
        return cls(mean=mean, p5=p5, p50=p50, p95=p95)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInputs:
    """What is known of the queue, as it was given; see `estimate_drain` for each."""

    backlog: int
    arrival_rate: float
    completion_rate: float | None = None
    servers: int | None = None
    service_seconds: float | None = None
    service_cv: float = 1.0
    failure_rate: float | None = None
    failed_service_seconds: float | None = None
    max_attempts: int = 1
    quota_rate: float | None = None
    observed_seconds: float | None = None
    completions_seen: int | None = None
    failures_seen: tuple[int, int] | None = None
    by_seconds: float | None = None
    limit: int | None = None
    seed: int = SEED

    def __post_init__(self) -> None:
        """Refuse a question that has two answers or none, and what would be ignored."""
        given = self.completion_rate is not None
        if given == (self.servers is not None):
            found = "both" if given else "neither"
            raise InputError(
                "expected either a completion rate, or workers with their service time,"
                f" found {found}"
            )
        if given and self.quota_rate is not None:
            raise InputError(
                "expected no quota beside a completion rate: a quota caps what workers could do,"
                " give the workers and their service time instead"
            )
        retries = bool(self.failure_rate) or self.max_attempts != 1 or self.failures_seen
        if self.service_seconds is None and (
            self.servers is not None or retries or self.failed_service_seconds is not None
        ):
            raise InputError(
                "expected a service time beside workers, failures or attempts, found none;"
                " a completion rate alone counts retries already"
            )
        self._check_failures()

    def _check_failures(self) -> None:
        if self.failures_seen is None:
            return
        failed, ended = self.failures_seen
        if not 0 <= failed <= ended or ended < 1:
            raise InputError(
                f"expected failures seen as K/N with K of N attempts, found {failed}/{ended}"
            )
        if self.failure_rate is not None and abs(self.failure_rate - failed / ended) > 0.01:
            raise InputError(
                f"expected the failure rate to be that of the failures seen, found "
                f"{self.failure_rate:g} and {failed}/{ended}: give one of them"
            )

    @property
    def failed_share(self) -> float:
        """The share p of attempts that fail, as given or as seen."""
        if self.failure_rate is not None:
            return self.failure_rate
        return self.failures_seen[0] / self.failures_seen[1] if self.failures_seen else 0.0

    @property
    def is_known(self) -> bool:
        """Whether the inputs are taken as exact: nothing is said of how they were seen."""
        seen = (self.observed_seconds, self.completions_seen, self.failures_seen)
        return all(value is None for value in seen)

    def capacity(self) -> float:
        """Jobs per second that leave the queue while it is saturated, given or derived."""
        if self.completion_rate is not None:
            return self.completion_rate
        return measures.completion_capacity(self.servers or 0, **self.work())

    def workers_for(self, completion_rate: float) -> float | None:
        """Fewest workers for a rate; None where the service time is unknown."""
        if self.service_seconds is None:
            return None
        return measures.needed_workers(completion_rate, **self.work())

    def work(self) -> dict[str, Any]:
        """Return what describes a job's work, as the closed forms take it."""
        return {
            "service_seconds": self.service_seconds,
            "failure_rate": self.failed_share,
            "max_attempts": self.max_attempts,
            "failed_service_seconds": self.failed_service_seconds,
            "quota_rate": math.inf if self.quota_rate is None else self.quota_rate,
        }

    def job_cv2(self) -> float:
        """Squared CV of one job's worker time; 0 where the quota sets the pace."""
        if self.service_seconds is None:
            return self.service_cv**2
        work = self.work()
        quota = work.pop("quota_rate")
        if quota < math.inf and self.capacity() < measures.completion_capacity(
            self.servers or 1, **work
        ):
            return 0.0
        return measures.work_cv2(service_cv=self.service_cv, **work)

    def waits_behind(self) -> float:
        """Jobs that have to be taken before none waits: idle workers take the first at once."""
        return float(max(self.backlog - (self.servers or 0), 0))


def rate_text(rate: float) -> str:
    """Return a rate for people, in the unit that gives it sensible digits.

    Examples
    --------
    >>> rate_text(20 / 60), rate_text(2.71), rate_text(33_000), rate_text(0)
    ('20/min', '2.71/s', '33,000/s', '0')
    """
    if rate == 0:
        return "0"
    per, unit = next(
        ((rate * size, unit) for size, unit in _UNITS if abs(rate) * size >= 0.9995),
        (rate * 86_400, "d"),
    )
    return f"{per:,.0f}/{unit}" if abs(per) >= 999.5 else f"{per:.3g}/{unit}"
