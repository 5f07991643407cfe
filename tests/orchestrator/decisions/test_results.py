"""An answer has an effect only while it is awaited, and a late candidate only where it does no harm."""

from typing import Any

import pytest
from plans import answered, begun, check_sent, course, follow, intended, landing, queued, result, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    MessageLost,
    PathsAsked,
    PathsGranted,
    TaskCancelled,
    TaskParked,
    TaskReplied,
    TaskRetried,
)
from forgepool.supervisor.messages.answers import Doubt
from forgepool.workers.queue.replies import MessageStarted
from forgepool.workers.schema.orders import Reply

ONE = course(task("a", files=["x"], attempts=9), task("b", files=["x", "y"]), task("c", files=["z"]))


def lost(attempt: int) -> MessageLost:
    return MessageLost(message_id=f"r-1.a.{attempt}", why="gone")


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


@pytest.mark.parametrize(
    ("answer", "before"),
    [
        (result("a", token="other"), [sent("a")]),
        (verdict("a").model_copy(update={"token": "other"}), [sent("a"), answered("a"), queued("a"), check_sent("a")]),
        (
            landing("a").model_copy(update={"token": "other"}),
            [
                *(sent("a"), answered("a"), queued("a"), check_sent("a")),
                *(CheckAnswered(task="a", result=verdict("a")), intended("a")),
            ],
        ),
        (MessageStarted(message_id="r-1.a.1", token="other", host="h", pid=1), [sent("a")]),
    ],
)
def test_an_answer_with_another_token_is_not_taken_and_the_same_with_the_right_one_is(
    answer: Any, before: list[Event]
) -> None:
    state = begun(ONE, *before)
    assert receive_answer(ONE, state, answer) == []
    assert receive_answer(ONE, state, answer.model_copy(update={"token": "t"})) != []


@pytest.mark.parametrize(
    "answer", [result("a"), verdict("a"), landing("a"), result("nobody"), result("a", 7, "no_change")]
)
def test_an_answer_nobody_waits_for_changes_nothing(answer: Any) -> None:
    state = begun(ONE, sent("a"), answered("a"), queued("a"))
    assert receive_answer(ONE, state, answer) == []


def test_a_start_is_told_once() -> None:
    state = begun(ONE, sent("a"))
    note = MessageStarted(message_id="r-1.a.1", token="t", host="h", pid=1)
    events = receive_answer(ONE, state, note)
    assert kinds(events) == ["message.taken"]
    assert receive_answer(ONE, follow(state, *events), note) == []


def test_a_doubt_is_told_once_and_only_of_a_trial_that_is_out() -> None:
    state = begun(ONE, sent("a"), answered("a"), queued("a"), check_sent("a"))
    (trial,) = state.train.line.trials
    note = Doubt(request_id=trial, token="t")
    assert receive_answer(ONE, state, note.model_copy(update={"token": "another"})) == []
    events = receive_answer(ONE, state, note)
    assert kinds(events) == ["check.doubted"]
    assert receive_answer(ONE, follow(state, *events), note) == []
    assert state.train.line.trials[trial].failing
    follow(state, CheckAnswered(task="a", result=verdict("a", "red")))
    assert receive_answer(ONE, state, note) == [], "an answer says more"


@pytest.mark.parametrize(
    ("kind", "gate"), [("base_red", True), ("not_configured", True), ("red", False), ("green", False)]
)
def test_a_target_that_is_red_itself_shuts_the_gate(kind: Any, gate: bool) -> None:
    state = begun(ONE, sent("a"), answered("a"), queued("a"), check_sent("a"))
    assert ("gate.halted" in kinds(receive_answer(ONE, state, verdict("a", kind)))) is gate


def test_a_late_candidate_stands_in_for_the_attempt_under_way() -> None:
    state = begun(ONE, sent("a"), lost(1), sent("a", 2))
    (event,) = receive_answer(ONE, state, result("a", 1))
    follow(state, event)
    assert (state.tasks["a"].phase, state.tasks["a"].attempt) == ("candidate", 2)
    assert receive_answer(ONE, state, result("a", 2)) == [], "the other one's answer comes too late then"


def test_a_late_answer_that_is_no_candidate_changes_nothing() -> None:
    state = begun(ONE, sent("a"), lost(1))
    assert receive_answer(ONE, state, result("a", 1, "agent_failed")) == []


def test_a_late_candidate_is_taken_by_a_waiting_task_only_when_its_lock_is_free() -> None:
    state = begun(ONE, sent("a"), lost(1))
    assert kinds(receive_answer(ONE, state, result("a", 1))) == ["order.answered"]
    follow(state, sent("b"))
    assert receive_answer(ONE, state, result("a", 1)) == []


def test_an_attempt_that_was_judged_never_comes_back() -> None:
    """The attempt was adopted late in place of a later one. The reason names that attempt."""
    state = begun(ONE, sent("a"), lost(1), sent("a", 2))
    follow(state, *receive_answer(ONE, state, result("a", 1)), queued("a"), check_sent("a", attempt=2))
    follow(state, CheckAnswered(task="a", result=verdict("a", "red", attempt=2)))
    (returned,) = decide(ONE, state, now=100.0, order_slots=0, draining=False)
    assert returned.kind == "task.returned" and returned.reason.attempt == 1
    follow(state, returned, sent("a", 3))
    assert receive_answer(ONE, state, result("a", 1)) == []
    assert kinds(receive_answer(ONE, state, result("a", 2))) == ["order.answered"], "this one was never judged"


def test_a_late_candidate_is_not_taken_when_a_newer_attempt_was_judged() -> None:
    state = begun(ONE, sent("a"), lost(1), sent("a", 2), answered("a", 2, "no_change"))
    follow(state, *decide(ONE, state, now=100.0, order_slots=0, draining=False), sent("a", 3))
    assert receive_answer(ONE, state, result("a", 1)) == []


def test_a_candidate_adopted_again_holds_nothing_it_held_before() -> None:
    """Its attempt was lost, so the additional paths may belong to another task now."""
    asks = [PathsAsked(task="c", attempt=1, number=1, paths=("w",)), PathsGranted(task="c", attempt=1, paths=("w",))]
    state = begun(ONE, sent("c"), *asks)
    assert state.tasks["c"].extra == ("w",)
    follow(state, MessageLost(message_id="r-1.c.1", why="gone"))
    follow(state, *receive_answer(ONE, state, result("c", paths=["w"])))
    adopted = state.tasks["c"]
    assert adopted.phase == "candidate" and adopted.extra == ()


@pytest.mark.parametrize("again", [[], [sent("a", 3)]])
@pytest.mark.parametrize(
    "ended",
    [
        [TaskCancelled(task="a"), TaskRetried(task="a")],
        [lost(2), TaskParked(task="a", question="infrastructure failed it"), TaskRetried(task="a")],
        [
            answered("a", 2, "needs_human", question="q?", resumable=True),
            TaskParked(task="a", question="q?", why="question"),
            TaskReplied(task="a", reply=Reply(question="q?", answer="r")),
        ],
    ],
)
def test_what_a_person_has_ended_or_was_asked_about_never_comes_back(ended: list[Event], again: list[Event]) -> None:
    state = begun(ONE, sent("a"), lost(1), sent("a", 2), *ended, *again)
    assert receive_answer(ONE, state, result("a", 1)) == []
    if not again:
        assert receive_answer(ONE, state, result("a", 2)) == []
    else:
        assert kinds(receive_answer(ONE, state, result("a", 3))) == ["order.answered"]
