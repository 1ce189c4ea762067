"""The report: an executed notebook as one HTML file that runs nothing and loads nothing.

Text that comes from jobs is never trusted: control and bidi characters go, everything is escaped,
raw HTML in Markdown stays text, and HTML that a cell printed is not used at all: a table is made
again from its cells.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobplaybook.frames import STANDING, TIME, Column, FrameSchema, check_frame
from jobplaybook.units import clock_text, count_text, duration_text, plain, to_micros

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

TABLE_MIME = "application/vnd.jobplaybook.table+json"
_MOST_ROWS, _MOST_LETTERS = 20, 20_000
_CONCERN = {"processing": 0, "available": 0, "retryable": 1, "held": 1, "dead": 1}
"""What runs or should run now; what is put off or given up; then all that has its time or end."""
_PHONE_LINE, _LINE = 72, 100  # letters that fit
_PNG = b"\x89PNG\r\n\x1a\n"
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TEMPLATES = Path(__file__).parent / "templates"
Cells = Sequence[Mapping[str, Any]]


def readable(text: str) -> str:
    r"""Return text without control and bidi characters; its lines stay.

    Examples
    --------
    >>> readable("a\x1b[31mb\nc\u202ed")
    'ab\nc?d'
    """
    lines = _ANSI.sub("", text).expandtabs(4).splitlines()
    return "\n".join(plain(line) for line in lines)


def _escaped(text: str) -> str:
    return html.escape(readable(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A few rows for people: as text, as HTML, and as JSON for the report.

    Columns are headers, with units where the cells have none; numeric ones are set to the right.
    The note says what is not shown.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    note: str = ""

    def __str__(self) -> str:
        lines = [[plain(cell) for cell in line] for line in (self.columns, *self.rows)]
        columns = zip(zip(*lines, strict=True), self.numeric, strict=True)
        padded = (_padded(column, right) for column, right in columns)
        text = "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))
        return f"{text}\n{self.note}" if self.note else text

    def html(self) -> str:
        """Return an HTML table whose every cell is escaped."""
        head = self._line("th", self.columns)
        body = "".join(self._line("td", row) for row in self.rows)
        note = f"<caption>{_escaped(self.note)}</caption>" if self.note else ""
        return f"<table>{note}<thead>{head}</thead><tbody>{body}</tbody></table>"

    def _line(self, tag: str, cells: Iterable[str]) -> str:
        row = (
            f'<{tag} style="text-align:{"right" if right else "left"}">{_escaped(cell)}</{tag}>'
            for cell, right in zip(cells, self.numeric, strict=True)
        )
        return f"<tr>{''.join(row)}</tr>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": str(self), "text/html": self.html(), TABLE_MIME: asdict(self)}


def _padded(column: Sequence[str], right: bool) -> list[str]:
    width = max(map(len, column))
    return [cell.rjust(width) if right else cell.ljust(width) for cell in column]


def table(frame: pd.DataFrame, schema: FrameSchema, *, limit: int = _MOST_ROWS) -> Table:
    """Return the first rows of a frame as a `Table`: durations and counts in words.

    The note says how many rows more there are. Where jobs stand is not cut by the queue's name:
    what runs or waits comes first then, the oldest on top, so that nothing stuck is hidden.
    """
    shown = check_frame(frame, schema)
    rest = max(len(shown) - limit, 0)
    if rest and schema is STANDING:
        rank = shown["state"].map(_CONCERN).fillna(len(_CONCERN))
        by_concern = shown.assign(rank=rank).sort_values(
            ["rank", "oldest_seconds"], ascending=[True, False], kind="stable"
        )
        shown = by_concern[list(schema)]
    return Table(
        columns=tuple(name.removesuffix("_seconds").replace("_", " ") for name in schema),
        rows=tuple(
            tuple(_cell(value, column) for value, column in zip(row, schema.values(), strict=True))
            for row in shown.head(limit).itertuples(index=False)
        ),
        numeric=tuple(bool(column.unit) for column in schema.values()),
        note=f"{count_text(rest, 'more row')} not shown" if rest else "",
    )


def _cell(value: Any, column: Column) -> str:
    if value is None or value != value:  # a hole is None or NaN, by the column's type
        return "-"
    if column.unit == "s":
        return duration_text(value)
    if column.dtype == TIME:
        return clock_text(to_micros(value.to_pydatetime()))
    return f"{value:,}" if column.dtype == "int64" else str(value)


def report_html(cells: Cells, document: Mapping[str, Any]) -> str:
    """Return the report of an executed notebook: one HTML document, for print and phone too.

    ``document`` is what the run left in its ``OUT.result.json``.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printed,
    )
    title, body = _titled(cells)
    return environment.get_template("report.html.j2").render(
        title=title,
        card=_card(document.get("result")),
        document=document,
        as_of=to_the_second(document["snapshot"]["captured_at"]),
        blocks=[block for cell in _folded(body) for block in _blocks(cell)],
        facts=_facts(document),
    )


def _printed(value: Any) -> Any:
    """Clean whatever a template prints; what is marked as HTML has been cleaned already."""
    return value if hasattr(value, "__html__") or value is None else readable(str(value))


def _titled(cells: Cells) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the notebook's H1 and its cells without that line."""
    found = ""
    body: list[Mapping[str, Any]] = []
    for cell in cells:
        source = "".join(cell["source"])
        head = re.match(r"\s*# (.+)\n?", source) if cell["cell_type"] == "markdown" else None
        if head and not found:
            found, source = head[1].strip(), source[head.end() :]
        body.append({**cell, "source": source})
    return found or "Report", body


def _folded(cells: Cells) -> Iterator[Mapping[str, Any]]:
    """Put the words before a step that shows nothing into that step: they are about its code."""
    words: Mapping[str, Any] | None = None
    for cell in cells:
        ran = cell["cell_type"] == "code" and cell.get("execution_count") is not None
        if words is not None and ran and not cell["outputs"]:
            yield {**cell, "words": words["source"]}
            words = None
            continue
        if words is not None:
            yield words
        is_aside = cell["cell_type"] == "markdown" and not cell["source"].lstrip().startswith("#")
        words = cell if is_aside else None
        if words is None:
            yield cell
    if words is not None:
        yield words


def _card(result: Any) -> dict[str, Any] | None:
    """Return what the verdict's card shows, or None where the result holds no verdict."""
    verdict = result.get("verdict") if isinstance(result, Mapping) else None
    if not isinstance(verdict, Mapping):
        return None
    findings = [f for f in result.get("findings") or [] if isinstance(f, Mapping)]
    first = next((f for f in findings if f.get("code") == verdict.get("code")), {})
    others = [f for f in findings if f is not first]
    severity = "ok" if verdict.get("code") == "healthy" else str(verdict.get("severity", "note"))
    return {
        "severity": severity if severity in ("page", "ticket", "ok") else "note",
        "code": verdict.get("code", ""),
        "layer": verdict.get("layer"),
        "since": to_the_second(verdict.get("since")),
        "sentence": verdict.get("sentence", ""),
        "next": [_step(str(step)) for step in first.get("next") or verdict.get("next") or []],
        "runbook": first.get("runbook") or f"runbooks/{verdict.get('code', '')}.md",
        "others": [(f.get("severity"), f.get("code"), f.get("sentence")) for f in others],
    }


def _step(text: str) -> tuple[str, str]:
    """Return a step's words and, apart, the statement that is to be copied."""
    found = re.fullmatch(r"(.*?: )((?:SELECT|UPDATE|INSERT|DELETE|WITH)\b.*)", text, re.DOTALL)
    return (found[1], found[2]) if found else (text, "")


def to_the_second(time: Any) -> str:
    """Return an ISO 8601 time for people; nothing for none.

    Examples
    --------
    >>> to_the_second("2026-12-01T03:45:22.250000Z")
    '2026-12-01 03:45:22Z'
    """
    return plain(re.sub(r"\.\d+", "", str(time)).replace("T", " ")) if time else ""


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    snapshot, versions = document["snapshot"], document["versions"]
    parameters = document["parameters"]
    return [
        ("source", document["source"]),
        ("system", snapshot["system"]),
        ("captured at", snapshot["captured_at"]),
        ("snapshot SHA-256", snapshot["content_sha256"]),
        ("notebook", document["notebook"]),
        ("parameters", ", ".join(f"{k} = {json.dumps(v)}" for k, v in parameters.items())),
        ("made with", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One piece of the report's body; the template has a form for each kind."""

    kind: str
    text: str = ""
    markup: Markup | None = None

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The lines of a text, and how long each is: what does not fit is wrapped."""
        cut = readable(self.text[:_MOST_LETTERS])
        more = "\n… cut here" if len(self.text) > _MOST_LETTERS else ""
        return [(line, _length(line)) for line in (cut + more).split("\n")]


def _length(line: str) -> str:
    return "short" if len(line) <= _PHONE_LINE else "middle" if len(line) <= _LINE else "long"


def _blocks(cell: Mapping[str, Any]) -> Iterator[Block]:
    if cell["cell_type"] == "markdown":
        yield Block(kind="markdown", markup=markdown_html(cell["source"]))
    elif cell["cell_type"] == "code":
        yield from (_output(output) for output in cell.get("outputs", ()))
        words = markdown_html(cell["words"]) if "words" in cell else None
        yield Block(kind="code", text=cell["source"], markup=words)


def _output(output: Mapping[str, Any]) -> Block:
    kind = output.get("output_type")
    if kind == "stream":
        name = "warning" if output.get("name") == "stderr" else "text"
        return Block(kind=name, text="".join(output.get("text", "")))
    if kind == "error":
        text = "\n".join(output.get("traceback") or [str(output.get("evalue", ""))])
        return Block(kind="error", text=text)
    data = output.get("data", {})
    said = "".join(data.get("text/plain", ""))
    if (made := _table_markup(data.get(TABLE_MIME))) is not None:
        return Block(kind="table", markup=made)
    if picture := _picture(data.get("image/png")):
        return Block(kind="picture", text=said, markup=picture)
    if "application/json" in data:
        return Block(kind="json", text=json.dumps(data["application/json"], indent=2))
    return Block(kind="text", text=said)


def _table_markup(document: Any) -> Markup | None:
    from markupsafe import Markup

    if not isinstance(document, Mapping):
        return None
    made = Table(
        columns=tuple(map(str, document["columns"])),
        rows=tuple(tuple(map(str, row)) for row in document["rows"]),
        numeric=tuple(map(bool, document["numeric"])),
        note=str(document["note"]),
    )
    return Markup(made.html())


def _picture(encoded: Any) -> Markup | None:
    """Return a PNG as a data URL; anything else is no picture."""
    from markupsafe import Markup

    try:
        raw = base64.b64decode("".join("".join(encoded).split()), validate=True)
    except (TypeError, ValueError, binascii.Error):
        return None
    if not raw.startswith(_PNG):
        return None
    return Markup("data:image/png;base64," + base64.b64encode(raw).decode())


def markdown_html(source: str) -> Markup:
    r"""Return Markdown as HTML: raw HTML stays text, no image, only links to the web.

    Examples
    --------
    >>> markdown_html("**4** jobs <img src=x>")
    Markup('<p><strong>4</strong> jobs &lt;img src=x&gt;</p>\n')
    """
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(readable(source))
    for token in tokens:
        _keep_web_links(token.children or [])
    return Markup(parser.renderer.render(tokens, parser.options, {}))


def _keep_web_links(tokens: Iterable[Any]) -> None:
    """Make every other link plain text: a report stands alone, beside no other file."""
    tags: list[str] = []
    for token in tokens:
        if token.type == "link_open":
            web = str(token.attrs.get("href", "")).startswith(("https://", "http://"))
            token.attrs = {**token.attrs, "rel": "noreferrer"} if web else {"class": "path"}
            tags.append("a" if web else "span")
            token.tag = tags[-1]
        elif token.type == "link_close":
            token.tag = tags.pop()
