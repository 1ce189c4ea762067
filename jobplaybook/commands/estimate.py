"""``jobplaybook estimate``: how long a recovery takes, and what retrying multiplies to."""

from __future__ import annotations

from typing import Any

import click

from jobplaybook.commands._common import (
    DURATION,
    POSITIVE_DURATION,
    RATE,
    SHARE,
    Group,
    emit,
    json_option,
    option,
    whole_number,
)

_MOST_SEED = 2**32 - 1


class _NameValue(click.ParamType):  # type: ignore[type-arg]
    """``NAME=VALUE``, the value as ``kind`` reads it."""

    def __init__(self, kind: click.ParamType, name: str) -> None:  # type: ignore[type-arg]
        self._kind, self.name = kind, name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        """Return the name and the value."""
        if isinstance(value, tuple):
            return value
        name, equals, number = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"expected {self.name}, like worker=3, found {value!r:.80}", param, ctx)
        return name.strip(), self._kind.convert(number, param, ctx)


class _Seen(click.ParamType):  # type: ignore[type-arg]
    """``K/N``: K of N attempts failed."""

    name = "K/N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return K and N."""
        if isinstance(value, tuple):
            return value
        failed, slash, ended = str(value).partition("/")
        if not slash:
            self.fail(f"expected K/N, like 40/200, found {value!r:.80}", param, ctx)
        return (
            NonNegativeInt().convert(failed, param, ctx),
            PositiveInt().convert(ended, param, ctx),
        )


@click.group(cls=Group, name="estimate")
def command() -> None:
    """How long it takes to recover, or an honest never.

    Example: jobplaybook estimate drain --backlog 10000 --arrival 0 --completion 20/min
    """


@command.command(name="drain")
@click.option("--backlog", type=NonNegativeInt(), help="Jobs waiting now.")
@click.option(
    "--arrival",
    "arrival_rate",
    type=RATE,
    help="New jobs: 1.7/s, 20/min, 50k/h or 0; retries are no arrivals.",
)
@option("--completion", RATE, "Jobs that leave it while it has a backlog.", to="completion_rate")
@option(
    "--workers",
    whole_number(1, 1_000_000),
    "Concurrent workers, instead of --completion; needs --service.",
    to="servers",
    metavar="N",
)
@click.option(
    "--service", "service_seconds", type=POSITIVE_DURATION, help="Mean time of an attempt: 5s."
)
@click.option(
    "--service-cv",
    type=click.FloatRange(0, 100),
    help="Its standard deviation over its mean [default: 1].",
)
@click.option("--failure-rate", type=SHARE, help="Share of attempts that fail [default: 0].")
@click.option(
    "--failed-service",
    POSITIVE_DURATION,
    "Mean time of an attempt that fails [default: as --service].",
    to="failed_service_seconds",
)
@option(
    "--max-attempts",
    type=PositiveInt(high=10_000),
    metavar="N",
    help="Attempts a job has, the first included [default: 1].",
)
@click.option(
    "--quota",
    "quota_rate",
    type=RATE,
    help="Calls that the upstream admits, one per attempt.",
)
@click.option(
    "--observed",
    "observed_seconds",
    type=POSITIVE_DURATION,
    help="How long the arrivals were watched: 15m.",
)
@click.option(
    "--completions-seen",
    type=PositiveInt(),
    metavar="N",
    help="How many completions the rate or the service time is from.",
)
@click.option("--failures-seen", type=_Seen(), help="K of N attempts seen failed: 40/200.")
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
@click.option("--seed", type=NonNegativeInt(high=_MOST_SEED), help="Seed of the draws.")
@json_option
def drain(as_json: bool, **question: Any) -> None:
    """Time until a backlog is gone, with its range.

    Give the completion rate, or the workers and their service time.

    \b
    Example: jobplaybook estimate drain --backlog 10000 --arrival 0 --completion 20/min
    Example: jobplaybook estimate drain --backlog 10000 --arrival 2/s --workers 20
                 --service 5s --failure-rate 0.2 --max-attempts 3 --by 4h
    """  # noqa: D301
    from jobplaybook.estimates import estimate_drain

    given = {name: value for name, value in question.items() if value is not None}
    for name in ("backlog", "arrival_rate"):
        if name not in given:
            raise click.UsageError(f"Missing option '--{name.removesuffix('_rate')}'.")
    estimate = estimate_drain(**given)
    emit(estimate.to_json(), as_json, str(estimate).split("\n"))


@command.command(name="amplification")
@click.option(
    "--layer",
    "layers",
    type=_NameValue(PositiveInt(high=1_000), "NAME=N"),
    multiple=True,
    required=True,
    help="A layer that retries and its attempts, the first included; outermost first.",
)
@click.option(
    "--failure-rate", type=SHARE, required=True, help="Share of the innermost calls that fail."
)
@click.option(
    "--budget",
    "budgets",
    type=_NameValue(SHARE, "NAME=R"),
    multiple=True,
    help="A layer's retry budget: retries per first attempt, 0.1.",
)
@click.option("--arrival", "arrival_rate", type=RATE, help="Requests from outside.")
@click.option(
    "--capacity", "capacity_rate", type=RATE, help="Calls the innermost service can answer."
)
@json_option
def amplification(
    as_json: bool, layers: tuple[Any, ...], budgets: tuple[Any, ...], **rates: Any
) -> None:
    """Calls that retrying layers make of one request.

    \b
    Example: jobplaybook estimate amplification --layer web=3 --layer worker=5
                 --failure-rate 0.3 --arrival 100/s --capacity 300/s
    """  # noqa: D301
    from jobplaybook.estimates import RetryLayer, amplification

    allowed, names = dict(budgets), [name for name, _ in layers]
    for name in allowed:
        if name not in names:
            raise click.UsageError(
                f"expected --budget for one of the layers {', '.join(names)}, found {name!r:.80}"
            )
    if len(set(names)) < len(names):
        raise click.UsageError("expected every --layer to have a name of its own")
    answer = amplification(
        [RetryLayer(name=name, attempts=n, budget=allowed.get(name)) for name, n in layers], **rates
    )
    emit(answer.to_json(), as_json, str(answer).split("\n"))


@command.command(name="replay")
@click.option("--jobs", type=NonNegativeInt(), required=True, help="Jobs to replay.")
@click.option(
    "--quota", "quota_rate", type=RATE, required=True, help="Calls that the upstream admits."
)
@click.option(
    "--live", "live_rate", type=RATE, default="0", help="Calls of live traffic, which goes first."
)
@click.option(
    "--service",
    "service_seconds",
    type=POSITIVE_DURATION,
    default="1s",
    show_default=True,
    help="Mean time of a call.",
)
@click.option("--batch", type=PositiveInt(), metavar="N", help="Jobs at once [default: a minute].")
@click.option(
    "--lease",
    "lease_seconds",
    type=DURATION,
    help="How long a batch stays locked: no larger one than ends in it.",
)
@json_option
def replay(as_json: bool, **question: Any) -> None:
    """Length and safe concurrency of a throttled replay.

    \b
    Example: jobplaybook estimate replay --jobs 8000 --quota 10/s --live 6/s --service 2s
    """  # noqa: D301
    from jobplaybook.estimates import estimate_replay

    answer = estimate_replay(**question)
    emit(answer.to_json(), as_json, str(answer).split("\n"))
