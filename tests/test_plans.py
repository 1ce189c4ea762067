"""What the statements of a capture cost: the planner is asked about each, on a large queue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook.connect import Reader
from tests.captures import capture_by
from tests.conftest import RECORDINGS
from tests.postgres import Database, Postgres
from tests.procrastinate_app import execute, install

TABLES = RECORDINGS / "procrastinate" / "tables.sql"
JOB = "(id, queue_name, task_name, priority, status, attempts)"


@pytest.fixture
def bare(postgres: Postgres, database: Database) -> str:
    """Give procrastinate's tables without any index, constraint or trigger."""
    postgres.psql(database.name, TABLES)
    return database.url


@pytest.fixture
def large(database: Database) -> str:
    """Give 50,000 jobs in the library's own schema: 10 run, 1,000 wait, the rest is done."""
    url = install(database.url)
    execute(
        url,
        "SELECT procrastinate_register_worker_v1()",
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
        " SELECT 'q', 'send', '{}' FROM generate_series(1, 50000)",
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = 1 WHERE id <= 49000",
        "UPDATE procrastinate_jobs SET status = 'succeeded' WHERE id <= 48990",
        "VACUUM ANALYZE",
    )
    return url


def plan_nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from plan_nodes(inner)


class Explaining(Reader):
    """A reader that asks the planner about each statement before it runs it."""

    scanned: list[str]
    asked: int

    def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
        assert isinstance(statement, sa.ClauseElement)
        compiled = statement.compile(dialect=self.engine.dialect)
        values = dict(compiled.construct_params(binds) or {})
        processors = getattr(compiled, "_bind_processors", {})
        given = {k: processors[k](v) if k in processors else v for k, v in values.items()}
        (told,) = self._connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {compiled}", given).one()
        type(self).asked += 1
        for node in plan_nodes(told[0]["Plan"]):
            if node["Node Type"] == "Seq Scan":
                type(self).scanned.append(f"{node['Relation Name']}: {compiled}")
        return super().rows(statement, **binds)


def test_no_statement_scans_the_jobs_or_their_events(large: str, tmp_path: Path) -> None:
    """In the library's own schema every statement finds its rows by an index."""
    Explaining.scanned, Explaining.asked = [], 0
    report = capture_by(Explaining, large, tmp_path / "a.db", chunk=500)
    assert report.rows["jobs"] == 50_000
    assert Explaining.asked > 200
    slow = [text for text in Explaining.scanned if re.match("procrastinate_(jobs|events)", text)]
    assert slow == []
    assert not [text for text in report.warnings if "has no index" in text]


def test_the_planner_is_really_asked(bare: str, tmp_path: Path) -> None:
    """Without indexes the test above fails: it sees the scans."""
    Explaining.scanned, Explaining.asked = [], 0
    execute(bare, f"INSERT INTO procrastinate_jobs {JOB} VALUES (1, 'q', 'send', 0, 'todo', 0)")
    capture_by(Explaining, bare, tmp_path / "a.db")
    assert any(text.startswith("procrastinate_jobs") for text in Explaining.scanned)
