"""
Paths that a running attempt asks for are its own once granted. Otherwise it is told the reason, and no task waits in
vain.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from plans import RUN, answered, at_gate, begun, course, follow, landing, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    LandingAnswered,
    MessageLost,
    OrderAnswered,
    OrderSent,
    PathsAsked,
    PathsGranted,
    PathsQueued,
    PathsRefused,
    TaskCancelled,
    TaskFailed,
    TaskRetried,
    TaskReturned,
)
from forgepool.orchestrator.plan.readiness import PATIENCE
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.queue import replies
from forgepool.workers.schema.orders import ReasonPack


def asked(name: str, *paths: str, number: int = 1, attempt: int = 1) -> PathsAsked:
    return PathsAsked(task=name, attempt=attempt, number=number, paths=paths)


def question(name: str, paths: Sequence[str], *, number: int = 1, token: str = "t") -> replies.PathRequest:
    return replies.PathRequest(order_id=f"{RUN}.{name}.1", token=token, number=number, paths=tuple(paths))


def answers(of: PlanIndex, state: RunState, *, now: float = 100.0) -> list[Event]:
    """Apply all that is decided at this time, and return it."""
    found: list[Event] = []
    while events := decide(of, state, now=now, order_slots=0, draining=False):
        found += events
        follow(state, *events, at=now)
    return found


def stopped(name: str, attempt: int = 1, *, not_before: float = 1.0) -> OrderAnswered:
    """Return a worker's answer after its agent was told to wait."""
    return answered(name, attempt, "infrastructure", not_before=not_before, detail="it has to wait")


def started(of: PlanIndex, state: RunState, *, now: float = 100.0) -> set[str]:
    """Return the tasks that would start now."""
    events = decide(of, state, now=now, order_slots=4, draining=False)
    return {event.task for event in events if isinstance(event, OrderSent)}


def land(of: PlanIndex, state: RunState, name: str) -> None:
    """Take a candidate through to its landing."""
    while state.tasks[name].phase != "landed":
        follow(state, *decide(of, state, now=100.0, order_slots=0, draining=False))
        message = at_gate(state, name)
        if message and message.kind == "check":
            found = verdict(name, attempt=state.tasks[name].attempt)
            told = found.model_copy(update={"request_id": message.message_id})
            follow(state, CheckAnswered(task=name, result=told))
        elif message:
            follow(state, LandingAnswered(task=name, result=landing(name)))


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


def test_paths_that_others_hold_are_wanted_and_the_task_begins_again_with_them() -> None:
    """This costs no attempt, is no infrastructure failure, and does not depend on another host's clock."""
    of = course(task("a", files=["x"]), task("b", files=["y"]), task("c", files=["z"]))
    state = begun(of, sent("a"), sent("b"), asked("a", "y", "z"))
    (queued,) = answers(of, state)
    assert isinstance(queued, PathsQueued)
    assert (queued.paths, queued.why) == (("y", "z"), "task 'b' is at work on y, z")
    assert state.tasks["a"].extra == (), "it gets all of them or none"
    follow(state, stopped("a", not_before=9e9))
    a = state.tasks["a"]
    assert (a.phase, a.charged, a.troubles, a.waits, a.limit_until, a.extra) == ("pending", 0, 0, 0, 0.0, ())
    assert started(of, state) == {"c"}, "what it wants is not free, and is kept free for nobody"
    follow(state, TaskCancelled(task="b"))
    assert started(of, state) == {"a"}, "which ranks higher than c, and wants what c writes"
    follow(state, *decide(of, state, now=100.0, order_slots=4, draining=False))
    assert state.tasks["a"].extra == ("y", "z")
    assert started(of, state) == set(), "c writes what a holds from its start"


def test_two_tasks_that_want_each_others_files_are_done_one_after_the_other() -> None:
    state = begun(TWO, sent("a"), sent("b"), asked("a", "y"), asked("b", "x", number=2))
    assert [event.kind for event in answers(TWO, state)] == ["paths.queued", "paths.queued"]
    follow(state, stopped("a"), stopped("b"))
    order_of: list[str] = []
    while (next_up := started(TWO, state)) and len(order_of) < 3:
        (name,) = next_up
        follow(state, *decide(TWO, state, now=100.0, order_slots=4, draining=False))
        assert set(state.tasks[name].extra) == {"y" if name == "a" else "x"}
        follow(state, answered(name, 2, paths=["x", "y"]))
        land(TWO, state, name)
        order_of.append(name)
    assert order_of == ["a", "b"]
    assert all(one.phase == "landed" and one.wanted == () for one in state.tasks.values())


@pytest.mark.parametrize("reads", ["block", "ignore"])
def test_a_path_that_a_task_in_flight_reads_is_queued_where_reads_block(reads: str) -> None:
    of = course(task("a", files=["x"]), task("b", files=["y"], reads=("z/**",)), reads=reads)
    state = begun(of, sent("a"), sent("b"), asked("a", "z/1"))
    assert [event.kind for event in answers(of, state)] == ["paths.queued" if reads == "block" else "paths.granted"]
    if reads == "block":
        follow(state, stopped("a"))
        assert started(of, state) == set(), "b still reads it"
        follow(state, TaskCancelled(task="b"))
        assert started(of, state) == {"a"}


def test_who_reads_what_a_waiting_task_wants_does_not_start_beside_it() -> None:
    of = course(task("a", files=["x"]), task("b", files=["y"]), task("c", files=["w"], reads=("y",)))
    state = begun(of, sent("a"), sent("b"), asked("a", "y"))
    answers(of, state)
    follow(state, stopped("a"), TaskCancelled(task="b"))
    assert started(of, state) == {"a"}


def test_a_candidate_may_go_on_although_it_was_queued() -> None:
    """It waits in the queue for the task that holds the path, as usual."""
    state = begun(TWO, sent("a"), sent("b"), asked("a", "y"))
    answers(TWO, state)
    follow(state, answered("a", paths=["x", "y"]))
    assert answers(TWO, state) == []
    follow(state, TaskCancelled(task="b"))
    assert [event.kind for event in answers(TWO, state)] == ["lock.extended", "entry.queued", "check.sent"]


def test_what_a_task_wanted_is_forgotten_when_it_ends_or_begins_anew() -> None:
    def wanting() -> RunState:
        state = begun(TWO, sent("a"), sent("b"), asked("a", "y"))
        answers(TWO, state)
        return state

    reason = ReasonPack(attempt=1, kind="no_change", summary="s")
    failed = follow(wanting(), answered("a", 1, "no_change"), TaskFailed(task="a", reason=reason))
    assert failed.tasks["a"].wanted == ()
    assert follow(wanting(), TaskCancelled(task="a"), TaskRetried(task="a")).tasks["a"].wanted == ()
    returned = follow(wanting(), answered("a", 1, "no_change"), TaskReturned(task="a", reason=reason))
    assert returned.tasks["a"].wanted == ("y",), "the next attempt is likely to want it, too"


def test_who_waits_for_what_it_wants_is_not_passed_by_for_ever() -> None:
    """Once enough others have started before it, tasks of lower rank wait."""
    of = course(task("a", files=["x"]), *(task(f"b{number}", files=["y"]) for number in range(20)))
    state = begun(of, sent("a"), sent("b0"), asked("a", "y"))
    answers(of, state)
    follow(state, stopped("a"))
    state.tasks["a"].overtaken = PATIENCE
    follow(state, TaskCancelled(task="b0"))
    assert started(of, state) == {"a"}


@pytest.mark.parametrize("path", ["", "../out", "a/../../out", "nul\0"])
def test_what_is_no_path_of_the_repository_is_refused(path: str) -> None:
    of = course(task("a", files=["**"]))
    state = begun(of, sent("a"))
    follow(state, *receive_answer(of, state, question("a", [path])))
    (refused,) = answers(of, state)
    assert isinstance(refused, PathsRefused) and "no path within the repository" in refused.why


def test_the_oldest_question_is_answered_first() -> None:
    state = begun(TWO, sent("a"), sent("b"))
    follow(state, asked("b", "z"), at=101.0)
    follow(state, asked("a", "z"), at=102.0)
    assert [(one.kind, getattr(one, "task", "")) for one in answers(TWO, state)] == [
        ("paths.granted", "b"),
        ("paths.queued", "a"),
    ]


def test_a_question_of_a_slower_clock_is_answered_like_any_other() -> None:
    """Numbers identify questions and do not order them. Each question gets its own answer."""
    state = begun(TWO, sent("a"), asked("a", "z", number=9))
    answers(TWO, state)
    (later,) = receive_answer(TWO, state, question("a", ["w"], number=2))
    follow(state, later)
    (granted,) = answers(TWO, state)
    assert isinstance(granted, PathsGranted) and (granted.number, granted.paths) == (2, ("w",))
    assert receive_answer(TWO, state, question("a", ["v"], number=9)) == [], "that one was answered"


def test_two_who_ask_for_one_path_do_not_both_get_it() -> None:
    state = begun(TWO, sent("a"), sent("b"), asked("a", "z"), asked("b", "z"))
    assert [event.kind for event in answers(TWO, state)] == ["paths.granted", "paths.queued"]
    assert (state.tasks["a"].extra, state.tasks["b"].extra) == (("z",), ())


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
    """A task that declared nothing cannot leave its scope; asking only takes its locks early."""
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
    (event,) = receive_answer(TWO, state, question("a", ["z"]))
    assert event == asked("a", "z")
    follow(state, event)
    assert receive_answer(TWO, state, question("a", ["z"])) == []
    assert receive_answer(TWO, state, question("a", ["w"], number=2, token="other")) == []
    assert receive_answer(TWO, state, question("b", ["z"])) == []
    assert receive_answer(TWO, state, question("a", ["x"], number=2)) == [], "it holds that already"
    answers(TWO, state)
    assert receive_answer(TWO, state, question("a", ["z"])) == []
    assert [one.kind for one in receive_answer(TWO, state, question("a", ["w"], number=2))] == ["paths.asked"]


def test_an_attempt_that_is_lost_holds_and_asks_for_nothing_more() -> None:
    state = begun(TWO, sent("a"), asked("a", "z"))
    answers(TWO, state)
    follow(state, asked("a", "y", number=2), MessageLost(message_id=f"{RUN}.a.1", why="gone"))
    assert (state.tasks["a"].extra, state.tasks["a"].asks) == ((), {})


def test_an_attempt_that_has_answered_asks_for_nothing_more() -> None:
    state = begun(TWO, sent("a"), asked("a", "z"), answered("a", paths=["x"]))
    assert state.tasks["a"].asks == {}


@pytest.mark.parametrize(
    "event",
    [
        PathsGranted(task="a", attempt=1, paths=("z",)),
        PathsQueued(task="a", attempt=1, paths=("z",), why="w"),
        PathsRefused(task="a", attempt=1, why="w"),
        asked("a", "z", attempt=2),
    ],
)
def test_an_answer_without_a_question_is_an_illegal_step(event: Event) -> None:
    with pytest.raises(IllegalStep):
        follow(begun(TWO, sent("a")), event)
