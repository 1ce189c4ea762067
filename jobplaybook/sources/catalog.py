"""What a database's catalogue shows of a queue system's tables, and how far this role sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table or view as the catalogue shows it: columns by type, which of them begin an index.

    ``path_rank`` is the schema's place on the search path; -1 estimated rows: never analysed.
    """

    schema: str
    name: str
    columns: Mapping[str, str]
    indexed: frozenset[str]
    partly_indexed: frozenset[str]
    path_rank: int | None
    row_security: bool
    unlogged: bool
    estimated_rows: int
    readable: bool
    writable: bool

    @property
    def size_text(self) -> str:
        """How large it is, as far as the planner's statistics tell."""
        known = self.estimated_rows >= 0
        return f"about {self.estimated_rows:,} rows" if known else "never analysed"


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables of a database that any source might know, by schema and name."""

    dialect: str
    tables: tuple[TableInfo, ...]

    @classmethod
    def of(cls, dialect: str, rows: Iterable[Sequence[Any]]) -> Catalog:
        """Build it from the rows of `jobplaybook.dialects.catalogue`, which come table by table."""
        tables = (list(group) for _, group in groupby(rows, itemgetter(0, 1)))
        return cls(dialect, tuple(_table_info(table) for table in tables))

    def schemas_of(self, table: str) -> list[TableInfo]:
        """Return the tables of this name, those on the search path first."""
        found = [info for info in self.tables if info.name == table]
        return sorted(found, key=lambda t: (t.path_rank is None, t.path_rank or 0, t.schema))


def _table_info(rows: Sequence[Sequence[Any]]) -> TableInfo:
    (schema, name), table = rows[0][:2], rows[0][6:]
    types = {row[2]: row[3] for row in rows}
    whole, partly = (frozenset(row[2] for row in rows if row[place]) for place in (4, 5))
    return TableInfo(schema, name, types, whole, partly, *table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A queue system found in a database: where its tables are, and which version."""

    schema: str
    version: str
    tables: Mapping[str, TableInfo]
    warnings: tuple[str, ...] = ()
    not_read: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str, **types: Any) -> sa.TableClause:
        """Return a table as SQLAlchemy sees it: its columns are Text, but those of named types."""
        info = self.tables[name]
        columns = (sa.column(column, types.get(column, sa.Text)) for column in info.columns)
        return sa.table(name, *columns, schema=info.schema)


def hidden(tables: Iterable[TableInfo]) -> tuple[list[str], dict[str, str]]:
    """Return warnings of what this role may not see, and what row security leaves unread."""
    said, secured = [], []
    for info in tables:
        if not info.readable:
            said.append(f"the role may not read {info.name}: GRANT SELECT on it")
        if info.row_security:
            said.append(_secured(info.name))
            secured.append(info.name)
    # A verdict on the rows that are left would be a guess.
    return said, {"jobs": _secured(", ".join(secured))} if secured else {}


def _secured(names: str) -> str:
    return f"row security is active on {names}: rows may be hidden from this role"
