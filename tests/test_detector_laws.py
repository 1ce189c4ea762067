"""Laws of the detectors that no situation breaks, and thresholds that are felt when moved."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from jobplaybook.detectors import DETECTORS, dead_letters, findings, flow, leases
from jobplaybook.detectors.findings import CODES, MAX_IDS, BlastRadius, first_ids
from jobplaybook.detectors.situation import RunTime, Situation
from jobplaybook.model import Severity
from jobplaybook.units import MICROS
from jobplaybook.verdict import judge
from tests.canonical import NOW, ago
from tests.situations import (
    DAY,
    HOUR,
    codes,
    dead,
    held,
    judged,
    of,
    silent,
    situation,
    situations,
    waiting,
    worker,
)

OF_QUEUES = {"queue-stalled", "queue-paused", "backlog-growing", "backlog-draining"}
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")


@settings(max_examples=60)
@given(situations())
def test_a_job_is_expired_or_a_phantom_never_both(seen: Situation) -> None:
    """No job is in lease-expired and in phantom-running."""
    workers = {each.owner: each for each in seen.workers}
    for job in seen.held:
        assert not (job.is_expired and leases.is_doubtful(job, workers))
    ids = [f.job_ids for f in findings(seen) if f.code in ("lease-expired", "phantom-running")]
    assert len({job_id for listed in ids for job_id in listed}) == sum(map(len, ids))


@settings(max_examples=60)
@given(situations())
def test_owners_alive_are_never_accused(seen: Situation) -> None:
    """Whose heartbeat was in time is not lost, and nobody is asked whether it is really gone."""
    alive = {each.owner for each in seen.workers if seen.beats(each)}
    for finding in findings(seen):
        if finding.code == "workers-lost":
            assert not alive & set(finding.evidence["owners"])
        if finding.code == "lease-expired" and not seen.judged_later:
            asked = {o for o in finding.evidence["owners"] if o not in alive}
            assert set(finding.evidence["owners_alive"]) == set(finding.evidence["owners"]) - asked
            gone = [step for step in finding.next if "really gone" in step]
            assert bool(gone) is bool(asked or not finding.evidence["owners"])


@settings(max_examples=60)
@given(situations())
def test_lost_workers_were_silent_longer_than_their_lease(seen: Situation) -> None:
    """Every owner called lost had a heartbeat, a rule, no proper stop, and missed its time."""
    lost = {o for f in findings(seen) if f.code == "workers-lost" for o in f.evidence["owners"]}
    for each in seen.workers:
        if each.owner in lost:
            assert each.heartbeat_at is not None
            assert each.lease_seconds is not None
            assert each.stopped_at is None
            assert seen.workers_read_at is not None
            assert each.heartbeat_at + each.lease_seconds * MICROS < seen.workers_read_at


@settings(max_examples=60)
@given(situations())
def test_a_queue_has_one_verdict_and_paused_is_not_stalled(seen: Situation) -> None:
    """A queue is stalled, paused, or has a backlog that grows or drains: one of them at most."""
    told = [f.evidence["queue"] for f in findings(seen) if f.code in OF_QUEUES]
    assert len(told) == len(set(told))
    paused = {queue.queue for queue in seen.queues if queue.paused_at is not None}
    assert all(
        finding.code == "queue-paused"
        for finding in findings(seen)
        if finding.code in OF_QUEUES and finding.evidence["queue"] in paused
    )


@settings(max_examples=60)
@given(situations())
def test_findings_come_by_severity_and_causes_first(seen: Situation) -> None:
    """Graver ones first; among equals in the order of causes, then the queue with the most jobs."""
    order = [detector.__name__.replace("_", "-") for detector in DETECTORS]
    order[order.index("backlogs")] = "backlog-growing"
    alias = {"backlog-draining": "backlog-growing"}
    ranked = [
        (-f.severity, order.index(alias.get(f.code, f.code)), -f.count) for f in findings(seen)
    ]
    assert ranked == sorted(ranked)


@settings(max_examples=60)
@given(situations())
def test_healthy_means_nothing_above_a_note(seen: Situation) -> None:
    """The verdict is a finding above note, or healthy; unknown where nothing was there or read."""
    answer = judge(seen, label="test")
    grave = [f for f in answer.findings if f.severity > Severity.NOTE]
    if answer.verdict.code == "healthy":
        assert not grave
        assert seen.total
        assert "unfinished" not in seen.not_read
    elif answer.verdict.code == "unknown":
        assert all(f.code == "data-blind" for f in grave)
        assert not seen.total or "unfinished" in seen.not_read
    else:
        assert answer.verdict is grave[0]


def values(document: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key and value of a JSON document."""
    pairs = document.items() if isinstance(document, dict) else ((key, v) for v in document)
    for name, value in pairs:
        yield name, value
        if isinstance(value, dict | list):
            yield from values(value, name)


@settings(max_examples=150)
@given(situations())
def test_the_json_is_strict(seen: Situation) -> None:
    """No NaN or infinity, ids are strings and ten at most, times are ISO with Z."""
    document = json.loads(json.dumps(judge(seen, label="test").to_json(), allow_nan=False))
    assert {"verdict", "system", "now", "counts", "layers", "findings"} <= document.keys()
    verdict = {"code", "layer", "sentence", "since", "blast_radius", "eta"}
    assert verdict <= document["verdict"].keys()
    assert document["verdict"]["blast_radius"].keys() == {"jobs", "tenants", "types"}
    for finding in document["findings"]:
        keys = ["code", "severity", "confidence", "count", "job_ids", "evidence", "next", "runbook"]
        assert set(keys) <= finding.keys()
        assert finding["code"] in CODES
        assert finding["severity"] in ("page", "ticket", "note")
        assert finding["confidence"] in ("sure", "inferred")
        assert finding["runbook"] == f"runbooks/{finding['code']}.md"
        assert len(finding["job_ids"]) <= MAX_IDS
        assert all(isinstance(job_id, str) for job_id in finding["job_ids"])
    owned = ("lease-expired", "phantom-running", "workers-lost")
    assert all("owners" in f["evidence"] for f in document["findings"] if f["code"] in owned)
    for finding in document["findings"]:  # these two are keyed by facts, some of which are times
        finding["evidence"] = {**finding["evidence"], "missing": {}, "notes": {}}
    for key, value in values(document):
        if (key.endswith("_at") or key in ("since", "now", "seen_until")) and value is not None:
            assert isinstance(value, dict) or ISO.fullmatch(value), key


@settings(max_examples=150)
@given(situations())
def test_no_job_writes_on_the_screen(seen: Situation) -> None:
    """Sentences, steps and lines hold no control or bidi character, whatever the names are."""
    answer = judge(seen, label="test")
    texts = [t for f in (answer.verdict, *answer.findings) for t in (f.sentence, *f.next)]
    lines = str(answer).split("\n")
    assert all(text.isprintable() for text in (*texts, *lines))
    assert all(len(line) <= 120 for line in lines)
    assert len(lines) <= 45


@settings(max_examples=60)
@given(situations())
def test_a_later_now_judges_leases_alone(seen: Situation) -> None:
    """With a later now, no more than leases change, they are inferred, and the answer says so."""
    at, late = seen.seen_until, seen.seen_until + HOUR * MICROS
    first, later = (
        replace(
            seen,
            now=now,
            window_until=None,
            sweeper=None,
            held=tuple(replace(job, judged_at=now) for job in seen.held),
        )
        for now in (at, late)
    )
    before, after = judge(first, label="test"), judge(later, label="test")
    told = OF_QUEUES | {"workers-lost"}
    by_code = [
        [(f.code, f.count, f.severity) for f in answer.findings if f.code in told]
        for answer in (before, after)
    ]
    assert by_code[0] == by_code[1]
    assert all(not f.sure for f in of(after, "lease-expired"))
    assert before.warnings == ()
    assert "only leases were judged again" in after.warnings[0]
    assert {j.id for j in first.held if j.is_expired} <= {j.id for j in later.held if j.is_expired}


@pytest.mark.parametrize("at", [NOW, NOW + 60 * MICROS])
def test_nobody_is_missed_after_the_last_look(at: int) -> None:
    """A worker and a queue that were in order when looked at stay so, however late it is judged."""
    answer = judged(
        now=at,
        workers=(worker(silence=29),),
        queues=(waiting(50, age=9, last_claim_at=ago(9), last_completion_at=ago(9)),),
        held=(held(lease=30, judged_at=at),),
    )
    late = at > NOW
    assert {f.code for f in answer.findings} == ({"lease-expired"} if late else set())
    assert "nobody looked after 03:00:00Z" in answer.verdict.sentence or not late
    assert len(answer.warnings) == late


def test_ids_stand_in_number_order() -> None:
    """The first ten, numbers as numbers and before all other names."""
    ids = [str(n) for n in (100, 20, 3, *range(40, 50))]
    assert first_ids(["b", *ids])[:3] == ("3", "20", "40")
    assert len(first_ids(ids)) == MAX_IDS
    assert first_ids(["a", "12", "9"]) == ("9", "12", "a")
    jobs = tuple(held(str(n), lease=-1) for n in range(12, 0, -1))
    assert judged(held=jobs).verdict.job_ids == tuple(str(n) for n in range(1, 11))


def test_the_blast_radius_is_what_the_system_says() -> None:
    """Jobs, tenants and types are counted; None where nobody says whose or what they are."""
    jobs = (held("1", lease=-1), held("2", lease=-1, tenant_id="t2", job_type=None))
    assert judged(held=jobs).verdict.radius == BlastRadius(jobs=2, tenants=2, types=1)
    nameless = tuple(replace(job, job_type=None) for job in jobs)
    blind = judge(situation(held=nameless, facts={}), label="test")
    assert of(blind, "lease-expired")[0].radius == BlastRadius(jobs=2, tenants=None, types=None)
    state = waiting(90, age=HOUR, tenants=7, types=2)
    assert judged(queues=(state,)).verdict.radius == BlastRadius(jobs=90, tenants=7, types=2)


# A threshold that moved is felt

MOVED: list[tuple[Any, str, float, dict[str, Any], str]] = [
    (
        leases,
        "MIN_RUNS",
        21,
        {
            "held": (held(lease=None, age=101),),
            "run_times": {"report": RunTime(p99_seconds=100.0, runs=20)},
        },
        "phantom-running",
    ),
    (
        leases,
        "NO_HISTORY_SECONDS",
        HOUR + 1,
        {"held": (held(lease=None, age=HOUR + 1),)},
        "phantom-running",
    ),
    (
        flow,
        "STILL_SECONDS",
        61.0,
        {"queues": (silent(30, seconds=60, claims_before=DAY),)},
        "queue-stalled",
    ),
    (
        flow,
        "EXPECTED_CLAIMS",
        30.1,
        {"queues": (silent(30, seconds=60, claims_before=DAY),)},
        "queue-stalled",
    ),
    (
        flow,
        "NO_BASELINE_SECONDS",
        301.0,
        {"queues": (silent(3, seconds=300, claims_before=2),)},
        "queue-stalled",
    ),
    (
        flow,
        "YOUNG_SECONDS",
        61.0,
        {"queues": (waiting(9, age=60, rates=(9, 5)),)},
        "backlog-growing",
    ),
    (
        flow,
        "NORMAL_FACTOR",
        6.2,
        {"queues": (waiting(9, age=61, rates=(9, 5)),)},
        "backlog-growing",
    ),
    (dead_letters, "FEW", 4, {"dead": dead(3), "finished_in_window": 3}, "dead-letters-growing"),
    (
        dead_letters,
        "SHARE",
        0.02,
        {"dead": dead(3, age=5 * HOUR), "finished_in_window": 300},
        "dead-letters-growing",
    ),
    (
        dead_letters,
        "SIGMAS",
        5.0,
        {"dead": (*dead(23, age=5 * HOUR), *dead(5)), "finished_in_window": 10_000},
        "dead-letters-growing",
    ),
]


@pytest.mark.parametrize(
    ("module", "name", "value", "seen", "code"), MOVED, ids=[row[1] for row in MOVED]
)
def test_a_threshold_that_moves_is_felt(
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    value: float,
    seen: dict[str, Any],
    code: str,
) -> None:
    """Each threshold decides: with the next value the finding at its boundary is gone."""
    assert code in codes(**seen)
    monkeypatch.setattr(module, name, value)
    assert code not in codes(**seen)


@pytest.mark.parametrize(
    ("name", "value", "state", "severity"),
    [
        ("FEW_JOBS", 11, silent(10, seconds=DAY), "page"),
        ("PAGE_AGE_SECONDS", HOUR + 1, waiting(9, age=HOUR, rates=(900, 1)), "page"),
        ("LONG_DRAIN_SECONDS", 1e9, waiting(9_000, age=HOUR, rates=(1, 90)), "ticket"),
    ],
)
def test_a_severity_threshold_that_moves_is_felt(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float, state: Any, severity: str
) -> None:
    """What makes a finding a page or a ticket is its threshold and nothing beside it."""
    before = judged(queues=(state,)).findings[0]
    monkeypatch.setattr(flow, name, value)
    after = judged(queues=(state,)).findings[0]
    assert (before.code, before.severity.word) == (after.code, severity)
    assert after.severity < before.severity


@pytest.mark.parametrize("shift", [0, 1])
def test_a_lease_judged_with_at_most_would_be_caught(
    monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    """Judging one microsecond later is the same as taking `<=`: the boundary rows then differ."""
    job = held(lease=0, judged_at=NOW + shift)
    assert job.is_expired is bool(shift)
    assert ("lease-expired" in codes(held=(job,))) is bool(shift)
