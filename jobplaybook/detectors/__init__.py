"""Small pure detectors by family: a situation in, findings out. No connection, no clock."""

from __future__ import annotations

from jobplaybook.detectors.blindness import data_blind
from jobplaybook.detectors.dead_letters import dead_letters_growing
from jobplaybook.detectors.findings import Finding
from jobplaybook.detectors.flow import backlogs, queue_paused, queue_stalled
from jobplaybook.detectors.leases import lease_expired, phantom_running
from jobplaybook.detectors.situation import Situation
from jobplaybook.detectors.workers import workers_lost

DETECTORS = (
    workers_lost,
    lease_expired,
    phantom_running,
    queue_paused,
    queue_stalled,
    backlogs,
    dead_letters_growing,
    data_blind,
)
"""Causes before their consequences: the order in which equally severe findings are told."""


def findings(situation: Situation) -> list[Finding]:
    """Return every finding, the most severe first and causes before consequences."""
    found = [finding for detector in DETECTORS for finding in detector(situation)]
    return sorted(found, key=lambda finding: -finding.severity)
