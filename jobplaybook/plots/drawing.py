"""What all pictures share: colours, the ground, the time axis, text that is safe to draw."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from PIL import Image

from jobplaybook.model import State
from jobplaybook.units import MICROS, clock_text, count_text, iso, plain, to_datetime
from jobplaybook.verdict import Triage

COLOURS = {
    State.AVAILABLE: "#E69F00",
    State.SCHEDULED: "#56B4E9",
    State.RETRYABLE: "#F0E442",
    State.PROCESSING: "#0072B2",
    State.HELD: "#CC79A7",
    State.DEAD: "#D55E00",
    State.COMPLETED: "#009E73",
    State.CANCELLED: "#999999",
}
"""One colour per state, the same in every picture."""
Events = Sequence[tuple[int, str]]
"""Moments to be marked, microseconds UTC, with their names."""

INK, QUIET, PALE = "#1a1a1a", "#6b6b6b", "#dddddd"
_INCIDENT, _INCIDENT_TEXT = "#D55E00", "#9a4200"
_WIDTH, _DPI, _TITLE_LETTERS, _COLOURS_IN_FILE = 5.8, 190, 58, 96
_SHOWN_WIDTH = 620  # pixels on screen; the file has more, for fine screens
_HOUR, _DAY = 3_600, 86_400
_STEPS = (
    *(minutes * size for size in (1, 60) for minutes in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY * days for days in (1, 2, 7, 14, 30)),
)
"""Seconds between the marks of a time axis."""
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": PALE,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "hatch.linewidth": 1.5,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.2,
    "text.parse_math": False,  # a job type may hold dollar signs
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Picture:
    """A figure that a notebook shows, with the words that stand for it.

    ``title`` says in one sentence what it shows, ``numbers`` what it says in numbers.
    """

    title: str
    numbers: str
    figure: Figure = field(compare=False)

    def __repr__(self) -> str:
        return plain(f"{self.title}. {self.numbers}")

    def png(self) -> bytes:
        """Return the picture as a small PNG file."""
        drawn, small = io.BytesIO(), io.BytesIO()
        with drawing():
            self.figure.savefig(drawn, format="png", dpi=_DPI)
        # A notebook is read over slow lines too, and a chart needs few colours.
        reduced = Image.open(drawn).convert("RGB").quantize(_COLOURS_IN_FILE)
        reduced.save(small, format="png", optimize=True)
        return small.getvalue()

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return self.png(), {"width": _SHOWN_WIDTH}


def label(text: str, most: int = 22) -> str:
    r"""Return job-supplied text for a picture: short, one line, only letters that can be drawn.

    Examples
    --------
    >>> label("mail\t2"), label("an-uncommonly-long-queue-name")
    ('mail?2', 'an-uncommonly-long-qu…')
    """
    drawable = "".join(c if ord(c) in _letters() else "?" for c in plain(text))
    return drawable if len(drawable) <= most else drawable[: most - 1] + "…"


@cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())


def drawing() -> AbstractContextManager[None]:
    """Let matplotlib draw as we do; afterwards all is as before."""
    return mpl.rc_context(_STYLE)


@contextmanager
def panels(
    title: str, height: float, ratios: Sequence[int] = (1,)
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Give a new figure with its title, and its panels from top to bottom, to be drawn on."""
    words = _wrapped(label(title, 400))
    with drawing():
        size = (_WIDTH, height + 0.22 * words.count("\n"))
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(words, x=0.012, ha="left", fontsize=12, fontweight="bold")
        made = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios, squeeze=False)
        yield figure, list(made[:, 0])


def _wrapped(title: str) -> str:
    """Return the title in as few lines as it needs, of about the same length."""
    lines = -(-len(title) // _TITLE_LETTERS)
    return textwrap.fill(title, min(len(title) // lines + 8, _TITLE_LETTERS))


def by_queue(frame: pd.DataFrame) -> dict[str | None, pd.DataFrame]:
    """Return a frame's rows by their queue; None where it has no name."""
    groups = frame.groupby("queue", dropna=False, sort=False)
    return {queue if isinstance(queue, str) else None: rows for queue, rows in groups}


def not_drawn(number: int, noun: str = "queue") -> str:
    """Return the words for what found no room."""
    return f" ({count_text(number, f'more {noun}')} not drawn)" if number > 0 else ""


def between(times: Sequence[int]) -> str:
    """Return the words for the time that a picture covers."""
    return f"between {clock_text(times[0])} and {clock_text(times[-1])}" if times else "in no time"


def write(axes: Axes, text: str, at: tuple[float, float], shift: int, **look: Any) -> None:
    """Write beside a place, so many points to its right."""
    look = {"xytext": (shift, 0), "va": "center", **look}
    axes.annotate(text, at, textcoords="offset points", **look)


def legend(axes: Axes, handles: Sequence[Any], size: float, *, ncols: int = 3) -> None:
    """Put the legend below the picture, or "none" into it where there is nothing to explain."""
    if not handles:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=QUIET)
        return
    axes.figure.legend(handles=handles, loc="outside lower left", ncols=ncols, fontsize=size)


def time_unit(longest: float) -> tuple[float, str]:
    """Return the unit for an axis of durations of so many seconds: its length, and its sign."""
    sizes = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
    return next(((size, unit) for size, unit in sizes if longest >= 2 * size), (1.0, "s"))


def days(times: Iterable[float]) -> list[float]:
    """Return microseconds UTC as matplotlib's days."""
    return [time / (_DAY * MICROS) for time in times]


def time_axis(
    panels: Sequence[Axes],
    times: Sequence[int],
    answer: Triage,
    events: Events = (),
    *,
    more: str = "",
    low: bool = False,
    event_height: float = 0.62,
) -> None:
    """Set up the panels' common time axis: UTC, the incident shaded, events marked.

    ``more`` is said beside the axis' name. The incident's name stands at the foot of the panel
    where it is ``low``, since lines climb there; events' names at a height from 0 to 1.
    """
    if not times:
        panels[-1].set_xticks([])
        panels[-1].set_xlabel(f"time, UTC, no time{more}")
        return
    first, last = times[0], times[-1]
    ticks, shape = _ticks(first, last)
    panels[-1].set_xticks(days(ticks), [to_datetime(tick).strftime(shape) for tick in ticks])
    panels[-1].set_xlabel(f"time, UTC, {(iso(last) or '')[:10]}{more}")
    since = answer.verdict.since
    begin = last if since is None else max(since, first)
    seen = [event for event in events if first <= event[0] <= last]
    for panel in panels:
        if first < last:
            panel.set_xlim(*days([first, last]))
        if begin < last:
            panel.axvspan(*days([begin, last]), color=_INCIDENT, alpha=0.13, linewidth=0)
        for x in days(at for at, _ in seen):
            panel.axvline(x, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    if begin < last:
        text = f"{answer.verdict.code}\nsince {clock_text(since)}"
        late = last - begin < 0.45 * (last - first)
        _note(panels[0], begin, text, 0.0 if low else 1.0, _INCIDENT_TEXT, late=late)
    for at, name in seen:
        _note(panels[0], at, label(name), event_height, QUIET)


def _ticks(first: int, last: int) -> tuple[list[int], str]:
    """Return at most six round moments inside the span, and how they are written."""
    span = last - first
    step = next((s * MICROS for s in _STEPS if span <= 5 * s * MICROS), max(span // 5, 1))
    ticks = list(range(-(-first // step) * step, last + 1, step))
    if span > 1.5 * _DAY * MICROS:
        return ticks, "%d %b"
    return ticks, "%H:%M:%S" if any(tick % (60 * MICROS) for tick in ticks) else "%H:%M"


def _note(
    panel: Axes, at: int, text: str, height: float, colour: str, *, late: bool = False
) -> None:
    """Write beside a moment, at a height from 0 to 1; before it where it is late."""
    write(
        panel,
        text,
        (days([at])[0], height),
        0,
        xytext=(-4 if late else 4, 4 if height == 0 else -4),
        xycoords=("data", "axes fraction"),
        va="bottom" if height == 0 else "top",
        ha="right" if late else "left",
        fontsize=9.5,
        color=colour,
    )


def end_labels(panel: Axes, x: float, ends: Iterable[tuple[float, str, str]]) -> None:
    """Write each line's name and colour at its end, moved apart where they would overlap."""
    low, high = panel.get_ylim()
    inches = panel.get_position().height * panel.figure.get_figheight()  # type: ignore[union-attr]
    step = 0.17 * (high - low) / inches
    free = low
    for value, name, colour in sorted(ends):
        free = max(value, free)
        write(panel, name, (x, free), 6, color=colour, fontsize=10, annotation_clip=False)
        free += step
