"""The canonical words are INTERFACE's, and grades are ordered as they are used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobplaybook.detectors.findings import CODES
from jobplaybook.model import (
    FACTS,
    FINISHED,
    UNFINISHED,
    EffectStatus,
    Fact,
    Layer,
    Outcome,
    Quality,
    Severity,
    State,
    Status,
    worst,
)
from jobplaybook.sources import SOURCES

# Written down by hand from what scripts rely on.
WORDS = {
    Status: "pending processing completed dead cancelled held",
    State: "scheduled retryable available processing completed dead cancelled held",
    Layer: "intake waiting claimed effect result notified",
    Outcome: "running succeeded failed expired released cancelled unknown",
    EffectStatus: "intended confirmed reconciled unknown",
}


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.__name__)
def test_words_are_fixed(words: type[Status]) -> None:
    """Statuses, states, layers and outcomes are exactly these, in this order."""
    assert " ".join(words) == WORDS[words]


def test_a_status_is_finished_or_not() -> None:
    """Every stored status is finished or unfinished, and none is both."""
    assert sorted([*UNFINISHED, *FINISHED]) == sorted(Status)
    assert {state.value for state in State} - {s.value for s in Status} == {
        "scheduled",
        "retryable",
        "available",
    }


def test_grades_and_severities_have_their_words_and_order() -> None:
    """Exact is better than bound, inferred and absent; a page is graver than ticket and note."""
    assert [quality.word for quality in sorted(Quality)] == ["absent", "inferred", "bound", "exact"]
    assert [severity.word for severity in sorted(Severity)] == ["note", "ticket", "page"]


@given(st.lists(st.sampled_from(Quality), min_size=1))
def test_a_number_is_as_good_as_its_worst_fact(grades: list[Quality]) -> None:
    """One absent fact makes the whole absent; adding a fact never improves it."""
    assert worst(*grades) == min(grades)
    assert worst(*grades, Quality.ABSENT) is Quality.ABSENT
    assert worst(*grades, Quality.EXACT) == worst(*grades)


@pytest.mark.parametrize(("fact", "state"), [("eror", "live"), ("error", "dead"), ("", "live")])
def test_a_fact_has_a_listed_name_and_state(fact: str, state: str) -> None:
    """A typing error in a fact is refused where it is made."""
    with pytest.raises(ValueError, match="expected a listed fact"):
        Fact(fact=fact, state=state, quality=Quality.EXACT)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_source_grades_every_fact_once(source: object) -> None:
    """A source says of each fact, for live and finished jobs, how far it can be trusted."""
    facts = [(fact.fact, fact.state) for fact in source.facts]  # type: ignore[attr-defined]
    assert sorted(facts) == sorted(
        (name, state) for name in FACTS for state in ("live", "finished")
    )


def test_the_first_codes_are_all_there() -> None:
    """Triage answers with the first set of finding codes, healthy and unknown among them."""
    first = (
        "healthy unknown lease-expired phantom-running workers-lost queue-stalled queue-paused "
        "backlog-growing backlog-draining dead-letters-growing data-blind"
    )
    assert set(first.split()) <= set(CODES)
