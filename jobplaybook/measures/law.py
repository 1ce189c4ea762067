"""The law of the drain time: its spread for known rates, and the inverse Gaussian it follows."""

from __future__ import annotations

import math
import random

from jobplaybook.measures.capacity import attempts_per_job, exhausted_share, worker_seconds_per_job
from jobplaybook.measures.checks import number

# From here on exp(x) overflows, long after the term it belongs to has vanished.
_MOST_EXPONENT = 700.0


def work_cv2(
    *,
    failure_rate: float = 0.0,
    max_attempts: int = 1,
    service_seconds: float = 1.0,
    failed_service_seconds: float | None = None,
    service_cv: float = 1.0,
) -> float:
    """Squared coefficient of variation cvJ2 of the worker time of one job over all its attempts.

    Parameters
    ----------
    failure_rate : float
        p, the share of attempts that fail, from 0 to 1.
    max_attempts : int
        n, the attempts a job has, the first included.
    service_seconds : float
        m, mean duration of an attempt that succeeds, seconds.
    failed_service_seconds : float or None
        Mean duration of an attempt that fails, seconds; None means ``service_seconds``.
    service_cv : float
        Coefficient of variation of one attempt's duration: 1 for exponential, 0 for constant.

    Returns
    -------
    float
        cvJ2, without unit.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    (a*cv2 + Var G)/a^2 for G attempts of equal mean, E[G^2] = sum over k = 1..n of
    (2k - 1)p^(k-1). Where failed attempts take another time, G - S of them do (S: the job
    succeeds). Assumes independent attempts; a poison job that always fails makes it larger.

    References
    ----------
    Ross, Introduction to Probability Models (11th ed., 2014), ch. 3, compound random variables.

    Examples
    --------
    One attempt is the service itself; two always failing ones halve it:

    >>> work_cv2(), work_cv2(failure_rate=1.0, max_attempts=2)
    (1.0, 0.5)
    """
    cv2 = number("service_cv", service_cv) ** 2
    mean = worker_seconds_per_job(
        service_seconds,
        failure_rate=failure_rate,
        max_attempts=max_attempts,
        failed_service_seconds=failed_service_seconds,
    )
    failed = service_seconds if failed_service_seconds is None else failed_service_seconds
    a = attempts_per_job(failure_rate, max_attempts=max_attempts)
    dead = exhausted_share(failure_rate, max_attempts=max_attempts)
    var_attempts = max(_attempts_squared(failure_rate, max_attempts, a) - a * a, 0.0)
    # S is 0 exactly where the last of n attempts fails: E[GS] = a - n p^n
    together = (a - max_attempts * dead) - a * (1.0 - dead)
    extra = service_seconds - failed
    within = cv2 * ((a - (1.0 - dead)) * failed**2 + (1.0 - dead) * service_seconds**2)
    between = (
        failed**2 * var_attempts + extra**2 * dead * (1.0 - dead) + 2.0 * failed * extra * together
    )
    return (within + max(between, 0.0)) / mean**2


def _attempts_squared(p: float, n: int, a: float) -> float:
    """Return E[G^2], the sum over k = 1..n of (2k - 1)p^(k-1)."""
    if p == 1.0:
        return float(n) ** 2
    if 1.0 - p > 1e-3:
        weighted = (1.0 - (n + 1) * p**n + n * p ** (n + 1)) / (1.0 - p) ** 2
        return 2.0 * weighted - a
    total, power = 0.0, 1.0
    for k in range(1, n + 1):
        total += (2 * k - 1) * power
        power *= p
    return total


def drain_sd_seconds(
    backlog: float,
    *,
    arrival_rate: float,
    completion_rate: float,
    arrival_cv2: float = 1.0,
    job_cv2: float = 1.0,
) -> float:
    """Standard deviation of the drain time for known rates, seconds; ``math.inf`` if it never ends.

    Parameters
    ----------
    backlog : float
        B, jobs waiting now; without those that idle workers take at once.
    arrival_rate, completion_rate : float
        λ and μ, jobs per second.
    arrival_cv2 : float
        Squared coefficient of variation of the times between arrivals: 1 for Poisson.
    job_cv2 : float
        cvJ2 of `work_cv2`; 0 where a quota sets the pace.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Notes
    -----
    sqrt(B*s2/nu^3) with s2 = λ*cA2 + μ*cvJ2 and nu = μ - λ. Assumes constant, known rates: where
    they are only estimated, theirs is the larger part of the uncertainty by far.

    References
    ----------
    Cox and Miller, The Theory of Stochastic Processes (1965), sec. 5.7, first passage times.

    Examples
    --------
    >>> drain_sd_seconds(100, arrival_rate=0.0, completion_rate=1.0)
    10.0
    """
    waiting = number("backlog", backlog)
    into, out = number("arrival_rate", arrival_rate), number("completion_rate", completion_rate)
    net = out - into
    if net <= 0:
        return math.inf if waiting else 0.0
    s2 = into * number("arrival_cv2", arrival_cv2) + out * number("job_cv2", job_cv2)
    return math.sqrt(waiting * s2 / net**3)


def drain_cdf(seconds: float, *, mean: float, sd: float) -> float:
    """Probability that a drain of this mean and spread is over after ``seconds``.

    Parameters
    ----------
    seconds : float
        t, seconds.
    mean, sd : float
        The drain's mean M and standard deviation, seconds.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Notes
    -----
    Inverse Gaussian with mean M and shape M^3/sd^2, the first passage of a Brownian motion with
    drift: exact in the limit of many jobs, rough below about twenty.

    References
    ----------
    Chhikara and Folks, The Inverse Gaussian Distribution (1989), ch. 2.

    Examples
    --------
    >>> round(drain_cdf(100.0, mean=100.0, sd=10.0), 4)  # a little above a half: skewed
    0.5199
    """
    t, m, s = number("seconds", seconds), number("mean", mean), number("sd", sd)
    if t == 0 or s == 0 or m == 0:
        return 1.0 if t >= m else 0.0
    shape = m**3 / s**2
    root = math.sqrt(shape / t)
    mirrored = 2.0 * shape / m
    upper = root * (t / m + 1.0)
    tail = 0.0
    if mirrored < _MOST_EXPONENT:
        tail = math.exp(mirrored) * _normal_cdf(-upper)
    else:
        # exp(x) * Phi(-u), u large, by Mills' ratio: the exponents cancel before they overflow
        tail = math.exp(mirrored - upper**2 / 2.0) / (upper * math.sqrt(2.0 * math.pi))
    return min(_normal_cdf(root * (t / m - 1.0)) + tail, 1.0)


def drain_quantile(share: float, *, mean: float, sd: float) -> float:
    """Seconds after which a drain of this mean and spread is over with probability ``share``.

    Parameters
    ----------
    share : float
        From 0 to 1, both excluded.
    mean, sd : float
        The drain's mean and standard deviation, seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If ``share`` is not inside (0, 1), or a number is negative or not finite.

    Notes
    -----
    The inverse of `drain_cdf`, by bisection to ten digits.

    References
    ----------
    Chhikara and Folks, The Inverse Gaussian Distribution (1989), ch. 2.

    Examples
    --------
    >>> [round(drain_quantile(q, mean=8_141.6, sd=167.1)) for q in (0.05, 0.5, 0.95)]
    [7870, 8140, 8419]
    """
    if not 0 < share < 1:
        raise ValueError(f"expected share to be between 0 and 1, found {share!r}")
    if number("sd", sd) == 0 or number("mean", mean) == 0:
        return mean
    low, high = 0.0, mean
    while drain_cdf(high, mean=mean, sd=sd) < share:
        low, high = high, 2.0 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        if drain_cdf(middle, mean=mean, sd=sd) < share:
            low = middle
        else:
            high = middle
    return high


def drain_draw(rng: random.Random, *, mean: float, sd: float) -> float:
    """Draw one drain time of this mean and spread, seconds.

    Parameters
    ----------
    rng : random.Random
        The randomness.
    mean, sd : float
        The drain's mean and standard deviation, seconds.

    Returns
    -------
    float
        Seconds.

    Notes
    -----
    One normal and one uniform number: the smaller root of a quadratic, or its mirror image.

    References
    ----------
    Michael, Schucany and Haas, The American Statistician 30(2), 1976.

    Examples
    --------
    >>> drain_draw(random.Random(1), mean=60.0, sd=0.0)
    60.0
    """
    if sd == 0 or mean == 0:
        return mean
    ratio = (sd / mean) ** 2  # mean/shape
    y = rng.gauss(0.0, 1.0) ** 2 * ratio
    root = 1.0 + y / 2.0 - math.sqrt(y * (4.0 + y)) / 2.0
    return mean * root if rng.random() <= 1.0 / (1.0 + root) else mean / root


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2.0)) / 2.0
