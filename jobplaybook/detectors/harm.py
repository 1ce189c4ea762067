"""How grave a cause is: as grave as the backlogs that stand behind it."""

from __future__ import annotations

from jobplaybook.detectors.flow import backlogs
from jobplaybook.detectors.situation import Situation
from jobplaybook.model import Severity


def harm_by_queue(situation: Situation) -> dict[str | None, Severity]:
    """Return how grave the backlog of each queue is; a queue without one is left out.

    A queue that stands still is not counted: what makes work slow or much makes a backlog, and
    silence has other causes.
    """
    return {finding.evidence["queue"]: finding.severity for finding in backlogs(situation)}


def harm(situation: Situation) -> Severity:
    """Return how grave the gravest backlog is; a note where there is none."""
    return max(harm_by_queue(situation).values(), default=Severity.NOTE)
