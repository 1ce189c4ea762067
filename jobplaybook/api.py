"""The public functions: open the source, call pure code, return a result.

A notebook cell and a command call the same function. Every ``source`` is a SOURCE as the command
line takes it: ``sample``, a snapshot file, ``env:NAME``, ``service=NAME``, a SQLite database or a
PostgreSQL URL; or a `Snapshot` that is open already.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobplaybook import __version__
from jobplaybook.bundled import bundled_path
from jobplaybook.clock import SystemClock
from jobplaybook.connect import Target, open_reader, resolve
from jobplaybook.errors import InputError
from jobplaybook.notebooks import RunResult, execute, plan_run
from jobplaybook.reading import read_situation
from jobplaybook.snapshot.capture import capture_to
from jobplaybook.snapshot.file import Snapshot, opened
from jobplaybook.snapshot.options import CaptureOptions, CaptureReport, Progress
from jobplaybook.snapshot.redact import KEY_FILE, Redactor, keep_key, read_or_make_key
from jobplaybook.sources import SOURCES
from jobplaybook.sources.base import ReadOptions, Source
from jobplaybook.tickets import Found, look_up
from jobplaybook.units import iso, parse_time, shown
from jobplaybook.verdict import Triage, judge

if TYPE_CHECKING:
    from datetime import datetime

_SILENT: Progress = lambda table, rows: None  # noqa: E731


def sources() -> list[dict[str, Any]]:
    """Return the queue systems that are understood, with their facts, as JSON objects."""
    return [_source_json(source) for source in SOURCES]


def _source_json(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "versions": [{"range": span, "verified": how} for span, how in source.versions],
        "verified": min(how for _, how in source.versions),
        "databases": list(source.dialects),
        "sweeper": source.sweeper,
        "facts": [
            {
                "fact": fact.fact,
                "state": fact.state,
                "quality": fact.quality.word,
                "note": fact.note,
            }
            for fact in source.facts
        ],
        "actions": [],
    }


def capture(
    source: str,
    out: str | Path,
    *,
    options: CaptureOptions | None = None,
    key_file: str | Path | None = None,
    keep_text: bool = False,
    progress: Progress = _SILENT,
) -> CaptureReport:
    """Read a live database into a snapshot file.

    Parameters
    ----------
    source : str
        A live SOURCE.
    out : str or Path
        The snapshot to write; an older snapshot there is replaced, another file is not.
    options : CaptureOptions, optional
        Window, budget, chunk, pause and what the user says about the tables.
    key_file : str or Path, optional
        Where the hashing key is; by default ``jobplaybook.key`` beside ``out``, made if missing.
    keep_text : bool
        Keep tenants and keys readable instead of hashed.

    Raises
    ------
    InputError
        If the source or the output cannot be used.
    SchemaError
        If the database holds no tables of a known queue system, or changed ones.
    SourceError
        If the database cannot be reached, is locked, or is out of time.
    """
    target = resolve(source)
    if target.kind == "snapshot":
        raise InputError(
            f"expected a live database to capture, found the snapshot {shown(target.label)}"
        )
    path = Path(out)
    if keep_text:
        return _capture(target, path, options or CaptureOptions(), Redactor(None), progress)
    with _hashing(key_file, path.parent) as redactor:
        return _capture(target, path, options or CaptureOptions(), redactor, progress)


@contextmanager
def _hashing(key_file: str | Path | None, folder: Path) -> Iterator[Redactor]:
    """Give what hashes tenants and keys; a new key is kept once the work with it is done."""
    if key_file is None and not folder.is_dir():
        raise InputError(f"expected the folder {shown(str(folder), 200)} to exist: make it first")
    path = folder / KEY_FILE if key_file is None else Path(key_file)
    key, is_new = read_or_make_key(path)
    yield Redactor(key)
    if is_new:
        keep_key(path, key)


def _capture(
    target: Target,
    path: Path,
    options: CaptureOptions,
    redactor: Redactor,
    progress: Progress,
) -> CaptureReport:
    with open_reader(target) as reader:
        report = capture_to(
            path,
            reader=reader,
            sources=SOURCES,
            options=options,
            redactor=redactor,
            clock=SystemClock(),
            tool_version=__version__,
            progress=progress,
        )
    return replace(report, warnings=(*target.warnings, *report.warnings))


@contextmanager
def open_snapshot(
    source: str | Snapshot,
    *,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = _SILENT,
) -> Iterator[Snapshot]:
    """Give the snapshot that a SOURCE names; a live one is captured into a temporary file first.

    Parameters
    ----------
    source : str or Snapshot
        What to open; an open snapshot is given back as it is.
    options : CaptureOptions, optional
        How a live source is captured; a snapshot is not read again.
    keep : str or Path, optional
        Where the snapshot of a live source is kept.
    key_file : str or Path, optional
        The hashing key of a capture.

    Raises
    ------
    JobPlaybookError
        As `capture`, and `SchemaError` for a damaged or foreign snapshot file.

    Examples
    --------
    >>> with open_snapshot("sample") as snapshot:
    ...     snapshot.system
    'procrastinate'
    """
    if isinstance(source, Snapshot):
        yield source
        return
    target = resolve(source)
    if target.kind == "snapshot":
        assert target.path is not None, "a snapshot target always has a path"
        with opened(target.path, target.label) as snapshot:
            yield snapshot
        return
    with tempfile.TemporaryDirectory(prefix="jobplaybook-") as folder:
        path = Path(keep) if keep is not None else Path(folder) / "live.db"
        judging = replace(options or CaptureOptions(), look_ahead=False)
        with _hashing(key_file, path.parent) as redactor:
            report = _capture(target, path, judging, redactor, progress)
        with opened(path, target.label) as snapshot:
            yield replace(snapshot, notes=report.warnings, redactor=redactor)


def triage(
    source: str | Snapshot,
    *,
    now: int | datetime | str | None = None,
    since_seconds: float = 86_400.0,
    until: int | datetime | str | None = None,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = _SILENT,
) -> Triage:
    """Return the verdict: which layer broke, since when, whom it hits, what to do next.

    Parameters
    ----------
    source : str or Snapshot
        What to judge.
    now : int, datetime or str, optional
        The moment of judgement; by default the snapshot's ``captured_at``, each lease at the
        moment it was read.
    since_seconds : float
        Length of the window that is looked back on.
    until : int, datetime or str, optional
        Where that window ends.

    Raises
    ------
    JobPlaybookError
        As `open_snapshot`; `InputError` for an empty window.

    Examples
    --------
    >>> answer = triage("sample")
    >>> answer.verdict.code, answer.verdict.count, answer.verdict.evidence["owners"]
    ('lease-expired', 4, ['2'])
    """
    with open_snapshot(
        source, options=options, keep=keep, key_file=key_file, progress=progress
    ) as snapshot:
        situation = read_situation(
            snapshot, now=_moment(now), since_seconds=since_seconds, until=_moment(until)
        )
        return judge(
            situation,
            label=snapshot.label,
            warnings=[*snapshot.notes, *_earlier(snapshot, situation.now)],
            advice=_advice(snapshot, situation),
        )


def _moment(time: int | datetime | str | None) -> int | None:
    if time is None or isinstance(time, int):
        return time
    return parse_time(time if isinstance(time, str) else time.isoformat())


def _earlier(snapshot: Snapshot, now: int) -> list[str]:
    if now >= snapshot.captured_at:
        return []
    return [
        f"judged at {iso(now)}, before the capture at {iso(snapshot.captured_at)}: statuses are as "
        "captured, only ages and leases move"
    ]


def _advice(snapshot: Snapshot, situation: Any) -> str | None:
    source = next((source for source in SOURCES if source.name == snapshot.system), None)
    if source is None:
        return None
    owned: dict[str, list[str]] = {}
    for job in situation.held:
        if job.is_expired and job.owner is not None:
            owned.setdefault(job.owner, []).append(job.id)
    return source.advice(owned, situation.source_schema) if owned else None


def find(
    source: str | Snapshot,
    *,
    by: str,
    value: str,
    now: int | datetime | str | None = None,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = _SILENT,
) -> Found:
    """Return the jobs that an id, key, tenant, provider id or delivery names.

    Parameters
    ----------
    by : str
        ``job``, ``key``, ``tenant``, ``provider_id`` or ``delivery``.
    value : str
        What to look for, as the ticket has it; hashed here where the snapshot holds hashes.
    key_file : str or Path, optional
        The key those hashes were made with; by default ``jobplaybook.key`` beside the snapshot.

    Raises
    ------
    InputError
        If the hashes were made with another key, or the key is missing.

    Examples
    --------
    >>> [job.status for job in find("sample", by="job", value="319").jobs]
    ['processing']
    """
    with open_snapshot(
        source, options=options, keep=keep, key_file=key_file, progress=progress
    ) as snapshot:
        at = _moment(now)
        key = None if key_file is None else Path(key_file)
        return look_up(
            snapshot, by, value, now=snapshot.captured_at if at is None else at, key_file=key
        )


def run_notebook(
    notebook: str | Path,
    source: str | Snapshot = "sample",
    *,
    output: str | Path,
    parameters: Mapping[str, Any] | None = None,
    html: str | Path | None = None,
    cell_seconds: float = 600.0,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = _SILENT,
) -> RunResult:
    """Run a notebook without a browser; its result is written beside it.

    Parameters
    ----------
    notebook : str or Path
        A bundled one by its name or number (``00-start-here``, ``00``), or a file.
    source : str or Snapshot
        What it reads; a live one is captured once, and the notebook gets the snapshot.
    output, html : str or Path
        The executed notebook, ``OUT.ipynb``, and the report; ``OUT.result.json`` comes with them.
    parameters : Mapping, optional
        Values of its parameters; text is read in the type of the default.
    cell_seconds : float
        A cell that runs longer ends the run.

    Raises
    ------
    JobPlaybookError
        As `open_snapshot`, and for what `jobplaybook.notebooks.plan_run` refuses.
    """
    plan = plan_run(notebook, parameters=parameters or {}, output=output, html=html)
    asked = plan.window(options or CaptureOptions())
    how: dict[str, Any] = {"keep": keep, "key_file": key_file, "progress": progress}
    with open_snapshot(source, options=asked, **how) as snapshot:
        return execute(
            plan,
            snapshot,
            source=source,
            kept=keep is not None,
            cell_seconds=cell_seconds,
            clock=SystemClock(),
            tool_version=__version__,
        )


def field_path(text: str | None) -> tuple[str, ...]:
    """Return a payload path such as ``args.tenant`` as its steps; nothing for None.

    Examples
    --------
    >>> field_path("args.tenant"), field_path(None)
    (('args', 'tenant'), ())
    """
    return tuple(text.split(".")) if text else ()


def read_options(
    *, lease: float | None = None, tenant_path: str | None = None, key_path: str | None = None
) -> ReadOptions:
    """Return what a user says about the tables; see `jobplaybook.sources.base.ReadOptions`."""
    return ReadOptions(
        lease_seconds=lease, tenant_path=field_path(tenant_path), key_path=field_path(key_path)
    )


def sample_path(name: str = "killed") -> Path:
    """Return the path of a bundled snapshot: ``killed`` (the incident) or ``healthy``."""
    return bundled_path(f"sample_data/{name}.db")


def runbook_path(code: str) -> Path:
    """Return the path of a finding's runbook."""
    return bundled_path(f"runbooks/{code}.md")


__all__: Sequence[str] = (
    "capture",
    "find",
    "open_snapshot",
    "read_options",
    "run_notebook",
    "runbook_path",
    "sample_path",
    "sources",
    "triage",
)
