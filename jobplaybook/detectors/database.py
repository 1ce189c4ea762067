"""The database under the queue: dead rows that nobody may clear away, claims that cost too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobplaybook.detectors.findings import (
    BlastRadius,
    Finding,
    fields_of,
    fitting,
    in_order,
    names_text,
    short,
    when_text,
)
from jobplaybook.detectors.flow import (
    NORMAL_FACTOR,
    YOUNG_SECONDS,
    harm_by_queue,
    is_draining,
    is_late,
    is_stalled,
    queue_name,
)
from jobplaybook.detectors.signs import TableVitals, Vitals
from jobplaybook.detectors.situation import QueueState, Situation
from jobplaybook.model import Layer, Severity
from jobplaybook.units import count_text, duration_text, iso

OLD_TRANSACTION_SECONDS = 300.0  # no transaction of a queue needs this long
HELD_TRANSACTIONS = 1_000  # fewer later transactions than this hold back nothing that matters
DEAD_ROWS = 10_000  # fewer dead rows than this cost a claim nothing that anybody notices
DEAD_SHARE = 0.2  # of the live rows: from here on PostgreSQL's own default would have cleared them
DEAD_TO_LIVE = 1.0  # of the live rows: a claim passes as many rows in vain as it could take
SCANNED_ROWS = 10_000  # a smaller table is scanned whole for good reasons
SCANS_PER_CLAIM = 0.5  # so many scans of the whole table a claim are no accident
FEW_SCANS = 10  # fewer scans than this between two samples may be anybody's
IDLE_SHARE = 0.5  # the share of workers that hold nothing while jobs wait
IDLE_JOBS = 10  # fewer jobs than this that wait beside idle workers tell nothing

UNSEEN = (
    "the time that one claim takes",
    "locks and who waits for them",
    "prepared transactions and replicas that hold snapshots",
)
"""What these vital signs do not show: said, not guessed."""


def vacuum_blocked(situation: Situation) -> list[Finding]:
    """Find an old transaction whose snapshot keeps the queue's dead rows from being removed."""
    vitals = situation.vitals
    if vitals is None or vitals.holder_seconds is None:
        return []
    # Where nobody told how much came after the snapshot, its age alone has to do.
    behind = vitals.oldest_snapshot_transactions
    held = behind is None or behind >= HELD_TRANSACTIONS
    if not held or vitals.holder_seconds < OLD_TRANSACTION_SECONDS:
        return []
    # More dead rows than autovacuum would leave there by its defaults.
    tables = [
        table
        for table in vitals.tables
        if table.dead_rows >= DEAD_ROWS and table.dead_rows > DEAD_SHARE * table.live_rows
    ]
    if not tables:
        return []
    worst = max(tables, key=lambda table: table.dead_rows)
    since, came = vitals.held_from, worst.last_autovacuum_at
    # A vacuum that came after it and left them proves what holds them.
    in_vain = since is not None and came is not None and came > since
    vain = f" Autovacuum came at {when_text(came, situation.now)} and could not remove them."
    return [
        Finding(
            code="vacuum-blocked",
            severity=max(Severity.TICKET, _harm(situation)),
            layer=Layer.WAITING,
            sure=in_vain,
            since=since,
            count=int(worst.dead_rows),
            radius=_radius(situation),
            sentence=(
                f"A transaction is open for {duration_text(vitals.holder_seconds)}, and "
                f"{_dead_rows(worst)} of {short(worst.table)} are dead (beside "
                f"{count_text(int(worst.live_rows))} live ones): nothing that died after it began "
                f"can be removed, and every claim steps over it."
                f"{vain if in_vain else ''}"
                f"{_late_text(situation, in_vain)}"
            ),
            evidence={
                **_evidence(vitals, tables),
                "vacuum_came_in_vain": in_vain,
                "not_shown": list(UNSEEN),
            },
            next=(
                "Find the session of that transaction and what it is for; end it if nobody needs "
                "it (the runbook has both statements).",
                "Do not start more workers: each claim steps over the same dead rows.",
            ),
        )
    ]


def _harm(situation: Situation) -> Severity:
    return max(harm_by_queue(situation).values(), default=Severity.NOTE)


def _late(situation: Situation) -> list[QueueState]:
    queues = situation.queues
    return [q for q in queues if is_late(situation, q) and not is_draining(situation, q)]


def _radius(situation: Situation) -> BlastRadius:
    return BlastRadius(jobs=sum(queue.backlog for queue in _late(situation)))


def _late_text(situation: Situation, sure: bool) -> str:
    late = [queue_name(queue.queue) for queue in _late(situation)]
    if not late:
        return " No backlog grows by it yet."
    who = f"{fitting(len(late), 'Queue', 'Queues')} {names_text(late)}"
    cause = "cause" if sure else "likely cause"
    falls = fitting(len(late), "falls", "fall")
    return f" {who} {falls} behind: the transaction is the {cause}, not the workers."


def _dead_rows(table: TableVitals) -> str:
    return count_text(int(table.dead_rows), "row")


def _evidence(vitals: Vitals, tables: Sequence[TableVitals]) -> dict[str, Any]:
    return {
        "taken_at": iso(vitals.taken_at),
        **fields_of(vitals, "oldest_transaction_seconds", "oldest_snapshot_seconds"),
        "oldest_snapshot_transactions": vitals.oldest_snapshot_transactions,
        "tables": [
            {
                **fields_of(table, "table", "live_rows", "dead_rows"),
                "last_autovacuum_at": iso(table.last_autovacuum_at),
                "sequential_scans_between_samples": table.scans_between,
            }
            for table in tables
        ],
    }


# Claims


def claim_slow(situation: Situation) -> list[Finding]:
    """Find claims that cost more than they should: dead rows, whole scans, idle workers."""
    vitals = situation.vitals
    tables = () if vitals is None else vitals.tables
    dead = [] if vacuum_blocked(situation) else [t for t in tables if _is_mostly_dead(t)]
    scanned = [t for t in tables if vitals is not None and _is_scanned(vitals, t)]
    beating = [worker.owner for worker in situation.workers if situation.beats(worker)]
    idle = in_order(set(beating) - {job.owner for job in situation.held})
    many_idle = idle and len(idle) >= IDLE_SHARE * len(beating)
    waits = [q for q in situation.queues if many_idle and _waits_in_vain(situation, q)]
    if not dead and not scanned and not waits:
        return []
    parts = _tables_text(vitals, dead, scanned) + [_idle_text(q, idle) for q in waits[:2]]
    if dead and vitals is not None and vitals.oldest_transaction_seconds is None:
        parts.append("Whether a transaction holds them is hidden from this role.")
    return [
        Finding(
            code="claim-slow",
            # Idle workers may serve other queues: that alone outranks nobody's backlog.
            severity=_harm(situation) if dead or scanned else Severity.NOTE,
            layer=Layer.WAITING,
            sure=False,
            since=min((q.oldest_at for q in waits if q.oldest_at is not None), default=None),
            count=len(waits) or len({t.table for t in (*dead, *scanned)}),
            radius=_radius(situation),
            sentence=" ".join(parts),
            evidence={
                "dead": [table.table for table in dead],
                "scanned": [table.table for table in scanned],
                "queues": [queue.queue for queue in waits],
                "idle_workers": idle,
                **({} if vitals is None else _evidence(vitals, vitals.tables)),
                "not_shown": _unseen(vitals),
            },
            next=(
                "Do not start more workers before the claim is cheap: each one adds to its cost.",
                "Look at the plan of the claim: does it use an index of the waiting jobs alone?",
            ),
        )
    ]


def _is_mostly_dead(table: TableVitals) -> bool:
    """Whether a table has many dead rows, and as many of them as live ones."""
    return table.dead_rows >= DEAD_ROWS and table.dead_rows >= DEAD_TO_LIVE * table.live_rows


def _is_scanned(vitals: Vitals, table: TableVitals) -> bool:
    """Whether a large table was scanned whole about as often as jobs were claimed."""
    if table.scans_between is None or vitals.claims_between is None:
        return False
    large = table.live_rows + table.dead_rows >= SCANNED_ROWS
    return large and table.scans_between >= max(SCANS_PER_CLAIM * vitals.claims_between, FEW_SCANS)


def _waits_in_vain(situation: Situation, queue: QueueState) -> bool:
    """Whether claims of a queue wait far longer than before, with enough there to claim."""
    normal, recent = queue.normal_wait_seconds, queue.recent_wait_seconds
    if normal is None or recent is None or queue.paused_at is not None:
        return False
    longer = recent >= YOUNG_SECONDS and recent > NORMAL_FACTOR * normal
    return longer and queue.claimable >= IDLE_JOBS and not is_stalled(situation, queue)


def _tables_text(
    vitals: Vitals | None, dead: Sequence[TableVitals], scanned: Sequence[TableVitals]
) -> list[str]:
    parts = [
        f"{short(table.table)} holds {_dead_rows(table)} that are dead, beside "
        f"{count_text(int(table.live_rows))} live ones: claims step over them."
        for table in dead
    ]
    claims = count_text((vitals and vitals.claims_between) or 0, "claim")
    return parts + [
        f"{short(table.table)} was scanned whole {count_text(int(table.scans_between or 0))} "
        f"times during {claims}: the claim finds no fitting index."
        for table in scanned
    ]


def _idle_text(queue: QueueState, idle: Sequence[str]) -> str:
    wait, normal = queue.recent_wait_seconds, queue.normal_wait_seconds
    return (
        f"Claims of {queue_name(queue.queue)} wait {duration_text(wait)} where under "
        f"{duration_text(normal)} is normal, while {count_text(len(idle), 'worker')} "
        f"({names_text(idle)}) {fitting(len(idle), 'holds', 'hold')} nothing."
    )


def _unseen(vitals: Vitals | None) -> list[str]:
    """Return what nobody looked at: dead rows and scans too, where no vital signs were taken."""
    if vitals is None:
        return ["dead rows", "scans", "open transactions", *UNSEEN]
    parts = []
    if vitals.oldest_transaction_seconds is None:
        parts.append("open transactions: this role may not see them")
    if vitals.claims_between is None:
        parts.append("scans at the moment: that takes two samples")
    return [*parts, *UNSEEN]
