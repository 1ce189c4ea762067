"""Opening a SOURCE: a snapshot as it is, a live database through a capture."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
    redactor = _redactor(key_file, path.parent)
    return _capture(target, path, options or CaptureOptions(), redactor, progress)


def _redactor(key_file: str | Path | None, folder: Path) -> Redactor:
    """Return what hashes tenants and keys; a new key is kept once the work with it is done."""
    if key_file is None and not folder.is_dir():
        raise InputError(f"expected the folder {shown(str(folder), 200)} to exist: make it first")
    path = folder / KEY_FILE if key_file is None else Path(key_file)
    key, is_new = read_or_make_key(path)
    return Redactor(key, new_file=path if is_new else None)


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


def _as_asked(snapshot: Snapshot, options: CaptureOptions, keep: str | Path | None) -> Snapshot:
    """Return the snapshot with the lease that was asked for; what only a capture does is said."""
    if keep is not None:
        raise InputError("expected --keep with a live SOURCE only, found a snapshot: copy its file")
    if options.system not in (None, snapshot.system):
        raise InputError(
            f"expected a snapshot of {shown(options.system or '')}, found one of "
            f"{shown(snapshot.system)}"
        )
    read = options.read
    late = [
        f"{option} concerns a capture: this snapshot holds what was read when it was made"
        for option, path in (("--tenant-path", read.tenant_path), ("--key-path", read.key_path))
        if path
    ]
    return replace(snapshot, lease_seconds=read.lease_seconds, notes=(*snapshot.notes, *late))


@contextmanager
def open_snapshot(
    source: str | Snapshot,
    *,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = SILENT,
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
            yield _as_asked(snapshot, options or CaptureOptions(), keep)
        return
    with tempfile.TemporaryDirectory(prefix="jobplaybook-") as folder:
        path = Path(keep) if keep is not None else Path(folder) / "live.db"
        judging = replace(options or CaptureOptions(), look_ahead=False)
        redactor = _redactor(key_file, path.parent)
        report = _capture(target, path, judging, redactor, progress)
        with opened(path, target.label) as snapshot:
            yield replace(snapshot, notes=report.warnings, redactor=redactor)
