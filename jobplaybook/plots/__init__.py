"""Pictures for notebooks and the report: what stands, flows and waits, who ran what, what comes.

A picture's title states what it shows, its text form says the same in numbers. Those of the past
take a frame and the verdict, whose time is shaded; ``events`` are moments to be marked,
microseconds UTC, with their names. Colours are those of Okabe and Ito, one per state everywhere;
the ground is white, so that a picture can be read on a dark page too. No global state of
matplotlib is used or changed.
"""

from jobplaybook.plots.drawing import COLOURS, Picture, label
from jobplaybook.plots.estimates import drain, tried, wakings
from jobplaybook.plots.gantt import attempts
from jobplaybook.plots.queues import flow, oldest_age, rates, standing

__all__ = [
    "COLOURS",
    "Picture",
    "attempts",
    "drain",
    "flow",
    "label",
    "oldest_age",
    "rates",
    "standing",
    "tried",
    "wakings",
]
