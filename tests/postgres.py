"""The PostgreSQL that the tests run on, and the databases they make there.

``DATABASE_URL`` names a server whose role may create databases; without it the tests start one of
their own (see `tests.postgres_server`), from the programs on the machine or from those of a wheel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests import postgres_server

# A login that must give its password, and may read every table and write none.
LOGIN = "reader"
PASSWORD = "correct horse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One database of a test's own."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A server on which tests make databases, and what it takes to reach it.

    ``login`` are libpq's connection parameters of a role that may create databases;
    ``tcp_port`` is where a password is demanded, None on a server that is not ours.
    """

    login: Mapping[str, str]
    tcp_port: int | None = None
    _made: set[str] = field(default_factory=set)

    def url(self, dbname: str) -> str:
        """Return a libpq URL of a database, for the role that owns it."""
        return libpq_url({**self.login, "dbname": dbname})

    def tcp_url(self, dbname: str, user: str = LOGIN, password: str | None = PASSWORD) -> str:
        """Return a URL over TCP, where the server checks the password."""
        if self.tcp_port is None:
            pytest.skip("the server of DATABASE_URL decides itself who must give a password")
        address = {"host": "127.0.0.1", "port": str(self.tcp_port), "dbname": dbname, "user": user}
        return libpq_url(address if password is None else {**address, "password": password})

    def execute(self, statement: str, *, dbname: str | None = None) -> None:
        """Run SQL text, one or more statements, outside a transaction of our own."""
        url = libpq_url(self.login) if dbname is None else self.url(dbname)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def create(self, dbname: str) -> str:
        """Create an empty database and return its URL."""
        self.execute(f'CREATE DATABASE "{dbname}"')
        self._made.add(dbname)
        return self.url(dbname)

    def drop(self, dbname: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{dbname}" WITH (FORCE)')
        self._made.discard(dbname)

    def psql(self, dbname: str, *files: Path) -> None:
        """Run SQL files in a database, as ``psql -f`` would: dumps of plain statements only."""
        for file in files:
            self.execute(file.read_text(encoding="utf-8"), dbname=dbname)

    def drop_all(self) -> None:
        """Drop every database that was made here."""
        for dbname in sorted(self._made):
            self.drop(dbname)


def libpq_url(parameters: Mapping[str, str]) -> str:
    """Return libpq connection parameters as a URL that libpq and SQLAlchemy both read.

    >>> libpq_url({"user": "a b", "password": "p%/@", "dbname": "jobs", "host": "/run/pg"})
    'postgresql://a%20b:p%25%2F%40@/jobs?host=%2Frun%2Fpg'
    """
    rest = dict(parameters)
    user, password = (quote(rest.pop(part, ""), safe="") for part in ("user", "password"))
    dbname = quote(rest.pop("dbname", ""), safe="")
    who = user + (f":{password}" if password else "") + ("@" if user or password else "")
    return f"postgresql://{who}/{dbname}?{urlencode(rest, quote_via=quote)}"


@contextmanager
def running_server(binaries: Path | None = None) -> Iterator[Postgres]:
    """Start a server of our own; it is stopped and removed at the end, also if we are killed."""
    chosen = binaries or postgres_server.find_binaries()
    supervisor = subprocess.Popen(
        [sys.executable, "-P", postgres_server.__file__, str(chosen)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C meant for us must not reach it
    )
    with supervisor:
        assert supervisor.stdout is not None
        answer = json.loads(supervisor.stdout.readline() or '{"error": "it ended without a word"}')
        if "error" in answer:
            raise postgres_server.NoServer(answer["error"])
        port = str(answer["port"])
        server = Postgres(
            login={"host": answer["host"], "port": port, "user": "postgres", "dbname": "postgres"},
            tcp_port=answer["port"],
        )
        server.execute(f"CREATE ROLE {LOGIN} LOGIN PASSWORD '{PASSWORD}'")
        server.execute(f"GRANT pg_read_all_data TO {LOGIN}")
        yield server


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Give the server of ``DATABASE_URL``, left as it was found, or one of our own."""
    given = os.environ.get("DATABASE_URL")
    if given is None:
        with running_server() as server:
            yield server
        return
    login = {key: str(value) for key, value in conninfo_to_dict(given).items() if value is not None}
    server = Postgres(login=login)
    try:
        yield server
    finally:
        server.drop_all()
