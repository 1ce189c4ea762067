"""Which jobs a ticket is about: an id, key, tenant, provider id or delivery, as it was written."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from jobplaybook.errors import InputError
from jobplaybook.model import Quality
from jobplaybook.queries import lookup
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.snapshot.redact import KEY_FILE, Redactor, read_key
from jobplaybook.tables import facts
from jobplaybook.units import given, shown

MAX_FOUND = 100
_GET_KEY = f"get {KEY_FILE} from whoever captured it, and name it with --key-file"
_ASKED = {
    "tenant": "tenant",
    "key": "idempotency_key",
    "provider_id": "effects",
    "delivery": "deliveries",
}
"""What is looked for, and the fact without which nothing can be found."""
_PLURALS = {
    "tenant": "tenants",
    "key": "keys",
    "provider_id": "provider ids",
    "delivery": "deliveries",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """One job that a ticket may be about; ages in seconds, None where the time is unknown."""

    id: str
    job_type: str | None
    queue: str | None
    status: str
    state: str
    layer: str
    age_seconds: float | None
    in_state_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer of `find`: how many jobs match, and the newest of them."""

    by: str
    total: int
    jobs: tuple[FoundJob, ...]
    looked_through: str
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook find``."""
        return asdict(self)


def look_up(
    snapshot: Snapshot, by: str, value: str, *, now: int, key_file: Path | None = None
) -> Found:
    """Return the jobs that match, the newest first and at most `MAX_FOUND` of them.

    Raises
    ------
    InputError
        If the snapshot holds hashes and their key is missing or another one.
    """
    statement = lookup.found(by, _as_stored(snapshot, by, given(value, "a value"), key_file), now)
    rows = snapshot.rows(statement)
    names = statement.selected_columns.keys()
    return Found(
        by=by,
        total=len(rows),
        jobs=tuple(FoundJob(**dict(zip(names, row, strict=True))) for row in rows[:MAX_FOUND]),
        looked_through="unfinished jobs and those that ended since "
        + snapshot.meta.get("window_from", "unknown"),
        warnings=(*snapshot.notes, *_blind(snapshot, by)),
    )


def _blind(snapshot: Snapshot, by: str) -> list[str]:
    """Return why "no job found" may mean nothing: what is not recorded, or was not read."""
    absent = (facts.c.fact == _ASKED.get(by)) & (facts.c.quality == Quality.ABSENT.word)
    said = [
        f"cannot tell: {_PLURALS[by]} are not recorded here ({note})"
        for (note,) in snapshot.rows(sa.select(facts.c.note).where(absent).distinct())
    ]
    unread = snapshot.json("not_read") or {}
    return said + [f"not everything was read: {phase}: {why}" for phase, why in unread.items()]


def _as_stored(snapshot: Snapshot, by: str, value: str, key_file: Path | None) -> str:
    key_id = snapshot.meta.get("key_id")
    if by not in ("key", "tenant") or not key_id:
        return value
    redactor = snapshot.redactor
    if redactor is None:
        path = key_file or snapshot.path.parent / KEY_FILE
        if not path.exists():
            raise InputError(
                f"expected a key file at {shown(str(path), 200)}, for this snapshot holds hashes "
                f"instead of a {by}, found none: {_GET_KEY}"
            )
        redactor = Redactor(read_key(path))
    if redactor.key_id != key_id:
        raise InputError(
            f"expected the key {shown(key_id)} that this snapshot was hashed with, found another: "
            + _GET_KEY
        )
    return redactor.hashed(value) or value
