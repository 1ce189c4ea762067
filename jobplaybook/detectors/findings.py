"""A finding: what is wrong, how sure, whom it hits, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobplaybook.model import Layer, Severity
from jobplaybook.units import count_text, iso

MAX_IDS = 10

CODES = (
    "healthy",
    "unknown",
    "lease-expired",
    "phantom-running",
    "workers-lost",
    "queue-stalled",
    "queue-paused",
    "backlog-growing",
    "backlog-draining",
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
        parts = []
        if self.types:
            parts.append(count_text(self.types, "type"))
        if self.tenants:
            parts.append(count_text(self.tenants, "tenant"))
        return f" ({', '.join(parts)})" if parts else ""

    def to_json(self) -> dict[str, int | None]:
        """Return the JSON object."""
        return {"jobs": self.jobs, "tenants": self.tenants, "types": self.types}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that `triage` found.

    Parameters
    ----------
    code : str
        One of `CODES`.
    layer : Layer or None
        Where it broke.
    sure : bool
        False where it rests on an inferred fact or on a judgement after the last look.
    since : int or None
        Since when, microseconds UTC.
    sentence : str
        Who, what, since when, how many, in one or two sentences.
    next : tuple of str
        What to do, the first step first.
    """

    code: str
    severity: Severity
    layer: Layer | None
    sentence: str
    sure: bool = True
    since: int | None = None
    count: int = 0
    radius: BlastRadius = field(default_factory=BlastRadius)
    job_ids: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    next: tuple[str, ...] = ()

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


def first_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the first ids, numbers in number order.

    Examples
    --------
    >>> first_ids(["10", "9", "x"])
    ('9', '10', 'x')
    """
    ordered = sorted(ids, key=lambda i: (not i.isdecimal(), len(i) if i.isdecimal() else 0, i))
    return tuple(ordered[:MAX_IDS])


def radius_of(jobs: Iterable[Any], *, knows_tenants: bool) -> BlastRadius:
    """Return the blast radius of objects with ``job_type`` and ``tenant_id``."""
    listed = list(jobs)
    tenants = {job.tenant_id for job in listed if job.tenant_id is not None}
    return BlastRadius(
        jobs=len(listed),
        tenants=len(tenants) if knows_tenants else None,
        types=len({job.job_type for job in listed if job.job_type is not None}),
    )
