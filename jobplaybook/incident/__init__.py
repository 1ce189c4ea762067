"""An incident as a story, for the document at the end.

What happened when, how it was before, during and after, whom it hit, what is left to people. It
tells what was recorded and in which order; why it happened, a person has to write.
"""

from jobplaybook.incident.story import Moment, Outside, Phase, Story, outside_events, read_story
from jobplaybook.incident.tables import blast_radius, evidence, follow_ups, unrecorded

__all__ = [
    "Moment",
    "Outside",
    "Phase",
    "Story",
    "blast_radius",
    "evidence",
    "follow_ups",
    "outside_events",
    "read_story",
    "unrecorded",
]
