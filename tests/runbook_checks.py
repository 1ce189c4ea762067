"""What has to hold for every runbook: each check returns the problems it sees, in words."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click
import procrastinate.cli
from procrastinate.shell import ProcrastinateShell

from jobplaybook import detectors, reading
from jobplaybook.commands import cli
from jobplaybook.errors import InputError
from jobplaybook.model import Severity
from jobplaybook.sources import SOURCES
from jobplaybook.sources import procrastinate as procrastinate_source
from jobplaybook.units import parse_duration
from tests.conftest import RECORDINGS
from tests.runbook_blocks import LIVE, RECORDED, RUNBOOKS, Block, blocks, made

KEYS = ("finding", "severity", "owner", "last_drilled", "systems")
HEADINGS = (
    "Meaning",
    "Impact",
    "Confirm",
    "Diagnose",
    "Mitigate",
    "Verify",
    "Escalate",
    "Prevent",
    "Links",
)
STEPS = ("Preview", "Check", "Apply", "Undo")
STOP = "**Stop and escalate if** "
CAPTURE = "jobplaybook capture env:JOBS_DATABASE_URL -o incident.db"
MOST_LINES = 120
FEWEST_WORDS = 15
NATIVE = "-- psql, procrastinate's own function"

_FRONT = re.compile(r"\A---\n(.*?)^---\n", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_DRILLED = re.compile(
    r"never|\d{4}-\d\d-\d\d with jobplaybook \d+\.\d+ \((recording|lab scenario) ([\w./-]+)\)"
)
_DURATION = re.compile(r"\b\d+ (?:s|min|h)\b|\bdrain time\b")
_THRESHOLD = re.compile(r"([\d,.]+) ?(%|\w+)?(?: \w+)? \(`(_?[A-Z][A-Z_]+)`\)")
_PLACEHOLDER = re.compile(r"\b(?:TODO|TBD|FIXME|XXX|lorem)\b|<(?!!)[A-Za-z][^>\n]*>|\?\?\?")
_NO_THRESHOLDS = {"MICROS", "MAX_IDS"}


@dataclass(frozen=True, kw_only=True)
class Runbook:
    """One runbook: its name, its text, and the parts of it."""

    code: str
    text: str
    folder: Path = RUNBOOKS

    @cached_property
    def front(self) -> dict[str, str]:
        """Its front matter, in order."""
        match = _FRONT.match(self.text)
        lines = match[1].splitlines() if match else []
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}

    @cached_property
    def sections(self) -> dict[str, str]:
        """Its sections by heading, in order."""
        parts = re.split(r"^## (.+)\n", self.text, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    @cached_property
    def blocks(self) -> list[Block]:
        """Its fenced blocks."""
        return blocks(self.text)

    @cached_property
    def prose(self) -> str:
        """Its text without front matter and fenced blocks."""
        return _FENCED.sub("", _FRONT.sub("", self.text))

    @cached_property
    def commands(self) -> list[list[str]]:
        """Every command line in it, in words: in code spans and in console blocks."""
        lines = _SPAN.findall(self.prose)
        lines += [b.first.removeprefix("$ ") for b in self.blocks if b.language == "console"]
        found = [shlex.split(line.partition(" | ")[0]) for line in lines if _is_command(line)]
        return [words for words in found if len(words) > 1]

    def section(self, heading: str) -> str:
        """Return a section, empty if it is missing."""
        return self.sections.get(heading, "")


def _is_command(line: str) -> bool:
    return line.startswith(("jobplaybook ", "procrastinate "))


def runbook(path: Path) -> Runbook:
    """Read a runbook."""
    return Runbook(code=path.stem, text=path.read_text(encoding="utf-8"), folder=path.parent)


Problems = Iterator[str]


def front_matter(book: Runbook) -> Problems:
    """The front matter is complete, in its order, and says what can be true."""
    front = book.front
    if tuple(front) != KEYS:
        yield f"front matter: expected {KEYS}, found {tuple(front)}"
        return
    if front["finding"] != book.code:
        yield f"finding {front['finding']} in the runbook of {book.code}"
    if front["severity"] not in {severity.word for severity in Severity}:
        yield f"no severity: {front['severity']}"
    if not front["owner"]:
        yield "nobody owns it"
    drilled = _DRILLED.fullmatch(front["last_drilled"])
    if drilled is None:
        yield f"last_drilled: {front['last_drilled']}"
    elif drilled[1] == "recording" and not (RECORDINGS / f"{drilled[2]}.sql").exists():
        yield f"drilled on a recording that is not here: {drilled[2]}"
    known = {"all", *(source.name for source in SOURCES)}
    systems = front["systems"].strip("[]").split(", ")
    if not front["systems"].startswith("[") or not set(systems) <= known:
        yield f"systems: {front['systems']}"


def shape(book: Runbook) -> Problems:
    """It has its title, every heading in order with something under it, and fits on a screen."""
    titles = re.findall(r"^# (.+)$", _FENCED.sub("", book.text), re.MULTILINE)
    if titles != [book.code]:
        yield f"title: {titles}"
    if tuple(book.sections) != HEADINGS:
        yield f"headings: {tuple(book.sections)}"
    for heading, body in book.sections.items():
        if len(body.split()) < FEWEST_WORDS:
            yield f"{heading} is a stub"
    lines = book.text.count("\n")
    if lines > MOST_LINES:
        yield f"{lines} lines, expected at most {MOST_LINES}"


def wording(book: Runbook) -> Problems:
    """Nothing is left to be filled in, and nobody is shouted at."""
    prose = _SPAN.sub("", book.prose)
    yield from (f"placeholder: {m[0]}" for m in _PLACEHOLDER.finditer(prose))
    if "!" in prose:
        yield "an exclamation"


def links(book: Runbook) -> Problems:
    """Every link leads somewhere, and the last section has those that a reader needs."""
    targets = _LINK.findall(book.prose)
    yield from (f"link to nowhere: {t}" for t in targets if not resolves(book.folder, t))
    last = book.section("Links")
    for kind, part in (
        ("Notebook", "../notebooks/"),
        ("Glossary", "../docs/glossary.md#"),
        ("Source", "jobplaybook."),
        ("Related", ".md"),
    ):
        if not re.search(rf"^- {kind}: .*{re.escape(part)}", last, re.MULTILINE):
            yield f"Links has no {kind}"
    for name in re.findall(r"^- Source: `([\w.]+)`", last, re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        if not hasattr(importlib.import_module(module), attribute):
            yield f"no such source: {name}"


def resolves(folder: Path, target: str) -> bool:
    """Whether a relative link has its file and its heading."""
    if target.startswith("https://"):
        return True
    name, _, anchor = target.partition("#")
    path = folder / name
    return path.is_file() and (not anchor or anchor in anchors(path))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a Markdown file's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(book: Runbook) -> Problems:
    """Every command is one that exists, with options that it has; nothing is run."""
    for words in book.commands:
        program, *rest = words
        problem = (_ours if program == "jobplaybook" else _theirs)(rest)
        if problem:
            yield f"{shlex.join(words)}: {problem}"


def _ours(words: Sequence[str]) -> str:
    """Return what is wrong with a command line of jobplaybook; a bare name needs no argument."""
    command: click.Command | None = cli
    context, rest = None, list(words)
    try:
        while isinstance(command, click.Group) and rest:
            context = click.Context(command, info_name="jobplaybook", parent=context)
            _, command, rest = command.resolve_command(context, rest)
        if command is not None and rest:
            command.make_context("command", rest, parent=context)
    except (click.ClickException, InputError, ImportError) as error:
        return str(error)
    return ""


def _theirs(words: list[str]) -> str:
    """Return what is wrong with a command line of procrastinate."""
    parser = procrastinate.cli.create_parser()
    procrastinate.cli.add_arguments(parser)
    try:
        given = parser.parse_args(words)
    except SystemExit:
        return "procrastinate refuses it"
    inner = getattr(given, "shell_command", None) or ["exit"]
    return "" if hasattr(ProcrastinateShell, f"do_{inner[0]}") else f"its shell has no {inner[0]}"


def made_blocks(book: Runbook) -> Problems:
    """SQL and screens are what the package makes today; other SQL is procrastinate's own call."""
    for block in book.blocks:
        expected = made(block, book.code)
        if expected is None and block.language in ("sql", "console"):
            native = block.text.startswith(f"{NATIVE}\nSELECT procrastinate_")
            recorded = book.code in RECORDED and block.first == f"$ jobplaybook triage {LIVE}"
            if not native and not recorded:
                yield f"nobody makes this block: {block.first}"
        elif expected is not None and expected != block.text:
            yield f"out of date, renew it with python -m tests.runbook_blocks: {block.first}"


def diagnosis(book: Runbook) -> Problems:
    """Every observation says where to go and what shows it; SQL that is named is there."""
    body = book.section("Diagnose")
    rows = [_cells(line) for line in body.splitlines() if line.startswith("|")]
    if len(rows) < 3 or rows[0] != ["observation", "likely cause", "go to", "seen with"]:
        yield "Diagnose has no table of observations"
    causes = set(re.findall(r"^### ([A-Z])\. ", book.section("Mitigate"), re.MULTILINE))
    for row in rows[2:]:
        if len(row) != 4 or not all(row):
            yield f"an empty cell: {row}"
            continue
        named = set(re.findall(r"\b([A-Z])\b(?! or)", row[2].partition("](")[0]))
        if not named <= causes and "[" not in row[2]:
            yield f"no such cause in Mitigate: {row[2]}"
    asked = {name for row in rows for name in re.findall(r"\bSQL \d", row[-1])}
    shown = set(re.findall(r"^(SQL \d),.*:\n```sql$", body, re.MULTILINE))
    if asked != shown:
        yield f"the table names {sorted(asked)}, shown are {sorted(shown)}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def mitigation(book: Runbook) -> Problems:
    """There is a stop rule, and for each cause a preview, a check, an apply and an undo."""
    body = book.section("Mitigate")
    if STOP not in body:
        yield "Mitigate has no stop rule"
    parts = re.split(r"^### .+\n", body, flags=re.MULTILINE)
    for before in parts[:1]:
        if re.search(r"\b(?:Apply|Undo):", before):
            yield "a step outside a cause"
    for cause in parts[1:]:
        steps = re.findall(r"^(\d)\. (\w+): ", cause, re.MULTILINE)
        if steps != [(str(n), step) for n, step in enumerate(STEPS, start=1)]:
            yield f"expected the steps {STEPS}, found {[step for _, step in steps]}"
        applied = cause.partition("3. Apply: ")[2]
        if "4. Undo: " not in applied:
            yield "an apply without an undo"
        if "Preview: " not in cause.partition("Apply: ")[0]:
            yield "an apply without a preview before it"


def aftermath(book: Runbook) -> Problems:
    """Verify and Escalate say how long, and by which command or file."""
    for heading in ("Verify", "Escalate"):
        if not _DURATION.search(book.section(heading)):
            yield f"{heading} says no time"
    if "`jobplaybook triage " not in book.section("Verify"):
        yield "Verify has no command"
    if f"`{CAPTURE}`" not in book.section("Escalate"):
        yield f"Escalate does not say how to keep the evidence: {CAPTURE}"
    if not re.search(
        r"\bto (?:the owner|the database's owner|whoever)\b", book.section("Escalate")
    ):
        yield "Escalate names nobody"


def constants() -> dict[str, float]:
    """Return the thresholds in the code: what decides whether a finding is there, and how grave."""
    names = [module.name for module in pkgutil.iter_modules(detectors.__path__)]
    modules = [importlib.import_module(f"{detectors.__name__}.{name}") for name in names]
    own = {
        name: float(value)
        for module in modules
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, int | float) and name not in _NO_THRESHOLDS
    }
    shared = {name: getattr(reading, name) for name in ("RATE_SECONDS", "_MIN_CLAIMS")}
    return {
        **{name: value for name, value in own.items() if not name.startswith("_")},
        **shared,
        "LEASE_SECONDS": procrastinate_source.LEASE_SECONDS,
    }


def thresholds(book: Runbook) -> Problems:
    """Every number that a constant stands behind is that constant."""
    known = constants()
    said = {match[3]: match for match in _THRESHOLD.finditer(book.prose)}
    for name in re.findall(r"`(_?[A-Z][A-Z_]+)`", book.section("Meaning")):
        if name not in said:
            yield f"`{name}` stands without its number"
    for name, match in said.items():
        if name not in known:
            yield f"no such threshold: {name}"
        elif abs(_number(match) - known[name]) > 1e-9:
            yield f"{match[0]}: the code has {known[name]:g}"


def _number(match: re.Match[str]) -> float:
    number = float(match[1].replace(",", ""))
    if match[2] == "%":
        return number / 100
    if match[2] in ("s", "min", "h", "d"):
        return parse_duration(f"{match[1]}{match[2]}")
    return number


CHECKS: tuple[Callable[[Runbook], Problems], ...] = (
    front_matter,
    shape,
    wording,
    links,
    commands,
    made_blocks,
    diagnosis,
    mitigation,
    aftermath,
    thresholds,
)
