"""What the commands share: option types, options, and how an answer is printed.

Only click is imported at the top here and in every command: `jobplaybook --help` and the answers
that need nothing more must be there at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from jobplaybook.errors import InputError
from jobplaybook.units import given, nearest, parse_duration, parse_rate, parse_time, plain, shown

if TYPE_CHECKING:
    from pathlib import Path

# A slip of the keyboard, not a question: beyond these bounds every answer is nonsense.
_LONGEST_SECONDS = 100 * 365.25 * 86_400
_SLOWEST_RATE, _FASTEST_RATE = 1e-9, 1e9
_MOST = 10**12

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]*\.?[0-9]+(?:[eE]-?[0-9]{1,3})?", re.ASCII)
_SOURCE = re.compile(r"sample$|env:|service=|[A-Za-z][A-Za-z0-9+.-]*://")
_FIELD_PATH = re.compile(r"[A-Za-z_][\w-]{0,62}(?:\.[\w-]{1,63}){0,9}", re.ASCII)
# Rather the rest of a message lost than a password shown: a cut text has no closing @ or quote.
_SECRETS = (
    (re.compile(r"://.*@"), "://***@"),
    (re.compile(r"://[^\s/'\"@*]+:.*"), "://***"),
    (re.compile(r"(pass\w*\s*=\s*)\S.*", re.IGNORECASE), r"\1***"),
)


class Kind(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A kind of option: a function reads its text, or says what it expected and what it found."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the function makes of the text; what it refuses is a usage error."""
        try:
            return self._read(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds > _LONGEST_SECONDS:
        raise InputError(f"expected at most 100 years, found {shown(text)}")
    return seconds


def _positive_duration(text: str) -> float:
    seconds = _duration(text)
    if seconds == 0:
        raise InputError(f"expected a duration above 0, found {shown(text)}")
    return seconds


def _rate(text: str) -> float:
    rate = parse_rate(text)
    if rate != 0 and not _SLOWEST_RATE <= rate <= _FASTEST_RATE:
        raise InputError(f"expected 0, or a rate between 1e-9/s and 1e9/s, found {shown(text)}")
    return rate


def _share(text: str) -> float:
    if not _DECIMAL.fullmatch(text) or float(text) > 1:
        raise InputError(f"expected a share from 0 to 1, like 0.2, found {shown(text)}")
    return float(text)


def _field_path(text: str) -> str:
    if not _FIELD_PATH.fullmatch(text):
        raise InputError(f"expected a field like args.tenant, found {shown(text)}")
    return text


def _readable(text: str) -> str:
    """Return a text that can be written down; other bytes come out of a terminal as surrogates."""
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(f"expected text in UTF-8, found {shown(text, 200)}: write it in UTF-8")
    return text


def _text(text: str) -> str:
    return _readable(given(text, "a value"))


def _key_file(text: str) -> str:
    from pathlib import Path

    if Path(_text(text)).is_dir():
        raise InputError(f"expected a key file, found the folder {shown(text, 200)}")
    return text


def _output(text: str) -> Path:
    """Return a place to write to; what names a SOURCE is most likely in the wrong place."""
    from pathlib import Path

    if _text(text) == "-":
        raise InputError("expected a file to write, found '-': name one; stdout is for --json")
    if _SOURCE.match(text):
        raise InputError(
            f"expected a place to write to, found {shown(text, 200)}, which names a SOURCE: give "
            "that as the argument; a file of this name is written with ./ before it"
        )
    return Path(text)


def _output_file(text: str) -> Path:
    path, named = _output(text), shown(text, 200)
    if path.is_dir():
        raise InputError(f"expected a file to write, found the folder {named}")
    if not path.parent.is_dir():
        raise InputError(f"expected a file in a folder that exists, found {named}")
    return path


def whole_number(low: int = 1, high: int = _MOST) -> Kind:
    """Return the kind of whole numbers within bounds, written in plain digits."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise InputError(f"expected a whole number from {low} to {high}, found {shown(text)}")
        return int(text)

    return Kind("number", read)


DURATION = Kind("duration", _duration)  # in seconds
POSITIVE_DURATION = Kind("duration", _positive_duration)
RATE = Kind("rate", _rate)  # in events per second
TIME = Kind("time", parse_time)  # in microseconds UTC
SHARE = Kind("share", _share)
FIELD_PATH = Kind("field", _field_path)
SOURCE = Kind(
    "SOURCE", lambda text: given(text, "a SOURCE")
)  # a file's name may be of any bytes: it is only read
TEXT = Kind("text", _text)
ANY_TEXT = Kind("text", _readable)
KEY_FILE = Kind("file", _key_file)
OUTPUT = Kind("path", _output)
OUTPUT_FILE = Kind("file", _output_file)


def option(
    name: str, kind: click.ParamType[Any], text: str, *, to: str = "", **more: Any
) -> Callable[[Any], Any]:
    """Return a click option of a kind, with its help; a default is shown there."""
    names = (name, to) if to else (name,)
    return click.option(*names, type=kind, help=text, show_default="default" in more, **more)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
)


class Group(click.Group):
    """A group that names the nearest command, and shows its help when it is given none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words after the group's name."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is an error that names the nearest."""
        known = self.list_commands(ctx)
        if args[0] not in known:
            raise click.UsageError(f"no command {shown(args[0])}: {nearest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


def emit(document: Mapping[str, Any], as_json: bool, lines: Iterable[str] = ()) -> None:
    """Print the answer: the document as JSON, or the lines that are meant for people."""
    if not as_json:
        for line in lines:
            echo(line)
        return
    import json

    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    if not _encodable(text):
        text = json.dumps(document, ensure_ascii=True, allow_nan=False, indent=2)
    click.echo(text)


def echo(text: str = "") -> None:
    """Print a line for people on stdout; what the terminal cannot write becomes ``?``.

    Text that comes from jobs goes through `jobplaybook.units.plain` first: this keeps newlines
    and whatever the command itself put in.
    """
    if not _encodable(text):
        text = text.encode(_encoding(), errors="replace").decode(_encoding())
    click.echo(text)


def warn(message: str) -> None:
    """Print one line on stderr, apart from the answer."""
    click.echo(f"jobplaybook: warning: {one_line(message)}", err=True)


def one_line(message: str) -> str:
    r"""Return a message as one line, without control characters and what may be a password.

    Examples
    --------
    >>> one_line("no file postgresql://ann:pw@db/jobs\nhere")
    'no file postgresql://***@db/jobs here'
    """
    line = plain(" ".join(message.split()))
    for secret, mask in _SECRETS:
        line = secret.sub(mask, line)
    return line


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _encodable(text: str) -> bool:
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return False
    return True
