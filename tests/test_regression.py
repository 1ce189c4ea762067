"""Every notebook on every data set, each once: it completes, and no number moves unseen."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import jobplaybook as jp
from jobplaybook.notebooks.result import RunResult
from tests.conftest import REPOSITORY
from tests.stored_results import STORED, differences, lasting, stored

NAMES = [path.stem for path in sorted((REPOSITORY / "notebooks").glob("*.ipynb"))]
each = pytest.mark.parametrize("name", NAMES)
Runs = Callable[[str], Mapping[str, RunResult]]


@pytest.fixture(scope="module")
def runs(recording: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Run all notebooks on a data set, once for all tests: a snapshot or a live database."""

    @functools.cache
    def run(data: str) -> Mapping[str, RunResult]:
        folder = tmp_path_factory.mktemp(data)
        samples = {"sample": "sample", "healthy": str(jp.sample_path("healthy"))}
        source = samples[data] if data in samples else recording(data)
        ended = jp.run_all(source, folder=folder)
        return {ran.output.stem: ran for ran in ended}

    return run


@each
def test_the_result_is_the_stored_one(name: str, runs: Runs) -> None:
    """On the sample, every number is what it was; `python -m tests.stored_results` renews it."""
    ran = runs("sample")[name]
    assert (ran.status, ran.message) == ("completed", "")
    found = lasting(json.loads(ran.result.read_text()))
    assert differences(stored(name), found) == []


def test_nothing_is_stored_of_a_notebook_that_is_gone() -> None:
    """Each stored result has its notebook."""
    assert sorted(path.stem for path in STORED.glob("*.json")) == NAMES


def numbers(document: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all numbers in a document."""
    if isinstance(document, bool):
        return []
    if isinstance(document, int | float):
        return [where]
    parts = document.items() if isinstance(document, dict) else (
        enumerate(document) if isinstance(document, list) else ()
    )  # fmt: skip
    return [place for name, part in parts for place in numbers(part, (*where, name))]


@each
def test_each_changed_number_is_seen(name: str) -> None:
    """The comparison bites: any number that moves by a thousandth is a difference, alone."""
    whole = stored(name)
    places = numbers(whole)
    assert len(places) > 10
    for *path, last in places:
        changed = copy.deepcopy(whole)
        part = functools.reduce(lambda found, step: found[step], path, changed)
        part[last] = part[last] + 1 if isinstance(part[last], int) else part[last] * 1.001 + 0.001
        assert len(differences(whole, changed)) == 1, (path, last)


def test_what_is_gone_or_new_is_seen() -> None:
    """A missing name, another type and a shorter list are differences too."""
    assert differences({"a": 1, "b": 2}, {"a": 1}) == ["b: stored 2, found 'nothing'"]
    assert differences({"a": 1}, {"a": 1.0}) == ["a: stored 1, found 1.0"]
    assert differences({"a": [1]}, {"a": []}) == ["a: stored [1], found []"]


@each
@pytest.mark.parametrize("data", ["sample", "healthy"])
def test_it_comes_to_the_verdict_of_triage(name: str, data: str, runs: Runs) -> None:
    """On the incident and on its healthy twin, and without a word on stderr."""
    ran = runs(data)[name]
    assert (ran.status, ran.message) == ("completed", "")
    source = "sample" if data == "sample" else str(jp.sample_path("healthy"))
    assert ran.document["result"]["verdict"]["code"] == jp.triage(source).verdict.code
    outputs = [o for cell in cells(ran.output) for o in cell.get("outputs", ())]
    assert not [output for output in outputs if output.get("name") == "stderr"]


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


@each
@pytest.mark.parametrize("data", ["after_kill", "final"])
def test_it_runs_on_a_live_database(name: str, data: str, runs: Runs) -> None:
    """Captured once from PostgreSQL, with jobs that wait or that are dead, it completes."""
    ran = runs(data)[name]
    assert (ran.status, ran.message) == ("completed", "")
    assert sum(ran.document["result"]["counts"].values()) > 100
    hashes = {other.document["snapshot"]["content_sha256"] for other in runs(data).values()}
    assert len(hashes) == 1
