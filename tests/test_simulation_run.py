"""Many runs together: the same on every executor, honest about never, and on the command line."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import termios
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from jobplaybook import InputError
from jobplaybook.simulation import EXAMPLE, Scenario, Simulation, simulate
from jobplaybook.simulation.scenario import Arrivals, JobClass, Quota, Service
from tests.simulated import backlog_case, constant, one_class


def small(**changes: Any) -> Scenario:
    return backlog_case(
        backlog=60, workers=15, horizon_seconds=2_000.0, bucket_seconds=200.0, **changes
    )


@pytest.mark.parametrize(("engine", "replications"), [("buckets", 1_100), ("event-loop", 45)])
def test_a_pool_of_processes_gives_the_same_numbers(engine: str, replications: int) -> None:
    """The same seed gives the same answer on one core, on threads and on processes."""
    scenario = small()
    given: dict[str, Any] = {"replications": replications, "seed": 3, "engine": engine}
    serial = simulate(scenario, **given)
    with ThreadPoolExecutor(2) as threads:
        assert simulate(scenario, executor=threads, **given) == serial
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert simulate(scenario, executor=processes, **given) == serial
    assert simulate(scenario, **(given | {"seed": 4})) != serial


def test_a_dask_cluster_gives_the_same_numbers() -> None:
    """A Dask client's executor is one like any other."""
    distributed = pytest.importorskip("distributed", reason="needs the extra distributed")
    scenario = small()
    serial = simulate(scenario, replications=45, seed=3, engine="event-loop")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        assert serial == simulate(
            scenario, replications=45, seed=3, engine="event-loop", executor=executor
        )


def test_no_mean_where_too_many_never_drain() -> None:
    """Past 5 % of never there is no mean and no p95: infinite here, null in JSON."""
    answer = simulate(
        backlog_case(backlog=200, workers=14, horizon_seconds=900.0), replications=400, seed=1
    )
    assert 0.05 < answer.never_probability < 1
    assert (answer.seconds.p95, answer.seconds.mean) == (math.inf, math.inf)
    drain = answer.to_json()["drain"]
    assert (drain["seconds"]["p95"], drain["seconds"]["mean"]) == (None, None)
    assert drain["seconds"]["p5"] == answer.seconds.p5 < 900
    assert drain["never"] == (answer.never_probability >= 0.5)
    assert "ever" in str(answer)


def test_a_few_that_never_drain_leave_the_mean_of_the_others() -> None:
    """At up to 5 % the mean is of those that drain."""
    answer = simulate(
        backlog_case(horizon_seconds=8_480.0, bucket_seconds=600.0), replications=1_000, seed=1
    )
    assert 0 < answer.never_probability <= 0.05
    assert answer.seconds.mean == pytest.approx(8_137, rel=0.004)


def test_an_engine_refuses_by_name() -> None:
    """The buckets say what they do not understand; auto then takes the loop, and says so."""
    scenario = small(quota=Quota(rate=3.0), service=Service(law="lognormal", mean_seconds=5.0))
    with pytest.raises(InputError, match="do not understand: quota, lognormal service;"):
        simulate(scenario, engine="buckets")
    assert simulate(scenario, replications=2).engine == "event-loop"
    assert simulate(small(), replications=2).engine == "buckets"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"replications": 0}, "1 to 1,000,000 replications, found 0"),
        ({"seed": -1}, "a seed not below 0, found -1"),
        ({"engine": "magic"}, "the engine auto, buckets, event-loop, found 'magic'"),
    ],
)
def test_a_number_out_of_range_is_refused(given: dict[str, int], message: str) -> None:
    """What cannot be is said in one line."""
    with pytest.raises(InputError, match=message):
        simulate(small(), **given)  # type: ignore[arg-type]


def test_the_answer_is_said_to_people() -> None:
    """The text names range, load, dead letters and the engine."""
    said = str(simulate(backlog_case(), replications=500, seed=1)).splitlines()
    assert said[0].startswith("Drained in 2 h 1")
    assert said[-1] == "Engine: buckets, 500 runs, seed 1."
    assert any(line.startswith("Dead letters: ") and "exhausted" in line for line in said)


def test_progress_counts_every_run() -> None:
    """Who listens hears of all replications."""
    heard: list[int] = []
    simulate(small(), replications=45, engine="event-loop", progress=heard.append)
    assert sum(heard) == 45


def test_a_run_without_arrivals_ends() -> None:
    """With nothing to do and nothing to come, it is drained at once and never again looked at."""
    scenario = one_class(service=constant(1.0), arrivals=Arrivals(rate=0.0))
    answer: Simulation = simulate(scenario, replications=3)
    assert (answer.seconds.p50, answer.dead_letters["total"]) == (0.0, 0.0)
    assert math.isnan(answer.attempts_per_job)
    assert answer.to_json()["attempts_per_job"] is None


# The command


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jobplaybook", "simulate", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_the_example_runs_and_answers(tmp_path: Path) -> None:
    """`simulate --example` prints a scenario that `simulate` plays; stderr is empty in a pipe."""
    printed = command("--example")
    assert (printed.returncode, printed.stdout) == (0, EXAMPLE)
    file = tmp_path / "what-if.toml"
    file.write_text(printed.stdout)
    done = command(str(file), "--replications", "100", "--seed", "7", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    expected = simulate(Scenario.from_toml(EXAMPLE), replications=100, seed=7)
    assert answer == json.loads(json.dumps(expected.to_json()))
    keys = {"drain", "attempts_per_job", "upstream_calls", "oldest_age", "dead_letters", "engine"}
    assert keys <= set(answer)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workerz = 1", "unknown key 'workerz': did you mean workers?"),
        ("workers = [", "expected a scenario in TOML"),
        ("", "classes: expected a list of tables, found none"),
    ],
)
def test_a_bad_scenario_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    """Exit 2 and one line on stderr, whatever is wrong with the file."""
    file = tmp_path / "bad.toml"
    file.write_text(text)
    done = command(str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_no_scenario_and_no_file_are_said() -> None:
    """Without a scenario it names the example; without a file it names the file."""
    assert "simulate --example" in command().stderr
    assert "no-such-file" in command("no-such-file").stderr


def test_ctrl_c_ends_it_with_130(tmp_path: Path) -> None:
    """An interrupted simulation says so and leaves with 130."""
    file = tmp_path / "long.toml"
    file.write_text(EXAMPLE)
    words = ["simulate", str(file), "--engine", "event-loop", "--replications", "100000"]
    terminal, stderr = os.openpty()
    termios.tcsetwinsize(stderr, (24, 80))  # without a width nobody draws a bar
    running = subprocess.Popen(
        [sys.executable, "-m", "jobplaybook", *words],
        stderr=stderr,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    os.close(stderr)
    said = b""
    while b"0/100000" not in said:  # the bar is there: it simulates
        said += os.read(terminal, 1_000)
    os.kill(running.pid, signal.SIGINT)
    with contextlib.suppress(OSError):  # a terminal whose other end is closed
        while more := os.read(terminal, 1_000):
            said += more
    os.close(terminal)
    assert running.wait(timeout=60) == 130
    assert said.rstrip().endswith(b"jobplaybook: interrupted")


def test_classes_are_named_once() -> None:
    """Two classes of one name could not be told apart."""
    twice = JobClass(name="a", service=constant(1.0))
    with pytest.raises(InputError, match="classes: expected at least one, each with a name"):
        Scenario(classes=(twice, twice), workers=1)
