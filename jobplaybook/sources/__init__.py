"""The queue systems that are understood: one module each, found by what the database holds."""

from __future__ import annotations

from jobplaybook.sources.base import Source
from jobplaybook.sources.contract import CONTRACT
from jobplaybook.sources.procrastinate import PROCRASTINATE

SOURCES: tuple[Source, ...] = (CONTRACT, PROCRASTINATE)
"""Every source, in the order in which they are looked for."""
