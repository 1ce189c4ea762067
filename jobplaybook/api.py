"""The public functions: open the source, call pure code, return a result.

A notebook cell and a command call the same function. Every ``source`` is a SOURCE as the command
line takes it: ``sample``, a snapshot file, ``env:NAME``, ``service=NAME``, a SQLite database or a
PostgreSQL URL; or a `Snapshot` that is open already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobplaybook.bundled import bundled_path
from jobplaybook.life import Life, read_life
from jobplaybook.opening import SILENT, capture, open_snapshot
from jobplaybook.pulse import Pulse, read_pulse
from jobplaybook.reading import read_situation
from jobplaybook.running import postmortem, run_all, run_notebook
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.snapshot.options import CaptureOptions, Progress
from jobplaybook.sources import SOURCES
from jobplaybook.sources.base import ReadOptions, Source
from jobplaybook.tickets import Found, look_up
from jobplaybook.units import iso, parse_time
from jobplaybook.verdict import Triage, judge

if TYPE_CHECKING:
    from datetime import datetime


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


def triage(
    source: str | Snapshot,
    *,
    now: int | datetime | str | None = None,
    since_seconds: float = 86_400.0,
    until: int | datetime | str | None = None,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = SILENT,
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
        source, options=_as_of(options, now), keep=keep, key_file=key_file, progress=progress
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


def _as_of(
    options: CaptureOptions | None, now: int | datetime | str | None
) -> CaptureOptions | None:
    """Return how a live source is captured: as of ``now``, where its own clock has come so far."""
    if now is None or (options is not None and options.now is not None):
        return options
    return replace(options or CaptureOptions(), now=_moment(now))


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
    progress: Progress = SILENT,
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
        source, options=_as_of(options, now), keep=keep, key_file=key_file, progress=progress
    ) as snapshot:
        at = _moment(now)
        key = None if key_file is None else Path(key_file)
        return look_up(
            snapshot, by, value, now=snapshot.captured_at if at is None else at, key_file=key
        )


def timeline(
    source: str | Snapshot,
    job_id: str,
    *,
    now: int | datetime | str | None = None,
    events: Sequence[tuple[int | datetime | str, str]] = (),
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = SILENT,
) -> Life:
    """Return one job's life across the layers; an unknown id says so.

    Parameters
    ----------
    job_id : str
        The job's id as its system writes it.
    events : sequence of (time, str)
        What happened outside the queue, such as deploys, told in its place.

    Raises
    ------
    JobPlaybookError
        As `open_snapshot`.

    Examples
    --------
    >>> life = timeline("sample", "319")
    >>> str(life.layer), [event.event for event in life.events]
    ('claimed', ['accepted', 'claimed', 'renewed', 'expired'])
    """
    with open_snapshot(
        source, options=_as_of(options, now), keep=keep, key_file=key_file, progress=progress
    ) as snapshot:
        outside = [(_moment(at) or 0, text) for at, text in events]
        return read_life(snapshot, job_id, now=_moment(now), external=outside)


def health(
    source: str | Snapshot,
    *,
    queue: str | None = None,
    bucket_seconds: float | None = None,
    now: int | datetime | str | None = None,
    since_seconds: float = 86_400.0,
    until: int | datetime | str | None = None,
    options: CaptureOptions | None = None,
    keep: str | Path | None = None,
    key_file: str | Path | None = None,
    progress: Progress = SILENT,
) -> Pulse:
    """Return how the queues are: age, rates, headroom, drain, and a series of them.

    Parameters
    ----------
    queue : str, optional
        One queue alone.
    bucket_seconds : float, optional
        Width of the series' buckets.

    Raises
    ------
    JobPlaybookError
        As `triage`; `InputError` for an unknown queue.

    Examples
    --------
    >>> [(queue.queue, queue.state) for queue in health("sample").queues]
    [('billing', 'no backlog'), ('mail', 'nothing due'), ('reports', 'no backlog')]
    """
    with open_snapshot(
        source, options=_as_of(options, now), keep=keep, key_file=key_file, progress=progress
    ) as snapshot:
        situation = read_situation(
            snapshot, now=_moment(now), since_seconds=since_seconds, until=_moment(until)
        )
        return read_pulse(snapshot, situation, queue=queue, bucket_seconds=bucket_seconds)


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
    "health",
    "open_snapshot",
    "postmortem",
    "read_options",
    "run_all",
    "run_notebook",
    "runbook_path",
    "sample_path",
    "sources",
    "timeline",
    "triage",
)
