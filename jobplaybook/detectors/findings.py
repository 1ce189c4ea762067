"""A finding: what is wrong, how sure, whom it hits, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobplaybook.model import Layer, Severity
from jobplaybook.units import MICROS, clock_text, count_text, iso, plain

MAX_IDS = 10
_SAME_HOURS = 12 * 3_600 * MICROS

CODES = (
    "healthy",
    "unknown",
    "clock-skew",
    "lease-expired",
    "phantom-running",
    "workers-lost",
    "vacuum-blocked",
    "claim-slow",
    "retry-storm",
    "queue-stalled",
    "queue-paused",
    "class-flood",
    "starvation",
    "backlog-growing",
    "backlog-draining",
    "retry-herd",
    "dead-letters-growing",
    "data-blind",
)
"""Every code that `triage` can answer, each the name of its runbook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastRadius:
    """How many jobs, tenants and job types; None where the system does not say."""

    jobs: int = 0
    tenants: int | None = None
    types: int | None = None

    @property
    def text(self) -> str:
        """The counts behind the jobs, in words: ``(3 types, 4 tenants)`` or nothing."""
        counts = {"type": self.types, "tenant": self.tenants}
        parts = [count_text(count, noun) for noun, count in counts.items() if count]
        return f" ({', '.join(parts)})" if parts else ""

    def to_json(self) -> dict[str, int | None]:
        """Return the JSON object."""
        return fields_of(self, "jobs", "tenants", "types")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that `triage` found."""

    code: str  # one of `CODES`
    severity: Severity
    layer: Layer | None  # where it broke
    sentence: str  # who, what, since when, how many, in one or two sentences
    sure: bool = True  # False: inferred from a fact, or judged after the last look
    since: int | None = None  # microseconds UTC
    count: int = 0
    radius: BlastRadius = field(default_factory=BlastRadius)
    job_ids: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    next: tuple[str, ...] = ()  # what to do, the first step first

    @property
    def runbook(self) -> str:
        """The runbook of this finding."""
        return f"runbooks/{self.code}.md"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``triage --json``."""
        return {
            "code": self.code,
            "severity": self.severity.word,
            "confidence": "sure" if self.sure else "inferred",
            "layer": self.layer,
            "sentence": self.sentence,
            "since": iso(self.since),
            "count": self.count,
            "blast_radius": self.radius.to_json(),
            "job_ids": list(self.job_ids),
            "evidence": dict(self.evidence),
            "next": list(self.next),
            "runbook": self.runbook,
        }


def largest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of one detector, the one with the largest count first."""
    return sorted(findings, key=lambda finding: -finding.count)


def fields_of(thing: object, *names: str) -> dict[str, Any]:
    """Return fields of an object by their names, as evidence."""
    return {name: getattr(thing, name) for name in names}


def in_order(ids: Iterable[str]) -> list[str]:
    """Return ids without doubles, numbers in number order before all others.

    Examples
    --------
    >>> in_order(["10", "9", "x", "9"])
    ['9', '10', 'x']
    """
    return sorted(set(ids), key=lambda i: (not i.isdecimal(), len(i) if i.isdecimal() else 0, i))


def first_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the first `MAX_IDS` ids, numbers in number order."""
    return tuple(in_order(ids)[:MAX_IDS])


def short(text: str, limit: int = 60) -> str:
    """Return job-supplied text for a sentence: cut, and without control characters.

    Examples
    --------
    >>> short("mail"), short("x" * 99, limit=5)
    ('mail', 'xxxx…')
    """
    return plain(text if len(text) <= limit else text[: limit - 1] + "…")


def names_text(names: Sequence[str], limit: int = 3) -> str:
    """Return names for people: the first few, and how many more.

    Examples
    --------
    >>> names_text(["1", "2", "3", "4", "5"])
    '1, 2, 3 and 2 more'
    """
    shown = ", ".join(short(name) for name in names[:limit])
    return shown + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


def fitting(number: int, one: str, many: str) -> str:
    """Return the form of a word that goes with a number: 1 job *is*, 4 jobs *are*."""
    return one if number == 1 else many


def rate_text(per_second: float) -> str:
    """Return a rate for people: per minute, or per hour where a minute sees less than one.

    Examples
    --------
    >>> rate_text(20.0), rate_text(0.05), rate_text(0.001), rate_text(0.0)
    ('1,200/min', '3.0/min', '3.6/h', '0/min')
    """
    for scale, unit in ((60, "min"), (3_600, "h")):
        value = per_second * scale
        if value >= 1 or not value:
            return f"{value:,.{0 if value >= 10 or not value else 1}f}/{unit}"
    return f"{value:.2g}/h"


def when_text(at: int | None, seen: int) -> str:
    """Return a moment for people: the time of day, and the day where it is not of these hours.

    Examples
    --------
    >>> when_text(1796096722000000, 1796096730000000)
    '03:45:22Z'
    >>> when_text(1796096722000000, 1797911122000000)
    '2026-12-01 03:45:22Z'
    """
    if at is None or abs(seen - at) < _SAME_HOURS:
        return clock_text(at)
    return f"{(iso(at) or 'unknown')[:10]} {clock_text(at)}"


def radius_of(jobs: Iterable[Any], *, knows_tenants: bool) -> BlastRadius:
    """Return the blast radius of objects with ``job_type`` and ``tenant_id``."""
    listed = list(jobs)
    tenants = {job.tenant_id for job in listed if job.tenant_id is not None}
    types = {job.job_type for job in listed if job.job_type is not None}
    return BlastRadius(
        jobs=len(listed),
        tenants=len(tenants) if knows_tenants else None,
        types=len(types) if types or not listed else None,
    )
