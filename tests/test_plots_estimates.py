"""Pictures of what comes: the waterfall of attempts, the herd, the fan of a backlog."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import jobplaybook as jp
from jobplaybook import plots
from jobplaybook.detectors.signs import Waking
from jobplaybook.estimates import BacklogSeen, RateSeen
from jobplaybook.prospect import Prospect
from jobplaybook.retrying import Retried, TriedClass
from jobplaybook.units import MICROS
from tests.canonical import NOW

HOSTILE = ("$\\frac{1}", "<img src=x>", "a\x1b[31mb", "x" * 300, None)


def tried_class(retries: int, **more: Any) -> TriedClass:
    counts: dict[str, Any] = {
        "queue": "mail",
        "job_type": "charge",
        "firsts": 100,
        "retries": retries,
        "jobs": min(retries, 7),
        "completions": 50,
        "done": 50,
        "failed": retries,
        "guessed": 0,
        "least_allowed": None,
        "most_allowed": None,
        "upstream_calls": None,
    }
    return TriedClass(**{**counts, **more})


def retried(*classes: TriedClass, **more: Any) -> Retried:
    whole = classes[0] if classes else tried_class(0)
    names = ("firsts", "retries", "jobs", "completions", "done", "failed")
    sums = {name: sum(getattr(each, name) for each in classes) for name in names}
    found: dict[str, Any] = {
        "overall": replace(whole, queue=None, job_type=None, **sums),
        "classes": classes,
        "tries": (),
        "worst": (),
        "wakings": (),
        "peaks": (("mail", 120),),
        "not_recorded": (),
        "seconds": 900.0,
        "until": NOW,
    }
    return Retried(**{**found, **more})


def waking(seconds: int, jobs: int, **more: Any) -> Waking:
    of = {"queue": "mail", "retries": jobs, **more}
    return Waking(wakes_at=NOW + seconds * MICROS, jobs=jobs, **of)


def prospect(waiting: int = 7_200, *, into: int = 30, out: int = 60, **more: Any) -> Prospect:
    """Return a backlog that is worked off at so many jobs per half minute."""
    seen = BacklogSeen(
        name="mail",
        waiting=waiting,
        arrivals=RateSeen(counts=(into,) * 60, bucket_seconds=30.0),
        left=RateSeen(counts=(out,) * 60, bucket_seconds=30.0),
        **more,
    )
    return Prospect(
        measured=seen,
        seen=seen,
        assumed=(),
        types=(),
        workers=5,
        service_seconds=2.0,
        attempts_per_job=1.0,
    )


def drawn(picture: plots.Picture) -> Image.Image:
    return Image.open(io.BytesIO(picture.png()))


# What is said


def test_the_pictures_of_the_sample_say_its_numbers() -> None:
    """Title and words hold the finding; what is not recorded is said, not drawn as none."""
    with jp.open_snapshot("sample") as snapshot:
        seen = jp.triage(snapshot).situation
        again = jp.read_retries(snapshot, seen)
        assumed = jp.read_prospect(snapshot, seen)
    waterfall, herd = plots.tried(again), plots.wakings(again)
    fan = plots.drain(assumed, by_seconds=1_800.0)
    assert waterfall.title == ("25 retries, 13 of them send_email: 1.03 attempts per completed job")
    assert "901 first attempts" in waterfall.numbers
    assert "926 attempts in all, 893 completed; upstream calls: not recorded" in waterfall.numbers
    assert herd.title.startswith("1 job of mail wakes in the minute from 04:38:47Z")
    assert "at most 1 in a minute, 210 claimed in its best" in herd.numbers
    assert fan.title == "An assumed backlog of 10,810 jobs: gone in about 20 min 5 s"
    assert "nine times in ten 17 min 18 s to 23 min 26 s; never with probability" in fan.numbers


def test_a_waterfall_ends_where_its_steps_lead() -> None:
    """First attempts and each type's retries add up to all attempts; calls are beside them."""
    classes = [tried_class(n, job_type=f"t{n}", upstream_calls=9) for n in (70, 6, 5, 4, 3, 2, 1)]
    picture = plots.tried(retried(*classes))
    (axes,) = picture.figure.axes
    widths = [patch.get_width() for patch in axes.patches]  # type: ignore[attr-defined]
    assert widths[0] == 700
    assert widths[1:-2] == [70, 6, 5, 4, 3, 3]  # the last of them are put together
    assert widths[-2:] == [791, 9]
    assert "91 retries" in picture.title
    assert "upstream calls: 9." in picture.numbers


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ([], "No job was tried again in this window"),
        ([tried_class(0)], "No job was tried again in this window"),
        ([tried_class(4)], "4 retries, all of charge: 1.08 attempts per completed job"),
        ([tried_class(4, completions=0)], "4 retries, all of charge; no job completed"),
    ],
)
def test_a_waterfall_names_what_it_found(classes: list[TriedClass], said: str) -> None:
    """None, one type alone, and no completion at all are findings of their own."""
    assert plots.tried(retried(*classes)).title == said


def test_a_herd_is_told_by_the_time_it_takes() -> None:
    """What wakes in one minute is measured in minutes of the best claims there were."""
    herd = plots.wakings(retried(wakings=(waking(5, 300), waking(50, 300), waking(65, 10))))
    assert "600 jobs of mail wake in the minute from 03:00:00Z" in herd.title
    assert herd.title.endswith("claiming them takes 5 min")
    assert "mail 610 parked jobs (610 of them retries), at most 600 in a minute" in herd.numbers
    (axes,) = herd.figure.axes
    bars = [patch.get_height() for patch in axes.patches]  # type: ignore[attr-defined]
    assert bars == [600, 10, 0, 0]  # the scheduled ones stand on top: there are none
    assert not any("scheduled" in part for part in herd.numbers.split(";"))


def test_the_queue_that_takes_longest_is_drawn() -> None:
    """Ten jobs that a slow queue claims in hours come before a thousand of a fast one."""
    more = (waking(5, 1_000), waking(5, 10, queue="slow", retries=0))
    picture = plots.wakings(retried(wakings=more, peaks=(("mail", 5_000), ("slow", 1))))
    assert "10 jobs of slow" in picture.title
    assert "1 more queue not drawn" in picture.figure.axes[0].get_xlabel()
    assert "mail 1,000 parked jobs" in picture.numbers


@pytest.mark.parametrize(
    ("wakings", "peaks", "said"),
    [
        ((), (), "No job is parked: nothing wakes later"),
        ((waking(9, 3),), (), "3 jobs of mail wake in the minute from 03:00:00Z; how fast"),
        ((waking(9, 3),), (("mail", 3),), "3 jobs of mail wake in the minute from 03:00:00Z, no"),
        ((waking(86_000, 3),), (("mail", 9),), "3 jobs of mail wake in the minute from 02:53:00Z"),
    ],
)
def test_no_herd_is_a_finding_too(wakings: Any, peaks: Any, said: str) -> None:
    """Nothing parked, an unknown pace, and what is just claimed are told apart."""
    assert plots.wakings(retried(wakings=wakings, peaks=peaks)).title.startswith(said)


def test_a_fan_has_its_never_in_words() -> None:
    """The title says when, and how likely never; past one half it no longer says when."""
    sure, unsure, lost = (plots.drain(prospect(into=into)) for into in (30, 55, 60))
    assert sure.title == "7,200 jobs that wait: gone in about 2 h 2 min"
    assert "never in" in unsure.title
    assert lost.title == ("7,200 jobs that wait: more likely never gone than ever, at these rates")
    for picture in (sure, unsure, lost):
        drawn(picture)


def test_capacity_and_deadline_are_lines() -> None:
    """Median, capacity alone and the deadline are drawn; the legend has their numbers."""
    picture = plots.drain(prospect(), by_seconds=3_600.0)
    alone, median, deadline = picture.figure.axes[0].lines
    capacity, jobs = (np.asarray(line.get_ydata(), dtype=float) for line in (alone, median))
    assert jobs[0] == 7_200
    assert bool((capacity <= jobs).all())
    assert list(np.asarray(deadline.get_xdata(), dtype=float)) == [1.0, 1.0]  # hours
    words = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert words[-2:] == [
        "capacity alone, without arrivals: 2/s",
        "deadline 1 h: in time in 0% of the draws",
    ]
    assert "in 1 h with probability 0.00" in picture.numbers


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"waiting": 0}, "no backlog"), ({"why_not": "it is paused"}, "capacity unknown: it is")],
)
def test_where_there_is_no_estimate_there_is_no_fan(changed: Any, said: str) -> None:
    """The picture then says why, instead of a guess."""
    picture = plots.drain(prospect(**changed))
    assert picture.title.startswith(said)
    drawn(picture)


# Whatever comes


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_drawn_as_text(name: str | None) -> None:
    """No name is a formula, breaks out of its line, or makes matplotlib complain."""
    of: dict[str, Any] = {"queue": name}
    pictures = (
        plots.tried(retried(tried_class(3, job_type=name, **of))),
        plots.wakings(retried(wakings=(waking(5, 3, **of),), peaks=((name, 2),))),
    )
    for picture in pictures:
        assert drawn(picture).width > 600
        assert "\x1b" not in repr(picture)


def test_pictures_are_the_same_twice() -> None:
    """The draws have a seed: the same question gives the same bytes."""
    once, twice = (plots.drain(prospect(), by_seconds=600.0).png() for _ in range(2))
    assert once == twice
