"""The README says what the program does: its screen, its Python, its commands, its files."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jobplaybook.commands import cli
from jobplaybook.units import shown
from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
COMMANDS = [
    re.sub(r"\s#.*", "", line).strip()
    for language, block in BLOCK.findall(README)
    if language == "sh"
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("jobplaybook ")
]


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(README) if name == language]


def test_the_screen_is_the_programs_own() -> None:
    """The first screen shows a real verdict: what the command prints today, to the letter."""
    (block,) = blocks("console")
    prompt, _, screen = block.partition("\n")
    words = shlex.split(prompt.removeprefix("$ jobplaybook "))
    assert CliRunner().invoke(cli, words).output == screen


def test_the_python_is_true() -> None:
    """The lines of Python give what stands beside them."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for number, block in enumerate(blocks("pycon")):
        runner.run(parser.get_doctest(block, {}, f"README {number}", "README.md", 0))
    assert runner.summarize().attempted > 0
    assert runner.failures == 0


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_one_of_ours(line: str, tmp_path: Path) -> None:
    """Each command line parses with the real command line, options and all."""
    group: click.Command = cli
    words = shlex.split(line)[1:]
    while isinstance(group, click.Group):
        context = click.Context(group)
        found = group.get_command(context, words[0])
        assert found is not None, f"no command {shown(words[0])}"
        group, words = found, words[1:]
    group.make_context("jobplaybook", words, resilient_parsing=False)


def test_commands_were_found() -> None:
    """The check above is not empty."""
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_every_link_leads_to_a_file(link: str) -> None:
    """What the README points at is there."""
    assert (REPOSITORY / link).exists()
