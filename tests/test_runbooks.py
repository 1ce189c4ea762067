"""The runbooks: one per finding, true to the code, and checks that are shown to bite."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from jobplaybook.api import open_snapshot, runbook_path, sample_path
from jobplaybook.detectors.blindness import QUESTIONS
from jobplaybook.detectors.findings import CODES
from jobplaybook.detectors.situation import Situation
from jobplaybook.model import Severity
from jobplaybook.tables import SCHEMA, metadata
from jobplaybook.units import MICROS
from jobplaybook.verdict import judge
from tests.conftest import REPOSITORY
from tests.postgres import Database
from tests.procrastinate_app import execute, rows
from tests.runbook_blocks import (
    LIVE_SQL,
    RECORDED,
    RUNBOOKS,
    SNAPSHOT_SQL,
    blocks,
    cut,
    recorded_screen,
    renewed,
    sql_text,
)
from tests.runbook_checks import (
    CHECKS,
    Problems,
    Runbook,
    anchors,
    commands,
    constants,
    links,
    resolves,
    runbook,
    thresholds,
    wording,
)
from tests.runbook_examples import SEVERITIES

GLOSSARY = REPOSITORY / "docs" / "glossary.md"
INDEX = RUNBOOKS / "README.md"
_ROW = re.compile(r"^\| \[([\w-]+)\]\(([\w-]+)\.md\) \| (\w+) \| (.+) \|$", re.MULTILINE)


def book(code: str) -> Runbook:
    return runbook(RUNBOOKS / f"{code}.md")


# One per finding, each of them sound


def test_every_finding_has_its_runbook_and_no_other() -> None:
    """The codes and the files are the same names, and the package finds each file."""
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == set(CODES)
    assert [
        code for code in CODES if not runbook_path(code).samefile(RUNBOOKS / f"{code}.md")
    ] == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("code", CODES)
def test_a_runbook_is_sound(code: str, check: Callable[[Runbook], Problems]) -> None:
    """No check sees a problem in any runbook."""
    assert [*check(book(code))] == []


def test_the_index_lists_them_the_gravest_first() -> None:
    """The index has each runbook once, with the severity that its front matter has."""
    index = runbook(INDEX)
    listed = _ROW.findall(index.text)
    assert [name for name, target, *_ in listed if name != target] == []
    assert sorted(name for name, *_ in listed) == sorted(CODES)
    said = {name: severity for name, _, severity, _ in listed}
    assert said == {code: book(code).front["severity"] for code in CODES}
    ranks = [Severity[severity.upper()] for severity in said.values()]
    assert all(first >= second for first, second in pairwise(ranks))


def test_the_index_is_sound_too() -> None:
    """Its commands parse and its links lead somewhere."""
    index = runbook(INDEX)
    problems = [*commands(index), *wording(index)]
    assert problems == []
    assert [p for p in links(index) if p.startswith("link")] == []


# True to the code


def test_every_threshold_is_told() -> None:
    """Each number that decides a finding or its severity stands in a runbook, by its name."""
    told = "".join(path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md"))
    assert [name for name in constants() if f"(`{name}`)" not in told] == []


@pytest.mark.parametrize(
    ("code", "situation", "severity"),
    SEVERITIES,
    ids=[f"{code}-{number}" for number, (code, *_) in enumerate(SEVERITIES)],
)
def test_severities_are_as_the_runbooks_say(
    code: str, situation: Situation, severity: str | None
) -> None:
    """On either side of each rule in Meaning the code finds what the rule says."""
    triage = judge(situation, label="an example")
    found = {f.code: f.severity.word for f in (*triage.findings, triage.verdict)}
    assert found.get(code) == severity


def test_front_matter_has_the_worst_severity() -> None:
    """The severity of a runbook is the gravest that the examples of its finding reach."""
    reached: dict[str, list[Severity]] = {}
    for code, _, word in SEVERITIES:
        if word is not None:
            reached.setdefault(code, []).append(Severity[word.upper()])
    worst = {code: max(all_of).word for code, all_of in reached.items()}
    assert worst == {code: book(code).front["severity"] for code in CODES}


def test_data_blind_lists_every_question() -> None:
    """Its table has the facts and the questions of the code, in the same order."""
    table = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", book("data-blind").text, re.MULTILINE)
    said = [(fact, question) for fact, question in table]
    assert said == list(QUESTIONS.items())


@pytest.mark.parametrize("code", RECORDED)
def test_a_recorded_screen_is_what_triage_says(code: str, recording: Callable[[str], str]) -> None:
    """The screen in the runbook is that of the recording today."""
    (shown,) = (b for b in book(code).blocks if b.language == "console")
    assert shown.text == cut(shown, recorded_screen(code, recording(RECORDED[code][0])))


# The SQL


@pytest.mark.parametrize("name", SNAPSHOT_SQL)
def test_snapshot_sql_answers_as_the_package_does(name: str) -> None:
    """The printed statement, run by SQLite, gives the rows of the package's own query."""
    text = sql_text(f"-- sqlite3 incident.db: {name}")
    assert text is not None
    with open_snapshot("sample") as snapshot:
        now = snapshot.captured_at
        moments = {"now": now, "since": now - 150 * MICROS}
        expected = snapshot.rows(SNAPSHOT_SQL[name](moments["since"], now))
    with closing(sqlite3.connect(f"file:{sample_path()}?mode=ro", uri=True)) as connection:
        assert connection.execute(text, moments).fetchall() == expected


def test_live_sql_reads_procrastinate(recording: Callable[[str], str]) -> None:
    """The printed look at the workers gives every worker with its heartbeat and the clock."""
    text = sql_text("-- psql: sources.procrastinate, workers")
    assert text is not None
    found = rows(recording("killed"), text)
    assert [row[0] for row in found] == ["1", "2"]
    assert all(beat < clock for _, beat, _, clock in found)


def test_live_sql_reads_the_contract(database: Database) -> None:
    """The printed look at paused queues runs on the contract's own tables."""
    execute(database.url, f"CREATE SCHEMA {SCHEMA}")
    engine = sa.create_engine(database.url.replace("postgresql://", "postgresql+psycopg://"))
    metadata.create_all(engine)
    engine.dispose()
    execute(database.url, f"INSERT INTO {SCHEMA}.queues VALUES ('digests', now(), 'INC-7: Ann')")
    text = sql_text("-- psql: sources.contract, queues")
    assert text is not None
    ((queue, paused_at, note, clock),) = rows(database.url, text)
    assert (queue, note) == ("digests", "INC-7: Ann")
    assert paused_at <= clock


def test_every_question_is_asked_somewhere() -> None:
    """No SQL is kept for the runbooks that no runbook shows."""
    shown = {b.first for code in CODES for b in book(code).blocks if b.language == "sql"}
    kept = {f"-- sqlite3 incident.db: {name}" for name in SNAPSHOT_SQL}
    kept |= {f"-- psql: {name}" for name in LIVE_SQL}
    assert kept - shown == set()


# The glossary


def test_the_glossary_is_in_use() -> None:
    """Every entry has its meaning, and every name in it that is code is a name in the code."""
    text = GLOSSARY.read_text(encoding="utf-8")
    entries = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(entries) >= 30
    assert [e for e in entries if len(e.split()) < 8] == []
    package = "".join(p.read_text("utf-8") for p in (REPOSITORY / "jobplaybook").rglob("*.py"))
    later = {"queue_length", "waiting_time", "sojourn_time"}
    names = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", text)) - later
    assert [name for name in sorted(names) if name not in package] == []


def test_the_glossary_is_reached() -> None:
    """The runbooks link to entries that exist; a slip in an anchor is not one of them."""
    assert resolves(RUNBOOKS, "../docs/glossary.md#queue-age")
    assert not resolves(RUNBOOKS, "../docs/glossary.md#queue-ages")
    assert {"arrival-rate", "drain-time", "at-least-once"} <= anchors(GLOSSARY)


# The checks bite

BROKEN = [
    ("front_matter", "lease-expired", "severity: page", "severity: urgent"),
    ("front_matter", "lease-expired", "finding: lease-expired", "finding: lease-expird"),
    ("front_matter", "lease-expired", "owner: on-call\n", ""),
    ("front_matter", "lease-expired", "owner: on-call", "owner:"),
    ("front_matter", "lease-expired", "procrastinate/killed", "procrastinate/none"),
    ("front_matter", "lease-expired", "2026-12-01 with", "recently with"),
    ("front_matter", "lease-expired", "[procrastinate, contract]", "[rivr]"),
    ("shape", "lease-expired", "# lease-expired", "# Lease expired"),
    ("shape", "lease-expired", "## Impact", "## Effect"),
    ("shape", "lease-expired", "## Links", "more\n" * 120 + "## Links"),
    ("shape", "healthy", "Nothing to mitigate.", "\n## Notes\nNothing.\n"),
    ("wording", "lease-expired", "The jobs stand still", "TODO"),
    ("wording", "lease-expired", "The jobs stand still", "<Insert impact>"),
    ("wording", "lease-expired", "So capture and requeue", "Hurry! Capture and requeue"),
    ("links", "lease-expired", "(workers-lost.md)", "(worker-lost.md)"),
    ("links", "lease-expired", "glossary.md#lease", "glossary.md#leese"),
    ("links", "lease-expired", "- Glossary: ", "- Words: "),
    ("links", "lease-expired", "leases.lease_expired", "leases.lease_gone"),
    ("commands", "lease-expired", "`jobplaybook triage env", "`jobplaybook triaje env"),
    ("commands", "lease-expired", "--fail-on page", "--fail-on pages"),
    ("commands", "lease-expired", "find incident.db --job", "find incident.db --jobs"),
    ("commands", "lease-expired", "-o incident.db", "--ouput incident.db"),
    ("commands", "lease-expired", "shell cancel 319", "shell unclaim 319"),
    ("commands", "workers-lost", "worker --queues", "worker --quues"),
    ("commands", "backlog-growing", "--arrival 1200/min", "--arrival 1200/fortnight"),
    ("made_blocks", "lease-expired", "WHERE jobs.status = ", "WHERE jobs.state = "),
    ("made_blocks", "lease-expired", "      4 jobs (3", "      5 jobs (3"),
    ("made_blocks", "lease-expired", "IN (319, 406", "IN (319, 407"),
    ("made_blocks", "queue-stalled", "1,540 jobs could", "1,541 jobs could"),
    ("made_blocks", "backlog-growing", "not in time", "in time"),
    ("made_blocks", "phantom-running", "SELECT procrastinate_finish", "DELETE procrastinate_fin"),
    ("made_blocks", "phantom-running", "procrastinate's own", "somebody's own"),
    ("diagnosis", "lease-expired", "SQL 1, who holds", "SQL 2, who holds"),
    ("diagnosis", "lease-expired", "| A | SQL 1 |", "| D | SQL 1 |"),
    ("diagnosis", "lease-expired", "| A | SQL 1 |", "| A | |"),
    ("diagnosis", "lease-expired", "| seen with |", "| how |"),
    ("mitigation", "lease-expired", "**Stop and escalate if** ", "Stop if "),
    ("mitigation", "lease-expired", "4. Undo: before", "4. Then: before"),
    ("mitigation", "lease-expired", "1. Preview: ", "1. Apply: "),
    ("mitigation", "lease-expired", "2. Check: ", "2. Apply: "),
    ("mitigation", "healthy", "Nothing to mitigate.", "Apply: restart."),
    ("aftermath", "lease-expired", "Within 1 min the", "Soon the"),
    ("aftermath", "lease-expired", "Not verified after 15 min", "Not verified"),
    ("aftermath", "lease-expired", "`jobplaybook capture env", "`cp env"),
    ("aftermath", "lease-expired", "to the owner of the job type's code", "to somebody"),
    ("aftermath", "unknown", "`jobplaybook triage env:JOBS_DATABASE_URL` names", "It names"),
    ("thresholds", "lease-expired", "30 s (`LEASE_SECONDS`)", "60 s (`LEASE_SECONDS`)"),
    ("thresholds", "lease-expired", "2 lease lengths", "3 lease lengths"),
    ("thresholds", "lease-expired", "`SWEEP_GRACE`", "`SWEEP_GRACES`"),
    ("thresholds", "lease-expired", " + 30 s (`LEASE_SECONDS`)", " + `LEASE_SECONDS`"),
    ("thresholds", "dead-letters-growing", "1 % (`SHARE`)", "2 % (`SHARE`)"),
    ("thresholds", "backlog-growing", "5 min (`NO_BASE", "6 min (`NO_BASE"),
]


@pytest.mark.parametrize(("name", "code", "old", "new"), BROKEN)
def test_a_broken_runbook_is_caught(name: str, code: str, old: str, new: str) -> None:
    """A slip of the kind that a check is for makes that check speak."""
    (check,) = (check for check in CHECKS if check.__name__ == name)
    sound = book(code)
    broken = replace(sound, text=sound.text.replace(old, new))
    assert broken.text != sound.text, "the runbook has changed: choose another slip"
    seen = set(check(sound))
    assert set(check(broken)) - seen != set()


def test_every_check_is_shown_to_bite() -> None:
    """No check is there that no broken runbook has tried."""
    assert {check.__name__ for check in CHECKS} == {name for name, *_ in BROKEN}


def test_a_changed_constant_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A threshold moved in the code and not in the text is a problem of the text."""
    monkeypatch.setattr("jobplaybook.detectors.flow.STILL_SECONDS", 90.0)
    (problem,) = thresholds(book("queue-stalled"))
    assert "the code has 90" in problem


def test_renewing_brings_a_runbook_up_to_date(tmp_path: Path) -> None:
    """Stale SQL and screens are replaced by today's, and nothing else is touched."""
    sound = book("lease-expired").text
    stale = sound.replace("      4 jobs (3", "      5 jobs (3").replace("IN (2)", "IN (3)")
    assert stale != sound
    assert renewed(stale, "lease-expired") == sound
    assert len(blocks(sound)) == len(blocks(stale))
