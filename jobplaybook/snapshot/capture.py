"""Capture: from a live queue to a snapshot, without the queue noticing.

Every statement is a short read-only transaction over a bounded number of rows. The order is what
keeps the truth: first the running jobs with their owners' heartbeats and the clock in one
statement, then whatever is unfinished, then the finished ones, newest end first. A job that
moves meanwhile is read again further on and replaced, so it is neither lost nor doubled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from jobplaybook.clock import Clock
from jobplaybook.connect import Reader
from jobplaybook.dialects import REPLAY_LAG, SUPERUSER, catalogue, database_clock, vitals
from jobplaybook.errors import SchemaError, SourceError, UnsafeAction
from jobplaybook.model import UNFINISHED, Fact, Quality, Status
from jobplaybook.snapshot.file import SnapshotWriter, writing
from jobplaybook.snapshot.options import CaptureOptions, CaptureReport, Progress
from jobplaybook.snapshot.pace import Pace, read_ahead
from jobplaybook.snapshot.phases import Batch, Phases
from jobplaybook.snapshot.redact import Redactor
from jobplaybook.sources.base import ONLY_ATTEMPT, Source, choose
from jobplaybook.sources.catalog import Catalog, Detected
from jobplaybook.tables import SCHEMA_VERSION, metadata
from jobplaybook.units import MICROS, duration_text, iso, shown

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
        found = replace(found, warnings=(*found.warnings, *_standby_warnings(reader)))
        rights = _role_warnings(reader, found, refuse=options.require_readonly)
        job = _Capture(reader, writer, source, found, options, redactor, clock, progress)
        job.warnings += rights
        job.read()
        return job.finish(tool_version)


def _standby_warnings(reader: Reader) -> list[str]:
    """Return a warning where the database is a standby: it shows a moment that has passed."""
    lag = reader.scalar(REPLAY_LAG) if reader.dialect == "postgresql" else None
    if lag is None:
        return []
    return [
        f"read from a standby, {duration_text(float(lag))} behind its primary: everything is as of "
        "the last transaction that it replayed"
    ]


def _role_warnings(reader: Reader, found: Detected, *, refuse: bool) -> list[str]:
    """Return a warning where the role may do more than read the queue's tables, or refuse it."""
    may_write = sorted(name for name, table in found.tables.items() if table.writable)
    superuser = reader.dialect == "postgresql" and reader.scalar(SUPERUSER)
    if not superuser and not may_write:
        return []
    what = "is a superuser" if superuser else f"may write {', '.join(may_write)}"
    if refuse:
        raise UnsafeAction(
            f"expected a role that may only read, found one that {what}: "
            "use a role with SELECT on the queue's tables"
        )
    return [f"the role {what}: a role with SELECT alone is enough and safer"]


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
        self.unfinished: dict[Any, str] = {}
        self.moved = 0
        self.stamp = self._stamp()
        self.captured_from = self._now()
        self.workers_read_at: int | None = None
        self.deleted_rows = 0.0
        self.phases = Phases(
            pace=self.pace,
            found=found,
            job_table=source.job_table,
            statements=self.statements,
            since=self.captured_from - int(options.since_seconds * MICROS),
            begun_at=self.captured_from,
            warnings=list(found.warnings),
        )
        self.warnings = self.phases.warnings

    def read(self) -> None:
        """Read everything, in the order that keeps a moving job from being lost."""
        self._write(self.phases.running())
        for table, statement in self.statements.small.items():
            self._small(table, statement)
        phases = chain(self.phases.unfinished(), self.phases.finished(), self.phases.slow())
        for batch in read_ahead(phases, stop=self.pace.stop):
            self._write(batch)
        if self.options.take_vitals:
            self._vitals()

    def finish(self, tool_version: str) -> CaptureReport:
        """Write facts and meta, put the file in place and report."""
        captured_to = self._now()
        rows = [(f.fact, f.state, f.quality.word, f.note) for f in self._facts()]
        self.writer.insert("facts", ("fact", "state", "quality", "note"), rows)
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
        meta = self._meta(captured_to, tool_version)
        self.redactor.keep()  # before the file is in place: its hashes are worth nothing without
        digest = self.writer.finish(meta)
        if self.writer.aside is not None:
            kept = shown(str(self.writer.aside), 200)
            self.warnings.append(f"an older snapshot stood there: it is kept as {kept}")
        return CaptureReport(
            file=str(self.writer.target),
            system=self.source.name,
            system_version=self.found.version,
            captured_from=self.captured_from,
            captured_to=captured_to,
            rows=counts,
            rows_by_status=by_status,
            not_read=self.phases.not_read,
            moved_during_capture=self.moved,
            content_sha256=digest,
            warnings=tuple(self.warnings),
        )

    # -- rows on their way into the file ----------------------------------------------------

    def _small(self, table: str, statement: sa.Select[Any]) -> None:
        columns = statement.selected_columns.keys()
        rows = self.pace.rows(statement.limit(_SMALL_LIMIT + 1))
        if len(rows) > _SMALL_LIMIT:
            rows = rows[:_SMALL_LIMIT]
            self.phases.stopped[table] = f"only the first {_SMALL_LIMIT:,} rows were read"
        place = columns.index("read_at") if "read_at" in columns else len(columns)
        if table == "workers":
            read = min((row[place] for row in rows), default=self.captured_from)
            self.workers_read_at = read if self.stamp is None else self.stamp
        kept = [row[:place] + row[place + 1 :] for row in rows]
        self.writer.insert(table, columns[:place] + columns[place + 1 :], kept)
        self.progress(table, len(rows))

    def _write(self, batch: Batch) -> None:
        if batch.rows:
            self._note_statuses(batch.columns, batch.rows)
            last = -len(ONLY_ATTEMPT) if batch.columns[-1] in ONLY_ATTEMPT else None
            kept = (row[1:last] for row in batch.rows)
            columns, rows = self.redactor.rows(batch.columns[1:last], kept)
            if self.stamp is not None:
                read_at = columns.index("read_at")
                for row in rows:
                    row[read_at] = self.stamp
            self.writer.insert("jobs", columns, rows)
            self.progress("jobs", len(rows))
        for table, of_table, hanging in batch.hanging:
            self.writer.insert(table, of_table, hanging)
            self.progress(table, len(hanging))

    def _note_statuses(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Count jobs that were read in another status before; refuse unknown status words."""
        status, native = columns.index("status"), columns.index("native_status")
        for row in rows:
            if row[status] is None:
                raise SchemaError(
                    f"expected only {self.source.name}'s known status words, found "
                    f"{shown(str(row[native]))}: it is newer than this version understands"
                )
            # Only unfinished jobs are remembered: they are few, the finished ones may be millions.
            earlier = self.unfinished.get(row[0], row[native])
            self.moved += earlier != row[native]
            if row[status] in UNFINISHED or row[0] in self.unfinished:
                self.unfinished[row[0]] = row[native]

    def _vitals(self) -> None:
        taken, tables = self._now(), sorted(self.found.tables)
        try:
            rows = self.pace.rows(
                vitals(self.reader.dialect), schema=self.found.schema, names=tables
            )
        except SourceError as error:
            self.phases.stopped["vitals"] = str(error)
            return
        found = {(name, subject): value for name, subject, value in rows}
        self.deleted_rows = found.get(("deleted_rows", self.source.job_table)) or 0.0
        columns = ("taken_at", "name", "subject", "value")
        self.writer.insert("vitals", columns, [(taken, *row) for row in rows])

    # -- what is said of the rows -----------------------------------------------------------

    def _facts(self) -> list[Fact]:
        """Return the facts: without paths that led to nothing, and without ends that are gone."""
        asked = self.options.read
        read = replace(
            asked,
            tenant_path=self._found_at(asked.tenant_path, "--tenant-path", "tenant_id"),
            key_path=self._found_at(asked.key_path, "--key-path", "idempotency_key"),
        )
        facts = self.source.facts_with(read)
        if not self._completed_jobs_are_deleted():
            return facts
        why = self.source.deletes_ended
        return [
            replace(fact, quality=Quality.ABSENT, note=why) if fact.fact == "finished_at" else fact
            for fact in facts
        ]

    def _found_at(self, path: tuple[str, ...], option: str, column: str) -> tuple[str, ...]:
        """Return a payload path where any job that was read has it, and warn where none has."""
        filled = self.writer.count("jobs", f"CAST({column} IS NOT NULL AS TEXT)").get("1")
        if path and not filled:
            self.warnings.append(f"{option} {'.'.join(path)}: no job that was read has it")
        return path if filled else ()

    def _completed_jobs_are_deleted(self) -> bool:
        """Whether no completed job is there because they are deleted, not because none completes.

        The server counts the rows that were deleted. Old ones may just have been cleared away, so
        the newest history is asked too: there a queue that keeps what completes has some of it.
        """
        if not self.source.deletes_ended or not self.deleted_rows:
            return False
        if self.writer.count("jobs", "status").get(Status.COMPLETED):
            return False
        return not self.phases.completed_lately()

    def _meta(self, captured_to: int, tool_version: str) -> dict[str, str]:
        lease = self.options.read.lease_seconds
        return {
            "system": self.source.name,
            "system_version": self.found.version,
            "source_schema": self.found.schema,
            "captured_at": iso(captured_to) or "",
            "captured_from": iso(self.captured_from) or "",
            "captured_to": iso(captured_to) or "",
            "window_from": iso(self.phases.whole_from) or "",
            "window": f"{self.options.since_seconds:g}s",
            "workers_read_at": iso(self.workers_read_at) or "",
            "lease_override_seconds": "" if lease is None else f"{lease:g}",
            "sweeper": self.source.sweeper or "",
            "key_id": self.redactor.key_id,
            "tool_version": tool_version,
            "schema_version": str(SCHEMA_VERSION),
            "moved_during_capture": str(self.moved),
            "not_read": json.dumps(self.phases.not_read, sort_keys=True),
            # What a reader of the rows has to know; the role and the indexes concern the capture.
            "warnings": json.dumps(list(self.found.warnings)),
        }

    # -- the moment that everything is as of ------------------------------------------------

    def _stamp(self) -> int | None:
        """Return the moment that stands in for the database's clock, if one does."""
        given = self.options.now
        ahead = given is not None and not self.options.look_ahead and given > self._clock()
        return None if ahead else given

    def _now(self) -> int:
        return self._clock() if self.stamp is None else self.stamp

    def _clock(self) -> int:
        return int(self.reader.scalar(sa.select(database_clock())))
