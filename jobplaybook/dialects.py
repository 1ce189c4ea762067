"""The only file that knows PostgreSQL from SQLite.

The same query runs on both: times leave every query as integer microseconds UTC, lists enter
every query as one bind.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

from jobplaybook.units import to_datetime, to_micros

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 and 9999 begin and end here: what Python and ISO 8601 can write."""


class Micros(sa.types.TypeDecorator[int]):
    """A moment: INTEGER microseconds in SQLite, timestamptz in PostgreSQL; an int in Python."""

    impl = sa.Integer
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Choose the stored type."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        return dialect.type_descriptor(sa.Integer())

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> Any:
        """Hand the database what it stores."""
        if value is None or dialect.name != "postgresql":
            return value
        return to_datetime(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> int | None:
        """Give back microseconds, whatever was stored."""
        return to_micros(value) if isinstance(value, datetime) else value


class _Portable(FunctionElement[Any]):
    """A function that each database is asked for in its own words; ``{0}`` is its argument."""

    inherit_cache = True
    _sqlite = _postgresql = ""

    def _text(self, dialect: str, *clauses: str) -> str:
        return (self._sqlite if dialect == "sqlite" else self._postgresql).format(*clauses)


@compiles(_Portable)
def _render(element: _Portable, compiler: SQLCompiler, **kw: Any) -> str:
    clauses = (compiler.process(clause, **kw) for clause in element.clauses)
    return element._text(compiler.dialect.name, *clauses)


class micros(_Portable):  # noqa: N801 (written like a SQL function)
    """``micros(time)``: a stored moment as integer microseconds UTC, on both databases."""

    type = sa.BigInteger()
    inherit_cache = True
    _sqlite = "({0})"
    # date_part gives a double: its error at today's dates is 0.12 microseconds, so the cast rounds
    # to the exact value. Infinity and the year 290,000 become the year 9999 (or 1): a job that is
    # due then is parked, not due now. A NULL stays one: GREATEST would make it the first.
    _postgresql = (
        "(CASE WHEN {0} IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', {0}),"
        f" {_FIRST_SECOND}), {_LAST_SECOND}) * 1000000 AS BIGINT) END)"
    )


class bytewise(_Portable):  # noqa: N801
    """``bytewise(text)``: text in the order of its bytes, whatever the database's own collation."""

    type = sa.Text()
    inherit_cache = True
    _sqlite = "{0}"
    _postgresql = '({0}) COLLATE "C"'


class database_clock(_Portable):  # noqa: N801
    """The database's own clock when the statement runs, in microseconds UTC."""

    type = sa.BigInteger()
    inherit_cache = True
    _sqlite = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) * 1000 AS INTEGER)"
    # A sub-select is evaluated once a statement, not once a row; clock_timestamp() and never
    # now(), which is the start of the transaction. A standby shows the past: heartbeats there are
    # as old as what it last replayed, and judged by the present every worker would look dead.
    _postgresql = (
        "(SELECT CAST(date_part('epoch', CASE WHEN pg_is_in_recovery()"
        " THEN coalesce(pg_last_xact_replay_timestamp(), clock_timestamp())"
        " ELSE clock_timestamp() END) * 1000000 AS BIGINT))"
    )


class json_path_text(_Portable):  # noqa: N801
    """``json_path_text(column, 'a', 'b')``: the text at a path inside a JSON column."""

    type = sa.Text()
    inherit_cache = True

    def _text(self, dialect: str, *clauses: str) -> str:
        column, *steps = clauses
        if dialect == "postgresql":
            return f"CAST({column} AS JSONB) #>> ARRAY[{', '.join(steps)}]::text[]"
        for step in steps:
            column = f"({column} ->> {step})"
        return f"CAST({column} AS TEXT)"


class listed(_Portable):  # noqa: N801
    """``listed(column, bind)``: the column is one of the values of one list bind."""

    type = sa.Boolean()
    inherit_cache = True

    def _text(self, dialect: str, *clauses: str) -> str:
        column, values = clauses
        if dialect == "sqlite":
            return f"{column} IN (SELECT value FROM json_each({values}))"
        _, bind = self.clauses
        as_text = isinstance(bind.type, ListOf) and bind.type.is_text_literal
        return f"{column} = ANY ({f'CAST({values} AS BIGINT[])' if as_text else values})"


class ListOf(sa.types.TypeDecorator[list[Any]]):
    """The type of a list bind: an array in PostgreSQL, JSON text in SQLite."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, item: type[sa.types.TypeEngine[Any]]) -> None:
        super().__init__()
        self.item = item
        # Whole numbers travel to PostgreSQL as ``{1,2}``, at a third of the cost.
        self.is_text_literal = issubclass(item, sa.Integer)

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Choose how the list travels."""
        if dialect.name == "postgresql" and not self.is_text_literal:
            return dialect.type_descriptor(postgresql.ARRAY(self.item))
        return dialect.type_descriptor(sa.Text())

    def process_bind_param(self, value: list[Any] | None, dialect: sa.Dialect) -> Any:
        """Hand over the list whole."""
        if value is None:
            return None
        if dialect.name == "sqlite":
            return json.dumps(value)
        return "{" + ",".join(map(str, value)) + "}" if self.is_text_literal else value


def words(*names: str) -> list[ColumnElement[str]]:
    """Return status words as untyped literals, so that they also compare with enum columns.

    Only for words written in this package: they enter the statement as they are.
    """
    return [sa.literal_column(f"'{name}'") for name in names]


_CATALOGUE_POSTGRESQL = sa.text(
    """
    SELECT n.nspname, c.relname, a.attname,
           coalesce((SELECT 'enum ' || string_agg(e.enumlabel, ' ' ORDER BY e.enumsortorder)
                       FROM pg_catalog.pg_enum e WHERE e.enumtypid = a.atttypid),
                    format_type(a.atttypid, NULL)),
           EXISTS (SELECT 1 FROM pg_catalog.pg_index i
                    WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
                      AND i.indkey[0] = a.attnum),
           EXISTS (SELECT 1 FROM pg_catalog.pg_index i
                    WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NOT NULL
                      AND i.indkey[0] = a.attnum),
           array_position(current_schemas(false), n.nspname),
           row_security_active(c.oid), c.relpersistence = 'u', c.reltuples::bigint,
           has_table_privilege(c.oid, 'SELECT'),
           has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.relname = ANY (:names) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
       AND n.nspname <> 'information_schema' AND left(n.nspname, 3) <> 'pg_'
       AND has_schema_privilege(n.oid, 'USAGE')
     ORDER BY n.nspname, c.relname, a.attnum
    """
)

_CATALOGUE_SQLITE = sa.text(
    """
    SELECT 'main', m.name, p.name, p.type,
           p.pk = 1 OR EXISTS (SELECT 1 FROM pragma_index_list(m.name) l,
                                             pragma_index_info(l.name) i
                                WHERE l.partial = 0 AND i.seqno = 0 AND i.name = p.name),
           EXISTS (SELECT 1 FROM pragma_index_list(m.name) l, pragma_index_info(l.name) i
                    WHERE l.partial = 1 AND i.seqno = 0 AND i.name = p.name),
           1, 0, 0, -1, 1, 0
      FROM sqlite_schema m, pragma_table_info(m.name) p
     WHERE m.type IN ('table', 'view') AND m.name IN (SELECT value FROM json_each(:names))
     ORDER BY m.name, p.cid
    """
)


def catalogue(dialect: str) -> sa.Executable:
    """Return the statement that looks up tables by name (bind ``names``), a row a column.

    The columns: schema, table, column, type (of an enum its words, after "enum"), whether a whole
    index starts with it, whether a partial one does, place in the search path, row security
    active, unlogged, estimated rows (-1 unknown), may read, may write.
    """
    found = _CATALOGUE_SQLITE if dialect == "sqlite" else _CATALOGUE_POSTGRESQL
    return found.bindparams(sa.bindparam("names", type_=ListOf(sa.Text)))


REPLAY_LAG = sa.text(
    "SELECT CASE WHEN pg_is_in_recovery() THEN"
    " coalesce(date_part('epoch', clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END"
)
"""How many seconds a PostgreSQL standby lies behind; NULL on a primary."""

SUPERUSER = sa.text("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user")
"""Whether the PostgreSQL role of this connection may do anything at all."""


_VITALS_POSTGRESQL = sa.text(
    """
    WITH t AS (
        SELECT relid, relname, n_live_tup, n_dead_tup, n_tup_del, last_autovacuum, seq_scan,
               idx_scan
          FROM pg_catalog.pg_stat_user_tables WHERE schemaname = :schema AND relname = ANY (:names)
    ), i AS (
        SELECT indexrelid, indexrelname, idx_scan
          FROM pg_catalog.pg_stat_user_indexes WHERE relid IN (SELECT relid FROM t)
    ), sees AS (
        SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS yes
    ), a AS (
        -- An own transaction number holds vacuum back as a snapshot does; autovacuum's does not.
        SELECT clock_timestamp() - xact_start AS age,
               greatest(age(backend_xmin), age(backend_xid)) AS behind
          FROM pg_catalog.pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()
           AND backend_type IS DISTINCT FROM 'autovacuum worker'
    )
    SELECT 'table_bytes', relname::text, pg_total_relation_size(relid)::float8 FROM t
    UNION ALL SELECT 'live_rows', relname, n_live_tup FROM t
    UNION ALL SELECT 'dead_rows', relname, n_dead_tup FROM t
    UNION ALL SELECT 'deleted_rows', relname, n_tup_del FROM t
    UNION ALL SELECT 'sequential_scans', relname, seq_scan FROM t
    UNION ALL SELECT 'index_scans', relname, idx_scan FROM t
    UNION ALL SELECT 'last_autovacuum_at', relname,
                     date_part('epoch', last_autovacuum) * 1000000 FROM t
    UNION ALL SELECT 'index_bytes', indexrelname, pg_relation_size(indexrelid) FROM i
    UNION ALL SELECT 'index_uses', indexrelname, idx_scan FROM i
    UNION ALL SELECT 'oldest_transaction_seconds', '',
                     CASE WHEN (SELECT yes FROM sees)
                          THEN coalesce(date_part('epoch', (SELECT max(age) FROM a)), 0) END
    UNION ALL SELECT 'oldest_snapshot_transactions', '',
                     CASE WHEN (SELECT yes FROM sees)
                          THEN coalesce((SELECT max(behind) FROM a), 0) END
    UNION ALL SELECT 'oldest_snapshot_seconds', '',
                     CASE WHEN (SELECT yes FROM sees)
                          THEN coalesce((SELECT date_part('epoch', age) FROM a
                                          WHERE behind IS NOT NULL
                                          ORDER BY behind DESC LIMIT 1), 0) END
    """
)

_VITALS_SQLITE = sa.text(
    """
    SELECT 'file_bytes', '', page_count * page_size FROM pragma_page_count(), pragma_page_size()
    UNION ALL SELECT 'free_pages', '', freelist_count FROM pragma_freelist_count()
    """
)


def vitals(dialect: str) -> sa.Executable:
    """Return the statement for the database's own vital signs: name, subject, value.

    Statistics only, no table is scanned; NULL is a sign that this role may not see.
    """
    if dialect == "sqlite":
        return _VITALS_SQLITE
    return _VITALS_POSTGRESQL.bindparams(sa.bindparam("names", type_=ListOf(sa.Text)))
