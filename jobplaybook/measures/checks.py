"""What a number has to be before a formula may use it."""

from __future__ import annotations

import math

# Two rates that agree to twelve digits were the same number before rounding: without this, a
# queue in balance would be given an end millions of years away instead of "never".
SAME = 1e-12


def number(name: str, value: float, *, above_zero: bool = False, finite: bool = True) -> float:
    """Return ``value`` if it is a number >= 0, or above 0; nan never passes.

    Raises
    ------
    ValueError
        If it is not, with the name of the argument.

    Examples
    --------
    >>> number("limit", 4.0)
    4.0
    """
    high_enough = value > 0 if above_zero else value >= 0
    if high_enough and (not finite or value < math.inf):
        return value
    kind = "a finite number" if finite else "a number"
    floor = "above 0" if above_zero else ">= 0"
    raise ValueError(f"expected {name} to be {kind} {floor}, found {value!r}")


def share(name: str, value: float) -> float:
    """Return ``value`` if it is a number from 0 to 1.

    Raises
    ------
    ValueError
        If it is not, with the name of the argument.

    Examples
    --------
    >>> share("failure_rate", 0.25)
    0.25
    """
    if 0 <= value <= 1:
        return value
    raise ValueError(f"expected {name} to be a number from 0 to 1, found {value!r}")


def whole(name: str, value: float, *, low: int) -> int:
    """Return ``value`` if it is a whole number >= ``low``.

    Raises
    ------
    ValueError
        If it is not, with the name of the argument.

    Examples
    --------
    >>> whole("servers", 20, low=1)
    20
    """
    if isinstance(value, int) and value >= low:
        return value
    raise ValueError(f"expected {name} to be a whole number >= {low}, found {value!r}")
