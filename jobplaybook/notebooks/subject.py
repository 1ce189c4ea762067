"""What notebooks read: the file of a snapshot, what is said of it, and what is kept from them."""

from __future__ import annotations

from dataclasses import dataclass

from jobplaybook.connect import resolve
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import iso


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A snapshot as the runs of one command share it; it can be sent to another process.

    Parameters
    ----------
    source : str
        What a notebook gets as its ``source``.
    label, system, captured_at, content_sha256 : str
        What a result says of it.
    notes : tuple of str
        What the capture had to say.
    hidden : tuple of str
        Environment variables that no kernel must see: they lead to the live database.
    is_passing : bool
        Whether the file is gone after the run: then nothing written may name it.
    """

    source: str
    label: str
    system: str
    captured_at: str
    content_sha256: str
    notes: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    is_passing: bool = False


def subject_of(snapshot: Snapshot, source: str | Snapshot, *, kept: bool) -> Subject:
    """Return an open snapshot as notebooks get it.

    Parameters
    ----------
    snapshot : Snapshot
        What was opened.
    source : str or Snapshot
        The SOURCE it was read from: a live one is hidden from the notebooks.
    kept : bool
        Whether the snapshot of a live source stays.
    """
    live = isinstance(source, str) and resolve(source).kind != "snapshot"
    named = str(source).removeprefix("env:") if str(source).startswith("env:") else ""
    return Subject(
        source="sample" if source == "sample" else str(snapshot.path.absolute()),
        label=snapshot.label,
        system=snapshot.system,
        captured_at=str(iso(snapshot.captured_at)),
        content_sha256=snapshot.meta["content_sha256"],
        notes=snapshot.notes,
        hidden=(named,) if live and named else (),
        is_passing=live and not kept,
    )
