"""What every test may ask for: a real PostgreSQL, databases on it, and the recordings."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.postgres import Database, Postgres, running_postgres

REPOSITORY = Path(__file__).parent.parent
RECORDINGS = REPOSITORY / "tests" / "data" / "recordings"

# The same examples in every run, and no verdict by the speed of a busy machine.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.load_profile("steady")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Give a PostgreSQL server: that of DATABASE_URL, else one made for this run."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    """Give a fresh, empty database, dropped after the test."""
    name = f"jobplaybook_{secrets.token_hex(6)}"
    yield Database(name=name, url=postgres.create(name))
    postgres.drop(name)


@pytest.fixture(scope="session")
def recording(postgres: Postgres) -> Callable[[str], str]:
    """Give the URL of a database that holds a recording of procrastinate, such as ``killed``.

    Loaded once for all tests, so its sessions are read-only unless they say otherwise.
    """
    folder = RECORDINGS / "procrastinate"

    @functools.cache
    def load(name: str) -> str:
        dbname = f"jobplaybook_{name}_{secrets.token_hex(6)}"
        url = postgres.create(dbname)
        postgres.psql(dbname, folder / "tables.sql", folder / f"{name}.sql")
        postgres.execute(f'ALTER DATABASE "{dbname}" SET default_transaction_read_only = on')
        return url

    return load
