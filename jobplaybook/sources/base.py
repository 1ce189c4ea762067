"""What a source is: a queue system's own tables, told in canonical SELECTs.

A source never connects. It recognises its tables in a `Catalog`, says which facts they hold and
how far each can be trusted, and returns the statements that a capture runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.errors import InputError, SchemaError
from jobplaybook.model import Fact, Quality
from jobplaybook.units import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """One table or view as the catalogue shows it."""

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
        if self.estimated_rows < 0:
            return "never analysed"
        return f"about {self.estimated_rows:,} rows"


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables of a database that any source might know, by schema and name."""

    dialect: str
    tables: tuple[TableInfo, ...]

    @classmethod
    def of(cls, dialect: str, rows: Iterable[Sequence[Any]]) -> Catalog:
        """Build it from the rows of `jobplaybook.dialects.catalogue`."""
        grouped: dict[tuple[str, str], list[Sequence[Any]]] = {}
        for row in rows:
            grouped.setdefault((row[0], row[1]), []).append(row)
        return cls(dialect, tuple(_table_info(key, group) for key, group in grouped.items()))

    def schemas_of(self, table: str) -> list[TableInfo]:
        """Return the tables of this name, those on the search path first."""
        found = [info for info in self.tables if info.name == table]
        return sorted(found, key=lambda t: (t.path_rank is None, t.path_rank or 0, t.schema))

    def get(self, schema: str, table: str) -> TableInfo | None:
        """Return one table, or None."""
        return next((t for t in self.tables if (t.schema, t.name) == (schema, table)), None)


def _table_info(key: tuple[str, str], rows: list[Sequence[Any]]) -> TableInfo:
    first = rows[0]
    return TableInfo(
        schema=key[0],
        name=key[1],
        columns={row[2]: row[3] for row in rows},
        indexed=frozenset(row[2] for row in rows if row[4]),
        partly_indexed=frozenset(row[2] for row in rows if row[5]),
        path_rank=first[6],
        row_security=bool(first[7]),
        unlogged=bool(first[8]),
        estimated_rows=int(first[9] if first[9] is not None else -1),
        readable=bool(first[10]),
        writable=bool(first[11]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A queue system found in a database: where its tables are, and which version."""

    schema: str
    version: str
    tables: Mapping[str, TableInfo]
    dialect: str
    warnings: tuple[str, ...] = ()
    not_read: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the user says about the tables.

    Parameters
    ----------
    lease_seconds : float, optional
        Overrides the system's own expiry rule.
    tenant_path, key_path : tuple of str
        Where the payload holds the tenant and the business key: a column, then JSON steps.
        Only these fields of a payload are ever read.
    """

    lease_seconds: float | None = None
    tenant_path: tuple[str, ...] = ()
    key_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The canonical SELECTs of one database; every time in them is integer microseconds UTC.

    Parameters
    ----------
    jobs : Select
        Column ``key`` (the row's immutable key in its own type), then columns of the canonical
        table ``jobs``; no WHERE. ``read_at`` is the database's clock in the same statement.
        It may end with `ONLY_ATTEMPT`: the owner and outcome of the attempt of a job that ran
        once and ended with it, else NULL; most jobs do, and are then not asked for attempts.
    key : ColumnElement
        The immutable key that chunks go along; ``key_type`` is its type.
    running, unfinished : ColumnElement
        Conditions on ``jobs``: held by a worker; anything not finished.
    indexed : ColumnElement, optional
        ``unfinished`` as the system's own partial index on the key has it, so that it serves.
    history : Select
        Rows that tell of ends, whatever they are in this system: ``key_columns`` (labelled
        ``k0`` ...), ``job`` (a job's key), ``seen`` (when the row was written, or NULL) and
        ``ended`` (the same where the row is an end, else NULL); no WHERE.
    history_key : tuple of ColumnElement
        The immutable key that grows with time: newest first is its descending order.
    by_job : Mapping
        Canonical table to its columns for the jobs in the list bind ``ids``: attempts and more.
    needs : tuple of (str, str)
        Tables and the columns an index of theirs has to start with, or chunks scan them.
    small : Mapping
        Whole tables that are small by nature: workers, windows, queues and the like.
    """

    jobs: sa.Select[Any]
    key: ColumnElement[Any]
    key_type: type[sa.types.TypeEngine[Any]]
    running: ColumnElement[bool]
    unfinished: ColumnElement[bool]
    history: sa.Select[Any]
    history_key: tuple[ColumnElement[Any], ...]
    by_job: Mapping[str, sa.Select[Any]]
    needs: tuple[tuple[str, str], ...] = ()
    small: Mapping[str, sa.Select[Any]] = field(default_factory=dict)
    indexed: ColumnElement[bool] | None = None


ONLY_ATTEMPT = ("only_owner", "only_outcome")
"""Last columns of a jobs statement that carries the attempt of a job that ran only once."""


class Source(ABC):
    """One queue system. Its signature names the tables and columns that must be there."""

    name: ClassVar[str]
    versions: ClassVar[tuple[tuple[str, str], ...]]
    """Pairs of a version range and how it was verified: ``run`` or ``source``."""
    signature: ClassVar[Mapping[str, tuple[str, ...]]]
    """Required tables, the job table first, with their required columns."""
    optional: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    dialects: ClassVar[tuple[str, ...]] = ("postgresql",)
    default_schema: ClassVar[str | None] = None
    facts: ClassVar[tuple[Fact, ...]]
    sweeper: ClassVar[str | None] = None
    """Who takes an expired lease back, in words; None: nobody."""

    @property
    def job_table(self) -> str:
        """The table that holds the jobs."""
        return next(iter(self.signature))

    def detect(self, catalog: Catalog) -> Detected | None:
        """Return where this system's tables are, or None when there is no job table of its name.

        Raises
        ------
        SchemaError
            If the job table is there but a needed table or column is not.
        """
        found = self.candidates(catalog)
        if not found or catalog.dialect not in self.dialects:
            return None
        chosen = found[0]
        tables = {chosen.name: chosen}
        for name in (*self.signature, *self.optional):
            info = catalog.get(chosen.schema, name)
            if info is not None:
                tables[name] = info
        self._check(chosen.schema, tables)
        return Detected(
            schema=chosen.schema,
            version=self.version(tables),
            tables=tables,
            dialect=catalog.dialect,
            warnings=self._warnings(found, tables),
            not_read={**_hidden(tables), **self._not_read(tables)},
        )

    def candidates(self, catalog: Catalog) -> list[TableInfo]:
        """Return the tables that may be this system's job table, the likeliest first."""
        found = catalog.schemas_of(self.job_table)
        if self.default_schema is not None and catalog.dialect == "postgresql":
            return [table for table in found if table.schema == self.default_schema]
        return found

    def version(self, tables: Mapping[str, TableInfo]) -> str:
        """Return the version as far as the tables tell it."""
        return self.versions[0][0]

    def _check(self, schema: str, tables: Mapping[str, TableInfo]) -> None:
        for name, columns in self.signature.items():
            if name not in tables:
                raise SchemaError(
                    f"expected {self.name}'s table {schema}.{name}, found none that this role may "
                    f"see: is it another version ({self.versions[0][0]} is understood), or does "
                    "the role lack USAGE?"
                )
            missing = [column for column in columns if column not in tables[name].columns]
            if missing:
                raise SchemaError(
                    f"expected {schema}.{name} to have the column {shown(missing[0])}, found "
                    f"none: {self.name} {self.versions[0][0]} is understood; describe changed "
                    "tables need another version of jobplaybook"
                )

    def _warnings(self, found: list[TableInfo], tables: Mapping[str, TableInfo]) -> tuple[str, ...]:
        said = []
        if len(found) > 1:
            others = ", ".join(shown(table.schema) for table in found[1:])
            said.append(
                f"{self.name} tables stand in several schemas: read {shown(found[0].schema)}, "
                f"not {others}"
            )
        for name, info in tables.items():
            if not info.readable:
                said.append(f"the role may not read {name}: GRANT SELECT on it")
            if info.row_security:
                said.append(f"row security is active on {name}: rows may be hidden from this role")
        return tuple(said)

    def facts_with(self, options: ReadOptions) -> list[Fact]:
        """Return the facts, with those that the user's payload paths make exact."""
        given = {"tenant": options.tenant_path, "idempotency_key": options.key_path}
        return [
            replace(
                fact,
                quality=Quality.EXACT,
                note="read from the payload at " + ".".join(given[fact.fact]),
            )
            if given.get(fact.fact)
            else fact
            for fact in self.facts
        ]

    def _not_read(self, tables: Mapping[str, TableInfo]) -> Mapping[str, str]:
        """Return what these tables may hold and this version would not find, and why."""
        return {}

    @abstractmethod
    def statements(self, found: Detected, options: ReadOptions) -> Statements:
        """Return the canonical SELECTs for the tables that were found."""

    def advice(self, owner_jobs: Mapping[str, Sequence[str]], schema: str) -> str | None:
        """Return the system's own statement that frees jobs of dead owners: to be copied."""
        return None


def _hidden(tables: Mapping[str, TableInfo]) -> dict[str, str]:
    """Return what row security may hide: a verdict on the rest would be a guess."""
    names = ", ".join(name for name, info in tables.items() if info.row_security)
    why = f"row security is active on {names}: rows may be hidden from this role"
    return {"jobs": why} if names else {}


def choose(
    sources: Sequence[Source], catalog: Catalog, system: str | None
) -> tuple[Source, Detected]:
    """Return the one queue system that the database holds, or the one that was named.

    Raises
    ------
    InputError
        If none is found, several are, or the named one is unknown.
    SchemaError
        If its tables are not what they should be.
    """
    from difflib import get_close_matches

    names = [source.name for source in sources]
    if system is not None and system not in names:
        near = get_close_matches(system, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
        raise InputError(f"expected a known queue system, found {shown(system)}: {hint}")
    wanted = [source for source in sources if system in (None, source.name)]
    found = [(source, hit) for source in wanted if (hit := source.detect(catalog)) is not None]
    if len(found) == 1:
        return found[0]
    looked = ", ".join(f"{s.job_table} ({s.name})" for s in wanted)
    if not found:
        raise SchemaError(
            f"expected the tables of a known queue system, found none that this role may see; "
            f"looked for {looked}"
        )
    both = " and ".join(source.name for source, _ in found)
    raise InputError(f"expected one queue system, found {both}: choose with --system NAME")


def payload_text(
    columns: Mapping[str, ColumnElement[Any]], path: Sequence[str], *, option: str
) -> ColumnElement[Any] | None:
    """Return the text at a path such as ``("args", "tenant")``, or None for an empty path.

    Raises
    ------
    InputError
        If the first step is no column that may hold a payload.
    """
    from jobplaybook.dialects import json_path_text

    if not path:
        return None
    if path[0] not in columns:
        known = ", ".join(columns)
        raise InputError(
            f"expected {option} to begin with a payload column ({known}), found {shown(path[0])}"
        )
    column = columns[path[0]]
    if len(path) == 1:
        return sa.cast(column, sa.Text)
    steps = [sa.bindparam(None, step, type_=sa.Text) for step in path[1:]]
    return json_path_text(column, *steps)
