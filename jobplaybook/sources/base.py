"""What a source is: a queue system's own tables, told in canonical SELECTs.

A source never connects. It recognises its tables in a `Catalog`, says which facts they hold and
how far each can be trusted, and returns the statements that a capture runs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import product
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.dialects import json_path_text, words
from jobplaybook.errors import InputError, SchemaError
from jobplaybook.model import FACT_STATES, FACTS, Fact, Quality
from jobplaybook.sources.catalog import Catalog, Detected, TableInfo, hidden
from jobplaybook.units import MICROS, shown

Column = ColumnElement[Any]

_SELDOM_KEPT = """
    effects     absent  no ledger of effects
    outbox      absent  no outbox
    deliveries  absent  no record of webhooks
"""
_FACT = re.compile(r" *(\w+)(?:/(live|finished))? +(exact|bound|inferred|absent) +(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the user says about the tables.

    Parameters
    ----------
    lease_seconds : float, optional
        Overrides the system's own expiry rule.
    tenant_path, key_path : tuple of str
        Where the payload holds tenant and business key: a column, then JSON steps; nothing else
        of a payload is read.
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
        Rows that tell of ends, as `history` makes it; no WHERE.
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
    key: Column
    key_type: type[sa.types.TypeEngine[Any]]
    running: ColumnElement[bool]
    unfinished: ColumnElement[bool]
    history: sa.Select[Any]
    history_key: tuple[Column, ...]
    by_job: Mapping[str, sa.Select[Any]] = field(default_factory=dict)
    needs: tuple[tuple[str, str], ...] = ()
    small: Mapping[str, sa.Select[Any]] = field(default_factory=dict)
    indexed: ColumnElement[bool] | None = None


ONLY_ATTEMPT = ("only_owner", "only_outcome")
"""Last columns of a jobs statement that carries the attempt of a job that ran only once."""


class Source(ABC):
    """One queue system: its tables, its facts, its statements."""

    name: ClassVar[str]
    versions: ClassVar[tuple[tuple[str, str], ...]]
    """Pairs of a version range and how it was verified: ``run`` or ``source``."""
    signature: ClassVar[Mapping[str, Sequence[str]]]
    """Required tables, the job table first, with their required columns."""
    optional: ClassVar[Mapping[str, Sequence[str]]] = {}
    dialects: ClassVar[tuple[str, ...]] = ("postgresql",)
    default_schema: ClassVar[str | None] = None
    facts: ClassVar[tuple[Fact, ...]]
    sweeper: ClassVar[str | None] = None
    """Who takes an expired lease back, in words; None: nobody."""
    deletes_ended: ClassVar[str] = ""
    """Why its completed jobs may be gone at once, where its settings allow that."""

    @abstractmethod
    def statements(self, found: Detected, options: ReadOptions) -> Statements:
        """Return the canonical SELECTs for the tables that were found."""

    def candidates(self, catalog: Catalog) -> list[TableInfo]:
        """Return the tables that may be this system's job table, the likeliest first."""
        found = catalog.schemas_of(self.job_table)
        if self.default_schema is not None and catalog.dialect == "postgresql":
            return [table for table in found if table.schema == self.default_schema]
        return found

    def version(self, tables: Mapping[str, TableInfo]) -> str:
        """Return the version as far as the tables tell it."""
        return self.versions[0][0]

    def not_read(self, tables: Mapping[str, TableInfo]) -> Mapping[str, str]:
        """Return what these tables may hold and this version would not find, and why."""
        return {}

    def advice(self, owner_jobs: Mapping[str, Sequence[str]], schema: str) -> str | None:
        """Return the system's own statement that frees jobs of dead owners: to be copied."""
        return None

    def facts_with(self, options: ReadOptions) -> list[Fact]:
        """Return the facts, with those that the user's payload paths make exact."""
        given = {"tenant": options.tenant_path, "idempotency_key": options.key_path}
        return [
            replace(fact, quality=Quality.EXACT, note=f"read from the payload at {'.'.join(path)}")
            if (path := given.get(fact.fact))
            else fact
            for fact in self.facts
        ]

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
        chosen, *others = found
        beside = {table.name: table for table in catalog.tables if table.schema == chosen.schema}
        known = (*self.signature, *self.optional)
        tables = {name: beside[name] for name in known if name in beside}
        self._check(chosen.schema, tables)
        said, unseen = hidden(tables.values())
        if others:
            unread = ", ".join(shown(table.schema) for table in others)
            here = f"read {shown(chosen.schema)}, not {unread}"
            said.insert(0, f"{self.name} tables stand in several schemas: {here}")
        return Detected(
            schema=chosen.schema,
            version=self.version(tables),
            tables=tables,
            warnings=tuple(said),
            not_read={**unseen, **self.not_read(tables)},
        )

    def _check(self, schema: str, tables: Mapping[str, TableInfo]) -> None:
        understood = f"{self.name} {self.versions[0][0]} is understood"
        for name, columns in self.signature.items():
            if name not in tables:
                raise SchemaError(
                    f"expected {self.name}'s table {schema}.{name}, found none that this role may "
                    f"see: is it another version ({understood}), or does the role lack USAGE?"
                )
            for column in columns:
                if column not in tables[name].columns:
                    raise SchemaError(
                        f"expected {schema}.{name} to have the column {shown(column)}, found "
                        f"none: {understood}; another needs another version of jobplaybook"
                    )


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
    names = [source.name for source in sources]
    if system is not None and system not in names:
        near = get_close_matches(system, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
        raise InputError(f"expected a known queue system, found {shown(system)}: {hint}")
    wanted = [source for source in sources if system in (None, source.name)]
    found = [(source, hit) for source in wanted if (hit := source.detect(catalog)) is not None]
    if not found:
        looked = ", ".join(f"{source.job_table} ({source.name})" for source in wanted)
        raise SchemaError(
            f"expected the tables of a known queue system, found none that this role may see; "
            f"looked for {looked}"
        )
    if len(found) > 1:
        both = " and ".join(source.name for source, _ in found)
        raise InputError(f"expected one queue system, found {both}: choose with --system NAME")
    return found[0]


# What sources are written with


def columns_of(text: str) -> dict[str, list[str]]:
    """Return tables with their columns, written ``table: column column`` a line.

    Examples
    --------
    >>> columns_of("events: id at")
    {'events': ['id', 'at']}
    """
    parted = (line.partition(":") for line in _lines(text))
    return {table.strip(): columns.split() for table, _, columns in parted}


def graded(text: str) -> tuple[Fact, ...]:
    r"""Return a facts table, written ``fact grade note`` a line, or ``fact/state grade note``.

    What is seldom kept is absent where it is not named.

    Examples
    --------
    >>> facts = graded("\n".join(f"{name} exact a column" for name in FACTS))
    >>> facts[0]
    Fact(fact='tenant', state='live', quality=<Quality.EXACT: 3>, note='a column')
    """
    grades: dict[tuple[str, str], tuple[Quality, str]] = {}
    for line in _lines(_SELDOM_KEPT + text):
        match = _FACT.fullmatch(line)
        assert match is not None, f"no line of a facts table: {line}"
        fact, only, grade, note = match.groups()
        for state in (only,) if only else FACT_STATES:
            grades[fact, state] = Quality[grade.upper()], note
    return tuple(
        Fact(fact=fact, state=state, quality=grades[fact, state][0], note=grades[fact, state][1])
        for fact, state in product(FACTS, FACT_STATES)
    )


def _lines(text: str) -> list[str]:
    """Return a text's lines; one that is indented further goes on with the one before."""
    return [line for line in re.sub(r"\n {6,}", " ", text).splitlines() if line.strip()]


def named(columns: Mapping[str, Column | None]) -> list[sa.Label[Any]]:
    """Return columns under their canonical names; what this database does not have is None."""
    return [column.label(name) for name, column in columns.items() if column is not None]


def history(*key: Column, job: Column, ended: Column, seen: Column | None = None) -> sa.Select[Any]:
    """Return rows that tell of ends: the key that grows with time, a job's key, when.

    ``ended`` is NULL where the row is no end; ``seen`` is when the row was written, where that is
    known otherwise.
    """
    keys = {f"k{place}": column for place, column in enumerate(key)}
    seen = ended if seen is None else seen
    return sa.select(*named({**keys, "job": job, "seen": seen, "ended": ended}))


def any_of(column: Column, *names: str) -> ColumnElement[bool]:
    """Whether a column, an enum perhaps, is one of the words."""
    return column.in_(words(*names))


def told(column: Column, table: Mapping[str, str]) -> sa.Case[Any]:
    """Return a system's own word as the canonical one; NULL for a word not in the table."""
    return sa.case(
        *((column == words(native)[0], words(word)[0]) for native, word in table.items())
    )


def later(moment: Column, seconds: float) -> Column:
    """Return a moment in microseconds, so many seconds later: the end of a lease."""
    return moment + sa.literal_column(str(int(seconds * MICROS)))


def payload(options: ReadOptions, **columns: Column) -> dict[str, Column]:
    """Return tenant and business key from the payload columns, where the user says their paths.

    Raises
    ------
    InputError
        If the first step of a path is no column that may hold a payload.
    """
    found: dict[str, Column] = {}
    for name, option, path in (
        ("tenant_id", "--tenant-path", options.tenant_path),
        ("idempotency_key", "--key-path", options.key_path),
    ):
        if not path:
            continue
        first, *steps = path
        if first not in columns:
            known = ", ".join(columns)
            raise InputError(
                f"expected {option} to begin with a payload column ({known}), found {shown(first)}"
            )
        binds = (sa.bindparam(None, step, type_=sa.Text) for step in steps)
        whole = sa.cast(columns[first], sa.Text)
        found[name] = json_path_text(columns[first], *binds) if steps else whole
    return found
