"""Paths that a running attempt asks for are its own from the answer on, or it is told why not; nobody waits in vain."""

from collections.abc import Sequence
from typing import Any

import pytest
from plans import RUN, answered, begun, course, follow, sent, task

from orchestrator.course import Course
from orchestrator.decisions import decide
from orchestrator.dispatch import order
from orchestrator.events import Event, MessageLost, PathsAsked, PathsGranted, PathsRefused, TaskCancelled
from orchestrator.locks import LONGEST_WAIT_S
from orchestrator.reception import received
from orchestrator.state import State
from orchestrator.task_state import IllegalStep
from workers import asking


def asked(name: str, *paths: str, number: int = 1, attempt: int = 1) -> PathsAsked:
    return PathsAsked(task=name, attempt=attempt, number=number, paths=paths)


def question(name: str, paths: Sequence[str], *, number: int = 1, token: str = "t") -> asking.PathsAsked:
    return asking.PathsAsked(order_id=f"{RUN}.{name}.1", token=token, number=number, paths=tuple(paths))


def answers(of: Course, state: State, *, now: float = 100.0) -> list[Event]:
    """All that is decided at this time, taken into the state."""
    found: list[Event] = []
    while events := decide(of, state, now=now, order_slots=0, draining=False):
        found += events
        follow(state, *events, at=now)
    return found


TWO = course(task("a", files=["x"]), task("b", files=["y"]))


def test_a_free_path_is_granted_and_kept_to_the_candidate() -> None:
    state = begun(TWO, sent("a"), asked("a", "x", "z"))
    (granted,) = answers(TWO, state)
    assert isinstance(granted, PathsGranted) and granted.paths == ("z",), "what it holds already is not granted again"
    follow(state, answered("a", paths=["x", "z"]))
    assert state.tasks["a"].extra == ("z",)
    assert [event.kind for event in answers(TWO, state)] == ["entry.queued", "check.sent"]


def test_what_is_granted_keeps_others_from_starting() -> None:
    of = course(task("a", files=["x"]), task("b", files=["z"]))
    state = begun(of, sent("a"), asked("a", "z"))
    answers(of, state)
    assert decide(of, state, now=100.0, order_slots=4, draining=False) == []


def test_a_path_that_another_holds_is_waited_for() -> None:
    state = begun(TWO, sent("a"), sent("b"), asked("a", "y"))
    assert answers(TWO, state) == []
    follow(state, TaskCancelled(task="b"))
    (granted,) = answers(TWO, state)
    assert isinstance(granted, PathsGranted) and granted.task == "a"


def test_two_who_ask_for_one_path_do_not_both_get_it() -> None:
    state = begun(TWO, sent("a"), sent("b"), asked("a", "z"), asked("b", "z"))
    first = answers(TWO, state)
    assert [(event.kind, event.task) for event in first if isinstance(event, PathsGranted)] == [("paths.granted", "a")]


def test_whoever_would_close_a_circle_is_refused() -> None:
    state = begun(TWO, sent("a"), sent("b"), asked("a", "y"))
    assert answers(TWO, state) == []
    follow(state, asked("b", "x"), at=101.0)
    said = answers(TWO, state, now=101.0)
    refused = [event for event in said if isinstance(event, PathsRefused)]
    assert [(event.task, event.why) for event in refused] == [
        ("b", "task 'a' holds x, and waits for other tasks' paths itself")
    ]
    assert state.tasks["a"].ask is not None and state.tasks["a"].ask.granted is None, "who asked first waits on"


def test_a_candidate_that_waits_is_not_waited_for() -> None:
    """It strayed into what the asker holds: each would wait for the other."""
    state = begun(TWO, sent("a"), sent("b"), asked("a", "y"), answered("b", paths=["x", "y"]))
    (refused,) = answers(TWO, state)
    assert isinstance(refused, PathsRefused) and refused.task == "a"


def test_waiting_has_an_end() -> None:
    state = begun(TWO, sent("a"), sent("b"), asked("a", "y"))
    assert answers(TWO, state, now=100.0 + LONGEST_WAIT_S - 1) == []
    (refused,) = answers(TWO, state, now=100.0 + LONGEST_WAIT_S)
    assert isinstance(refused, PathsRefused)
    assert refused.why == "task 'b' has held y for the 10 minutes it waited"


@pytest.mark.parametrize(
    ("files", "policy", "may", "answer"),
    [
        (["x"], {"scope": "extend"}, True, "paths.granted"),
        (["x"], {"scope": "strict"}, False, "paths.refused"),
        (None, {"scope": "strict"}, True, "paths.granted"),
        (None, {"undeclared": "exclusive"}, True, "paths.granted"),
    ],
)
def test_a_strict_scope_refuses_what_a_task_has_not_declared(
    files: list[str] | None, policy: dict[str, Any], may: bool, answer: str
) -> None:
    """One that declared nothing has left nothing; it takes its locks early by asking."""
    of = course(task("a", files=files), **policy)
    state = begun(of, sent("a"))
    message = state.tasks["a"].message
    assert message and order(of, state, state.tasks["a"], message, now=1.0, resent=False).may_ask_paths is may
    follow(state, asked("a", "z"))
    assert [event.kind for event in answers(of, state)] == [answer]
    inside = begun(of, sent("a"), asked("a", "x"))
    assert [event.kind for event in answers(of, inside)] == ["paths.granted"]


def test_a_question_is_taken_once_and_only_from_who_has_the_order() -> None:
    state = begun(TWO, sent("a"))
    (event,) = received(TWO, state, question("a", ["z"]))
    assert event == asked("a", "z")
    follow(state, event)
    assert received(TWO, state, question("a", ["z"])) == []
    assert received(TWO, state, question("a", ["w"], number=2, token="other")) == []
    assert received(TWO, state, question("b", ["z"])) == []
    assert received(TWO, state, question("a", ["x"], number=2)) == [], "it holds that already"
    answers(TWO, state)
    assert received(TWO, state, question("a", ["z"])) == []
    assert [one.kind for one in received(TWO, state, question("a", ["w"], number=2))] == ["paths.asked"]


def test_an_attempt_that_is_lost_holds_and_asks_for_nothing_more() -> None:
    state = begun(TWO, sent("a"), asked("a", "z"))
    answers(TWO, state)
    follow(state, asked("a", "y", number=2), MessageLost(message_id=f"{RUN}.a.1", why="gone"))
    assert (state.tasks["a"].extra, state.tasks["a"].ask) == ((), None)


@pytest.mark.parametrize(
    "event",
    [
        PathsGranted(task="a", attempt=1, paths=("z",)),
        PathsRefused(task="a", attempt=1, why="w"),
        asked("a", "z", attempt=2),
    ],
)
def test_an_answer_without_a_question_is_an_illegal_step(event: Event) -> None:
    with pytest.raises(IllegalStep):
        follow(begun(TWO, sent("a")), event)
