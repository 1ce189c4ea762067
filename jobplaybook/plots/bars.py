"""Where every job stands, as bars."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from jobplaybook.detectors.flow import queue_name
from jobplaybook.frames import STANDING, check_frame
from jobplaybook.model import State
from jobplaybook.plots.drawing import (
    COLOURS,
    QUIET,
    Picture,
    drawing,
    label,
    new_figure,
    not_drawn,
)
from jobplaybook.units import count_text
from jobplaybook.verdict import Triage

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_QUEUES, _LONG_TITLE = 10, 110
_DONE = (State.COMPLETED, State.CANCELLED)
_DRAWN = tuple(state for state in COLOURS if state not in _DONE)
Counts = dict[str | None, dict[str, int]]


def standing(frame: pd.DataFrame, answer: Triage) -> Picture:
    """Return the picture of the jobs that are not completed, by queue and state.

    Parameters
    ----------
    frame : DataFrame
        Of schema `jobplaybook.frames.STANDING`.
    answer : Triage
        The verdict; running jobs whose lease is over are hatched.
    """
    counts = _counts(check_frame(frame, STANDING))
    expired = Counter(job.queue for job in answer.situation.held if job.is_expired)
    queues = sorted(counts, key=lambda queue: (-_open(counts[queue]), queue or ""))
    shown = queues[:_MOST_QUEUES]
    title = _title(counts, answer)
    with drawing():
        figure, (axes,) = new_figure(title, 1.7 + 0.36 * max(len(shown), 1))
        for row, queue in enumerate(shown):
            _bar(axes, row, counts[queue], expired[queue])
        axes.set_yticks(range(len(shown)), [label(queue_name(queue)) for queue in shown])
        axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.3)
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("jobs that are not completed" + not_drawn(len(queues) - len(shown)))
        _legend(axes)
    return Picture(title=title, numbers=_numbers(counts, expired), figure=figure)


def _counts(frame: pd.DataFrame) -> Counts:
    found: Counts = {}
    for queue, state, jobs in frame[["queue", "state", "jobs"]].itertuples(index=False):
        found.setdefault(queue if isinstance(queue, str) else None, {})[state] = jobs
    return found


def _open(states: dict[str, int]) -> int:
    return sum(states.get(state, 0) for state in _DRAWN)


def _parts(states: dict[str, int], expired: int) -> list[tuple[State, int, bool]]:
    """Return state, jobs and whether their lease is over, in drawing order."""
    parts = []
    for state in _DRAWN:
        over = min(expired, states.get(state, 0)) if state is State.PROCESSING else 0
        parts += [(state, states.get(state, 0) - over, False), (state, over, True)]
    return [part for part in parts if part[1]]


def _bar(axes: Axes, row: int, states: dict[str, int], expired: int) -> None:
    left = 0
    for state, jobs, is_over in _parts(states, expired):
        look: dict[str, Any] = {"hatch": "////"} if is_over else {}
        name = f"{state}, lease over" if is_over else str(state)
        axes.barh(row, jobs, 0.62, left, color=COLOURS[state], ec="white", label=name, **look)
        left += jobs
    text = f"{left:,}" + (f", {expired:,} with lease over" if expired else "")
    axes.annotate(text, (left, row), (5, 0), textcoords="offset points", va="center", fontsize=10)


def _legend(axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    if not once:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=QUIET)
        return
    axes.figure.legend(
        list(once.values()),
        list(once),
        loc="outside lower left",
        ncols=3,
        frameon=False,
        fontsize=10,
        handlelength=1.4,
        columnspacing=1.2,
    )


def _title(counts: Counts, answer: Triage) -> str:
    if answer.verdict.code not in ("healthy", "unknown"):
        return _short(answer.verdict.sentence.split(". ")[0].rstrip("."))
    total = sum(sum(states.values()) for states in counts.values())
    left = sum(_open(states) for states in counts.values())
    return f"{left:,} of {count_text(total, 'job')} are not completed"


def _short(sentence: str) -> str:
    """Return a sentence without its asides where it is too long for a title."""
    if len(sentence) > _LONG_TITLE:
        sentence = re.sub(r" \([^)]*\)", "", sentence)
    return sentence if len(sentence) <= _LONG_TITLE else sentence.partition(";")[0]


def _numbers(counts: Counts, expired: Counter[str | None]) -> str:
    total: Counter[str] = Counter()
    for states in counts.values():
        total.update(states)
    parts = [f"{total[state]:,} {state}" for state in COLOURS if total[state]]
    return f"Jobs: {', '.join(parts) or 'none'}; leases over: {sum(expired.values()):,}."
