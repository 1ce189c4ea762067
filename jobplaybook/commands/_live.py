"""Options of every command that may read a live database, and its progress on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from jobplaybook.commands._common import (
    DURATION,
    POSITIVE_DURATION,
    PositiveInt,
    key_path_option,
    lease_option,
    now_option,
    since_option,
    system_option,
    tenant_path_option,
)

if TYPE_CHECKING:
    from jobplaybook.snapshot.options import CaptureOptions, Progress

_OPTIONS = (
    now_option,
    since_option,
    click.option(
        "--budget",
        type=POSITIVE_DURATION,
        default="60s",
        show_default=True,
        help="Wall-clock limit of a capture; what was not read is said.",
    ),
    click.option(
        "--chunk",
        type=PositiveInt(high=100_000),
        default=5_000,
        show_default=True,
        help="Rows that one statement examines.",
    ),
    click.option(
        "--pause",
        type=DURATION,
        default="50ms",
        show_default=True,
        help="Rest between statements, for the queue.",
    ),
    system_option,
    lease_option,
    tenant_path_option,
    key_path_option,
    click.option(
        "--key-file",
        type=click.Path(dir_okay=False),
        help="Hashing key [default: jobplaybook.key beside the snapshot].",
    ),
    click.option(
        "--require-readonly", is_flag=True, help="Refuse a role that may do more than read."
    ),
)


def live_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a live read to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def capture_options(given: dict[str, Any]) -> CaptureOptions:
    """Take the capture's options out of a command's arguments.

    Parameters
    ----------
    given : dict
        The command's arguments; those of a capture are removed, ``now`` and ``since`` stay.
    """
    from jobplaybook.api import read_options
    from jobplaybook.snapshot.options import CaptureOptions

    return CaptureOptions(
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
            lease=given.pop("lease"),
            tenant_path=given.pop("tenant_path"),
            key_path=given.pop("key_path"),
        ),
    )


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show rows as they are read, on stderr, where a person is watching."""
    import sys

    if not sys.stderr.isatty():
        yield lambda table, rows: None
        return
    from tqdm import tqdm

    with tqdm(unit=" rows", leave=False, desc="reading", file=sys.stderr) as bar:

        def tell(table: str, rows: int) -> None:
            bar.set_description(f"reading {table}", refresh=False)
            bar.update(rows)

        yield tell
