"""What flows and how long the oldest waits, over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from jobplaybook.detectors.flow import queue_name
from jobplaybook.frames import FLOW, OLDEST_AGE, check_frame
from jobplaybook.model import UNFINISHED, State
from jobplaybook.plots.drawing import (
    COLOURS,
    INK,
    PALE,
    QUIET,
    Event,
    Picture,
    days,
    drawing,
    end_labels,
    label,
    new_figure,
    not_drawn,
    time_axis,
)
from jobplaybook.units import clock_text, count_text, duration_text, to_micros
from jobplaybook.verdict import Triage

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_LINES: tuple[tuple[str, Any], ...] = (
    ("─", "solid"),
    ("╌", (0, (5, 2))),
    ("┈", (0, (1.5, 1.5))),
    ("╍", (0, (6, 2, 1.5, 2))),
)
"""How lines are told apart without colours, which mean states; the sign stands in the label."""
_NO_WAIT_SECONDS = 1.0
Ages = dict[str | None, list[float]]


def flow(
    frame: pd.DataFrame,
    answer: Triage,
    *,
    unfinished: int | None = None,
    events: Sequence[Event] = (),
) -> Picture:
    """Return the picture of cumulative arrivals and endings, and of the gap between them.

    Parameters
    ----------
    frame : DataFrame
        Of schema `jobplaybook.frames.FLOW`.
    answer : Triage
        The verdict; its time is shaded.
    unfinished : int, optional
        Jobs not ended where the frame ends; by default all that the verdict counted.
    events : sequence of (int, str)
        Moments to be marked, microseconds UTC, with their names.

    Notes
    -----
    The vertical gap is the unfinished jobs: it ends at what is unfinished now and is reckoned
    backwards from there.
    """
    counted = check_frame(frame, FLOW).drop(columns="queue").groupby("until_at").sum()
    times = [to_micros(at.to_pydatetime()) for at in counted.index]
    came = list(accumulate(map(int, counted["arrivals"])))
    ended = list(accumulate(map(int, counted[["completions", "dead", "cancelled"]].sum(axis=1))))
    if unfinished is None:
        unfinished = sum(answer.situation.counts.get(status, 0) for status in UNFINISHED)
    total_in, total_out = (series[-1] if series else 0 for series in (came, ended))
    before = max(unfinished - total_in + total_out, 0)
    later = [(total_in - a) - (total_out - b) for a, b in zip(came, ended, strict=True)]
    gap = [max(unfinished - change, 0) for change in later]
    title = _flow_title(before, unfinished, max(total_in, total_out))
    with drawing():
        figure, panels = new_figure(title, 4.4, (2, 1))
        if times:
            _draw_flow(panels, times, came, ended, gap)
        time_axis(panels, times, answer, events, low=True)
    numbers = (
        f"{total_in:,} came and {total_out:,} ended {_span(times)}; unfinished: "
        f"{before:,} before, at most {max(gap, default=0):,}, {unfinished:,} at the end."
    )
    return Picture(title=title, numbers=numbers, figure=figure)


def _draw_flow(
    panels: Sequence[Axes], times: Sequence[int], came: list[int], ended: list[int], gap: list[int]
) -> None:
    above, below = panels
    x = days(times)
    top = [b + g for b, g in zip(ended, gap, strict=True)]
    done = COLOURS[State.COMPLETED]
    above.fill_between(x, ended, top, color=PALE, linewidth=0)
    above.plot(x, top, color=INK, linewidth=1.8)
    above.plot(x, ended, color=done, linewidth=1.8)
    below.fill_between(x, gap, color=PALE, linewidth=0)
    below.plot(x, gap, color=INK, linewidth=1.4)
    above.set_ylabel("jobs, cumulative")
    below.set_ylabel("unfinished\n[jobs]")
    for panel in panels:
        panel.set_ylim(bottom=0)
        panel.locator_params(axis="y", integer=True, nbins=4)
    end_labels(
        above,
        x[-1],
        [(ended[-1], f"{ended[-1]:,} ended", done), (top[-1], f"{came[-1]:,} came", INK)],
    )
    end_labels(below, x[-1], [(gap[-1], f"{gap[-1]:,} left", INK)])


def _flow_title(before: int, after: int, moved: int) -> str:
    jobs = count_text(after, "unfinished job")
    if not moved:
        return f"Nothing came and nothing ended: {jobs}"
    change, much = after - before, max(0.1 * moved, 10)
    if change > much:
        return f"{change:,} more jobs came than ended: {jobs} now"
    if change < -much:
        return f"{-change:,} more jobs ended than came: {jobs} now"
    return f"About as many jobs end as come: {jobs} now"


def oldest_age(frame: pd.DataFrame, answer: Triage, *, events: Sequence[Event] = ()) -> Picture:
    """Return the picture of how long the oldest claimable job waited, per queue.

    Parameters
    ----------
    frame : DataFrame
        Of schema `jobplaybook.frames.OLDEST_AGE`.
    answer : Triage
        The verdict; its time is shaded.
    events : sequence of (int, str)
        Moments to be marked, microseconds UTC, with their names.
    """
    ages = _ages(check_frame(frame, OLDEST_AGE))
    ranked = sorted(ages, key=lambda queue: (-_now(ages[queue]), -max(ages[queue]), queue or ""))
    times = sorted({to_micros(at.to_pydatetime()) for at in frame["until_at"]})
    title = _age_title(ages, ranked)
    size, unit = _time_unit(max((max(series) for series in ages.values()), default=0.0))
    with drawing():
        figure, (axes,) = new_figure(title, 3.4)
        x, ends = days(times), []
        for queue, (sign, dashes) in zip(ranked, _LINES, strict=False):
            width, colour = (2.2, INK) if queue == ranked[0] else (1.3, QUIET)
            line = [age / size for age in ages[queue]]
            axes.plot(x, line, color=colour, linewidth=width, linestyle=dashes)
            ends.append((line[-1], f"{sign} {label(queue_name(queue))}", colour))
        axes.set_ylabel(f"age of the oldest [{unit}]")
        axes.set_ylim(bottom=0)
        time_axis([axes], times, answer, events, more=not_drawn(len(ranked) - len(_LINES)))
        if ends:
            end_labels(axes, x[-1], ends)
    return Picture(title=title, numbers=_age_numbers(ages, ranked, times), figure=figure)


def _ages(frame: pd.DataFrame) -> Ages:
    found: Ages = {}
    for queue, age in frame[["queue", "oldest_claimable_age_seconds"]].itertuples(index=False):
        found.setdefault(queue if isinstance(queue, str) else None, []).append(age)
    return found


def _now(series: list[float]) -> float:
    return series[-1] if series[-1] >= _NO_WAIT_SECONDS else 0.0


def _age_title(ages: Ages, ranked: Sequence[str | None]) -> str:
    if not ranked:
        return "No queue had a job in the window"
    now = _now(ages[ranked[0]])
    if now:
        return f"The oldest job in {queue_name(ranked[0])} waits {duration_text(now)} for a worker"
    worst = max(ranked, key=lambda queue: max(ages[queue]))
    longest = f"{duration_text(max(ages[worst]))} ({queue_name(worst)})"
    return f"Nothing waits for a worker now; the longest wait was {longest}"


def _age_numbers(ages: Ages, ranked: Sequence[str | None], times: Sequence[int]) -> str:
    parts = [
        f"{queue_name(queue)} {duration_text(ages[queue][-1])} at the end, at most "
        f"{duration_text(max(ages[queue]))}"
        for queue in ranked[: len(_LINES)]
    ]
    return f"Oldest claimable job {_span(times)}: {'; '.join(parts) or 'none'}."


def _time_unit(longest: float) -> tuple[float, str]:
    sizes = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
    return next(((size, unit) for size, unit in sizes if longest >= 2 * size), (1.0, "s"))


def _span(times: Sequence[int]) -> str:
    return f"between {clock_text(times[0])} and {clock_text(times[-1])}" if times else "in no time"
