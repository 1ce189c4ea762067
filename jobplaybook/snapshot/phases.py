"""The phases of a capture that read jobs: running, unfinished, finished; in that order.

First the running jobs with their owners' heartbeats and the clock in one statement, then whatever
is unfinished, then the finished ones, newest end first. A job that moves meanwhile is read again
further on, so it is not lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from jobplaybook.driver_errors import ChunkFailed, ChunkTooSlow
from jobplaybook.model import Status
from jobplaybook.snapshot.chunks import (
    CARRIED,
    carried_attempts,
    history_chunk,
    jobs_of,
    key_chunk,
    keyless_chunk,
    newest_first,
)
from jobplaybook.snapshot.pace import SMALLEST_CHUNK, Pace
from jobplaybook.sources.base import Statements
from jobplaybook.sources.catalog import Detected
from jobplaybook.units import count_text, iso

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class Batch:
    """Jobs that were read, and what hangs on them: canonical table, columns, rows."""

    columns: Sequence[str]
    rows: Rows
    hanging: list[tuple[str, Sequence[str], Rows]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Phases:
    """Reads jobs at a given pace, and keeps account of what it could not read.

    Parameters
    ----------
    since, begun_at : int
        Finished jobs are read back to here; when the capture began. Microseconds UTC.
    whole_from : int
        From here on finished jobs were read whole; known when the last phase has ended.
    stopped : dict
        By phase or table, why reading it ended early.
    """

    pace: Pace
    found: Detected
    job_table: str
    statements: Statements
    since: int
    begun_at: int
    whole_from: int = 0
    warnings: list[str] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    _left: Counter[tuple[str, str]] = field(default_factory=Counter)
    _ends: dict[Any, int] = field(default_factory=dict)
    _slow: list[tuple[str, list[Any], ColumnElement[bool]]] = field(default_factory=list)

    @property
    def not_read(self) -> dict[str, str]:
        """What was not read: what the source said, jobs by reason, where a phase ended."""
        told = {phase: [why] for phase, why in self.found.not_read.items()}
        for (phase, why), number in self._left.items():
            told.setdefault(phase, []).append(f"{count_text(number, 'job')}: {why}")
        for phase, why in self.stopped.items():
            told.setdefault(phase, []).append(why)
        return {phase: "; ".join(reasons) for phase, reasons in told.items()}

    def running(self) -> Batch:
        """Read the running jobs, their owners' heartbeats and the clock in one statement."""
        for name, column in self.statements.needs:
            table = self.found.tables[name]
            if column not in table.indexed | table.partly_indexed:
                self.warnings.append(
                    f"{name} ({table.size_text}) has no index that starts with {column}: "
                    "every chunk scans it"
                )
        try:
            return self._jobs(self.statements.running)
        except ChunkFailed as error:
            # The unfinished are read in chunks next, heartbeats and clock in each statement too.
            were = "too many" if isinstance(error, ChunkTooSlow) else "not fit"
            self.warnings.append(f"the running jobs were {were} to read in one statement")
            return Batch((), [])

    def unfinished(self) -> Iterator[Batch]:
        """Read whatever is unfinished, along the jobs' own keys."""
        table, key = self.found.tables[self.job_table], str(self.statements.key.key)
        # An index of the unfinished alone makes chunks of them; without one, every key is walked
        # in chunks, so that no statement examines more rows than a chunk has.
        index = self.statements.indexed if key in table.partly_indexed else None
        also = self.statements.unfinished if index is None else sa.true()
        left, after = "all but the running ones", None
        self._count_keyless(f"rows without {key}")
        while rows := self._next(
            "unfinished", left, partial(key_chunk, self.statements, after, index)
        ):
            keys = [row[0] for row in rows if row[0] is not None]
            yield from self._by_keys("unfinished", [keys], also)
            if not keys:
                return
            after = keys[-1]
            left = f"those with {key} above {after}"

    def _count_keyless(self, what: str) -> None:
        """Count what a table that lost its primary key may hold: jobs that nothing tells apart."""
        if self.pace.used_up:
            return
        try:
            found = self.pace.rows(keyless_chunk(self.statements, self.pace.chunk))
        except ChunkFailed as error:
            self.stopped["unfinished"] = f"{what}, if there are any: reading them {error.why}"
        else:
            self._leave("unfinished", found, what)

    def finished(self) -> Iterator[Batch]:
        """Read the jobs that ended in the window, the newest end first."""
        waiting: list[Any] = []
        for keys in self._ended():
            waiting += keys
            while len(waiting) >= self.pace.chunk:
                part, waiting = waiting[: self.pace.chunk], waiting[self.pace.chunk :]
                yield from self._by_keys("finished", [part], sa.true())
        yield from self._by_keys("finished", [waiting], sa.true())

    def slow(self) -> Iterator[Batch]:
        """Read what was slow again, down to single jobs, now that nothing else waits for it."""
        slow, self._slow = self._slow, []
        for phase, part, also in slow:
            yield from self._by_keys(phase, _halves(part), also, smallest=1)

    def completed_lately(self) -> bool:
        """Whether a job of the newest chunk of history has completed and is still there."""
        newest = newest_first(self.statements).limit(self.pace.chunk).subquery("newest")
        jobs = self.statements.jobs.where(self.statements.key.in_(sa.select(newest.c.job)))
        read = jobs.subquery("read")
        completed = sa.select(read.c.key).where(read.c.status == Status.COMPLETED).limit(1)
        try:
            return bool(self.pace.rows(completed))
        except ChunkFailed:
            return False  # none was seen, and none is claimed

    def _ended(self) -> Iterator[list[Any]]:
        """Give the keys of jobs that ended in the window, chunk by chunk, the newest first."""
        before: list[Any] = []
        reached = self.begun_at
        self.whole_from = self.since
        while True:
            where = f"those that ended before {iso(reached)}"
            asked = partial(history_chunk, self.statements, before, self.since)
            rows = self._next("finished", where, asked)
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

    def _next(self, phase: str, where: str, asked: Callable[[int], sa.Executable]) -> Rows | None:
        """Return the next chunk of a walk, a smaller one if need be; None: no more is read."""
        while not (why := self.pace.used_up):
            try:
                return self.pace.rows(asked(self.pace.chunk))
            except ChunkFailed as error:
                if not self.pace.shrink():
                    why = f"even {SMALLEST_CHUNK} rows {error.why}"
                    break
        self.stopped[phase] = f"{where}: {why}"
        return None

    def _by_keys(
        self,
        phase: str,
        todo: list[list[Any]],
        also: ColumnElement[bool],
        *,
        smallest: int = SMALLEST_CHUNK,
    ) -> Iterator[Batch]:
        """Read jobs by key, in halves where a statement fails, down to the job it fails for.

        A part that is slow although it is small is put off: each look at it may cost 5 s, and what
        is still to be read comes first.
        """
        while todo:
            if why := self.pace.used_up:
                self._run_out(phase, [key for part in todo for key in part], smallest, why)
                return
            part = todo.pop()
            if not part:
                continue
            try:
                batch = self._jobs(also, part)
            except ChunkFailed as error:
                is_slow = isinstance(error, ChunkTooSlow)
                if is_slow:
                    self.pace.shrink()
                if len(part) > (smallest if is_slow else 1):
                    todo += _halves(part)
                elif is_slow and smallest > 1:
                    self._slow.append((phase, part, also))
                else:
                    self._leave(phase, part, f"reading them {error.why}")
            else:
                for key in part:
                    self._ends.pop(key, None)
                yield batch

    def _run_out(self, phase: str, left: list[Any], smallest: int, why: str) -> None:
        if smallest == 1:  # it was put off because it was slow
            self._leave(phase, left, f"reading them {ChunkTooSlow.why}")
            return
        self._leave(phase, left, why)
        # Later ends than these may be missing: the window that is whole is shorter.
        self.whole_from = max([self.whole_from, *(self._ends.get(key, 0) + 1 for key in left)])

    def _leave(self, phase: str, keys: Sequence[Any], why: str) -> None:
        if keys:
            self._left[phase, why] += len(keys)

    def _jobs(self, condition: ColumnElement[bool], keys: Sequence[Any] | None = None) -> Batch:
        """Read jobs, whatever their state is by now, and what hangs on them."""
        statement, binds = self.statements.jobs, dict[str, Any]()
        if keys is not None:
            statement, binds = jobs_of(self.statements, keys)
        statement = statement.where(condition)
        rows = self.pace.rows(statement, **binds)
        if keys is None:
            rows = [row for row in rows if row[0] is not None]
        elif len(rows) > len(keys):
            wanted = set(keys)
            rows = [row for row in rows if row[0] in wanted]
        batch = Batch(statement.selected_columns.keys(), rows)
        carried = carried_attempts(batch.columns, rows)
        batch.hanging.append(("attempts", CARRIED, list(carried.values())))
        started = [row[0] for row in rows if row[batch.columns.index("attempts")]]
        for table, by_job in self.statements.by_job.items():
            known = carried if table == "attempts" else {}
            if asked := [key for key in started if key not in known]:
                found = self.pace.rows(by_job, ids=asked)
                batch.hanging.append((table, by_job.selected_columns.keys(), found))
        return batch


def _halves(part: list[Any]) -> list[list[Any]]:
    half = len(part) // 2
    return [part[:half], part[half:]]
