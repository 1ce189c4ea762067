"""Keeps the user's own settings out of every test run, that of the notebooks included."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

# What Jupyter, IPython and matplotlib read and write at home; the home may be missing or read-only.
FOLDERS = (
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "MPLCONFIGDIR",
)


def pytest_configure(config: pytest.Config) -> None:
    """Give the run empty folders for its settings, and libpq none but those of its URLs."""
    # A run in the background is started with Ctrl-C ignored, and so would be all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="jobplaybook-settings-"))
    patch = pytest.MonkeyPatch()
    config.add_cleanup(lambda: shutil.rmtree(folder))
    config.add_cleanup(patch.undo)
    for name in FOLDERS:
        patch.setenv(name, str(folder / name.lower()))
    if "DATABASE_URL" not in os.environ:
        for name in [name for name in os.environ if name.startswith("PG")]:
            patch.delenv(name)
