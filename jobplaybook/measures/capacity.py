"""What retries cost, and what workers and an upstream's quota can complete."""

from __future__ import annotations

import math

from jobplaybook.measures.checks import SAME, number, share, whole


def attempts_per_job(failure_rate: float, *, max_attempts: int) -> float:
    """Expected attempts a of one job, the first included; between 1 and ``max_attempts``.

    Parameters
    ----------
    failure_rate : float
        p, the share of attempts that fail, from 0 to 1.
    max_attempts : int
        n, the attempts a job has, the first included.

    Returns
    -------
    float
        a, attempts per job.

    Raises
    ------
    ValueError
        If ``failure_rate`` is not between 0 and 1, or ``max_attempts`` is not a whole number >= 1.

    Notes
    -----
    a = 1 + p + ... + p^(n-1) = (1 - p^n)/(1 - p), and n at p = 1. Assumes that attempts fail
    independently of each other; fails where a few poison jobs make all the failures (then most
    jobs need one attempt and those need n), and where p itself rises with the load.

    References
    ----------
    Beyer et al., Site Reliability Engineering (2016), ch. 22, Addressing Cascading Failures.

    Examples
    --------
    >>> round(attempts_per_job(0.2, max_attempts=3), 12)  # 1 + 0.2 + 0.04
    1.24
    >>> attempts_per_job(1.0, max_attempts=3)
    3.0
    """
    p = share("failure_rate", failure_rate)
    n = whole("max_attempts", max_attempts, low=1)
    if p in (0.0, 1.0):
        return 1.0 if p == 0.0 else float(n)
    # 1 - p^n loses its digits near p = 1; expm1 keeps them.
    return -math.expm1(n * math.log(p)) / (1.0 - p)


def exhausted_share(failure_rate: float, *, max_attempts: int) -> float:
    """Share of jobs that fail every attempt and end as dead letters, from 0 to 1.

    Parameters
    ----------
    failure_rate : float
        p, the share of attempts that fail, from 0 to 1.
    max_attempts : int
        n, the attempts a job has, the first included.

    Returns
    -------
    float
        p^n.

    Raises
    ------
    ValueError
        If ``failure_rate`` is not between 0 and 1, or ``max_attempts`` is not a whole number >= 1.

    Notes
    -----
    p^n assumes independent attempts: it is far too small while an upstream is down for longer
    than the retries last, because then all attempts of a job meet the same outage.

    References
    ----------
    Beyer et al., Site Reliability Engineering (2016), ch. 22, Addressing Cascading Failures.

    Examples
    --------
    >>> exhausted_share(0.5, max_attempts=4)  # three retries: success 0.9375
    0.0625
    """
    p = share("failure_rate", failure_rate)
    return float(p ** whole("max_attempts", max_attempts, low=1))


def worker_seconds_per_job(
    service_seconds: float,
    *,
    failure_rate: float = 0.0,
    max_attempts: int = 1,
    failed_service_seconds: float | None = None,
) -> float:
    """Expected time that one job holds a worker over all its attempts, in seconds.

    Parameters
    ----------
    service_seconds : float
        m, mean duration of an attempt that succeeds, seconds, above 0.
    failure_rate : float
        p, the share of attempts that fail, from 0 to 1.
    max_attempts : int
        n, the attempts a job has, the first included.
    failed_service_seconds : float or None
        Mean duration of an attempt that fails, seconds, above 0; None means ``service_seconds``.

    Returns
    -------
    float
        Worker seconds per job.

    Raises
    ------
    ValueError
        If a duration is not above 0, or ``failure_rate`` or ``max_attempts`` is out of range.

    Notes
    -----
    a*((1 - p)*m + p*m_f), with a from `attempts_per_job`. Assumes that an attempt's duration does
    not depend on its number, and that a job gives its worker back while it waits for its retry;
    fails where a worker sleeps through the backoff.

    References
    ----------
    Wald's equation: Ross, Introduction to Probability Models (11th ed., 2014), ch. 7.

    Examples
    --------
    >>> worker_seconds_per_job(2.0, failure_rate=0.5, max_attempts=2, failed_service_seconds=30.0)
    24.0
    """
    m = number("service_seconds", service_seconds, above_zero=True)
    failed = m if failed_service_seconds is None else failed_service_seconds
    m_failed = number("failed_service_seconds", failed, above_zero=True)
    a = attempts_per_job(failure_rate, max_attempts=max_attempts)
    return a * ((1.0 - failure_rate) * m + failure_rate * m_failed)


def completion_capacity(
    servers: int,
    *,
    service_seconds: float,
    failure_rate: float = 0.0,
    max_attempts: int = 1,
    failed_service_seconds: float | None = None,
    quota_rate: float = math.inf,
) -> float:
    """Jobs per second μ that leave a saturated queue, completed or dead.

    Parameters
    ----------
    servers : int
        c, concurrent workers, at least 1.
    service_seconds : float
        m, mean duration of an attempt that succeeds, seconds, above 0.
    failure_rate : float
        p, the share of attempts that fail, from 0 to 1.
    max_attempts : int
        n, the attempts a job has, the first included.
    failed_service_seconds : float or None
        Mean duration of an attempt that fails, seconds, above 0; None means ``service_seconds``.
    quota_rate : float
        q, the calls per second that the upstream admits, one per attempt; ``math.inf`` for none.

    Returns
    -------
    float
        μ, jobs per second.

    Raises
    ------
    ValueError
        If ``servers`` < 1, a duration is not above 0, or a rate or share is out of range.

    Notes
    -----
    μ = min(c/m, q)/a, or min(c/(worker seconds per job), q/a) where failed attempts take another
    time (time-outs long, refusals short). Assumes that workers are always busy, that they share
    nothing that slows them down (a database, a lock), and that calls above the quota wait instead
    of failing: where they fail, they burn attempts and p rises.

    References
    ----------
    Harchol-Balter, Performance Modeling and Design of Computer Systems (2013), ch. 6.

    Examples
    --------
    >>> completion_capacity(20, service_seconds=5.0)
    4.0
    >>> round(completion_capacity(20, service_seconds=5.0, failure_rate=0.2, max_attempts=3), 4)
    3.2258
    >>> completion_capacity(20, service_seconds=5.0, quota_rate=2.5)
    2.5
    """
    held = worker_seconds_per_job(
        service_seconds,
        failure_rate=failure_rate,
        max_attempts=max_attempts,
        failed_service_seconds=failed_service_seconds,
    )
    a = attempts_per_job(failure_rate, max_attempts=max_attempts)
    quota = number("quota_rate", quota_rate, finite=False)
    return min(whole("servers", servers, low=1) / held, quota / a)


def needed_workers(
    completion_rate: float,
    *,
    service_seconds: float,
    failure_rate: float = 0.0,
    max_attempts: int = 1,
    failed_service_seconds: float | None = None,
    quota_rate: float = math.inf,
) -> float:
    """Fewest workers c whose capacity reaches ``completion_rate``; ``math.inf`` if none do.

    Parameters
    ----------
    completion_rate : float
        Jobs per second that must leave the queue, completed or dead.
    service_seconds : float
        m, mean duration of an attempt that succeeds, seconds, above 0.
    failure_rate : float
        p, the share of attempts that fail, from 0 to 1.
    max_attempts : int
        n, the attempts a job has, the first included.
    failed_service_seconds : float or None
        Mean duration of an attempt that fails, seconds, above 0; None means ``service_seconds``.
    quota_rate : float
        q, the calls per second that the upstream admits, one per attempt; ``math.inf`` for none.

    Returns
    -------
    float
        A whole number, or ``math.inf`` where the quota admits fewer calls than are needed.

    Raises
    ------
    ValueError
        If a rate is negative, a duration is not above 0, or a share is out of range.

    Notes
    -----
    ceil(rate * worker seconds per job). By Little's law q*m workers use a quota up: more of them
    only produce refusals. Fails where a shared database slows every worker down as they multiply.

    References
    ----------
    Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961.

    Examples
    --------
    >>> needed_workers(1.5, service_seconds=5.0)
    8
    >>> needed_workers(1.5, service_seconds=5.0, quota_rate=1.0)
    inf
    """
    rate = number("completion_rate", completion_rate)
    held = worker_seconds_per_job(
        service_seconds,
        failure_rate=failure_rate,
        max_attempts=max_attempts,
        failed_service_seconds=failed_service_seconds,
    )
    calls = rate * attempts_per_job(failure_rate, max_attempts=max_attempts)
    busy = rate * held * (1 - SAME)  # rounding must not ask for one worker more
    beyond_quota = calls * (1 - SAME) > number("quota_rate", quota_rate, finite=False)
    return math.inf if beyond_quota or busy == math.inf else math.ceil(busy)


def quota_concurrency(quota_rate: float, *, service_seconds: float) -> float:
    """Concurrent calls q*m that just use a quota up; more of them are only refused.

    Parameters
    ----------
    quota_rate : float
        q, calls per second that the upstream admits.
    service_seconds : float
        m, mean duration of a call, seconds, above 0.

    Returns
    -------
    float
        Calls at the same time; round down for a limit.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Little's law for the calls in flight. Fails where the quota counts in fixed windows: then a
    burst at a window's edge is refused although the mean fits.

    References
    ----------
    Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961.

    Examples
    --------
    >>> quota_concurrency(2.5, service_seconds=4.0)
    10.0
    """
    calls = number("quota_rate", quota_rate)
    return calls * number("service_seconds", service_seconds, above_zero=True)
