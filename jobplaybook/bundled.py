"""The files that travel with the package: notebooks, runbooks and sample data."""

from __future__ import annotations

from pathlib import Path

from jobplaybook.errors import InputError

_PACKAGE = Path(__file__).parent


def bundled_path(name: str) -> Path:
    """Return the path of a bundled file or folder, such as ``runbooks/lease-expired.md``.

    A wheel carries them inside the package; a checkout has them beside it.

    Raises
    ------
    InputError
        If there is no such file in this installation.
    """
    for root in (_PACKAGE / "_bundled", _PACKAGE.parent):
        if (root / name).exists():
            return root / name
    raise InputError(f"expected {name} to be part of this installation, found none: reinstall it")
