"""
An entry that needs a review lands only on an approval: another family's of its diff, or a person's of the candidate.
"""

from typing import Any

import pytest
from gates import Gate, check

from forgepool.supervisor.messages.answers import CheckResult, PersonApproval, ReviewApproval
from forgepool.supervisor.messages.requests import Author, CheckRequest, EntryRef

TEST = check("! grep -q bad a")
WRITER = Author(agent="builtin", models=("claude-x",), families=("claude",))
Green = tuple[CheckRequest, CheckResult]


def made(gate: Gate, author: Author = WRITER, *, task: str = "one", **said: Any) -> Green:
    entry = gate.entry(task, {"b": "2\n"}).model_copy(update={"author": author})
    request = gate.request(entry, TEST, **({"reviewed": True} | said))
    found = gate.examine(request)
    assert found.verdict == "green", found
    return request, found


def by(found: CheckResult, *families: str) -> ReviewApproval:
    return ReviewApproval(patch_id=found.patch_id, families=families)


def told(gate: Gate, green: Green, approval: object) -> tuple[str, str]:
    landed = gate.land(gate.landing(*green, approvals=(approval,)))
    assert (gate.hub.tip() == green[1].commit) == (landed.outcome == "landed")
    return landed.outcome, landed.detail


def test_without_an_approval_nothing_lands_that_is_to_be_reviewed(gate: Gate) -> None:
    outcome, detail = told(gate, made(gate), None)
    assert (outcome, "it has no approval" in detail) == ("refused", True)


def test_what_nobody_wants_reviewed_lands_without(gate: Gate) -> None:
    assert told(gate, made(gate, reviewed=False), None)[0] == "landed"


def test_a_target_that_demands_review_gets_it_whatever_the_plan_says(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {own: test -e a}\nreview: required\n"})
    green = made(gate, reviewed=False)
    assert green[1].reviewed, "who asks for the check is to know it before it is landed"
    assert told(gate, green, None)[0] == "refused"
    assert told(gate, green, by(green[1], "gpt"))[0] == "landed"


def test_want_of_an_approval_is_told_from_what_stands_against_every_landing(gate: Gate) -> None:
    green = made(gate)
    assert green[1].reviewed
    assert gate.land(gate.landing(*green)).unapproved
    bare = gate.land(gate.landing(*green, certificates=(), approvals=(by(green[1], "gpt"),)))
    assert (bare.outcome, bare.unapproved) == ("refused", "")
    assert not made(gate, task="other", reviewed=False)[1].reviewed


def test_a_reviewer_of_another_family_lets_it_land(gate: Gate) -> None:
    green = made(gate)
    assert told(gate, green, by(green[1], "gpt"))[0] == "landed"


@pytest.mark.parametrize(
    ("author", "families", "why"),
    [
        (WRITER, ("claude",), "was made by the family claude, and so was its review"),
        (WRITER, ("gpt", "claude"), "was made by the family claude"),
        (Author(agent="builtin", families=("claude", "gpt")), ("gpt",), "was made by the family gpt"),
        (WRITER, (), "does not name its reviewer"),
        (WRITER, ("unknown",), "does not name its reviewer"),
        (Author(agent="builtin", families=("unknown",)), ("gpt",), "is not known; let a person approve it"),
        (Author(agent="builtin", families=("claude", "unknown")), ("gpt",), "is not known; let a person approve it"),
        (Author(agent="aider"), ("gpt",), "is not known; let a person approve it"),
        (Author(), ("gpt",), "is not known; let a person approve it"),
    ],
)
def test_nobody_who_may_be_of_the_authors_own_family_lets_it_land(
    gate: Gate, author: Author, families: tuple[str, ...], why: str
) -> None:
    green = made(gate, author)
    outcome, detail = told(gate, green, by(green[1], *families))
    assert outcome == "refused" and why in detail


def test_what_no_model_made_may_be_reviewed_by_any(gate: Gate) -> None:
    green = made(gate, Author(agent="command"))
    assert told(gate, green, by(green[1], "claude"))[0] == "landed"


def test_the_review_of_another_diff_lets_nothing_land(gate: Gate) -> None:
    green = made(gate)
    other = made(gate, task="other")
    assert other[1].patch_id == green[1].patch_id, "the same change is the same diff, whoever made it"
    entry = gate.entry("third", {"b": "3\n"})
    third = gate.examine(gate.request(entry, TEST))
    outcome, detail = told(gate, green, by(third, "gpt"))
    assert outcome == "refused" and "another diff than the one that would land" in detail


def test_a_review_holds_while_the_target_moves_elsewhere(gate: Gate) -> None:
    """The approval is bound to the difference, which has not changed."""
    request, found = made(gate)
    approval = by(found, "gpt")
    gate.hub.commit({"a": "meanwhile\n"})
    moved = request.model_copy(update={"base": gate.hub.tip()})
    assert told(gate, (moved, gate.examine(moved)), approval)[0] == "landed"


def test_a_review_does_not_hold_for_what_the_next_attempt_has_changed(gate: Gate) -> None:
    first = made(gate)
    entry: EntryRef = gate.entry("one", {"b": "another\n"}, attempt=2)
    entry = entry.model_copy(update={"author": WRITER})
    request = gate.request(entry, TEST, reviewed=True)
    assert told(gate, (request, gate.examine(request)), by(first[1], "gpt"))[0] == "refused"


def test_a_person_who_has_looked_at_the_candidate_lets_it_land_whoever_made_it(gate: Gate) -> None:
    green = made(gate, Author(agent="builtin", families=("unknown",)))
    approval = PersonApproval(commit=green[0].entries[0].commit, by="Ada")
    assert told(gate, green, approval)[0] == "landed"


def test_a_persons_approval_of_an_earlier_candidate_lets_nothing_land(gate: Gate) -> None:
    green = made(gate)
    other = gate.entry("one", {"b": "3\n"}, attempt=2)
    outcome, detail = told(gate, green, PersonApproval(commit=other.commit, by="Ada"))
    assert outcome == "refused" and f"Ada has approved {other.commit[:12]}" in detail


OTHER_MODEL = {"independence": "other_model"}


@pytest.mark.parametrize(
    ("said", "models", "same_family", "outcome"),
    [
        (OTHER_MODEL, ("claude-y",), True, "landed"),
        (OTHER_MODEL, ("claude-x-2026",), True, "refused"),
        (OTHER_MODEL, ("claude-y",), False, "refused"),
        (OTHER_MODEL, (), True, "refused"),
        ({}, ("claude-y",), True, "refused"),
    ],
    ids=["another model", "the same model", "passed off as another family", "of no name", "nobody asked for it"],
)
def test_another_model_of_the_family_lets_it_land_where_that_is_asked_for(
    gate: Gate, said: dict[str, Any], models: tuple[str, ...], same_family: bool, outcome: str
) -> None:
    green = made(gate, **said)
    approval = by(green[1], "claude").model_copy(update={"models": models, "same_family": same_family})
    assert told(gate, green, approval)[0] == outcome


@pytest.mark.parametrize(("review", "outcome"), [("required", "refused"), ("self-other-model", "landed")])
def test_the_target_decides_who_reviews_before_the_plan(gate: Gate, review: str, outcome: str) -> None:
    gate.hub.commit({"forgepool.yaml": f"version: 1\nchecks: {{own: test -e a}}\nreview: {review}\n"})
    green = made(gate, independence="other_model" if review == "required" else "other_family")
    approval = by(green[1], "claude").model_copy(update={"models": ("claude-y",), "same_family": True})
    assert told(gate, green, approval)[0] == outcome
