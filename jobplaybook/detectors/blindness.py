"""What cannot be told from this system's tables, and what was not read."""

from __future__ import annotations

from jobplaybook.detectors.findings import BlastRadius, Finding, first_ids, fitting, short
from jobplaybook.detectors.leases import is_doubtful
from jobplaybook.detectors.situation import HeldJob, Situation
from jobplaybook.model import Quality, Severity
from jobplaybook.units import count_text

QUESTIONS = {
    "lease": "whether a running job may still be worked on",
    "heartbeat": "whether a worker lives",
    "created_at": "how many jobs arrive",
    "available_at": "how long jobs wait",
    "claimed_at": "when work began",
    "finished_at": "how many jobs complete",
    "attempt_times": "how often and how long jobs ran",
    "error": "why jobs fail",
    "effects": "whether an effect happened",
    "outbox": "whether notices were sent",
    "tenant": "which tenants are hit",
    "max_attempts": "how many retries are left",
}
"""Facts to the question that goes unanswered without them, the gravest first."""


def data_blind(situation: Situation) -> list[Finding]:
    """Say which facts are missing for which question, and what a capture did not read."""
    blind = {
        fact: question
        for fact, question in QUESTIONS.items()
        if situation.grade(fact, state="finished" if fact == "finished_at" else "live")
        is Quality.ABSENT
    }
    running = _unknowable(situation, blind)
    if not blind and not running and not situation.not_read:
        return []
    parts, steps = [], []
    if situation.not_read:
        unread = ((short(name), short(why, 200)) for name, why in situation.not_read.items())
        what = "; ".join(f"{name}: {why}" for name, why in unread)
        parts.append(f"Not everything was read ({what}).")
        steps.append("Capture again with a larger --budget or a shorter --since.")
    if running:
        jobs, live = count_text(len(running), "running job"), fitting(len(running), "lives", "live")
        parts.append(f"Nothing tells whether {jobs} still {live}.")
    if blind:
        facts = ", ".join(blind).replace("_", " ")
        parts.append(f"{short(situation.system)} does not record: {facts}.")
    if "tenant" in blind:
        steps.append("Name the payload field that holds the tenant: --tenant-path args.NAME")
    if "error" in blind:
        steps.append("Look for the reasons of failures in the workers' logs.")
    grave = bool(running) or bool({"unfinished", "jobs"} & set(situation.not_read))
    return [
        Finding(
            code="data-blind",
            severity=Severity.TICKET if grave else Severity.NOTE,
            layer=None,
            count=len(blind),
            radius=BlastRadius(jobs=len(running)),
            job_ids=first_ids(job.id for job in running),
            sentence=" ".join(parts),
            evidence={
                "missing": blind,
                "notes": {fact: situation.fact_notes.get((fact, "live"), "") for fact in blind},
                "not_read": dict(situation.not_read),
            },
            next=tuple(steps),
        )
    ]


def _unknowable(situation: Situation, blind: dict[str, str]) -> list[HeldJob]:
    """Return the runs of which nothing tells whether they live: no lease, and no rule or start."""
    if "lease" in blind and "heartbeat" in blind:
        return list(situation.held)
    workers = {worker.owner: worker for worker in situation.workers}
    return [job for job in situation.held if job.claimed_at is None and is_doubtful(job, workers)]
