"""The database's own vital signs as they were captured."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from jobplaybook.dialects import bytewise, micros
from jobplaybook.tables import vitals


def samples() -> sa.Select[Any]:
    """Return every sign, the first sample first: taken_at, name, subject, value."""
    sign = vitals.c
    taken = micros(sign.taken_at)
    return sa.select(taken.label("taken_at"), sign.name, sign.subject, sign.value).order_by(
        taken, bytewise(sign.name), bytewise(sign.subject)
    )
