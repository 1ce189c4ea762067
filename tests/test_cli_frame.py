"""The frame of the command line: what is listed, what is imported, and how every ending looks."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import jobplaybook
from jobplaybook import commands
from jobplaybook.commands import COMMANDS, _common, cli
from jobplaybook.errors import InputError, SchemaError, SourceError, UnsafeAction
from tests.conftest import REPOSITORY

# A stdout with a buffer, as people have it: what is in it is written once more at the end.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": ""}
DRAIN = ["estimate", "drain", "--backlog", "10000", "--arrival", "0", "--completion", "20/min"]
SECRET = "s3cret-and-long-enough-to-be-cut-off-somewhere-in-the-middle-of-it"

FULL_DEVICE = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs a device that is always full"
)

Ending = Callable[[], Any]
Answer = Callable[[Ending], Result]


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def process(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "jobplaybook", *words],
        env=ENVIRONMENT,
        text=True,
        check=False,
        **{"capture_output": True, **more} if "stdout" not in more else more,
    )


PROBE = """\
import sys, types, click
from jobplaybook.commands import COMMANDS, main
probe = sys.modules['jobplaybook.commands.probe'] = types.ModuleType('probe')
@click.command()
def command():
    {}
probe.command = command
COMMANDS['probe'] = ''
main()
"""


def probing(body: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a process of the command line with a command whose body is ``body``."""
    words = [sys.executable, "-c", PROBE.format(body), "probe"]
    return subprocess.run(words, env=ENVIRONMENT, text=True, check=False, **more)


def line_of(result: Result) -> str:
    """Return the one line on stderr; nothing may stand on stdout beside it."""
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("jobplaybook: ")
    return lines[0].removeprefix("jobplaybook: ")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Give a function that runs a command `probe`, whose body is the function it is handed."""

    def invoke(body: Ending) -> Result:
        module = types.ModuleType("jobplaybook.commands.probe")
        module.command = click.command("probe")(body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(COMMANDS, "probe", "Fail as a test wants it.")
        return run("probe")

    return invoke


def raising(error: BaseException) -> Ending:
    def body() -> None:
        raise error

    return body


# What is listed, and what that costs


def test_help_lists_every_command_with_its_line() -> None:
    """The top help shows the whole table in its order."""
    shown = run("--help").stdout
    places = [shown.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    assert all(line in shown for line in COMMANDS.values())


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help_imports_no_command(words: list[str]) -> None:
    """Listing the commands loads the frame and click, nothing of what the commands need."""
    script = (
        "import sys; from jobplaybook.commands import cli\n"
        f"try: cli.main({words!r})\n"
        "except SystemExit as end: print(end.code, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    ours = {name for name in modules if name.startswith("jobplaybook")}
    frame = ("commands", "commands._common", "errors", "units")
    assert ours == {"jobplaybook", *(f"jobplaybook.{name}" for name in frame)}


def leaves(name: str) -> list[list[str]]:
    """Return the words that name a command, or each one in a group."""
    context = click.Context(cli)
    command = cli.get_command(context, name)
    if isinstance(command, click.Group):
        return [[name, inner] for inner in command.list_commands(context)]
    return [[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_and_speaks_json(name: str) -> None:
    """Each command has --help with an example, and --json."""
    for words in leaves(name):
        result = run(*words, "--help")
        assert result.exit_code == 0, words
        assert "Example: jobplaybook " + " ".join(words) in result.stdout, words
        assert "--json" in result.stdout, words


def test_a_group_alone_shows_its_help() -> None:
    """`jobplaybook` and `jobplaybook estimate` say what there is."""
    for words in ([], ["estimate"]):
        assert run(*words).stdout == run(*words, "--help").stdout
        assert run(*words).exit_code == 0


def test_version_is_one_line() -> None:
    """--version names the program and the version that the package states."""
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"jobplaybook {jobplaybook.__version__}\n")


# Every ending has its code and its line


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("expected a, found b"), 2, "expected a, found b"),
        (SchemaError("column missing"), 2, "column missing"),
        (UnsafeAction("refused: no plan"), 3, "refused: no plan"),
        (SourceError("unreachable"), 4, "unreachable"),
        (InputError("two\nlines \x1b[31m"), 2, "two lines ?[31m"),
        (click.UsageError("odd use."), 2, "odd use (see: jobplaybook probe --help)"),
        (click.FileError("f", "gone"), 2, "Could not open file 'f': gone"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "out"), 2, "out cannot be used: Is a"),
        (PermissionError(errno.EACCES, "Permission denied", "out"), 2, "out cannot be used: Perm"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            2,
            "reading or writing failed: No space",
        ),
        (ValueError(SECRET), 5, "a defect in jobplaybook (ValueError)"),
        (KeyError(SECRET), 5, "a defect in jobplaybook (KeyError)"),
        (ModuleNotFoundError(SECRET), 5, "a defect in jobplaybook (ModuleNotFoundError)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_is_one_line_and_a_code(
    answer: Answer, error: BaseException, code: int, line: str
) -> None:
    """Every error ends in its exit code and one line, without a traceback or a value."""
    result = answer(raising(error))
    assert result.exit_code == code
    said = line_of(result)
    assert said.startswith(line)
    assert SECRET not in said


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1), ("text", 0)])
def test_what_a_command_returns_is_its_code(answer: Answer, returned: object, code: int) -> None:
    """A command that returns a number ends with it; anything else is an answer."""
    result = answer(lambda: returned)
    assert (result.exit_code, result.output) == (code, "")


def test_a_command_may_leave_by_the_context(answer: Answer) -> None:
    """`ctx.exit(1)` is an exit code, not an error."""
    result = answer(lambda: click.get_current_context().exit(1))
    assert (result.exit_code, result.output) == (1, "")


def test_a_closed_pipe_ends_silently(answer: Answer) -> None:
    """Whoever reads has seen enough: no line, no failure."""
    result = answer(raising(BrokenPipeError(errno.EPIPE, "Broken pipe")))
    assert (result.exit_code, result.output) == (0, "")


def test_a_defect_shows_its_place_when_asked(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JOBPLAYBOOK_DEBUG=1 gives the traceback, and the code stays."""
    monkeypatch.setenv("JOBPLAYBOOK_DEBUG", "1")
    result = answer(raising(ValueError("odd")))
    assert result.exit_code == 5
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith("ValueError: odd\n")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["triaje"], ["no command 'triaje'", "did you mean triage?"]),
        (["estimate", "drian"], ["no command 'drian'", "did you mean drain?"]),
        (["qqq"], ["no command 'qqq'", "expected one of sources, capture, "]),
        (["--vresion"], ["--vresion", "--version"]),
        ([*DRAIN, "--backlgo", "1"], ["--backlgo", "--backlog"]),
        ([*DRAIN, "--from", "sample"], ["expected --backlog or --from SOURCE, found both"]),
        ([*DRAIN, "more"], ["unexpected extra argument", "more"]),
        (["estimate", "drain"], ["Missing option", "--backlog"]),
        ([*DRAIN, "--by"], ["--by", "requires an argument"]),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(words: list[str], parts: list[str]) -> None:
    """Wrong usage ends with 2 and a line that says what was wrong and where to look."""
    result = run(*words)
    assert result.exit_code == 2
    said = line_of(result)
    assert [part for part in parts if part not in said] == []
    assert said.endswith("--help)")


@pytest.mark.parametrize(
    "word",
    [
        f"postgresql://ann:{SECRET}@db/jobs",
        f"postgresql://ann:{SECRET}",
        f"postgresql://ann:a b {SECRET}@db/jobs",
        f"postgresql://db/jobs?user=ann&password={SECRET}",
        f"host=db password='{SECRET}'",
        f"host=db password = '{SECRET}",
    ],
)
@pytest.mark.parametrize(
    "words", [[], [*DRAIN], [*DRAIN, "--by"], [*DRAIN, "--limit"], [*DRAIN, "--failure-rate"]]
)
def test_a_password_in_the_wrong_place_is_not_echoed(words: list[str], word: str) -> None:
    """A URL given as a command, an argument or a value is refused without its password."""
    result = run(*words, word)
    assert result.exit_code == 2
    said = line_of(result)
    assert not any(SECRET[at : at + 6] in said for at in range(len(SECRET) - 6))


# As real processes


def test_the_process_ends_as_the_runner_does() -> None:
    """`python -m jobplaybook` has the same output and code."""
    done = process(*DRAIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(*DRAIN).stdout
    refused = process("triaje")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == run("triaje").stderr


@pytest.mark.parametrize("words", [[*DRAIN], [*DRAIN, "--json"], ["--help"], ["estimate"]])
def test_a_reader_that_is_gone_is_no_error(words: list[str]) -> None:
    """Output into a closed pipe ends with 0, without a word, also when Python shuts down."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = process(*words, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@FULL_DEVICE
@pytest.mark.parametrize("words", [[*DRAIN], [*DRAIN, "--json"], ["--help"], ["--version"]])
def test_a_full_disk_is_one_line(words: list[str]) -> None:
    """An answer that cannot be written ends with 2, and Python adds nothing when it shuts down."""
    with Path("/dev/full").open("w") as full:
        done = process(*words, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == (
        "jobplaybook: reading or writing failed: No space left on device; write to another place\n"
    )


@FULL_DEVICE
def test_text_left_in_the_buffer_meets_a_full_disk() -> None:
    """What a command wrote without flushing is an error as well, and one that 2 stands for."""
    with Path("/dev/full").open("w") as full:
        done = probing("sys.stdout.write('answer')", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith("jobplaybook: reading or writing failed: No space left")
    assert done.stderr.count("\n") == 1


def test_closed_streams_are_no_defect() -> None:
    """A program started without stdout and stderr still ends with its code."""
    for words, code in ((DRAIN, 0), (["triaje"], 2)):
        command = [sys.executable, "-m", "jobplaybook", *words]
        shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command]
        assert subprocess.run(shell, env=ENVIRONMENT, check=False).returncode == code


def test_ctrl_c_ends_with_130() -> None:
    """An interrupt while a command works is one line and the code that shells know."""
    script = PROBE.format("print('working', flush=True); sys.stdin.read()")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        [sys.executable, "-c", script, "probe"], env=ENVIRONMENT, text=True, **pipes
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "working\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (130, "jobplaybook: interrupted\n")


def test_main_is_the_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """`jobplaybook.commands:main` answers the words the process was started with."""
    monkeypatch.setattr(sys, "argv", ["jobplaybook", "triaje"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 2


# How an answer is printed


def test_json_has_no_nan(answer: Answer) -> None:
    """NaN and Infinity are no JSON: an answer that holds one is a defect, not a document."""
    result = answer(lambda: _common.emit({"mean": float("inf")}, as_json=True))
    assert (result.exit_code, result.stdout) == (5, "")


def test_a_warning_leaves_the_answer_alone(answer: Answer) -> None:
    """A warning is a line on stderr without secrets; stdout holds the answer only."""

    def body() -> None:
        _common.warn(f"no password on the command line: postgresql://a:{SECRET}@db")
        _common.emit({"n": 1}, as_json=False, lines=["one", "two"])

    result = answer(body)
    assert result.stdout == "one\ntwo\n"
    assert result.stderr == (
        "jobplaybook: warning: no password on the command line: postgresql://***@db\n"
    )
