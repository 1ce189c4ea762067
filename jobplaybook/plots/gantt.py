"""Attempts as bars over workers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    label,
    legend,
    not_drawn,
    panels,
    time_axis,
    write,
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
_HATCHED: dict[str, Any] = {"facecolor": "white", "hatch": "////"}
_SIGN: dict[str, Any] = {"marker": "D", "ms": 4.5, "color": "white", "mec": INK, "mew": 0.9}


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

    @property
    def name(self) -> str:
        return label(self.job, 12) + (f" ×{self.attempt}" if self.attempt > 1 else "")

    @property
    def letters(self) -> float:
        """The share of the picture's width that its name takes."""
        return _LETTER * (len(self.name) + 1)

    def is_wide(self, span: int) -> bool:
        """Whether its name has room inside it."""
        return self.end - self.begin >= max(_INSIDE, self.letters) * span


@dataclass(slots=True)
class _Lanes:
    """The row of each bar that finds room, how many rows each worker has, and who has a label."""

    rows: dict[_Bar, int] = field(default_factory=dict)
    sizes: dict[str | None, int] = field(default_factory=dict)
    labelled: set[_Bar] = field(default_factory=set)


def attempts(frame: pd.DataFrame, answer: Triage, *, events: Sequence[Event] = ()) -> Picture:
    """Return the picture of attempts over the workers that ran them.

    Parameters
    ----------
    frame : DataFrame
        Of schema `jobplaybook.cohort.ATTEMPTS`.
    answer : Triage
        The verdict; what still runs ends at its ``now``.

    Notes
    -----
    The attempts of one job are joined by a thin line. Where a lease is over and the attempt still
    runs, its bar is hatched from then on. A bar of no visible width still has its edge.
    """
    bars = _bars(check_frame(frame, ATTEMPTS), answer.situation.now)
    times = _span(bars, answer.situation.now)
    span = times[1] - times[0]
    lanes = _lanes(bars, span)
    more = not_drawn(len(frame) - len(lanes.rows), "attempt")
    title = _title(bars)
    height = sum(lanes.sizes.values())
    with panels(title, 1.9 + 0.24 * max(height, 1)) as (axes,):
        _draw(axes, lanes, span)
        _draw_lanes(axes, lanes.sizes)
        axes.set_ylim(height - 0.4 + (1.2 if events else 0), -2.3)
        axes.grid(axis="y", visible=False)
        time_axis([axes], times, answer, events, more=more, event_height=0.0)
        axes.set_ylabel("worker")
        legend(axes, _handles(lanes.rows), 9.5)
    return Picture(title=title, numbers=_numbers(bars, times), figure=axes.figure)


def _bars(frame: pd.DataFrame, now: int) -> list[_Bar]:
    """Return the attempts that have a beginning."""
    found = []
    for job, attempt, worker, began, ended, outcome, over, beat in frame.itertuples(index=False):
        begin = _moment(began)
        if begin is not None and begin <= now:
            end = now if outcome == Outcome.RUNNING else begin
            end = end if (known := _moment(ended)) is None else known
            found.append(
                _Bar(
                    job=job,
                    attempt=attempt,
                    worker=worker if isinstance(worker, str) else None,
                    outcome=outcome,
                    begin=begin,
                    end=min(max(end, begin), now),
                    over_at=_moment(over),
                    seen_at=_moment(beat),
                )
            )
    return found


def _moment(value: Any) -> int | None:
    return None if value is None or value != value else to_micros(value.to_pydatetime())


def _span(bars: Sequence[_Bar], now: int) -> list[int]:
    """Return where the time axis begins and ends: now only where something still runs."""
    begin = min((bar.begin for bar in bars), default=now - MICROS)
    end = now
    if bars and all(bar.outcome != Outcome.RUNNING for bar in bars):
        end = max(bar.end for bar in bars)
    margin = max((end - begin) // 50, MICROS // 2)
    return [begin - margin, end if end == now else min(end + 4 * margin, now)]


def _by_number(worker: str | None) -> tuple[Any, ...]:
    """Return a sort key by which worker 10 comes after worker 2, and nobody comes last."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", worker or "")
    return worker is None, [(not p[0].isdigit(), int(p) if p[0].isdigit() else p) for p in parts]


def _lanes(bars: Iterable[_Bar], span: int) -> _Lanes:
    """Give bars their rows: the first ones of their worker's lane where they and a label are free.

    Attempts of one job whose workers are not known share a row and a label.
    """
    groups: dict[str | None, dict[Any, list[_Bar]]] = defaultdict(lambda: defaultdict(list))
    for bar in sorted(bars, key=lambda bar: (bar.begin, bar.job, bar.attempt)):
        groups[bar.worker][bar if bar.worker is not None else bar.job].append(bar)
    lanes, top = _Lanes(), 0
    for worker in sorted(groups, key=_by_number):
        free: list[float] = []
        for group in groups[worker].values():
            row = next((n for n, at in enumerate(free) if at <= group[0].begin), len(free))
            if top + row < _MOST_ROWS:
                last = group[-1]
                beside = 0 if last.is_wide(span) else last.letters
                free[row : row + 1] = [last.end + (beside + 0.005) * span]
                lanes.rows |= dict.fromkeys(group, top + row)
                lanes.labelled.add(last)
        if free:
            lanes.sizes[worker] = len(free)
        top += len(free)
    return lanes


def _draw(axes: Axes, lanes: _Lanes, span: int) -> None:
    last: dict[str, _Bar] = {}
    for bar in sorted(lanes.rows, key=lambda bar: (bar.job, bar.attempt)):
        row = lanes.rows[bar]
        if (before := last.get(bar.job)) is not None:
            x = days([before.end, bar.begin])
            axes.plot(x, [lanes.rows[before], row], color=QUIET, linewidth=0.7, zorder=1)
        last[bar.job] = bar
        over = bar.end if bar.over_at is None else min(max(bar.over_at, bar.begin), bar.end)
        colour = _LOOKS[bar.outcome][0]
        _piece(axes, row, bar.begin, over, facecolor=colour, edgecolor=colour)
        if over < bar.end:
            _piece(axes, row, over, bar.end, edgecolor=colour, **_HATCHED)
        if bar.over_at is not None and bar.seen_at is not None and bar.seen_at >= bar.begin:
            axes.plot(*days([bar.seen_at]), row, **_SIGN)
        if bar in lanes.labelled:
            _write(axes, row, bar, span)


def _piece(axes: Axes, row: int, begin: int, end: int, **look: Any) -> None:
    left, right = days([begin, end])
    axes.barh(row, right - left, _THICK, left, linewidth=0.8, zorder=2, **look)


def _write(axes: Axes, row: int, bar: _Bar, span: int) -> None:
    """Write a bar's name into it or beside it, clear of the worker's last sign, legible."""
    inside = bar.is_wide(span)
    begin = bar.begin if inside else bar.end
    if inside and bar.over_at is not None and bar.seen_at is not None:
        near = 0 <= bar.seen_at - bar.begin < (_INSIDE + 0.02) * span
        begin = bar.seen_at + span // 100 if near else begin
    solid = bar.end if bar.over_at is None else bar.over_at
    on_hatches = inside and solid - begin < _INSIDE * span
    dark = inside and not on_hatches and bar.outcome not in (Outcome.RELEASED, Outcome.UNKNOWN)
    write(
        axes,
        bar.name,
        (days([begin])[0], row),
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


def _handles(drawn: Iterable[_Bar]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bars = list(drawn)
    outcomes = {bar.outcome for bar in bars}
    handles: list[Any] = [
        Patch(facecolor=colour, label=name)
        for outcome, (colour, name) in _LOOKS.items()
        if outcome in outcomes
    ]
    if any(bar.over_at is not None for bar in bars):
        blue = COLOURS[State.PROCESSING]
        handles.append(Patch(edgecolor=blue, **_HATCHED, label="after its lease"))
        handles.append(Line2D([], [], linestyle="", label="worker's last sign", **_SIGN))
    if len({bar.job for bar in bars}) < len(bars):
        handles.append(Line2D([], [], color=QUIET, linewidth=0.7, label="to the next attempt"))
    return handles


def _title(bars: Sequence[_Bar]) -> str:
    if not bars:
        return "No attempt is recorded"
    if over := [bar for bar in bars if bar.over_at is not None]:
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


def _over_title(over: Sequence[_Bar]) -> str:
    held = count_text(len({bar.job for bar in over}), "job")
    workers = {bar.worker for bar in over}
    seen = max((bar.seen_at for bar in over if bar.seen_at is not None), default=None)
    worker = workers.pop() if len(workers) == 1 else None
    if worker is None or seen is None:
        return f"{held} still held after {'its' if len(over) == 1 else 'their'} lease"
    return f"Worker {label(worker)} fell silent at {clock_text(seen)}; it still holds {held}"


def _numbers(bars: Sequence[_Bar], times: Sequence[int]) -> str:
    found = Counter(bar.outcome for bar in bars)
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
