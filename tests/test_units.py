"""Times, durations, rates and counts: what is written can be read again, what is bad is refused."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobplaybook.errors import InputError
from jobplaybook.units import (
    clock_text,
    count_text,
    duration_text,
    iso,
    parse_duration,
    parse_rate,
    parse_time,
    plain,
    shown,
    to_datetime,
    to_micros,
)

FIRST, LAST = (to_micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (1, 9999))
moments = st.integers(min_value=FIRST, max_value=LAST)
numbers = st.decimals(min_value=0, max_value=10**6, places=3)
UNITS = {
    "ms": Fraction(1, 1_000),
    "s": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3_600),
    "d": Fraction(86_400),
}

NO_NUMBERS = [
    "",
    " ",
    "nan",
    "inf",
    "-1",
    "-5",
    "+5",
    "1e3",
    "1_000",
    "٣",
    "\uff15",
    "1,5",
    ".5",
    "5.",
    "0x10",
]
BAD_DURATIONS = [
    *(f"{number}s" for number in NO_NUMBERS),
    "5",
    "5 m",
    "5M",
    "5w",
    "5m5s",
    "m",
    "5/s",
]
BAD_RATES = [
    *(f"{number}/s" for number in NO_NUMBERS),
    "5",
    "5/",
    "/s",
    "5/ms",
    "5/w",
    "5 /s",
    "5K/s",
    "5k",
    "5s",
]
BAD_TIMES = [
    "",
    "now",
    "nan",
    "1796096722",
    "12:00Z",
    "2026-12-01",
    "2026-12-01T03:45:22",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-12-01T24:30:00Z",
    "2026-12-01T03:45:22 Europe/Berlin",
]


# Read


@given(number=numbers, unit=st.sampled_from(sorted(UNITS)))
def test_a_duration_is_its_number_times_its_unit(number: Decimal, unit: str) -> None:
    """Every unit reads as its length in seconds."""
    expected = float(Fraction(number) * UNITS[unit])
    assert parse_duration(f"{number:f}{unit}") == pytest.approx(expected, rel=1e-12)


@given(
    number=numbers,
    scale=st.sampled_from(["", "k", "M"]),
    unit=st.sampled_from(["s", "m", "min", "h", "d"]),
)
def test_a_rate_is_its_number_over_its_unit(number: Decimal, scale: str, unit: str) -> None:
    """Every scale and unit reads as events per second."""
    times = {"": 1, "k": 1_000, "M": 1_000_000}[scale]
    expected = float(Fraction(number) * times / UNITS[unit])
    assert parse_rate(f"{number:f}{scale}/{unit}") == pytest.approx(expected, rel=1e-12)


def test_zero_needs_no_unit() -> None:
    """0 is a duration and a rate as it stands, and surrounding blanks do not matter."""
    assert parse_duration("0") == parse_rate("0") == 0.0
    assert (parse_duration(" 5m "), parse_rate(" 6/min ")) == (300.0, 0.1)


@pytest.mark.parametrize("text", BAD_DURATIONS)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """The error says what a duration looks like and shows what was found, in one line."""
    with pytest.raises(InputError) as refused:
        parse_duration(text)
    assert str(refused.value) == f"expected a duration like 90s, 5m, 4h or 2d, found {text!r}"


@pytest.mark.parametrize("text", BAD_RATES)
def test_what_is_no_rate_is_refused(text: str) -> None:
    """The error says what a rate looks like and shows what was found, in one line."""
    with pytest.raises(InputError) as refused:
        parse_rate(text)
    assert str(refused.value) == f"expected a rate like 1.7/s, 20/min or 50k/h, found {text!r}"


@pytest.mark.parametrize("text", BAD_TIMES)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """A time that does not exist, or that no offset ties to UTC, is an error of one line."""
    with pytest.raises(InputError, match=r"expected a time .*found ") as refused:
        parse_time(text)
    assert shown(text) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_hostile_text_is_shown_tame() -> None:
    """An error about a text with escapes holds no escape, and a long one is cut."""
    with pytest.raises(InputError) as refused:
        parse_rate("\x1b[31m" + "9" * 500)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 160


def test_an_offset_moves_a_time() -> None:
    """The same moment in two zones is the same number."""
    assert parse_time("2026-12-01T05:45:22+02:00") == parse_time("2026-12-01T03:45:22Z")
    assert parse_time("2026-12-01T03:45:22.25Z") - parse_time("2026-12-01T03:45:22Z") == 250_000


# Read back what was written


@given(micros=moments)
@example(micros=0)
@example(micros=-1)
def test_a_moment_survives_its_text(micros: int) -> None:
    """ISO text and datetimes lose no microsecond."""
    text = iso(micros)
    assert text is not None
    assert text.endswith("Z")
    assert parse_time(text) == micros
    assert to_micros(to_datetime(micros)) == micros
    assert clock_text(micros) == text[11:19] + "Z"


@pytest.mark.parametrize("micros", [None, 10**18, -(10**18), 10**30])
def test_a_moment_beyond_the_calendar_has_no_text(micros: int | None) -> None:
    """What has no date is null for machines and unknown for people."""
    assert iso(micros) is None
    assert clock_text(micros) == "unknown"


@given(seconds=st.floats(min_value=10.0, max_value=1e9))
@example(seconds=59.6)
@example(seconds=3_599.7)
@example(seconds=86_399.0)
def test_a_duration_for_people_is_true_to_its_smallest_unit(seconds: float) -> None:
    """The text, read back, is within half of the smallest unit that its size is written in."""
    text = duration_text(seconds)
    parts = re.findall(r"([\d,]+) (s|min|h|d)", text)
    assert 1 <= len(parts) <= 2
    assert text == " ".join(f"{number} {unit}" for number, unit in parts)
    read = sum(parse_duration(number.replace(",", "") + unit) for number, unit in parts)
    step = 1.0 if seconds < 3_599.5 else 60.0 if seconds < 86_370.0 else 3_600.0
    assert abs(read - seconds) <= step / 2 + 1e-6


@given(seconds=st.floats(min_value=0.0, max_value=10.0))
def test_a_short_duration_has_one_decimal(seconds: float) -> None:
    """Below ten seconds tenths count; below a twentieth of a second nothing does."""
    text = duration_text(seconds)
    assert text == "0 s" or re.fullmatch(r"\d\.\d s|10 s", text)
    assert abs(float(text.removesuffix(" s")) - seconds) <= 0.051


@given(seconds=st.floats(min_value=0.0, max_value=1e9))
def test_a_negative_duration_keeps_its_sign(seconds: float) -> None:
    """A time in the future reads as the same time with a minus."""
    assert duration_text(-seconds).removeprefix("-") == duration_text(seconds)


def test_what_is_no_duration_has_words() -> None:
    """Infinite is never; missing and not-a-number are unknown."""
    assert duration_text(math.inf) == "never"
    assert duration_text(math.nan) == duration_text(None) == "unknown"


@given(number=st.integers(min_value=0, max_value=999_999))
def test_a_count_below_a_million_is_exact(number: int) -> None:
    """Every digit is there, in groups of three, and one job is not plural."""
    text = count_text(number, "job")
    assert int(text.split()[0].replace(",", "")) == number
    assert text.endswith(" job") == (number == 1)


@given(number=st.integers(min_value=1_000_000, max_value=10**12))
def test_a_count_of_millions_is_rounded(number: int) -> None:
    """Millions have one decimal, and so have thousands of them, which are G."""
    figure, unit = count_text(number).split()
    scale = {"M": 1e6, "G": 1e9}[unit]
    assert abs(float(figure.replace(",", "")) * scale - number) <= 0.05 * scale + 1


# What is safe to show


@given(text=st.text())
@example(text="\x1b]8;;http://a.example\x07link\x1b]8;;\x07")
@example(text="\u202egnp.exe\u2066")
@example(text="\ud800 lone surrogate")
def test_plain_text_cannot_steer_a_terminal(text: str) -> None:
    """Nothing unprintable is left, every printable character stays where it was."""
    safe = plain(text)
    assert safe.isprintable()
    assert len(safe) == len(text)
    assert all(new == old for new, old in zip(safe, text, strict=True) if old.isprintable())
    assert plain(safe) == safe


@given(text=st.text(), limit=st.integers(min_value=1, max_value=80))
def test_shown_text_is_short_and_quoted(text: str, limit: int) -> None:
    """A user's text is quoted, printable, and says when it was cut."""
    seen = shown(text, limit)
    assert seen[0] == seen[-1]
    assert seen[0] in "'\""
    assert seen.isprintable()
    assert ("..." in seen) or len(text) <= limit
