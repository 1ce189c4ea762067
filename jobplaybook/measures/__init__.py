"""Closed forms of queueing and retrying: no engine, no clock, standard library only.

Rates are per second, durations are seconds, "never" is ``math.inf``. Jobs that exhaust their
attempts leave the queue as dead letters: a capacity counts them as gone, `exhausted_share` says
how many they are.
"""

from __future__ import annotations

from jobplaybook.measures.capacity import (
    attempts_per_job,
    completion_capacity,
    exhausted_share,
    needed_workers,
    worker_seconds_per_job,
)
from jobplaybook.measures.drain import (
    drain_seconds,
    headroom,
    needed_arrival_rate,
    needed_completion_rate,
    net_rate,
    seconds_to_limit,
    utilisation,
)
from jobplaybook.measures.waiting import erlang_c, little_residual, mean_wait

__all__ = [
    "attempts_per_job",
    "completion_capacity",
    "drain_seconds",
    "erlang_c",
    "exhausted_share",
    "headroom",
    "little_residual",
    "mean_wait",
    "needed_arrival_rate",
    "needed_completion_rate",
    "needed_workers",
    "net_rate",
    "seconds_to_limit",
    "utilisation",
    "worker_seconds_per_job",
]
