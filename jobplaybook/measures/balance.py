"""What a window says of itself: how long something waited in it, and whether its counts agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_SLACK = 0.02
"""Rows of a live capture are read one after the other: so much of L is no contradiction."""


def busy_share(intervals: Iterable[tuple[int, int | None]], since: int, until: int) -> float:
    """Share of a window that at least one interval covers, from 0 to 1.

    Parameters
    ----------
    intervals : iterable of (int, int or None)
        In order of their beginnings; None: still open.
    since, until : int
        The window, in the intervals' own unit.

    Examples
    --------
    >>> busy_share([(0, 4), (2, 5), (8, None)], 0, 10)
    0.7
    """
    covered, reached = 0, since
    for begin, end in intervals:
        low, high = max(begin, reached), min(until if end is None else end, until)
        if high > low:
            covered += high - low
            reached = high
    return covered / max(until - since, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LittleCheck:
    """Little's law over a window: whether what is counted and what is timed agree.

    Parameters
    ----------
    jobs_in_system : float
        L, time average of the unfinished jobs: their number at the end, counted by status, and
        backwards from there by arrivals and endings.
    arrival_rate : float
        λ, jobs accepted per second.
    sojourn_seconds : float or None
        W, mean time in the window of the jobs accepted in it, seconds; None: none was.
    residual : float
        L - λW in jobs.
    edge : float
        Jobs that those accepted before the window account for: where nothing is missing and
        no time is wrong, it is the residual.
    agrees : bool
        Whether residual and edge differ by no more than a fiftieth of L, or of one job.
    """

    jobs_in_system: float
    arrival_rate: float
    sojourn_seconds: float | None
    residual: float
    edge: float
    agrees: bool

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def little_check(
    jobs: Sequence[tuple[float, float | None]], unfinished: int, since: float, until: float
) -> LittleCheck:
    """Check Little's law L = λW on the jobs that were in the system in [since, until].

    Parameters
    ----------
    jobs : sequence of (float, float or None)
        Acceptance and end of each, seconds; None: not ended.
    unfinished : int
        How many are not ended at ``until``, counted apart from these times.
    since, until : float
        The window, seconds.

    Notes
    -----
    The two sides come from different columns: L from statuses and events, W from the times of
    each job. A job without a time, or one that ended before it came, makes them differ. Rows
    that are missing altogether do not.

    References
    ----------
    Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961.

    Examples
    --------
    Ten seconds, one job in them for four and one for the last eight:

    >>> check = little_check([(0.0, 4.0), (2.0, None)], 1, 0.0, 10.0)
    >>> check.jobs_in_system, check.sojourn_seconds, check.residual, check.agrees
    (1.2, 6.0, 0.0, True)
    """
    length = until - since
    average = float(unfinished)
    stays, edge = [], 0.0
    for begin, end in jobs:
        if begin > until:
            continue
        ended = end is not None and end <= until
        last = end if ended and end is not None else until
        if begin >= since:
            average -= (begin - since) / length
            stays.append(last - begin)
        else:
            edge += max(last - since, 0.0) / length
        if ended and last >= since:
            average += (last - since) / length
    arrival = len(stays) / length
    sojourn = sum(stays) / len(stays) if stays else None
    residual = average - sum(stays) / length
    return LittleCheck(
        jobs_in_system=average,
        arrival_rate=arrival,
        sojourn_seconds=sojourn,
        residual=residual,
        edge=edge,
        agrees=abs(residual - edge) <= _SLACK * max(average, 1.0),
    )
