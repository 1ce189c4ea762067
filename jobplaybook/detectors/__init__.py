"""Small pure detectors by family: a situation in, findings out. No connection, no clock."""

from __future__ import annotations

from jobplaybook.detectors.blindness import data_blind
from jobplaybook.detectors.classes import class_flood, starvation
from jobplaybook.detectors.clocks import clock_skew
from jobplaybook.detectors.database import claim_slow, vacuum_blocked
from jobplaybook.detectors.dead_letters import dead_letters_growing
from jobplaybook.detectors.findings import Finding
from jobplaybook.detectors.flow import backlogs, queue_paused, queue_stalled
from jobplaybook.detectors.leases import lease_expired, phantom_running
from jobplaybook.detectors.retries import retry_herd, retry_storm
from jobplaybook.detectors.situation import Situation
from jobplaybook.detectors.workers import workers_lost

DETECTORS = (
    clock_skew,
    workers_lost,
    lease_expired,
    phantom_running,
    vacuum_blocked,
    claim_slow,
    retry_storm,
    queue_paused,
    queue_stalled,
    class_flood,
    starvation,
    backlogs,
    retry_herd,
    dead_letters_growing,
    data_blind,
)
"""Causes before their consequences: the order in which equally severe findings are told."""


def findings(situation: Situation) -> list[Finding]:
    """Return every finding, the most severe first and causes before consequences."""
    found = [finding for detector in DETECTORS for finding in detector(situation)]
    return sorted(found, key=lambda finding: -finding.severity)
