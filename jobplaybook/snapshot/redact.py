"""What a snapshot may hold of people and payloads: hashes by a key that stays outside it."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from jobplaybook.errors import InputError
from jobplaybook.units import shown

HASHED_COLUMNS = ("tenant_id", "idempotency_key", "shard")
"""Columns of ``jobs`` whose values leave the database only as hashes."""

KEY_FILE = "jobplaybook.key"
"""The key's file in the folder of the snapshots, so that they can be compared and searched."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
_TOKEN = re.compile(r"(?:eyJ|sk_|pk_|ghp_|xox|AKIA|Bearer )")
_TOKEN_STARTS = ("eyJ", "xox", "AKIA")
_DIGEST_LENGTH = 20
_REMEMBERED = 10_000


class Redactor:
    """Hashes tenants and keys by HMAC-SHA256; with no key it leaves them as they are.

    Parameters
    ----------
    key : bytes or None
        The secret; None keeps the text.
    new_file : Path, optional
        Where a key that is new still has to be kept.

    Examples
    --------
    >>> Redactor(b"k").hashed("tenant-1")
    '14518ffde79359d0661b'
    >>> Redactor(None).hashed("tenant-1")
    'tenant-1'
    """

    def __init__(self, key: bytes | None, *, new_file: Path | None = None) -> None:
        self._key, self._new_file = key, new_file
        # The key is prepared once: a copy of the keyed state is a third cheaper per text. Tenants
        # come again and again; keys do not, and must not fill the memory.
        keyed = hmac.new(key or b"", digestmod="sha256")
        self._digest = lru_cache(_REMEMBERED)(partial(_digest, keyed))

    def keep(self) -> None:
        """Write a new key to its file; called when there is something to read with it."""
        if self._new_file is not None and self._key is not None:
            keep_key(self._new_file, self._key)
            self._new_file = None

    @property
    def key_id(self) -> str:
        """A name for the key that does not give it away; empty when text was kept."""
        return self._digest("jobplaybook key id")[:12] if self._key is not None else ""

    def hashed(self, text: str | None) -> str | None:
        """Return the text's hash: the same text and key give the same hash."""
        return text if text is None or self._key is None else self._digest(text)

    def rows(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> tuple[list[str], list[list[Any]]]:
        """Return rows of ``jobs`` with what names people hashed, and the keys' shapes noted.

        The rows come back in the order of their first column, the id: that is how they are
        inserted fastest.
        """
        names = [*columns, "key_shape"]
        hide = [names.index(name) for name in HASHED_COLUMNS if name in names]
        key = names.index("idempotency_key") if "idempotency_key" in names else None
        hashed, out = self.hashed, []
        for row in rows:
            new = [*row, None if key is None else key_shape(row[key])]
            for place in hide:
                new[place] = hashed(new[place])
            out.append(new)
        out.sort(key=itemgetter(0))
        return names, out


def _digest(keyed: hmac.HMAC, text: str) -> str:
    state = keyed.copy()
    state.update(text.encode())
    return state.hexdigest()[:_DIGEST_LENGTH]


def key_shape(text: str | None) -> str | None:
    """Return what a key looks like, noted at capture because a hash no longer shows it.

    Examples
    --------
    >>> key_shape("order-17"), key_shape("a@b.example"), key_shape("https://x.example/1")
    ('plain', 'mail', 'url')
    >>> key_shape("4f9d2c1e-0000-4000-8000-000000000000"), key_shape("42"), key_shape("x" * 300)
    ('uuid', 'number', 'long-text')
    """
    if text is None:
        return None
    if len(text) < 36 and text.isalnum() and not text.startswith(_TOKEN_STARTS):
        return "number" if text.isdecimal() else "plain"  # most keys: no search is needed
    shapes = {
        "long-text": len(text) > 200,
        "mail": "@" in text,
        "url": "://" in text,
        "number": text.isdecimal(),
        "uuid": _UUID.fullmatch(text),
        "token": _TOKEN.match(text),
    }
    return next((shape for shape, fits in shapes.items() if fits), "plain")


def read_key(path: Path) -> bytes:
    """Return the key in a file, or refuse what holds none."""
    where = shown(str(path), 200)
    try:
        key = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError):
        raise InputError(
            "expected a key file of hexadecimal digits, found none that can be read at " + where
        ) from None
    if len(key) < 16:
        raise InputError(f"expected at least 16 bytes in the key file {where}")
    return key


def read_or_make_key(path: Path) -> tuple[bytes, bool]:
    """Return the key in a file, or a new one for it; and whether it is new and still to be kept.

    A capture that fails leaves no key behind, so a new key is written by `keep_key` at its end;
    that it can be written is tried out here, before the work.
    """
    if os.path.lexists(path):
        return read_key(path), False
    trial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    _write_new(trial, "", path)
    trial.unlink()
    return secrets.token_bytes(32), True


def keep_key(path: Path, key: bytes) -> None:
    """Write a new key to its file, with mode 0600; refuse where somebody made one meanwhile."""
    _write_new(path, key.hex() + "\n", path)


def _write_new(path: Path, text: str, named: Path) -> None:
    where = shown(str(named), 200)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(
            f"another capture made the key file {where} meanwhile: capture again to use its key"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no such name"
        raise InputError(f"expected to write the key file {where}: {reason}") from None
