"""Attempts as bars over workers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobplaybook.cohort import ATTEMPTS
from jobplaybook.frames import check_frame
from jobplaybook.model import Outcome, State
from jobplaybook.plots.drawing import (
    COLOURS,
    INK,
    PALE,
    QUIET,
    Event,
    Picture,
    days,
    drawing,
    label,
    new_figure,
    time_axis,
)
from jobplaybook.units import MICROS, clock_text, count_text, duration_text, to_micros
from jobplaybook.verdict import Triage

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_ROWS, _INSIDE, _LETTER, _THICK = 30, 0.07, 0.014, 0.68
_LOOKS: dict[str, tuple[str, str]] = {
    Outcome.RUNNING: (COLOURS[State.PROCESSING], "running"),
    Outcome.SUCCEEDED: (COLOURS[State.COMPLETED], "succeeded"),
    Outcome.FAILED: (COLOURS[State.DEAD], "failed"),
    Outcome.EXPIRED: (COLOURS[State.HELD], "lost its lease"),
    Outcome.RELEASED: (COLOURS[State.RETRYABLE], "given back"),
    Outcome.CANCELLED: (COLOURS[State.CANCELLED], "cancelled"),
    Outcome.UNKNOWN: ("#c4b59a", "ended, how is not recorded"),
}
"""Colour and name of each outcome; the last one is no state, so its colour is none of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    """One attempt to be drawn; times in microseconds UTC."""

    job: str
    attempt: int
    worker: str | None
    outcome: str
    begin: int
    end: int
    over_at: int | None
    seen_at: int | None


def attempts(frame: pd.DataFrame, answer: Triage, *, events: Sequence[Event] = ()) -> Picture:
    """Return the picture of attempts over the workers that ran them.

    Parameters
    ----------
    frame : DataFrame
        Of schema `jobplaybook.cohort.ATTEMPTS`.
    answer : Triage
        The verdict; its time is shaded, and what still runs ends at its ``now``.
    events : sequence of (int, str)
        Moments to be marked, microseconds UTC, with their names.

    Notes
    -----
    The attempts of one job are joined by a thin line. Where a lease is over and the attempt still
    runs, its bar is hatched from then on. A bar of no visible width still has its edge.
    """
    bars, undated = _bars(check_frame(frame, ATTEMPTS), answer.situation.now)
    times = _span(bars, answer.situation.now)
    span = times[1] - times[0]
    rows, lanes, labelled = _rows(bars, span)
    left_out = undated + len(bars) - len(rows)
    more = f" ({count_text(left_out, 'more attempt')} not drawn)" if left_out else ""
    title = _title(bars)
    height = sum(size for _, size in lanes)
    with drawing():
        figure, (axes,) = new_figure(title, 1.9 + 0.24 * max(height, 1))
        _draw(axes, rows, labelled, span)
        _draw_lanes(axes, lanes)
        axes.set_ylim(height - 0.4 + (1.2 if events else 0), -2.3)
        axes.grid(axis="y", visible=False)
        time_axis([axes], times, answer, events, more=more, event_height=0.0)
        axes.set_ylabel("worker")
        _legend(axes, rows)
    return Picture(title=title, numbers=_numbers(bars, times), figure=figure)


def _bars(frame: pd.DataFrame, now: int) -> tuple[list[_Bar], int]:
    """Return the attempts that have a beginning, and how many have none."""
    found = []
    for job, attempt, worker, began, ended, outcome, over, beat in frame.itertuples(index=False):
        begin = _moment(began)
        if begin is not None and begin <= now:
            end = _moment(ended)
            last = now if end is None and outcome == Outcome.RUNNING else end
            found.append(
                _Bar(
                    job=job,
                    attempt=attempt,
                    worker=worker if isinstance(worker, str) else None,
                    outcome=outcome,
                    begin=begin,
                    end=min(max(begin if last is None else last, begin), now),
                    over_at=_moment(over),
                    seen_at=_moment(beat),
                )
            )
    return found, len(frame) - len(found)


def _span(bars: Sequence[_Bar], now: int) -> list[int]:
    """Return where the time axis begins and ends: now only where something still runs."""
    begin = min((bar.begin for bar in bars), default=now - MICROS)
    end = now
    if bars and all(bar.outcome != Outcome.RUNNING for bar in bars):
        end = max(bar.end for bar in bars)
    margin = max((end - begin) // 50, MICROS // 2)
    return [begin - margin, end if end == now else min(end + 4 * margin, now)]


def _moment(value: Any) -> int | None:
    return None if value is None or value != value else to_micros(value.to_pydatetime())


def _by_number(worker: str | None) -> tuple[Any, ...]:
    """Return a sort key by which worker 10 comes after worker 2, and nobody comes last."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", worker or "")
    return worker is None, [(not p[0].isdigit(), int(p) if p[0].isdigit() else p) for p in parts]


def _rows(
    bars: Iterable[_Bar], span: int
) -> tuple[dict[_Bar, int], list[tuple[str | None, int]], set[_Bar]]:
    """Give bars their rows: the first ones of their worker's lane where they and a label are free.

    Attempts of one job whose workers are not known share a row and a label.
    """
    groups: dict[str | None, dict[Any, list[_Bar]]] = defaultdict(lambda: defaultdict(list))
    for bar in sorted(bars, key=lambda bar: (bar.begin, bar.job, bar.attempt)):
        groups[bar.worker][bar if bar.worker is not None else bar.job].append(bar)
    rows: dict[_Bar, int] = {}
    lanes: list[tuple[str | None, int]] = []
    labelled: set[_Bar] = set()
    top = 0
    for worker in sorted(groups, key=_by_number):
        free: list[float] = []
        for group in groups[worker].values():
            row = next((n for n, at in enumerate(free) if at <= group[0].begin), len(free))
            if top + row < _MOST_ROWS:
                free[row : row + 1] = [_room_until(group[-1], span)]
                rows |= dict.fromkeys(group, top + row)
                labelled.add(group[-1])
        if free:
            lanes.append((worker, len(free)))
        top += len(free)
    return rows, lanes, labelled


def _name(bar: _Bar) -> str:
    again = f" ×{bar.attempt}" if bar.attempt > 1 else ""
    return label(bar.job, 12) + again


def _is_wide(bar: _Bar, span: int) -> bool:
    return bar.end - bar.begin >= max(_INSIDE, _LETTER * (len(_name(bar)) + 1)) * span


def _room_until(bar: _Bar, span: int) -> float:
    """Return until when a bar takes room, its label beside it included."""
    beside = 0 if _is_wide(bar, span) else _LETTER * (len(_name(bar)) + 1)
    return bar.end + (beside + 0.005) * span


def _draw(axes: Axes, rows: dict[_Bar, int], labelled: set[_Bar], span: int) -> None:
    last: dict[str, _Bar] = {}
    for bar in sorted(rows, key=lambda bar: (bar.job, bar.attempt)):
        row = rows[bar]
        if (before := last.get(bar.job)) is not None:
            x = days([before.end, bar.begin])
            axes.plot(x, [rows[before], row], color=QUIET, linewidth=0.7, zorder=1)
        last[bar.job] = bar
        over = min(max(bar.over_at, bar.begin), bar.end) if bar.over_at is not None else bar.end
        colour = _LOOKS[bar.outcome][0]
        _piece(axes, row, bar.begin, over, facecolor=colour, edgecolor=colour)
        if over < bar.end:
            _piece(axes, row, over, bar.end, facecolor="white", edgecolor=colour, hatch="////")
        if bar.over_at is not None and bar.seen_at is not None and bar.seen_at >= bar.begin:
            axes.plot(
                *days([bar.seen_at]), row, marker="D", ms=4.5, color="white", mec=INK, mew=0.9
            )
        if bar in labelled:
            _write(axes, row, bar, span)


def _piece(axes: Axes, row: int, begin: int, end: int, **look: Any) -> None:
    left, right = days([begin, end])
    axes.barh(row, right - left, _THICK, left, linewidth=0.8, zorder=2, **look)


def _write(axes: Axes, row: int, bar: _Bar, span: int) -> None:
    inside = _is_wide(bar, span)
    begin = bar.begin if inside else bar.end
    if inside and bar.over_at is not None and bar.seen_at is not None:
        near = 0 <= bar.seen_at - bar.begin < (_INSIDE + 0.02) * span
        begin = bar.seen_at + span // 100 if near else begin
    dark = bar.outcome in (Outcome.RELEASED, Outcome.UNKNOWN)
    solid = bar.end if bar.over_at is None else bar.over_at
    on_hatches = inside and solid - begin < _INSIDE * span
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8} if on_hatches else None
    axes.annotate(
        _name(bar),
        (days([begin])[0], row),
        (3, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color="white" if inside and not dark and not on_hatches else INK,
        bbox=ground,
        annotation_clip=False,
        zorder=3,
    )


def _draw_lanes(axes: Axes, lanes: Sequence[tuple[str | None, int]]) -> None:
    places, names, top = [], [], 0
    for worker, size in lanes:
        if top:
            axes.axhline(top - 0.5, color=PALE, linewidth=1.0)
        places.append(top + (size - 1) / 2)
        names.append("not\nrecorded" if worker is None else label(worker, 14))
        top += size
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    if not lanes:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=QUIET)


def _legend(axes: Axes, bars: Iterable[_Bar]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = list(bars)
    outcomes = {bar.outcome for bar in drawn}
    handles: list[Any] = [
        Patch(facecolor=colour, label=name)
        for outcome, (colour, name) in _LOOKS.items()
        if outcome in outcomes
    ]
    if any(bar.over_at is not None for bar in drawn):
        blue = COLOURS[State.PROCESSING]
        look: dict[str, Any] = {"facecolor": "white", "edgecolor": blue, "hatch": "////"}
        handles.append(Patch(**look, label="after its lease"))
        sign: dict[str, Any] = {"marker": "D", "ms": 4.5, "color": "white", "mec": INK, "mew": 0.9}
        handles.append(Line2D([], [], linestyle="", label="worker's last sign", **sign))
    if len({bar.job for bar in drawn}) < len(drawn):
        handles.append(Line2D([], [], color=QUIET, linewidth=0.7, label="to the next attempt"))
    if handles:
        axes.figure.legend(
            handles=handles,
            loc="outside lower left",
            ncols=3,
            frameon=False,
            fontsize=9.5,
            handlelength=1.4,
            columnspacing=1.2,
        )


def _title(bars: Sequence[_Bar]) -> str:
    if not bars:
        return "No attempt is recorded"
    over = [bar for bar in bars if bar.over_at is not None]
    if over:
        return _over_title(over)
    tries = {bar.job: bar.attempt for bar in sorted(bars, key=lambda bar: bar.attempt)}
    again = [number for number in tries.values() if number > 1]
    if again:
        were = "was" if len(again) == 1 else "were"
        jobs = f"{count_text(len(again), 'job')} {were} tried again"
        return f"{jobs}, with up to {max(again):,} attempts"
    longest = max(bars, key=lambda bar: bar.end - bar.begin)
    took = duration_text((longest.end - longest.begin) / MICROS)
    verb = "runs for" if longest.outcome == Outcome.RUNNING else "took"
    return f"No job was tried again; the longest attempt {verb} {took} (job {label(longest.job)})"


def _over_title(over: Sequence[_Bar]) -> str:
    held = count_text(len({bar.job for bar in over}), "job")
    workers = {bar.worker for bar in over}
    seen = max((bar.seen_at for bar in over if bar.seen_at is not None), default=None)
    worker = workers.pop() if len(workers) == 1 else None
    if worker is None or seen is None:
        return f"{held} still held after {'its' if len(over) == 1 else 'their'} lease"
    name, at = label(worker), clock_text(seen)
    return f"Worker {name} fell silent at {at}; it still holds {held}"


def _numbers(bars: Sequence[_Bar], times: Sequence[int]) -> str:
    found: dict[str, int] = defaultdict(int)
    for bar in bars:
        found[bar.outcome] += 1
    parts = [
        f"{found[outcome]:,} {name}" for outcome, (_, name) in _LOOKS.items() if found[outcome]
    ]
    jobs = count_text(len({bar.job for bar in bars}), "job")
    ends = f"between {clock_text(times[0])} and {clock_text(times[-1])}"
    over = sum(bar.over_at is not None for bar in bars)
    return (
        f"{count_text(len(bars), 'attempt')} of {jobs} {ends}: {', '.join(parts) or 'none'}; "
        f"running after their lease: {over:,}."
    )
