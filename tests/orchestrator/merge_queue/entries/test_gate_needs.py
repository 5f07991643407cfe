"""
An entry that needs another waits for it as long as it may land, leaves when it will not, and never lands before it.
"""

from gate_world import after, decided, opened, submitted

from forgepool.orchestrator.decisions.queue.submissions import Submission, in_order
from forgepool.orchestrator.journal.events import CheckSent, EntryRefused, TaskBlocked, TaskCancelled, TaskParked
from forgepool.orchestrator.reports.queue_status import refusal
from forgepool.orchestrator.state.fold import apply
from forgepool.worktrees.git.git import CommitId


def test_who_needs_one_that_waits_for_a_person_is_neither_withdrawn_nor_let_past() -> None:
    state = opened(submitted("a"), submitted("b", "a"), TaskParked(task="a", question="what now?"))
    assert decided(state) == []
    assert state.tasks["b"].phase == "queued"


def test_who_needs_one_that_was_withdrawn_goes_with_it() -> None:
    state = opened(submitted("a"), submitted("b", "a"), TaskCancelled(task="a"))
    assert decided(state) == [TaskBlocked(task="b", by="a")]


def test_both_are_tried_behind_each_other_while_both_stand_in_line() -> None:
    state = opened(submitted("a"), submitted("b", "a"))
    first = decided(state)
    sent = [*first, *decided(after(state, *first))]
    assert [(one.ahead, one.car) for one in sent if isinstance(one, CheckSent)] == [((), ("a",)), (("a",), ("b",))]


def _given(name: str, *needs: str) -> Submission:
    at = CommitId("1" * 40)
    return Submission(ref=f"refs/{name}", at=at, name=name, commit=at, said={"needs": needs} if needs else {})


def test_of_one_moment_the_needed_are_taken_in_first() -> None:
    found = in_order([_given("a", "c"), _given("b"), _given("c", "b", "elsewhere")])
    assert [one.name for one in found] == ["b", "c", "a"]


def test_a_circle_is_left_in_its_order_for_the_intake_to_refuse() -> None:
    found = in_order([_given("a", "b"), _given("b", "a"), _given("c", "c")])
    assert sorted(one.name for one in found) == ["a", "b", "c"]
    assert found[0].name == "a"


def test_why_something_was_not_taken_in_is_told_until_it_is() -> None:
    refused = EntryRefused(name="x", commit="1" * 40, why="it needs 'y', which is nowhere")
    state = opened(refused)
    assert refusal(state, "x") == (
        "The last submission named 'x' (111111111111) was not accepted: it needs 'y', which is nowhere."
    )
    apply(state, submitted("x"), number=state.number + 1, at=100.0)
    assert refusal(state, "x") is None


def test_only_the_latest_refusals_are_kept() -> None:
    """Any person with access may push wrong submissions without end."""
    state = opened(*(EntryRefused(name=f"x{n}", commit="1" * 40, why="wrong") for n in range(300)))
    assert refusal(state, "x0") is None
    assert refusal(state, "x299") is not None
    assert len(state.refused) == 200
