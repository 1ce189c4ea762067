"""Whom a capture reads as, and where: more rights than to read are said, and so is a standby."""

from __future__ import annotations

from jobplaybook.connect import Reader
from jobplaybook.dialects import REPLAY_LAG, SUPERUSER
from jobplaybook.errors import UnsafeAction
from jobplaybook.sources.base import Detected
from jobplaybook.units import duration_text


def role_warnings(reader: Reader, found: Detected, *, refuse: bool) -> list[str]:
    """Return a warning where the role may do more than read the queue's tables.

    Raises
    ------
    UnsafeAction
        If it may and ``refuse`` is set.
    """
    may_write = [name for name, table in found.tables.items() if table.writable]
    superuser = reader.dialect == "postgresql" and reader.scalar(SUPERUSER)
    if not superuser and not may_write:
        return []
    what = "is a superuser" if superuser else f"may write {', '.join(sorted(may_write))}"
    if refuse:
        raise UnsafeAction(
            f"expected a role that may only read, found one that {what}: "
            "use a role with SELECT on the queue's tables"
        )
    return [f"the role {what}: a role with SELECT alone is enough and safer"]


def standby_warnings(reader: Reader) -> list[str]:
    """Return a warning where the database is a standby: it shows a moment that has passed."""
    lag = reader.scalar(REPLAY_LAG) if reader.dialect == "postgresql" else None
    if lag is None:
        return []
    return [
        f"read from a standby, {duration_text(float(lag))} behind its primary: everything is as of "
        "the last transaction that it replayed"
    ]
