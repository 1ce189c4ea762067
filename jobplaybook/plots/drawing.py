"""What all pictures share: colours, the ground, the time axis, text that is safe to draw."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from jobplaybook.model import State
from jobplaybook.units import MICROS, clock_text, count_text, iso, plain, to_datetime
from jobplaybook.verdict import Triage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
Event = tuple[int, str]
"""A moment to be marked, microseconds UTC, and its name."""

INK, QUIET, PALE = "#1a1a1a", "#6b6b6b", "#dddddd"
_INCIDENT, _INCIDENT_TEXT = "#D55E00", "#9a4200"
_WIDTH, _DPI, _TITLE_LETTERS, _COLOURS_IN_FILE = 5.8, 190, 58, 96
_SHOWN_WIDTH = 620  # pixels on screen; the file has more, for fine screens
_HOUR, _DAY = 3_600, 86_400
_MINUTES = (1, 2, 5, 10, 15, 30)
_STEPS = (
    *_MINUTES,
    *(60 * minutes for minutes in _MINUTES),
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
    "text.parse_math": False,  # a job type may hold dollar signs
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Picture:
    """A figure that a notebook shows, with the words that stand for it.

    Parameters
    ----------
    title : str
        What it shows, in one sentence.
    numbers : str
        What it says in numbers.
    figure : matplotlib.figure.Figure
        The figure itself.
    """

    title: str
    numbers: str
    figure: Figure = field(compare=False)

    def __repr__(self) -> str:
        return plain(f"{self.title}. {self.numbers}")

    def png(self) -> bytes:
        """Return the picture as a small PNG file."""
        from PIL import Image

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
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())


def drawing() -> Any:
    """Return a context in which matplotlib draws as we do; afterwards all is as before."""
    import matplotlib as mpl

    return mpl.rc_context(_STYLE)


def new_figure(
    title: str, height: float, ratios: Sequence[int] = (1,)
) -> tuple[Figure, list[Axes]]:
    """Return a figure with its title, and its panels from top to bottom."""
    from matplotlib.figure import Figure

    words = _wrapped(label(title, 400))
    size = (_WIDTH, height + 0.22 * words.count("\n"))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(words, x=0.012, ha="left", fontsize=12, fontweight="bold")
    panels = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios, squeeze=False)
    return figure, list(panels[:, 0])


def _wrapped(title: str) -> str:
    """Return the title in as few lines as it needs, of about the same length."""
    lines = -(-len(title) // _TITLE_LETTERS)
    return textwrap.fill(title, min(len(title) // lines + 8, _TITLE_LETTERS))


def not_drawn(number: int) -> str:
    """Return the words for queues that found no room."""
    return f" ({count_text(number, 'more queue')} not drawn)" if number > 0 else ""


def days(times: Iterable[int]) -> list[float]:
    """Return microseconds UTC as matplotlib's days."""
    import matplotlib.dates

    dates: Any = matplotlib.dates
    return [float(dates.date2num(to_datetime(time))) for time in times]


def time_axis(
    panels: Sequence[Axes],
    times: Sequence[int],
    answer: Triage,
    events: Sequence[Event] = (),
    *,
    more: str = "",
    low: bool = False,
    event_height: float = 0.62,
) -> None:
    """Set up the panels' common time axis: UTC, the incident shaded, events marked.

    Parameters
    ----------
    more : str
        What is said beside the axis' name.
    low : bool
        Whether the incident's name stands at the foot of the panel, where lines climb.
    event_height : float
        Where the events' names stand in the panel, from 0 to 1.
    """
    ticks = _ticks(times)
    shape = "%H:%M:%S" if any(tick % (60 * MICROS) for tick in ticks) else "%H:%M"
    if len(times) > 1 and times[-1] - times[0] > 129_600 * MICROS:
        shape = "%d %b"
    panels[-1].set_xticks(days(ticks), [to_datetime(tick).strftime(shape) for tick in ticks])
    day = (iso(times[-1]) or "")[:10] if times else "no time"
    panels[-1].set_xlabel(f"time, UTC, {day}{more}")
    seen = [event for event in events if times and times[0] <= event[0] <= times[-1]]
    for panel in panels:
        if len(times) > 1:
            panel.set_xlim(*days([times[0], times[-1]]))
        _shade(panel, times, answer)
        _mark(panel, days(at for at, _ in seen))
    _name_incident(panels[0], times, answer, low)
    for at, name in seen:
        _note(panels[0], days([at])[0], label(name), QUIET, height=event_height)


def _ticks(times: Sequence[int]) -> list[int]:
    """Return at most six round moments inside the span, microseconds UTC."""
    if not times:
        return []
    span = times[-1] - times[0]
    step = next((s * MICROS for s in _STEPS if span <= 5 * s * MICROS), max(span // 5, 1))
    first = -(-times[0] // step) * step
    return list(range(first, times[-1] + 1, step))


def _incident(times: Sequence[int], answer: Triage) -> tuple[float, float, float] | None:
    """Return the span's beginning, the incident's, and the end, or None without an incident."""
    since = answer.verdict.since
    if since is None or not times or since >= times[-1]:
        return None
    first, begin, end = days([times[0], max(since, times[0]), times[-1]])
    return first, begin, end


def _shade(panel: Axes, times: Sequence[int], answer: Triage) -> None:
    if found := _incident(times, answer):
        panel.axvspan(*found[1:], color=_INCIDENT, alpha=0.13, linewidth=0)


def _name_incident(panel: Axes, times: Sequence[int], answer: Triage, low: bool) -> None:
    if found := _incident(times, answer):
        first, begin, end = found
        text = f"{answer.verdict.code}\nsince {clock_text(answer.verdict.since)}"
        late = (end - begin) < 0.45 * (end - first)
        _note(panel, begin, text, _INCIDENT_TEXT, late=late, height=0.0 if low else 1.0)


def _mark(panel: Axes, moments: Sequence[float]) -> None:
    for x in moments:
        panel.axvline(x, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))


def _note(
    panel: Axes, x: float, text: str, colour: str, *, late: bool = False, height: float
) -> None:
    panel.annotate(
        text,
        (x, height),
        (-4 if late else 4, 4 if height == 0 else -4),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
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
        panel.annotate(
            name,
            (x, free),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=10,
            annotation_clip=False,
        )
        free += step
