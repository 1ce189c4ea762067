"""What comes: attempts that retries add, parked jobs that wake, the backlog until it is gone."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from jobplaybook.detectors.flow import queue_name
from jobplaybook.estimates import DrainEstimate, Fan, rate_text
from jobplaybook.model import State
from jobplaybook.plots import drawing as draw
from jobplaybook.plots.drawing import COLOURS, INK, PALE, QUIET, Picture, label
from jobplaybook.prospect import Prospect
from jobplaybook.retrying import Retried
from jobplaybook.units import MICROS, clock_text, count_text, duration_text

_AGAIN, _PLANNED = COLOURS[State.RETRYABLE], COLOURS[State.SCHEDULED]
_MOST_TYPES, _MOST_STEPS = 5, 60
_MINUTE = 60 * MICROS
_DASHED, _DOTTED = (0, (5, 2)), (0, (1.5, 1.5))
Minutes = Mapping[int, Counter[str]]
"""Per minute from now the jobs that wake: ``jobs``, and ``retries`` among them."""


def tried(retried: Retried) -> Picture:
    """Return the waterfall from first attempts over each type's retries to upstream calls."""
    whole = retried.overall
    parts = [(label(each.job_type or "(no type)"), each.retries) for each in retried.classes]
    parts = [(name, count) for name, count in parts if count]
    rest = sum(count for _, count in parts[_MOST_TYPES:])
    steps = [*parts[:_MOST_TYPES], *([("other types", rest)] if rest else [])]
    title = _tried_title(whole.measured, whole.retries, steps)
    with draw.panels(title, 1.7 + 0.36 * len(steps) + 0.72) as (figure, (axes,)):
        _draw_tried(axes, whole.firsts, steps, whole.upstream_calls)
        axes.set_xlabel("attempts started in the window")
    said = ", ".join(f"{name} {count:,}" for name, count in steps) or "none"
    calls = whole.upstream_calls
    numbers = (
        f"{count_text(whole.firsts, 'first attempt')}, "
        f"{count_text(whole.retries, 'retry', 'retries')} of {count_text(whole.jobs, 'job')} "
        f"({said}), {count_text(whole.firsts + whole.retries, 'attempt')} in all, "
        f"{whole.completions:,} completed; "
        f"upstream calls: {'not recorded' if calls is None else f'{calls:,}'}."
    )
    return Picture(title=title, numbers=numbers, figure=figure)


def _draw_tried(
    axes: Axes, firsts: int, steps: Sequence[tuple[str, int]], calls: int | None
) -> None:
    total = firsts + sum(count for _, count in steps)
    bars = [("first attempts", 0, firsts, QUIET, f"{firsts:,}")]
    reached = firsts
    for name, count in steps:
        bars.append((f"again: {name}", reached, count, _AGAIN, f"+{count:,}"))
        reached += count
    bars.append(("all attempts", 0, total, QUIET, f"{total:,}"))
    said = "not recorded" if calls is None else f"{calls:,}"
    bars.append(("upstream calls", 0, calls or 0, QUIET, said))
    for row, (_, left, width, colour, text) in enumerate(bars):
        axes.barh(row, width, 0.62, left, color=colour, edgecolor=QUIET, linewidth=0.8)
        draw.write(axes, text, (left + width, row), 5, fontsize=10)
        if 0 < row < len(bars) - 1:
            axes.plot([left, left], [row - 0.69, row - 0.31], color=QUIET, linewidth=0.7)
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, max(total, calls or 0, 1) * 1.18)
    axes.grid(axis="y", visible=False)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.xaxis.set_major_formatter(_thousands)


def _thousands(value: float, _place: float) -> str:
    return f"{value:,.0f}"


def _tried_title(measured: float, retries: int, steps: Sequence[tuple[str, int]]) -> str:
    if not retries:
        return "No job was tried again in this window"
    again = count_text(retries, "retry", "retries")
    worst, most = steps[0]
    of = f"{again}, all of {worst}" if most == retries else f"{again}, {most:,} of them {worst}"
    if math.isinf(measured):
        return f"{of}; no job completed"
    return f"{of}: {measured:.3g} attempts per completed job"


def wakings(retried: Retried) -> Picture:
    """Return the picture of when parked jobs wake, minute by minute, beside the best claims.

    Of several queues it shows the one whose fullest minute takes the longest to be claimed.
    """
    found: dict[str | None, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for each in retried.wakings:
        minute = max(each.wakes_at - retried.until, 0) // _MINUTE
        found[each.queue][minute].update(jobs=each.jobs, retries=each.retries)
    fullest = {queue: max(count["jobs"] for count in of.values()) for queue, of in found.items()}
    ranked = sorted(
        found, key=lambda queue: (-fullest[queue] / (retried.peak(queue) or 1), queue or "")
    )
    queue = ranked[0] if ranked else None
    minutes: Minutes = found[queue] if ranked else {}
    best = retried.peak(queue) if ranked else 0
    title = _wakings_title(queue_name(queue), minutes, best, retried.until)
    with draw.panels(title, 3.0) as (figure, (axes,)):
        _draw_wakings(axes, minutes, best)
        at = clock_text(retried.until)
        axes.set_xlabel(f"minutes from {at}{draw.not_drawn(len(ranked) - 1)}")
        axes.set_ylabel("jobs that wake\nper minute")
        handles = [Patch(color=_AGAIN, label="retries"), Patch(color=_PLANNED, label="scheduled")]
        draw.legend(axes, handles if minutes else [], 10)
    parts = [_waking_numbers(name, found[name], retried.peak(name)) for name in ranked[:4]]
    numbers = f"As of {clock_text(retried.until)}: {'; '.join(parts) or 'no job is parked'}."
    return Picture(title=title, numbers=numbers, figure=figure)


def _draw_wakings(axes: Axes, minutes: Minutes, best: int) -> None:
    """Draw a bar a minute; where they would be too thin, the fullest minute of a few."""
    last = max(minutes, default=0) + 1
    width = max(-(-last // _MOST_STEPS), 1)
    steps: dict[int, Counter[str]] = {}
    for minute, count in sorted(minutes.items()):
        step = minute // width
        if step not in steps or count["jobs"] > steps[step]["jobs"]:
            steps[step] = count
    x = [(step + 0.5) * width for step in steps]
    again = [count["retries"] for count in steps.values()]
    planned = [count["jobs"] - count["retries"] for count in steps.values()]
    axes.bar(x, again, 0.85 * width, color=_AGAIN, edgecolor=QUIET, linewidth=0.5)
    axes.bar(x, planned, 0.85 * width, again, color=_PLANNED, edgecolor=QUIET, linewidth=0.5)
    axes.set_xlim(0, max(last, 10))
    if steps:
        step, count = max(steps.items(), key=lambda each: each[1]["jobs"])
        place = ((step + 0.5) * width, count["jobs"])
        draw.write(axes, f"{count['jobs']:,}", place, 0, va="bottom", ha="center", fontsize=10)
    top = max([best, *(count["jobs"] for count in steps.values())], default=0)
    axes.set_ylim(0, max(top * 1.25, 4))
    if best:
        axes.axhline(best, color=INK, linewidth=1.4, linestyle=_DASHED)
        note = f"claimed in its best minute: {best:,}"
        draw.write(axes, note, (max(last, 10), best), -4, ha="right", va="bottom", fontsize=10)
    axes.locator_params(integer=True, nbins=6)


def _wakings_title(name: str, minutes: Minutes, best: int, until: int) -> str:
    if not minutes:
        return "No job is parked: nothing wakes later"
    fullest = max(minutes, key=lambda minute: (minutes[minute]["jobs"], -minute))
    jobs = minutes[fullest]["jobs"]
    at = clock_text(until + fullest * _MINUTE)
    wake = "wakes" if jobs == 1 else "wake"
    lead = f"{count_text(jobs, 'job')} of {label(name)} {wake} in the minute from {at}"
    if not best:
        return f"{lead}; how fast it claims is not known"
    if jobs <= best:
        return (
            f"{lead}, fewer than its best minute of claims" if jobs < best else f"{lead}, no herd"
        )
    return f"{lead}: claiming them takes {duration_text(jobs / best * 60.0)}"


def _waking_numbers(queue: str | None, minutes: Minutes, best: int) -> str:
    jobs = sum(count["jobs"] for count in minutes.values())
    again = sum(count["retries"] for count in minutes.values())
    most = max(count["jobs"] for count in minutes.values())
    claims = f"{best:,} claimed in its best" if best else "its claims are not known"
    return (
        f"{queue_name(queue)} {count_text(jobs, 'parked job')} ({again:,} of them retries), "
        f"at most {most:,} in a minute, {claims}"
    )


def drain(prospect: Prospect, *, by_seconds: float | None = None) -> Picture:
    """Return the fan of the waiting jobs until they are gone: median, and nine draws in ten.

    The dashed line is the capacity alone, without arrivals; ``by_seconds`` marks the deadline.
    """
    fan, estimate = prospect.fan(by_seconds=by_seconds), prospect.estimate(by_seconds=by_seconds)
    if fan is None or estimate is None:
        words = prospect.outlook()
        with draw.panels(words[:1].upper() + words[1:], 1.6) as (figure, (axes,)):
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center")
        numbers = f"{count_text(prospect.seen.waiting, 'job')} wait; no fan."
        return Picture(title=words, numbers=numbers, figure=figure)
    title = _drain_title(prospect, estimate)
    size, unit = draw.time_unit(fan.seconds[-1])
    with draw.panels(title, 4.2) as (figure, (axes,)):
        x = [seconds / size for seconds in fan.seconds]
        axes.fill_between(x, fan.p5, fan.p95, color=PALE, linewidth=0)
        axes.plot(x, fan.unhindered, color=QUIET, linewidth=1.4, linestyle=_DASHED)
        axes.plot(x, fan.p50, color=INK, linewidth=2.0)
        axes.set_xlim(0, x[-1])
        axes.set_ylim(0, 1.08 * max(fan.p95))
        axes.set_xlabel(f"time from now [{unit}]")
        axes.set_ylabel("jobs that wait")
        axes.yaxis.set_major_formatter(_thousands)
        if by_seconds is not None:
            axes.axvline(by_seconds / size, color=QUIET, linewidth=1.2, linestyle=_DOTTED)
        draw.legend(axes, _drain_handles(fan, estimate), 10, ncols=1)
    return Picture(title=title, numbers=_drain_numbers(fan, estimate), figure=figure)


def _drain_title(prospect: Prospect, estimate: DrainEstimate) -> str:
    jobs = count_text(prospect.seen.waiting, "job")
    lead = f"An assumed backlog of {jobs}" if not prospect.measured.waiting else f"{jobs} that wait"
    if estimate.never or estimate.seconds.p50 == math.inf:
        return f"{lead}: more likely never gone than ever, at these rates"
    chance = estimate.never_probability
    never = f", never in {chance:.0%} of the draws" if chance >= 0.005 else ""
    return f"{lead}: gone in about {estimate.text}{never}"


def _drain_handles(fan: Fan, estimate: DrainEstimate) -> list[Line2D | Patch]:
    alone = f"capacity alone, without arrivals: {rate_text(estimate.completion_rate)}"
    found: list[Line2D | Patch] = [
        Line2D([], [], color=INK, linewidth=2.0, label=f"half of the draws: {estimate.text}"),
        Patch(color=PALE, label=f"nine draws in ten: {estimate.range_text or 'never'}"),
        Line2D([], [], color=QUIET, linewidth=1.4, linestyle=_DASHED, label=alone),
    ]
    by, chance = estimate.inputs.by_seconds, estimate.by_probability
    if by is not None and chance is not None:
        far = ", far to the right" if by > fan.seconds[-1] else ""
        text = f"deadline {duration_text(by)}: in time in {chance:.0%} of the draws{far}"
        found.append(Line2D([], [], color=QUIET, linewidth=1.2, linestyle=_DOTTED, label=text))
    return found


def _drain_numbers(fan: Fan, estimate: DrainEstimate) -> str:
    inputs = estimate.inputs
    half = len(fan.seconds) // 2
    by = estimate.by_probability
    in_time = (
        "" if by is None else f"; in {duration_text(inputs.by_seconds)} with probability {by:.2f}"
    )
    return (
        f"{fan.p50[0]:,.0f} jobs wait, {rate_text(inputs.arrival_rate)} come, "
        f"{rate_text(estimate.completion_rate)} can leave. Gone after {estimate.text}, nine times "
        f"in ten {estimate.range_text or 'never'}; never with probability "
        f"{fan.never_probability:.2f}{in_time}. After {duration_text(fan.seconds[half])} there are "
        f"{fan.p5[half]:,.0f} to {fan.p95[half]:,.0f} left, in the middle {fan.p50[half]:,.0f}."
    )
