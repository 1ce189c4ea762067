"""``jobplaybook estimate``: how long a recovery takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from jobplaybook.commands._common import (
    POSITIVE_DURATION,
    RATE,
    SHARE,
    Group,
    NonNegativeInt,
    PositiveInt,
    emit,
    json_option,
)
from jobplaybook.units import count_text, duration_text

if TYPE_CHECKING:
    from jobplaybook.estimates import DrainEstimate

_INDENT = " " * 6


@click.group(cls=Group, name="estimate")
def command() -> None:
    """How long it takes to recover, or an honest never.

    Example: jobplaybook estimate drain --backlog 10000 --arrival 0 --completion 20/min
    """


@command.command(name="drain")
@click.option("--backlog", type=NonNegativeInt(), required=True, help="Jobs waiting now.")
@click.option(
    "--arrival",
    "arrival_rate",
    type=RATE,
    required=True,
    help="New jobs: 1.7/s, 20/min, 50k/h or 0; retries are no arrivals.",
)
@click.option(
    "--completion",
    "completion_rate",
    type=RATE,
    help="Jobs that leave the queue while it has a backlog.",
)
@click.option(
    "--workers",
    "servers",
    type=PositiveInt(high=1_000_000),
    metavar="N",
    help="Concurrent workers, instead of --completion; needs --service.",
)
@click.option(
    "--service",
    "service_seconds",
    type=POSITIVE_DURATION,
    help="Mean time of an attempt: 5s.",
)
@click.option(
    "--failure-rate",
    type=SHARE,
    default=0.0,
    show_default=True,
    help="Share of attempts that fail.",
)
@click.option(
    "--failed-service",
    "failed_service_seconds",
    type=POSITIVE_DURATION,
    help="Mean time of an attempt that fails [default: as --service].",
)
@click.option(
    "--max-attempts",
    type=PositiveInt(high=1_000_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Attempts a job has, the first included.",
)
@click.option(
    "--quota",
    "quota_rate",
    type=RATE,
    help="Calls that the upstream admits, one per attempt.",
)
@click.option(
    "--by",
    "by_seconds",
    type=POSITIVE_DURATION,
    help="When it should be done: says what that needs.",
)
@click.option(
    "--limit",
    type=PositiveInt(),
    metavar="N",
    help="The backlog at which something breaks: says when it is reached.",
)
@json_option
def drain(as_json: bool, **question: Any) -> None:
    """Time until a backlog is gone, from numbers.

    Give the completion rate, or the workers and their service time.

    \b
    Example: jobplaybook estimate drain --backlog 10000 --arrival 0 --completion 20/min
    Example: jobplaybook estimate drain --backlog 10000 --arrival 2/s --workers 20
                 --service 5s --failure-rate 0.2 --max-attempts 3 --by 4h
    """  # noqa: D301
    from jobplaybook.estimates import estimate_drain

    estimate = estimate_drain(**question)
    emit(estimate.to_json(), as_json, _lines(estimate))


def _lines(estimate: DrainEstimate) -> Iterator[str]:
    yield _answer(estimate)
    details = (_flow, _dead_letters, _deadline, _limit, _caution)
    yield from (_INDENT + line for detail in details if (line := detail(estimate)))


def _answer(estimate: DrainEstimate) -> str:
    if estimate.never:
        return estimate.text
    if estimate.inputs.backlog == 0:
        return "no backlog"
    return (
        f"{estimate.text} until the backlog of {count_text(estimate.inputs.backlog, 'job')} is gone"
    )


def _flow(estimate: DrainEstimate) -> str:
    from jobplaybook.estimates import rate_text

    inputs = estimate.inputs
    into, out = rate_text(inputs.arrival_rate), rate_text(estimate.completion_rate)
    by = f" by {count_text(inputs.servers, 'worker')}" if inputs.servers else ""
    trend = "the backlog stays as it is"
    if estimate.net_rate > 0:
        trend = f"the backlog shrinks by {rate_text(estimate.net_rate)}"
    elif estimate.net_rate < 0:
        trend = f"the backlog grows by {rate_text(-estimate.net_rate)}"
    return f"In {into}, out {out}{by}: {trend}."


def _dead_letters(estimate: DrainEstimate) -> str:
    from jobplaybook.measures import exhausted_share

    inputs = estimate.inputs
    share = exhausted_share(inputs.failure_rate, max_attempts=inputs.max_attempts)
    if share == 0:
        return ""
    dead = round(inputs.backlog * share)
    about = f", about {count_text(dead)} of the backlog" if dead else ""
    times = count_text(inputs.max_attempts, "time")
    return f"{share * 100:.3g} % of the jobs fail {times} and end as dead letters{about}."


def _deadline(estimate: DrainEstimate) -> str:
    from jobplaybook.estimates import rate_text

    by, needed = estimate.inputs.by_seconds, estimate.needed
    if by is None or needed.completion_rate is None:
        return ""
    verdict = "in time" if estimate.seconds.mean <= by else "not in time"
    ways = [f"completions of {rate_text(needed.completion_rate)}"]
    if needed.workers == math.inf:
        ways = ["a higher quota: no number of workers is enough"]
    elif needed.workers is not None:
        ways[0] += f" ({count_text(int(needed.workers), 'worker')})"
    if needed.arrival_rate is not None:
        ways.append(f"arrivals of at most {rate_text(needed.arrival_rate)}")
    return f"In {duration_text(by)}: {verdict}; it takes {', or '.join(ways)}."


def _limit(estimate: DrainEstimate) -> str:
    limit, seconds = estimate.inputs.limit, estimate.seconds_to_limit
    if limit is None or seconds is None:
        return ""
    jobs = count_text(limit, "job")
    if seconds == 0:
        return f"The limit of {jobs} is reached already."
    if seconds == math.inf:
        return f"The limit of {jobs} is not reached at these rates."
    return f"The limit of {jobs} is reached in {duration_text(seconds)}."


def _caution(estimate: DrainEstimate) -> str:
    if estimate.net_rate == 0 and estimate.inputs.completion_rate is not None:
        return (
            "A queue without a backlog completes what arrives: if the completions were counted"
            " then, its capacity is unknown and so is the answer."
        )
    if estimate.never and estimate.inputs.by_seconds is None:
        return "Next: raise the completions or hold arrivals back; --by 4h says by how much."
    return "A mean for rates that stay as they are; no range yet."
