"""The built wheel alone gives the whole tool: notebooks, runbooks and sample data included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

BUNDLED = ("notebooks", "runbooks", "sample_data")
NOT_SHIPPED = (".ipynb_checkpoints", "__pycache__")
OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout with what is installed, fetching nothing."""
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "pip", "wheel", *OFFLINE, "-w", str(folder), str(REPOSITORY))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an environment of its own and return that one's folder of programs.

    Its dependencies are those of the environment that runs the tests; jobplaybook itself is not,
    because a path added by a .pth file has its own .pth files ignored, an editable install's too.
    """
    home = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", "--without-pip", str(home))
    python = home / "bin" / "python"
    call(sys.executable, "-m", "pip", "--python", str(python), "install", *OFFLINE, str(wheel))
    site = call(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def call(*command: str, cwd: Path | None = None) -> str:
    """Run a program to its end and return what it wrote; its errors are part of a failure."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def shipped_files(folder: str) -> set[str]:
    files = (path for path in (REPOSITORY / folder).rglob("*") if path.is_file())
    names = {path.relative_to(REPOSITORY).as_posix() for path in files}
    return {name for name in names if not any(part in name for part in NOT_SHIPPED)}


@pytest.mark.parametrize("folder", BUNDLED)
def test_the_wheel_carries_the_folder(wheel: Path, folder: str) -> None:
    """Every file of the folder is in the wheel, and nothing else is."""
    prefix = f"jobplaybook/_bundled/{folder}/"
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(prefix)}
    assert {name.removeprefix("jobplaybook/_bundled/") for name in names} == shipped_files(folder)
    assert names


def test_the_wheel_carries_only_the_package(wheel: Path) -> None:
    """Tests and benchmarks stay in the repository."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"jobplaybook"}


def test_the_demo_runs_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    """Away from the repository, the demo says its verdict and writes its report."""
    python, which = str(installed / "python"), "import jobplaybook; print(jobplaybook.__file__)"
    where = call(python, "-c", which, cwd=tmp_path)
    assert where.startswith(str(installed.parent)), "the installed package is the one that is used"
    program = str(installed / "jobplaybook")
    said = call(program, "demo", cwd=tmp_path)
    report = tmp_path / "jobplaybook-demo" / "report.html"
    assert report.is_file()
    assert "jobplaybook-demo/report.html" in said

    answer = json.loads(call(program, "demo", "--json", cwd=tmp_path))
    assert (tmp_path / answer["report"]).samefile(report)
    verdict = answer["verdict"]
    assert verdict["code"] not in ("healthy", "unknown"), "the sample is an incident"
    first = said.splitlines()[0]
    assert verdict["code"] in first
    assert verdict["layer"] in first
