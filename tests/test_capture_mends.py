"""Rows that cannot be told from each other, cannot be read, or are deleted as they end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobplaybook import api
from jobplaybook.connect import Reader
from jobplaybook.driver_errors import ChunkTooSlow
from jobplaybook.model import Quality
from tests.captures import capture, capture_by, command_line, look, meta, refusal, text_of
from tests.conftest import RECORDINGS
from tests.postgres import Database, Postgres
from tests.procrastinate_app import awaited, execute, filled, install, rows

TABLES = RECORDINGS / "procrastinate" / "tables.sql"
JOB = "(id, queue_name, task_name, priority, status, attempts)"


@pytest.fixture
def bare(postgres: Postgres, database: Database) -> str:
    """Give procrastinate's tables without any index, constraint or trigger."""
    postgres.psql(database.name, TABLES)
    return database.url


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue with jobs of every status in the library's own schema."""
    return filled(install(database.url))


# A table that lost its primary key


@pytest.mark.parametrize("chunk", [1, 2, 5_000])
def test_rows_without_an_id_are_skipped_and_said(bare: str, tmp_path: Path, chunk: int) -> None:
    """Law: jobs that nothing tells from each other are counted, all others are read."""
    execute(
        bare,
        f"INSERT INTO procrastinate_jobs {JOB} VALUES"
        " (NULL, 'q', 'send', 0, 'todo', 0), (NULL, 'q', 'send', 0, 'doing', 0),"
        " (1, 'q', 'send', 0, 'todo', 0), (2, 'q', 'send', 0, 'doing', 0),"
        " (3, 'q', 'send', 0, 'succeeded', 0)",
        "INSERT INTO procrastinate_events VALUES (1, NULL, 'succeeded', now()),"
        " (NULL, NULL, 'succeeded', now()), (2, 3, 'succeeded', now()),"
        " (NULL, 3, 'started', now())",
    )
    path = tmp_path / "a.db"
    report = capture(bare, path, chunk=chunk)
    assert [job for (job,) in look(path, "SELECT id FROM jobs ORDER BY id")] == ["1", "2", "3"]
    said = {1: "1 job", 2: "2 jobs", 5_000: "2 jobs"}[chunk]
    assert report.not_read == {"unfinished": f"{said}: rows without id"}
    assert api.triage(str(path)).verdict.code != "healthy"


def test_rows_without_an_id_alone_are_no_healthy_queue(bare: str, tmp_path: Path) -> None:
    """Law: the command answers in its own words, with exit code 0 and without a traceback."""
    execute(bare, f"INSERT INTO procrastinate_jobs {JOB} VALUES (NULL, 'q', 's', 0, 'doing', 0)")
    done = command_line("triage", "env:U", environ={"U": bare})
    assert done.returncode == 0, done.stderr
    assert "rows without id" in done.stdout
    assert "Traceback" not in done.stderr


def failing_on(words: str) -> type[Reader]:
    """Return a reader whose statement with these words is out of time."""

    class Failing(Reader):
        def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
            if words in text_of(self, statement):
                raise ChunkTooSlow("a statement was out of time")
            return super().rows(statement, **binds)

    return Failing


def test_where_nobody_could_look_for_such_rows_it_is_said(queue: str, tmp_path: Path) -> None:
    """Law: that question may be too dear; everything else is read all the same."""
    reader = failing_on("procrastinate_jobs.id IS NULL")
    report = capture_by(reader, queue, tmp_path / "a.db")
    why = "rows without id, if there are any: reading them took longer than 5 s"
    assert report.not_read == {"unfinished": why}
    assert report.rows["jobs"] == 58


# A row that the database cannot read


def poisoned(url: str, job: int, *, also_running: bool = False) -> None:
    """Let one job's row be one that the database fails on, whoever reads it."""
    broken = f"CASE WHEN id = {job} THEN (1 / (id - {job}))::text ELSE task_name END AS task_name"
    columns = rows(
        url,
        "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute"
        " WHERE attrelid = 'procrastinate_jobs'::regclass AND attnum > 0 AND NOT attisdropped",
    )[0][0]
    execute(
        url,
        "ALTER TABLE procrastinate_jobs RENAME TO sound_jobs",
        f"CREATE VIEW procrastinate_jobs AS SELECT {re.sub('task_name', broken, columns)}"
        " FROM sound_jobs",
    )


@pytest.mark.parametrize("job", [5, 37, 50])
def test_a_row_that_cannot_be_read_costs_itself_alone(queue: str, tmp_path: Path, job: int) -> None:
    """Law: whether it has ended, runs or waits, one broken row is one job that was not read.

    The chunk does not shrink for it: nothing was slow.
    """
    whole = capture(queue, tmp_path / "whole.db")
    poisoned(queue, job)
    path = tmp_path / "a.db"
    report = capture(queue, path)
    missing = {i for (i,) in look(tmp_path / "whole.db", "SELECT id FROM jobs")} - {
        i for (i,) in look(path, "SELECT id FROM jobs")
    }
    assert missing == {str(job)}
    assert report.rows["jobs"] == whole.rows["jobs"] - 1
    (why,) = report.not_read.values()
    assert why == "1 job: reading them failed"
    assert list(report.not_read) == ["finished" if job < 36 else "unfinished"]


def test_text_that_is_no_text_costs_its_row_alone(postgres: Postgres, tmp_path: Path) -> None:
    """Law: bytes that are no text in a database without an encoding are such a row."""
    name = "jobplaybook_bytes"
    postgres.execute(
        f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C'"
        " LC_CTYPE 'C'"
    )
    try:
        url = filled(install(postgres.url(name)))
        execute(url, r"UPDATE procrastinate_jobs SET task_name = E'caf\xe9' WHERE id = 50")
        report = capture(url, tmp_path / "a.db")
        assert report.not_read == {"unfinished": "1 job: reading them failed"}
        assert report.rows["jobs"] == 57
    finally:
        postgres.drop(name)


# Jobs that are deleted as they end


def deleting(url: str, statuses: str) -> str:
    """Delete what has ended, as the library does with ``delete_jobs``; wait for the count."""
    execute(url, f"DELETE FROM procrastinate_jobs WHERE status IN ({statuses})")
    counted = (
        "SELECT 1 FROM pg_stat_user_tables WHERE relname = 'procrastinate_jobs' AND n_tup_del >= 30"
    )
    awaited(lambda: rows(url, counted), "the statistics of what was deleted")
    return url


def grades(path: Path) -> set[tuple[Any, ...]]:
    return set(look(path, "SELECT quality, note FROM facts WHERE fact = 'finished_at'"))


@pytest.mark.parametrize("statuses", ["'succeeded'", "'succeeded', 'failed'"])
def test_jobs_that_are_deleted_as_they_end_are_no_growing_backlog(
    queue: str, tmp_path: Path, statuses: str
) -> None:
    """Law: where completed jobs are deleted, completions are not recorded, not none."""
    path = tmp_path / "a.db"
    capture(deleting(queue, statuses), path)
    why = "jobs are deleted as they complete (delete_jobs), and their events with them"
    assert grades(path) == {(Quality.ABSENT.word, why)}
    answer = api.triage(str(path))
    assert not {f.code for f in answer.findings} & {"backlog-growing", "queue-stalled"}
    (blind,) = (f for f in answer.findings if f.code == "data-blind")
    assert blind.evidence["missing"]["finished_at"] == "how many jobs complete"
    pulse = api.health(str(path)).to_json()
    assert pulse["overall"]["completion_rate"] is None
    assert pulse["queues"][0]["completion_rate"] is None


def test_what_cannot_be_looked_up_is_not_claimed(queue: str, tmp_path: Path) -> None:
    """Law: where the newest history cannot be asked, completions count as not recorded."""
    url = deleting(queue, "'succeeded'")
    capture_by(failing_on("AS newest"), url, tmp_path / "a.db")
    assert {quality for quality, _ in grades(tmp_path / "a.db")} == {"absent"}


@pytest.mark.parametrize("which", ["id <= 20", "status = 'failed'"])
def test_a_queue_that_clears_old_jobs_away_records_its_ends(
    queue: str, tmp_path: Path, which: str
) -> None:
    """Law: rows are deleted, and completed ones are there: completions are told."""
    execute(queue, f"DELETE FROM procrastinate_jobs WHERE {which}")
    counted = "SELECT 1 FROM pg_stat_user_tables WHERE n_tup_del > 0"
    awaited(lambda: rows(queue, counted), "the statistics of what was deleted")
    capture(queue, tmp_path / "a.db")
    assert {quality for quality, _ in grades(tmp_path / "a.db")} == {"exact"}


def test_a_queue_that_stands_still_and_is_cleared_records_its_ends(
    queue: str, tmp_path: Path
) -> None:
    """Law: nothing completed in the window, but before it: that is a stall, and stays one."""
    execute(
        queue,
        "DELETE FROM procrastinate_jobs WHERE id <= 20",
        "UPDATE procrastinate_events SET at = at - interval '2 days'",
    )
    counted = "SELECT 1 FROM pg_stat_user_tables WHERE relname = 'procrastinate_jobs'"
    awaited(lambda: rows(queue, f"{counted} AND n_tup_del > 0"), "the statistics")
    report = capture(queue, tmp_path / "a.db")
    assert "succeeded" not in report.rows_by_status
    assert {quality for quality, _ in grades(tmp_path / "a.db")} == {"exact"}


def test_a_queue_that_deletes_nothing_records_its_ends(bare: str, tmp_path: Path) -> None:
    """Law: no completed job and nothing deleted: none completes."""
    execute(bare, f"INSERT INTO procrastinate_jobs {JOB} VALUES (1, 'q', 's', 0, 'todo', 0)")
    capture(bare, tmp_path / "a.db")
    assert {quality for quality, _ in grades(tmp_path / "a.db")} == {"exact"}
    assert meta(tmp_path / "a.db")["not_read"] == "{}"


# A connection string with a slip


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:secret@db:54x2/app", "its port is no number"),
        ("host=db port=abc user=u", "its port is no number"),
        ("postgresql://u:secret@db/app?sllmode=require", "a parameter that libpq does not know"),
        ("host=db pasword=secret", "a parameter that libpq does not know"),
        ("postgresql://u:secret%zz@db/app", "% as %25"),
        ("postgresql://u:se/cret@db/app", "/ as %2F"),
        ("host=db password='secret", "single quotes"),
    ],
)
def test_the_advice_is_for_the_slip_that_was_made(url: str, said: str) -> None:
    """Law: a bad port or parameter is no password to be written otherwise; nothing is echoed."""
    done = command_line("triage", "env:U", environ={"U": url})
    assert done.returncode == 2
    told = refusal(done)
    assert said in told
    assert "secret" not in told
    assert ("in a password write" in told) == (said.startswith(("%", "/", "single")))
