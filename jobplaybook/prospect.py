"""What a recovery is reckoned from where something has to be assumed, and what changes make of it.

A backlog that is being worked off shows its rates, and nothing is assumed. A queue that stands
still, or has no backlog, does not show its capacity: then it is reckoned from the run times of its
attempts and from how many ran at once, and the answer says that it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jobplaybook.backlog import rate_seen, read_backlogs
from jobplaybook.cohort import no_queue
from jobplaybook.detectors.situation import Situation
from jobplaybook.errors import InputError
from jobplaybook.estimates import (
    SEED,
    BacklogSeen,
    DrainEstimate,
    Fan,
    RateSeen,
    ReplayEstimate,
    backlog_fan,
    changed,
    estimate_replay,
    estimate_seen,
    rate_text,
)
from jobplaybook.estimates.seen import FEWEST_LEFT
from jobplaybook.model import Status
from jobplaybook.queries import standing
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import count_text, duration_text, nearest, shown
from jobplaybook.worked import TypeWork, Work

_NONE = 1e-9
"""A factor of arrivals that stands for none: the others of a type that alone came."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that could be done, or could turn out otherwise.

    Parameters
    ----------
    name : str
        What it is called.
    arrivals, completions : float
        Factors of the two rates.
    calls_at_most : float, optional
        Calls per second that the upstream admits, one per attempt.
    without : str, optional
        A job type that is held back: its jobs neither come nor wait, and the workers do the
        others instead.
    """

    name: str
    arrivals: float = 1.0
    completions: float = 1.0
    calls_at_most: float | None = None
    without: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """The answer of `jobplaybook.recovery_prospect`.

    Parameters
    ----------
    measured : BacklogSeen
        The backlog as the snapshot shows it.
    seen : BacklogSeen
        What is estimated: the measured one, or what was assumed in its place.
    assumed : tuple of str
        What was assumed, in words; empty where all was measured.
    types : tuple of TypeWork
        The parts of the work, the largest first.
    workers : int
        How many attempts can run at once: as given, or the most that did.
    service_seconds, attempts_per_job : float
        Mean time of an attempt, and how many a job takes; 0 where none ended.
    dead : int
        Dead letters, each of which could be replayed.
    """

    measured: BacklogSeen
    seen: BacklogSeen
    assumed: tuple[str, ...]
    types: tuple[TypeWork, ...]
    workers: int
    service_seconds: float
    attempts_per_job: float
    dead: int = 0
    seed: int = SEED

    @property
    def unknown(self) -> str:
        """Why there is no estimate, in words; empty where there is one."""
        return self.seen.unknown

    @property
    def arrival_rate(self) -> float:
        """λ, jobs per second; 0 where it is not recorded."""
        return self.seen.arrivals.recent if self.seen.arrivals else 0.0

    @property
    def completion_rate(self) -> float:
        """μ, jobs per second that leave while something waits; 0 where that is unknown."""
        return self.seen.left.recent if self.seen.left and not self.unknown else 0.0

    @property
    def call_rate(self) -> float:
        """Attempts per second at `completion_rate`; 0 where that is unknown."""
        return self.completion_rate * max(self.attempts_per_job, 1.0)

    @property
    def heaviest(self) -> str | None:
        """The job type that takes the most worker time; None where no type is known."""
        names = (each.job_type for each in self.types if each.work_seconds)
        return next((name for name in names if name is not None), None)

    def changed(self, change: Change) -> BacklogSeen:
        """Return the backlog under a change; as it is where its capacity is unknown.

        Raises
        ------
        InputError
            If a number is out of range, or no job of the type that is held back was seen.
        """
        seen = self.seen if change.without is None else self._without(change.without)
        if seen.unknown:
            return seen
        most = change.calls_at_most
        return changed(
            seen,
            arrivals=change.arrivals,
            completions=change.completions,
            completions_at_most=None if most is None else most / max(self.attempts_per_job, 1.0),
        )

    def _without(self, job_type: str) -> BacklogSeen:
        names = [each.job_type for each in self.types if each.job_type is not None]
        if job_type not in names:
            raise InputError(f"no job type {shown(job_type)}: {nearest(job_type, names)}")
        rest = [each for each in self.types if each.job_type != job_type]
        arrivals = _share(rest, self.types, "arrivals")
        left, work = _share(rest, self.types, "left"), _share(rest, self.types, "work_seconds")
        if not left or not work:
            return replace(self.seen, why_not="of the other types too little is known")
        # an assumed backlog is made of what comes
        waits = _share(rest, self.types, "waiting" if self.measured.waiting else "arrivals")
        kept = replace(
            self.seen,
            waiting=round(self.seen.waiting * waits),
            parked=(),  # whose they are is not told apart
        )
        return changed(kept, arrivals=arrivals or _NONE, completions=left / work)

    def estimate(
        self, seen: BacklogSeen | None = None, *, by_seconds: float | None = None
    ) -> DrainEstimate | None:
        """Return when a backlog, by default this one, is gone; None where that is unknown."""
        chosen = self.seen if seen is None else seen
        return estimate_seen(chosen, by_seconds=by_seconds, seed=self.seed)

    def outlook(self) -> str:
        """Return `estimate` in words, on one line."""
        found = self.estimate()
        if not self.seen.waiting:
            return "no backlog"
        return f"capacity unknown: {self.unknown}" if found is None else found.outlook

    def replay(self, jobs: int, *, quota_rate: float | None = None) -> ReplayEstimate | None:
        """Return how long a replay takes beside what comes; None where the capacity is unknown.

        Parameters
        ----------
        jobs : int
            Dead letters to replay.
        quota_rate : float, optional
            Calls per second that may be made; by default what the workers can do.
        """
        quota = quota_rate or self.call_rate
        if not quota or not self.service_seconds:
            return None
        live = self.arrival_rate * max(self.attempts_per_job, 1.0)
        return estimate_replay(
            jobs=jobs, quota_rate=quota, live_rate=live, service_seconds=self.service_seconds
        )

    def __str__(self) -> str:
        """Return for people what is assumed, and what comes of it."""
        if not self.assumed:
            return f"Nothing is assumed: {self.outlook()}."
        lines = [f"Assumed: {words}." for words in self.assumed]
        return "\n".join([*lines, f"Then, until it is gone: {self.outlook()}."])

    def fan(self, *, by_seconds: float | None = None) -> Fan | None:
        """Return how the waiting jobs become fewer; None where nothing waits or it is unknown."""
        if not self.seen.waiting:
            return None
        return backlog_fan(self.seen, by_seconds=by_seconds, seed=self.seed)


def _share(part: Iterable[TypeWork], whole: Iterable[TypeWork], name: str) -> float:
    total = sum(getattr(each, name) for each in whole)
    return sum(getattr(each, name) for each in part) / total if total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What to assume where it was not measured; None is left to the measurement.

    Parameters
    ----------
    outage_seconds : float
        Where nothing waits: for how long the workers stood still, seconds.
    workers : int, optional
        How many attempts can run at once.
    completion_rate : float, optional
        μ, jobs per second that leave while something waits.
    """

    outage_seconds: float = 1_800.0
    workers: int | None = None
    completion_rate: float | None = None


def read_prospect(
    snapshot: Snapshot,
    situation: Situation,
    *,
    queue: str | None = None,
    assumptions: Assumptions | None = None,
    seed: int = SEED,
) -> Prospect:
    """Read what a recovery is reckoned from.

    Parameters
    ----------
    snapshot : Snapshot
        An open snapshot.
    situation : Situation
        What was read of it already.
    queue : str, optional
        One queue alone.
    assumptions : Assumptions, optional
        What to assume where it was not measured.
    seed : int
        Seed of the draws.

    Raises
    ------
    InputError
        If there is no queue of that name.
    """
    given = assumptions or Assumptions()
    names = [state.queue for state in situation.queues if state.queue is not None]
    if queue is not None and queue not in names:
        raise InputError(no_queue(queue, names))
    found = read_backlogs(snapshot, situation)
    own = [each for each in found.queues if each.name == queue] or [
        BacklogSeen(name=queue, waiting=0)
    ]
    measured = found.overall if queue is None else own[0]
    work = Work(snapshot, situation, queue)
    workers = work.most_at_once if given.workers is None else given.workers
    seen, assumed = measured, []
    if not seen.waiting and situation.knows_arrivals:
        arrivals = rate_seen(work.came, situation.rates_from, situation.flow_until)
        waiting = round(arrivals.recent * given.outage_seconds)
        seen = replace(seen, waiting=waiting, arrivals=arrivals, left=None)
        assumed.append(
            f"nothing waits, so a backlog of {count_text(waiting, 'job')} is assumed: what "
            f"comes in {duration_text(given.outage_seconds)} without workers, at "
            f"{rate_text(arrivals.recent)}"
        )
    if seen.waiting and (seen.unknown or given.workers or given.completion_rate):
        left, words = _capacity(work, workers, given)
        if left is not None:
            seen = replace(seen, left=left, retried=0, retry_delay_seconds=0.0, why_not="")
            assumed.append(words)
    return Prospect(
        measured=measured,
        seen=seen,
        assumed=tuple(assumed),
        types=work.types(),
        workers=workers,
        service_seconds=work.seconds / work.runs if work.runs else 0.0,
        attempts_per_job=work.runs / work.left if work.left else 0.0,
        dead=sum(
            row[-1]
            for row in snapshot.rows(standing.counts(situation.flow_until))
            if row[2] == Status.DEAD and queue in (None, row[0])
        ),
        seed=seed,
    )


def _capacity(work: Work, workers: int, given: Assumptions) -> tuple[RateSeen | None, str]:
    """Return the rate at which jobs would leave, and in words where it is from."""
    if given.completion_rate is not None:
        # as if it had been counted over an hour
        jobs = max(round(given.completion_rate * 3_600.0), FEWEST_LEFT)
        rate = RateSeen(counts=(jobs,), bucket_seconds=jobs / given.completion_rate)
        return rate, f"the capacity is taken as given, {rate_text(given.completion_rate)}"
    if not work.left or not work.seconds or not workers:
        return None, ""
    rate = RateSeen(counts=(work.left,), bucket_seconds=work.seconds / workers)
    how = "as many as ever ran at once" if given.workers is None else "as given"
    return rate, (
        f"the capacity was not seen, so {rate_text(rate.rate)} is assumed: "
        f"{count_text(workers, 'worker')} ({how}) at {duration_text(work.seconds / work.left)} of "
        f"work a job, from {count_text(work.left, 'job')}"
    )
