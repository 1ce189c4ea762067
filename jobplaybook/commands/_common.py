"""What the commands share: option types, options, and how an answer is printed.

Only click is imported at the top here and in every command: `jobplaybook --help` and the answers
that need nothing more must be there at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jobplaybook.errors import InputError
from jobplaybook.units import iso, parse_duration, parse_rate, parse_time, plain, shown

if TYPE_CHECKING:
    from pathlib import Path

    # click's types are generic for the type checker since 8.4, and cannot be subscripted before
    _FloatType = click.ParamType[float]
    _IntType = click.ParamType[int]
    _TextType = click.ParamType[str]
    _PathType = click.ParamType[Path]
else:
    _FloatType = _IntType = _TextType = _PathType = click.ParamType

T = TypeVar("T")

# A slip of the keyboard, not a question: beyond these bounds every answer is nonsense.
_LONGEST_SECONDS = 100 * 365.25 * 86_400
_SLOWEST_RATE, _FASTEST_RATE = 1e-9, 1e9
_MOST_JOBS = 10**12

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]*\.?[0-9]+(?:[eE]-?[0-9]{1,3})?", re.ASCII)
_FIELD_PATH = re.compile(r"[A-Za-z_][\w-]{0,62}(?:\.[\w-]{1,63}){0,9}", re.ASCII)
# Rather the rest of a message lost than a password shown: a cut text has no closing @ or quote.
_SECRETS = (
    (re.compile(r"://.*@"), "://***@"),
    (re.compile(r"://[^\s/'\"@*]+:.*"), "://***"),
    (re.compile(r"(pass\w*\s*=\s*)\S.*", re.IGNORECASE), r"\1***"),
)


class DurationType(_FloatType):
    """A duration such as ``90s`` or ``4h``, in seconds."""

    name = "duration"

    def __init__(self, *, above_zero: bool = False) -> None:
        self._above_zero = above_zero

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        seconds = _parsed(self, parse_duration, value, param, ctx)
        if self._above_zero and seconds == 0:
            self.fail(f"expected a duration above 0, found {shown(str(value))}", param, ctx)
        if seconds > _LONGEST_SECONDS:
            self.fail(f"expected at most 100 years, found {shown(str(value))}", param, ctx)
        return seconds


class RateType(_FloatType):
    """A rate such as ``1.7/s`` or ``20/min``, in events per second."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return events per second."""
        rate = _parsed(self, parse_rate, value, param, ctx)
        if rate != 0 and not _SLOWEST_RATE <= rate <= _FASTEST_RATE:
            self.fail(
                f"expected 0, or a rate between 1e-9/s and 1e9/s, found {shown(str(value))}",
                param,
                ctx,
            )
        return rate


class TimeType(_IntType):
    """A moment such as ``2026-12-01T03:45:22Z``, in microseconds UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return microseconds since 1970-01-01 UTC."""
        micros = _parsed(self, parse_time, value, param, ctx)
        if iso(micros) is None:
            self.fail(f"expected a time of this era, found {shown(str(value))}", param, ctx)
        return micros


class WholeNumberType(_IntType):
    """A whole number within bounds, written in plain digits."""

    name = "number"

    def __init__(self, *, low: int, high: int = _MOST_JOBS) -> None:
        self._low, self._high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value)
        if not _WHOLE.fullmatch(text) or not self._low <= int(text) <= self._high:
            self.fail(
                f"expected a whole number from {self._low} to {self._high}, found {shown(text)}",
                param,
                ctx,
            )
        return int(text)


class PositiveInt(WholeNumberType):
    """A whole number of at least 1."""

    def __init__(self, *, high: int = _MOST_JOBS) -> None:
        super().__init__(low=1, high=high)


class NonNegativeInt(WholeNumberType):
    """A whole number of at least 0."""

    def __init__(self, *, high: int = _MOST_JOBS) -> None:
        super().__init__(low=0, high=high)


class ShareType(_FloatType):
    """A share of a whole, from 0 to 1."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the share."""
        text = str(value)
        if not _DECIMAL.fullmatch(text) or float(text) > 1:
            self.fail(f"expected a share from 0 to 1, like 0.2, found {shown(text)}", param, ctx)
        return float(text)


class FieldPathType(_TextType):
    """The dotted place of one field in a job's payload, such as ``args.tenant``."""

    name = "field"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path as it was given."""
        text = str(value)
        if not _FIELD_PATH.fullmatch(text):
            self.fail(f"expected a field like args.tenant, found {shown(text)}", param, ctx)
        return text


class OutputFileType(_PathType):
    """A file to write: no folder, and in a folder that exists."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return its path."""
        from pathlib import Path

        path, named = Path(value), shown(str(value), 200)
        if path.is_dir():
            self.fail(f"expected a file to write, found the folder {named}", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"expected a file in a folder that exists, found {named}", param, ctx)
        return path


DURATION = DurationType()
POSITIVE_DURATION = DurationType(above_zero=True)
RATE = RateType()
TIME = TimeType()
SHARE = ShareType()
FIELD_PATH = FieldPathType()
OUTPUT_FILE = OutputFileType()

source_argument = click.argument("source", metavar="SOURCE")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
)
now_option = click.option(
    "--now",
    type=TIME,
    help="The end of the window [default: a snapshot's captured_at, a database's own clock].",
)
since_option = click.option(
    "--since",
    type=POSITIVE_DURATION,
    default="24h",
    show_default=True,
    help="Length of the window.",
)
until_option = click.option("--until", type=TIME, help="The window's end, where it is not now.")
system_option = click.option(
    "--system", metavar="NAME", help="The queue system, instead of detecting it."
)
tenant_path_option = click.option(
    "--tenant-path", type=FIELD_PATH, help="Where a job's payload holds the tenant (args.tenant)."
)
key_path_option = click.option(
    "--key-path", type=FIELD_PATH, help="Where a job's payload holds the business key (args.key)."
)
lease_option = click.option(
    "--lease", type=POSITIVE_DURATION, help="Silence after which a worker's jobs count as expired."
)
keep_option = click.option(
    "--keep", type=OUTPUT_FILE, help="Keep the snapshot that a live SOURCE is captured into."
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
            from difflib import get_close_matches

            near = get_close_matches(args[0], known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise click.UsageError(f"no command {shown(args[0])}: {hint}", ctx)
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


def _parsed(
    kind: click.ParamType[Any],
    parse: Callable[[str], T],
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> T:
    try:
        return parse(str(value))
    except InputError as error:
        kind.fail(str(error), param, ctx)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _encodable(text: str) -> bool:
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return False
    return True
