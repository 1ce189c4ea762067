"""The queues: where every job stands, what flows, how fast, how long the oldest waits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from jobplaybook.detectors.findings import rate_text
from jobplaybook.detectors.flow import queue_name
from jobplaybook.frames import FLOW, OLDEST_AGE, STANDING, check_frame
from jobplaybook.model import UNFINISHED, State
from jobplaybook.plots import drawing as draw
from jobplaybook.plots.drawing import COLOURS, INK, PALE, QUIET, Events, Picture, label
from jobplaybook.units import MICROS, clock_text, count_text, duration_text
from jobplaybook.verdict import Triage

_MOST_QUEUES, _LONG_TITLE = 10, 110
_DRAWN = tuple(state for state in COLOURS if state not in (State.COMPLETED, State.CANCELLED))
_LINES: tuple[tuple[str, Any], ...] = (
    ("─", "solid"),
    ("╌", (0, (5, 2))),
    ("┈", (0, (1.5, 1.5))),
    ("╍", (0, (6, 2, 1.5, 2))),
)
"""How lines are told apart without colours, which mean states; the sign stands in the label."""
_DONE = COLOURS[State.COMPLETED]
_NO_WAIT_SECONDS, _MOST_STEPS = 1.0, 30


def standing(frame: pd.DataFrame, answer: Triage) -> Picture:
    """Return the picture of the jobs that are not completed, by queue and state.

    The frame is of schema `jobplaybook.frames.STANDING`; running jobs whose lease is over by the
    verdict are hatched.
    """
    counts = {
        queue: Counter[str](dict(zip(rows["state"], map(int, rows["jobs"]), strict=True)))
        for queue, rows in draw.by_queue(check_frame(frame, STANDING)).items()
    }
    expired = Counter(job.queue for job in answer.situation.held if job.is_expired)
    total = sum(counts.values(), Counter[str]())
    queues = sorted(counts, key=lambda queue: (-_left(counts[queue]), queue or ""))
    shown = queues[:_MOST_QUEUES]
    title = _standing_title(total, answer)
    with draw.panels(title, 1.7 + 0.36 * max(len(shown), 1)) as (figure, (axes,)):
        for row, queue in enumerate(shown):
            _bar(axes, row, counts[queue], expired[queue])
        axes.set_yticks(range(len(shown)), [label(queue_name(queue)) for queue in shown])
        axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.3)
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("jobs that are not completed" + draw.not_drawn(len(queues) - len(shown)))
        handles, names = axes.get_legend_handles_labels()
        draw.legend(axes, list(dict(zip(names, handles, strict=True)).values()), 10)
    parts = ", ".join(f"{total[state]:,} {state}" for state in COLOURS if total[state])
    numbers = f"Jobs: {parts or 'none'}; leases over: {expired.total():,}."
    return Picture(title=title, numbers=numbers, figure=figure)


def _left(states: Counter[str]) -> int:
    return sum(states[state] for state in _DRAWN)


def _bar(axes: Axes, row: int, states: Counter[str], expired: int) -> None:
    """Draw a queue's jobs, state by state; those whose lease is over are apart."""
    left = 0
    for state in _DRAWN:
        over = min(expired, states[state]) if state is State.PROCESSING else 0
        lost: dict[str, Any] = {"label": f"{state}, lease over", "hatch": "////"}
        for jobs, look in ((states[state] - over, {"label": str(state)}), (over, lost)):
            if jobs:
                axes.barh(row, jobs, 0.62, left, color=COLOURS[state], ec="white", **look)
                left += jobs
    text = f"{left:,}" + (f", {expired:,} with lease over" if expired else "")
    draw.write(axes, text, (left, row), 5, fontsize=10)


def _standing_title(total: Counter[str], answer: Triage) -> str:
    """Return the verdict's sentence, without its asides where it is too long for a title."""
    if answer.verdict.code in ("healthy", "unknown"):
        return f"{_left(total):,} of {count_text(total.total(), 'job')} are not completed"
    sentence = answer.verdict.sentence.split(". ")[0].rstrip(".")
    if len(sentence) > _LONG_TITLE:
        sentence = re.sub(r" \([^)]*\)", "", sentence)
    return sentence if len(sentence) <= _LONG_TITLE else sentence.partition(";")[0]


def _counted(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how many jobs ``came`` and ``ended`` in each bucket, by its end in microseconds."""
    counted = check_frame(frame, FLOW).drop(columns="queue").groupby("until_at").sum()
    ended = counted[["completions", "dead", "cancelled"]].sum(axis=1)
    counted = counted.assign(came=counted["arrivals"], ended=ended)[["came", "ended"]]
    return counted.set_axis(counted.index.astype("int64"))


def flow(
    frame: pd.DataFrame, answer: Triage, *, unfinished: int | None = None, events: Events = ()
) -> Picture:
    """Return the picture of cumulative arrivals and endings, and of the gap between them.

    The frame is of schema `jobplaybook.frames.FLOW`. The vertical gap is the unfinished jobs: it
    ends at ``unfinished``, by default all that the verdict counted, and is reckoned backwards from
    there.
    """
    counted = _counted(frame)
    times, sums, totals = list(counted.index), counted.cumsum(), counted.sum()
    came, ended = int(totals["came"]), int(totals["ended"])
    if unfinished is None:
        unfinished = sum(answer.situation.counts.get(status, 0) for status in UNFINISHED)
    before = max(unfinished - came + ended, 0)
    gap = (unfinished - (came - sums["came"]) + (ended - sums["ended"])).clip(lower=0)
    title = _flow_title(before, unfinished, max(came, ended))
    with draw.panels(title, 4.4, (2, 1)) as (figure, (above, below)):
        if times:
            _draw_flow(above, below, sums["ended"], gap, came)
        draw.time_axis([above, below], times, answer, events, low=True)
    numbers = (
        f"{came:,} came and {ended:,} ended {draw.between(times)}; unfinished: "
        f"{before:,} before, at most {max(gap, default=0):,}, {unfinished:,} at the end."
    )
    return Picture(title=title, numbers=numbers, figure=figure)


def _draw_flow(
    above: Axes, below: Axes, ended: pd.Series[int], gap: pd.Series[int], came: int
) -> None:
    x = draw.days(gap.index)
    top = ended + gap
    above.fill_between(x, ended, top, color=PALE, linewidth=0)
    above.plot(x, top, color=INK, linewidth=1.8)
    above.plot(x, ended, color=_DONE, linewidth=1.8)
    below.fill_between(x, gap, color=PALE, linewidth=0)
    below.plot(x, gap, color=INK, linewidth=1.4)
    above.set_ylabel("jobs, cumulative")
    below.set_ylabel("unfinished\n[jobs]")
    for panel in (above, below):
        panel.set_ylim(bottom=0)
        panel.locator_params(axis="y", integer=True, nbins=4)
    last, left = ended.iloc[-1], gap.iloc[-1]
    names = [(last, f"{last:,} ended", _DONE), (last + left, f"{came:,} came", INK)]
    draw.end_labels(above, x[-1], names)
    draw.end_labels(below, x[-1], [(left, f"{left:,} left", INK)])


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


def rates(frame: pd.DataFrame, answer: Triage, *, events: Events = ()) -> Picture:
    """Return the picture of arrivals and endings per time, of a frame of schema `FLOW`.

    A step shows its count over its width. Neighbouring buckets are put together until there are few
    enough steps to be read; the last one ends with the window and may be shorter.
    """
    counted = _fewer(_counted(frame))
    ends = list(counted.index)
    # the first step is as wide as the second
    width = ends[1] - ends[0] if len(ends) > 1 else MICROS
    edges = [ends[0] - width, *ends] if ends else []
    widths = [(end - begin) / MICROS for begin, end in zip(edges, ends, strict=False)]
    found = counted.div(widths, axis="index")
    scale, unit = (60.0, "min") if (found * 60 >= 5).any(axis=None) else (3_600.0, "h")
    title = _rates_title(int(counted["came"].sum()), int(counted["ended"].sum()))
    with draw.panels(title, 3.2) as (figure, (axes,)):
        labels = []
        if ends:
            for series, name, colour in (("came", "come", INK), ("ended", "end", _DONE)):
                steps = found[series] * scale
                axes.stairs(steps, draw.days(edges), color=colour, linewidth=1.8, baseline=None)
                labels.append((steps.iloc[-1], f"{name}, {steps.iloc[-1]:,.0f}", colour))
        axes.axhline(0, color=PALE, linewidth=0.8)
        axes.set_ylabel(f"jobs per {unit}")
        axes.set_ylim(bottom=0)
        step = duration_text(widths[0]) if widths else "none"
        draw.time_axis([axes], edges, answer, events, more=f"; steps of {step}", event_height=0.0)
        draw.end_labels(axes, draw.days(edges)[-1] if ends else 0.0, labels)
    return Picture(title=title, numbers=_rates_numbers(found), figure=figure)


def _fewer(counted: pd.DataFrame) -> pd.DataFrame:
    """Return the buckets put together, so that at most `_MOST_STEPS` are left."""
    together = max(-(-len(counted) // _MOST_STEPS), 1)
    groups = counted.reset_index().groupby(lambda place: place // together)
    return groups.agg({"until_at": "last", "came": "sum", "ended": "sum"}).set_index("until_at")


def _rates_title(came: int, ended: int) -> str:
    if not came and not ended:
        return "Nothing came and nothing ended"
    if ended == came:
        return f"As many jobs ended as came: {came:,}"
    more, fewer = ("came", "ended") if came > ended else ("ended", "came")
    return f"{abs(came - ended):,} more jobs {more} than {fewer}: {came:,} came, {ended:,} ended"


def _rates_numbers(found: pd.DataFrame) -> str:
    if found.empty:
        return "No bucket of time."
    said = [
        f"{name} at most {rate_text(found[name].max())}, in the last "
        f"{rate_text(found[name].iloc[-1])}"
        for name in ("came", "ended")
    ]
    return f"Until {clock_text(int(found.index[-1]))}, per step: {'; '.join(said)}."


def oldest_age(frame: pd.DataFrame, answer: Triage, *, events: Events = ()) -> Picture:
    """Return the picture of how long the oldest claimable job waited, per queue.

    The frame is of schema `jobplaybook.frames.OLDEST_AGE`.
    """
    checked = check_frame(frame, OLDEST_AGE)
    ages = {
        queue: list(rows["oldest_claimable_age_seconds"])
        for queue, rows in draw.by_queue(checked).items()
    }
    ranked = sorted(ages, key=lambda queue: (-_now(ages[queue]), -max(ages[queue]), queue or ""))
    times = sorted(set(checked["until_at"].astype("int64")))
    title = _age_title(ages, ranked)
    size, unit = draw.time_unit(max(map(max, ages.values()), default=0.0))
    with draw.panels(title, 3.4) as (figure, (axes,)):
        x, ends = draw.days(times), []
        for queue, (sign, dashes) in zip(ranked, _LINES, strict=False):
            width, colour = (2.2, INK) if queue == ranked[0] else (1.3, QUIET)
            line = [age / size for age in ages[queue]]
            axes.plot(x, line, color=colour, linewidth=width, linestyle=dashes)
            ends.append((line[-1], f"{sign} {label(queue_name(queue))}", colour))
        axes.set_ylabel(f"age of the oldest [{unit}]")
        axes.set_ylim(bottom=0)
        draw.time_axis(
            [axes], times, answer, events, more=draw.not_drawn(len(ranked) - len(_LINES))
        )
        draw.end_labels(axes, x[-1] if x else 0.0, ends)
    parts = [
        f"{queue_name(queue)} {duration_text(ages[queue][-1])} at the end, at most "
        f"{duration_text(max(ages[queue]))}"
        for queue in ranked[: len(_LINES)]
    ]
    numbers = f"Oldest claimable job {draw.between(times)}: {'; '.join(parts) or 'none'}."
    return Picture(title=title, numbers=numbers, figure=figure)


def _now(series: list[float]) -> float:
    return series[-1] if series[-1] >= _NO_WAIT_SECONDS else 0.0


def _age_title(ages: dict[str | None, list[float]], ranked: Sequence[str | None]) -> str:
    if not ranked:
        return "No queue had a job in the window"
    now = _now(ages[ranked[0]])
    if now:
        return f"The oldest job in {queue_name(ranked[0])} waits {duration_text(now)} for a worker"
    worst = max(ranked, key=lambda queue: max(ages[queue]))
    longest = f"{duration_text(max(ages[worst]))} ({queue_name(worst)})"
    return f"Nothing waits for a worker now; the longest wait was {longest}"
