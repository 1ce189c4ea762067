"""Estimates worth acting on: measured inputs, resampled as far as they are known."""

from __future__ import annotations

from jobplaybook.estimates.drain import (
    DRAIN_KEYS,
    DRAINED_MEANS,
    DrainEstimate,
    Needed,
    estimate_drain,
)
from jobplaybook.estimates.inputs import SEED, DrainInputs, Spread, rate_text
from jobplaybook.estimates.layers import (
    Amplification,
    RetryLayer,
    amplification,
    exhausted_after,
)
from jobplaybook.estimates.rates import RateSeen
from jobplaybook.estimates.replay import ReplayEstimate, estimate_replay
from jobplaybook.estimates.seen import FEWEST_LEFT, BacklogSeen, estimate_seen
from jobplaybook.estimates.what_if import Fan, backlog_fan, changed

__all__ = [
    "DRAINED_MEANS",
    "DRAIN_KEYS",
    "FEWEST_LEFT",
    "SEED",
    "Amplification",
    "BacklogSeen",
    "DrainEstimate",
    "DrainInputs",
    "Fan",
    "Needed",
    "RateSeen",
    "ReplayEstimate",
    "RetryLayer",
    "Spread",
    "amplification",
    "backlog_fan",
    "changed",
    "estimate_drain",
    "estimate_replay",
    "estimate_seen",
    "exhausted_after",
    "rate_text",
]
