"""One job's life: what happened, what is not recorded, what comes next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import jobplaybook as jp
from jobplaybook import cohort
from jobplaybook.commands import cli
from jobplaybook.life import Life
from jobplaybook.life_events import ORDER
from jobplaybook.model import Layer
from jobplaybook.units import iso, parse_time
from tests.canonical import NOW, Rows, ago, attempt, job, snapshot_of
from tests.captures import capture
from tests.test_recordings import AFTER_KILL_AT, FINAL_AT, LEASE_OVER_AT

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202e"


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, words)


def answered(*words: str) -> dict[str, Any]:
    done = run("timeline", *words, "--json")
    assert done.exit_code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def lived(folder: Path, rows: Rows, job_id: str = "1", **given: Any) -> Life:
    """Return the life of a job out of canonical rows."""
    meta = {name: given.pop(name) for name in ("sweeper", "not_read") if name in given}
    with snapshot_of(folder, rows, **meta) as snapshot:
        return jp.timeline(snapshot, job_id, **given)


def names(life: Life) -> list[str]:
    return [event.event for event in life.events]


# The recordings


@pytest.fixture(scope="module")
def recorded(
    recording: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], str]:
    folder = tmp_path_factory.mktemp("lives")

    def made(name: str, at: str) -> str:
        path = folder / f"{name}.db"
        if not path.exists():
            capture(recording(name), path, now=parse_time(at))
        return str(path)

    return made


def test_a_rescued_job(recorded: Callable[[str, str], str]) -> None:
    """`final`, job 191: started, requeued by nobody knows what, started again, done."""
    found = answered(recorded("final", FINAL_AT), "191")
    assert [(event["event"], event["at"], event["attempt"]) for event in found["events"]] == [
        ("accepted", "2026-12-01T03:44:49.628286Z", None),
        ("claimed", "2026-12-01T03:44:50.254473Z", 1),
        ("due", "2026-12-01T03:45:00.528982Z", 2),
        ("requeued", "2026-12-01T03:45:00.530896Z", 1),
        ("claimed", "2026-12-01T03:45:00.788427Z", 2),
        ("completed", "2026-12-01T03:45:25.802767Z", 2),
    ]
    assert found["events"][3]["note"] == "rescue or failure: not recorded by this system"
    for words in (
        "Attempt 1 started at 03:44:50.25Z",
        "at 03:45:00.53Z, after 10 s, it was requeued (rescue or failure: not recorded",
        "Attempt 2 started again at 03:45:00.79Z by worker 3",
        "at 03:45:25.8Z, after 25 s, it succeeded",
        "Not recorded by this system: why an attempt failed, effects",
        "which worker ran attempt 1",
    ):
        assert words in found["explanation"]
    assert (found["layer"], found["next"]) == ("result", "Nothing more happens to it.")
    first, second = found["attempts"]
    assert first["wait_is_exact"] is False
    assert (second["wait_is_exact"], round(second["waited_seconds"], 3)) == (True, 0.259)


def test_a_job_whose_worker_was_killed(recorded: Callable[[str, str], str]) -> None:
    """`after_kill`: held by a silent worker; judged later, the lease is over, and it says so."""
    path = recorded("after_kill", AFTER_KILL_AT)
    found = answered(path, "191", "--now", LEASE_OVER_AT)
    assert found["next"] == (
        "It is held by worker 2, last seen at 2026-12-01T03:44:51.25Z, 3.0 s before the capture. "
        "Its lease was over at 2026-12-01T03:45:21.25Z; nothing sweeps it: it waits until somebody "
        "requeues it."
    )
    assert found["next"] in found["explanation"]
    assert found["layer"] == "claimed"
    renewed, expired = found["events"][-2:]
    assert (renewed["event"], renewed["at"]) == ("renewed", "2026-12-01T03:44:51.252235Z")
    assert (expired["event"], expired["at"]) == ("expired", "2026-12-01T03:45:21.252235Z")
    assert "after the last look" in found["warnings"][-1]
    as_captured = answered(path, "191")
    assert (
        "Its lease is over at 2026-12-01T03:45:21.25Z, unless it is renewed"
        in (as_captured["next"])
    )
    assert "expired" not in [event["event"] for event in as_captured["events"]]
    assert not as_captured["warnings"]


def test_an_earlier_moment_is_warned_of() -> None:
    """Judged before the capture, statuses stay as captured."""
    (warning,) = jp.timeline("sample", "319", now="2026-12-01T04:37:50Z").warnings
    assert "before the capture" in warning


# Unknown ids


def test_an_unknown_id_is_no_durable_job() -> None:
    """It names the window and what may have deleted it, and is an answer, not an error."""
    found = answered("sample", "4711")
    assert (found["job"], found["layer"], found["attempts"]) == (None, "intake", [])
    for words in (
        "no durable job 4711",
        "as of 2026-12-01T04:38:47.694988Z",
        "ended since 2026-11-30T04:38:47.694988Z",
        "deletes what it finished",
    ):
        assert words in found["explanation"]


def test_what_was_not_read_is_said_of_an_unknown_id(tmp_path: Path) -> None:
    """Where the budget ended, a job may be there all the same."""
    life = lived(tmp_path, {}, not_read='{"jobs": "out of time"}')
    assert "not everything was read (jobs: out of time)" in life.explanation


# Every column that tells of a life


CHARGED: Rows = {
    "jobs": [
        job(
            "1", "completed", attempts=3, queue="mail", owner="w3", created_at=ago(100),
            available_at=ago(60), claimed_at=ago(58), finished_at=ago(50),
        )
    ],
    "attempts": [
        attempt("1", 1, "failed", owner="w1", started_at=ago(98), ended_at=ago(97),
                error_code="card_declined"),
        attempt("1", 2, "expired", owner="w2", started_at=ago(90), ended_at=ago(60)),
        attempt("1", 3, "succeeded", owner="w3", started_at=ago(58), ended_at=ago(50)),
    ],
    "effects": [
        {"effect_key": "1/charge", "job_id": "1", "attempt": 2, "kind": "charge",
         "status": "confirmed", "intended_at": ago(89), "confirmed_at": ago(55)},
        {"effect_key": "1/mail", "job_id": "1", "attempt": 3, "kind": None, "status": "intended",
         "intended_at": ago(54)},
    ],
    "outbox": [
        {"id": "o1", "job_id": "1", "topic": "paid", "created_at": ago(50),
         "published_at": ago(49)},
        {"id": "o2", "job_id": "1", "topic": "late", "created_at": ago(50)},
    ],
    "deliveries": [
        {"id": "d1", "job_id": "1", "event_type": "charge.done", "received_at": ago(52),
         "times_received": 2, "processed_at": ago(51)},
    ],
}  # fmt: skip


def test_a_life_across_all_layers(tmp_path: Path) -> None:
    """Failed, taken over, charged, told: each event in its layer and in the order of time."""
    life = lived(tmp_path, CHARGED)
    assert [(event.event, event.layer) for event in life.events] == [
        ("accepted", Layer.INTAKE),
        ("claimed", Layer.CLAIMED),
        ("failed", Layer.CLAIMED),
        ("claimed", Layer.CLAIMED),
        ("effect-intended", Layer.EFFECT),
        ("expired", Layer.CLAIMED),
        ("due", Layer.WAITING),
        ("taken-over", Layer.CLAIMED),
        ("effect-confirmed", Layer.EFFECT),
        ("effect-intended", Layer.EFFECT),
        ("delivery-received", Layer.INTAKE),
        ("completed", Layer.RESULT),
        ("notice-sent", Layer.NOTIFIED),
    ]
    notes = {event.event: event.note for event in life.events}
    assert notes["failed"] == "error card_declined"
    assert notes["delivery-received"] == "charge.done, 2 times"
    for words in (
        "Effect 1/charge (charge) was confirmed at 02:59:05Z.",
        "Effect 1/mail was intended at 02:59:06Z and is not confirmed: ask the provider",
        "1 of its 2 notices not sent yet.",
        "Delivery d1 (charge.done) came 2 times and is processed.",
        "50 s after it was accepted, 39 s of them in work",
        "Attempt 2 started again at 02:58:30Z by worker w2, 7.0 s after attempt 1 ended",
    ):
        assert words in life.explanation
    assert "Not recorded" not in life.explanation


def test_waits_are_told_apart_from_work(tmp_path: Path) -> None:
    """Only the latest attempt's due time is kept: an earlier wait holds the retry's rest."""
    life = lived(tmp_path, CHARGED)
    assert [(a.waited_seconds, a.ran_seconds, a.wait_is_exact) for a in life.attempts] == [
        (2.0, 1.0, False),
        (7.0, 30.0, False),
        (2.0, 8.0, True),
    ]
    frame = cohort.wait_frame(life.attempts)
    assert list(frame["counted_from"]) == [
        "acceptance",
        "the end of the attempt before",
        "when it was due",
    ]


# What happened outside


def test_outside_events_stand_in_their_place() -> None:
    """A deploy is told between what came before it and what came after it."""
    deploy = ("--event", "2026-12-01T04:37:40Z=deploy 412 = canary")
    found = answered("sample", "319", *deploy, "--event", "2026-12-01T04:40:00Z=rolled back")
    assert [(event["event"], event["note"]) for event in found["events"]] == [
        ("accepted", ""),
        ("claimed", ""),
        ("external", "deploy 412 = canary"),
        ("renewed", "the worker's last heartbeat"),
        ("expired", "the lease was over"),
        ("external", "rolled back"),
    ]
    assert found["events"][2]["layer"] is None
    shown = run("timeline", "sample", "319", *deploy).stdout
    assert shown.index("claimed ") < shown.index("deploy 412") < shown.index("renewed ")


@pytest.mark.parametrize(
    "text", ["deploy", "=deploy", "2026-12-01T04:37:40Z=", "04:37=x", "2026-12-01=x"]
)
def test_a_malformed_event_is_refused(text: str) -> None:
    """TIME=TEXT, both of them, and the time with its offset."""
    done = run("timeline", "sample", "319", "--event", text)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "expected" in done.stderr


def test_events_of_one_moment_keep_their_order(tmp_path: Path) -> None:
    """At the same microsecond, a lease ends before the next worker takes over."""
    rows = {
        "jobs": [job("1", "processing", attempts=2, created_at=ago(9), available_at=ago(9))],
        "attempts": [
            attempt("1", 1, "expired", started_at=ago(9), ended_at=ago(5)),
            attempt("1", 2, started_at=ago(5)),
        ],
    }
    life = lived(tmp_path, rows, events=[(ago(9), "deploy")])
    assert names(life) == ["external", "accepted", "claimed", "expired", "taken-over"]
    assert set(names(life)) <= set(ORDER)


# What scripts rely on


def test_the_json_has_the_promised_keys(tmp_path: Path) -> None:
    """Ids and tokens are text, times ISO with Z, numbers of seconds plain."""
    rows = {**CHARGED, "jobs": [{**CHARGED["jobs"][0], "fencing_token": 2**53 + 1}]}
    document = json.loads(json.dumps(lived(tmp_path, rows).to_json(), allow_nan=False))
    assert {"job", "layer", "explanation", "events"} <= document.keys()
    assert document["job"]["id"] == "1"
    assert document["job"]["fencing_token"] == str(2**53 + 1)
    assert document["job"]["created_at"] == iso(ago(100))
    for event in document["events"]:
        assert set(event) == {"at", "layer", "event", "attempt", "owner", "note"}
        assert event["at"].endswith("Z")


def test_hostile_text_is_only_text(tmp_path: Path) -> None:
    """Whatever a job is called, no control or bidi character reaches the terminal."""
    row = job(
        "1", "dead", job_type=HOSTILE, finished_at=ago(5), last_error_code=HOSTILE, owner=HOSTILE
    )
    tried = attempt("1", 1, "failed", owner=HOSTILE, started_at=ago(9), ended_at=ago(5),
                    error_code=HOSTILE)  # fmt: skip
    effect = {"effect_key": HOSTILE, "job_id": "1", "status": "intended", "kind": HOSTILE,
              "intended_at": ago(7)}  # fmt: skip
    sent = {"id": HOSTILE, "job_id": "1", "event_type": HOSTILE, "received_at": ago(6)}
    rows: Rows = {"jobs": [row], "attempts": [tried], "effects": [effect], "deliveries": [sent]}
    life = lived(tmp_path, rows, events=[(NOW, HOSTILE)])
    shown = str(life) + life.explanation
    assert not {"\x1b", "\u202e"} & set(shown)
    assert "<img src=x onerror=alert(1)>" in shown
    frame = cohort.event_frame(life.events)
    assert "\x1b" not in "".join(frame["note"])


def test_the_screen_fits_a_terminal() -> None:
    """The explanation is broken into lines, and each event has one of its own."""
    lines = run("timeline", "sample", "319").stdout.splitlines()
    blank = lines.index("")
    assert all(len(line) <= 96 for line in lines[:blank])
    assert len(lines[blank + 1 :]) == 4
