"""``jobplaybook estimate``: how long a recovery takes, and what retrying multiplies to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click

from jobplaybook.commands._common import (
    DURATION,
    POSITIVE_DURATION,
    RATE,
    SHARE,
    SOURCE,
    TEXT,
    Group,
    Kind,
    emit,
    json_option,
    option,
    whole_number,
)
from jobplaybook.commands._source import opening, opening_options
from jobplaybook.errors import InputError
from jobplaybook.units import shown

_MOST_SEED = 2**32 - 1
_NUMBERS = (
    *("backlog", "arrival_rate", "completion_rate", "servers", "service_seconds", "service_cv"),
    *("failure_rate", "failed_service_seconds", "max_attempts", "quota_rate"),
    *("observed_seconds", "completions_seen", "failures_seen"),
)
_FROM = (
    *("queue", "now", "since", "budget", "chunk", "pause", "system", "lease", "tenant_path"),
    *("key_path", "key_file", "require_readonly", "keep"),
)


def _name_value(name: str, kind: Kind) -> Kind:
    """Return the kind of ``NAME=VALUE``, the value as another kind reads it."""

    def read(text: str) -> tuple[str, Any]:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"expected {name}, like worker=3, found {shown(text)}")
        return key.strip(), kind.convert(value, None, None)

    return Kind(name, read)


def _seen(text: str) -> tuple[int, int]:
    failed, slash, ended = text.partition("/")
    if not slash:
        raise InputError(f"expected K/N, like 40/200, found {shown(text)}")
    return whole_number(0).convert(failed, None, None), whole_number().convert(ended, None, None)


@click.group(cls=Group, name="estimate")
def command() -> None:
    """How long it takes to recover, or an honest never.

    Example: jobplaybook estimate drain --backlog 10000 --arrival 0 --completion 20/min
    """


@click.command(name="drain")
@option("--from", SOURCE, "Measure the numbers instead.", to="source", metavar="SOURCE")
@option("--queue", TEXT, "With --from: one queue alone.", metavar="Q")
@option("--backlog", whole_number(0), "Jobs waiting now.")
@option(
    "--arrival",
    RATE,
    "New jobs: 1.7/s, 20/min, 50k/h or 0; retries are no arrivals.",
    to="arrival_rate",
)
@option("--completion", RATE, "Jobs that leave it while it has a backlog.", to="completion_rate")
@option(
    "--workers",
    whole_number(1, 1_000_000),
    "Concurrent workers, instead of --completion; needs --service.",
    to="servers",
    metavar="N",
)
@option("--service", POSITIVE_DURATION, "Mean time of an attempt: 5s.", to="service_seconds")
@option(
    "--service-cv", click.FloatRange(0, 100), "Its standard deviation over its mean [default: 1]."
)
@option("--failure-rate", SHARE, "Share of attempts that fail [default: 0].")
@option(
    "--failed-service",
    POSITIVE_DURATION,
    "Mean time of an attempt that fails [default: as --service].",
    to="failed_service_seconds",
)
@option(
    "--max-attempts",
    whole_number(1, 10_000),
    "Attempts a job has, the first included [default: 1].",
    metavar="N",
)
@option("--quota", RATE, "Calls that the upstream admits, one per attempt.", to="quota_rate")
@option(
    "--observed",
    POSITIVE_DURATION,
    "How long the arrivals were watched: 15m.",
    to="observed_seconds",
)
@option(
    "--completions-seen",
    whole_number(),
    "How many completions the rate or the service time is from.",
    metavar="N",
)
@option("--failures-seen", Kind("K/N", _seen), "K of N attempts seen failed: 40/200.")
@option("--by", POSITIVE_DURATION, "When it should be done: says what that needs.", to="by_seconds")
@option(
    "--limit",
    whole_number(),
    "The backlog at which something breaks: says when it is reached.",
    metavar="N",
)
@option("--seed", whole_number(0, _MOST_SEED), "Seed of the draws.")
def drain(as_json: bool, **question: Any) -> None:
    """Time until a backlog is gone, with its range.

    Give a SOURCE to measure, or the completion rate, or the workers and their service time.

    \b
    Example: jobplaybook estimate drain --from env:JOBS_URL --by 4h
    Example: jobplaybook estimate drain --backlog 10000 --arrival 0 --completion 20/min
    Example: jobplaybook estimate drain --backlog 10000 --arrival 2/s --workers 20
                 --service 5s --failure-rate 0.2 --max-attempts 3 --by 4h
    """  # noqa: D301
    if question["source"] is not None:
        _from_source(as_json, question)
        return
    from jobplaybook.estimates import estimate_drain

    _refuse(_FROM, "expected {} with --from SOURCE alone")
    given = {name: question[name] for name in _NUMBERS if question[name] is not None}
    for name in ("backlog", "arrival_rate"):
        if name not in given:
            missing = f"--{name.removesuffix('_rate')}"
            raise click.UsageError(f"Missing option '{missing}' (or --from SOURCE).")
    estimate = estimate_drain(**given, **_asked(question))
    emit(estimate.to_json(), as_json, str(estimate).split("\n"))


command.add_command(json_option(opening_options(drain)))


def _from_source(as_json: bool, question: dict[str, Any]) -> None:
    from jobplaybook.api import estimate_backlog

    _refuse(_NUMBERS, "expected {} or --from SOURCE, found both")
    with opening(question) as how:
        recovery = estimate_backlog(
            question["source"],
            queue=question["queue"],
            now=question["now"],
            since_seconds=question["since"],
            how=how,
            **_asked(question),
        )
    emit(recovery.to_json(), as_json, str(recovery).split("\n"))


def _asked(question: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked of either kind of backlog, as far as it was."""
    names = ("by_seconds", "limit", "seed")
    return {name: question[name] for name in names if question[name] is not None}


def _refuse(names: Collection[str], message: str) -> None:
    """Refuse options that were given and would be ignored."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and given is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(message.format(parameter.opts[0]))


@command.command(name="amplification")
@option(
    "--layer",
    _name_value("NAME=N", whole_number(1, 1_000)),
    "A layer that retries and its attempts, the first included; outermost first.",
    to="layers",
    multiple=True,
    required=True,
)
@option("--failure-rate", SHARE, "Share of the innermost calls that fail.", required=True)
@option(
    "--budget",
    _name_value("NAME=R", SHARE),
    "A layer's retry budget: retries per first attempt, 0.1.",
    to="budgets",
    multiple=True,
)
@option("--arrival", RATE, "Requests from outside.", to="arrival_rate")
@option("--capacity", RATE, "Calls the innermost service can answer.", to="capacity_rate")
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
@option("--jobs", whole_number(0), "Jobs to replay.", required=True)
@option("--quota", RATE, "Calls that the upstream admits.", to="quota_rate", required=True)
@option("--live", RATE, "Calls of live traffic, which goes first.", to="live_rate", default="0")
@option("--service", POSITIVE_DURATION, "Mean time of a call.", to="service_seconds", default="1s")
@option("--batch", whole_number(), "Jobs at once [default: a minute].", metavar="N")
@option(
    "--lease",
    DURATION,
    "How long a batch stays locked: no larger one than ends in it.",
    to="lease_seconds",
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
