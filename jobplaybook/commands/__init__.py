"""The command line: what there is, and how every ending becomes an exit code and one line.

A command's module is imported only when the command runs, so that `jobplaybook --help` and a
command that needs little stay fast.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from jobplaybook import __version__
from jobplaybook.commands._common import Group, one_line
from jobplaybook.errors import JobPlaybookError

# each is the module of that name, and its line in the list of commands
COMMANDS = {
    "sources": "The queue systems understood, and what each can tell.",
    "capture": "A live database into a snapshot, gently.",
    "triage": "The verdict on one screen: which layer, since when, what next.",
    "find": "Which jobs a ticket is about.",
    "timeline": "One job across the layers, in events and plain words.",
    "health": "Age, rates, headroom of every queue.",
    "estimate": "How long it takes to recover, or an honest never.",
    "simulate": "What happens if: a scenario played many times.",
    "run": "A notebook, or all of them, executed without a browser.",
    "postmortem": "One document at the end: what happened, what is left.",
    "runbook": "What a finding means and how to act.",
    "demo": "The verdict and the report of a bundled incident.",
}
_DEFECT, _INTERRUPTED = 5, 130


class CommandLine(Group):
    """The top of the command line: commands by lazy look-up, endings as exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, and no other."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Answer one command line and leave with its exit code, always."""
        words = sys.argv[1:] if args is None else list(args)
        sys.exit(_ending(lambda: self._answer(words, extra)))

    def _answer(self, words: list[str], extra: dict[str, Any]) -> int:
        try:
            with self.make_context("jobplaybook", words, **extra) as context:
                code = self.invoke(context)
        except click.exceptions.Exit as leaving:
            return leaving.exit_code
        return code if isinstance(code, int) else 0


@click.group(
    cls=CommandLine,
    name="jobplaybook",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: jobplaybook triage env:JOBS_DATABASE_URL",
)
@click.version_option(__version__, message="jobplaybook %(version)s", help="Show the version.")
def cli() -> None:
    """The hour after somebody says the jobs are stuck.

    Which layer broke, how long recovery takes, how to act safely.
    """


def main() -> NoReturn:
    """Run the command line; the entry point of ``jobplaybook`` and ``python -m jobplaybook``."""
    # Whoever is told to end has to take its half-written files along.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _frame: sys.exit(128 + number))
    cli.main()


def _ending(answer: Callable[[], int]) -> int:
    """Return the exit code of an answer, with one line on stderr where there was none."""
    try:
        code = answer()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except (KeyboardInterrupt, click.Abort):
        code = _say("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        code = 0  # whoever reads has seen enough
    except click.ClickException as error:
        code = _say(_usage_text(error), 2)
    except JobPlaybookError as error:
        code = _say(str(error), error.exit_code)
    except OSError as error:
        code = _say(_system_text(error), 2)
    except Exception as error:
        code = _defect(error)
    _drop_unwritable_output()
    return code


def _say(message: str, code: int) -> int:
    with suppress(OSError):
        click.echo(f"jobplaybook: {one_line(message)}", err=True)
    return code


def _usage_text(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "jobplaybook"
    return f"{error.format_message().rstrip('.')} (see: {path} --help)"


def _system_text(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    if error.filename is None:
        return f"reading or writing failed: {reason}; write to another place"
    return f"{error.filename} cannot be used: {reason}; give another path"


def _defect(error: Exception) -> int:
    # The text of an unknown error may hold a password or a row's values: its type has to do.
    if os.environ.get("JOBPLAYBOOK_DEBUG") == "1":
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        return _DEFECT
    name = type(error).__name__
    return _say(
        f"a defect in jobplaybook ({name}): run it again with JOBPLAYBOOK_DEBUG=1 and report"
        " where it happened",
        _DEFECT,
    )


def _drop_unwritable_output() -> None:
    # What is still buffered is flushed once more when the interpreter ends; if that fails, it
    # complains and changes the exit code.
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
