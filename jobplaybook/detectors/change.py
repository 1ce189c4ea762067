"""Since when: the moment from which counted events come more often than before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from jobplaybook.units import MICROS

MIN_EVIDENCE = 10.0  # nats below which a rise is taken for chance, with so many splits to try
_BUCKETS = 288  # five minutes each over a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """Where a series began to run at a higher rate."""

    index: int  # the first bucket of the higher part
    before: float  # mean events per bucket in front of it
    after: float  # and from it on
    evidence: float  # log-likelihood ratio of two rates against one, nats


def rise(counts: Sequence[int]) -> Rise | None:
    """Return the split into a lower and then a higher rate that fits counts best.

    Parameters
    ----------
    counts : sequence of int, shape (n_buckets,)
        Events per bucket, in order, buckets of one width.

    Returns
    -------
    Rise or None
        None where no split says at least `MIN_EVIDENCE` nats that the rate rose.

    Notes
    -----
    Maximises S₁ ln(S₁/n₁) + S₂ ln(S₂/n₂) − S ln(S/n) over all splits whose second part has the
    higher mean; S are events, n buckets: the likelihood ratio of two Poisson rates against one.
    At a steady rate and 288 buckets chance reaches 10 nats in fewer than one series of 1,000.
    Events that come in batches reach it more easily than that: whoever asks also asks how large
    the rise is. One step is looked for; of several the one with the most evidence is taken.

    References
    ----------
    Kulldorff, "A spatial scan statistic", Communications in Statistics 26(6), 1997, with the
    window tied to the end.

    Examples
    --------
    >>> found = rise([1, 0, 2, 1, 9, 8, 12, 9])
    >>> found.index, found.before, found.after
    (4, 1.0, 9.5)
    >>> rise([4, 6, 5, 4, 6, 5]) is None
    True
    """
    total, length = sum(counts), len(counts)
    best: Rise | None = None
    for index, low in enumerate(accumulate(counts[:-1]), start=1):
        before, after = low / index, (total - low) / (length - index)
        if after <= before:
            continue
        evidence = _fit(low, index) + _fit(total - low, length - index) - _fit(total, length)
        if evidence >= MIN_EVIDENCE and (best is None or evidence > best.evidence):
            best = Rise(index=index, before=before, after=after, evidence=evidence)
    return best


def _fit(events: int, buckets: int) -> float:
    return events * math.log(events / buckets) if events else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Events counted in buckets of one width."""

    begin: int  # where the first bucket begins, microseconds UTC
    width: int  # how wide each is, microseconds
    counts: tuple[int, ...] = ()

    def index(self, at: int) -> int:
        """Return the bucket of a moment inside the span."""
        return (at - self.begin) // self.width

    def time(self, index: int) -> int:
        """Return where a bucket begins, microseconds UTC."""
        return self.begin + index * self.width

    def of(self, cells: Iterable[tuple[int, int]]) -> Series:
        """Return the same buckets with other counts, given as (index, count)."""
        counts = [0] * len(self.counts)
        for index, count in cells:
            counts[index] += count
        return Series(begin=self.begin, width=self.width, counts=tuple(counts))


def series_over(since: int, until: int, *, most: int = _BUCKETS, least: int = MICROS) -> Series:
    """Return empty buckets over [since, until], microseconds UTC, both ends included.

    There are ``most`` buckets at most, and none is narrower than ``least`` microseconds.

    Examples
    --------
    >>> series_over(0, 99, most=5, least=1)
    Series(begin=0, width=20, counts=(0, 0, 0, 0, 0))
    >>> series_over(0, 99, most=50, least=40).counts
    (0, 0, 0)
    """
    span = max(until - since, 0) + 1
    width = max(-(-span // most), least)
    return Series(begin=since, width=width, counts=(0,) * -(-span // width))
