"""Attempts as bars over workers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from jobplaybook.cohort import ATTEMPTS
from jobplaybook.frames import check_frame
from jobplaybook.model import Outcome, State
from jobplaybook.plots import drawing as draw
from jobplaybook.plots.drawing import COLOURS, INK, PALE, QUIET, Events, Picture, label
from jobplaybook.units import MICROS, clock_text, count_text, duration_text
from jobplaybook.verdict import Triage

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
_HATCHED: dict[str, Any] = {"facecolor": "white", "hatch": "////"}
_SIGN: dict[str, Any] = {"marker": "D", "ms": 4.5, "color": "white", "mec": INK, "mew": 0.9}


def attempts(frame: pd.DataFrame, answer: Triage, *, events: Events = ()) -> Picture:
    """Return the picture of attempts over the workers that ran them.

    The frame is of schema `jobplaybook.cohort.ATTEMPTS`; what still runs ends at the verdict's
    ``now``. The attempts of one job are joined by a thin line. Where a lease is over and the
    attempt still runs, its bar is hatched from then on. A bar of no width still has its edge.
    """
    now = answer.situation.now
    bars = _bars(check_frame(frame, ATTEMPTS), now)
    times = _span(bars, now)
    placed, lanes = _placed(bars, times[1] - times[0])
    height, title = sum(lanes.values()), _title(bars)
    with draw.panels(title, 1.9 + 0.24 * max(height, 1)) as (figure, (axes,)):
        _draw(axes, placed, times[1] - times[0])
        _draw_lanes(axes, lanes)
        axes.set_ylim(height - 0.4 + (1.2 if events else 0), -2.3)
        axes.grid(axis="y", visible=False)
        more = draw.not_drawn(len(frame) - len(placed), "attempt")
        draw.time_axis([axes], times, answer, events, more=more, event_height=0.0)
        axes.set_ylabel("worker")
        draw.legend(axes, _handles([bar for bar, *_ in placed]), 9.5)
    return Picture(title=title, numbers=_numbers(bars, times), figure=figure)


def _bars(frame: pd.DataFrame, now: int) -> list[Any]:
    """Return the attempts that have a beginning, as rows; their times in microseconds UTC.

    A bar's ``over`` is where it begins to be hatched, at its end where its lease is not over;
    ``seen`` is its worker's last sign where it is, else NaN.
    """
    begin, end, over, seen = (
        (frame[name] - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(microseconds=1)
        for name in ("started_at", "ended_at", "lease_over_at", "heartbeat_at")
    )
    end = end.fillna(begin.mask(frame["outcome"] == Outcome.RUNNING, now))
    end = end.clip(lower=begin).clip(upper=now)
    worker = frame["worker"].astype("object")
    made = frame.assign(
        worker=worker.where(worker.notna(), None),
        begin=begin,
        end=end,
        is_over=over.notna(),
        over=over.clip(lower=begin).fillna(end).clip(upper=end),
        seen=seen.where(over.notna()),
    )
    return list(made[begin <= now].itertuples(index=False, name="Bar"))


def _span(bars: Sequence[Any], now: int) -> list[int]:
    """Return where the time axis begins and ends: now only where something still runs."""
    begin = int(min((bar.begin for bar in bars), default=now - MICROS))
    end = now
    if bars and all(bar.outcome != Outcome.RUNNING for bar in bars):
        end = int(max(bar.end for bar in bars))
    margin = max((end - begin) // 50, MICROS // 2)
    return [begin - margin, end if end == now else min(end + 4 * margin, now)]


def _name(bar: Any) -> str:
    return label(bar.job, 12) + (f" ×{bar.attempt}" if bar.attempt > 1 else "")


def _room(bar: Any, span: int) -> tuple[bool, float]:
    """Return whether a bar's name has room inside it, and until when the two take room."""
    letters = _LETTER * (len(_name(bar)) + 1)
    inside = bar.end - bar.begin >= max(_INSIDE, letters) * span
    return inside, bar.end + ((0 if inside else letters) + 0.005) * span


def _by_number(worker: str | None) -> tuple[Any, ...]:
    """Return a sort key by which worker 10 comes after worker 2, and nobody comes last."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", worker or "")
    return worker is None, [(not p[0].isdigit(), int(p) if p[0].isdigit() else p) for p in parts]


def _placed(
    bars: Iterable[Any], span: int
) -> tuple[list[tuple[Any, int, bool]], dict[str | None, int]]:
    """Return the bars that find room, each with its row and whether it has a label; and the lanes.

    A worker's lane has as many rows as it needs; a bar takes the first one where it and its label
    are free. Attempts of one job whose workers are not known share a row and a label.
    """
    groups: dict[str | None, dict[Any, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for bar in sorted(bars, key=lambda bar: (bar.begin, bar.job, bar.attempt)):
        groups[bar.worker][bar.job, None if bar.worker is None else bar.attempt].append(bar)
    placed, lanes, top = [], {}, 0
    for worker in sorted(groups, key=_by_number):
        free: list[float] = []
        for group in groups[worker].values():
            row = next((n for n, at in enumerate(free) if at <= group[0].begin), len(free))
            if top + row < _MOST_ROWS:
                free[row : row + 1] = [_room(group[-1], span)[1]]
                placed += [(bar, top + row, bar is group[-1]) for bar in group]
        if free:
            lanes[worker] = len(free)
        top += len(free)
    return placed, lanes


def _draw(axes: Axes, placed: Iterable[tuple[Any, int, bool]], span: int) -> None:
    last: dict[str, tuple[float, int]] = {}
    for bar, row, labelled in sorted(placed, key=lambda place: (place[0].job, place[0].attempt)):
        if (before := last.get(bar.job)) is not None:
            x = draw.days([before[0], bar.begin])
            axes.plot(x, [before[1], row], color=QUIET, linewidth=0.7, zorder=1)
        last[bar.job] = (bar.end, row)
        colour = _LOOKS[bar.outcome][0]
        _piece(axes, row, bar.begin, bar.over, facecolor=colour, edgecolor=colour)
        if bar.over < bar.end:
            _piece(axes, row, bar.over, bar.end, edgecolor=colour, **_HATCHED)
        if bar.seen >= bar.begin:
            axes.plot(*draw.days([bar.seen]), row, **_SIGN)
        if labelled:
            _write(axes, row, bar, span)


def _piece(axes: Axes, row: int, begin: float, end: float, **look: Any) -> None:
    left, right = draw.days([begin, end])
    axes.barh(row, right - left, _THICK, left, linewidth=0.8, zorder=2, **look)


def _write(axes: Axes, row: int, bar: Any, span: int) -> None:
    """Write a bar's name into it or beside it, clear of the worker's last sign, legible."""
    inside, _ = _room(bar, span)
    begin = bar.begin if inside else bar.end
    if inside and 0 <= bar.seen - bar.begin < (_INSIDE + 0.02) * span:
        begin = bar.seen + span // 100
    on_hatches = inside and bar.over - begin < _INSIDE * span
    dark = inside and not on_hatches and bar.outcome not in (Outcome.RELEASED, Outcome.UNKNOWN)
    draw.write(
        axes,
        _name(bar),
        (draw.days([begin])[0], row),
        3,
        fontsize=8.5,
        color="white" if dark else INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8} if on_hatches else None,
        annotation_clip=False,
        zorder=3,
    )


def _draw_lanes(axes: Axes, sizes: Mapping[str | None, int]) -> None:
    places, names, top = [], [], 0
    for worker, size in sizes.items():
        if top:
            axes.axhline(top - 0.5, color=PALE, linewidth=1.0)
        places.append(top + (size - 1) / 2)
        names.append("not\nrecorded" if worker is None else label(worker, 14))
        top += size
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)


def _handles(bars: Sequence[Any]) -> list[Any]:
    outcomes = {bar.outcome for bar in bars}
    looks = [look for outcome, look in _LOOKS.items() if outcome in outcomes]
    handles: list[Any] = [Patch(facecolor=colour, label=name) for colour, name in looks]
    if any(bar.is_over for bar in bars):
        blue = COLOURS[State.PROCESSING]
        handles.append(Patch(edgecolor=blue, **_HATCHED, label="after its lease"))
        handles.append(Line2D([], [], linestyle="", label="worker's last sign", **_SIGN))
    if len({bar.job for bar in bars}) < len(bars):
        handles.append(Line2D([], [], color=QUIET, linewidth=0.7, label="to the next attempt"))
    return handles


def _title(bars: Sequence[Any]) -> str:
    if not bars:
        return "No attempt is recorded"
    if over := [bar for bar in bars if bar.is_over]:
        return _over_title(over)
    tries = {bar.job: bar.attempt for bar in sorted(bars, key=lambda bar: bar.attempt)}
    if again := [number for number in tries.values() if number > 1]:
        were = "was" if len(again) == 1 else "were"
        jobs = f"{count_text(len(again), 'job')} {were} tried again"
        return f"{jobs}, with up to {max(again):,} attempts"
    longest = max(bars, key=lambda bar: bar.end - bar.begin)
    took = duration_text((longest.end - longest.begin) / MICROS)
    verb = "runs for" if longest.outcome == Outcome.RUNNING else "took"
    return f"No job was tried again; the longest attempt {verb} {took} (job {label(longest.job)})"


def _over_title(over: Sequence[Any]) -> str:
    held = count_text(len({bar.job for bar in over}), "job")
    workers = {bar.worker for bar in over}
    seen = [int(bar.seen) for bar in over if bar.seen == bar.seen]  # NaN: no sign is recorded
    worker = workers.pop() if len(workers) == 1 else None
    if worker is None or not seen:
        return f"{held} still held after {'its' if len(over) == 1 else 'their'} lease"
    return f"Worker {label(worker)} fell silent at {clock_text(max(seen))}; it still holds {held}"


def _numbers(bars: Sequence[Any], times: Sequence[int]) -> str:
    found = Counter(bar.outcome for bar in bars)
    parts = [
        f"{found[outcome]:,} {name}" for outcome, (_, name) in _LOOKS.items() if found[outcome]
    ]
    jobs = count_text(len({bar.job for bar in bars}), "job")
    return (
        f"{count_text(len(bars), 'attempt')} of {jobs} {draw.between(times)}: "
        f"{', '.join(parts) or 'none'}; running after their lease: "
        f"{sum(bar.is_over for bar in bars):,}."
    )
