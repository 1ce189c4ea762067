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
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (),
    empty: str = "",
) -> Table:  # fmt: skip
    """Return a table of words: which columns are set to the right, what is said without rows."""
    made, to_the_right = tuple(map(tuple, rows)), set(right)
    return Table(
        columns=tuple(columns),
        rows=made,
        numeric=tuple(place in to_the_right for place in range(len(columns))),
        note="" if made else empty,
    )


def blast_radius(answer: Triage) -> Table:
    """Return whom each finding hits: jobs, tenants, types, and the first job ids."""
    rows = [
        (
            finding.code,
            finding.severity.word,
            *("?" if n is None else f"{n:,}" for n in (hit.jobs, hit.tenants, hit.types)),
            _ids(finding),
        )
        for finding in answer.findings
        if (hit := finding.radius).jobs
    ]
    columns = ("finding", "severity", "jobs", "tenants", "types", "job ids, the first ones")
    return text_table(columns, rows, right=(2, 3, 4), empty="no finding names a job")


def _ids(finding: Finding) -> str:
    ids = in_order(finding.job_ids)
    more = finding.radius.jobs - len(ids)
    return ", ".join(short(i, 40) for i in ids) + (
        f" and {more:,} more" if ids and more > 0 else ""
    )


def _grave(answer: Triage) -> list[Finding]:
    return [finding for finding in answer.findings if finding.severity > Severity.NOTE]


def _blind(answer: Triage) -> Mapping[str, Any]:
    found = (f.evidence for f in answer.findings if f.code == "data-blind")
    return next(found, {})


def evidence(answer: Triage) -> Table:
    """Return what each finding rests on."""
    rows = [
        (finding.code, name.replace("_", " "), _value(name, value))
        for finding in _grave(answer)
        for name, value in finding.evidence.items()
        if value not in (None, [], {}, "")
    ]
    return text_table(("finding", "what", "found"), rows, empty="no finding above a note")


def _value(name: str, value: Any) -> str:
    """Return a piece of evidence in words."""
    if isinstance(value, Mapping):
        # an inner name says what its value is; a worker's or a queue's name does not
        value = [
            f"{short(key.replace('_', ' '), 40)}: {_value(key if '_' in key else name, part)}"
            for key, part in value.items()
        ]
    if isinstance(value, list | tuple):
        rest = len(value) - _MOST_PARTS
        parts = "; ".join(_value(name, part) for part in value[:_MOST_PARTS])
        return parts + (f" and {rest:,} more" if rest > 0 else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name.endswith("seconds"):
            return duration_text(value)
        return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
    return to_the_second(value) if name.endswith("_at") else short(str(value), 160)


def unrecorded(answer: Triage) -> Table:
    """Return what the system did not record or the capture did not read, so nobody can tell."""
    found = _blind(answer)
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
    return text_table(columns, rows, empty="nothing that was asked for is missing")


def follow_ups(answer: Triage) -> Table:
    """Return what is left to people: a checklist whose owners they write in."""
    steps = [
        (finding.code, step)
        for finding in _grave(answer)
        for step in finding.next
        if not step.startswith("Native ")
    ]
    steps += [("everybody", step) for step in _open_questions(answer)]
    rows = [("[ ]", code, plain(step), "", "") for code, step in steps]
    return text_table(("done", "about", "what", "owner", "by when"), rows)


def _open_questions(answer: Triage) -> list[str]:
    radius = answer.verdict.radius
    asked = ["Write down the cause: this document shows what happened, not why."]
    if radius.jobs:
        asked.append(f"Tell those who were hit: {count_text(radius.jobs, 'job')}{radius.text}.")
    if "effects" in (_blind(answer).get("missing") or {}):
        asked.append("Check outside whether an effect is missing or happened twice: not recorded.")
    return [
        *asked,
        "Say who noticed, how, and how long after the beginning; set the alarm that was missing.",
        "Look again at a date you agree on; this document is as of "
        f"{to_the_second(iso(answer.situation.now))}.",
    ]
