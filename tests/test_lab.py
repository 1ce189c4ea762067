"""`make lab`: JupyterLab with our notebooks, on this machine only, and only with its token."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.test_runner import wait_until

ENVIRONMENT = Path(sys.prefix)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Start what `make lab` starts, without a browser; give what the server says of itself."""
    if shutil.which("make") is None or not (ENVIRONMENT / "bin" / "jupyter-lab").is_file():
        pytest.skip("needs make, and JupyterLab in the environment that runs the tests")
    folder = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--no-browser --ServerApp.port={port} --ServerApp.port_retries=0"
    options += " --allow-root" if os.getuid() == 0 else ""
    words = ["make", f"VENV={ENVIRONMENT}", "-o", f"{ENVIRONMENT}/.installed", "lab"]
    with (folder / "log").open("w") as log, subprocess.Popen(
        [*words, f"LAB={options}"],
        cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True,
        env={**os.environ, "JUPYTER_RUNTIME_DIR": str(folder)},
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: process.poll() is not None or answers(folder))
            assert process.poll() is None, (folder / "log").read_text()
            yield said(folder)
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(folder.glob("jpserver-*.json")).read_text())
    return found


def answers(folder: Path) -> bool:
    try:
        return get(said(folder), "api")[0] == 200
    except (StopIteration, ValueError, OSError):
        return False  # the file is not there yet, or half written, or nobody listens


def get(server: dict[str, Any], path: str, token: str = "") -> tuple[int, Any]:
    """Return a request's status, and its JSON where it was granted."""
    request = urllib.request.Request(f"http://127.0.0.1:{server['port']}/{path}")
    if token:
        request.add_header("Authorization", f"token {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, None


def test_it_shows_the_notebooks_to_who_has_the_token(server: dict[str, Any]) -> None:
    """Every notebook is listed, and the runbooks that they link to can be opened."""
    assert len(server["token"]) >= 32
    status, listing = get(server, "api/contents/notebooks", server["token"])
    assert status == 200
    names = {item["name"] for item in listing["content"]}
    assert {path.name for path in (REPOSITORY / "notebooks").glob("*.ipynb")} <= names
    assert get(server, "api/contents/runbooks/lease-expired.md", server["token"])[0] == 200


@pytest.mark.parametrize("token", ["", "wrong"])
def test_it_refuses_everybody_else(server: dict[str, Any], token: str) -> None:
    """Without the token there is no list, no file and no kernel."""
    for path in ("api/contents/notebooks", "api/kernels", "api/contents/README.md"):
        assert get(server, path, token)[0] == 403, path


def test_it_listens_on_this_machine_only(server: dict[str, Any]) -> None:
    """No other address of this machine answers on its port."""
    assert server["hostname"] == "127.0.0.1"
    with socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", server["port"])) != 0
