"""What every command shares that asks a SOURCE: its options, its progress, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from jobplaybook.commands._common import (
    DURATION,
    FIELD_PATH,
    KEY_FILE,
    OUTPUT_FILE,
    POSITIVE_DURATION,
    SOURCE,
    TEXT,
    TIME,
    emit,
    json_option,
    option,
    warn,
    whole_number,
)

if TYPE_CHECKING:
    from jobplaybook.opening import Opening
    from jobplaybook.snapshot.options import Progress

source_argument = click.argument("source", type=SOURCE, metavar="SOURCE")
until_option = option("--until", TIME, "The window's end, where it is not now.")
_OPTIONS = (
    option("--now", TIME, "End of the window [default: when captured; a live database's clock]."),
    option("--since", POSITIVE_DURATION, "Length of the window.", default="24h"),
    option(
        "--budget",
        POSITIVE_DURATION,
        "Limit of a capture; what was not read is said.",
        default="60s",
    ),
    option("--chunk", whole_number(1, 100_000), "Rows that one statement examines.", default=5_000),
    option("--pause", DURATION, "Rest between statements, for the queue.", default="50ms"),
    option("--system", TEXT, "The queue system, instead of detecting it.", metavar="NAME"),
    option("--lease", POSITIVE_DURATION, "Silence after which a worker's jobs count as expired."),
    option("--tenant-path", FIELD_PATH, "Where a job's payload holds the tenant (args.tenant)."),
    option("--key-path", FIELD_PATH, "Where it holds the business key (args.key)."),
    option(
        "--key-file",
        KEY_FILE,
        "Hashing key [default: jobplaybook.key beside the snapshot].",
    ),
    click.option(
        "--require-readonly", is_flag=True, help="Refuse a role that may do more than read."
    ),
)
_KEEP = option("--keep", OUTPUT_FILE, "Keep the snapshot that a live SOURCE is captured into.")


class Said(NamedTuple):
    """What a command says: as JSON, in lines for people, beside that on stderr; its exit code."""

    document: Mapping[str, Any]
    lines: Iterable[str]
    warnings: Sequence[str] = ()
    code: int = 0


def source_command(
    name: str, *, keeps: bool = True
) -> Callable[[Callable[..., Said]], click.Command]:
    """Make a command that asks a SOURCE: its body is told how to open it, and returns what to say.

    The body also gets its own options and the window: ``now``, ``since`` and, where it takes it,
    ``until``. ``keeps``: whether ``--keep`` is an option of it.
    """

    def decorate(body: Callable[..., Said]) -> click.Command:
        @wraps(body)
        def command(as_json: bool, **given: Any) -> int:
            with opening(given) as how:
                said = body(how=how, **given)
            for warning in said.warnings:
                warn(warning)
            emit(said.document, as_json, said.lines)
            return said.code

        return json_option(opening_options(click.command(name=name)(command), keeps=keeps))

    return decorate


def opening_options(command: click.Command, *, keeps: bool = True) -> click.Command:
    """Add to a command, after its own options, those that say how its SOURCE is opened."""
    for add in (*_OPTIONS, _KEEP) if keeps else _OPTIONS:
        add(command)
    return command


@contextmanager
def opening(given: dict[str, Any]) -> Iterator[Opening]:
    """Take out of a command's arguments how its SOURCE is opened; ``now`` and ``since`` stay."""
    with _rows_bar() as progress:
        yield _opening(given, progress)


def _opening(given: dict[str, Any], progress: Progress) -> Opening:
    from jobplaybook.api import Opening, read_options
    from jobplaybook.snapshot.options import CaptureOptions

    capture = CaptureOptions(
        since_seconds=given["since"],
        budget_seconds=given.pop("budget"),
        chunk=given.pop("chunk"),
        pause_seconds=given.pop("pause"),
        now=given["now"],
        system=given.pop("system"),
        require_readonly=given.pop("require_readonly"),
        # A given moment means a restored recording: this server's statistics are not of then.
        take_vitals=given["now"] is None,
        read=read_options(
            **{name: given.pop(name) for name in ("lease", "tenant_path", "key_path")}
        ),
    )
    return Opening(
        capture=capture,
        keep=given.pop("keep", None),
        key_file=given.pop("key_file"),
        progress=progress,
    )


@contextmanager
def _rows_bar() -> Iterator[Progress]:
    """Show rows as they are read, on stderr, where a person is watching."""
    from tqdm import tqdm

    with tqdm(unit=" rows", leave=False, desc="reading", disable=None) as bar:

        def tell(table: str, rows: int) -> None:
            bar.set_description(f"reading {table}", refresh=False)
            bar.update(rows)

        yield tell
