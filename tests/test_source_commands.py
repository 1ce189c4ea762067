"""What holds for every command that asks a SOURCE, and for `runbook`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import jobplaybook as jp
from jobplaybook.commands import cli
from tests.canonical import snapshot_of
from tests.small_notebooks import notebook


def ask(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)))


def refusal(*words: str | Path) -> str:
    """Return the one line that a command refuses with."""
    result = ask(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("severity", ["page", "ticket"])
def test_a_verdict_that_is_unknown_meets_fail_on(tmp_path: Path, severity: str) -> None:
    """A script that asks whether all is well never takes "cannot tell" for yes."""
    with snapshot_of(tmp_path, {}) as snapshot:
        result = ask("triage", snapshot.path, "--fail-on", severity, "--json")
        assert json.loads(result.stdout)["verdict"]["code"] == "unknown"
        assert result.exit_code == 1
        assert ask("triage", snapshot.path).exit_code == 0
    assert "verdict is unknown" in " ".join(ask("triage", "--help").stdout.split())


@pytest.mark.parametrize(
    "words",
    [
        ("capture", "env:JOBS_URL", "-o", "sample"),
        ("triage", "env:JOBS_URL", "--keep", "env:OTHER"),
        ("run", "00", "incident.db", "-o", "env:JOBS_URL"),
        ("run", "all", "incident", "-o", "sample"),
        ("postmortem", "incident", "-o", "sample"),
    ],
)
def test_an_output_that_names_a_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Swapped arguments are one line, and no file or folder of that name."""
    monkeypatch.chdir(tmp_path)
    assert "which names a SOURCE" in refusal(*words)
    assert list(tmp_path.iterdir()) == []


def test_a_lease_that_is_asked_for_judges_one_job_as_it_judges_all() -> None:
    """timeline and triage agree on a snapshot whose workers beat less often than its system's."""
    for lease, is_over in (("30s", True), ("120s", False)):
        asked = ("--lease", lease, "--json")
        found = json.loads(ask("triage", "sample", *asked).stdout)["findings"]
        life = json.loads(ask("timeline", "sample", "319", *asked).stdout)
        assert ("lease-expired" in [finding["code"] for finding in found]) == is_over
        assert ("expired" in [event["event"] for event in life["events"]]) == is_over
    held = json.loads(ask("timeline", "sample", "319", "--lease", "120s", "--json").stdout)["job"]
    assert held["locked_until"] == "2026-12-01T04:39:42.150246Z"
    assert "Its lease is over at" in ask("timeline", "sample", "319", "--lease", "120s").stdout


def test_a_lease_does_not_reach_a_notebook(tmp_path: Path) -> None:
    """A notebook opens the snapshot by itself: an option that would do nothing is refused."""
    path = notebook(tmp_path, "1")
    line = refusal("run", path, "sample", "-o", tmp_path / "out.ipynb", "--lease", "120s")
    assert "leave --lease out, or capture again with it" in line
    assert list(tmp_path.iterdir()) == [path]


def test_a_runbook_is_read_without_a_checkout() -> None:
    """The text is the file's own, and a slip of the keyboard is answered with what was meant."""
    text = jp.runbook_path("lease-expired").read_text()
    assert ask("runbook", "lease-expired").stdout == text
    assert json.loads(ask("runbook", "lease-expired", "--json").stdout)["text"] == text
    for code, said in (
        ("lease-expird", "did you mean lease-expired?"),
        ("../README", "no runbook '../README'"),
    ):
        assert said in refusal("runbook", code)
