"""How fast a backlog goes away or grows: fluid forms for constant rates."""

from __future__ import annotations

import math

from jobplaybook.measures.checks import SAME, number


def net_rate(completion_rate: float, *, arrival_rate: float) -> float:
    """Net drain nu = μ - λ in jobs per second; negative where the backlog grows.

    Parameters
    ----------
    completion_rate : float
        μ, jobs per second that leave the queue while it has a backlog.
    arrival_rate : float
        λ, new jobs per second; retries are no arrivals.

    Returns
    -------
    float
        Jobs per second; exactly 0.0 where the two rates agree to twelve digits.

    Raises
    ------
    ValueError
        If a rate is negative or not finite.

    Notes
    -----
    Only a saturated queue shows its capacity. A healthy one completes what arrives: its net is 0
    and says nothing of how fast it could drain.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

    Examples
    --------
    >>> net_rate(3.0, arrival_rate=1.0), net_rate(1.0, arrival_rate=3.0)
    (2.0, -2.0)
    """
    out = number("completion_rate", completion_rate)
    into = number("arrival_rate", arrival_rate)
    return 0.0 if math.isclose(out, into, rel_tol=SAME, abs_tol=0.0) else out - into


def headroom(completion_rate: float, *, arrival_rate: float) -> float:
    """Recovery headroom h = nu/λ as a share of the arrivals; ``math.inf`` when nothing arrives.

    Parameters
    ----------
    completion_rate : float
        μ, jobs per second that leave the queue while it has a backlog.
    arrival_rate : float
        λ, new jobs per second.

    Returns
    -------
    float
        h: 0.1 is 10 % more than what arrives, below 0 the queue loses ground.

    Raises
    ------
    ValueError
        If a rate is negative or not finite.

    Notes
    -----
    h = μ/λ - 1. An outage of length T, with arrivals going on, takes T/h to make up for. Blind to
    the size of the backlog, and to a daily peak: take λ over a window that holds it.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

    Examples
    --------
    >>> headroom(1.5, arrival_rate=1.0), headroom(1.0, arrival_rate=0.0)
    (0.5, inf)
    """
    net = net_rate(completion_rate, arrival_rate=arrival_rate)
    return math.inf if arrival_rate == 0 else net / arrival_rate


def utilisation(arrival_rate: float, *, completion_rate: float) -> float:
    """Utilisation rho = λ/(cμ), the share of the capacity that arrivals need.

    Parameters
    ----------
    arrival_rate : float
        λ, new jobs per second.
    completion_rate : float
        cμ, the capacity of all servers together, jobs per second.

    Returns
    -------
    float
        rho; 1 or more never catches up; ``math.inf`` where jobs arrive and nothing is completed.

    Raises
    ------
    ValueError
        If a rate is negative or not finite.

    Notes
    -----
    The rate must be the capacity (`completion_capacity`, or what a saturated queue completes):
    with the completions of a healthy queue it is 1 by construction and means nothing.

    References
    ----------
    Harchol-Balter, Performance Modeling and Design of Computer Systems (2013), ch. 6.

    Examples
    --------
    >>> utilisation(3.0, completion_rate=4.0), utilisation(0.0, completion_rate=0.0)
    (0.75, 0.0)
    """
    into = number("arrival_rate", arrival_rate)
    out = number("completion_rate", completion_rate)
    if out == 0:
        return math.inf if into > 0 else 0.0
    return into / out


def drain_seconds(backlog: float, *, arrival_rate: float, completion_rate: float) -> float:
    """Expected time until the backlog is first gone, in seconds; ``math.inf`` when λ >= μ.

    Parameters
    ----------
    backlog : float
        B, jobs waiting now.
    arrival_rate : float
        λ, new jobs per second.
    completion_rate : float
        μ, jobs per second that leave the queue while it has a backlog.

    Returns
    -------
    float
        Seconds; 0.0 for an empty backlog, whatever the rates: it is gone already.

    Raises
    ------
    ValueError
        If the backlog or a rate is negative or not finite.

    Notes
    -----
    Fluid form B/(μ - λ), the mean of the exact law when all workers are busy at the start.
    Assumes constant rates: it is optimistic where arrivals have a daily peak ahead, and blind to
    the spread, which near rho = 1 is as large as the mean.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

    Examples
    --------
    >>> drain_seconds(1_200, arrival_rate=8.0, completion_rate=10.0)
    600.0
    >>> drain_seconds(1_200, arrival_rate=10.0, completion_rate=10.0)
    inf
    """
    waiting = number("backlog", backlog)
    net = net_rate(completion_rate, arrival_rate=arrival_rate)
    if waiting == 0:
        return 0.0
    return waiting / net if net > 0 else math.inf


def needed_completion_rate(backlog: float, *, arrival_rate: float, by_seconds: float) -> float:
    """Jobs per second that must leave the queue for the backlog to be gone in time.

    Parameters
    ----------
    backlog : float
        B, jobs waiting now.
    arrival_rate : float
        λ, new jobs per second.
    by_seconds : float
        T, the time allowed, seconds, above 0.

    Returns
    -------
    float
        Jobs per second.

    Raises
    ------
    ValueError
        If the backlog or the arrival rate is negative or not finite, or ``by_seconds`` is not
        above 0.

    Notes
    -----
    λ + B/T: it meets the deadline on average, so about every second time it is late. Ask for more
    where late is not acceptable.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

    Examples
    --------
    >>> needed_completion_rate(7_200, arrival_rate=1.0, by_seconds=14_400.0)
    1.5
    """
    waiting = number("backlog", backlog)
    into = number("arrival_rate", arrival_rate)
    return into + waiting / number("by_seconds", by_seconds, above_zero=True)


def needed_arrival_rate(backlog: float, *, completion_rate: float, by_seconds: float) -> float:
    """Jobs per second that may still arrive for the backlog to be gone in time.

    Parameters
    ----------
    backlog : float
        B, jobs waiting now.
    completion_rate : float
        μ, jobs per second that leave the queue while it has a backlog.
    by_seconds : float
        T, the time allowed, seconds, above 0.

    Returns
    -------
    float
        Jobs per second; below 0 it is impossible: even with the intake closed the time is too
        short.

    Raises
    ------
    ValueError
        If the backlog or the completion rate is negative or not finite, or ``by_seconds`` is not
        above 0.

    Notes
    -----
    μ - B/T, on average, as in `needed_completion_rate`.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

    Examples
    --------
    >>> needed_arrival_rate(7_200, completion_rate=1.5, by_seconds=14_400.0)
    1.0
    """
    waiting = number("backlog", backlog)
    needed = waiting / number("by_seconds", by_seconds, above_zero=True)
    return net_rate(completion_rate, arrival_rate=needed)


def seconds_to_limit(
    backlog: float, *, limit: float, arrival_rate: float, completion_rate: float
) -> float:
    """Expected time until the backlog reaches a limit, in seconds; ``math.inf`` if it will not.

    Parameters
    ----------
    backlog : float
        B, jobs waiting now.
    limit : float
        The backlog at which something breaks: a full store, a refused intake; jobs.
    arrival_rate : float
        λ, new jobs per second.
    completion_rate : float
        μ, jobs per second that leave the queue while it has a backlog.

    Returns
    -------
    float
        Seconds; 0.0 where the backlog is at the limit already.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Notes
    -----
    (limit - B)/(λ - μ). Assumes constant rates; a store that slows down as it fills is full
    sooner.

    References
    ----------
    Kleinrock, Queueing Systems, vol. 2 (1976), sec. 2.7, the fluid approximation.

    Examples
    --------
    >>> seconds_to_limit(1_000, limit=4_000, arrival_rate=8.0, completion_rate=3.0)
    600.0
    """
    free = number("limit", limit) - number("backlog", backlog)
    net = net_rate(completion_rate, arrival_rate=arrival_rate)
    if free <= 0:
        return 0.0
    return free / -net if net < 0 else math.inf
