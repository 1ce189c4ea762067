"""What is said of a queue's health: its state, its capacity, its rates."""

from __future__ import annotations

from jobplaybook.detectors.findings import rate_text
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.verdict import queue_word

_UNKNOWN = "waiting, capacity unknown"


def state_word(
    situation: Situation, state: QueueState, *, saturated: bool, net: float | None
) -> str:
    """Return a queue's state as the verdict calls it, or what a saturated one does."""
    word = queue_word(situation, state)
    if not saturated or word != _UNKNOWN or net is None:
        return word
    return "saturated, draining" if net > 0 else "saturated, not clearing"


def capacity_words(
    state: QueueState,
    *,
    completion: float | None,
    net: float | None,
    saturated: bool,
) -> str:
    """Return what a window shows of a queue's capacity; only one kept busy shows its limit.

    Parameters
    ----------
    state : QueueState
        The queue.
    completion, net : float or None
        Jobs that leave per second, and how many more that is than come; None: not recorded.
    saturated : bool
        Whether it was busy all the time.

    Examples
    --------
    >>> queue = QueueState(queue="mail")
    >>> capacity_words(queue, completion=2.0, net=0.0, saturated=False)
    'At least 120/min; its limit was not seen.'
    >>> capacity_words(queue, completion=2.0, net=-1.0, saturated=True)
    'About 120/min, its limit: 60/min less than comes.'
    """
    if completion is None:
        return "Capacity unknown: this system does not record when jobs end."
    done = rate_text(completion)
    if state.paused_at is not None:
        return "Capacity unknown: it is paused."
    if not completion:
        return "Capacity unknown: nothing ended in the window."
    if not saturated:
        return f"At least {done}; its limit was not seen."
    if net is None:
        return f"About {done}, its limit."
    if net > 0:
        return f"About {done}, its limit: {rate_text(net)} more than comes."
    missing = f"{rate_text(-net)} less than comes" if net < 0 else "just what comes"
    return f"About {done}, its limit: {missing}."


def a_minute(rate: float | None) -> str:
    """Return a rate per second as a number per minute; a dash where it is not recorded.

    Examples
    --------
    >>> a_minute(2.0), a_minute(0.05), a_minute(0.0), a_minute(None)
    ('120', '3.0', '0', '-')
    """
    if rate is None:
        return "-"
    return f"{rate * 60:,.0f}" if rate == 0 or rate * 60 >= 9.95 else f"{rate * 60:.1f}"
