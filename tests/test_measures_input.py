"""What the measures refuse: every argument of every measure, out of its range."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from jobplaybook import measures
from jobplaybook.measures import (
    attempts_per_job,
    completion_capacity,
    drain_seconds,
    erlang_c,
    exhausted_share,
    headroom,
    little_residual,
    mean_wait,
    needed_arrival_rate,
    needed_completion_rate,
    needed_workers,
    net_rate,
    seconds_to_limit,
    utilisation,
    worker_seconds_per_job,
)


def rejected(name: str) -> list[float]:
    if name in ("servers", "max_attempts"):
        return [-1, 0, 1.5, math.nan, math.inf]
    if name == "failure_rate":
        return [-0.1, 1.1, math.nan, math.inf]
    if name == "quota_rate":
        return [-1.0, math.nan]
    zero = [0.0] if name in ("service_seconds", "failed_service_seconds", "by_seconds") else []
    return [-1.0, math.nan, math.inf, -math.inf, *zero]


WORK = {"service_seconds": 5.0, "failure_rate": 0.2, "max_attempts": 3}
WORK_TOO = {**WORK, "failed_service_seconds": 1.0, "quota_rate": 4.0}
FLOW = {"arrival_rate": 1.0, "completion_rate": 2.0}
CALLS: list[tuple[Callable[..., float], dict[str, float]]] = [
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
]
REFUSALS = [
    pytest.param(call, good, name, bad, id=f"{call.__name__}-{name}-{bad}")
    for call, good in CALLS
    for name in good
    for bad in rejected(name)
]


def called(call: Callable[..., float], arguments: dict[str, float]) -> float:
    """Call a measure, whose first argument may be given by its position or its name."""
    return call(**arguments)


def test_every_measure_is_tried_with_bad_input() -> None:
    """The table below covers the public measures, and each accepts its good arguments."""
    assert {call.__name__ for call, _ in CALLS} == set(measures.__all__)
    for call, good in CALLS:
        assert not math.isnan(called(call, good))


@pytest.mark.parametrize(("call", "good", "name", "bad"), REFUSALS)
def test_bad_input_is_refused_by_name(
    call: Callable[..., float], good: dict[str, float], name: str, bad: float
) -> None:
    """A number out of range is an error that names the argument and what was found."""
    with pytest.raises(ValueError, match=rf"expected {name} to be .*, found {bad!r}"):
        called(call, {**good, name: bad})
