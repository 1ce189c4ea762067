"""Scenarios: read strictly from TOML, measured from snapshots, refused where they make no sense."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import jobplaybook
from jobplaybook import InputError
from jobplaybook.simulation import EXAMPLE, Scenario, scenario, simulate
from jobplaybook.simulation.reading import key_of
from jobplaybook.simulation.scenario import Arrivals, Failures, JobClass, Service
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS
from tests.canonical import NOW, ago, attempt, job, snapshot_of
from tests.simulated import constant, one_class

NOTHING: Any = None
SMALL = 'workers = 2\n[[classes]]\nservice = { mean = "2s" }\n'


def written_out() -> str:
    """Return the example with every line that it only shows made a real one."""
    return re.sub(r"(?m)^# (?=\[|\w+ = )", "", EXAMPLE)


def test_the_example_is_a_scenario() -> None:
    """What `simulate --example` prints can be read, and says what it means."""
    read = Scenario.from_toml(EXAMPLE)
    (mail,) = read.classes
    assert (read.workers, read.horizon_seconds, mail.backlog) == (20, 86_400.0, 10_000)
    assert mail.arrivals.rate == 2.0
    assert (mail.service.law, mail.service.mean_seconds) == ("exponential", 5.0)
    assert (mail.failures.retryable, mail.retries.max_attempts) == (0.2, 3)


def test_every_line_of_the_example_is_true() -> None:
    """Its commented lines are keys too, and a scenario with all of them is played to its end."""
    everything = Scenario.from_toml(written_out())
    assert everything.lease is not None
    assert everything.crashes is not None
    assert len(everything.features()) >= 18
    short = written_out().replace('horizon = "24h"', 'horizon = "20m"')
    answer = simulate(Scenario.from_toml(short), replications=1)
    assert answer.engine == "event-loop"


def keys_of(kind: Any) -> Iterator[str]:
    for item in fields(kind):
        yield key_of(item)
        inner = item.metadata["kind"]
        inner = inner[0] if isinstance(inner, tuple) else inner
        if is_dataclass(inner):
            yield from keys_of(inner)


def test_the_example_knows_every_key() -> None:
    """No field of a scenario is left out of the example."""
    missing = {key for key in keys_of(Scenario) if not re.search(rf"\b{key}\b", EXAMPLE)}
    assert missing == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workerz = 2", "unknown key 'workerz': did you mean workers?"),
        ("zzz = 2", "unknown key 'zzz': expected one of classes, workers,"),
        ("workers = 2", "classes: expected a list of tables, found none"),
        ("workers = 2\nclasses = 3", "classes: expected a list of tables, found '3'"),
        ("workers = 2\nclasses = [3]", r"classes\[0\].expected a table, found '3'"),
        (SMALL.replace("2\n", "2.5\n", 1), "workers: expected a whole number not below 0, found"),
        (SMALL.replace("2\n", "-1\n", 1), "workers: expected a whole number not below 0, found"),
        (SMALL.replace("2\n", "true\n", 1), "workers: expected a whole number not below 0, found"),
        (SMALL.replace('"2s"', "nan"), r"classes\[0\].service.mean: expected a duration like"),
        (SMALL.replace('"2s"', "-1"), r"classes\[0\].service.mean: expected a duration like"),
        (SMALL.replace('"2s"', '"2 parsecs"'), r"classes\[0\].service.mean: expected a duration"),
        (SMALL.replace('"2s"', "0"), r"service.mean: expected a duration above 0, found 0"),
        (SMALL.replace("mean", "meen"), r"classes\[0\].service.unknown key 'meen': did you mean"),
        (SMALL + "failures = { retryable = 1.5 }", "retryable: expected a share from 0 to 1"),
        (
            SMALL + "failures = { retryable = 0.6, permanent = 0.6 }",
            "retryable: expected shares of at most 1 together, found more",
        ),
        (SMALL + 'arrivals = { rate = "2" }', "arrivals.rate: expected a rate like"),
        (SMALL + "arrivals = { burst = 2 }", "burst: expected with every"),
        (SMALL + "arrivals = { trace = [-1] }", "trace: expected a list of durations"),
        (SMALL + 'arrivals = { trace = "1s" }', "trace: expected a list of durations"),
        (SMALL + 'retries = { backoff = "fast" }', "backoff: expected one of none, exponential,"),
        (SMALL + 'name = ""', "name: expected a name in quotes, found"),
        (SMALL + "contention = 1", "contention: expected true or false, found '1'"),
        ('horizon = "0s"\n' + SMALL, "horizon: expected a duration above 0"),
        ("horizon = inf\n" + SMALL, "horizon: expected a duration like"),
        (SMALL + '[crashes]\nrate = "1/h"', "crashes: expected a lease too, found none"),
        (SMALL + "[quota]\nburst = 2", "quota.rate: expected a rate like"),
    ],
)
def test_a_bad_scenario_is_refused_in_one_line(text: str, message: str) -> None:
    """Where, what was expected and what was found; an unknown key names the nearest."""
    with pytest.raises(InputError, match=message) as caught:
        Scenario.from_toml(text)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """A folder, bytes that are no text, and no file at all."""
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, message in (("", "cannot be read"), ("bytes.toml", "TOML"), ("no", "No such file")):
        with pytest.raises(InputError, match=message):
            Scenario.from_toml(tmp_path / name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Service(mean_seconds=math.nan), "mean: expected a duration"),
        (lambda: Service(law="empirical"), "values: expected with the law"),
        (lambda: Service(law="empirical", values_seconds=(0.0,)), "values: expected durations"),
        (lambda: Service(mean_seconds=math.inf), "mean: expected a duration"),
        (lambda: Arrivals(every_seconds=0.0, burst=1), "burst: expected with every"),
        (lambda: Failures(retryable=-0.1), "retryable: expected a share"),
        (lambda: JobClass(service=NOTHING), "service: expected a table, found 'None'"),
        (lambda: Scenario(classes=(), workers=1), "classes: expected at least one"),
        (lambda: Scenario(classes=(NOTHING,), workers=1), "classes: expected a list of tables"),
    ],
)
def test_python_is_checked_like_toml(make: Any, message: str) -> None:
    """An object that cannot be is refused when it is made."""
    with pytest.raises(InputError, match=message):
        make()


def test_a_scenario_is_a_value() -> None:
    """Frozen, compared by value, and carried to other processes."""
    read = Scenario.from_toml(EXAMPLE)
    assert pickle.loads(pickle.dumps(read)) == read == Scenario.from_toml(EXAMPLE)  # noqa: S301
    with pytest.raises(FrozenInstanceError):
        read.workers = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        scenario.Quota(3.0)  # type: ignore[call-arg]


def test_time_buckets_are_round() -> None:
    """At most 240 of them, unless a width is given."""
    day = one_class(horizon_seconds=86_400.0, service=constant(1.0))
    assert day.width_seconds == 600.0
    ages = one_class(horizon_seconds=1e9, service=constant(1.0))
    assert ages.width_seconds == 1e9 / 240
    assert one_class(bucket_seconds=7.0, service=constant(1.0)).width_seconds == 7.0


# Measured


@pytest.fixture(scope="module")
def sample() -> Iterator[Snapshot]:
    with jobplaybook.open_snapshot("sample") as snapshot:
        yield snapshot


def test_a_queue_is_measured_where_the_facts_allow(sample: Snapshot) -> None:
    """Backlog, arrivals and service times are the snapshot's own; capacity is given."""
    measured = Scenario.from_snapshot(sample, queue="mail", workers=3)
    (mail,) = measured.classes
    pulse = jobplaybook.health(sample, queue="mail").queues[0]
    assert (mail.name, mail.backlog, measured.workers) == ("mail", pulse.claimable, 3)
    assert mail.arrivals.rate == pulse.arrival_rate
    assert len(mail.parked_seconds) == 1
    assert mail.service.law == "empirical"
    assert len(mail.service.values_seconds) > 500
    assert min(mail.service.values_seconds) > 0
    answer = simulate(measured, replications=3)
    assert answer.engine == "event-loop"


def test_a_capacity_that_nobody_saw_is_not_guessed(sample: Snapshot) -> None:
    """A queue without a backlog does not show what it could do: it has to be given."""
    with pytest.raises(InputError, match=r"capacity unknown.*give workers=N"):
        Scenario.from_snapshot(sample)
    with pytest.raises(InputError, match="did you mean 'mail'"):
        Scenario.from_snapshot(sample, queue="mial", workers=3)


def test_too_few_attempts_are_no_service_time(sample: Snapshot) -> None:
    """A second's worth of attempts says nothing of how long they take."""
    with pytest.raises(InputError, match="service times unknown: expected 20"):
        Scenario.from_snapshot(sample, workers=3, since_seconds=0.001)


def ran(of: str, number: int, outcome: str, ended: int, *, seconds: int) -> dict[str, Any]:
    began = ended - seconds * MICROS
    row: dict[str, Any] = attempt(of, number, outcome, started_at=began, ended_at=ended)
    return row


def saturated() -> dict[str, list[dict[str, Any]]]:
    """Return a queue with 60 jobs waiting for 20 minutes, two at work, every fifth try failing."""
    wait: dict[str, Any] = {"created_at": ago(1_200), "available_at": ago(1_200)}
    jobs = [job(f"w{n}", max_attempts=4, **wait) for n in range(60)]
    jobs += [job(f"p{n}", available_at=NOW + (n + 1) * 30 * MICROS) for n in range(2)]
    jobs += [job(f"r{n}", "processing", claimed_at=ago(3), **wait) for n in range(2)]
    attempts = []
    for n in range(40):
        ended = ago(10 + 20 * n)
        jobs.append(job(f"d{n}", "completed", finished_at=ended, attempts=1, **wait))
        attempts.append(ran(f"d{n}", 2, "succeeded", ended, seconds=5))
        if n % 4 == 0:
            attempts.append(ran(f"d{n}", 1, "failed", ended - 7 * MICROS, seconds=2))
    return {"jobs": jobs, "attempts": attempts}


def test_a_saturated_queue_shows_everything(tmp_path: Path) -> None:
    """Workers from what runs, failures and their own times from attempts, parked ones by due."""
    with snapshot_of(tmp_path, saturated()) as snapshot:
        measured = Scenario.from_snapshot(snapshot, horizon_seconds=7_200.0)
    (kind,) = measured.classes
    assert (measured.workers, kind.backlog, kind.parked_seconds) == (2, 60, (30.0, 60.0))
    assert kind.service.values_seconds == (5.0,) * 40
    assert kind.failures.service == Service(law="empirical", values_seconds=(2.0,) * 10)
    assert kind.failures.retryable == 0.2
    assert kind.retries.max_attempts == 4
    assert kind.backlog_age_seconds == 1_200.0


def test_attempts_that_nobody_recorded_are_not_guessed(tmp_path: Path) -> None:
    """Where tries fail and the system keeps no limit, the limit has to be given."""
    rows = saturated()
    for row in rows["jobs"]:
        row.pop("max_attempts", None)
    with snapshot_of(tmp_path, rows) as snapshot:
        with pytest.raises(InputError, match=r"attempts unknown.*give max_attempts=N"):
            Scenario.from_snapshot(snapshot)
        assert Scenario.from_snapshot(snapshot, max_attempts=7).classes[0].retries.max_attempts == 7
