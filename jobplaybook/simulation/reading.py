"""How a scenario is checked and read from TOML: by what each field says of itself."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from jobplaybook.errors import InputError
from jobplaybook.units import parse_duration, parse_rate, shown

T = TypeVar("T")
_MOST = 10**9
_EXPECTED = {
    "seconds": 'a duration like "90s" or "4h", not below 0',
    "rate": 'a rate like "2/s" or "20/min", not below 0',
    "share": "a share from 0 to 1",
    "number": "a number not below 0",
    "count": "a whole number not below 0",
    "positive": "a whole number above 0",
    "flag": "true or false",
    "text": "a name in quotes",
    "times": 'a list of durations like ["0s", "90s"]',
}


def option(kind: Any, default: Any = MISSING) -> Any:
    """Return a dataclass field that says what it may hold.

    ``kind`` is a word of those above, a tuple of allowed words, a class, or a tuple with the one
    class that it is a list of.
    """
    if default is MISSING:
        return field(metadata={"kind": kind})
    return field(default=default, metadata={"kind": kind})


def key_of(item: Field[Any]) -> str:
    """Return a field's name in TOML: without its unit."""
    return item.name.removesuffix("_seconds")


class Checked:
    """A dataclass whose values are what its fields allow, however it was made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse the first value that a field does not allow."""
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if not _allowed(item, value):
                expected = _expected(item.metadata["kind"])
                raise InputError(f"{key_of(item)}: expected {expected}, found {shown(repr(value))}")


def _expected(kind: Any) -> str:
    if isinstance(kind, str):
        return _EXPECTED[kind]
    if isinstance(kind, tuple) and isinstance(kind[0], str):
        return "one of " + ", ".join(kind)
    return "a list of tables" if isinstance(kind, tuple) else "a table"


def _allowed(item: Field[Any], value: Any) -> bool:
    kind = item.metadata["kind"]
    if isinstance(kind, tuple):
        if isinstance(kind[0], str):
            return value in kind
        return isinstance(value, tuple) and all(isinstance(each, kind) for each in value)
    if isinstance(kind, type):
        return isinstance(value, kind) or (value is None and item.default is None)
    if kind == "times":
        return isinstance(value, tuple) and all(_is_number(each, math.inf) for each in value)
    if kind in ("flag", "text"):
        return isinstance(value, bool if kind == "flag" else str) and value != ""
    if kind in ("count", "positive"):
        return _is_number(value, _MOST) and isinstance(value, int) and value >= (kind != "count")
    if value == math.inf:
        return item.default == math.inf
    return _is_number(value, 1 if kind == "share" else math.inf)


def _is_number(value: Any, most: float) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value <= most
        and value != math.inf
    )


def read_toml(source: str | Path) -> dict[str, Any]:
    """Return the table in a file (a Path) or a text.

    Raises
    ------
    InputError
        If it cannot be read or is no TOML.
    """
    try:
        text = source.read_text("utf-8") if isinstance(source, Path) else source
        return tomllib.loads(text)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{shown(str(source), 200)} cannot be read: {reason}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"expected a scenario in TOML, found {shown(str(error), 120)}") from None


def from_table(kind: type[T], table: Any, where: str = "") -> T:
    """Return an object of the dataclass ``kind``, read from a table of TOML.

    Raises
    ------
    InputError
        If a key is unknown (the nearest is named) or missing, or a value cannot be.
    """
    if not isinstance(table, Mapping):
        raise InputError(f"{where}expected a table, found {shown(repr(table))}")
    known = {key_of(item): item for item in fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise InputError(f"{where}unknown key {shown(key)}: {_nearest(key, known)}")
    needed = (key for key, item in known.items() if item.default is MISSING)
    missing = [key for key in needed if key not in table]
    if missing:
        raise InputError(f"{where}{missing[0]}: expected {_kind_of(known[missing[0]])}, found none")
    values = {known[k].name: _read(known[k], v, f"{where}{k}") for k, v in table.items()}
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{where}{error}") from None


def _nearest(key: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"


def _kind_of(item: Field[Any]) -> str:
    return _expected(item.metadata["kind"])


def _read(item: Field[Any], value: Any, where: str) -> Any:
    kind = item.metadata["kind"]
    if isinstance(kind, type):
        return from_table(kind, value, f"{where}.")
    if isinstance(kind, tuple) and isinstance(kind[0], type):
        if not isinstance(value, list):
            raise InputError(f"{where}: expected a list of tables, found {shown(repr(value))}")
        return tuple(from_table(kind[0], v, f"{where}[{i}].") for i, v in enumerate(value))
    if kind == "times":
        return tuple(_quantity(v, where) for v in value) if isinstance(value, list) else value
    if kind in ("seconds", "rate"):
        return _quantity(value, where, rate=kind == "rate")
    return value


def _quantity(value: Any, where: str, *, rate: bool = False) -> Any:
    if not isinstance(value, str):
        return value  # plain numbers are seconds, or per second; anything else is refused later
    try:
        return parse_rate(value) if rate else parse_duration(value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
