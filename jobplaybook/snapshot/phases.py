"""The phases of a capture that read jobs: running, unfinished, finished; in that order.

First the running jobs with their owners' heartbeats and the clock in one statement, then whatever
is unfinished, then the finished ones, newest end first. A job that moves meanwhile is read again
further on, so it is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.driver_errors import ChunkTooSlow
from jobplaybook.snapshot.chunks import carried_attempts, history_chunk, jobs_of, key_chunk
from jobplaybook.snapshot.pace import SMALLEST_CHUNK, Pace
from jobplaybook.sources.base import Detected, Source, Statements
from jobplaybook.units import count_text, iso


@dataclass(slots=True)
class Batch:
    """Jobs that were read, and the rows that hang on them by canonical table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    by_job: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    carried: dict[Any, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Phases:
    """Reads jobs at a given pace, and keeps account of what it could not read.

    Parameters
    ----------
    since : int
        Finished jobs are read back to here, microseconds UTC.
    begun_at : int
        When the capture began.
    whole_from : int
        From here on finished jobs were read whole; known when the last phase has ended.
    """

    pace: Pace
    source: Source
    found: Detected
    statements: Statements
    budget_seconds: float
    since: int
    begun_at: int
    whole_from: int = 0
    warnings: list[str] = field(default_factory=list)
    not_read: dict[str, str] = field(default_factory=dict)
    _left: dict[str, dict[str, int]] = field(default_factory=dict)
    _ends: dict[Any, int] = field(default_factory=dict)

    def running(self) -> Batch:
        """Read the running jobs, their owners' heartbeats and the clock in one statement."""
        self._warn_of_missing_indexes()
        try:
            return self._jobs(self.statements.running)
        except ChunkTooSlow:
            # The unfinished are read in chunks next, heartbeats and clock in each statement too.
            self.warnings.append("the running jobs were too many to read in one statement")
            return Batch((), ())

    def _warn_of_missing_indexes(self) -> None:
        for name, column in self.statements.needs:
            table = self.found.tables[name]
            if column not in table.indexed | table.partly_indexed:
                self.warnings.append(
                    f"{name} ({table.size_text}) has no index that starts with {column}: "
                    "every chunk scans it"
                )

    def unfinished(self) -> Iterator[Batch]:
        """Read whatever is unfinished, along the jobs' own keys."""
        table, key = self.found.tables[self.source.job_table], str(self.statements.key.key)
        # An index of the unfinished alone makes chunks of them; without one, every key is walked
        # in chunks, so that no statement examines more rows than a chunk has.
        index = self.statements.indexed if key in table.partly_indexed else None
        also = self.statements.unfinished if index is None else sa.true()
        after: Any = None
        while not self._must_stop("unfinished", left := _above(key, after)):
            try:
                chunk = key_chunk(self.statements, after, index, self.pace.chunk)
                keys = [row[0] for row in self.pace.rows(chunk)]
            except ChunkTooSlow:
                if not self._shrunk("unfinished", left):
                    return
                continue
            if not keys:
                return
            yield from self._by_keys("unfinished", keys, also)
            after = keys[-1]

    def finished(self) -> Iterator[Batch]:
        """Read the jobs that ended in the window, the newest end first."""
        waiting: list[Any] = []
        for keys in self._ended():
            waiting += keys
            while len(waiting) >= self.pace.chunk:
                part, waiting = waiting[: self.pace.chunk], waiting[self.pace.chunk :]
                yield from self._by_keys("finished", part, sa.true())
        yield from self._by_keys("finished", waiting, sa.true())

    def _ended(self) -> Iterator[list[Any]]:
        """Give the keys of jobs that ended in the window, chunk by chunk, the newest first."""
        before: list[Any] = []
        reached = self.begun_at
        self.whole_from = self.since
        while True:
            where = f"those that ended before {iso(reached)}"
            rows = self._history(before, where)
            if rows is None:
                self.whole_from = max(self.whole_from, reached)
                return
            ends = {row[-3]: row[-1] for row in rows if row[-3] is not None}
            self._ends.update(ends)
            yield list(ends)
            # The row without a job sums the chunk up: where it ended, and how far back it is whole.
            sums = (row for row in rows if row[-3] is None)
            *before, _none, newest, whole_from = next(sums, (None, None, None))
            if not before or (newest is not None and newest < self.since):
                return
            reached = reached if whole_from is None else min(reached, whole_from)

    def _history(self, before: Sequence[Any], where: str) -> list[tuple[Any, ...]] | None:
        """Return the next chunk of history, a smaller one if need be; None: no more is read."""
        while not self._must_stop("finished", where):
            try:
                return self.pace.rows(
                    history_chunk(self.statements, before, self.since, self.pace.chunk)
                )
            except ChunkTooSlow:
                if not self._shrunk("finished", where):
                    break
        return None

    def _by_keys(
        self, phase: str, keys: Sequence[Any], also: ColumnElement[bool]
    ) -> Iterator[Batch]:
        """Read jobs by key, in smaller parts if a statement is too slow; the rest is said."""
        todo = [list(keys)] if keys else []
        while todo:
            if self.pace.is_out_of_time:
                left = [key for part in todo for key in part]
                self._leave(phase, left, f"the budget of {self.budget_seconds:g} s was used up")
                # Later ends than these may be missing: the window that is whole is shorter.
                ends = [self._ends.get(key, 0) + 1 for key in left]
                self.whole_from = max(self.whole_from, *ends)
                return
            part = todo.pop()
            try:
                batch = self._jobs(also, part)
            except ChunkTooSlow:
                if self.pace.shrink() or len(part) > SMALLEST_CHUNK:
                    half = -(-len(part) // 2)
                    todo += [rest for rest in (part[:half], part[half:]) if rest]
                else:
                    self._leave(phase, part, "reading them took longer than 5 s")
            else:
                for key in part:
                    self._ends.pop(key, None)
                yield batch

    def _leave(self, phase: str, keys: Sequence[Any], why: str) -> None:
        left = self._left.setdefault(phase, {})
        left[why] = left.get(why, 0) + len(keys)
        self._tell(phase)

    def _tell(self, phase: str, stopped: str = "") -> None:
        """Say all that a phase did not read: what the source said, jobs by reason, its end."""
        counted = [f"{count_text(n, 'job')}: {why}" for why, n in self._left.get(phase, {}).items()]
        said = (self.found.not_read.get(phase, ""), *counted, stopped)
        self.not_read[phase] = "; ".join(filter(None, said))

    def _jobs(self, condition: ColumnElement[bool], keys: Sequence[Any] | None = None) -> Batch:
        """Read jobs, whatever their state is by now, and what hangs on them."""
        statement, binds = self.statements.jobs, dict[str, Any]()
        if keys is not None:
            statement, binds = jobs_of(self.statements, keys)
        statement = statement.where(condition)
        rows = self.pace.rows(statement, **binds)
        if keys is not None and len(rows) > len(keys):
            wanted = set(keys)
            rows = [row for row in rows if row[0] in wanted]
        batch = Batch(statement.selected_columns.keys(), rows)
        started = [row[0] for row in rows if row[batch.columns.index("attempts")]]
        for table, by_job in self.statements.by_job.items():
            asked = started
            if table == "attempts":
                batch.carried = carried_attempts(batch.columns, rows)
                asked = [key for key in started if key not in batch.carried]
            if asked:
                batch.by_job[table] = self.pace.rows(by_job, ids=asked)
        return batch

    def _must_stop(self, phase: str, what: str) -> bool:
        if not self.pace.is_out_of_time:
            return False
        self._tell(phase, f"{what}: the budget of {self.budget_seconds:g} s was used up")
        return True

    def _shrunk(self, phase: str, what: str) -> bool:
        if self.pace.shrink():
            return True
        self._tell(phase, f"{what}: even {SMALLEST_CHUNK} rows took longer than 5 s")
        return False


def _above(key: str, after: Any) -> str:
    return "all but the running ones" if after is None else f"those with {key} above {after}"
