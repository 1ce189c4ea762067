"""What the role of a capture may do: reading is enough, and more is said or refused."""

from __future__ import annotations

from jobplaybook.connect import Reader
from jobplaybook.dialects import SUPERUSER
from jobplaybook.errors import UnsafeAction
from jobplaybook.sources.base import Detected


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
