"""The public functions: open the source, call pure code, return a result.

A notebook cell and a command call the same function. Every ``source`` is a SOURCE as the command
line takes it: ``sample``, a snapshot file, ``env:NAME``, ``service=NAME``, a SQLite database or a
PostgreSQL URL; or a `Snapshot` that is open already. Every ``now`` and ``until`` is a moment:
microseconds UTC, an aware datetime, or ISO 8601 text. ``how`` says how a live source is captured.
All of them raise what `open_snapshot` raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from jobplaybook.backlog import (
    Recovery,
    read_backlog,
    read_backlogs,
    read_whole,
    recovery_of,
)
from jobplaybook.bundled import bundled_path
from jobplaybook.detectors.situation import Situation
from jobplaybook.errors import InputError
from jobplaybook.estimates import SEED, DrainEstimate, estimate_seen
from jobplaybook.life import Life, read_life
from jobplaybook.opening import AS_IT_IS, Opening, capture, open_snapshot
from jobplaybook.pulse import Pulse, read_pulse
from jobplaybook.reading import read_situation
from jobplaybook.running import postmortem, run_all, run_notebook
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.sources import SOURCES
from jobplaybook.sources.base import ReadOptions, Source
from jobplaybook.tickets import Found, look_up
from jobplaybook.units import iso, nearest, parse_time, shown
from jobplaybook.verdict import Triage, judge

Moment = int | datetime | str


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
            {"fact": f.fact, "state": f.state, "quality": f.quality.word, "note": f.note}
            for f in source.facts
        ],
        "actions": [],
    }


def triage(
    source: str | Snapshot,
    *,
    now: Moment | None = None,
    since_seconds: float = 86_400.0,
    until: Moment | None = None,
    how: Opening = AS_IT_IS,
) -> Triage:
    """Return the verdict: which layer broke, since when, whom it hits, what to do next.

    Parameters
    ----------
    now : int, datetime or str, optional
        The moment of judgement; by default the snapshot's ``captured_at``, each lease at the
        moment it was read.
    since_seconds : float
        Length of the window that is looked back on.
    until : int, datetime or str, optional
        Where that window ends.

    Raises
    ------
    InputError
        For an empty window.

    Examples
    --------
    >>> answer = triage("sample")
    >>> answer.verdict.code, answer.verdict.count, answer.verdict.evidence["owners"]
    ('lease-expired', 4, ['2'])
    """
    with _opened(source, now, how) as (snapshot, at):
        end = _micros(until)
        situation = read_situation(snapshot, now=at, since_seconds=since_seconds, until=end)
        warnings = list(snapshot.notes)
        if situation.now < snapshot.captured_at:
            warnings.append(
                f"judged at {iso(situation.now)}, before the capture at "
                f"{iso(snapshot.captured_at)}: statuses are as captured, only ages and leases move"
            )
        advice = _advice(snapshot, situation)
        answer = judge(situation, label=snapshot.label, warnings=warnings, advice=advice)
        return replace(answer, eta=_eta(snapshot, answer))


def health(
    source: str | Snapshot,
    *,
    queue: str | None = None,
    bucket_seconds: float | None = None,
    now: Moment | None = None,
    since_seconds: float = 86_400.0,
    until: Moment | None = None,
    how: Opening = AS_IT_IS,
) -> Pulse:
    """Return how the queues are: age, rates, headroom, drain, and a series of them.

    Parameters
    ----------
    now, since_seconds, until
        As in `triage`.
    bucket_seconds : float, optional
        Width of the series' buckets.

    Raises
    ------
    InputError
        For an empty window, or an unknown queue.

    Examples
    --------
    >>> [(queue.queue, queue.state) for queue in health("sample").queues]
    [('billing', 'no backlog'), ('mail', 'nothing due'), ('reports', 'no backlog')]
    """
    with _opened(source, now, how) as (snapshot, at):
        end = _micros(until)
        situation = read_situation(snapshot, now=at, since_seconds=since_seconds, until=end)
        return read_pulse(snapshot, situation, queue=queue, bucket_seconds=bucket_seconds)


def find(
    source: str | Snapshot, *, by: str, value: str, now: Moment | None = None,
    how: Opening = AS_IT_IS,
) -> Found:  # fmt: skip
    """Return the jobs that an id, key, tenant, provider id or delivery names.

    Parameters
    ----------
    by : str
        ``job``, ``key``, ``tenant``, ``provider_id`` or ``delivery``.
    value : str
        What to look for, as the ticket has it; hashed here where the snapshot holds hashes, with
        the key that ``how`` names.

    Raises
    ------
    InputError
        If the hashes were made with another key, or the key is missing.

    Examples
    --------
    >>> [job.status for job in find("sample", by="job", value="319").jobs]
    ['processing']
    """
    with _opened(source, now, how) as (snapshot, at):
        at = snapshot.captured_at if at is None else at
        key = Path(how.key_file) if how.key_file else None
        return look_up(snapshot, by, value, now=at, key_file=key)


def timeline(
    source: str | Snapshot,
    job_id: str,
    *,
    now: Moment | None = None,
    events: Sequence[tuple[Moment, str]] = (),
    how: Opening = AS_IT_IS,
) -> Life:
    """Return one job's life across the layers; an unknown id says so.

    Parameters
    ----------
    job_id : str
        The job's id as its system writes it.
    events : sequence of (time, str)
        What happened outside the queue, such as deploys, told in its place.

    Examples
    --------
    >>> life = timeline("sample", "319")
    >>> str(life.layer), [event.event for event in life.events]
    ('claimed', ['accepted', 'claimed', 'renewed', 'expired'])
    """
    with _opened(source, now, how) as (snapshot, at):
        outside = [(_micros(moment) or 0, text) for moment, text in events]
        return read_life(snapshot, job_id, now=at, external=outside)


@contextmanager
def _opened(
    source: str | Snapshot, now: Moment | None, how: Opening
) -> Iterator[tuple[Snapshot, int | None]]:
    """Give the snapshot and the moment of judgement, which a live source is captured as of."""
    at = _micros(now)
    if at is not None and how.capture.now is None:
        how = replace(how, capture=replace(how.capture, now=at))
    with open_snapshot(source, how) as snapshot:
        yield snapshot, at


def _micros(moment: Moment | None) -> int | None:
    if moment is None or isinstance(moment, int):
        return moment
    return parse_time(moment if isinstance(moment, str) else moment.isoformat())


def _advice(snapshot: Snapshot, situation: Situation) -> str | None:
    """Return the system's own statement that frees the jobs of dead owners."""
    owned: dict[str, list[str]] = {}
    for job in situation.held:
        if job.is_expired and job.owner is not None:
            owned.setdefault(job.owner, []).append(job.id)
    source = next((source for source in SOURCES if source.name == snapshot.system), None)
    return source.advice(owned, situation.source_schema) if source and owned else None


def _eta(snapshot: Snapshot, answer: Triage) -> DrainEstimate | None:
    """Return when the backlog of the verdict's queue is gone, or of all; None: none or unknown."""
    queues = [queue for queue in answer.situation.queues if queue.backlog]
    if not queues or not answer.situation.knows_flow:
        return None
    if "queue" not in answer.verdict.evidence:
        seen = read_whole(snapshot, answer.situation)
    else:
        seen = read_backlog(snapshot, answer.situation, answer.verdict.evidence["queue"])
    return estimate_seen(seen) if seen.waiting else None


def estimate_backlog(
    source: str | Snapshot,
    *,
    queue: str | None = None,
    by_seconds: float | None = None,
    limit: int | None = None,
    seed: int = SEED,
    now: Moment | None = None,
    since_seconds: float = 86_400.0,
    until: Moment | None = None,
    how: Opening = AS_IT_IS,
) -> Recovery:
    """Return when the backlogs of a source are gone: overall, by queue and by type.

    Parameters
    ----------
    queue : str, optional
        One queue alone.
    by_seconds : float, optional
        T, the time in which they ought to be gone, seconds.
    limit : int, optional
        The backlog at which something breaks, jobs.
    seed : int
        Seed of the draws.
    now, since_seconds, until
        As in `triage`.

    Raises
    ------
    InputError
        For an empty window, or an unknown queue.

    Examples
    --------
    >>> estimate_backlog("sample").text
    'nothing due'
    """
    with _opened(source, now, how) as (snapshot, at):
        end = _micros(until)
        situation = read_situation(snapshot, now=at, since_seconds=since_seconds, until=end)
        seen = read_backlogs(snapshot, situation)
        return recovery_of(
            seen, situation, queue=queue, by_seconds=by_seconds, limit=limit, seed=seed
        )


def read_options(
    *, lease: float | None = None, tenant_path: str | None = None, key_path: str | None = None
) -> ReadOptions:
    """Return what a user says about the tables; a path is written like ``args.tenant``.

    Examples
    --------
    >>> read_options(tenant_path="args.tenant").tenant_path
    ('args', 'tenant')
    """
    tenant, key = (tuple(path.split(".")) if path else () for path in (tenant_path, key_path))
    return ReadOptions(lease_seconds=lease, tenant_path=tenant, key_path=key)


def sample_path(name: str = "killed") -> Path:
    """Return the path of a bundled snapshot: ``killed`` (the incident) or ``healthy``."""
    return bundled_path(f"sample_data/{name}.db")


def runbook_path(code: str) -> Path:
    """Return the path of a finding's runbook; an unknown code names the nearest."""
    codes = sorted(path.stem for path in bundled_path("runbooks").glob("[a-z]*.md"))
    if code not in codes:
        raise InputError(f"no runbook {shown(code)}: {nearest(code, codes)}")
    return bundled_path(f"runbooks/{code}.md")


__all__: Sequence[str] = (
    "Opening",
    "capture",
    "estimate_backlog",
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
