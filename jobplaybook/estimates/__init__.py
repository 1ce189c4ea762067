"""Estimates worth acting on: measured inputs, resampled as far as they are known.

The names are looked up when they are first used: an answer from numbers is worth the wait for its
own modules only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_WHERE = {
    **dict.fromkeys(("SEED", "DrainInputs", "Spread", "rate_text"), "inputs"),
    **dict.fromkeys(("Amplification", "RetryLayer", "amplification", "exhausted_after"), "layers"),
    "RateSeen": "rates",
    **dict.fromkeys(("ReplayEstimate", "estimate_replay"), "replay"),
    **dict.fromkeys(("FEWEST_LEFT", "BacklogSeen", "estimate_seen"), "seen"),
    **dict.fromkeys(("Fan", "backlog_fan", "changed"), "what_if"),
}

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


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'drain')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
