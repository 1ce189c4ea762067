"""The report runs nothing, loads nothing, and takes nothing that a job said for markup."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pandas as pd
import pytest

import jobplaybook as jp
from jobplaybook import report
from jobplaybook.frames import STANDING, new_frame
from jobplaybook.report import TABLE_MIME, Table, markdown_html, report_html

ATTACKS = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    '"><svg/onload=alert(1)>',
    "[x](javascript:alert(1))",
    "![x](https://tracker.example/p.png)",
    "<https://tracker.example>",
    "{{ 7 * 7 }}{% raw %}",
    "a\x1b]8;;https://evil.example\x07b\u202ec\x00",
)
TAGS = {
    *("a", "code", "em", "img", "span", "strong", "br", "hr", "p", "pre", "blockquote"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "ol", "li", "dl", "dt", "dd"),
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "div", "section", "figure", "details", "summary"),
}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n rest").decode()


class Seen(HTMLParser):
    """What a browser would find in a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_inert(document: str) -> Seen:
    """Assert that a document has no script, no handler, and nothing to fetch."""
    seen = Seen(document)
    assert seen.tags <= TAGS
    for tag, name, value in seen.attributes:
        assert not name.startswith("on"), (tag, name)
        if name == "src":
            assert value.startswith("data:image/png;base64,")
        if name == "href":
            assert value.startswith(("https://", "http://")), value
            assert tag == "a"
    return seen


def document(**more: Any) -> dict[str, Any]:
    return {
        "notebook": "00-start-here",
        "status": "completed",
        "message": "",
        "source": "sample",
        "parameters": {"since": "24h"},
        "snapshot": {"system": "x", "captured_at": "2026-12-01T04:38:47Z", "content_sha256": "0"},
        "versions": {"python": "3.11"},
        "result": None,
        **more,
    }


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(*outputs: Mapping[str, Any], source: str = "1") -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": list(outputs)}


def data(**kinds: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": kinds}


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def verdict_of(text: str) -> dict[str, Any]:
    """Return a result whose every text is the same."""
    finding = {
        "code": text, "severity": text, "sentence": text, "layer": text, "since": text,
        "next": [text], "runbook": text,
    }  # fmt: skip
    return {"verdict": finding, "findings": [finding, {**finding, "code": "other"}]}


def everywhere(text: str) -> str:
    """Return a report in which a text stands wherever a job's text can."""
    bundle = Table(columns=(text,), rows=((text,),), numeric=(False,), note=text)
    error = {"output_type": "error", "ename": text, "evalue": text, "traceback": [text, text]}
    cells = [
        markdown(f"# {text}"),
        markdown(f"**x** {text}\n\n- {text}\n\n| a | b |\n|---|---|\n| {text} | x |\n\n## {text}"),
        code(stream(text), stream(text, "stderr"), error, source=text),
        code(data(**{"text/plain": text, "text/html": text, "image/svg+xml": text})),
        code(data(**{"image/png": text, "text/plain": text})),
        code(data(**{"image/png": PNG, "text/plain": text})),
        code(data(**{"application/json": {text: text}})),
        code(data(**bundle._repr_mimebundle_())),
        code(
            data(
                **{TABLE_MIME: {"columns": [text], "rows": [[text]], "numeric": [0], "note": text}}
            )
        ),
    ]
    facts = {"source": text, "message": text, "status": text, "parameters": {"since": text}}
    return report_html(cells, document(**facts, result=verdict_of(text)))


# Nothing runs


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_inert_everywhere(attack: str) -> None:
    """Wherever a job's text may stand it stays text: no tag, no handler, no foreign link."""
    page = everywhere(attack)
    seen = assert_inert(page)
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "\x00" not in page
    if attack.startswith("<img"):
        assert attack in seen.text


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_is_inert_everywhere(text: str) -> None:
    """No text at all makes a tag that the template does not have."""
    assert_inert(everywhere(text))


@pytest.mark.parametrize("attack", ATTACKS)
def test_tables_in_the_notebook_are_inert(attack: str) -> None:
    """What JupyterLab shows is escaped as well, headers included."""
    frame = pd.DataFrame(
        {
            "queue": pd.Series([attack], dtype="object"),
            "state": pd.Series([attack], dtype="object"),
            "jobs": pd.Series([1], dtype="int64"),
            "oldest_seconds": pd.Series([65.0], dtype="float64"),
        }
    )
    bundle = report.table(frame, STANDING)._repr_mimebundle_()
    seen = assert_inert(bundle["text/html"])
    assert seen.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert all(character.isprintable() or character == "\n" for character in bundle["text/plain"])
    assert "1 min 5 s" in bundle["text/plain"]


def test_the_report_forbids_itself_everything() -> None:
    """A browser is told to load nothing, should anything slip through."""
    policy = next(
        value
        for _, name, value in assert_inert(everywhere("x")).attributes
        if "default-src" in value
    )
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")


def test_html_that_a_cell_printed_is_not_used() -> None:
    """A cell's own HTML is dropped for its text: it may hold anything."""
    page = report_html(
        [code(data(**{"text/html": "<b>bold</b>", "text/plain": "plain"}))], document()
    )
    assert "plain" in Seen(page).text
    assert "bold" not in page


@pytest.mark.parametrize("encoded", ["not base64!", base64.b64encode(b"<svg/>").decode(), 7, ""])
def test_only_a_png_is_a_picture(encoded: Any) -> None:
    """What claims to be a PNG and is none is shown as its words."""
    page = report_html([code(data(**{"image/png": encoded, "text/plain": "words"}))], document())
    assert "img" not in Seen(page).tags
    assert "words" in Seen(page).text


# What it shows


def test_the_verdict_stands_first() -> None:
    """Before anything else comes the answer, with its next step."""
    verdict = {"code": "lease-expired", "layer": "claimed", "since": "2026-12-01T04:37:42.150246Z"}
    finding = {
        **verdict,
        "severity": "page",
        "sentence": "4 jobs wait.",
        "next": ["Look: SELECT 1"],
    }
    result = {"verdict": finding, "findings": [finding]}
    page = report_html([markdown("# Why?\n\nbecause")], document(result=result))
    text = Seen(page[page.index("<body>") :]).text
    assert text.index("Why?") < text.index("4 jobs wait.") < text.index("because")
    assert "PAGE · claimed · lease-expired · since 2026-12-01 04:37:42Z" in text
    assert "<code>SELECT 1</code>" in page


def test_a_run_that_did_not_complete_says_so_on_top() -> None:
    """Nobody takes half a report for a whole one."""
    page = report_html(
        [markdown("# Why?")], document(status="timed-out", message="cell 3 ran longer than 1 min")
    )
    text = Seen(page).text
    assert "This run did not complete: timed-out." in text
    assert "cell 3 ran longer than 1 min" in text
    assert 'role="alert"' in page


def test_words_about_a_step_that_shows_nothing_are_folded_into_it() -> None:
    """A reader sees questions and answers; how it was set up is there to be opened."""
    silent = {**code(source="x = 1"), "execution_count": 1}
    loud = {**code(stream("shown"), source="x"), "execution_count": 2}
    cells = [markdown("of the set-up"), silent, markdown("of the answer"), loud, markdown("end")]
    page = report_html(cells, document())
    inside, outside = re.findall(r"<details class=.code.>.*?</details>", page, re.DOTALL), page
    for part in inside:
        outside = outside.replace(part, "")
    assert ["of the set-up" in part for part in inside] == [True, False]
    assert "of the set-up" not in outside
    assert all(words in outside for words in ("of the answer", "shown", "end"))


def test_words_stay_where_a_step_did_not_run() -> None:
    """A heading, and the words before a cell that never ran, are not put away."""
    silent = {**code(source="x = 1"), "execution_count": 1}
    for words, cell in (("## A question", silent), ("about what never ran", code(source="x"))):
        page = report_html([markdown(words), cell], document())
        assert words.lstrip("# ") in page.partition("<details")[0]


def test_links_lead_to_the_web_or_nowhere() -> None:
    """A file beside the notebook is not beside the report: its name stays, the link goes."""
    page = str(
        markdown_html("[lease](../runbooks/lease.md) [web](https://a.example) [m](mailto:a@b)")
    )
    assert '<a href="https://a.example" rel="noreferrer">web</a>' in page
    assert page.count("<a ") == 1
    assert '<span class="path">lease</span>' in page


def test_long_output_is_cut_and_says_so() -> None:
    """Ten megabytes of an error's text do not make a report that no phone can open."""
    page = report_html([code(stream("x" * 10_000_000))], document())
    assert len(page) < 100_000
    assert "cut here" in page


def test_a_result_of_another_shape_is_no_card() -> None:
    """A notebook of the user's own may end in any object."""
    for result in (None, {}, {"verdict": "text"}, {"verdict": {}, "findings": ["text"]}):
        assert_inert(report_html([markdown("# T")], document(result=result)))


def test_a_table_says_what_it_leaves_out() -> None:
    """Twenty rows are shown, the others are counted."""
    with jp.open_snapshot("sample") as snapshot:
        frame = jp.standing(snapshot)
    table = report.table(frame, STANDING, limit=2)
    assert len(table.rows) == 2
    assert table.note == f"{len(frame) - 2} more rows not shown"
    assert table.note in table.html()
    assert table.note in str(table)


def test_a_table_that_is_cut_shows_what_is_stuck() -> None:
    """Of many queues those whose jobs run or wait longest stay, whatever their names."""
    states = [("completed", 9e6), ("scheduled", 8e6), ("dead", 7e6), ("processing", 1.0)]
    rows: list[tuple[str, str, int, float | None]]
    rows = [(f"q{n:02}", state, 1, age) for n in range(10) for state, age in states]
    rows += [("zz", "processing", 4, 600.0), ("zz", "available", 2, None)]
    shown = report.table(new_frame(STANDING, rows), STANDING).rows
    assert [row[0] for row in shown[:2]] == ["zz", "q00"]
    assert [row[1] for row in shown] == ["processing"] * 11 + ["available"] + ["dead"] * 8
    whole = report.table(new_frame(STANDING, rows), STANDING, limit=99).rows
    assert [row[:2] for row in whole] == [row[:2] for row in rows]


# In a browser


def browse(page: Path, folder: Path) -> tuple[str, list[str], list[str]]:
    """Return a page's title after it ran, what its console said, and whom it asked.

    The browser asks its maker on its own account: hosts of the page end in ``.example``.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs chromium")
    log = folder / "net.json"
    done = subprocess.run(
        [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--dump-dom",
            "--virtual-time-budget=2000", f"--log-net-log={log}", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    events = json.loads(log.read_text())["events"]
    urls = {str(event.get("params", {}).get("url", "")) for event in events}
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None, done.stderr
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return title[1], said, sorted(url for url in urls if ".example" in url)


TAKES_OVER = "<img src=https://tracker.example/x onerror=\"document.title='TAKEN'\">"


def test_a_browser_finds_nothing_to_run_or_load(tmp_path: Path) -> None:
    """With every attack in it, the page asks for nothing, says nothing and stays as it was."""
    page = tmp_path / "report.html"
    page.write_text(everywhere(" ".join((*ATTACKS, TAKES_OVER))))
    title, said, asked = browse(page, tmp_path)
    assert title != "TAKEN"
    assert (said, asked) == ([], [])


def test_the_browser_test_bites(tmp_path: Path) -> None:
    """A page that is taken over, complains and loads is seen to do all three."""
    page = tmp_path / "bad.html"
    page.write_text(f"<title>a</title><script>console.error('x')</script>{TAKES_OVER}")
    title, said, asked = browse(page, tmp_path)
    assert title == "TAKEN"
    assert said
    assert asked
