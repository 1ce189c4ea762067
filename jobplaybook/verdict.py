"""The verdict: one screen that says which layer broke, since when, whom it hits, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobplaybook.detectors import findings
from jobplaybook.detectors.findings import BlastRadius, Finding
from jobplaybook.detectors.flow import is_backlog, is_stalled, oldest_age_seconds, queue_name
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.model import Layer, Severity, State
from jobplaybook.units import clock_text, count_text, duration_text, iso, plain

Advice = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """The answer of `jobplaybook.triage`.

    Parameters
    ----------
    verdict : Finding
        The finding that ranks first, or ``healthy`` or ``unknown``.
    findings : tuple of Finding
        All of them, the most severe first, causes before consequences.
    situation : Situation
        What they rest on.
    label : str
        The source's name as it may be shown.
    warnings : tuple of str
        What the reader has to know about the capture.
    """

    verdict: Finding
    findings: tuple[Finding, ...]
    situation: Situation
    label: str
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``jobplaybook triage``."""
        seen = self.situation
        return {
            "verdict": {
                "code": self.verdict.code,
                "layer": self.verdict.layer,
                "sentence": self.verdict.sentence,
                "since": iso(self.verdict.since),
                "severity": self.verdict.severity.word,
                "blast_radius": self.verdict.radius.to_json(),
                "eta": None,
            },
            "system": seen.system,
            "source": self.label,
            "now": iso(seen.now),
            "seen_until": iso(seen.seen_until),
            "window_from": iso(seen.window_from),
            "counts": dict(seen.counts),
            "states": dict(seen.states),
            "layers": {layer: seen.layers.get(layer, 0) for layer in Layer},
            "queues": [_queue_json(seen, queue) for queue in seen.queues],
            "findings": [finding.to_json() for finding in self.findings],
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """Return the screen: the verdict first, then the queues, then what is not known."""
        return "\n".join(
            [*_headline(self.verdict), "", *_others(self), *_table(self), *_foot(self)]
        )


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
    said = [*warnings, *_time_warnings(situation)]
    return Triage(
        verdict=_verdict(situation, found),
        findings=tuple(found),
        situation=situation,
        label=label,
        warnings=tuple(said),
    )


def _advised(finding: Finding, advice: str | None) -> Finding:
    if advice is None or finding.code != "lease-expired":
        return finding
    return replace(
        finding, next=(*finding.next, f"Native statement, to be copied and checked: {advice}")
    )


def _time_warnings(situation: Situation) -> list[str]:
    if situation.judged_later:
        return [
            f"judged at {iso(situation.now)}, after the last look at {iso(situation.seen_until)}: "
            "only leases were judged again; heartbeats, rates and completions end with the look"
        ]
    return []


def _verdict(situation: Situation, found: Sequence[Finding]) -> Finding:
    grave = [finding for finding in found if finding.severity > Severity.NOTE]
    if grave:
        return grave[0]
    if not situation.total:
        return _unknown("no job is unfinished and none ended in the window: nothing to judge")
    if "unfinished" in situation.not_read:
        return _unknown(f"the unfinished jobs were not read ({situation.not_read['unfinished']})")
    return _healthy(situation)


def _unknown(why: str) -> Finding:
    return Finding(
        code="unknown",
        severity=Severity.NOTE,
        layer=None,
        sentence=f"The facts allow no verdict: {why}.",
        next=("Check that this is the right database, schema and window (--since).",),
    )


def _healthy(situation: Situation) -> Finding:
    running = situation.states.get(State.PROCESSING, 0)
    claimable = sum(queue.claimable for queue in situation.queues)
    waits = f"{count_text(claimable, 'job')} wait, none too long" if claimable else "no backlog"
    done = sum(queue.completions for queue in situation.queues)
    return Finding(
        code="healthy",
        severity=Severity.NOTE,
        layer=None,
        radius=BlastRadius(),
        sentence=(
            f"Nothing asks for action: {waits}, {count_text(running, 'job')} running, "
            f"{done:,} completed in the last {duration_text(situation.rate_seconds)}."
        ),
    )


def queue_word(situation: Situation, queue: QueueState) -> str:
    """Return a queue's state in one or two words; "capacity unknown" is one of them.

    Only a queue that is kept busy shows its capacity: one that completes what arrives does not.
    """
    if queue.paused_at is not None:
        return "paused"
    if is_stalled(situation, queue):
        return "stalled"
    if is_backlog(situation, queue):
        return "draining" if queue.completions > queue.arrivals else "growing"
    if not queue.claimable:
        return "no backlog" if queue.waiting == 0 else "nothing due"
    return "waiting, capacity unknown"


def _queue_json(situation: Situation, queue: QueueState) -> dict[str, Any]:
    seconds = situation.rate_seconds
    return {
        "queue": queue.queue,
        "waiting": queue.waiting,
        "claimable": queue.claimable,
        "running": queue.running,
        "oldest_claimable_age_seconds": oldest_age_seconds(situation, queue),
        "arrival_rate": queue.arrivals / seconds,
        "claim_rate": queue.claims / seconds,
        "completion_rate": queue.completions / seconds,
        "net_rate": (queue.completions - queue.arrivals) / seconds,
        "rate_window_seconds": seconds,
        "state": queue_word(situation, queue),
    }


def _headline(verdict: Finding) -> list[str]:
    word = "OK" if verdict.code == "healthy" else verdict.severity.word.upper()
    parts = [verdict.layer or "", verdict.code]
    if verdict.since is not None:
        parts.append(f"since {clock_text(verdict.since)}")
    if not verdict.sure:
        parts.append("inferred")
    lines = [f"{word:<5} {' · '.join(part for part in parts if part)}"]
    lines += [f"      {verdict.sentence}"]
    lines += [f"      Next: {step}" for step in verdict.next]
    lines.append(f"      Runbook: {verdict.runbook}")
    return lines


def _others(triage: Triage) -> list[str]:
    rest = [f for f in triage.findings if f is not triage.verdict and f.code != "data-blind"]
    lines = [f"{f.severity.word.upper():<6} {f.code}: {f.sentence}" for f in rest]
    return [*lines, ""] if lines else []


def _table(triage: Triage) -> list[str]:
    seen = triage.situation
    if not seen.queues:
        return []
    rows = [_queue_row(seen, queue) for queue in seen.queues]
    width = max(5, *(len(row[0]) for row in rows))
    head = (
        f"{'queue':<{width}}  {'waiting':>7}  {'oldest':>10}  {'in/min':>7}  {'done/min':>8}  state"
    )
    return [
        head,
        *(
            f"{name:<{width}}  {waiting:>7}  {oldest:>10}  {came:>7}  {done:>8}  {word}"
            for name, waiting, oldest, came, done, word in rows
        ),
    ]


def _queue_row(situation: Situation, queue: QueueState) -> tuple[str, ...]:
    age = oldest_age_seconds(situation, queue)
    per_minute = 60 / situation.rate_seconds
    return (
        queue_name(queue.queue),
        f"{queue.waiting:,}",
        "-" if age is None else duration_text(age),
        _rate_text(queue.arrivals * per_minute),
        _rate_text(queue.completions * per_minute),
        queue_word(situation, queue),
    )


def _rate_text(per_minute: float) -> str:
    return f"{per_minute:,.0f}" if per_minute >= 10 or per_minute == 0 else f"{per_minute:.1f}"


def _foot(triage: Triage) -> list[str]:
    seen = triage.situation
    blind = next((f for f in triage.findings if f.code == "data-blind"), None)
    lines = [f"Not known: {blind.sentence}"] if blind is not None else []
    looked = (seen.seen_until - seen.window_from) / 1e6
    lines.append(
        f"As of {iso(seen.seen_until)}, window {duration_text(looked)}, "
        f"rates over {duration_text(seen.rate_seconds)}, {count_text(seen.total, 'job')}, "
        f"{plain(seen.system)}."
    )
    lines += [f"Note: {plain(warning)}" for warning in triage.warnings]
    return lines
