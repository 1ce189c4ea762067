"""Tables of a verdict for the document at the end: whom it hits, what it rests on, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobplaybook.detectors.findings import Finding, in_order, short
from jobplaybook.model import Severity
from jobplaybook.report import Table, to_the_second
from jobplaybook.units import count_text, duration_text, iso, plain
from jobplaybook.verdict import Triage

_MOST_PARTS = 5


def text_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[bool] = (),
    note: str = "",
) -> Table:  # fmt: skip
    """Return a table of cells that are words already; numeric columns are set to the right."""
    return Table(
        columns=tuple(columns),
        rows=tuple(tuple(row) for row in rows),
        numeric=tuple(numeric) or tuple(False for _ in columns),
        note=note,
    )


def blast_radius(answer: Triage) -> Table:
    """Return whom each finding hits: jobs, tenants, types, and the first job ids."""
    hit = [finding for finding in answer.findings if finding.radius.jobs]
    rows = (
        (
            f.code, f.severity.word, f"{f.radius.jobs:,}", _known(f.radius.tenants),
            _known(f.radius.types), _ids(f),
        )
        for f in hit
    )  # fmt: skip
    columns = ("finding", "severity", "jobs", "tenants", "types", "job ids, the first ones")
    return text_table(
        columns,
        rows,
        numeric=(False, False, True, True, True, False),
        note="" if hit else "no finding names a job",
    )


def _known(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _ids(finding: Finding) -> str:
    ids = in_order(finding.job_ids)
    more = finding.radius.jobs - len(ids)
    return ", ".join(short(i, 40) for i in ids) + (
        f" and {more:,} more" if ids and more > 0 else ""
    )


def evidence(answer: Triage) -> Table:
    """Return what each finding rests on."""
    grave = [f for f in answer.findings if f.severity > Severity.NOTE]
    rows = [
        (finding.code, name.replace("_", " "), _value(name, value))
        for finding in grave
        for name, value in finding.evidence.items()
        if value not in (None, [], {}, "")
    ]
    return text_table(
        ("finding", "what", "found"), rows, note="" if rows else "no finding above a note"
    )


def _value(name: str, value: Any) -> str:
    """Return a piece of evidence in words."""
    if isinstance(value, Mapping):
        # an inner name says what its value is; a worker's or a queue's name does not
        value = [
            f"{short(key.replace('_', ' '), 40)}: {_value(key if '_' in key else name, part)}"
            for key, part in value.items()
        ]
    if isinstance(value, list | tuple):
        shown_parts = [_value(name, part) for part in value[:_MOST_PARTS]]
        rest = len(value) - len(shown_parts)
        return "; ".join(shown_parts) + (f" and {rest:,} more" if rest > 0 else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name.endswith("seconds"):
            return duration_text(value)
        return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
    return to_the_second(value) if name.endswith("_at") else short(str(value), 160)


def unrecorded(answer: Triage) -> Table:
    """Return what the system did not record or the capture did not read, so nobody can tell."""
    blind = next((f for f in answer.findings if f.code == "data-blind"), None)
    found: Mapping[str, Any] = blind.evidence if blind is not None else {}
    notes = found.get("notes") or {}
    rows = [
        (plain(fact.replace("_", " ")), plain(str(what)), plain(str(notes.get(fact, ""))))
        for fact, what in (found.get("missing") or {}).items()
    ]
    rows += [
        (f"{plain(name)}, not read", "whatever is in it", short(str(why), 160))
        for name, why in answer.situation.not_read.items()
    ]
    columns = ("not recorded", "so nobody can tell", "because")
    return text_table(columns, rows, note="" if rows else "nothing that was asked for is missing")


def follow_ups(answer: Triage) -> Table:
    """Return what is left to people: a checklist whose owners they write in."""
    grave = [f for f in answer.findings if f.severity > Severity.NOTE]
    steps = [(f.code, step) for f in grave for step in f.next if not step.startswith("Native ")]
    steps += [("everybody", step) for step in _open_questions(answer)]
    rows = [("[ ]", code, plain(step), "", "") for code, step in steps]
    return text_table(("done", "about", "what", "owner", "by when"), rows)


def _open_questions(answer: Triage) -> list[str]:
    radius = answer.verdict.radius
    as_of = to_the_second(iso(answer.situation.now))
    asked = ["Write down the cause: this document shows what happened, not why."]
    if radius.jobs:
        asked.append(f"Tell those who were hit: {count_text(radius.jobs, 'job')}{radius.text}.")
    blind = next((f.evidence for f in answer.findings if f.code == "data-blind"), {})
    if "effects" in (blind.get("missing") or {}):
        asked.append("Check outside whether an effect is missing or happened twice: not recorded.")
    return [
        *asked,
        "Say who noticed, how, and how long after the beginning; set the alarm that was missing.",
        f"Look again at a date you agree on; this document is as of {as_of}.",
    ]
