"""One job's life in plain words: its attempts, what is done about it, what comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jobplaybook.life_events import ENDINGS, Attempt, JobRows, Row, seconds_between
from jobplaybook.model import FINISHED, EffectStatus, Outcome, Status
from jobplaybook.units import MICROS, count_text, duration_text, iso, plain

_MOST_TOLD = 5  # a job that was tried a hundred times is not told attempt by attempt
_Clock = Callable[[int | None], str]


def when(at: int | None, *, day: bool = True) -> str:
    """Return a moment to the hundredth of a second, in UTC, with its day unless told otherwise.

    Examples
    --------
    >>> when(1796096722250000), when(1796096722250000, day=False), when(None)
    ('2026-12-01T03:45:22.25Z', '03:45:22.25Z', 'a time that is not recorded')
    """
    text = None if at is None else iso(round(at, -4))
    if text is None:
        return "a time that is not recorded"
    date, _, clock = text.removesuffix("Z").partition("T")
    clock = clock.rstrip("0") if "." in clock else clock
    return f"{date}T{clock}Z" if day else f"{clock}Z"


def told(rows: JobRows, attempts: Sequence[Attempt]) -> list[str]:
    """Return what happened to a job, a sentence a part; days are named where there are several."""
    job = rows.job
    named = ("created_at", "available_at", "claimed_at", "locked_until", "finished_at")
    times = [*(job[name] for name in named), *(attempt.started_at for attempt in attempts)]
    clock = partial(when, day=len({(iso(at) or "")[:10] for at in times if at is not None}) > 1)
    kind = plain(job["job_type"] or "no type")
    return [
        f"Job {plain(job['id'])} ({kind}) was accepted at {when(job['created_at'])}.",
        *(_attempts_told(attempts, clock) or ["No attempt has started."]),
        *(_effect_told(effect, clock) for effect in rows.effects),
        *([_end_told(job, attempts, clock)] if job["status"] in FINISHED else []),
        *([_notices_told(rows.notices)] if rows.notices else []),
        *(_delivery_told(delivery) for delivery in rows.deliveries),
    ]


def _attempts_told(attempts: Sequence[Attempt], clock: _Clock) -> list[str]:
    sentences = [_attempt_told(attempt, clock) for attempt in attempts]
    if len(sentences) > _MOST_TOLD:
        many = count_text(len(sentences) - _MOST_TOLD, "attempt")
        sentences[1 : 1 - _MOST_TOLD] = [f"{many} like it followed: the events list them."]
    return sentences


def _attempt_told(attempt: Attempt, clock: _Clock) -> str:
    again = " again" if attempt.attempt > 1 else ""
    by = "" if attempt.owner is None else f" by worker {plain(attempt.owner)}"
    start = (
        f"Attempt {attempt.attempt} started{again} at {clock(attempt.started_at)}{by}"
        f"{_wait_told(attempt)}"
    )
    if attempt.outcome == Outcome.RUNNING:
        return f"{start} and has not ended."
    ran = "" if attempt.ran_seconds is None else f", after {duration_text(attempt.ran_seconds)}"
    *_, how = ENDINGS[attempt.outcome]
    return f"{start}; at {clock(attempt.ended_at)}{ran}, it {how}."


def _wait_told(attempt: Attempt) -> str:
    if attempt.waited_seconds is None:
        return ""
    waited = duration_text(attempt.waited_seconds)
    if attempt.wait_is_exact:
        return f" after waiting {waited}"
    if attempt.attempt == 1:
        return f", {waited} after it was accepted"
    return f", {waited} after attempt {attempt.attempt - 1} ended (a rest before it included)"


def _effect_told(effect: Row, clock: _Clock) -> str:
    known = effect["status"] in (EffectStatus.CONFIRMED, EffectStatus.RECONCILED)
    kind = f" ({plain(effect['kind'])})" if effect["kind"] else ""
    at = effect["confirmed_at" if known else "intended_at"]
    said = f"Effect {plain(effect['effect_key'])}{kind} was "
    said += effect["status"] if known else "intended"
    said += "" if at is None else f" at {clock(at)}"
    return f"{said}." if known else f"{said} and is not confirmed: ask the provider before a retry."


def _end_told(job: Row, attempts: Sequence[Attempt], clock: _Clock) -> str:
    said = f"It is {job['status']} since {clock(job['finished_at'])}"
    whole = seconds_between(job["created_at"], job["finished_at"])
    ran = [a.ran_seconds for a in attempts if a.ran_seconds is not None]
    if whole is None or not ran:
        return f"{said}."
    work = duration_text(sum(ran))
    return f"{said}, {duration_text(whole)} after it was accepted, {work} of them in work."


def _notices_told(notices: Sequence[Row]) -> str:
    if unsent := sum(notice["published_at"] is None for notice in notices):
        return f"{unsent:,} of its {count_text(len(notices), 'notice')} not sent yet."
    return "Its notices are sent." if len(notices) > 1 else "Its notice is sent."


def _delivery_told(delivery: Row) -> str:
    times = count_text(delivery["times_received"] or 1, "time")
    kind = plain(delivery["event_type"] or "a webhook")
    done = "processed" if delivery["processed_at"] is not None else "not processed yet"
    return f"Delivery {plain(delivery['id'])} ({kind}) came {times} and is {done}."


_RESTING = {
    Status.HELD: "It is held back until somebody releases it.",
    Status.DEAD: "It is a dead letter: it waits for somebody to close or to replay it.",
}


def coming(rows: JobRows) -> str:
    """Return what happens next to a job, and when."""
    status = rows.job["status"]
    if status == Status.PENDING:
        return _pending_told(rows)
    if status == Status.PROCESSING:
        return f"{_holder_told(rows)}. {_lease_told(rows)}"
    return _RESTING.get(status, "Nothing more happens to it.")


def _pending_told(rows: JobRows) -> str:
    due, now = rows.job["available_at"], rows.judged_at
    said = "It waits for a worker to claim it"
    if due is not None and due > now:
        said = f"It becomes due at {when(due)}, in {_lasting(now, due)}"
    elif due is not None:
        said += f" since {when(due)}, for {_lasting(due, now)}"
    if rows.paused_at is not None:
        said += f"; its queue is paused since {when(rows.paused_at)}, and nothing is claimed there"
    return f"{said}."


def _holder_told(rows: JobRows) -> str:
    worker = rows.worker
    if rows.job["owner"] is None:
        return "It is held, and the system does not say by whom"
    held = f"It is held by worker {plain(rows.job['owner'])}"
    if worker is None:
        return f"{held}, of which nothing else is recorded"
    if worker["stopped_at"] is not None:
        return f"{held}, which stopped at {when(worker['stopped_at'])}"
    beat = worker["heartbeat_at"]
    if beat is None:
        return f"{held}, of which no heartbeat is recorded"
    before = _lasting(beat, rows.seen_until)
    return f"{held}, last seen at {when(beat)}, {before} before the capture"


def _lease_told(rows: JobRows) -> str:
    until, sweeper = rows.job["locked_until"], plain(rows.sweeper or "")
    swept = f"{sweeper} takes it back" if sweeper else "nothing sweeps it"
    if until is None:
        after = f"{sweeper} may take it back" if sweeper else swept
        return f"No lease says when its worker must be given up; {after}."
    if until >= rows.judged_at:
        return f"Its lease is over at {when(until)}, unless it is renewed; then {swept}."
    rest = "" if sweeper else ": it waits until somebody requeues it"
    return f"Its lease was over at {when(until)}; {swept}{rest}."


def _lasting(begin: int, end: int) -> str:
    return duration_text((end - begin) / MICROS)
