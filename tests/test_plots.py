"""Pictures: they say what the numbers say, whatever a job is called, and leave no trace."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import hypothesis
import hypothesis.strategies as st
import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.patches import Rectangle
from PIL import Image

import jobplaybook as jp
from jobplaybook import plots
from jobplaybook.detectors.situation import HeldJob, Situation
from jobplaybook.model import State
from jobplaybook.units import MICROS
from jobplaybook.verdict import Triage, judge

START = 1_796_096_700 * MICROS  # 2026-12-01T03:45:00Z
HOSTILE = ("$\\frac{1}", "<img src=x>", "a\x1b[31mb", "\u202edrow", "\u65e5\u672c", "x" * 300, "")


def answer(*, now: int = START + 600 * MICROS, **seen: Any) -> Triage:
    situation = Situation(
        system="contract", now=now, seen_until=now, window_from=START, rates_from=START, **seen
    )
    return judge(situation, label="test")


def standing_frame(*rows: tuple[str | None, str, int]) -> pd.DataFrame:
    queues, states, jobs = zip(*rows, strict=True) if rows else ((), (), ())
    return pd.DataFrame(
        {
            "queue": pd.Series(queues, dtype="object"),
            "state": pd.Series(states, dtype="object"),
            "jobs": pd.Series(jobs, dtype="int64"),
            "oldest_seconds": pd.Series([1.0] * len(rows), dtype="float64"),
        }
    )


def moments(steps: int, seconds: int = 10) -> pd.Series[pd.Timestamp]:
    ends = [START + (step + 1) * seconds * MICROS for step in range(steps)]
    return pd.Series(pd.DatetimeIndex(pd.to_datetime(ends, unit="us", utc=True)).as_unit("us"))


def flow_frame(arrivals: list[int], completions: list[int], queue: str = "mail") -> pd.DataFrame:
    zeros = [0] * len(arrivals)
    counts = {"arrivals": arrivals, "claims": zeros, "completions": completions}
    counts |= {"dead": zeros, "cancelled": zeros}
    columns = {name: pd.Series(numbers, dtype="int64") for name, numbers in counts.items()}
    names = pd.Series([queue] * len(arrivals), dtype="object")
    return pd.DataFrame({"queue": names, "until_at": moments(len(arrivals)), **columns})


def age_frame(**ages: list[float]) -> pd.DataFrame:
    parts = [
        pd.DataFrame(
            {
                "queue": pd.Series([queue] * len(series), dtype="object"),
                "until_at": moments(len(series)),
                "oldest_claimable_age_seconds": pd.Series(series, dtype="float64"),
            }
        )
        for queue, series in ages.items()
    ]
    return pd.concat(parts, ignore_index=True)


def drawn(picture: plots.Picture) -> Image.Image:
    """Return the picture as it is shown."""
    return Image.open(io.BytesIO(picture.png()))


def shaded(picture: plots.Picture) -> list[Rectangle]:
    patches = (patch for axes in picture.figure.axes for patch in axes.patches)
    return [p for p in patches if isinstance(p, Rectangle) and p.get_alpha() == 0.13]


# What is said


def test_every_state_has_a_colour_of_its_own() -> None:
    """A colour means one state and no other."""
    assert set(plots.COLOURS) == set(State)
    assert len(set(plots.COLOURS.values())) == len(State)


def test_the_pictures_of_the_sample_say_its_numbers() -> None:
    """Title and words hold the finding, so that a reader without pictures has it too."""
    with jp.open_snapshot("sample") as snapshot:
        verdict = jp.triage(snapshot)
        seen = verdict.situation
        window = {"since": seen.window_from, "until": seen.seen_until}
        standing = plots.standing(jp.standing(snapshot, now=seen.seen_until), verdict)
        flow = plots.flow(jp.flow(snapshot, **window), verdict)
        ages = plots.oldest_age(jp.oldest_age(snapshot, **window), verdict)
    assert "held by worker 2" in standing.title
    assert "7 processing, 893 completed; leases over: 4." in repr(standing)
    assert "901 came and 893 ended" in repr(flow)
    assert "8 at the end" in repr(flow)
    assert ages.title.startswith("Nothing waits for a worker now")
    for picture in (flow, ages):
        assert len(shaded(picture)) == len(picture.figure.axes), "the incident is shaded"


def test_a_picture_is_small_and_white() -> None:
    """It is quick to send, and its ground is its own, so a dark page shows it too."""
    picture = plots.standing(standing_frame(("mail", "available", 3)), answer())
    image = drawn(picture)
    assert image.format == "PNG"
    assert len(picture.png()) < 60_000
    assert image.convert("RGB").getpixel((2, image.height - 3)) == (255, 255, 255)


def test_running_jobs_whose_lease_is_over_are_apart() -> None:
    """Held and lost are two parts of one bar, and the label counts the lost ones."""
    lost = HeldJob(
        id="1", job_type="a", queue="mail", tenant_id=None, owner="w", claimed_at=START,
        locked_until=START, judged_at=START + 1,
    )  # fmt: skip
    seen = answer(held=(lost,), counts={"processing": 3}, states={"processing": 3})
    picture = plots.standing(standing_frame(("mail", "processing", 3)), seen)
    (axes,) = picture.figure.axes
    bars = [(bar.get_width(), bool(bar.get_hatch())) for bar in axes.patches]  # type: ignore[attr-defined]
    assert bars == [(2, False), (1, True)]
    assert "leases over: 1" in picture.numbers
    assert any("1 with lease over" in text.get_text() for text in axes.texts)


@pytest.mark.parametrize(
    ("arrivals", "completions", "unfinished", "said"),
    [
        ([50, 50], [50, 50], 2, "About as many jobs end as come: 2 unfinished jobs now"),
        ([90, 90], [10, 10], 160, "160 more jobs came than ended: 160 unfinished jobs now"),
        ([10, 10], [90, 90], 40, "160 more jobs ended than came: 40 unfinished jobs now"),
        ([0, 0], [0, 0], 7, "Nothing came and nothing ended: 7 unfinished jobs"),
    ],
)
def test_the_flow_names_what_happens_to_the_backlog(
    arrivals: list[int], completions: list[int], unfinished: int, said: str
) -> None:
    """Growing, shrinking, steady and still are told apart."""
    seen = answer(counts={"pending": unfinished})
    assert plots.flow(flow_frame(arrivals, completions), seen).title == said


def test_the_gap_ends_at_what_is_unfinished() -> None:
    """The vertical distance of the two lines at the end is the number that triage counts."""
    seen = answer(counts={"pending": 11, "processing": 2, "completed": 7})
    picture = plots.flow(flow_frame([4, 4], [3, 4]), seen)
    above, below = picture.figure.axes
    lines: list[Any] = [*above.lines, *below.lines]
    came, ended, gap = (int(line.get_ydata()[-1]) for line in lines)
    assert (came - ended, gap) == (13, 13)


def test_the_oldest_job_is_named_with_its_queue() -> None:
    """The queue that waits longest now stands in the title, whatever another one once did."""
    picture = plots.oldest_age(age_frame(mail=[0.0, 90.0], slow=[400.0, 0.0]), answer())
    assert picture.title == "The oldest job in mail waits 1 min 30 s for a worker"
    assert "slow 0 s at the end, at most 6 min 40 s" in picture.numbers


def test_a_healthy_picture_shades_nothing() -> None:
    """Without an incident there is no time of it."""
    assert shaded(plots.flow(flow_frame([1, 1], [1, 1]), answer(counts={"completed": 2}))) == []


def test_events_are_marked_where_they_happened() -> None:
    """A deploy inside the picture is a thin line with its name; one outside is left out."""
    events = [(START + 15 * MICROS, "deploy 7"), (START - 999 * MICROS, "long ago")]
    picture = plots.flow(flow_frame([1, 2, 3], [1, 2, 3]), answer(), events=events)
    above, below = picture.figure.axes
    words = [text.get_text() for text in above.texts]
    assert "deploy 7" in words
    assert "long ago" not in words
    assert (len(above.lines), len(below.lines)) == (3, 2)


def test_what_finds_no_room_is_said() -> None:
    """With many queues the worst are drawn, and the others are counted."""
    rows = [(f"q{number:03}", "available", number + 1) for number in range(30)]
    (axes,) = plots.standing(standing_frame(*rows), answer()).figure.axes
    assert "20 more queues not drawn" in axes.get_xlabel()
    assert axes.get_yticklabels()[0].get_text() == "q029"
    ages = {name: [1.0, 2.0 + place] for place, (name, *_) in enumerate(rows)}
    (axes,) = plots.oldest_age(age_frame(**ages), answer()).figure.axes
    assert "26 more queues not drawn" in axes.get_xlabel()


# Whatever comes


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_drawn_as_text(name: str) -> None:
    """No name is a formula, breaks out of its line, or makes matplotlib complain."""
    seen = answer(counts={"pending": 3})
    frames = (
        plots.standing(standing_frame((name, "available", 3), (None, "dead", 1)), seen),
        plots.flow(flow_frame([1, 2], [1, 1], name), seen, events=[(START + 12 * MICROS, name)]),
        plots.oldest_age(age_frame(**{name: [0.0, 5.0]}), seen),
    )
    for picture in frames:
        assert drawn(picture).width > 600
        assert "\x1b" not in repr(picture)
        assert "\u202e" not in repr(picture)


@hypothesis.given(st.text(max_size=60))
def test_a_label_is_short_and_printable(text: str) -> None:
    """Of any text, 22 letters at most are left, and each can be drawn."""
    found = plots.label(text)
    assert len(found) <= 22
    assert found.isprintable()
    assert plots.label(found) == found


@pytest.mark.parametrize("steps", [1, 2, 500])
@pytest.mark.parametrize("seconds", [1, 3_600, 864_000])
def test_time_axes_of_any_length(steps: int, seconds: int) -> None:
    """From one second to years, the axis has a few marks and nothing is warned about."""
    frame = flow_frame([1] * steps, [1] * steps).assign(until_at=moments(steps, seconds))
    picture = plots.flow(frame, answer(counts={"pending": 1}))
    drawn(picture)
    assert len(picture.figure.axes[-1].get_xticks()) <= 6


def test_empty_frames_make_pictures() -> None:
    """No job at all is a picture that says so."""
    standing = plots.standing(standing_frame(), answer())
    flow = plots.flow(flow_frame([], []), answer())
    ages = plots.oldest_age(age_frame(mail=[]), answer())
    assert "none" in standing.numbers
    assert flow.title == "Nothing came and nothing ended: 0 unfinished jobs"
    assert ages.title == "No queue had a job in the window"
    for picture in (standing, flow, ages):
        drawn(picture)


def test_drawing_changes_no_setting() -> None:
    """Whoever uses matplotlib beside us finds it as it was."""
    before = dict(mpl.rcParams)
    drawn(plots.standing(standing_frame(("mail", "available", 3)), answer()))
    assert dict(mpl.rcParams) == before


def test_no_window_system_is_touched() -> None:
    """Pictures need no pyplot, so no display and no figures that pile up."""
    program = (
        "import sys, jobplaybook as jp; from jobplaybook import plots\n"
        "with jp.open_snapshot('sample') as s:\n"
        "    plots.standing(jp.standing(s), jp.triage(s)).png()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
