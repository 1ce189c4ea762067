"""The verdict: one screen that says which layer broke, since when, whom it hits, what to do."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobplaybook.detectors import findings
from jobplaybook.detectors.findings import Finding, short, when_text
from jobplaybook.detectors.flow import (
    is_backlog,
    is_draining,
    is_stalled,
    oldest_age_seconds,
    queue_name,
    queue_numbers,
)
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.estimates import DrainEstimate
from jobplaybook.model import Layer, Severity, State
from jobplaybook.units import count_text, duration_text, iso, plain

_NATIVE = "Native statement, to be copied and checked: "
_FIRST = (
    "First requeue what they hold, then start workers: a worker that starts deletes the rows of "
    "silent ones, and the trace of their jobs with them."
)
_WIDTH = 100
_NAME_WIDTH = 40
_MOST_QUEUES = 12
_MOST_OTHERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """The answer of `jobplaybook.triage`."""

    verdict: Finding  # the finding that ranks first, or ``healthy`` or ``unknown``
    findings: tuple[Finding, ...]  # the most severe first, causes before consequences
    situation: Situation  # what they rest on
    label: str  # the source's name as it may be shown
    eta: DrainEstimate | None = None  # when the verdict's backlog is gone; None: not known
    warnings: tuple[str, ...] = ()  # what the reader has to know about the capture

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook triage``."""
        seen, verdict = self.situation, self.verdict.to_json()
        shown = ("code", "layer", "sentence", "since", "severity", "blast_radius")
        return {
            "verdict": {**{key: verdict[key] for key in shown}, "eta": self._eta()},
            "system": seen.system,
            "source": self.label,
            "now": iso(seen.now),
            "seen_until": iso(seen.seen_until),
            "window_from": iso(seen.window_from),
            "window_until": iso(seen.flow_until),
            "counts": dict(seen.counts),
            "states": dict(seen.states),
            "layers": {layer: seen.layers.get(layer, 0) for layer in Layer},
            "queues": [_queue_json(seen, queue) for queue in seen.queues],
            "findings": [finding.to_json() for finding in self.findings],
            "warnings": list(self.warnings),
        }

    def _eta(self) -> dict[str, float | None] | None:
        """Return the percentiles of the time to recover, seconds; None for one that is never."""
        if self.eta is None:
            return None
        spread = self.eta.seconds
        found = {"p5": spread.p5, "p50": spread.p50, "p95": spread.p95}
        return {name: None if time == math.inf else time for name, time in found.items()}

    def __str__(self) -> str:
        """Return the screen: the verdict first, then the queues, then what is not known."""
        lines = [*_headline(self), "", *_others(self), *_table(self.situation), *_foot(self)]
        # Whatever a job, a queue or a file put into a line: one line stays one line.
        return "\n".join(plain(line) for line in lines)


def judge(
    situation: Situation, *, label: str, warnings: Sequence[str] = (), advice: str | None = None
) -> Triage:
    """Return the verdict on a situation.

    Parameters
    ----------
    situation : Situation
        What was read.
    label : str
        The source's name as it may be shown.
    warnings : sequence of str
        Carried over from the capture.
    advice : str, optional
        The system's own statement that frees the jobs of dead owners: to be copied, never run.
    """
    found = [_advised(finding, advice) for finding in findings(situation)]
    return Triage(
        verdict=_verdict(situation, found),
        findings=tuple(found),
        situation=situation,
        label=label,
        warnings=(*warnings, *time_warnings(situation)),
    )


def _advised(finding: Finding, advice: str | None) -> Finding:
    if advice is None:
        return finding
    statement = f"{_NATIVE}{plain(advice)}"
    if finding.code == "workers-lost" and finding.job_ids:
        return replace(finding, next=(_FIRST, statement, *finding.next))
    if finding.code == "lease-expired":
        return replace(finding, next=(*finding.next, statement))
    return finding


def time_warnings(situation: Situation) -> list[str]:
    """Return what a moment of judgement other than the capture's means for the answer."""
    said = []
    if situation.judged_later:
        said.append(
            f"judged at {iso(situation.now)}, after the last look at {iso(situation.seen_until)}: "
            "only leases were judged again; heartbeats, rates and completions end with the look"
        )
    if situation.flow_until < situation.seen_until:
        said.append(
            f"the window ends at {iso(situation.flow_until)}: queues are judged as of then, out of "
            f"statuses, leases and heartbeats as captured at {iso(situation.seen_until)}"
        )
    return said


def _verdict(situation: Situation, found: Sequence[Finding]) -> Finding:
    if 2 * situation.ahead > situation.total:
        return _unknown(
            f"{situation.ahead:,} of {count_text(situation.total, 'job')} were created after the "
            f"{iso(situation.seen_until)} that the capture was made as of",
            "Check --now: its year, its day, its zone; without it a database's own clock counts.",
        )
    grave = [finding for finding in found if finding.severity > Severity.NOTE]
    if grave and grave[0].code != "data-blind":
        return grave[0]
    unread = {"unfinished", "jobs"} & situation.not_read.keys()
    if unread:
        why = situation.not_read[min(unread)]
        again = "Capture again with a larger --budget."
        return _unknown(f"the unfinished jobs were not read ({plain(why)})", again)
    if grave:
        return grave[0]
    if not situation.total:
        return _unknown(
            "no job is unfinished and none ended in the window: nothing to judge",
            "Check that this is the right database, schema and window (--since).",
        )
    return _healthy(situation)


def _unknown(why: str, step: str) -> Finding:
    said = f"The facts allow no verdict: {why}."
    return Finding(code="unknown", severity=Severity.NOTE, layer=None, sentence=said, next=(step,))


def _healthy(situation: Situation) -> Finding:
    running = situation.states.get(State.PROCESSING, 0)
    done = sum(queue.completions for queue in situation.queues)
    lately = duration_text(situation.rate_seconds)
    parts = [*_waiting(situation), f"{count_text(running, 'job')} running"]
    if situation.knows_ends:
        parts.append(f"{done:,} completed in the last {lately}")
    said = f"Nothing asks for action: {', '.join(parts)}."
    return Finding(code="healthy", severity=Severity.NOTE, layer=None, sentence=said)


def _waiting(situation: Situation) -> list[str]:
    """Say what waits, and no more of it than is known."""
    running = [queue for queue in situation.queues if queue.paused_at is None]
    calm = [queue for queue in running if not is_backlog(situation, queue)]
    said = {
        "in a backlog that drains": sum(q.backlog for q in running) - sum(q.backlog for q in calm),
        "wait, how long is not known": sum(q.claimable for q in calm if q.oldest_at is None),
        "wait, none too long": sum(q.claimable for q in calm if q.oldest_at is not None),
        "wait behind another of their shard": sum(q.backlog - q.claimable for q in calm),
    }
    return [f"{count_text(n, 'job')} {what}" for what, n in said.items() if n] or ["no backlog"]


def queue_word(situation: Situation, queue: QueueState) -> str:
    """Return a queue's state in one or two words; "capacity unknown" is one of them.

    Only a queue that is kept busy shows its capacity: one that completes what arrives does not.
    """
    if queue.paused_at is not None:
        return "paused"
    if is_stalled(situation, queue):
        return "stalled"
    if is_backlog(situation, queue):
        if not situation.knows_flow:
            return "waiting too long"
        if is_draining(situation, queue):
            return "draining"
        return "growing" if queue.arrivals > queue.left else "not clearing"
    if queue.claimable:
        return "waiting, capacity unknown"
    if queue.backlog:
        return "behind its shard"
    if "unfinished" in situation.not_read:
        return "not read whole"
    return "nothing due" if queue.waiting else "no backlog"


def _queue_json(situation: Situation, queue: QueueState) -> dict[str, Any]:
    events = {
        "arrival_rate": queue.arrivals if situation.knows_arrivals else None,
        "claim_rate": queue.claims if situation.knows_claims else None,
        "completion_rate": queue.left if situation.knows_ends else None,
        "dead_rate": queue.dead if situation.knows_ends else None,
        "net_rate": queue.left - queue.arrivals if situation.knows_flow else None,
    }
    seconds = situation.rate_seconds
    return {
        **queue_numbers(situation, queue),
        **{name: None if many is None else many / seconds for name, many in events.items()},
        "state": queue_word(situation, queue),
    }


# The screen


def _headline(triage: Triage) -> list[str]:
    verdict = triage.verdict
    word = "OK" if verdict.code == "healthy" else verdict.severity.word.upper()
    since = when_text(verdict.since, triage.situation.now)
    told = "" if verdict.since is None else f"since {since}"
    parts = (verdict.layer, verdict.code, told, "" if verdict.sure else "inferred")
    lines = [f"{word:<5} {' · '.join(part for part in parts if part)}"]
    lines += _wrapped("      ", verdict.sentence)
    if triage.eta is not None:
        lines += _wrapped("      Recovery: ", triage.eta.outlook)
    for step in verdict.next:
        # A statement that is to be copied stays on one line.
        lines += [f"      {step}"] if step.startswith(_NATIVE) else _wrapped("      Next: ", step)
    lines.append(f"      Runbook: {verdict.runbook}")
    return lines


def _wrapped(lead: str, text: str) -> list[str]:
    indent = lead if lead.isspace() else " " * 6
    wrapper = textwrap.TextWrapper(
        _WIDTH, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False
    )
    return wrapper.wrap(text)


def _others(triage: Triage) -> list[str]:
    rest = [f for f in triage.findings if f is not triage.verdict and f.code != "data-blind"]
    lines = []
    for finding in rest[:_MOST_OTHERS]:
        word = finding.severity.word.upper()
        lines += _wrapped(f"{word:<6} ", f"{finding.code}: {finding.sentence}")
    more = Counter(finding.code for finding in rest[_MOST_OTHERS:])
    if more:
        counted = ", ".join(f"{code} {count:,}" for code, count in more.items())
        lines.append(f"and {sum(more.values()):,} more: {counted} (--json has them all)")
    return [*lines, ""] if lines else []


def _table(seen: Situation) -> list[str]:
    if not seen.queues:
        return []
    queues, rest = _shown_queues(seen)
    head = ("queue", "waiting", "oldest", "in/min", "done/min", "state")
    rows = [head, *(_queue_row(seen, queue) for queue in queues)]
    width = max(len(row[0]) for row in rows)
    lines = [
        f"{name:<{width}}  {waiting:>7}  {oldest:>10}  {came:>7}  {done:>8}  {word}"
        for name, waiting, oldest, came, done, word in rows
    ]
    if rest:
        words = Counter(queue_word(seen, queue) for queue in rest)
        counted = ", ".join(f"{count:,} {word}" for word, count in words.most_common())
        lines += _wrapped("", f"and {count_text(len(rest), 'queue')} more: {counted}")
    return lines


def _shown_queues(situation: Situation) -> tuple[Sequence[QueueState], Sequence[QueueState]]:
    """Return the queues that a screen has room for, the longest if not all, and the rest."""
    if len(situation.queues) <= _MOST_QUEUES:
        return situation.queues, ()

    def rank(queue: QueueState) -> tuple[bool, bool, int, int]:
        still, late = is_stalled(situation, queue), is_backlog(situation, queue)
        return not still, not late, -queue.waiting, -queue.arrivals

    ordered = sorted(situation.queues, key=rank)
    return ordered[:_MOST_QUEUES], ordered[_MOST_QUEUES:]


def _queue_row(situation: Situation, queue: QueueState) -> tuple[str, ...]:
    age = oldest_age_seconds(situation, queue)
    per_minute = 60 / situation.rate_seconds
    return (
        short(queue_name(queue.queue), _NAME_WIDTH),
        f"{queue.waiting:,}",
        "-" if age is None else duration_text(age),
        _rate_text(queue.arrivals * per_minute) if situation.knows_arrivals else "?",
        _rate_text(queue.left * per_minute) if situation.knows_ends else "?",
        queue_word(situation, queue),
    )


def _rate_text(per_minute: float) -> str:
    return f"{per_minute:,.0f}" if per_minute >= 10 or per_minute == 0 else f"{per_minute:.1f}"


def _foot(triage: Triage) -> list[str]:
    seen = triage.situation
    blind = next((f for f in triage.findings if f.code == "data-blind"), None)
    lines = _wrapped("Not known: ", blind.sentence) if blind is not None else []
    looked = (seen.flow_until - seen.window_from) / 1e6
    lines += _wrapped(
        "",
        f"As of {iso(seen.seen_until)}, window {duration_text(looked)}, "
        f"rates over {duration_text(seen.rate_seconds)}, {count_text(seen.total, 'job')}, "
        f"{plain(seen.system)}.",
    )
    for warning in triage.warnings:
        lines += _wrapped("Note: ", warning)
    return lines
