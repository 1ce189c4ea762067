"""What retrying layers multiply a failure to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobplaybook import measures
from jobplaybook.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLayer:
    """One layer that retries: its attempts, the first included, and its retry budget if any."""

    name: str
    attempts: int
    budget: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """Calls that reach the innermost service for one request.

    Parameters
    ----------
    expected : float
        At the given failure rate, calls per request.
    worst_case : float
        While everything fails, calls per request.
    exhausted_share : float
        Share of requests that fail in the end.
    metastable : bool or None
        Whether the load would hold itself up after an outage; None: no arrivals or no capacity
        were given.
    """

    layers: tuple[RetryLayer, ...]
    failure_rate: float
    expected: float
    worst_case: float
    exhausted_share: float
    metastable: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``estimate amplification --json``."""
        return {
            "expected": self.expected,
            "worst_case": self.worst_case,
            "layers": [asdict(layer) for layer in self.layers],
            "exhausted_share": self.exhausted_share,
            "metastable": self.metastable,
            "failure_rate": self.failure_rate,
        }

    def __str__(self) -> str:
        """Return the answer for people."""
        said = [
            f"{self.expected:.3g} calls for one request at {self.failure_rate:.3g} failing, "
            f"{self.worst_case:.4g} while everything fails",
            f"{self.exhausted_share * 100:.3g} % of the requests fail in the end.",
        ]
        if self.metastable is not None:
            said.append(
                "Metastable: once an outage has begun, the retries alone keep the service down. "
                "Give the outermost layer a retry budget, or hold arrivals back until it is over."
                if self.metastable
                else "Not metastable: with everything failing the calls still fit the capacity."
            )
        return "\n".join(said)


def amplification(
    layers: Sequence[RetryLayer],
    *,
    failure_rate: float,
    arrival_rate: float | None = None,
    capacity_rate: float | None = None,
) -> Amplification:
    """Estimate what layers that each retry multiply one request to.

    Parameters
    ----------
    layers : sequence of RetryLayer
        Outermost first.
    failure_rate : float
        p, the share of innermost calls that fail, from 0 to 1.
    arrival_rate, capacity_rate : float, optional
        Requests per second from outside, and calls per second that the innermost service can
        answer; together they tell whether the load is metastable.

    Raises
    ------
    InputError
        If there is no layer, only one of the two rates, or a number is out of range.

    Examples
    --------
    >>> layers = [RetryLayer(name=name, attempts=4) for name in ("browser", "web", "jobs")]
    >>> amplification(layers, failure_rate=1.0).worst_case
    64.0
    """
    if not layers:
        raise InputError("expected at least one layer, such as worker=3, found none")
    if (arrival_rate is None) != (capacity_rate is None):
        raise InputError("expected an arrival rate and a capacity together, found one of them")
    attempts = [layer.attempts for layer in layers]
    budgets = [layer.budget for layer in layers]
    try:
        expected = measures.layered_attempts(attempts, failure_rate=failure_rate, budgets=budgets)
        worst = measures.layered_attempts(attempts, failure_rate=1.0, budgets=budgets)
        return Amplification(
            layers=tuple(layers),
            failure_rate=failure_rate,
            expected=expected,
            worst_case=worst,
            exhausted_share=measures.layered_exhausted_share(
                attempts, failure_rate=failure_rate, budgets=budgets
            ),
            metastable=None
            if arrival_rate is None or capacity_rate is None
            else measures.is_metastable(arrival_rate, attempts=worst, capacity_rate=capacity_rate),
        )
    except (ValueError, OverflowError) as problem:
        raise InputError(str(problem)) from None


def exhausted_after(outage_seconds: float, *, elapsed_seconds: float, arrival_rate: float) -> float:
    """Dead letters to expect from an outage that outlasts the retries, jobs.

    Parameters
    ----------
    outage_seconds : float
        How long everything fails, seconds.
    elapsed_seconds : float
        How long a job is retried from its first failure on, seconds.
    arrival_rate : float
        λ, new jobs per second.

    Notes
    -----
    λ*max(0, outage - elapsed): every job whose first and last attempt lie inside the outage.

    Examples
    --------
    >>> exhausted_after(97 * 60, elapsed_seconds=600, arrival_rate=2.0)
    10440.0
    """
    return arrival_rate * max(outage_seconds - elapsed_seconds, 0.0)
