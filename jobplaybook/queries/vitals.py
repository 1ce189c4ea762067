"""The database's own vital signs as they were captured."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, micros
from jobplaybook.queries import columns
from jobplaybook.tables import vitals


def samples() -> sa.Select[Any]:
    """Return every sign, the first sample first: taken_at, name, subject, value."""
    sign = vitals.c
    order = (micros(sign.taken_at), bytewise(sign.name), bytewise(sign.subject))
    return sa.select(*columns(vitals)).order_by(*order)
