"""What retrying multiplies to: layers, budgets, back-off, and when a load holds itself up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobplaybook.measures.capacity import attempts_per_job
from jobplaybook.measures.checks import number, share, whole


def layered_attempts(
    attempts: Sequence[int],
    *,
    failure_rate: float,
    budgets: Sequence[float | None] | None = None,
) -> float:
    """Expected calls a at the innermost layer for one request at the outermost.

    Parameters
    ----------
    attempts : sequence of int
        Attempts of each layer, the first included, outermost first.
    failure_rate : float
        p, the share of innermost calls that fail, from 0 to 1.
    budgets : sequence of (float or None), optional
        Retry budget r of each layer: retries per first attempt it allows; None: no budget.

    Returns
    -------
    float
        Calls per request.

    Raises
    ------
    ValueError
        If a number is out of range, or the two sequences differ in length.

    Notes
    -----
    Without budgets retrying layers telescope: N = n1*n2*..., a = (1 - p^N)/(1 - p), and N at
    p = 1. A budget holds its layer's factor at 1 + r or below; factors multiply. Assumes
    independent failures, so it is the mean before the load itself makes calls fail.

    References
    ----------
    Beyer et al., Site Reliability Engineering (2016), ch. 22; Brooker, Timeouts, retries and
    backoff with jitter (Amazon Builders' Library).

    Examples
    --------
    >>> layered_attempts([4, 4, 4], failure_rate=1.0), layered_attempts([3] * 5, failure_rate=1.0)
    (64.0, 243.0)
    >>> layered_attempts([4, 4], failure_rate=1.0, budgets=[0.1, None])
    4.4
    """
    return math.prod(own for own, _ in _layers(attempts, failure_rate, budgets))


def layered_exhausted_share(
    attempts: Sequence[int],
    *,
    failure_rate: float,
    budgets: Sequence[float | None] | None = None,
) -> float:
    """Share of requests at the outermost layer that fail after every retry, from 0 to 1.

    Parameters
    ----------
    attempts, failure_rate, budgets
        As `layered_attempts`.

    Returns
    -------
    float
        p^N without budgets; with one, a layer retries only the share of its failures it pays for.

    Raises
    ------
    ValueError
        If a number is out of range, or the two sequences differ in length.

    Notes
    -----
    Independent failures: far too small in an outage that outlasts the retries.

    References
    ----------
    Beyer et al., Site Reliability Engineering (2016), ch. 22.

    Examples
    --------
    >>> layered_exhausted_share([2, 2], failure_rate=0.5)
    0.0625
    >>> round(layered_exhausted_share([2], failure_rate=0.5, budgets=[0.25]), 9)  # half try again
    0.375
    """
    found = _layers(attempts, failure_rate, budgets)
    return found[-1][1] if found else share("failure_rate", failure_rate)


def _layers(
    attempts: Sequence[int], failure_rate: float, budgets: Sequence[float | None] | None
) -> list[tuple[float, float]]:
    """Return each layer's factor and the share that fails there in the end, innermost first."""
    p = share("failure_rate", failure_rate)
    caps = [None] * len(attempts) if budgets is None else budgets
    found = []
    for n, budget in reversed(list(zip(attempts, caps, strict=True))):
        own = attempts_per_job(p, max_attempts=whole("attempts", n, low=1))
        if budget is None or own <= 1.0 + number("budget", budget):
            p = p**n
        else:
            own = 1.0 + budget
            p = _refused(p, n, own)
        found.append((own, p))
    return found


def _refused(p: float, n: int, calls: float) -> float:
    """Return the share that fails where a budget grants retries just so often that calls result.

    Each retry is granted with the same probability g: calls = (1 - (gp)^n)/(1 - gp).
    """
    low, high = 0.0, p  # of gp
    for _ in range(60):
        again = (low + high) / 2.0
        if attempts_per_job(again, max_attempts=n) < calls:
            low = again
        else:
            high = again
    # the last attempt of all fails with p; the rest ended where a retry was refused
    return (p - low) * attempts_per_job(low, max_attempts=n - 1) + p * low ** (n - 1)


def budget_plateau(*, ratio: float, initial: float = 0.0, calls: float = math.inf) -> float:
    """Load factor at which a token-bucket retry budget holds a total outage, per first call.

    Parameters
    ----------
    ratio : float
        r, tokens that each first call deposits; a retry costs one.
    initial : float
        Tokens in the bucket at the start.
    calls : float
        First calls over which the load is averaged.

    Returns
    -------
    float
        1 + r + initial/calls.

    Raises
    ------
    ValueError
        If a number is negative, or ``calls`` is 0.

    Notes
    -----
    Exact while every call fails and retries are not limited otherwise.

    References
    ----------
    Brooker, Fixing retries with token buckets and circuit breakers (2022).

    Examples
    --------
    >>> budget_plateau(ratio=0.1), round(budget_plateau(ratio=0.1, initial=10, calls=1_000), 2)
    (1.1, 1.11)
    """
    calls = number("calls", calls, above_zero=True, finite=False)
    return 1.0 + number("ratio", ratio) + number("initial", initial) / calls


def budget_retries(calls: int, *, percent: float, least_rate: float, window_seconds: float) -> int:
    """Retries that a windowed budget allows for ``calls`` first calls.

    Parameters
    ----------
    calls : int
        First calls (deposits) inside the window.
    percent : float
        Retries per call, from 0 to 1.
    least_rate : float
        Retries per second that are always allowed.
    window_seconds : float
        How long a deposit lives, seconds.

    Returns
    -------
    int
        floor(calls*percent) + floor(least_rate*window).

    Raises
    ------
    ValueError
        If a number is negative.

    References
    ----------
    Twitter Finagle, RetryBudget.

    Examples
    --------
    >>> budget_retries(100, percent=0.2, least_rate=10, window_seconds=10.0)
    120
    """
    allowed = whole("calls", calls, low=0) * number("percent", percent)
    always = number("least_rate", least_rate) * number("window_seconds", window_seconds)
    return math.floor(allowed * (1 + 1e-12)) + math.floor(always * (1 + 1e-12))


def breaker_failure_share(*, per_failure: float, per_success: float) -> float:
    """Failure share above which a retry throttle that counts failures shuts off, from 0 to 1.

    Parameters
    ----------
    per_failure, per_success : float
        Tokens that a failure takes and a success gives back.

    Returns
    -------
    float
        per_success/(per_failure + per_success).

    Raises
    ------
    ValueError
        If a number is negative, or both are 0.

    Notes
    -----
    The drift of the bucket is zero there: below it the bucket fills, above it empties.

    References
    ----------
    gRPC proposal A6, client retries, throttling.

    Examples
    --------
    >>> round(breaker_failure_share(per_failure=1.0, per_success=0.1), 4)
    0.0909
    """
    gives = number("per_success", per_success)
    total = number("per_failure + per_success", per_failure + gives, above_zero=True)
    return gives / total


def throttle_rejection(requests: float, *, accepts: float, factor: float = 2.0) -> float:
    """Probability with which an adaptive client rejects its own next request, from 0 to 1.

    Parameters
    ----------
    requests, accepts : float
        Requests sent and accepted over the client's history of two minutes.
    factor : float
        K: requests that are let through per accepted one.

    Returns
    -------
    float
        max(0, (requests - K*accepts)/(requests + 1)).

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    References
    ----------
    Beyer et al., Site Reliability Engineering (2016), ch. 21, client-side throttling.

    Examples
    --------
    >>> throttle_rejection(99, accepts=0), throttle_rejection(99, accepts=50)
    (0.99, 0.0)
    """
    sent = number("requests", requests)
    passed = number("factor", factor) * number("accepts", accepts)
    return max(0.0, (sent - passed) / (sent + 1.0))


def is_metastable(arrival_rate: float, *, attempts: float, capacity_rate: float) -> bool:
    """Whether a load would stay up by its own retries once an outage has begun them.

    Parameters
    ----------
    arrival_rate : float
        λ, first calls per second.
    attempts : float
        Calls per request while all of them fail.
    capacity_rate : float
        Calls per second that the layer below can answer in time.

    Returns
    -------
    bool
        Whether λ*attempts > capacity.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Notes
    -----
    Vulnerable, not doomed: it takes a trigger. Assumes that callers do not slow down while they
    wait, and that work whose caller gave up is still done.

    References
    ----------
    Bronson et al., Metastable Failures in Distributed Systems, HotOS 2021.

    Examples
    --------
    >>> [is_metastable(rate, attempts=2.0, capacity_rate=300.0) for rate in (148.0, 152.0)]
    [False, True]
    """
    offered = number("arrival_rate", arrival_rate) * number("attempts", attempts)
    return offered > number("capacity_rate", capacity_rate)
