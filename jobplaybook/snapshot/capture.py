"""Capture: from a live queue to a snapshot, without the queue noticing.

Every statement is a short read-only transaction over a bounded number of rows. The order is what
keeps the truth: first the running jobs with their owners' heartbeats and the clock in one
statement, then whatever is unfinished, then the finished ones, newest end first. A job that
moves meanwhile is read again further on and replaced, so it is neither lost nor doubled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.clock import Clock
from jobplaybook.connect import ChunkTooSlow, Reader
from jobplaybook.dialects import catalogue, database_clock, vitals
from jobplaybook.errors import SchemaError, SourceError
from jobplaybook.snapshot.chunks import (
    CARRIED,
    carried_attempts,
    history_chunk,
    jobs_of,
    key_chunk,
)
from jobplaybook.snapshot.file import SnapshotWriter, writing
from jobplaybook.snapshot.options import CaptureOptions, CaptureReport, Progress
from jobplaybook.snapshot.pace import SMALLEST_CHUNK, Pace, read_ahead
from jobplaybook.snapshot.privileges import role_warnings
from jobplaybook.snapshot.redact import Redactor, stamped
from jobplaybook.sources.base import ONLY_ATTEMPT, Catalog, Detected, Source, choose
from jobplaybook.tables import SCHEMA_VERSION, metadata
from jobplaybook.units import MICROS, iso, shown

_SMALL_LIMIT = 100_000
_UNCOUNTED = ("meta", "facts", "vitals")


def detect(
    reader: Reader, sources: Sequence[Source], system: str | None
) -> tuple[Source, Detected]:
    """Look up the catalogue once and return the queue system that the database holds."""
    names = sorted({name for s in sources for name in (*s.signature, *s.optional)})
    rows = reader.rows(catalogue(reader.dialect), names=names)
    return choose(sources, Catalog.of(reader.dialect, rows), system)


def capture_to(
    target: Path,
    *,
    reader: Reader,
    sources: Sequence[Source],
    options: CaptureOptions,
    redactor: Redactor,
    clock: Clock,
    tool_version: str,
    progress: Progress = lambda table, rows: None,
) -> CaptureReport:
    """Read a live queue into the snapshot file ``target``.

    Raises
    ------
    SourceError
        If the database is unreachable, locked or out of time before anything was read.
    SchemaError
        If its tables are not what they should be.
    UnsafeAction
        If a read-only role is required and this one may write.
    InputError
        If the file cannot be written.
    """
    with writing(target) as writer:
        source, found = detect(reader, sources, options.system)
        job = _Capture(reader, writer, source, found, options, redactor, clock, progress)
        job.warnings += role_warnings(reader, found, refuse=options.require_readonly)
        job.read()
        return job.finish(tool_version)


@dataclass(slots=True)
class _Batch:
    """Jobs that were read, and the rows that hang on them by canonical table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    by_job: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    carried: dict[Any, tuple[Any, ...]] = field(default_factory=dict)


class _Capture:
    """One capture under way."""

    def __init__(
        self,
        reader: Reader,
        writer: SnapshotWriter,
        source: Source,
        found: Detected,
        options: CaptureOptions,
        redactor: Redactor,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self.reader, self.writer, self.source, self.found = reader, writer, source, found
        self.options, self.redactor, self.progress = options, redactor, progress
        self.pace = Pace(reader, clock, options)
        self.statements = source.statements(found, options.read)
        self.warnings = list(found.warnings)
        self.not_read = dict(found.not_read)
        self.seen: dict[Any, str] = {}
        self.moved = 0
        self.stamp = self._stamp()
        self.captured_from = self._now()
        self.cutoff = self.captured_from - int(options.since_seconds * MICROS)
        self.covered_from = self.cutoff
        self.workers_read_at: int | None = None

    def read(self) -> None:
        """Read everything, in the order that keeps a moving job from being lost."""
        self._write(self._running())
        self._small()
        phases = chain(self._unfinished(), self._finished())
        for batch in read_ahead(phases, stop=self.pace.stop):
            self._write(batch)
        if self.options.take_vitals:
            self._vitals()

    def finish(self, tool_version: str) -> CaptureReport:
        """Write facts and meta, put the file in place and report."""
        captured_to = self._now()
        self._facts()
        counts = {
            table.name: sum(self.writer.count(table.name).values())
            for table in metadata.tables.values()
            if table.name not in _UNCOUNTED
        }
        by_status = self.writer.count("jobs", "native_status")
        if not counts["jobs"]:
            self.warnings.append(
                f"{self.source.name}'s tables hold no job that is unfinished or ended in the window"
            )
        digest = self.writer.finish(self._meta(captured_to, tool_version))
        return CaptureReport(
            file=str(self.writer.target),
            system=self.source.name,
            system_version=self.found.version,
            captured_from=self.captured_from,
            captured_to=captured_to,
            rows=counts,
            rows_by_status=by_status,
            not_read=self.not_read,
            moved_during_capture=self.moved,
            content_sha256=digest,
            warnings=tuple(self.warnings),
        )

    # -- the phases, in their order ---------------------------------------------------------

    def _running(self) -> _Batch:
        try:
            return self._jobs(self.statements.running)
        except ChunkTooSlow:
            # The unfinished are read in chunks next, heartbeats and clock in each statement too.
            self.warnings.append("the running jobs were too many to read in one statement")
            return _Batch((), ())

    def _small(self) -> None:
        for table, statement in self.statements.small.items():
            columns = statement.selected_columns.keys()
            rows = self.pace.rows(statement.limit(_SMALL_LIMIT + 1))
            if len(rows) > _SMALL_LIMIT:
                rows = rows[:_SMALL_LIMIT]
                self.not_read[table] = f"only the first {_SMALL_LIMIT:,} rows were read"
            place = columns.index("read_at") if "read_at" in columns else len(columns)
            if table == "workers":
                read = min((row[place] for row in rows), default=self.captured_from)
                self.workers_read_at = read if self.stamp is None else self.stamp
            kept = [row[:place] + row[place + 1 :] for row in rows]
            self.writer.insert(table, columns[:place] + columns[place + 1 :], kept)
            self.progress(table, len(rows))

    def _unfinished(self) -> Iterator[_Batch]:
        table, key = self.found.tables[self.source.job_table], str(self.statements.key.key)
        # An index of the unfinished alone makes chunks of them; without one, every key is walked
        # in chunks, so that no statement examines more rows than a chunk has.
        index = self.statements.indexed if key in table.partly_indexed else None
        if index is None and key not in table.indexed:
            self.warnings.append(
                f"{table.name} ({table.size_text}) has no index that starts with {key}: "
                "every chunk scans it"
            )
        also = self.statements.unfinished if index is None else sa.true()
        after: Any = None
        while not self._must_stop("unfinished", left := _above(key, after)):
            chunk = key_chunk(self.statements, after, index, self.pace.chunk)
            try:
                keys = [row[0] for row in self.pace.rows(chunk)]
                batch = self._jobs(also, keys) if keys else None
            except ChunkTooSlow:
                if not self._shrunk("unfinished", left):
                    return
                continue
            if batch is None:
                return
            yield batch
            after = keys[-1]

    def _finished(self) -> Iterator[_Batch]:
        waiting: list[Any] = []
        for keys in self._ended():
            waiting += keys
            while len(waiting) >= self.pace.chunk:
                part, waiting = waiting[: self.pace.chunk], waiting[self.pace.chunk :]
                yield from self._finished_jobs(part)
        yield from self._finished_jobs(waiting)

    def _ended(self) -> Iterator[list[Any]]:
        """Give the keys of jobs that ended in the window, chunk by chunk, the newest first."""
        done: set[Any] = set()
        before: list[Any] = []
        reached = self.captured_from
        while True:
            where = f"ended before {iso(reached)}"
            stop = self._must_stop("finished", where)
            try:
                rows = (
                    []
                    if stop
                    else self.pace.rows(
                        history_chunk(self.statements, before, self.cutoff, self.pace.chunk)
                    )
                )
            except ChunkTooSlow:
                if self._shrunk("finished", where):
                    continue
                stop = True
            if stop:
                self.covered_from = max(self.cutoff, reached)
                return
            keys = list(dict.fromkeys(row[-3] for row in rows if row[-3] not in done))
            keys = [key for key in keys if key is not None]
            done.update(keys)
            yield keys
            # The row without a job sums the chunk up: where it ended, and how far back it is whole.
            sums = (row for row in rows if row[-3] is None)
            *before, _none, newest, whole_from = next(sums, (None, None, None))
            if not before or (newest is not None and newest < self.cutoff):
                return
            reached = reached if whole_from is None else min(reached, whole_from)

    def _finished_jobs(self, keys: Sequence[Any]) -> Iterator[_Batch]:
        """Read jobs by key, in smaller parts if the statement is too slow."""
        todo = [list(keys)] if keys else []
        while todo:
            part = todo.pop()
            try:
                batch = self._jobs(sa.true(), part)
            except ChunkTooSlow:
                if len(part) <= SMALLEST_CHUNK:
                    raise
                half = len(part) // 2
                todo += [part[:half], part[half:]]
            else:
                yield batch

    def _jobs(self, condition: ColumnElement[bool], keys: Sequence[Any] | None = None) -> _Batch:
        """Read jobs, whatever their state is by now, and what hangs on them."""
        statement, binds = self.statements.jobs, dict[str, Any]()
        if keys is not None:
            statement, binds = jobs_of(self.statements, keys)
        statement = statement.where(condition)
        rows = self.pace.rows(statement, **binds)
        if keys is not None and len(rows) > len(keys):
            wanted = set(keys)
            rows = [row for row in rows if row[0] in wanted]
        batch = _Batch(statement.selected_columns.keys(), rows)
        started = [row[0] for row in rows if row[batch.columns.index("attempts")]]
        for table, by_job in self.statements.by_job.items():
            asked = started
            if table == "attempts":
                batch.carried = carried_attempts(batch.columns, rows)
                asked = [key for key in started if key not in batch.carried]
            if asked:
                batch.by_job[table] = self.pace.rows(by_job, ids=asked)
        return batch

    # -- rows on their way into the file ----------------------------------------------------

    def _write(self, batch: _Batch) -> None:
        if batch.rows:
            self._note_statuses(batch.columns, batch.rows)
            last = -len(ONLY_ATTEMPT) if batch.columns[-1] in ONLY_ATTEMPT else None
            kept = (row[1:last] for row in batch.rows)
            hidden = self.redactor.rows(batch.columns[1:last], kept)
            self.writer.insert("jobs", *stamped(*hidden, self.stamp))
            self.writer.insert("attempts", CARRIED, list(batch.carried.values()))
            self.progress("jobs", len(batch.rows))
        for table, rows in batch.by_job.items():
            columns = self.statements.by_job[table].selected_columns.keys()
            self.writer.insert(table, columns, rows)
            self.progress(table, len(rows))

    def _note_statuses(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Count jobs that were read in another status before; refuse unknown status words."""
        status, native = columns.index("status"), columns.index("native_status")
        for row in rows:
            if row[status] is None:
                raise SchemaError(
                    f"expected only {self.source.name}'s known status words, found "
                    f"{shown(str(row[native]))}: it is newer than this version understands"
                )
            earlier = self.seen.setdefault(row[0], row[native])
            if earlier != row[native]:
                self.moved += 1
                self.seen[row[0]] = row[native]

    def _vitals(self) -> None:
        binds = {"schema": self.found.schema, "names": sorted(self.found.tables)}
        if self.reader.dialect == "sqlite":
            binds = {}
        taken = self._now()
        try:
            rows = self.pace.rows(vitals(self.reader.dialect), **binds)
        except SourceError as error:
            self.not_read["vitals"] = str(error)
            return
        columns = ("taken_at", "name", "subject", "value")
        self.writer.insert("vitals", columns, [(taken, *row) for row in rows])

    def _facts(self) -> None:
        facts = self.source.facts_with(self.options.read)
        rows = [(fact.fact, fact.state, fact.quality.word, fact.note) for fact in facts]
        self.writer.insert("facts", ("fact", "state", "quality", "note"), rows)

    def _meta(self, captured_to: int, tool_version: str) -> dict[str, str]:
        lease = self.options.read.lease_seconds
        return {
            "system": self.source.name,
            "system_version": self.found.version,
            "source_schema": self.found.schema,
            "captured_at": iso(captured_to) or "",
            "captured_from": iso(self.captured_from) or "",
            "captured_to": iso(captured_to) or "",
            "window_from": iso(self.covered_from) or "",
            "window": f"{self.options.since_seconds:g}s",
            "workers_read_at": iso(self.workers_read_at) or "",
            "lease_override_seconds": "" if lease is None else f"{lease:g}",
            "sweeper": self.source.sweeper or "",
            "key_id": self.redactor.key_id,
            "tool_version": tool_version,
            "schema_version": str(SCHEMA_VERSION),
            "moved_during_capture": str(self.moved),
            "not_read": json.dumps(self.not_read, sort_keys=True),
            # What a reader of the rows has to know; the role and the indexes concern the capture.
            "warnings": json.dumps(list(self.found.warnings)),
        }

    # -- time -------------------------------------------------------------------------------

    def _must_stop(self, phase: str, what: str) -> bool:
        if not self.pace.is_out_of_time:
            return False
        budget = self.options.budget_seconds
        self.not_read[phase] = f"{what}: the budget of {budget:g} s was used up"
        return True

    def _shrunk(self, phase: str, what: str) -> bool:
        if self.pace.shrink():
            return True
        self.not_read[phase] = f"{what}: even {SMALLEST_CHUNK} rows took longer than 5 s"
        return False

    def _stamp(self) -> int | None:
        """Return the moment that stands in for the database's clock, if one does."""
        given = self.options.now
        if given is None or self.options.look_ahead or given <= self._clock():
            return given
        return None

    def _clock(self) -> int:
        return int(self.reader.scalar(sa.select(database_clock())))

    def _now(self) -> int:
        return self._clock() if self.stamp is None else self.stamp


def _above(key: str, after: Any) -> str:
    return "all but the running ones" if after is None else f"those with {key} above {after}"
