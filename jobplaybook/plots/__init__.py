"""Pictures for notebooks and the report: where jobs stand, what flows, how long the oldest waits.

A picture's title states what it shows, its text form says the same in numbers. Colours are those
of Okabe and Ito, one per state everywhere; the ground is white, so that a picture can be read on
a dark page too. No global state of matplotlib is used or changed.
"""

from jobplaybook.plots.bars import standing
from jobplaybook.plots.drawing import COLOURS, Event, Picture, label
from jobplaybook.plots.series import flow, oldest_age

__all__ = ["COLOURS", "Event", "Picture", "flow", "label", "oldest_age", "standing"]
