"""The parts of a runbook that are made, not written: its SQL and its screens.

``python -m tests.runbook_blocks`` lists the runbooks whose blocks are not what the package makes
today; with ``--write`` it puts today's into them.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from click.testing import CliRunner

from jobplaybook.api import capture, triage
from jobplaybook.commands import cli
from jobplaybook.queries import classes, clocks, flow, leases, retries, standing, vitals
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.sources.base import ReadOptions, Source
from jobplaybook.sources.catalog import Catalog, Detected
from jobplaybook.sources.contract import CONTRACT
from jobplaybook.sources.procrastinate import PROCRASTINATE
from jobplaybook.tables import SCHEMA
from jobplaybook.units import MICROS, parse_time
from jobplaybook.verdict import judge
from tests.conftest import RECORDINGS, REPOSITORY
from tests.postgres import Postgres, running_postgres
from tests.runbook_examples import EXAMPLES

RUNBOOKS = REPOSITORY / "runbooks"
MORE = "[...]"
"""Ends a screen of which only the first paragraph is shown."""
LIVE = "env:JOBS_DATABASE_URL"
RECORDED = {"dead-letters-growing": ("final", "2026-12-01T03:45:50.52Z")}
"""By finding: the recording that shows it, and its moment; it takes a PostgreSQL to ask it."""
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_CLAUSE = re.compile(
    r"(?<!OUTER) (?=(?:FROM|WHERE|GROUP BY|ORDER BY|LEFT OUTER JOIN|JOIN|UNION ALL|AND NOT) )"
)
_BARE = re.compile(r"(?<!\w)\((\w+\.\w+|\w+)\)")
_SAME = re.compile(r"\b((?:\w+\.)?(\w+)) AS \2\b")
# Any number that no query holds: it stands for a moment that the reader fills in.
_MOMENTS = {":now": 1_111_111_111_111_111, ":since": 1_222_222_222_222_222}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a runbook: its language and its lines."""

    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line."""
        return self.text.split("\n", 1)[0]


def blocks(document: str) -> list[Block]:
    """Return the fenced blocks of a Markdown document."""
    return [_block(match) for match in _FENCE.finditer(document)]


def _block(match: re.Match[str]) -> Block:
    return Block(language=match[2], text=textwrap.dedent(match[3]))


# SQL


def _detected(source: Source) -> Detected:
    """Return a source's tables as they stand in a database made by its own schema."""
    schema = source.default_schema or "public"
    columns = {**source.signature, **source.optional}
    rows = [
        (schema, table, name, "text", True, False, 1, False, False, -1, True, False)
        for table, names in columns.items()
        for name in names
    ]
    found = source.detect(Catalog.of("postgresql", rows))
    assert found is not None, source.name
    return found


def _small(source: Source, table: str) -> Callable[[], sa.Select[Any]]:
    return lambda: source.statements(_detected(source), ReadOptions()).small[table]


def _requeue() -> str:
    advice = PROCRASTINATE.advice({"2": ["319", "406", "528", "530"]}, "public")
    assert advice is not None
    return advice.replace(" FROM ", "\n  FROM ").replace(" WHERE ", "\n WHERE ")


Question = Callable[[int, int], sa.Executable]
SNAPSHOT_SQL: dict[str, Question] = {
    "queries.leases.by_owner()": lambda since, now: leases.by_owner(),
    "queries.leases.held()": lambda since, now: leases.held(),
    "queries.leases.beats()": lambda since, now: leases.beats(),
    "queries.standing.claimable(now)": lambda since, now: standing.claimable(now),
    "queries.flow.totals(since, now)": flow.totals,
    "queries.flow.dead_letters(since, now)": flow.dead_letters,
    "queries.clocks.disorders(1 s)": lambda since, now: clocks.disorders(MICROS, clock=False),
    "queries.vitals.samples()": lambda since, now: vitals.samples(),
    "queries.retries.retried(since, now)": lambda since, now: retries.retried(
        since, now, quick=MICROS
    ),
    "queries.retries.busiest(since, now)": lambda since, now: retries.busiest(since, now, limit=10),
    "queries.retries.wakings(since, now)": lambda since, now: retries.wakings(
        since, now, bucket=10 * MICROS
    ),
    "queries.classes.due_by(type, now)": lambda since, now: classes.due_by("type", now),
    "queries.classes.due_by(tenant, now)": lambda since, now: classes.due_by("tenant", now),
    "queries.classes.waiting(now)": lambda since, now: classes.waiting(now),
    "queries.classes.last_claims(since, now)": classes.last_claims,
}
"""Questions to a snapshot, ``sqlite3 incident.db``, between two moments."""
LIVE_SQL: dict[str, Callable[[], sa.Executable]] = {
    "sources.procrastinate, workers": _small(PROCRASTINATE, "workers"),
    "sources.contract, queues": _small(CONTRACT, "queues"),
}
"""What a capture itself asks a live database: ``psql``."""


def sql_text(first: str) -> str | None:
    """Return the block whose first line this is; None where the package makes no such SQL."""
    where, _, name = first.removeprefix("-- ").partition(": ")
    if where == "sqlite3 incident.db" and name in SNAPSHOT_SQL:
        question = SNAPSHOT_SQL[name](_MOMENTS[":since"], _MOMENTS[":now"])
        return f"{first}\n{readable(question, 'sqlite')};\n"
    if where == "psql" and name in LIVE_SQL:
        return f"{first}\n{readable(LIVE_SQL[name](), 'postgresql')};\n"
    if where == "psql" and name == "sources.procrastinate, advice":
        return f"{first}\n{_requeue()}\n"
    return None


def readable(statement: sa.Executable, database: str) -> str:
    """Return a statement as people read it: a clause a line, moments by name."""
    # A snapshot's tables have no schema; the contract's own have one.
    names = {SCHEMA: None} if database == "sqlite" else None
    dialect = sa.make_url(f"{database}://").get_dialect()()
    dialect.default_schema_name = "main"
    compiled = statement.compile(  # type: ignore[attr-defined]
        dialect=dialect,
        schema_translate_map=names,
        render_schema_translate=names is not None,
        compile_kwargs={"literal_binds": True},
    )
    text = " ".join(str(compiled).replace("main.", "").split())
    for name, moment in _MOMENTS.items():
        text = text.replace(str(moment), name)
    tables = re.findall(r" (?:FROM|JOIN) ([\w.]+)", text)
    if len(tables) == 1:  # one table: its columns need not say whose they are
        text = text.replace(f"{tables[0]}.", "")
    for _ in range(2):  # a time on SQLite is its column in brackets, and may be an argument
        text = _BARE.sub(r"\1", text)
    return "\n".join(_lines(_SAME.sub(r"\1", text)))


def _lines(text: str) -> Iterator[str]:
    depth = 0
    for clause in _CLAUSE.split(text):
        yield from _wrapped(clause.strip(), 2 * depth)
        depth += clause.count("(") - clause.count(")")


def _wrapped(clause: str, indent: int, width: int = 96) -> Iterator[str]:
    """Break a clause after commas where that is enough, else between words."""
    line = " " * indent
    for item in re.split(r"(?<=,) ", clause):
        fits = indent + 4 + len(item) <= width
        for part in [item] if fits else item.split(" "):
            if len(line) + len(part) > width and line.strip():
                yield line.rstrip()
                line = " " * (indent + 4)
            line += part + " "
    yield line.rstrip()


# Screens


def screen(first: str, code: str) -> str | None:
    """Return what the command of a console block prints; None where it is not shown here.

    ``first`` is ``$ jobplaybook ...``, perhaps with ``| grep 'words'`` behind it. A command on a
    live source is answered from the example of the finding ``code``.
    """
    command, _, pattern = first.removeprefix("$ ").partition(" | grep ")
    words = command.split()
    if words == ["jobplaybook", "triage", LIVE] and code in EXAMPLES:
        said = f"{judge(EXAMPLES[code], label=LIVE)}\n"
    elif words[0] == "jobplaybook" and LIVE not in words:
        result = CliRunner().invoke(cli, words[1:])
        if result.exit_code:
            raise RuntimeError(f"{first}: exit {result.exit_code}: {result.output}")
        said = result.output
    else:
        return None
    wanted = pattern.strip("'")
    return "".join(line for line in said.splitlines(keepends=True) if wanted in line)


def recorded_screen(code: str, url: str) -> str:
    """Return what triage says of the recording of a finding, loaded at ``url``."""
    now = parse_time(RECORDED[code][1])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recorded.db"
        capture(url, file, options=CaptureOptions(now=now, pause_seconds=0))
        return f"{triage(str(file))}\n"


def cut(block: Block, said: str) -> str:
    """Return a console block with what is said now, cut where the old one was."""
    if block.text.rstrip().endswith(MORE):
        said = said.partition("\n\n")[0] + f"\n{MORE}\n"
    return f"{block.first}\n{said}"


def made(block: Block, code: str) -> str | None:
    """Return what a block has to be; None for a block that nobody makes."""
    if block.language == "sql":
        return sql_text(block.first)
    said = screen(block.first, code) if block.language == "console" else None
    return None if said is None else cut(block, said)


def renewed(document: str, code: str, recorded: str | None = None) -> str:
    """Return the document with every made block as it is today."""

    def renew(match: re.Match[str]) -> str:
        block = _block(match)
        text = made(block, code)
        if text is None and recorded is not None and block.language == "console":
            text = cut(block, recorded)
        if text is None:
            return match[0]
        return textwrap.indent(f"```{match[2]}\n{text}```", match[1])

    return _FENCE.sub(renew, document)


def main(*, write: bool) -> int:
    """Say which runbooks are out of date, or bring them up to date; return how many were."""
    old = 0
    with running_postgres() as server:
        for path in sorted(RUNBOOKS.glob("*.md")):
            text = path.read_text(encoding="utf-8")
            new = renewed(text, path.stem, _recorded(server, path.stem))
            if new != text:
                old += 1
                sys.stdout.write(f"{path.name}: {'renewed' if write else 'out of date'}\n")
                if write:
                    path.write_text(new, encoding="utf-8")
    return old


def _recorded(server: Postgres, code: str) -> str | None:
    if code not in RECORDED:
        return None
    folder, dbname = RECORDINGS / "procrastinate", "jobplaybook_runbooks"
    url = server.create(dbname)
    try:
        server.psql(dbname, folder / "tables.sql", folder / f"{RECORDED[code][0]}.sql")
        return recorded_screen(code, url)
    finally:
        server.drop(dbname)


if __name__ == "__main__":
    writing = "--write" in sys.argv[1:]
    sys.exit(1 if main(write=writing) and not writing else 0)
