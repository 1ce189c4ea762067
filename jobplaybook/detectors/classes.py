"""Classes of jobs: one that floods a queue, and those that wait while others are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobplaybook.detectors.change import Rise, rise
from jobplaybook.detectors.findings import (
    BlastRadius,
    Finding,
    fields_of,
    fitting,
    rate_text,
    short,
    when_text,
)
from jobplaybook.detectors.flow import NORMAL_FACTOR, by_queue, is_late, queue_name, radius_of_queue
from jobplaybook.detectors.signs import ClassLoad, WaitingClass
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.model import Layer, Severity
from jobplaybook.units import MICROS, count_text, duration_text, iso

FLOOD_JOBS = 100  # fewer jobs than this are no flood
FLOOD_SHARE = 0.5  # the share of a queue's backlog that is most of it
FLOOD_FACTOR = 3.0  # how many times its usual rate makes a class a flood
FLOOD_PART = 0.9  # the share of a class's waiting jobs that came with the rise which explains them
FLOOD_PAST = 20  # fewer jobs of a class that no longer wait do not tell what is usual for it
TOP_CLASSES = 5  # so many classes are named

STARVED_SECONDS = 300.0  # how long a class must have waited to be called starved
OVERTAKEN = 10  # so many younger claims passed it by that it is no accident


Queues = Mapping[str | None, QueueState]


def queues_by_name(situation: Situation) -> Queues:
    """Return the queues by their names."""
    return {queue.queue: queue for queue in situation.queues}


# Floods


def class_flood(situation: Situation) -> list[Finding]:
    """Find one type or tenant that rose far above its usual rate and makes most of a backlog."""
    states = queues_by_name(situation)
    floods = [
        load
        for load in situation.loads
        if load.queue in states and _is_flood(situation, states[load.queue], load)
    ]
    return by_queue(situation, floods, _flood)


def is_most(situation: Situation, queue: QueueState, load: ClassLoad) -> bool:
    """Whether a class makes most of a queue's backlog that is older than normal.

    A queue that stands still would do so with less in it too: nothing floods it.
    """
    return load.due >= max(FLOOD_JOBS, FLOOD_SHARE * queue.backlog) and is_late(situation, queue)


def _is_flood(situation: Situation, queue: QueueState, load: ClassLoad) -> bool:
    """Whether a class makes most of a queue's backlog, and came far faster than is usual for it.

    Where it has no past to tell what is usual, it is one if others wait beside it.
    """
    if not is_most(situation, queue, load):
        return False
    rose = rise(load.became_due.counts)
    if rose is None:
        past = sum(load.became_due.counts) - sum(load.still_due.counts)
        return past < FLOOD_PAST and load.due < queue.backlog
    came_with_it = sum(load.still_due.counts[rose.index :])
    return rose.after >= FLOOD_FACTOR * rose.before and came_with_it >= FLOOD_PART * load.due


def _flood(situation: Situation, floods: Sequence[ClassLoad], harm: Severity) -> Finding:
    load = max(floods, key=lambda flood: (flood.due, flood.by == "type"))
    state = queues_by_name(situation)[load.queue]
    rose = rise(load.became_due.counts)
    top = [each for each in situation.loads if each.queue == state.queue]
    seconds = load.became_due.width / MICROS
    return Finding(
        code="class-flood",
        severity=harm,
        layer=Layer.WAITING,
        sure=rose is not None,
        since=state.oldest_at if rose is None else load.became_due.time(rose.index),
        count=load.due,
        radius=radius_of_queue(situation, state),
        sentence=_flood_sentence(state, floods, load, rose),
        evidence={
            "queue": state.queue,
            "due": state.backlog,
            "class": fields_of(load, "by", "name", "due"),
            "came_due_rate": None if rose is None else rose.after / seconds,
            "usual_rate": None if rose is None else rose.before / seconds,
            "top": [
                fields_of(each, "by", "name", "due")
                for each in sorted(top, key=lambda load: (load.by, -load.due, load.name))
            ],
        },
        next=(
            f"Hold back or limit this {load.by} alone: the others then wait no longer.",
            "Ask whose it is and whether all of it is still wanted.",
        ),
    )


def _flood_sentence(
    state: QueueState, floods: Sequence[ClassLoad], load: ClassLoad, rose: Rise | None
) -> str:
    total = max(state.backlog, 1)
    said = " and ".join(
        f"{flood.due:,} ({flood.due / total:.0%}) are of {flood.by} {short(flood.name)}"
        for flood in sorted(floods, key=lambda flood: -flood.due)
    )
    rest = max(state.backlog - load.due, 0)
    behind = f"; {count_text(rest)} of others wait among them" if rest else ""
    rates = "what is usual for it is not known"
    if rose is not None:
        seconds = load.became_due.width / MICROS
        after, before = rate_text(rose.after / seconds), rate_text(rose.before / seconds)
        rates = f"{after} came due where {before} is usual"
    return (
        f"Of {count_text(state.backlog, 'job')} that wait in queue {queue_name(state.queue)}, "
        f"{said}: {rates}{behind}."
    )


# Starvation


def starvation(situation: Situation) -> list[Finding]:
    """Find classes of a queue that wait while jobs that were due later are claimed."""
    states = queues_by_name(situation)
    starved = [
        waiting
        for waiting in situation.waiting_classes
        if waiting.overtaken >= OVERTAKEN and has_waited(situation, states, waiting)
    ]
    return by_queue(situation, starved, _starved)


def has_waited(situation: Situation, states: Queues, waiting: WaitingClass) -> bool:
    """Whether a class waits long for its queue, and none of it was claimed since it began to."""
    queue = states.get(waiting.queue)
    if queue is None or queue.paused_at is not None:
        return False
    age = (situation.flow_until - waiting.oldest_at) / MICROS
    longest = max(STARVED_SECONDS, NORMAL_FACTOR * (queue.normal_wait_seconds or 0.0))
    claimed = waiting.last_claim_at is not None and waiting.last_claim_at >= waiting.oldest_at
    return age >= longest and not claimed


def _starved(situation: Situation, classes: Sequence[WaitingClass], harm: Severity) -> Finding:
    jobs = sum(waiting.claimable for waiting in classes)
    mine = classes[0].priority
    higher = mine is not None and any(
        p is not None and p > mine for _, p, _ in classes[0].overtaking
    )
    return Finding(
        code="starvation",
        severity=max(Severity.TICKET, harm),
        layer=Layer.WAITING,
        since=min(waiting.oldest_at for waiting in classes),
        count=jobs,
        radius=BlastRadius(jobs=jobs, types=len({waiting.job_type for waiting in classes})),
        sentence=_starved_sentence(situation, classes),
        evidence={
            "queue": classes[0].queue,
            "classes": [
                {
                    **fields_of(waiting, "job_type", "priority", "claimable"),
                    "oldest_due_at": iso(waiting.oldest_at),
                    "last_claim_at": iso(waiting.last_claim_at),
                    "overtaken_by": [
                        {"job_type": job_type, "priority": priority, "claims": claims}
                        for job_type, priority, claims in waiting.overtaking
                    ],
                }
                for waiting in classes[:TOP_CLASSES]
            ],
            "rate_window_seconds": situation.rate_seconds,
        },
        next=(
            "The others have a higher priority: give this class workers or a queue of its own."
            if higher
            else "No priority explains it: do the workers know this type, and may they take it?",
            "Do not raise priorities by hand in the table before that is known.",
        ),
    )


def _starved_sentence(situation: Situation, classes: Sequence[WaitingClass]) -> str:
    worst = max(classes, key=lambda waiting: waiting.claimable)
    age = duration_text((situation.flow_until - worst.oldest_at) / MICROS)
    last = (
        f"the last was claimed at {when_text(worst.last_claim_at, situation.now)}"
        if worst.last_claim_at is not None
        else "none was claimed in the window"
    )
    more = count_text(len(classes) - 1, "other class", "other classes")
    others = f", and {more} with it" if len(classes) > 1 else ""
    by = ", ".join(
        f"{claims:,} of {_class_name(job_type, priority)}"
        for job_type, priority, claims in worst.overtaking[:3]
    )
    return (
        f"{count_text(worst.claimable, 'job')} of {_class_name(worst.job_type, worst.priority)} "
        f"{fitting(worst.claimable, 'waits', 'wait')} in queue {queue_name(worst.queue)} for up "
        f"to {age}, {last}{others}; meanwhile {worst.overtaken:,} jobs that were due later were "
        f"claimed in the last {duration_text(situation.rate_seconds)} ({by})."
    )


def _class_name(job_type: str | None, priority: int | None) -> str:
    name = short(job_type) if job_type is not None else "unknown type"
    return name if priority is None else f"{name} (priority {priority})"
