"""Opening a SOURCE: a snapshot as it is, a live database through a capture."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from jobplaybook import __version__
from jobplaybook.clock import SystemClock
from jobplaybook.connect import Target, open_reader, resolve
from jobplaybook.errors import InputError
from jobplaybook.snapshot.capture import capture_to
from jobplaybook.snapshot.file import Snapshot, opened
from jobplaybook.snapshot.options import CaptureOptions, CaptureReport, Progress
from jobplaybook.snapshot.redact import KEY_FILE, Redactor, read_or_make_key
from jobplaybook.sources import SOURCES
from jobplaybook.units import shown

SILENT: Progress = lambda table, rows: None  # noqa: E731


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a SOURCE is opened: how a live one is captured, and what is kept of that.

    Parameters
    ----------
    capture : CaptureOptions
        Window, budget and what the user says about the tables; of these a snapshot heeds the
        lease and refuses another system.
    keep : str or Path, optional
        Where the snapshot of a live source is kept.
    key_file : str or Path, optional
        The key that hashes tenants and keys; by default ``jobplaybook.key`` beside the snapshot.
    progress : callable
        Is told after every chunk: the table, and how many rows were written.
    """

    capture: CaptureOptions = field(default_factory=CaptureOptions)
    keep: str | Path | None = None
    key_file: str | Path | None = None
    progress: Progress = SILENT


AS_IT_IS = Opening()


def capture(
    source: str,
    out: str | Path,
    *,
    options: CaptureOptions | None = None,
    key_file: str | Path | None = None,
    keep_text: bool = False,
    progress: Progress = SILENT,
) -> CaptureReport:
    """Read a live database into a snapshot file.

    Parameters
    ----------
    out : str or Path
        The snapshot to write; an older one there is kept beside it, another file is refused.
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
    redactor = Redactor(None) if keep_text else _redactor(key_file, path.parent)
    return _capture(target, path, options or CaptureOptions(), redactor, progress)


def _redactor(key_file: str | Path | None, folder: Path) -> Redactor:
    """Return what hashes tenants and keys; a new key is kept once the work with it is done."""
    if key_file is None and not folder.is_dir():
        raise InputError(f"expected the folder {shown(str(folder), 200)} to exist: make it first")
    path = folder / KEY_FILE if key_file is None else Path(key_file)
    key, is_new = read_or_make_key(path)
    return Redactor(key, new_file=path if is_new else None)


def _capture(
    target: Target, path: Path, options: CaptureOptions, redactor: Redactor, progress: Progress
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
def open_snapshot(source: str | Snapshot, how: Opening = AS_IT_IS) -> Iterator[Snapshot]:
    """Give the snapshot that a SOURCE names; a live one is captured into a temporary file first.

    A snapshot that is open already is given back as it is.

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
    if target.path is not None and target.kind == "snapshot":
        with opened(target.path, target.label) as snapshot:
            yield _as_asked(snapshot, how)
        return
    with tempfile.TemporaryDirectory(prefix="jobplaybook-") as folder:
        path = Path(how.keep or Path(folder) / "live.db")
        redactor = _redactor(how.key_file, path.parent)
        judging = replace(how.capture, look_ahead=False)
        report = _capture(target, path, judging, redactor, how.progress)
        with opened(path, target.label) as snapshot:
            yield replace(snapshot, notes=report.warnings, redactor=redactor)


def _as_asked(snapshot: Snapshot, how: Opening) -> Snapshot:
    """Return the snapshot with the lease that was asked for; what only a capture does is said."""
    system, read = how.capture.system, how.capture.read
    if how.keep is not None:
        raise InputError("expected --keep with a live SOURCE only, found a snapshot: copy its file")
    if system not in (None, snapshot.system):
        raise InputError(
            f"expected a snapshot of {shown(system or '')}, found one of {shown(snapshot.system)}"
        )
    late = [
        f"{option} concerns a capture: this snapshot holds what was read when it was made"
        for option, path in (("--tenant-path", read.tenant_path), ("--key-path", read.key_path))
        if path
    ]
    return replace(snapshot, lease_seconds=read.lease_seconds, notes=(*snapshot.notes, *late))
