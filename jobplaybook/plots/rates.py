"""How many jobs come and end per time, bucket by bucket."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from jobplaybook.detectors.findings import rate_text
from jobplaybook.frames import FLOW, check_frame
from jobplaybook.model import State
from jobplaybook.plots.drawing import (
    COLOURS,
    INK,
    PALE,
    Event,
    Picture,
    days,
    drawing,
    end_labels,
    new_figure,
    time_axis,
)
from jobplaybook.units import MICROS, clock_text, duration_text, to_micros
from jobplaybook.verdict import Triage

if TYPE_CHECKING:
    import pandas as pd

_MOST_STEPS = 30


def rates(frame: pd.DataFrame, answer: Triage, *, events: Sequence[Event] = ()) -> Picture:
    """Return the picture of arrivals and endings per time, a step a bucket.

    Parameters
    ----------
    frame : DataFrame
        Of schema `jobplaybook.frames.FLOW`.
    answer : Triage
        The verdict; its time is shaded.
    events : sequence of (int, str)
        Moments to be marked, microseconds UTC, with their names.

    Notes
    -----
    A step's count over its width. Neighbouring buckets are put together until there are few
    enough steps to be read; the last one ends with the window and may be shorter.
    """
    counted = _fewer(check_frame(frame, FLOW).drop(columns="queue").groupby("until_at").sum())
    ends = [to_micros(at.to_pydatetime()) for at in counted.index]
    edges = _edges(ends)
    widths = [(b - a) / MICROS for a, b in pairwise(edges)]
    came = [int(n) / w for n, w in zip(counted["arrivals"], widths, strict=True)]
    left = counted[["completions", "dead", "cancelled"]].sum(axis=1)
    ended = [int(n) / w for n, w in zip(left, widths, strict=True)]
    scale, unit = (60.0, "min") if max([*came, *ended], default=0.0) * 60 >= 5 else (3_600.0, "h")
    title = _title(sum(counted["arrivals"]), sum(left), ends)
    with drawing():
        figure, (axes,) = new_figure(title, 3.2)
        done = COLOURS[State.COMPLETED]
        labels = []
        for series, name, colour in ((came, "come", INK), (ended, "end", done)):
            if series:
                steps = [rate * scale for rate in series]
                axes.stairs(steps, days(edges), color=colour, linewidth=1.8, baseline=None)
                labels.append((steps[-1], f"{name}, {steps[-1]:,.0f}", colour))
        axes.axhline(0, color=PALE, linewidth=0.8)
        axes.set_ylabel(f"jobs per {unit}")
        axes.set_ylim(bottom=0)
        axes.margins(y=0.25)
        axes.autoscale_view(scalex=False)
        axes.set_ylim(bottom=0)
        width = duration_text(widths[0]) if widths else "none"
        time_axis([axes], edges, answer, events, more=f"; steps of {width}", event_height=0.0)
        if labels:
            end_labels(axes, days(edges)[-1], labels)
    return Picture(title=title, numbers=_numbers(came, ended, ends), figure=figure)


def _fewer(counted: pd.DataFrame) -> pd.DataFrame:
    """Return the buckets put together, so that at most `_MOST_STEPS` are left."""
    together = -(-len(counted) // _MOST_STEPS)
    if together <= 1:
        return counted
    steps = [place // together for place in range(len(counted))]
    summed = counted.groupby(steps).sum()
    summed.index = counted.index[[*range(together - 1, len(counted) - 1, together), -1]]
    return summed


def _edges(ends: Sequence[int]) -> list[int]:
    """Return the buckets' edges; the first one is as wide as the second."""
    if not ends:
        return []
    width = ends[1] - ends[0] if len(ends) > 1 else MICROS
    return [ends[0] - width, *ends]


def _title(came: int, left: int, ends: Sequence[int]) -> str:
    if not came and not left:
        return "Nothing came and nothing ended"
    if left == came:
        return f"As many jobs ended as came: {came:,}"
    more, fewer = ("came", "ended") if came > left else ("ended", "came")
    return f"{abs(came - left):,} more jobs {more} than {fewer}: {came:,} came, {left:,} ended"


def _numbers(came: Sequence[float], ended: Sequence[float], ends: Sequence[int]) -> str:
    if not ends:
        return "No bucket of time."
    return (
        f"Until {clock_text(ends[-1])}, per step: came at most {rate_text(max(came))}, in the "
        f"last {rate_text(came[-1])}; ended at most {rate_text(max(ended))}, in the last "
        f"{rate_text(ended[-1])}."
    )
