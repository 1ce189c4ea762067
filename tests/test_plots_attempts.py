"""Pictures of attempts over workers and of rates: true to their rows, whatever these hold."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle, StepPatch
from PIL import Image

from jobplaybook import plots
from jobplaybook.cohort import ATTEMPTS
from jobplaybook.frames import new_frame
from jobplaybook.model import Outcome, State
from jobplaybook.units import MICROS
from tests.test_plots import HOSTILE, START, answer, drawn, flow_frame, shaded

Row = tuple[str, int, str | None, int | None, int | None, str, int | None, int | None]


def at(seconds: float) -> int:
    return START + round(seconds * MICROS)


def row(
    job: str, begin: float, end: float | None = None, number: int = 1, worker: str | None = "1",
    outcome: str = "succeeded", over: float | None = None, seen: float | None = None,
) -> Row:  # fmt: skip
    times = (None if time is None else at(time) for time in (begin, end))
    lease = (None if time is None else at(time) for time in (over, seen))
    return (job, number, worker, *times, outcome, *lease)  # type: ignore[return-value]


def frame(*rows: Row) -> pd.DataFrame:
    return new_frame(ATTEMPTS, rows)


def bars(picture: plots.Picture) -> list[tuple[float, float, str, bool]]:
    """Return each bar as row, seconds drawn, colour, hatched."""
    (axes,) = picture.figure.axes
    found = []
    for patch in axes.patches:
        if isinstance(patch, Rectangle) and patch.get_alpha() is None:
            middle = round(patch.get_y() + patch.get_height() / 2, 6)
            seconds = round(patch.get_width() * 86_400, 3)
            found.append((middle, seconds, to_hex(patch.get_edgecolor()), bool(patch.get_hatch())))
    return found


def names(picture: plots.Picture) -> list[str]:
    (axes,) = picture.figure.axes
    return [tick.get_text() for tick in axes.get_yticklabels()]


BLUE, GREEN = plots.COLOURS[State.PROCESSING].lower(), plots.COLOURS[State.COMPLETED].lower()


def test_what_outlives_its_lease_is_hatched() -> None:
    """The bar is cut where the lease ended, and the title names the worker that fell silent."""
    rows = [row(job, 0, None, 1, "2", "running", over=400, seen=370) for job in ("a", "b")]
    picture = plots.attempts(frame(*rows), answer())
    assert bars(picture) == [
        (0, 400, BLUE, False),
        (0, 200, BLUE, True),
        (1, 400, BLUE, False),
        (1, 200, BLUE, True),
    ]
    assert picture.title == "Worker 2 fell silent at 03:51:10Z; it still holds 2 jobs"
    assert "running after their lease: 2" in repr(picture)
    (axes,) = picture.figure.axes
    assert [line.get_marker() for line in axes.lines] == ["D", "D"]


def test_a_label_on_hatches_has_a_ground() -> None:
    """Where hardly anything of a bar came before its lease ended, its name is legible still."""
    rows = [row("a", 0, None, 1, "2", "running", over=5, seen=1), row("b", 0, 500)]
    (axes,) = plots.attempts(frame(*rows), answer()).figure.axes
    (lost,), (fine,) = ([t for t in axes.texts if t.get_text() == name] for name in "ab")
    assert lost.get_bbox_patch() is not None
    assert lost.get_color() != "white"
    assert (fine.get_bbox_patch(), fine.get_color()) == (None, "white")


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ((), "No attempt is recorded"),
        (
            (row("a", 0, 90), row("b", 5, None, outcome="running")),
            "No job was tried again; the longest attempt runs for 9 min 55 s (job b)",
        ),
        (
            (row("a", 0, 90),),
            "No job was tried again; the longest attempt took 1 min 30 s (job a)",
        ),
        (
            (row("a", 0, 1), row("a", 5, 6, 2), row("b", 0, 1)),
            "1 job was tried again, with up to 2 attempts",
        ),
        (
            (row("a", 0, 1), row("a", 5, 6, 4), row("b", 5, 6, 3)),
            "2 jobs were tried again, with up to 4 attempts",
        ),
        (
            (
                row("a", 0, None, 1, "1", "running", over=5, seen=1),
                row("b", 0, None, 1, "2", "running", over=5, seen=1),
            ),
            "2 jobs still held after their lease",
        ),
        (
            (row("a", 0, None, 1, None, "running", over=5),),
            "1 job still held after its lease",
        ),
    ],
)
def test_the_title_says_what_is_seen(rows: tuple[Row, ...], title: str) -> None:
    """The gravest of what the bars show, in one sentence."""
    picture = plots.attempts(frame(*rows), answer())
    assert picture.title == title
    drawn(picture)


def test_workers_have_lanes_in_their_order() -> None:
    """2 before 10, and what nobody is known to have run comes last."""
    rows = [row(str(n), n, n + 1, 1, worker) for n, worker in enumerate(("10", "2", None, "w"))]
    picture = plots.attempts(frame(*rows), answer())
    assert names(picture) == ["2", "10", "w", "not\nrecorded"]


def test_attempts_of_a_job_are_joined() -> None:
    """A thin line leads from the end of an attempt to the beginning of the next one."""
    rows = [row("a", 0, 10, 1), row("a", 100, 110, 2, "2"), row("b", 0, 10, 1)]
    picture = plots.attempts(frame(*rows), answer())
    (axes,) = picture.figure.axes
    (line,) = axes.lines[: len(axes.lines) - 1]
    begin, end = (float(x) for x in np.asarray(line.get_xdata(), dtype="float64"))
    assert round((end - begin) * 86_400, 3) == 90
    assert "a ×2" in [text.get_text() for text in axes.texts]


def test_bars_of_one_lane_do_not_lie_on_each_other() -> None:
    """At the same time in the same lane, each has a row of its own; later the row is used again."""
    rows = [row("a", 0, 300), row("b", 100, 200), row("c", 400, 500)]
    picture = plots.attempts(frame(*rows), answer())
    assert sorted(place for place, *_ in bars(picture)) == [0, 0, 1]


def test_every_outcome_has_a_look_of_its_own() -> None:
    """No two outcomes share a colour, and what is no state has none of the states' colours."""
    rows = [
        row(str(n), 10 * n, None if outcome is Outcome.RUNNING else 10 * n + 5, outcome=outcome)
        for n, outcome in enumerate(Outcome)
    ]
    picture = plots.attempts(frame(*rows), answer())
    colours = {colour for _, _, colour, _ in bars(picture)}
    assert len(colours) == len(Outcome)
    assert {BLUE, GREEN} <= colours
    assert len(colours - {colour.lower() for colour in plots.COLOURS.values()}) == 1


def test_what_finds_no_room_is_counted() -> None:
    """A hundred attempts at once are not squeezed into one picture, nor left out in silence."""
    picture = plots.attempts(frame(*(row(str(n), 0, 500) for n in range(100))), answer())
    (axes,) = picture.figure.axes
    assert len(bars(picture)) == 30
    assert "(70 more attempts not drawn)" in axes.get_xlabel()
    undated = new_frame(ATTEMPTS, [("a", 1, "w", None, None, "unknown", None, None)])
    (axes,) = plots.attempts(undated, answer()).figure.axes
    assert "(1 more attempt not drawn)" in axes.get_xlabel()


def test_events_and_the_incident_are_marked() -> None:
    """What happened outside has its line and its name; the verdict's time is shaded."""
    rows = frame(row("a", 0, None, outcome="running"))
    seen = answer(counts={"processing": 1})
    picture = plots.attempts(rows, seen, events=[(at(60), "deploy 7"), (at(-99), "before")])
    (axes,) = picture.figure.axes
    words = [text.get_text() for text in axes.texts]
    assert "deploy 7" in words
    assert "before" not in words
    assert len(shaded(picture)) == (seen.verdict.since is not None)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_drawn_as_text(name: str) -> None:
    """Jobs and workers may be called anything."""
    rows = [row(name, 0, 1, 1, name), row(name, 200, None, 2, name, "running", over=300, seen=250)]
    picture = plots.attempts(frame(*rows), answer(), events=[(at(9), name)])
    assert drawn(picture).width > 600
    assert not {"\x1b", "\u202e"} & set(repr(picture))


times = st.none() | st.integers(-1_000, 700)


@hypothesis.settings(max_examples=30)
@hypothesis.given(
    st.lists(
        st.builds(
            row,
            job=st.sampled_from("abc"),
            begin=times,
            end=times,
            number=st.integers(1, 5),
            worker=st.none() | st.sampled_from("12"),
            outcome=st.sampled_from([*Outcome]),
            over=times,
            seen=times,
        ),
        max_size=12,
    )
)
def test_any_attempts_are_drawn(rows: list[Row]) -> None:
    """Whatever times are missing, turned round or in the future, no bar lies outside the axis."""
    picture = plots.attempts(frame(*rows), answer())
    (axes,) = picture.figure.axes
    low, high = axes.get_xlim()
    for patch in axes.patches:
        if isinstance(patch, Rectangle) and patch.get_alpha() is None:
            assert low - 1e-9 <= patch.get_x() <= patch.get_x() + patch.get_width() <= high + 1e-9
    assert Image.open(io.BytesIO(picture.png())).format == "PNG"


# Rates


def steps(picture: plots.Picture) -> list[tuple[list[float], list[float]]]:
    """Return each line's rates and the widths of its steps in seconds."""
    (axes,) = picture.figure.axes
    found = []
    for patch in axes.patches:
        if isinstance(patch, StepPatch):
            data: Any = patch.get_data()
            widths = [round((b - a) * 86_400, 3) for a, b in pairwise(data.edges)]
            found.append(([round(float(v), 6) for v in data.values], widths))
    return found


def test_rates_are_counts_over_their_widths() -> None:
    """Ten seconds with three jobs are eighteen a minute."""
    picture = plots.rates(flow_frame([3, 6, 0], [1, 2, 3]), answer())
    came, ended = steps(picture)
    assert came == ([18.0, 36.0, 0.0], [10.0] * 3)
    assert ended == ([6.0, 12.0, 18.0], [10.0] * 3)
    assert picture.title == "3 more jobs came than ended: 9 came, 6 ended"
    assert "came at most 36/min, in the last 0/min" in repr(picture)


@hypothesis.settings(max_examples=20)
@hypothesis.given(st.lists(st.integers(0, 50), min_size=1, max_size=130))
def test_put_together_nothing_is_lost(arrivals: list[int]) -> None:
    """However many buckets come, at most thirty steps are drawn, and they hold every job."""
    picture = plots.rates(flow_frame(arrivals, arrivals), answer())
    (rates, widths), _ = steps(picture)
    assert len(rates) <= 30
    (axes,) = picture.figure.axes
    size = 60 if "min" in axes.get_ylabel() else 3_600
    jobs = sum(rate / size * width for rate, width in zip(rates, widths, strict=True))
    assert jobs == pytest.approx(sum(arrivals), abs=1e-2)


@pytest.mark.parametrize(
    ("came", "ended", "title"),
    [
        ([], [], "Nothing came and nothing ended"),
        ([0, 0], [0, 0], "Nothing came and nothing ended"),
        ([5], [5], "As many jobs ended as came: 5"),
        ([1], [4], "3 more jobs ended than came: 1 came, 4 ended"),
    ],
)
def test_the_rates_title(came: list[int], ended: list[int], title: str) -> None:
    """Growing, shrinking, balanced and still are told apart, and each is drawn."""
    picture = plots.rates(flow_frame(came, ended), answer())
    assert picture.title == title
    drawn(picture)


def test_unfinished_jobs_of_one_queue() -> None:
    """The flow of one queue ends at what is unfinished there, not in all queues."""
    whole = answer(counts={"pending": 70})
    picture: Any = plots.flow(flow_frame([5, 5], [4, 4]), whole, unfinished=2)
    assert "2 at the end" in repr(picture)
    assert "70 at the end" in repr(plots.flow(flow_frame([5, 5], [4, 4]), whole))
