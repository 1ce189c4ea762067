"""Waiting in a queue in balance, and Little's law as a check of the counts."""

from __future__ import annotations

import math

from jobplaybook.measures.checks import number, whole


def little_residual(jobs_in_system: float, *, arrival_rate: float, sojourn_seconds: float) -> float:
    """Little's residual L - λW in jobs: how far the counts and the times disagree.

    Parameters
    ----------
    jobs_in_system : float
        L, time average over the window of the jobs waiting and in work.
    arrival_rate : float
        λ, jobs that arrived in the window over its length, per second.
    sojourn_seconds : float
        W, mean time from arrival to the end of the jobs that arrived in the window, seconds.

    Returns
    -------
    float
        Jobs; 0 for a window that starts and ends empty.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Notes
    -----
    Exact, without any assumption on the arrivals, but for the jobs that lie over an edge of the
    window: abs(L - λW) <= (job seconds that these spend outside or before it)/(window length).
    More than that means that rows are missing or times are wrong.

    References
    ----------
    Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961.

    Examples
    --------
    >>> little_residual(6.0, arrival_rate=2.0, sojourn_seconds=2.5)
    1.0
    """
    average = number("jobs_in_system", jobs_in_system)
    into = number("arrival_rate", arrival_rate)
    return average - into * number("sojourn_seconds", sojourn_seconds)


def erlang_c(servers: int, *, offered: float) -> float:
    """Probability C that an arriving job has to wait, in an M/M/c queue.

    Parameters
    ----------
    servers : int
        c, concurrent workers, at least 1.
    offered : float
        A = λm, the offered load in erlangs: the workers that arrivals keep busy.

    Returns
    -------
    float
        C, from 0 to 1; 1.0 at and above A = c, where the queue grows without end.

    Raises
    ------
    ValueError
        If ``servers`` < 1, or ``offered`` is negative or not finite.

    Notes
    -----
    B_k = A*B_(k-1)/(k + A*B_(k-1)) from B_0 = 1, then C = B/(1 - rho(1 - B)) with rho = A/c.
    Assumes Poisson arrivals, exponential service and patience without end; fails for arrivals in
    batches, as a schedule makes them. Takes c steps.

    References
    ----------
    Cooper, Introduction to Queueing Theory (2nd ed., 1981), ch. 3, blocked customers delayed.

    Examples
    --------
    >>> erlang_c(1, offered=0.75)  # one server: rho
    0.75
    >>> round(erlang_c(2, offered=1.0), 12)
    0.333333333333
    """
    c = whole("servers", servers, low=1)
    load = number("offered", offered)
    if load >= c:
        return 1.0
    blocked = 1.0
    for k in range(1, c + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked / (1.0 - load / c * (1.0 - blocked))


def mean_wait(servers: int, *, arrival_rate: float, service_seconds: float) -> float:
    """Mean waiting time W_q in an M/M/c queue, in seconds; ``math.inf`` when λm >= c.

    Parameters
    ----------
    servers : int
        c, concurrent workers, at least 1.
    arrival_rate : float
        λ, new jobs per second.
    service_seconds : float
        m, mean duration of an attempt, seconds, above 0.

    Returns
    -------
    float
        Seconds from arrival to the start of the service.

    Raises
    ------
    ValueError
        If ``servers`` < 1, ``arrival_rate`` is negative or ``service_seconds`` is not above 0.

    Notes
    -----
    W_q = C*m/(c(1 - rho)), C from `erlang_c`. For a queue in balance, not for one with a backlog:
    there a job waits its turn, Q/μ.

    References
    ----------
    Cooper, Introduction to Queueing Theory (2nd ed., 1981), ch. 3, blocked customers delayed.

    Examples
    --------
    >>> mean_wait(1, arrival_rate=0.75, service_seconds=1.0)  # 0.75/(1 - 0.75)
    3.0
    """
    m = number("service_seconds", service_seconds, above_zero=True)
    load = number("arrival_rate", arrival_rate) * m
    waits = erlang_c(servers, offered=load)
    return waits * m / (servers - load) if load < servers else math.inf


def wait_tail(
    seconds: float, *, servers: int, arrival_rate: float, service_seconds: float
) -> float:
    """Probability P(W_q > t) that a job waits longer than ``seconds``, in an M/M/c queue.

    Parameters
    ----------
    seconds : float
        t, seconds.
    servers : int
        c, concurrent workers, at least 1.
    arrival_rate : float
        λ, new jobs per second.
    service_seconds : float
        m, mean duration of an attempt, seconds, above 0.

    Returns
    -------
    float
        From 0 to 1; 1.0 where λm >= c.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    C*exp(-(c/m - λ)t). Assumptions as `erlang_c`, first come first served.

    References
    ----------
    Cooper, Introduction to Queueing Theory (2nd ed., 1981), ch. 3, blocked customers delayed.

    Examples
    --------
    >>> wait_tail(0.0, servers=1, arrival_rate=0.75, service_seconds=1.0)
    0.75
    """
    t = number("seconds", seconds)
    m = number("service_seconds", service_seconds, above_zero=True)
    waits = erlang_c(servers, offered=number("arrival_rate", arrival_rate) * m)
    return waits * math.exp(-max(servers / m - arrival_rate, 0.0) * t)


def mean_wait_general(
    servers: int,
    *,
    arrival_rate: float,
    service_seconds: float,
    arrival_cv: float = 1.0,
    service_cv: float = 1.0,
) -> float:
    """Mean waiting time W_q in a G/G/c queue, seconds, about; ``math.inf`` when λm >= c.

    Parameters
    ----------
    servers, arrival_rate, service_seconds
        As `mean_wait`.
    arrival_cv, service_cv : float
        Coefficients of variation of the times between arrivals and of the service times.

    Returns
    -------
    float
        Seconds from arrival to the start of the service.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    `mean_wait` times (cA^2 + cS^2)/2 (Allen and Cunneen): an approximation, good in heavy
    traffic, poor for arrivals in large batches.

    References
    ----------
    Allen, Probability, Statistics and Queueing Theory (2nd ed., 1990), ch. 5.

    Examples
    --------
    Constant service times halve the wait:

    >>> mean_wait_general(1, arrival_rate=0.75, service_seconds=1.0, service_cv=0.0)
    1.5
    """
    factor = (number("arrival_cv", arrival_cv) ** 2 + number("service_cv", service_cv) ** 2) / 2.0
    wait = mean_wait(servers, arrival_rate=arrival_rate, service_seconds=service_seconds)
    return wait * factor if factor else 0.0


def fifo_wait_seconds(ahead: float, *, completion_rate: float) -> float:
    """Expected wait of a job that joins behind ``ahead`` others, seconds; inf if none completes.

    Parameters
    ----------
    ahead : float
        Q, jobs in front of it.
    completion_rate : float
        μ, jobs per second that leave the queue.

    Returns
    -------
    float
        Q/μ, seconds.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Notes
    -----
    First come first served; nobody with a higher priority may come later.

    References
    ----------
    Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961.

    Examples
    --------
    >>> fifo_wait_seconds(600, completion_rate=2.0)
    300.0
    """
    q, out = number("ahead", ahead), number("completion_rate", completion_rate)
    if q == 0:
        return 0.0
    return q / out if out else math.inf


def head_age_seconds(waiting: float, *, arrival_rate: float) -> float:
    """Age of the oldest job once all that wait came after the incident, about, seconds.

    Parameters
    ----------
    waiting : float
        Q, jobs waiting.
    arrival_rate : float
        λ, new jobs per second.

    Returns
    -------
    float
        Q/λ, seconds; ``math.inf`` where nothing arrives but something waits.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Notes
    -----
    First come first served and a constant λ: then the queue is the arrivals of its head's age.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

    Examples
    --------
    >>> head_age_seconds(600, arrival_rate=2.0)
    300.0
    """
    q, into = number("waiting", waiting), number("arrival_rate", arrival_rate)
    if q == 0:
        return 0.0
    return q / into if into else math.inf
