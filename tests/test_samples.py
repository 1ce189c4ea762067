"""The bundled incident: its files are what the script makes of the recordings, byte for byte."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from jobplaybook import __version__, api
from sample_data import make_samples
from tests.captures import command_line, files, look, meta
from tests.conftest import RECORDINGS, REPOSITORY

FOLDER = REPOSITORY / "sample_data"
TENANTS = [f"t{number}" for number in range(10)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the script that made the samples."""
    folder = tmp_path_factory.mktemp("samples")
    with contextlib.redirect_stdout(io.StringIO()):
        make_samples.make(folder)
    return folder


def test_the_script_makes_both_samples_and_nothing_else(made: Path) -> None:
    """The key is the samples' own: it is used, and not written beside the copies."""
    assert files(made) == ["healthy.db", "killed.db"]


@pytest.mark.parametrize("name", make_samples.NAMES)
def test_the_committed_sample_is_what_the_script_makes(made: Path, name: str) -> None:
    """Byte for byte: whoever changes a capture makes the samples anew (`make_samples`)."""
    assert meta(FOLDER / f"{name}.db") == meta(made / f"{name}.db")
    assert (FOLDER / f"{name}.db").read_bytes() == (made / f"{name}.db").read_bytes()


@pytest.mark.parametrize("name", make_samples.NAMES)
def test_a_sample_says_where_it_comes_from(name: str) -> None:
    """The moment is the recording's, the version ours, and the hash is right (it opens)."""
    label = json.loads((RECORDINGS / "procrastinate" / f"{name}.label.json").read_text())
    with api.open_snapshot(str(FOLDER / f"{name}.db")) as snapshot:
        assert snapshot.meta["captured_at"] == label["captured_at"].replace("+00:00", "Z")
        assert snapshot.meta["tool_version"] == __version__
        assert snapshot.json("not_read") == {}


@pytest.mark.parametrize("name", make_samples.NAMES)
def test_a_sample_shows_no_tenant_and_no_key(name: str) -> None:
    """Hashed as any snapshot is, with the key beside it so that the examples can look them up."""
    path = FOLDER / f"{name}.db"
    found = {t for (t,) in look(path, "SELECT DISTINCT tenant_id FROM jobs")} - {None}
    assert found
    assert not found & set(TENANTS)
    counts = [api.find(str(path), by="tenant", value=tenant).total for tenant in TENANTS]
    (known,) = look(path, "SELECT count(*) FROM jobs WHERE tenant_id IS NOT NULL")[0]
    assert sum(counts) == known > 800
    assert api.find(str(path), by="key", value="r1").total == 1


def test_the_sample_is_the_incident() -> None:
    """What `triage sample` says first: what, since when, how many, whose, and what to do."""
    done = command_line("triage", "sample")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("PAGE  claimed · lease-expired · since 04:37:42Z")
    verdict = " ".join(done.stdout.split("Runbook:")[0].split())
    assert "4 jobs (3 types, 3 tenants) are held by worker 2, which stopped beating." in verdict
    assert "Nothing sweeps this queue: they will wait for ever." in verdict
    assert "procrastinate_retry_job_v2" in verdict
    assert "runbooks/lease-expired.md" in done.stdout
    assert "As of 2026-12-01T04:38:47" in done.stdout


def test_its_twin_is_healthy() -> None:
    """The same arrivals without the fault: nothing asks for action."""
    answer = api.triage(str(api.sample_path("healthy")))
    assert answer.verdict.code == "healthy"
    assert str(answer).startswith("OK")


def test_the_sample_is_found_by_its_name(tmp_path: Path) -> None:
    """`sample` works from any folder, and the path is public."""
    assert api.sample_path() == api.sample_path("killed")
    done = command_line("find", "sample", "--job", "319", "--json", cwd=tmp_path)
    (job,) = json.loads(done.stdout)["jobs"]
    assert (job["id"], job["status"], job["layer"]) == ("319", "processing", "claimed")
    assert look(api.sample_path(), "PRAGMA quick_check") == [("ok",)]
