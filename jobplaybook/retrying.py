"""Who retries: attempts per completed job, beside what its failures alone would make of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jobplaybook import measures
from jobplaybook.detectors.findings import MAX_IDS
from jobplaybook.detectors.retries import attempts_per_completion
from jobplaybook.detectors.signs import Waking
from jobplaybook.detectors.situation import Situation
from jobplaybook.errors import InputError
from jobplaybook.model import Quality
from jobplaybook.queries import retries as queries
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, count_text, duration_text, nearest, plain, shown

_MINUTE, _MOST_ROWS = 60 * MICROS, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedClass:
    """The attempts of one queue and type in a window."""

    queue: str | None
    job_type: str | None
    firsts: int  # first attempts that started
    retries: int  # later ones
    jobs: int  # how many different ones were tried again
    completions: int
    done: int  # attempts that ended with the job done
    failed: int  # attempts that ended without: failed, expired or unknown
    guessed: int  # the unknown ones among these: known by the attempt that followed alone
    least_allowed: int | None  # attempts that its jobs may have; None: not recorded
    most_allowed: int | None
    upstream_calls: int | None  # None: not recorded

    @property
    def measured(self) -> float:
        """Attempts per completed job."""
        return attempts_per_completion(self.retries, self.completions)

    @property
    def failed_share(self) -> float | None:
        """The share p of the ended attempts that failed; None where none ended."""
        ended = self.done + self.failed
        return self.failed / ended if ended else None

    @property
    def theory(self) -> float | None:
        """Attempts per job if each failed with `failed_share`, whatever came before it.

        Without a limit of attempts 1/(1 - p), which is more than with any; None where no attempt
        ended.

        Examples
        --------
        >>> zero = dict.fromkeys(("retries", "jobs", "completions", "guessed"), 0)
        >>> one = TriedClass(queue="mail", job_type="mail", firsts=100, done=80, failed=20,
        ...                  least_allowed=3, most_allowed=3, upstream_calls=None, **zero)
        >>> round(one.theory or 0.0, 9)
        1.24
        """
        p = self.failed_share
        if p is None:
            return None
        if self.most_allowed is not None:
            return measures.attempts_per_job(p, max_attempts=max(self.most_allowed, 1))
        return 1.0 / (1.0 - p) if p < 1.0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """All attempts of the same number: how many of them ended, and how many failed."""

    attempt: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """The answer of `jobplaybook.retries`."""

    overall: TriedClass  # all together; its queue and type are None
    classes: tuple[TriedClass, ...]  # the most retries first
    tries: tuple[Try, ...]  # by number of the attempt
    worst: tuple[tuple[str, str | None, str | None, int], ...]  # id, queue, type, retries
    wakings: tuple[Waking, ...]  # parked jobs that become due, in order of queue and time
    peaks: tuple[tuple[str | None, int], ...]  # most claims of each queue in a minute
    not_recorded: tuple[str, ...]  # what this system does not say of retries
    seconds: float  # width of the window
    until: int  # as of when, microseconds UTC

    def peak(self, queue: str | None) -> int:
        """Return the most jobs that a queue claimed in one minute; 0: none is known."""
        return dict(self.peaks).get(queue, 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the headers of `rows`."""
        return ("queue", "type", "completed", "retries", "failed", "attempts per job", "by chance")

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return the measured and the theoretical attempts of each class as cells, and of all."""
        named = [
            (each.queue or "(no queue)", each.job_type or "(no type)", each)
            for each in self.classes[:_MOST_ROWS]
        ]
        return tuple(
            (plain(queue), plain(kind), *_cells(each))
            for queue, kind, each in (*named, ("all", "all", self.overall))
        )

    def __str__(self) -> str:
        """Return the answer for people: what was measured, beside what failures alone make."""
        whole = self.overall
        again = (
            f"{count_text(whole.retries, 'retry', 'retries')} of {count_text(whole.jobs, 'job')}"
        )
        lines = [
            f"{again if whole.retries else 'No job was tried again'} in "
            f"{duration_text(self.seconds)}: {_attempts(whole.measured)} per completed job "
            f"({whole.completions:,} completed)."
        ]
        if whole.failed_share is not None and whole.theory is not None:
            limit = "without a limit of attempts, for none is recorded"
            if whole.most_allowed is not None:
                limit = f"with at most {count_text(whole.most_allowed, 'attempt')} a job"
            lines.append(
                f"{whole.failed_share:.1%} of {count_text(whole.done + whole.failed, 'attempt')} "
                f"that ended were failures; alone they make {_attempts(whole.theory)} a job, "
                f"{limit}."
            )
        if whole.guessed:
            lines.append(
                f"Of {count_text(whole.guessed, 'failure')} it is known only that the job was "
                "tried again or given up afterwards."
            )
        if self.not_recorded:
            lines.append(f"Not recorded: {', '.join(self.not_recorded)}.")
        return "\n".join(lines)


def _attempts(number: float) -> str:
    return f"{number:.3f} attempts" if math.isfinite(number) else "endless attempts"


def _cells(each: TriedClass) -> tuple[str, ...]:
    share, theory = each.failed_share, each.theory
    return (
        *(f"{each.completions:,}", f"{each.retries:,}"),
        "unknown" if share is None else f"{share:.1%}",
        f"{each.measured:.3f}" if math.isfinite(each.measured) else "none completed",
        "unknown" if theory is None else f"{theory:.3f}" if math.isfinite(theory) else "endless",
    )


def read_retries(snapshot: Snapshot, situation: Situation, *, queue: str | None = None) -> Retried:
    """Read who was tried again in the window of a situation, and who will be.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    situation : Situation
        What was read of it already.
    queue : str, optional
        One queue alone.

    Raises
    ------
    InputError
        If there is no queue of that name.
    """
    names = [state.queue for state in situation.queues if state.queue is not None]
    if queue is not None and queue not in names:
        raise InputError(f"no queue {shown(queue)}: {nearest(queue, names)}")
    window = situation.window_from, situation.flow_until
    ended = snapshot.rows(queries.ended_tries(*window))
    found = [each for each in _classes(snapshot, window, ended) if queue in (None, each.queue)]
    classes = sorted(found, key=lambda each: -each.retries)
    busiest = snapshot.rows(queries.busiest(*window, limit=MAX_IDS))
    worst = sorted((row for row in busiest if queue in (None, row[0])), key=lambda row: -row[3])
    peaks = snapshot.rows(queries.peaks(*window, bucket=_MINUTE))
    states = [state for state in situation.queues if queue in (None, state.queue)]
    begins = [max(s.first_at, window[0]) for s in states if s.first_at is not None]
    return Retried(
        overall=_overall(classes),
        classes=tuple(classes),
        tries=_tries(row for row in ended if queue in (None, row[0])),
        worst=tuple((job_id, of, kind, times) for of, kind, job_id, times in worst),
        wakings=tuple(each for each in situation.wakings if queue in (None, each.queue)),
        peaks=tuple((of, most) for of, most in peaks),
        not_recorded=tuple(_not_recorded(situation, classes)),
        seconds=(window[1] - min(begins, default=window[0])) / MICROS,
        until=situation.flow_until,
    )


def _not_recorded(situation: Situation, classes: Sequence[TriedClass]) -> Iterator[str]:
    for fact, words in (("error", "errors"), ("max_attempts", "max attempts")):
        grades = (situation.grade(fact, state=state) for state in ("live", "finished"))
        if max(grades) is Quality.ABSENT:
            yield words
    if all(each.upstream_calls is None for each in classes):
        yield "upstream calls"


def _classes(
    snapshot: Snapshot, window: tuple[int, int], ended: Sequence[tuple[object, ...]]
) -> Iterable[TriedClass]:
    sums: dict[tuple[object, ...], Counter[str]] = {}
    for of, kind, _attempt, *counts in ended:
        counted = sums.setdefault((of, kind), Counter())
        counted.update(dict(zip(("done", "failed", "guessed"), counts, strict=True)))
    tried = {(of, kind): row for of, kind, *row in snapshot.rows(queries.tried(*window))}
    limits = {(of, kind): row for of, kind, *row in snapshot.rows(queries.allowed(*window))}
    completed = {(of, kind): n for of, kind, n in snapshot.rows(queries.completed(*window))}
    for of in {**tried, **completed, **sums}:
        firsts, retried, jobs, calls = tried.get(of, (0, 0, 0, None))
        least, most = limits.get(of, (None, None))
        yield TriedClass(
            queue=of[0],
            job_type=of[1],
            firsts=firsts,
            retries=retried,
            jobs=jobs,
            completions=completed.get(of, 0),
            **{name: sums.get(of, Counter())[name] for name in ("done", "failed", "guessed")},
            least_allowed=least,
            most_allowed=most,
            upstream_calls=calls,
        )


_ADDED = ("firsts", "retries", "jobs", "completions", "done", "failed", "guessed")


def _overall(classes: Sequence[TriedClass]) -> TriedClass:
    """Return all classes as one; what one of them does not say is not known of the whole."""
    limits = [
        (each.least_allowed, each.most_allowed) for each in classes if each.done + each.failed
    ]
    known = [(least, most) for least, most in limits if least is not None and most is not None]
    calls = [each.upstream_calls for each in classes if each.upstream_calls is not None]
    whole = len(known) == len(limits) > 0
    return TriedClass(
        queue=None,
        job_type=None,
        **{name: sum(getattr(each, name) for each in classes) for name in _ADDED},
        least_allowed=min(least for least, _ in known) if whole else None,
        most_allowed=max(most for _, most in known) if whole else None,
        upstream_calls=sum(calls) if calls else None,
    )


def _tries(rows: Iterable[tuple[object, ...]]) -> tuple[Try, ...]:
    done, failed = Counter[int](), Counter[int]()
    for _queue, _type, number, ended_well, ended_badly, _guessed in rows:
        done[int(number)] += int(ended_well)  # type: ignore[call-overload]
        failed[int(number)] += int(ended_badly)  # type: ignore[call-overload]
    return tuple(
        Try(attempt=number, done=done[number], failed=failed[number])
        for number in sorted({*done, *failed})
        if done[number] + failed[number]
    )
