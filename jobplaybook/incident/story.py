"""What happened when, and how it was before, during and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jobplaybook.detectors.findings import rate_text, short, when_text
from jobplaybook.detectors.flow import queue_name
from jobplaybook.detectors.situation import Situation
from jobplaybook.errors import InputError
from jobplaybook.frames import Buckets, oldest_ages, waits_by_queue
from jobplaybook.incident.tables import text_table
from jobplaybook.queries import flow
from jobplaybook.reading import read_situation
from jobplaybook.report import Table
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import MICROS, count_text, duration_text, parse_time, plain, shown
from jobplaybook.verdict import Triage, judge

Outside = tuple[int, str]
"""What happened outside the queue: microseconds UTC and its name."""
_CALM = ("healthy", "unknown")
_NO_WAIT_SECONDS = 1.0
_MOST_WORKERS = 5


def outside_events(given: Iterable[str | Sequence[str]]) -> list[Outside]:
    """Return what happened outside the queue, in order of time.

    Each is given as a time and a name, or as a line such as ``TIME=deploy 412``.

    Raises
    ------
    InputError
        If one is of another form.

    Examples
    --------
    >>> outside_events([["2026-12-01T03:45:22Z", "deploy 412"]])
    [(1796096722000000, 'deploy 412')]
    """
    found = []
    for event in given:
        pair = event.split("=", 1) if isinstance(event, str) else event
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not str(pair[1]).strip():
            raise InputError(
                'expected an event like ["2026-12-01T03:40:00Z", "deploy 412"], found '
                + shown(str(event))
            )
        found.append((parse_time(str(pair[0])), str(pair[1]).strip()))
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the story; ``at`` is microseconds UTC, ``where`` a layer or ``outside``."""

    at: int
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Phase:
    """One of the windows that are compared; times in microseconds UTC."""

    name: str
    since: int
    until: int
    arrivals: int  # jobs accepted in it
    completions: int
    dead: int  # jobs given up in it
    oldest_age_seconds: float  # the greatest that a claimable job reached in it; 0: none waited
    oldest_queue: str | None  # whose job that was

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.until - self.since) / MICROS

    def column(self, seen: int) -> tuple[str, ...]:
        """Return its column of the comparison, from top to bottom."""
        wait = "none"
        if self.oldest_age_seconds:
            wait = f"{duration_text(self.oldest_age_seconds)} ({_queue(self.oldest_queue)})"
        return (
            self.name,
            when_text(self.since, seen),
            when_text(self.until, seen),
            duration_text(self.seconds),
            *(
                f"{count:,} ({rate_text(count / self.seconds)})"
                for count in (self.arrivals, self.completions, self.dead)
            ),
            wait,
        )


_ASKED = ("", "from", "until", "lasted", "jobs came", "completed", "given up", "oldest wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The answer of `read_story`."""

    moments: tuple[Moment, ...]  # in order of time
    phases: tuple[Phase, ...]  # before, during and after, or the whole window without an incident
    is_over: bool  # whether the verdict no longer stands at the last look
    recovered_at: int | None  # since when nothing waited longer than before; None: not over
    seen_until: int

    @property
    def numbers(self) -> dict[str, float | str]:
        """The numbers of its phases, by name, for a result."""
        found: dict[str, float | str] = {"moments": len(self.moments)}
        for phase in self.phases:
            for name in ("seconds", "arrivals", "completions", "dead", "oldest_age_seconds"):
                found[f"{phase.name.replace(' ', '_')}_{name}"] = getattr(phase, name)
        return found

    def timeline(self) -> Table:
        """Return the moments as a table."""
        rows = ((when_text(m.at, self.seen_until), m.where, m.what) for m in self.moments)
        return text_table(("time, UTC", "layer", "what happened"), rows)

    def comparison(self) -> Table:
        """Return the phases side by side: a column each."""
        columns = [_ASKED, *(phase.column(self.seen_until) for phase in self.phases)]
        head, *rows = zip(*columns, strict=True)
        return text_table(head, rows, right=range(1, len(columns)))


def _queue(name: str | None) -> str:
    return short(queue_name(name))


def read_story(snapshot: Snapshot, answer: Triage, *, events: Sequence[Outside] = ()) -> Story:
    """Read what happened when, and how it was before, during and after.

    Notes
    -----
    The incident begins when the verdict says, and lasts until the last look. Statuses are as
    captured, so trouble that was over by then leaves no verdict: where a window is given that
    ends before the last look, that window is the incident. If the verdict no longer stands at the
    last look, the time after counts from the last moment at which a job waited longer than any
    did before. The time before is as long as the incident, or what there is of it.
    """
    seen = answer.situation
    spans, recovered = _spans(snapshot, answer)
    moments = [
        *_findings(answer),
        *_workers(seen),
        *_leases(seen),
        *_work(snapshot, seen),
        *(Moment(at, "outside", short(name, 200)) for at, name in events),
        *_ends(answer, recovered),
    ]
    if recovered is not None and answer.verdict.code in _CALM:
        moments.append(Moment(spans["during"][0], "-", "the window that was given begins"))
    return Story(
        moments=tuple(sorted(moments, key=lambda moment: moment.at)),
        phases=tuple(_phase(snapshot, name, *s) for name, s in spans.items() if s[0] < s[1]),
        is_over=recovered is not None,
        recovered_at=recovered,
        seen_until=seen.seen_until,
    )


def _spans(snapshot: Snapshot, answer: Triage) -> tuple[dict[str, tuple[int, int]], int | None]:
    """Return the phases' spans, and when the incident was over: None where it is not."""
    seen = answer.situation
    first, end, is_calm = _first_event(snapshot), seen.seen_until, answer.verdict.code in _CALM
    begun, recovered = answer.verdict.since, None
    if is_calm and seen.flow_until < end:
        begun, recovered = max(seen.window_from, first), seen.flow_until
    elif is_calm or begun is None:
        return {"whole window": (max(seen.window_from, first), end)}, None
    elif _is_over(snapshot, answer):
        recovered = _recovered_at(snapshot, seen, first, begun)
    last = end if recovered is None else recovered
    early = max(first, begun - (last - begun))
    return {"before": (early, begun), "during": (begun, last), "after": (last, end)}, recovered


def _first_event(snapshot: Snapshot) -> int:
    """Return when the first event happened of those that were captured whole."""
    begin = snapshot.time("window_from") or 0
    totals = snapshot.rows(flow.totals(begin, snapshot.captured_at))
    return min((first for *_, first, _last in totals), default=begin)


def _is_over(snapshot: Snapshot, answer: Triage) -> bool:
    """Whether the verdict's finding is gone at the last look, after a window that ended earlier."""
    seen = answer.situation
    if seen.flow_until >= seen.seen_until:
        return False
    now = seen.now if seen.now != snapshot.captured_at else None
    width = (seen.seen_until - seen.window_from) / MICROS
    later = judge(read_situation(snapshot, now=now, since_seconds=width), label=answer.label)
    return all(finding.code != answer.verdict.code for finding in later.findings)


def _recovered_at(snapshot: Snapshot, seen: Situation, first: int, begun: int) -> int:
    normal = max(_oldest(snapshot, first, begun)[0], _NO_WAIT_SECONDS)
    ends = [
        seen.seen_until if end is None else min(end, seen.seen_until)
        for _, begin, end in snapshot.rows(flow.claimable_intervals(begun, seen.seen_until))
        if end is None or end - begin > normal * MICROS
    ]
    return max(begun, seen.flow_until, *ends)


def _oldest(snapshot: Snapshot, since: int, until: int) -> tuple[float, str | None]:
    """Return the greatest age of a claimable job in a span, in seconds, and its queue."""
    span = Buckets(first=since, until=until, width=max(until - since, 1))
    waits = waits_by_queue(snapshot, since, until)
    ages = {queue: oldest_ages(intervals, span)[0] for queue, intervals in waits.items()}
    worst = max(ages, key=lambda queue: ages[queue], default=None)
    return ages.get(worst, 0) / MICROS, worst


def _phase(snapshot: Snapshot, name: str, since: int, until: int) -> Phase:
    counts: Counter[str] = Counter()
    for kind, _, count, *_times in snapshot.rows(flow.totals(since, until)):
        counts[kind] += count
    age, queue = _oldest(snapshot, since, until)
    events = counts["arrival"], counts["completion"], counts["dead"]
    return Phase(name, since, until, *events, age, queue)


def _findings(answer: Triage) -> Iterator[Moment]:
    for found in answer.findings:
        if found.since is not None:
            what = f"{found.code} begins: {plain(found.sentence)}"
            yield Moment(found.since, found.layer or "-", what)


def _workers(seen: Situation) -> Iterator[Moment]:
    """Give each lost worker's last sign; of many the first ones, and how many more there are."""
    lost = [(w.heartbeat_at or 0, short(w.owner)) for w in seen.workers if seen.is_lost(w)]
    lost.sort(key=lambda sign: sign[0])
    signs = [(at, f"worker {name}") for at, name in lost[:_MOST_WORKERS]]
    if more := len(lost) - len(signs):
        signs.append((lost[-1][0], count_text(more, "more worker")))
    return (Moment(at, "claimed", f"last sign of {who}") for at, who in signs)


def _leases(seen: Situation) -> Iterator[Moment]:
    over = sorted((job.locked_until or 0, short(job.id)) for job in seen.held if job.is_expired)
    if not over:
        return
    (first, job), (last, last_job), many = over[0], over[-1], len(over)
    if first == last:
        whose = f"the leases of {many:,} jobs are" if many > 1 else f"the lease of job {job} is"
        yield Moment(first, "claimed", f"{whose} over")
    else:
        yield Moment(first, "claimed", f"the first of {many:,} leases is over: job {job}")
        yield Moment(last, "claimed", f"the last of {many:,} leases is over: job {last_job}")


def _work(snapshot: Snapshot, seen: Situation) -> Iterator[Moment]:
    """Give when the last job came, was claimed and was completed before the last look."""
    layers = {"arrival": "intake", "claim": "claimed", "completion": "result"}
    last: dict[str, tuple[int, str | None]] = {}
    for kind, queue, _, _, at in snapshot.rows(flow.totals(seen.window_from, seen.seen_until)):
        if kind in layers and at > last.get(kind, (0, None))[0]:
            last[kind] = (at, queue)
    for kind, (at, queue) in last.items():
        yield Moment(at, layers[kind], f"last {kind} seen ({_queue(queue)})")


def _ends(answer: Triage, recovered: int | None) -> Iterator[Moment]:
    code, look = answer.verdict.code, "last look"
    if recovered is None:
        look += f": {code}" + ("" if code in _CALM else " still stands, not over")
    elif code in _CALM:
        yield Moment(recovered, "-", "the window that was given ends")
    else:
        yield Moment(recovered, "-", f"{code} is over, and nothing waits longer than before it")
    yield Moment(answer.situation.seen_until, "-", look)
