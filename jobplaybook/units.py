"""Times, durations, rates and counts: read as people write them, written as people read them.

Every moment inside jobplaybook is an integer: microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from jobplaybook.errors import InputError

MICROS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(ms|s|min|m|h|d)", re.ASCII)
_RATE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(k|M)?/(s|m|min|h|d)", re.ASCII)


def parse_duration(text: str) -> float:
    """Return a duration such as ``90s``, ``5m``, ``4h``, ``2d`` or ``50ms`` in seconds.

    Examples
    --------
    >>> parse_duration("90s"), parse_duration("1.5h"), parse_duration("0")
    (90.0, 5400.0, 0.0)
    """
    if text == "0":
        return 0.0
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InputError(f"expected a duration like 90s, 5m, 4h or 2d, found {shown(text)}")
    return float(match[1]) * _SECONDS[match[2]]


def parse_rate(text: str) -> float:
    """Return a rate such as ``1.7/s``, ``20/min`` or ``50k/h`` in events per second.

    Examples
    --------
    >>> parse_rate("1.5/s"), parse_rate("30/min"), parse_rate("36k/h"), parse_rate("0")
    (1.5, 0.5, 10.0, 0.0)
    """
    if text == "0":
        return 0.0
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"expected a rate like 1.7/s, 20/min or 50k/h, found {shown(text)}")
    scale = {None: 1.0, "k": 1e3, "M": 1e6}[match[2]]
    return float(match[1]) * scale / _SECONDS[match[3]]


def parse_time(text: str) -> int:
    """Return an ISO 8601 time in microseconds UTC; without its offset it would be ambiguous.

    Examples
    --------
    >>> parse_time("2026-12-01T03:45:22Z")
    1796096722000000
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"expected a time like 2026-12-01T03:45:22Z, found {shown(text)}"
        ) from None
    if moment.tzinfo is None:
        raise InputError(
            f"expected a time with its offset, found {shown(text)}: end it with Z for UTC"
        )
    micros = to_micros(moment)
    if iso(micros) is None:
        raise InputError(f"expected a time of this era, found {shown(text)}: it has no UTC form")
    return micros


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970-01-01 UTC."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(micros: int) -> datetime:
    """Return microseconds UTC as an aware datetime."""
    return _EPOCH + timedelta(microseconds=micros)


def iso(micros: int | None) -> str | None:
    """Return microseconds UTC as ISO 8601 with ``Z``, for JSON; None stays None.

    Examples
    --------
    >>> iso(1796096722250000), iso(1796096722000000), iso(None)
    ('2026-12-01T03:45:22.250000Z', '2026-12-01T03:45:22Z', None)
    """
    if micros is None:
        return None
    try:
        return to_datetime(micros).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None


def clock_text(micros: int | None) -> str:
    """Return the time of day in UTC for people, to the second.

    Examples
    --------
    >>> clock_text(1796096722250000), clock_text(None)
    ('03:45:22Z', 'unknown')
    """
    moment = iso(micros)
    return "unknown" if moment is None else moment[11:19] + "Z"


def duration_text(seconds: float | None) -> str:
    """Return a duration for people: two units at most, sensible digits.

    Examples
    --------
    >>> duration_text(30_000), duration_text(65.2), duration_text(0.42), duration_text(None)
    ('8 h 20 min', '1 min 5 s', '0.4 s', 'unknown')
    >>> duration_text(math.inf), duration_text(8.62 * 86_400), duration_text(3_600)
    ('never', '8 d 15 h', '1 h')
    """
    if seconds is None or math.isnan(seconds):
        return "unknown"
    if math.isinf(seconds):
        return "never"
    if seconds < 0:
        return "-" + duration_text(-seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    for small, big, size, factor, top in (
        ("s", "min", 60, 1, 3_600),
        ("min", "h", 60, 60, 1_440),
        ("h", "d", 24, 3_600, math.inf),
    ):
        whole = round(seconds / factor)
        if whole < size:
            return f"{whole} {small}"
        if whole < top:
            high, low = divmod(whole, size)
            return f"{high:,} {big} {low} {small}" if low else f"{high:,} {big}"
    raise AssertionError("unreachable: the last step takes every size")


def limit_text(seconds: float) -> str:
    """Return a duration that somebody set, or is to set, for people: never 0 s if it is not.

    Examples
    --------
    >>> limit_text(0.001), limit_text(0.03), limit_text(0.1), limit_text(0)
    ('1 ms', '30 ms', '0.1 s', '0 s')
    """
    return f"{seconds * 1_000:.3g} ms" if 0 < seconds < 0.1 else duration_text(seconds)


def count_text(number: int, noun: str = "", plural: str = "") -> str:
    """Return a count for people, with its noun in the right number.

    Examples
    --------
    >>> count_text(1, "job"), count_text(4, "job"), count_text(1_234_567, "job")
    ('1 job', '4 jobs', '1.2 M jobs')
    >>> count_text(2, "entry", "entries"), count_text(12_345)
    ('2 entries', '12,345')
    >>> count_text(999_949_999), count_text(10**9), count_text(10**12, "job")
    ('999.9 M', '1.0 G', '1,000.0 G jobs')
    """
    text = f"{number:,}"
    if abs(number) >= 1_000_000:
        is_more = abs(number) >= 999_950_000  # would be 1000.0 M
        text = f"{number / 1e9:,.1f} G" if is_more else f"{number / 1e6:.1f} M"
    if not noun:
        return text
    return f"{text} {noun if number == 1 else plural or noun + 's'}"


def shown(text: str, limit: int = 60) -> str:
    """Return a user's text quoted for a message: cut, and without control characters."""
    return repr(plain(text)[:limit] + ("..." if len(text) > limit else ""))


def given(text: str, what: str) -> str:
    """Return a text that somebody gave, or refuse an empty one, as an unset variable leaves it.

    Examples
    --------
    >>> given("319", "a job id")
    '319'
    """
    if not text.strip():
        raise InputError(f"expected {what}, found an empty one: is the variable set?")
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what to say of an unknown name: which one was meant, or which there are.

    Examples
    --------
    >>> nearest("triag", ["find", "triage"]), nearest("x", ["find", "triage"])
    ('did you mean triage?', 'expected one of find, triage')
    """
    from difflib import get_close_matches  # not for every start of the command line

    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(names) or 'none'}"


def plain(text: str) -> str:
    r"""Return job-supplied text safe for a terminal: control and bidi characters become ``?``.

    Examples
    --------
    >>> plain("mail\x1b[31m")
    'mail?[31m'
    """
    return "".join(c if c.isprintable() else "?" for c in text)
