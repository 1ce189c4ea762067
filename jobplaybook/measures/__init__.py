"""Closed forms of queueing and retrying: no engine, no clock, standard library only.

Rates are per second, durations are seconds, "never" is ``math.inf``. Jobs that exhaust their
attempts leave the queue as dead letters: a capacity counts them as gone, `exhausted_share` says
how many they are.
"""

from __future__ import annotations

from jobplaybook.measures.amplification import (
    breaker_failure_share,
    budget_plateau,
    budget_retries,
    is_metastable,
    layered_attempts,
    layered_exhausted_share,
    throttle_rejection,
)
from jobplaybook.measures.backoff import backoff_seconds, lease_copies, retry_span_seconds
from jobplaybook.measures.capacity import (
    attempts_per_job,
    completion_capacity,
    exhausted_share,
    needed_workers,
    quota_concurrency,
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
from jobplaybook.measures.law import (
    drain_cdf,
    drain_draw,
    drain_quantile,
    drain_sd_seconds,
    work_cv2,
)
from jobplaybook.measures.waiting import (
    erlang_c,
    fifo_wait_seconds,
    head_age_seconds,
    little_residual,
    mean_wait,
    mean_wait_general,
    wait_tail,
)

__all__ = [
    "attempts_per_job",
    "backoff_seconds",
    "breaker_failure_share",
    "budget_plateau",
    "budget_retries",
    "completion_capacity",
    "drain_cdf",
    "drain_draw",
    "drain_quantile",
    "drain_sd_seconds",
    "drain_seconds",
    "erlang_c",
    "exhausted_share",
    "fifo_wait_seconds",
    "head_age_seconds",
    "headroom",
    "is_metastable",
    "layered_attempts",
    "layered_exhausted_share",
    "lease_copies",
    "little_residual",
    "mean_wait",
    "mean_wait_general",
    "needed_arrival_rate",
    "needed_completion_rate",
    "needed_workers",
    "net_rate",
    "quota_concurrency",
    "retry_span_seconds",
    "seconds_to_limit",
    "throttle_rejection",
    "utilisation",
    "wait_tail",
    "work_cv2",
    "worker_seconds_per_job",
]
