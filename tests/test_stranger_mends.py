"""What a stranger's slips deserve: an answer in one line, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

from jobplaybook import api
from jobplaybook.commands import COMMANDS, _common, cli
from jobplaybook.errors import InputError
from jobplaybook.notebooks.plan import plan_run
from tests.captures import capture, command_line, files, refusal
from tests.postgres import Database
from tests.procrastinate_app import filled, install
from tests.small_notebooks import notebook, run

UNSET = "found an empty one: is the variable set?"


# Values that are empty, of other bytes, or in the wrong place


def parameters(command: click.Command) -> Iterator[click.Parameter]:
    """Yield every parameter of a command and of the commands below it."""
    yield from command.params
    for below in getattr(command, "commands", {}).values():
        yield from parameters(below)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_text_is_of_a_kind_that_refuses_an_empty_one(name: str) -> None:
    """An unset variable must not become a question about nothing: no bare text, no bare path."""
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    for parameter in parameters(command):
        assert not isinstance(parameter.type, (click.types.StringParamType, click.Path)), parameter


@pytest.mark.parametrize("empty", ["", " "])
@pytest.mark.parametrize(
    "words",
    [
        ("triage",),
        ("health",),
        ("find", "--job", "1"),
        ("timeline", "1"),
        ("postmortem", "-o", "pm"),
        ("capture", "-o", "k.db"),
        ("estimate", "drain", "--from"),
    ],
)
def test_an_empty_source_is_told_so(words: tuple[str, ...], empty: str, tmp_path: Path) -> None:
    """`triage "$UNSET"` names the likeliest cause, in every command."""
    at = 2 if words[0] == "timeline" else len(words)
    placed = (words[0], empty, *words[1:]) if at == 2 else (*words, empty)
    done = command_line(*placed, cwd=tmp_path)
    assert (done.returncode, files(tmp_path)) == (2, [])
    assert f"expected a SOURCE, {UNSET}" in refusal(done)


def test_an_empty_source_is_told_so_in_python() -> None:
    """The functions say the same."""
    with pytest.raises(InputError, match="expected a SOURCE, found an empty one"):
        api.triage("")
    with pytest.raises(InputError, match="expected a value, found an empty one"):
        api.find("sample", by="tenant", value="")
    with pytest.raises(InputError, match="expected a job id, found an empty one"):
        api.timeline("sample", " ")


@pytest.mark.parametrize(
    "words",
    [
        *(("find", "sample", f"--{by}", "") for by in ("key", "tenant", "provider-id", "delivery")),
        ("find", "sample", "--job="),
        ("timeline", "sample", ""),
        ("health", "sample", "--queue", ""),
        ("triage", "sample", "--system", ""),
        ("triage", "sample", "--key-file", ""),
        ("run", "", "sample", "-o", "a.ipynb"),
        ("run", "00", "sample", "-o", ""),
        ("run", "00", "sample", "-o", "a.ipynb", "--html", ""),
        ("postmortem", "sample", "-o", ""),
        ("runbook", ""),
        ("simulate", ""),
    ],
)
def test_an_empty_value_is_no_question(words: tuple[str, ...], tmp_path: Path) -> None:
    """Law: a value of nothing is bad input, not an answer "no job found"."""
    done = command_line(*words, cwd=tmp_path)
    assert (done.returncode, files(tmp_path)) == (2, [])
    assert f"expected a value, {UNSET}" in refusal(done)


OUTPUTS = [
    ("run", "00", "sample", "-o"),
    ("run", "all", "sample", "-o"),
    ("run", "00", "sample", "-o", "a.ipynb", "--html"),
    ("postmortem", "sample", "-o"),
    ("capture", "env:U", "-o"),
    ("triage", "env:U", "--keep"),
    ("triage", "env:U", "--key-file"),
]


@pytest.mark.parametrize("words", OUTPUTS)
def test_an_output_is_named_in_utf_8(words: tuple[str, ...], tmp_path: Path) -> None:
    """Other bytes are refused before any work, for what is written names it."""
    done = command_line(*words, "a\udcff.ipynb", cwd=tmp_path)
    assert (done.returncode, files(tmp_path)) == (2, [])
    assert "expected text in UTF-8, found 'a?.ipynb'" in refusal(done)


def test_what_is_looked_for_is_in_utf_8() -> None:
    """A value that could be in no database is bad input, and no defect."""
    done = command_line("find", "sample", "--tenant", "\udcff")
    assert done.returncode == 2
    assert "expected text in UTF-8" in refusal(done)


@pytest.mark.parametrize("words", OUTPUTS[:-1])
def test_a_dash_is_no_output(words: tuple[str, ...], tmp_path: Path) -> None:
    """`-o -` makes no file of that name."""
    done = command_line(*words, "-", cwd=tmp_path)
    assert (done.returncode, files(tmp_path)) == (2, [])
    assert "expected a file to write, found '-'" in refusal(done)
    with pytest.raises(click.BadParameter, match="stdout is for --json"):
        _common.OUTPUT.convert("-", None, None)


def test_a_follow_up_can_be_copied_whatever_the_file_is_called(
    database: Database, tmp_path: Path
) -> None:
    """A name that begins with a dash is written so that it is no option."""
    url = filled(install(database.url))
    done = command_line("capture", "env:U", "-o", "--x.db", environ={"U": url}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    follow = done.stdout.splitlines()[-1]
    assert follow == "next: jobplaybook triage ./--x.db"
    assert command_line(*follow.split()[2:], cwd=tmp_path).returncode == 0


# What to do next is said


def test_a_missing_key_is_told_where_it_is(database: Database, tmp_path: Path) -> None:
    """Whoever was sent a snapshot alone is told what to ask for, and so is one with another key."""
    url = filled(install(database.url))
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        capture(url, tmp_path / name / "k.db")
    key = tmp_path / "mine" / "jobplaybook.key"
    key.rename(tmp_path / "moved.key")
    words = ("find", str(tmp_path / "mine" / "k.db"), "--tenant", "t1", "--key-file")
    advice = "get jobplaybook.key from whoever captured it, and name it with --key-file"
    for found, file in (("none", key), ("another", tmp_path / "theirs" / "jobplaybook.key")):
        told = refusal(command_line(*words, str(file)))
        assert f"found {found}: {advice}" in told
    assert command_line(*words, str(tmp_path / "moved.key")).returncode == 0
    (blind,) = api.find(str(tmp_path / "mine" / "k.db"), by="delivery", value="1").warnings
    assert "deliveries are not recorded" in blind


SECRET = "s3cr3t-canary"


@pytest.mark.parametrize(
    ("source", "value", "said"),
    [
        ("env:U", "postgresql://ann:{}@127.0.0.1:1/app", "env:U (127.0.0.1:1/app as ann)"),
        ("env:U", "host=127.0.0.1 port=1 password={}", "env:U (127.0.0.1:1)"),
        ("env:U", "postgresql://[::1]:1/app?password={}", "env:U ([::1]:1/app)"),
        ("env:U", "host=127.0.0.1 port=1 user=postgresql://u:{}@h", "env:U (127.0.0.1:1)"),
        ("postgresql://ann:{}@127.0.0.1:1/app", "", "127.0.0.1:1/app as ann"),
        ("service=there", "", "service=there"),
    ],
)
def test_a_server_that_does_not_answer_is_named(
    source: str, value: str, said: str, tmp_path: Path
) -> None:
    """Which of the databases it was: all that the URL says but the password, none of a service."""
    (tmp_path / "services").write_text(f"[there]\nhost=127.0.0.1\nport=1\npassword={SECRET}\n")
    environ = {"U": value.format(SECRET), "PGSERVICEFILE": str(tmp_path / "services")}
    done = command_line("triage", source.format(SECRET), environ=environ)
    reason = "nothing listens at that host and port"
    assert (done.returncode, SECRET in done.stderr) == (4, False)
    assert f"jobplaybook: cannot connect to {said}: {reason}\n" in done.stderr


# Notebooks


@pytest.mark.parametrize(
    ("notebook", "name", "value", "said"),
    [
        ("02-queue-health", "queue", "mial", "found 'mial': did you mean 'mail'?"),
        ("all", "queue", "nosuch", "expected a queue of this snapshot, found 'nosuch'"),
        ("01", "events", '[["banana","x"]]', "the parameter events: expected a time like"),
        ("10", "events", "[5]", "the parameter events: expected an event like"),
        ("10", "events", '["now=x"]', "the parameter events: expected a time like"),
        ("00", "since", "banana", "the parameter since: expected a duration like"),
        ("00", "now", "banana", "the parameter now: expected a time like"),
        ("02", "bucket", "banana", "the parameter bucket: expected a duration like"),
        ("07", "by", "banana", "the parameter by: expected a duration like"),
        ("07", "workers", "0", "the parameter workers: expected a whole number from 1"),
        ("07", "quota", "banana", "the parameter quota: expected a rate like"),
    ],
)
def test_a_bad_value_is_found_before_a_kernel_starts(
    notebook: str, name: str, value: str, said: str, tmp_path: Path
) -> None:
    """Exit code 2 and nothing written, not a failed notebook."""
    out = "out" if notebook == "all" else "out.ipynb"
    done = command_line("run", notebook, "sample", "-o", out, "-p", name, value, cwd=tmp_path)
    assert (done.returncode, files(tmp_path)) == (2, []), done.stderr
    assert said in refusal(done)


def test_the_postmortem_refuses_a_bad_event_too(tmp_path: Path) -> None:
    """The folder that it would have made is not left behind."""
    events = '[["banana","x"]]'
    done = command_line("postmortem", "sample", "-o", "pm", "-p", "events", events, cwd=tmp_path)
    assert (done.returncode, files(tmp_path)) == (2, [])
    assert "the parameter events: expected a time like" in refusal(done)


def test_an_event_may_be_a_line_in_every_notebook(tmp_path: Path) -> None:
    """`TIME=TEXT` and `[TIME, TEXT]` mean the same; a queue that is there is taken."""
    line = "2026-12-01T04:37:40Z=node drained"
    for name in ("01-timeline", "10-postmortem"):
        plan = plan_run(name, parameters={"events": [line]}, output=tmp_path / "a.ipynb")
        assert plan.values["events"] == [["2026-12-01T04:37:40Z", "node drained"]]


def test_the_workers_of_a_recovery_are_a_number(tmp_path: Path) -> None:
    """A parameter that is None by default is read from text, as every other."""
    plan = plan_run("07", parameters={"workers": "8"}, output=tmp_path / "a.ipynb")
    assert plan.values == {"workers": 8}


def test_a_persons_own_notebook_has_its_own_meanings(tmp_path: Path) -> None:
    """A parameter that only has the name of one of ours is not judged as ours."""
    own = notebook(
        tmp_path, "queue, events", parameters='source = "sample"\nqueue = ""\nevents = []'
    )
    ran = run(own, parameters={"queue": "nosuch", "events": [5]})
    assert ran.status == "completed", ran.message


@pytest.mark.parametrize("is_ours", [True, False])
def test_an_earlier_report_does_not_stay_beside_a_failed_run(is_ours: bool, tmp_path: Path) -> None:
    """It would look valid: it tells of the failure too, asked for or not; no other file does."""
    out, html = tmp_path / "out.ipynb", tmp_path / "out.html"
    good = notebook(tmp_path, "1")
    assert api.run_notebook(good, output=out, html=html).status == "completed"
    if not is_ours:
        html.write_text("<p>mine")
    ran = api.run_notebook(notebook(tmp_path, "1 / 0"), output=out)
    assert (ran.status, ran.html) == ("failed", html if is_ours else None)
    assert ("This run did not complete: failed." in html.read_text()) is is_ours
    assert api.run_notebook(notebook(tmp_path, "1 / 0"), output=out, html=html).html == html


def test_a_home_that_cannot_be_written_is_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """matplotlib says nothing of it in the notebook, and leaves nothing in the temporary folder."""
    (tmp_path / "tmp").mkdir()
    for name in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    own = notebook(tmp_path, "import matplotlib.font_manager")
    outputs = []
    for home in ("/dev/null/home", str(tmp_path)):
        environ = {"HOME": home, "TMPDIR": str(tmp_path / "tmp")}
        out = str(tmp_path / "out.ipynb")
        done = command_line("run", str(own), "sample", "-o", out, environ=environ)
        assert (done.returncode, files(tmp_path / "tmp")) == (0, [])
        outputs.append(json.loads(Path(out).read_text())["cells"][-1]["outputs"])
    assert outputs == [[], []]


def test_a_limit_is_never_no_time_at_all(tmp_path: Path) -> None:
    """A millisecond is said as one, not as 0 s."""
    with pytest.raises(InputError, match=r"choose a --bucket of at least 30 ms$"):
        api.health("sample", bucket_seconds=0.001)
    assert api.health("sample", bucket_seconds=0.03).bucket_seconds == 0.03
    ran = run(notebook(tmp_path, "while True: pass"), cell_seconds=0.001)
    assert "ran longer than 1 ms" in ran.message


def test_health_of_thousands_of_queues_fits_a_screen() -> None:
    """The twelve that matter are shown and the rest counted; the JSON has them all."""
    pulse = api.health("sample")
    (state, *_), (queue, *_) = pulse.situation.queues, pulse.queues
    names = [f"q{number:04}" for number in range(3_000)]
    states = tuple(replace(state, queue=n) for n in names)
    queues = tuple(replace(queue, queue=n, waiting=int(n[1:]), claimable=1) for n in names)
    many = replace(
        pulse, queues=queues, situation=replace(pulse.situation, queues=states), series=()
    )
    lines = str(many).split("\n")
    assert len(lines) < 40
    assert lines[1].startswith("q2999")
    assert f"and 2,988 queues more: 2,988 {queue.state} (--json has them all)" in lines
    assert len(many.to_json()["queues"]) == 3_000
    assert "more:" not in str(pulse)
