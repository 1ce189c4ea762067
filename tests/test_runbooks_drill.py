"""What the runbooks tell people to do, done on procrastinate's own schema with the incident in it.

The statements and the code are taken out of the runbooks, the commands are run as they stand.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import procrastinate
import psycopg
import pytest
from procrastinate.worker import Worker

from jobplaybook.api import capture, triage
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.units import parse_time
from jobplaybook.verdict import Triage
from tests.conftest import RECORDINGS
from tests.postgres import Database
from tests.procrastinate_app import execute, install, rows
from tests.runbook_blocks import RUNBOOKS
from tests.runbook_checks import NATIVE, runbook

CAPTURED_AT = parse_time("2026-12-01T04:38:47.694988Z")
HELD = [319, 406, 528, 530]
ADVICE = "-- psql: sources.procrastinate, advice"
CANCEL = ["procrastinate", "shell", "cancel"]
Shell = Callable[..., str]


def block(code: str, first: str) -> str:
    """Return the one block of a runbook that begins with this line."""
    (found,) = (b.text for b in runbook(RUNBOOKS / f"{code}.md").blocks if b.first == first)
    return found


def commands(code: str) -> list[list[str]]:
    return runbook(RUNBOOKS / f"{code}.md").commands


@pytest.fixture
def incident(database: Database) -> str:
    """Give the URL of a real procrastinate database that holds the bundled incident."""
    url = install(database.url)
    triggers = "ALTER TABLE public.procrastinate_jobs {} TRIGGER USER"
    recorded = (RECORDINGS / "procrastinate" / "killed.sql").read_text(encoding="utf-8")
    # the recording has the rows, not the counters of their ids
    ids = "SELECT setval('public.procrastinate_{0}_id_seq', max(id)) FROM public.procrastinate_{0}"
    counters = [ids.format(table) for table in ("jobs", "events", "workers")]
    execute(url, triggers.format("DISABLE"), recorded, triggers.format("ENABLE"), *counters)
    return url


@pytest.fixture
def shell(incident: str, tmp_path: Path) -> Shell:
    """Give a function that runs a ``procrastinate`` command on the incident."""
    (tmp_path / "their_app.py").write_text(
        "from procrastinate import App, PsycopgConnector\n"
        f"app = App(connector=PsycopgConnector(conninfo={incident!r}))\n"
    )
    theirs = {"PYTHONPATH": str(tmp_path), "PROCRASTINATE_APP": "their_app.app"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "procrastinate", *words],
            env={**os.environ, **theirs},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def status_of(url: str, *ids: int) -> list[str]:
    statement = "SELECT status::text FROM procrastinate_jobs WHERE id = ANY (%s) ORDER BY id"
    return [row[0] for row in rows(url, statement, list(ids))]


def judged(url: str, tmp_path: Path) -> Triage:
    """Return the verdict on the live tables, as of the incident."""
    file = tmp_path / "after.db"
    capture(url, file, options=CaptureOptions(now=CAPTURED_AT, pause_seconds=0))
    return triage(str(file))


def codes(answer: Triage) -> set[str]:
    return {finding.code for finding in answer.findings}


# lease-expired


def test_the_statement_is_the_one_that_triage_prints() -> None:
    """The runbook shows, over several lines, what the screen of the incident says on one."""
    statement = " ".join(block("lease-expired", ADVICE).partition("\n")[2].split())
    assert statement in str(triage("sample"))


def test_the_statement_frees_the_jobs_and_verify_sees_it(incident: str, tmp_path: Path) -> None:
    """As many rows as the preview said; then the finding is gone and the jobs are to do."""
    before = judged(incident, tmp_path)
    assert before.verdict.code == "lease-expired"
    freed = rows(incident, block("lease-expired", ADVICE))
    assert len(freed) == before.verdict.count == len(HELD)
    assert status_of(incident, *HELD) == ["todo"] * 4
    after = judged(incident, tmp_path)
    assert "lease-expired" not in codes(after)
    left = before.situation.counts["processing"] - after.situation.counts["processing"]
    assert left == len(HELD)


def test_a_rollback_undoes_it(incident: str) -> None:
    """Before the commit nothing has happened."""
    with psycopg.connect(incident) as connection:
        connection.execute(block("lease-expired", ADVICE).encode())
        connection.rollback()
    assert status_of(incident, *HELD) == ["doing"] * 4


def test_a_waiting_twin_refuses_the_whole_statement(incident: str) -> None:
    """A job with the same queueing lock waits: the error names the index that Apply names."""
    index = "procrastinate_jobs_queueing_lock_idx_v1"
    assert f"`{index}`" in runbook(RUNBOOKS / "lease-expired.md").section("Mitigate")
    lock = "UPDATE procrastinate_jobs SET queueing_lock = 'one' WHERE id IN (319, 895)"
    execute(incident, lock)
    with pytest.raises(psycopg.errors.UniqueViolation, match=index):
        rows(incident, block("lease-expired", ADVICE))
    assert status_of(incident, *HELD) == ["doing"] * 4


def test_an_abort_that_was_requested_ends_the_job(incident: str) -> None:
    """Such a job becomes failed where the others become to do."""
    execute(incident, "UPDATE procrastinate_jobs SET abort_requested = true WHERE id = 406")
    rows(incident, block("lease-expired", ADVICE))
    assert status_of(incident, *HELD) == ["todo", "failed", "todo", "todo"]


def test_cancel_is_the_undo_while_nobody_claimed(incident: str, shell: Shell) -> None:
    """The command of Undo takes a requeued job back, and does nothing to a claimed one."""
    (undo,) = (words for words in commands("lease-expired") if words[:3] == CANCEL)
    rows(incident, block("lease-expired", ADVICE))
    assert "[cancelled]" in shell(*undo[1:])
    assert "[doing]" in shell("shell", "cancel", "769")
    assert status_of(incident, 319, 769) == ["cancelled", "doing"]


def test_a_worker_that_wakes_up_ends_a_job_of_another(incident: str) -> None:
    """The stop rule's reason: nothing keeps a worker that was given up from ending the job."""
    rows(incident, block("lease-expired", ADVICE))
    execute(
        incident,
        "SELECT procrastinate_register_worker_v1()",
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = 1 WHERE id = 319",
        "SELECT procrastinate_finish_job_v1(319, 'succeeded', false)",
    )
    assert status_of(incident, 319) == ["succeeded"]


def test_the_task_in_prevent_takes_stalled_jobs_back(incident: str) -> None:
    """The code of Prevent, as it stands, requeues what the lost worker holds and no more."""
    beat = "UPDATE procrastinate_workers SET last_heartbeat = now() - make_interval(secs => {})"
    execute(incident, beat.format(5) + " WHERE id = 1", beat.format(31) + " WHERE id = 2")
    (code,) = (
        b.text for b in runbook(RUNBOOKS / "lease-expired.md").blocks if b.language == "python"
    )

    async def sweep() -> None:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=incident))
        names: dict[str, Any] = {"app": app}
        exec(code, names)  # noqa: S102 (it is the runbook that is under test)
        async with app.open_async():
            await names["retry_stalled_jobs"].func(None, 0)

    asyncio.run(sweep())
    assert status_of(incident, *HELD) == ["todo"] * 4
    assert status_of(incident, 769, 870, 901) == ["doing"] * 3


# phantom-running


def test_a_worker_that_starts_wipes_the_owner(incident: str, tmp_path: Path) -> None:
    """Why to capture before workers start: the jobs have no owner then, and are no lease's."""
    silent = "SELECT worker_id FROM procrastinate_prune_stalled_workers_v1({}) AS t (worker_id)"
    beat = "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = 1"
    execute(incident, beat)
    (timeout,) = (
        p.default
        for name, p in inspect.signature(Worker).parameters.items()
        if name == "stalled_worker_timeout"
    )
    assert timeout == 30.0
    assert rows(incident, silent.format(timeout)) == [(2,)]
    owners = rows(incident, "SELECT worker_id FROM procrastinate_jobs WHERE id = 319")
    assert owners == [(None,)]
    assert "lease-expired" not in codes(judged(incident, tmp_path))


def test_one_phantom_is_requeued_and_taken_back(incident: str, shell: Shell) -> None:
    """Preview shows the job, retry makes it to do, cancel is the undo."""
    wanted = {" ".join(words[1:3]): words[1:] for words in commands("phantom-running")}
    assert "[doing]" in shell(*wanted["shell list_jobs"])
    assert "[todo]" in shell(*wanted["shell retry"])
    assert status_of(incident, 769) == ["todo"]
    assert "[cancelled]" in shell(*wanted["shell cancel"])


def test_one_phantom_is_ended_and_brought_back(incident: str, shell: Shell) -> None:
    """The statement makes it a dead letter; retry is the undo."""
    rows(incident, block("phantom-running", NATIVE))
    assert status_of(incident, 769) == ["failed"]
    assert "[todo]" in shell("shell", "retry", "769")


# dead-letters-growing, workers-lost, queue-stalled


def test_a_dead_letter_is_listed_and_replayed(incident: str, shell: Shell) -> None:
    """The list of Preview has the dead jobs only; the retry of Apply makes one to do."""
    wanted = {" ".join(words[1:3]): words[1:] for words in commands("dead-letters-growing")}
    job = int(wanted["shell retry"][-1])
    end = "UPDATE procrastinate_jobs SET task_name = 'charge_card', status = 'failed' WHERE id = %s"
    rows(incident, f"{end} RETURNING id", job)
    listed = shell(*wanted["shell list_jobs"])
    assert f"#{job} charge_card" in listed
    assert listed.count("[failed]") == 1
    assert "[todo]" in shell(*wanted["shell retry"])
    assert "[cancelled]" in shell(*wanted["shell cancel"])


@pytest.mark.parametrize(
    ("code", "words", "shown"),
    [
        ("queue-stalled", ("shell", "list_queues"), "mail: 1 jobs (todo: 1"),
        ("workers-lost", ("healthchecks",), "DB connection: OK"),
    ],
)
def test_a_look_shows_what_it_should(
    shell: Shell, code: str, words: tuple[str, ...], shown: str
) -> None:
    """The looks that other previews take answer on a real database."""
    (look,) = {tuple(c[1:]) for c in commands(code) if tuple(c[1 : 1 + len(words)]) == words}
    assert shown in shell(*look)


def test_the_library_beats_as_the_runbooks_say() -> None:
    """A beat every 10 s and 30 s of silence are procrastinate's own defaults."""
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(Worker).parameters.items()
    }
    assert defaults["update_heartbeat_interval"] == 10.0
    assert "a worker beats every 10 s" in runbook(RUNBOOKS / "workers-lost.md").text
    stalled = inspect.signature(procrastinate.manager.JobManager.get_stalled_jobs)
    assert stalled.parameters["seconds_since_heartbeat"].default == 30
