"""`estimate drain`: what it answers to numbers, in words and as JSON, and what it refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

from jobplaybook.commands import cli
from jobplaybook.errors import InputError
from jobplaybook.estimates import DrainEstimate, estimate_drain, rate_text
from jobplaybook.units import duration_text, parse_rate

KEYS = [
    "never",
    "never_probability",
    "seconds",
    "text",
    "net_rate",
    "headroom",
    "drained_means",
    "engine",
    "inputs",
    "needed",
    "by_probability",
    "seconds_to_limit",
]
WORKERS = "--backlog 10000 --arrival 2/s --workers 20 --service 5s"
RETRIED = f"{WORKERS} --failure-rate 0.2 --max-attempts 3"

backlogs = st.integers(min_value=0, max_value=10**9)
rates = st.integers(min_value=0, max_value=10**9).map(lambda milli: milli / 1_000)
deadlines = st.floats(min_value=1.0, max_value=1e6)


def drain(words: str) -> Result:
    return CliRunner().invoke(cli, ["estimate", "drain", *words.split()])


def answer(words: str) -> dict[str, Any]:
    """Return the document of a question that has an answer."""
    result = drain(f"{words} --json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    assert list(document) == KEYS
    assert isinstance(document, dict)
    return document


def lines(words: str) -> list[str]:
    result = drain(words)
    assert (result.exit_code, result.stderr) == (0, "")
    found = [line.strip() for line in result.stdout.splitlines()]
    assert 2 <= len(found) <= 8
    return found


# The two ways to ask


def test_ten_thousand_jobs_at_twenty_a_minute() -> None:
    """`estimate drain` from rates: 10,000 jobs at 20/min without arrivals take 8 h 20 min."""
    found = answer("--backlog 10000 --arrival 0 --completion 20/min")
    assert found["seconds"]["mean"] == 30_000.0
    # sd = sqrt(B/μ^2) = 300 s: 1.645 of them to either side
    assert found["seconds"]["p5"] == pytest.approx(30_000 - 493, abs=10)
    assert found["seconds"]["p95"] == pytest.approx(30_000 + 493, abs=10)
    assert (found["never"], found["never_probability"]) == (False, 0.0)
    assert (found["text"], found["engine"]) == ("8 h 20 min", "closed-form")
    assert found["net_rate"] == pytest.approx(1 / 3)
    assert found["headroom"] is None  # nothing arrives: infinite
    assert set(found["needed"].values()) == {None}
    assert found["seconds_to_limit"] is None
    assert found["inputs"]["backlog"] == 10_000
    assert found["inputs"]["completion_rate"] == pytest.approx(1 / 3)


def test_as_many_arrivals_as_completions_is_an_honest_never() -> None:
    """`estimate drain` at net 0: never, said with the rates, and an answer like any other."""
    found = answer("--backlog 10000 --arrival 20/min --completion 20/min")
    assert (found["never"], found["net_rate"], found["headroom"]) == (True, 0.0, 0.0)
    assert found["seconds"] == {"mean": None, "p5": None, "p50": None, "p95": None}
    assert found["never_probability"] == 1.0
    assert found["text"] == "never at this rate: arrivals 20/min >= completions 20/min"


def test_workers_with_retries_give_the_completion_rate() -> None:
    """`estimate drain` from workers: c/m/a = 4/1.24 a second, (B - c) over what is left of it."""
    found = answer(RETRIED)
    assert found["inputs"]["completion_rate"] == pytest.approx(4 / 1.24)
    assert found["seconds"]["mean"] == pytest.approx(9_980 / (4 / 1.24 - 2))
    assert found["headroom"] == pytest.approx((4 / 1.24 - 2) / 2)


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (WORKERS, 4.0),
        (f"{WORKERS} --quota 3/s", 3.0),
        (f"{RETRIED} --quota 3/s", 3 / 1.24),
        (f"{WORKERS} --failure-rate 0.5 --max-attempts 2 --failed-service 30s", 20 / 26.25),
        (f"{WORKERS} --failure-rate 1 --max-attempts 4", 1.0),
    ],
)
def test_each_option_has_its_effect(words: str, completions: float) -> None:
    """Quota, failures, their duration and attempts change the rate as the formula says."""
    assert answer(words)["inputs"]["completion_rate"] == pytest.approx(completions)


def test_what_a_deadline_needs() -> None:
    """`--by`: arrivals + B/T completions, the workers for them, or the arrivals at the rate."""
    found = answer(f"{WORKERS} --by 4h")["needed"]
    assert found["completion_rate"] == pytest.approx(2 + 10_000 / 14_400)
    assert found["workers"] == 14  # 2.694/s times 5 s is 13.5 busy workers
    assert found["arrival_rate"] == pytest.approx(4 - 10_000 / 14_400)


def test_what_cannot_be_reached_is_null() -> None:
    """`--by`: no workers beat a quota, no arrivals are few enough, and a rate knows no workers."""
    quota = answer(f"{WORKERS} --quota 3/s --by 30m")["needed"]
    assert (quota["workers"], quota["arrival_rate"]) == (None, None)
    rate = answer("--backlog 10000 --arrival 0 --completion 20/min --by 1h")["needed"]
    assert (rate["workers"], rate["arrival_rate"]) == (None, None)
    served = answer("--backlog 10000 --arrival 0 --completion 20/min --service 9s --by 1h")
    assert served["needed"]["workers"] == 25
    exact = answer("--backlog 10000 --arrival 0 --completion 20/min --by 500m")["needed"]
    assert exact["arrival_rate"] == 0.0


def test_when_a_limit_is_reached() -> None:
    """`--limit`: the time while the backlog grows, null while it does not, 0 once it is there."""
    growing = "--backlog 0 --arrival 9982/s --completion 4016/s --limit"
    assert round(answer(f"{growing} 1260000")["seconds_to_limit"]) == 211
    shrinking = "--backlog 10 --arrival 0 --completion 1/s --limit"
    assert answer(f"{shrinking} 11")["seconds_to_limit"] is None
    assert answer(f"{shrinking} 10")["seconds_to_limit"] == 0


# In words


def test_the_first_line_is_the_answer() -> None:
    """People read the time, the backlog and the rates; then what it rests on."""
    assert lines("--backlog 10000 --arrival 0 --completion 20/min") == [
        "8 h 20 min until the backlog of 10,000 jobs is gone",
        "Nine times in ten: 8 h 12 min to 8 h 28 min (for rates that stay exactly so; --observed "
        "and --completions-seen widen it to what is known of them).",
        "In 0, out 20/min: the backlog shrinks by 20/min.",
        "Gone means: the queue is first found empty: no job waits, those in work still finish, "
        "and jobs that exhausted their attempts count as gone.",
    ]


def test_a_never_says_what_to_do_next() -> None:
    """Where it never ends, the lines say how it grows and how to ask what would help."""
    assert lines("--backlog 10000 --arrival 25/min --completion 20/min --limit 20000") == [
        "never at this rate: arrivals 25/min >= completions 20/min",
        "In 25/min, out 20/min: the backlog grows by 5/min.",
        "The limit of 20,000 jobs is reached in 1 d 9 h.",
        "Next: raise the completions or hold arrivals back; --by 4h says by how much.",
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (f"{RETRIED}", "0.8 % of the jobs fail 3 times and end as dead letters, about 80 of the"),
        (f"{WORKERS} --by 4h", "In 4 h: in time; it takes completions of 2.69/s (14 workers), or"),
        (f"{RETRIED} --by 1h", "In 1 h: not in time; it takes completions of 4.78/s (30 workers)"),
        (f"{WORKERS} --quota 3/s --by 30m", "In 30 min: not in time; it takes a higher quota"),
        (f"{WORKERS} --limit 99999", "The limit of 99,999 jobs is not reached at these rates."),
        (
            f"{WORKERS} --quota 3/s",
            "The quota keeps 15 workers busy; more of them are only refused",
        ),
        (f"{WORKERS} --limit 9", "The limit of 9 jobs is reached already."),
        ("--backlog 9 --arrival 1/s --completion 1/s", "A queue without a backlog completes what"),
        ("--backlog 0 --arrival 1/s --completion 2/s", "no backlog"),
        ("--backlog 0 --arrival 2/s --completion 1/s", "no backlog now; one that forms never"),
        ("--backlog 1 --arrival 1/s --completion 2/s", "1.0 s until the backlog of 1 job is gone"),
        (f"{WORKERS}", "In 2/s, out 4/s by 20 workers: the backlog shrinks by 2/s (headroom 100%:"),
    ],
)
def test_each_fact_has_its_line(words: str, line: str) -> None:
    """What was asked for is answered by a line of its own."""
    assert [said for said in lines(words) if said.startswith(line)] != []


@given(rate=st.floats(min_value=1 / 86_400, max_value=1e6))
@example(rate=20 / 60)
@example(rate=59.999 / 60)
@example(rate=999.7)
def test_a_rate_in_words_reads_back(rate: float) -> None:
    """The text of a rate, read again, is the rate to half a per cent."""
    text = rate_text(rate)
    assert "e" not in text
    assert parse_rate(text.replace(",", "")) == pytest.approx(rate, rel=0.00501)


# Laws


@given(backlog=backlogs, into=rates, out=rates, by=deadlines, limit=backlogs)
@example(backlog=0, into=0.0, out=0.0, by=1.0, limit=0)
@example(backlog=0, into=1.0, out=2.0, by=1.0, limit=0)
@example(backlog=5, into=20 / 60, out=1 / 3, by=1.0, limit=6)
def test_never_null_and_text_agree(
    backlog: int, into: float, out: float, by: float, limit: int
) -> None:
    """Never exactly when net <= 0; then no mean and a sentence, else the mean and its text."""
    estimate = estimate_drain(
        backlog=backlog, arrival_rate=into, completion_rate=out, by_seconds=by, limit=limit
    )
    document = json.loads(json.dumps(estimate.to_json(), allow_nan=False))
    assert list(document) == KEYS
    assert document["never"] == (document["net_rate"] <= 0)
    assert (document["seconds"]["mean"] is None) == document["never"]
    if document["never"]:
        assert "at this rate: arrivals " in document["text"]
    else:
        assert document["text"] == duration_text(document["seconds"]["mean"])


@given(
    backlog=backlogs,
    into=rates,
    few=st.integers(1, 1_000),
    more=st.integers(0, 1_000),
    service=st.floats(min_value=0.01, max_value=1e4),
    failures=st.floats(min_value=0.0, max_value=1.0),
)
def test_more_workers_never_take_longer(
    backlog: int, into: float, few: int, more: int, service: float, failures: float
) -> None:
    """Adding workers never makes the estimate longer."""

    def seconds(servers: int) -> float:
        return (
            estimate_drain(
                backlog=backlog,
                arrival_rate=into,
                servers=servers,
                service_seconds=service,
                failure_rate=failures,
                max_attempts=3,
            ).seconds.mean
            or 0.0
        )

    assert seconds(few + more) <= seconds(few)


# What is refused


@pytest.mark.parametrize("option", ["--arrival", "--completion", "--quota"])
@pytest.mark.parametrize("value", ["-1/s", "nan", "inf", "-inf", "nan/s", "1", "1e999/s", "x"])
def test_a_rate_that_is_none_is_refused(option: str, value: str) -> None:
    """Negative, nan, infinite and unitless rates: one line, 2, nothing on stdout."""
    refused(f"--backlog 1 --arrival 1/s --completion 2/s {option} {value}", option)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--backlog", value) for value in ("-1", "nan", "inf", "1.5", "1e9", "9" * 30)),
        *(("--limit", value) for value in ("-1", "0", "nan", "1e9")),
        *(("--workers", value) for value in ("-1", "0", "nan", "1000001")),
        *(("--max-attempts", value) for value in ("-1", "0", "nan")),
        *(("--failure-rate", value) for value in ("-0.1", "1.1", "nan", "inf", "20%")),
        *((name, value) for name in ("--service", "--by") for value in ("-1s", "0", "nan", "5")),
        ("--failed-service", "0s"),
    ],
)
def test_a_number_out_of_range_is_refused(option: str, value: str) -> None:
    """Each option refuses what it cannot mean, by its name."""
    refused(f"--backlog 1 --arrival 1/s --completion 2/s {option} {value}", option)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "found neither"),
        ("--service 5s", "found neither"),
        ("--completion 1/s --workers 3 --service 5s", "found both"),
        ("--workers 3", "expected a service time"),
        ("--completion 1/s --failure-rate 0.2", "expected a service time"),
        ("--completion 1/s --max-attempts 3", "expected a service time"),
        ("--completion 1/s --failed-service 5s", "expected a service time"),
        ("--completion 1/s --quota 5/s", "expected no quota"),
        ("--completion 1/s --failures-seen 3/9", "expected a service time"),
        ("--workers 3 --service 5s --failures-seen 9/3", "K of N attempts"),
        ("--workers 3 --service 5s --failures-seen 3", "expected K/N"),
        ("--workers 3 --service 5s --failure-rate 0.5 --failures-seen 3/9", "give one of them"),
    ],
)
def test_a_question_that_would_be_half_ignored_is_refused(words: str, reason: str) -> None:
    """Two answers, none, or an option without effect: refused instead of guessed."""
    refused(f"--backlog 1 --arrival 1/s {words}", reason)


def refused(words: str, part: str) -> None:
    result = drain(words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert part in result.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        {"backlog": -1},
        {"backlog": math.nan},
        {"arrival_rate": math.inf},
        {"completion_rate": math.nan},
        {"by_seconds": 0.0},
        {"limit": -1},
        {"service_seconds": 0.0},
        {"service_seconds": 1.0, "failure_rate": 2.0},
        {"service_seconds": 1.0, "max_attempts": 0},
        {"completion_rate": None, "servers": 0, "service_seconds": 1.0},
        {"backlog": 10**400},
        {"completion_rate": 5e-324, "backlog": 10**9},
    ],
)
def test_the_function_refuses_what_the_command_does(wrong: dict[str, Any]) -> None:
    """From Python too, a number that means nothing is an InputError that says so."""
    question: dict[str, Any] = {"backlog": 1, "arrival_rate": 0.0, "completion_rate": 2.0}
    with pytest.raises(InputError, match=r"^expected "):
        estimate_drain(**{**question, **wrong})


def test_an_estimate_cannot_be_changed() -> None:
    """Who holds an answer holds it as it was given."""
    estimate = estimate_drain(backlog=1, arrival_rate=0.0, completion_rate=1.0)
    assert isinstance(estimate, DrainEstimate)
    with pytest.raises(AttributeError):
        estimate.never = True  # type: ignore[misc]
