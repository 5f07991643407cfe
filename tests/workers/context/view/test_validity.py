"""Each way in which a view can be wrong is found and named."""

import pytest

from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.view.view import wrong
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user

CARD = user(Text(text="the task"), Text(text="the plan"))


def said(*ids: str) -> Turn:
    return Turn(role="assistant", parts=(Text(text="so"), *(ToolCall(id=id, name="bash") for id in ids)))


def told(*ids: str, word: str = "") -> Turn:
    return user(*(ToolResult(call_id=id, text=f"result of {id}") for id in ids), *([Text(text=word)] if word else []))


TURNS = [CARD, said("a", "b"), told("a", "b"), said(), told(word="Go on."), said("c"), told("c")]
LOST_TASK = "it would cut away the model's last turn, or the task"
UNSEEN = "it would change what the model has not yet seen"


def test_a_conversation_as_it_is_can_be_shown() -> None:
    assert wrong(TURNS, Edit()) is None
    assert wrong(TURNS[:1], Edit()) is None
    assert wrong(TURNS[:-1], Edit(cut=3)) == "the call c has no result"


@pytest.mark.parametrize("cut", [-1, 0, 6, 7, 99])
def test_the_models_last_turn_and_the_task_stay(cut: int) -> None:
    assert wrong(TURNS, Edit(cut=cut)) == LOST_TASK


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_cut_before_a_turn_of_the_models_is_allowed(cut: int) -> None:
    assert wrong(TURNS, Edit(cut=cut)) is None


def test_what_follows_a_cut_is_the_models() -> None:
    assert wrong(TURNS, Edit(cut=4)) == "what follows the cut does not begin with a turn of the model"


@pytest.mark.parametrize("opening", [0, -2])
def test_the_task_card_stays(opening: int) -> None:
    assert wrong(TURNS, Edit(opening=opening)) == "it does not begin with the task card"
    assert wrong(TURNS, Edit(opening=1)) is None


def test_a_conversation_begins_with_the_users_side() -> None:
    assert wrong([said(), *TURNS], Edit()) == "it does not begin with the task card"


@pytest.mark.parametrize("edit", [Edit(results={3: "x"}), Edit(inputs={3: {}}), Edit(results={99: "x"})])
def test_what_the_model_has_not_seen_stays_as_it_is(edit: Edit) -> None:
    assert wrong(TURNS, edit) == UNSEEN


@pytest.mark.parametrize("edit", [Edit(results={1: "x", 2: "x"}), Edit(inputs={2: {}})])
def test_what_the_model_has_answered_to_may_be_changed(edit: Edit) -> None:
    """This includes parallel calls before its last turn, and the newest calls once it has answered again."""
    assert wrong(TURNS, edit) is None
    assert wrong([*TURNS, said()], Edit(results={3: "x"})) is None


def test_before_the_model_has_answered_at_all_nothing_is_changed() -> None:
    assert wrong(TURNS[:1], Edit(opening=1)) == UNSEEN
    assert wrong(TURNS[:1], Edit(head=(user(Text(text="x")),))) == UNSEEN


def test_what_is_only_told_whole_hides_nothing() -> None:
    """It is a result. A replacement of its call's arguments would hide something."""
    assert wrong(TURNS, Edit(results={3: "all of it"}), frozenset({3})) is None
    assert wrong(TURNS, Edit(results={3: "all of it"}), frozenset({2})) == UNSEEN
    assert wrong(TURNS, Edit(inputs={3: {}}), frozenset({3})) == UNSEEN


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ((said("x"),), "the call x has no result"),
        ((said("x"), told("x", "x")), "the result of x has no call before it"),
        ((said("x"), told("y")), "the result of y has no call before it"),
        ((told("a"),), "the result of a has no call before it"),
        ((said("x", "y"), told("x"), said(), told("y")), "the call y has no result"),
        ((said("x"), told("x")), None),
        ((said("x", "y"), told("y"), told("x", word="so")), None),
        ((user(Text(text="what happened")),), None),
    ],
)
def test_every_call_has_its_one_result(head: tuple[Turn, ...], fault: str | None) -> None:
    """This includes turns that a profile inserts."""
    assert wrong(TURNS, Edit(cut=3, head=head)) == fault


def test_a_call_that_is_not_answered_yet_cannot_be_shown() -> None:
    assert wrong(TURNS[:2], Edit()) == "the call a has no result"
