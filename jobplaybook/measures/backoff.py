"""How long retries wait and last, and what runs twice where nobody renews a lease."""

from __future__ import annotations

import math

from jobplaybook.measures.checks import number, whole


def backoff_seconds(
    attempt: int, *, base_seconds: float, cap_seconds: float, jitter: str = "full"
) -> tuple[float, float]:
    """Range of the wait before a retry, seconds: its least and its most.

    Parameters
    ----------
    attempt : int
        k, the retry's number from 0.
    base_seconds, cap_seconds : float
        First ceiling, and the one that no wait passes, seconds.
    jitter : str
        ``none``, ``full``, ``equal`` or ``decorrelated`` (the ceiling triples instead).

    Returns
    -------
    tuple of (float, float)
        The wait is uniform between the two.

    Raises
    ------
    ValueError
        If a number is out of range or the jitter unknown.

    Notes
    -----
    v = min(cap, base*2^k). Full U(0, v); equal v/2 + U(0, v/2); decorrelated
    min(cap, U(base, 3*previous)), here with the largest previous wait.

    References
    ----------
    Brooker, Exponential backoff and jitter, AWS Architecture Blog (2015).

    Examples
    --------
    >>> backoff_seconds(3, base_seconds=1.0, cap_seconds=60.0)
    (0.0, 8.0)
    >>> backoff_seconds(9, base_seconds=1.0, cap_seconds=60.0, jitter="equal")
    (30.0, 60.0)
    """
    base, cap = number("base_seconds", base_seconds), number("cap_seconds", cap_seconds)
    growth = 3.0 if jitter == "decorrelated" else 2.0
    k = whole("attempt", attempt, low=0)
    # 2^1024 is no float: long before, the cap holds or the base is 0
    power = growth ** min(k + (jitter == "decorrelated"), 600)
    ceiling = min(cap, base * power)
    ranges = {
        "none": (ceiling, ceiling),
        "full": (0.0, ceiling),
        "equal": (ceiling / 2.0, ceiling),
        "decorrelated": (min(base, cap), ceiling),
    }
    if jitter not in ranges:
        raise ValueError(f"expected jitter to be one of {', '.join(ranges)}, found {jitter!r}")
    return ranges[jitter]


def retry_span_seconds(
    max_attempts: int, *, base_seconds: float, cap_seconds: float, jitter: str = "full"
) -> tuple[float, float]:
    """Range of the time from a job's first failure to its last attempt: mean and most, seconds.

    Parameters
    ----------
    max_attempts : int
        n, the attempts a job has, the first included.
    base_seconds, cap_seconds : float
        As `backoff_seconds`.
    jitter : str
        ``none``, ``full`` or ``equal``.

    Returns
    -------
    tuple of (float, float)
        An outage longer than the second leaves every job that met it dead.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Sum of the waits; the attempts themselves come on top.

    References
    ----------
    Brooker, Exponential backoff and jitter, AWS Architecture Blog (2015).

    Examples
    --------
    >>> retry_span_seconds(4, base_seconds=1.0, cap_seconds=60.0)  # up to 1 + 2 + 4
    (3.5, 7.0)
    """
    n = whole("max_attempts", max_attempts, low=1)
    waits = [
        backoff_seconds(k, base_seconds=base_seconds, cap_seconds=cap_seconds, jitter=jitter)
        for k in range(n - 1)
    ]
    return sum((low + high) / 2.0 for low, high in waits), sum(high for _, high in waits)


def lease_copies(run_seconds: float, *, lease_seconds: float) -> int:
    """Runs of one job at once where nobody renews its lease: floor(run/lease) + 1.

    Parameters
    ----------
    run_seconds : float
        How long a run takes, or how long the job is held before it runs, seconds.
    lease_seconds : float
        Lease (visibility timeout), seconds, above 0.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ValueError
        If a duration is out of range.

    Notes
    -----
    Assumes that a free worker takes the job as soon as its lease is over.

    References
    ----------
    Celery documentation, visibility timeout.

    Examples
    --------
    >>> lease_copies(5.5 * 3600, lease_seconds=3600.0)
    6
    """
    held = number("run_seconds", run_seconds)
    return math.floor(held / number("lease_seconds", lease_seconds, above_zero=True)) + 1
