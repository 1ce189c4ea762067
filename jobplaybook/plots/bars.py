"""Where every job stands, as bars."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from jobplaybook.detectors.flow import queue_name
from jobplaybook.frames import STANDING, check_frame
from jobplaybook.model import State
from jobplaybook.plots import drawing as draw
from jobplaybook.plots.drawing import COLOURS, Picture, label
from jobplaybook.units import count_text
from jobplaybook.verdict import Triage

_MOST_QUEUES, _LONG_TITLE = 10, 110
_DRAWN = tuple(state for state in COLOURS if state not in (State.COMPLETED, State.CANCELLED))


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
    title = _title(total, answer)
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


def _left(states: Mapping[str, int]) -> int:
    return sum(states.get(state, 0) for state in _DRAWN)


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


def _title(total: Counter[str], answer: Triage) -> str:
    """Return the verdict's sentence, without its asides where it is too long for a title."""
    if answer.verdict.code in ("healthy", "unknown"):
        return f"{_left(total):,} of {count_text(total.total(), 'job')} are not completed"
    sentence = answer.verdict.sentence.split(". ")[0].rstrip(".")
    if len(sentence) > _LONG_TITLE:
        sentence = re.sub(r" \([^)]*\)", "", sentence)
    return sentence if len(sentence) <= _LONG_TITLE else sentence.partition(";")[0]
