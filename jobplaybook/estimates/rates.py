"""What a window of counts says of a rate in the time to come: its mean, and how far to trust it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

RECENT_SECONDS = 900.0
"""What is called the present rate is the mean over so long, as `health` shows it."""
FEWEST_EVENTS = 250
"""However short the look back, so many events are averaged at least."""
DRIFT_PER_HOUR = 0.11
"""A rate is never trusted to stay: it may walk by so large a share of itself in an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSeen:
    """Events counted in buckets of equal width, oldest first.

    Parameters
    ----------
    counts : tuple of int
        Events per bucket.
    bucket_seconds : float
        Width of a bucket, seconds.
    factor : float
        What is asked: if the rate were so many times what was seen. It is known no better then.
    """

    counts: tuple[int, ...]
    bucket_seconds: float
    factor: float = 1.0

    @property
    def seconds(self) -> float:
        """Length of what was seen, seconds."""
        return len(self.counts) * self.bucket_seconds

    @property
    def rate(self) -> float:
        """Mean rate, events per second.

        Examples
        --------
        >>> RateSeen(counts=(3, 5), bucket_seconds=2.0).rate
        2.0
        >>> RateSeen(counts=(3, 5), bucket_seconds=2.0, factor=1.5).rate
        3.0
        """
        return self.factor * sum(self.counts) / self.seconds if self.counts else 0.0

    @property
    def recent(self) -> float:
        """Mean rate over the last `RECENT_SECONDS` of it, events per second.

        Examples
        --------
        >>> RateSeen(counts=(0, 0, 300, 600), bucket_seconds=450.0).recent
        1.0
        """
        buckets = max(round(RECENT_SECONDS / self.bucket_seconds), 1)
        counts = self.counts[-buckets:]
        return self.factor * sum(counts) / (len(counts) * self.bucket_seconds) if counts else 0.0

    @property
    def noise(self) -> float:
        """Variance of the mean over t seconds, times t: the rate itself where it is Poisson.

        Notes
        -----
        The largest of length times Allan variance (half the mean square of the differences of
        neighbouring means) over doubling lengths, and never below Poisson: bursts and drift
        raise it at the lengths at which they are seen.

        References
        ----------
        Allan, Statistics of atomic frequency standards, Proc. IEEE 54(2), 1966.

        Examples
        --------
        >>> RateSeen(counts=(5,) * 32, bucket_seconds=1.0).noise
        5.0
        >>> RateSeen(counts=(0, 0, 10, 10) * 8, bucket_seconds=1.0).noise > 20.0  # bursts
        True
        """
        noise = max(
            [self.rate / (self.factor or 1.0), *_allan_noise(self.counts, self.bucket_seconds)]
        )
        return self.factor**2 * noise

    def lookbacks(self) -> list[tuple[float, float]]:
        """Return (mean rate, seconds) over the whole window, its last half, quarter and so on.

        Examples
        --------
        >>> RateSeen(counts=(0, 0, 0, 900), bucket_seconds=1.0).lookbacks()
        [(225.0, 4.0), (450.0, 2.0), (900.0, 1.0)]
        """
        found: list[tuple[float, float]] = []
        buckets = len(self.counts)
        while buckets:
            events = sum(self.counts[-buckets:])
            if found and events < FEWEST_EVENTS:
                break
            seconds = buckets * self.bucket_seconds
            found.append((self.factor * events / seconds, seconds))
            buckets //= 2
        return found

    def draws(self, rng: random.Random, *, ahead_seconds: float, count: int) -> list[float]:
        """Draw mean rates for the next ``ahead_seconds``, events per second.

        Parameters
        ----------
        rng : random.Random
            The randomness.
        ahead_seconds : float
            How far ahead, seconds; each draw is a mean over that time.
        count : int
            How many draws.

        Notes
        -----
        Nobody knows which past the future will be like: each draw looks back over another of
        `lookbacks`, so that a burst that ended, one that goes on and a load that climbs are all
        among them. Around its mean, a gamma law of variance noise/length, and what bursts add to
        the future above the Poisson noise that belongs to the drain's own law, and
        `DRIFT_PER_HOUR`.
        """
        noise = self.noise
        ahead = max(ahead_seconds, self.bucket_seconds)
        future = max(noise - self.factor * self.rate, 0.0) / ahead + _drift(self.rate, ahead)
        pasts = [
            (rate, math.sqrt(noise / length + future)) for rate, length in self.lookbacks()
        ] or [(0.0, 0.0)]
        return [drawn_rate(rng, *pasts[place % len(pasts)]) for place in range(count)]


def drawn_rate(rng: random.Random, rate: float, sd: float) -> float:
    """Draw a rate of this mean and spread by a gamma law: never below zero.

    Examples
    --------
    >>> drawn_rate(random.Random(1), 2.0, 0.0)
    2.0
    """
    if rate <= 0 or sd <= 0:
        return rate
    shape = (rate / sd) ** 2
    return rng.gammavariate(shape, rate / shape)


def _drift(rate: float, ahead: float) -> float:
    return (DRIFT_PER_HOUR * rate) ** 2 * min(ahead / 3_600.0, 4.0) / 3.0


def _allan_noise(counts: Sequence[int], width: float) -> list[float]:
    """Return length times Allan variance at doubling lengths, of seven differences at least."""
    found, step = [], 1
    while len(counts) // step >= 8:
        # from the end, so that what does not fill a block is the oldest
        means = [
            sum(counts[place : place + step]) / (step * width)
            for place in range(len(counts) % step, len(counts), step)
        ]
        squares = [(b - a) ** 2 for a, b in pairwise(means)]
        found.append(step * width * math.fsum(squares) / (2 * len(squares)))
        step *= 2
    return found
