"""A prospect in rows for people: what changes make of it, deadlines, and replays."""

from __future__ import annotations

import math
from collections.abc import Iterable

from jobplaybook.estimates import BacklogSeen, rate_text
from jobplaybook.prospect import Change, Prospect
from jobplaybook.units import count_text, duration_text, plain

CASE_COLUMNS = ("if", "gone in", "nine times in ten", "never", "in", "out")
DEADLINE_COLUMNS = (
    *("in", "in time", "completions needed", "to be sure"),
    *("or arrivals at most", "to be sure"),
)
REPLAY_COLUMNS = (
    "dead letters",
    "replayed in",
    "nine times in ten",
    "per time",
    "at once",
    "batch",
)
QUOTA_SHARE = 0.9
"""A quota that nobody gave is so much of what the workers call: to see what one would cost."""


def usual_changes(
    prospect: Prospect, *, calls_at_most: float | None = None, hold_back: str | None = None
) -> tuple[Change, ...]:
    """Return the changes that are thought of first in an incident.

    Parameters
    ----------
    prospect : Prospect
        What is changed.
    calls_at_most : float, optional
        Calls per second that the upstream admits; by default `QUOTA_SHARE` of what is called.
    hold_back : str, optional
        The job type that is held back; by default the one that takes the most worker time.
    """
    quota = QUOTA_SHARE * prospect.call_rate if calls_at_most is None else calls_at_most
    slow = prospect.heaviest if hold_back is None else hold_back
    return (
        Change("as it is"),
        Change("twice the workers", completions=2.0),
        Change("half the workers", completions=0.5),
        *([] if slow is None else [Change(f"{plain(slow)} held back", without=slow)]),
        Change("half of the arrivals shed", arrivals=0.5),
        *([Change(f"a quota of {rate_text(quota)}", calls_at_most=quota)] if quota else []),
    )


def case_rows(prospect: Prospect, changes: Iterable[Change]) -> tuple[tuple[str, ...], ...]:
    """Return a row of `CASE_COLUMNS` for each change."""
    return tuple((each.name, *_case(prospect, prospect.changed(each))) for each in changes)


def _case(prospect: Prospect, seen: BacklogSeen) -> tuple[str, ...]:
    found = prospect.estimate(seen) if seen.waiting else None
    if found is None:
        return "capacity unknown" if seen.waiting else "no backlog", "-", "-", "-", "-"
    middle = found.seconds.p50
    return (
        "more likely never" if middle is None or middle == math.inf else duration_text(middle),
        found.range_text or "never",
        f"{found.never_probability:.0%}",
        rate_text(found.inputs.arrival_rate),
        rate_text(found.completion_rate),
    )


def deadline_rows(prospect: Prospect, deadlines: Iterable[float]) -> tuple[tuple[str, ...], ...]:
    """Return a row of `DEADLINE_COLUMNS` for each time, in seconds, in which it should be gone."""
    rows: list[tuple[str, ...]] = []
    for seconds in deadlines:
        found = prospect.estimate(by_seconds=seconds) if prospect.seen.waiting else None
        if found is None:
            rows.append((duration_text(seconds), *("unknown",) * 5))
            continue
        needed = found.needed
        rates = (needed.completion_rate, needed.completion_rate_p95)
        limits = (needed.arrival_rate, needed.arrival_rate_p95)
        rows.append(
            (
                duration_text(seconds),
                f"{found.by_probability or 0.0:.0%}",
                *("unknown" if rate is None else rate_text(rate) for rate in rates),
                *("none is low enough" if rate is None else rate_text(rate) for rate in limits),
            )
        )
    return tuple(rows)


def replay_rows(
    prospect: Prospect, numbers: Iterable[int], *, quota_rate: float | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return a row of `REPLAY_COLUMNS` for each number of dead letters; the first are there."""
    return tuple(
        (
            count_text(jobs) + ("" if place else " in this snapshot"),
            *_replay(prospect, jobs, quota_rate),
        )
        for place, jobs in enumerate(numbers)
    )


def _replay(prospect: Prospect, jobs: int, quota_rate: float | None) -> tuple[str, ...]:
    if not jobs:
        return "nothing to replay", "-", "-", "-", "-"
    found = prospect.replay(jobs, quota_rate=quota_rate)
    if found is None:
        return "capacity unknown", "-", "-", "-", "-"
    if not found.rate:
        return "never: live traffic needs it all", "-", "0", "0", "-"
    spread = f"{duration_text(found.seconds.p5)} to {duration_text(found.seconds.p95)}"
    rate = rate_text(found.rate)
    return found.text, spread, rate, count_text(found.safe_concurrency), count_text(found.batch)
