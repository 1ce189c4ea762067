"""What the measures refuse: every argument of every measure, out of its range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from jobplaybook import measures
from jobplaybook.measures import (
    attempts_per_job,
    backoff_seconds,
    breaker_failure_share,
    budget_plateau,
    budget_retries,
    completion_capacity,
    drain_cdf,
    drain_draw,
    drain_quantile,
    drain_sd_seconds,
    drain_seconds,
    erlang_c,
    exhausted_share,
    fifo_wait_seconds,
    head_age_seconds,
    headroom,
    is_metastable,
    layered_attempts,
    layered_exhausted_share,
    lease_copies,
    little_residual,
    mean_wait,
    mean_wait_general,
    needed_arrival_rate,
    needed_completion_rate,
    needed_workers,
    net_rate,
    quota_concurrency,
    retry_span_seconds,
    seconds_to_limit,
    throttle_rejection,
    utilisation,
    wait_tail,
    work_cv2,
    worker_seconds_per_job,
)


def rejected(name: str) -> list[float]:
    if name in ("servers", "max_attempts"):
        return [-1, 0, 1.5, math.nan, math.inf]
    if name in ("attempt", "calls"):
        return [-1, 1.5, math.nan]
    if name == "share":
        return [0.0, 1.0, -0.5, math.nan, math.inf]
    if name == "failure_rate":
        return [-0.1, 1.1, math.nan, math.inf]
    if name == "quota_rate":
        return [-1.0, math.nan]
    above_zero = ("service_seconds", "failed_service_seconds", "by_seconds", "lease_seconds")
    zero = [0.0] if name in above_zero else []
    return [-1.0, math.nan, math.inf, -math.inf, *zero]


WORK = {"service_seconds": 5.0, "failure_rate": 0.2, "max_attempts": 3}
WORK_TOO = {**WORK, "failed_service_seconds": 1.0, "quota_rate": 4.0}
FLOW = {"arrival_rate": 1.0, "completion_rate": 2.0}
CVS = {"arrival_cv": 1.0, "service_cv": 0.5}
BACKOFF = {"base_seconds": 1.0, "cap_seconds": 60.0}
CALLS: list[tuple[Callable[..., Any], dict[str, float]]] = [
    (attempts_per_job, {"failure_rate": 0.2, "max_attempts": 3}),
    (exhausted_share, {"failure_rate": 0.2, "max_attempts": 3}),
    (worker_seconds_per_job, {**WORK, "failed_service_seconds": 1.0}),
    (completion_capacity, {"servers": 20, **WORK_TOO}),
    (needed_workers, {"completion_rate": 1.0, **WORK_TOO}),
    (net_rate, FLOW),
    (headroom, FLOW),
    (utilisation, FLOW),
    (drain_seconds, {"backlog": 9, **FLOW}),
    (needed_completion_rate, {"backlog": 9, "arrival_rate": 1.0, "by_seconds": 60.0}),
    (needed_arrival_rate, {"backlog": 9, "completion_rate": 1.0, "by_seconds": 60.0}),
    (seconds_to_limit, {"backlog": 9, "limit": 99, **FLOW}),
    (little_residual, {"jobs_in_system": 6.0, "arrival_rate": 1.0, "sojourn_seconds": 5.0}),
    (erlang_c, {"servers": 2, "offered": 1.0}),
    (mean_wait, {"servers": 2, "arrival_rate": 1.0, "service_seconds": 1.0}),
    (mean_wait_general, {"servers": 2, "arrival_rate": 1.0, "service_seconds": 1.0, **CVS}),
    (wait_tail, {"seconds": 3.0, "servers": 2, "arrival_rate": 1.0, "service_seconds": 1.0}),
    (fifo_wait_seconds, {"ahead": 9, "completion_rate": 2.0}),
    (head_age_seconds, {"waiting": 9, "arrival_rate": 2.0}),
    (quota_concurrency, {"quota_rate": 2.0, "service_seconds": 3.0}),
    (work_cv2, {**WORK, "failed_service_seconds": 1.0, "service_cv": 1.0}),
    (drain_sd_seconds, {"backlog": 9, **FLOW, "arrival_cv2": 1.0, "job_cv2": 1.0}),
    (drain_cdf, {"seconds": 9.0, "mean": 8.0, "sd": 2.0}),
    (drain_quantile, {"share": 0.5, "mean": 8.0, "sd": 2.0}),
    (backoff_seconds, {"attempt": 2, **BACKOFF}),
    (retry_span_seconds, {"max_attempts": 4, **BACKOFF}),
    (lease_copies, {"run_seconds": 9.0, "lease_seconds": 4.0}),
    (budget_plateau, {"ratio": 0.1, "initial": 10.0}),
    (budget_retries, {"calls": 9, "percent": 0.2, "least_rate": 1.0, "window_seconds": 9.0}),
    (breaker_failure_share, {"per_success": 0.1}),
    (throttle_rejection, {"requests": 9.0, "accepts": 3.0, "factor": 2.0}),
    (is_metastable, {"arrival_rate": 9.0, "attempts": 3.0, "capacity_rate": 2.0}),
]
# what takes a sequence or randomness is tried in tests/test_measures_retries.py
OTHERS = {drain_draw.__name__, layered_attempts.__name__, layered_exhausted_share.__name__}
REFUSALS = [
    pytest.param(call, good, name, bad, id=f"{call.__name__}-{name}-{bad}")
    for call, good in CALLS
    for name in good
    for bad in rejected(name)
]


def called(call: Callable[..., Any], arguments: dict[str, float]) -> Any:
    """Call a measure, whose first argument may be given by its position or its name."""
    if call is breaker_failure_share:
        arguments = {"per_failure": 1.0, **arguments}
    return call(**arguments)


def test_every_measure_is_tried_with_bad_input() -> None:
    """The table below covers the public measures, and each accepts its good arguments."""
    assert {call.__name__ for call, _ in CALLS} | OTHERS == set(measures.__all__)
    for call, good in CALLS:
        assert called(call, good) == called(call, good)  # which a nan is not


@pytest.mark.parametrize(("call", "good", "name", "bad"), REFUSALS)
def test_bad_input_is_refused_by_name(
    call: Callable[..., Any], good: dict[str, float], name: str, bad: float
) -> None:
    """A number out of range is an error that names the argument and what was found."""
    with pytest.raises(ValueError, match=rf"expected {name} to be .*, found {bad!r}"):
        called(call, {**good, name: bad})
