"""The story of an incident: every moment in its place, three windows side by side, what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jobplaybook as jp
from jobplaybook import incident
from jobplaybook.errors import InputError
from jobplaybook.incident import Story
from jobplaybook.snapshot.file import Snapshot
from jobplaybook.units import iso
from tests.canonical import NOW, ago, bare, done, job, known, snapshot_of

EVENT = "2026-12-01T04:37:40Z=node drained"


def told(source: str | Snapshot, *events: str, **asked: Any) -> Story:
    with jp.open_snapshot(source) as snapshot:
        answer = jp.triage(snapshot, **asked)
        return incident.read_story(snapshot, answer, events=incident.outside_events(events))


def lines(story: Story) -> list[str]:
    return [f"{moment.where}: {moment.what}" for moment in story.moments]


# The order of things


def test_the_sample_is_told_in_order() -> None:
    """Drained, silent, over, still standing: as it was, with the event in its place."""
    story = told("sample", EVENT)
    said = lines(story)
    order = (
        "outside: node drained", "claimed: lease-expired begins", "claimed: last sign of worker 2",
        "claimed: the leases of 4 jobs are over",
    )  # fmt: skip
    places = [next(n for n, line in enumerate(said) if line.startswith(o)) for o in order]
    assert places == sorted(places)
    assert said[-1] == "-: last look: lease-expired still stands, not over"
    assert [moment.at for moment in story.moments] == sorted(m.at for m in story.moments)
    assert not story.is_over
    assert "node drained" in str(story.timeline())


def test_before_is_as_long_as_the_incident() -> None:
    """The two windows touch, are of the same length, and count what `health` counts."""
    before, during = told("sample").phases
    assert (before.name, during.name) == ("before", "during")
    assert before.until == during.since
    assert before.seconds == during.seconds == pytest.approx(65.544742)
    assert (before.arrivals, before.completions, before.dead) == (407, 407, 0)
    assert (during.arrivals, during.completions, during.dead) == (376, 374, 0)
    assert during.oldest_age_seconds > 20 * before.oldest_age_seconds
    table = str(told("sample").comparison())
    assert "407 (373/min)" in table
    assert "6.6 s (billing)" in table


def test_a_healthy_queue_has_no_incident() -> None:
    """One window, and no moment begins anything."""
    story = told(str(jp.sample_path("healthy")))
    assert [phase.name for phase in story.phases] == ["whole window"]
    assert not any("begins" in line for line in lines(story))
    assert lines(story)[-1] == "-: last look: healthy"


def test_a_window_that_is_given_is_the_incident() -> None:
    """Trouble that is over leaves no verdict: the window that a person names is compared."""
    until = "2026-12-01T04:38:20Z"
    story = told(str(jp.sample_path("healthy")), until=until, since_seconds=30.0)
    before, during, after = story.phases
    assert (before.seconds, during.seconds) == (30.0, 30.0)
    assert iso(during.until) == until
    assert (after.since, after.until) == (during.until, story.seen_until)
    assert story.is_over
    assert story.recovered_at == during.until
    assert "-: the window that was given begins" in lines(story)


def stopped(**more: Any) -> dict[str, Any]:
    """Return rows of a queue that stood still for two minutes and made up for it."""
    pairs = [done(f"early-{n}", ended=600 - n * 10, wait=0.5) for n in range(30)]
    pairs += [done(f"late-{n}", ended=100 - n, wait=120.0 - n) for n in range(60)]
    rows, attempts = zip(*pairs, strict=True)
    return {
        "jobs": [*rows, *more.get("jobs", ())], "attempts": [*attempts, *more.get("attempts", ())],
        "facts": known(),
    }  # fmt: skip


def test_waits_show_what_statuses_no_longer_do(tmp_path: Path) -> None:
    """All are completed, and the comparison still says that jobs waited two minutes."""
    with snapshot_of(tmp_path, stopped()) as snapshot:
        story = told(snapshot, until=iso(ago(100)), since_seconds=120.0)
    before, during, after = story.phases
    assert before.oldest_age_seconds == 1.0
    assert during.oldest_age_seconds == pytest.approx(119.0, abs=2.0)
    assert during.completions < after.completions
    assert after.oldest_age_seconds > 60


def test_leases_that_end_apart_are_told_apart(tmp_path: Path) -> None:
    """The first and the last of them, and every worker that fell silent up to five."""
    jobs = [
        job(f"held-{n}", "processing", owner=f"w{n}", claimed_at=ago(300), attempts=1,
            locked_until=ago(200 - n), read_at=NOW)
        for n in range(7)
    ]  # fmt: skip
    workers = [
        {"owner": f"w{n}", "heartbeat_at": ago(260 - n), "lease_seconds": 60.0} for n in range(7)
    ]
    rows = {**stopped(jobs=jobs), "workers": workers}
    with snapshot_of(tmp_path, rows, workers_read_at=iso(NOW) or "") as snapshot:
        said = lines(told(snapshot))
    assert "claimed: the first of 7 leases is over: job held-0" in said
    assert "claimed: the last of 7 leases is over: job held-6" in said
    assert [line for line in said if "last sign of" in line] == [
        *(f"claimed: last sign of worker w{n}" for n in range(5)),
        "claimed: last sign of 2 more workers",
    ]


def test_a_snapshot_of_nothing_is_told(tmp_path: Path) -> None:
    """One job that says nothing of itself: a story of one line, tables without a hole."""
    with snapshot_of(tmp_path, {"jobs": [bare("1", "held")], "facts": known()}) as snapshot:
        answer = jp.triage(snapshot)
        story = incident.read_story(snapshot, answer)
        assert [moment.where for moment in story.moments] == ["-"]
        for table in (story.timeline(), story.comparison(), incident.blast_radius(answer)):
            assert str(table)
            assert table.html()
        assert incident.blast_radius(answer).note == "no finding names a job"


def test_an_event_is_a_pair_or_a_line() -> None:
    """Both forms are the same moment, and moments come in order of time."""
    pairs = incident.outside_events([EVENT.split("="), ["2026-12-01T04:37:00Z", " deploy "]])
    assert [name for _, name in pairs] == ["deploy", "node drained"]
    assert pairs[1:] == incident.outside_events([EVENT])


@pytest.mark.parametrize(
    "text", [["a", "b", "c"], "", "deploy", "2026-12-01T04:37:40Z", "now=x", EVENT[:21] + " "]
)
def test_an_event_without_time_or_name_is_refused(text: Any) -> None:
    """It says what an event looks like."""
    with pytest.raises(InputError, match="expected a"):
        incident.outside_events([text])


# What stands in the tables


def test_blast_radius_names_ids_and_counts_the_rest(tmp_path: Path) -> None:
    """Ten ids at most, numbers in number order, and how many more there are."""
    jobs = [
        job(str(n), "processing", owner="w", claimed_at=ago(300), locked_until=ago(200),
            read_at=NOW, tenant_id=f"t{n % 3}", attempts=1)
        for n in range(1, 26)
    ]  # fmt: skip
    with snapshot_of(tmp_path, stopped(jobs=jobs)) as snapshot:
        table = incident.blast_radius(jp.triage(snapshot))
    row = next(row for row in table.rows if row[0] == "lease-expired")
    assert row[2:5] == ("25", "3", "1")
    assert row[5] == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 15 more"


def test_evidence_is_words() -> None:
    """No underscore, no brace, no bare second: what people can check."""
    table = incident.evidence(jp.triage("sample"))
    found = {(code, what): text for code, what, text in table.rows}
    assert found["lease-expired", "owners"] == "2"
    assert found["workers-lost", "last heartbeat at"] == "2: 2026-12-01 04:37:42Z"
    assert "lease over at: 2026-12-01 04:38:12Z" in found["lease-expired", "by owner"]
    assert not set("_{}[]") & set("".join(found.values()))


def test_what_was_not_recorded_is_said() -> None:
    """Each fact that is missing, what it would have told, and why it is missing."""
    answer = jp.triage("sample")
    assert ("effects", "whether an effect happened", "no ledger of effects") in (
        incident.unrecorded(answer).rows
    )


def test_follow_ups_wait_for_their_owners() -> None:
    """Steps of the findings, no statement to be run, questions for people, nobody's name."""
    table = incident.follow_ups(jp.triage("sample"))
    assert table.columns == ("done", "about", "what", "owner", "by when")
    assert {(row[0], row[3], row[4]) for row in table.rows} == {("[ ]", "", "")}
    said = [row[2] for row in table.rows]
    assert any("Check that worker 2 is really gone" in step for step in said)
    assert any("4 jobs (3 types, 3 tenants)" in step for step in said)
    assert any("effect is missing" in step for step in said)
    assert not any("SELECT" in step for step in said)
