"""One job's life in plain words: its attempts, what is done about it, what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobplaybook.model import FINISHED, EffectStatus, Outcome, Status
from jobplaybook.units import MICROS, count_text, duration_text, iso, plain

Row = Mapping[str, Any]
_MOST_TOLD = 5  # a job that was tried a hundred times is not told attempt by attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt: how long it waited and how long it ran, seconds; None where not recorded.

    ``waited_seconds`` runs from the moment the job could be claimed. Where that moment is not
    kept (an earlier retry), it runs from acceptance or from the end of the attempt before, a
    rest until the job was due included, and ``wait_is_exact`` is False.
    """

    attempt: int
    owner: str | None
    started_at: int | None
    ended_at: int | None
    outcome: str
    waited_seconds: float | None
    ran_seconds: float | None
    wait_is_exact: bool

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        times = {"started_at": iso(self.started_at), "ended_at": iso(self.ended_at)}
        return {name: getattr(self, name) for name in self.__slots__} | times


def attempts_of(job: Row, rows: Sequence[Row]) -> tuple[Attempt, ...]:
    """Return a job's attempts with what they waited and ran, the first one first."""
    out = []
    before: Row | None = None
    for row in rows:
        begin, exact = _free_from(job, row, before, is_last=row is rows[-1])
        waited = _seconds(begin, row["started_at"])
        out.append(
            Attempt(
                attempt=row["attempt"],
                owner=row["owner"],
                started_at=row["started_at"],
                ended_at=row["ended_at"],
                outcome=row["outcome"],
                waited_seconds=waited,
                ran_seconds=_seconds(row["started_at"], row["ended_at"]),
                wait_is_exact=exact and waited is not None,
            )
        )
        before = row
    return tuple(out)


def _free_from(job: Row, row: Row, before: Row | None, *, is_last: bool) -> tuple[int | None, bool]:
    """Return from when an attempt could have begun, and whether that is kept exactly."""
    created, due = job["created_at"], job["available_at"]
    if due is not None and is_last and job["status"] not in (Status.PENDING, Status.HELD):
        return max(due, created or due), True
    if row["attempt"] == 1:
        # A time that lies before acceptance was never put off: the job was due at once.
        return created, created is not None and due is not None and due <= created
    follows = before is not None and before["attempt"] == row["attempt"] - 1
    return (before["ended_at"] if follows and before else None), False


def _seconds(begin: int | None, end: int | None) -> float | None:
    return None if begin is None or end is None else max((end - begin) / MICROS, 0.0)


def when(at: int | None, *, day: bool = False) -> str:
    """Return a moment to the hundredth of a second, in UTC, with its day where asked for.

    Examples
    --------
    >>> when(1796096722250000), when(1796096722250000, day=True), when(None)
    ('03:45:22.25Z', '2026-12-01T03:45:22.25Z', 'a time that is not recorded')
    """
    text = None if at is None else iso(round(at, -4))
    if text is None:
        return "a time that is not recorded"
    date, _, clock = text.removesuffix("Z").partition("T")
    clock = clock.rstrip("0") if "." in clock else clock
    return f"{date}T{clock}Z" if day else f"{clock}Z"


def told(
    job: Row,
    attempts: Sequence[Attempt],
    effects: Sequence[Row],
    notices: Sequence[Row],
    deliveries: Sequence[Row],
) -> list[str]:
    """Return what happened to a job, a sentence a part."""
    days = {(iso(at) or "")[:10] for at in _times(job, attempts) if at is not None}
    day = len(days) > 1
    kind = plain(job["job_type"] or "no type")
    sentences = [
        f"Job {plain(job['id'])} ({kind}) was accepted at {when(job['created_at'], day=True)}."
    ]
    sentences += _attempts_told(attempts, day) or ["No attempt has started."]
    sentences += [_effect_told(effect, day) for effect in effects]
    if job["status"] in FINISHED:
        sentences.append(_end_told(job, attempts, day))
    sentences += _notices_told(notices)
    sentences += [_delivery_told(delivery) for delivery in deliveries]
    return sentences


def _times(job: Row, attempts: Sequence[Attempt]) -> list[int | None]:
    named = ("created_at", "available_at", "claimed_at", "locked_until", "finished_at")
    return [job[name] for name in named] + [a.started_at for a in attempts]


def _attempts_told(attempts: Sequence[Attempt], day: bool) -> list[str]:
    left_out = attempts[1 : 1 - _MOST_TOLD] if len(attempts) > _MOST_TOLD else ()
    sentences = [_attempt_told(a, day) for a in attempts if a not in left_out]
    if left_out:
        many = count_text(len(left_out), "attempt")
        sentences.insert(1, f"{many} like it followed: the events list them.")
    return sentences


_HOW = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.FAILED: "failed",
    Outcome.EXPIRED: "lost its lease",
    Outcome.RELEASED: "was given back by its worker",
    Outcome.CANCELLED: "was cancelled",
    Outcome.UNKNOWN: "was requeued (rescue or failure: not recorded by this system)",
}


def _attempt_told(attempt: Attempt, day: bool) -> str:
    again = " again" if attempt.attempt > 1 else ""
    by = "" if attempt.owner is None else f" by worker {plain(attempt.owner)}"
    start = (
        f"Attempt {attempt.attempt} started{again} at {when(attempt.started_at, day=day)}{by}"
        f"{_wait_told(attempt)}"
    )
    if attempt.outcome == Outcome.RUNNING:
        return f"{start} and has not ended."
    ran = "" if attempt.ran_seconds is None else f", after {duration_text(attempt.ran_seconds)}"
    how = _HOW[Outcome(attempt.outcome)]
    return f"{start}; at {when(attempt.ended_at, day=day)}{ran}, it {how}."


def _wait_told(attempt: Attempt) -> str:
    if attempt.waited_seconds is None:
        return ""
    waited = duration_text(attempt.waited_seconds)
    if attempt.wait_is_exact:
        return f" after waiting {waited}"
    if attempt.attempt == 1:
        return f", {waited} after it was accepted"
    return f", {waited} after attempt {attempt.attempt - 1} ended (a rest before it included)"


def _effect_told(effect: Row, day: bool) -> str:
    name = f"Effect {plain(effect['effect_key'])}" + (
        f" ({plain(effect['kind'])})" if effect["kind"] else ""
    )
    if effect["status"] in (EffectStatus.CONFIRMED, EffectStatus.RECONCILED):
        at = effect["confirmed_at"]
        time = "" if at is None else f" at {when(at, day=day)}"
        return f"{name} was {effect['status']}{time}."
    at = effect["intended_at"]
    time = "" if at is None else f" at {when(at, day=day)}"
    return f"{name} was intended{time} and is not confirmed: ask the provider before a retry."


def _end_told(job: Row, attempts: Sequence[Attempt], day: bool) -> str:
    at = job["finished_at"]
    said = f"It is {job['status']} since {when(at, day=day)}"
    whole = _seconds(job["created_at"], at)
    ran = [a.ran_seconds for a in attempts if a.ran_seconds is not None]
    if whole is None or not ran:
        return f"{said}."
    work = duration_text(sum(ran))
    return f"{said}, {duration_text(whole)} after it was accepted, {work} of them in work."


def _notices_told(notices: Sequence[Row]) -> list[str]:
    if not notices:
        return []
    unsent = sum(notice["published_at"] is None for notice in notices)
    if unsent:
        return [f"{unsent:,} of its {count_text(len(notices), 'notice')} not sent yet."]
    return ["Its notices are sent." if len(notices) > 1 else "Its notice is sent."]


def _delivery_told(delivery: Row) -> str:
    times = count_text(delivery["times_received"] or 1, "time")
    kind = plain(delivery["event_type"] or "a webhook")
    done = "processed" if delivery["processed_at"] is not None else "not processed yet"
    return f"Delivery {plain(delivery['id'])} ({kind}) came {times} and is {done}."


def coming(
    job: Row,
    worker: Row | None,
    paused_at: int | None,
    *,
    sweeper: str | None,
    seen_until: int,
    judged_at: int,
) -> str:
    """Return what happens next to a job, and when."""
    status = job["status"]
    if status == Status.PENDING:
        return _pending_told(job, paused_at, judged_at)
    if status == Status.HELD:
        return "It is held back until somebody releases it."
    if status == Status.PROCESSING:
        return _holder_told(job, worker, seen_until) + _lease_told(job, sweeper, judged_at)
    if status == Status.DEAD:
        return "It is a dead letter: it waits for somebody to close or to replay it."
    return "Nothing more happens to it."


def _pending_told(job: Row, paused_at: int | None, judged_at: int) -> str:
    due = job["available_at"]
    if due is not None and due > judged_at:
        said = f"It becomes due at {when(due, day=True)}, in {_ago(due - judged_at)}"
    else:
        since = "" if due is None else f" since {when(due, day=True)}, for {_ago(judged_at - due)}"
        said = f"It waits for a worker to claim it{since}"
    if paused_at is None:
        return f"{said}."
    since = when(paused_at, day=True)
    return f"{said}; its queue is paused since {since}, and nothing is claimed there."


def _holder_told(job: Row, worker: Row | None, seen_until: int) -> str:
    if job["owner"] is None:
        return "It is held, and the system does not say by whom. "
    held = f"It is held by worker {plain(job['owner'])}"
    if worker is None:
        return f"{held}, of which nothing else is recorded. "
    if worker["stopped_at"] is not None:
        return f"{held}, which stopped at {when(worker['stopped_at'], day=True)}. "
    beat = worker["heartbeat_at"]
    if beat is None:
        return f"{held}, of which no heartbeat is recorded. "
    before = f"{_ago(seen_until - beat)} before the capture"
    return f"{held}, last seen at {when(beat, day=True)}, {before}. "


def _lease_told(job: Row, sweeper: str | None, judged_at: int) -> str:
    until = job["locked_until"]
    if until is None:
        after = f"{plain(sweeper)} may take it back" if sweeper else "nothing sweeps it"
        return f"No lease says when its worker must be given up; {after}."
    if until < judged_at:
        after = (
            f"{plain(sweeper)} takes it back"
            if sweeper
            else "nothing sweeps it: it waits until somebody requeues it"
        )
        return f"Its lease was over at {when(until, day=True)}; {after}."
    after = f"{plain(sweeper)} takes it back" if sweeper else "nothing sweeps it"
    return f"Its lease is over at {when(until, day=True)}, unless it is renewed; then {after}."


def _ago(micros: int) -> str:
    return duration_text(micros / MICROS)
