"""
Interrupted attempts continue where they were, a model's limit is waited out, and an agent's question reaches a person.
"""

import pytest
from plans import RUN, answered, begun, check_sent, course, follow, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    LandingAnswered,
    MessageLost,
    OrderSent,
    PathsAsked,
    PathsGranted,
    PathsQueued,
    TaskBlocked,
    TaskParked,
    TaskReplied,
    TaskRetried,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.plan.document import TaskNeed
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.host_text import clock
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, IllegalStep
from forgepool.workers.schema.orders import BuiltinAgent, Reply, WorkOrder
from forgepool.workers.schema.reports import Prior

ONE = course(task("a", agent=BuiltinAgent(), attempts=3), task("b", "a"), task("other"))
LOST = MessageLost(message_id=f"{RUN}.a.1", why="gone")
ASKS = answered("a", 1, "needs_human", question="tabs or spaces?", resumable=True)


def next_order(of: PlanIndex, state: RunState, name: str = "a", *, now: float = 1e6) -> OrderSent | None:
    events = decide(of, state, now=now, order_slots=9, draining=False)
    return next((event for event in events if isinstance(event, OrderSent) and event.task == name), None)


def as_sent(of: PlanIndex, state: RunState, event: OrderSent) -> WorkOrder:
    follow(state, event)
    message = state.tasks[event.task].message
    assert message
    return order(of, state, state.tasks[event.task], message, now=1e6, resent=False)


def land_other(state: RunState, *paths: str) -> RunState:
    """Land another task, which moves the tip."""
    follow(state, sent("other"), answered("other", paths=paths), queued("other"), check_sent("other"))
    follow(state, CheckAnswered(task="other", result=verdict("other")), intended("other"))
    return follow(state, LandingAnswered(task="other", result=landing("other")))


def parked(state: RunState) -> RunState:
    return follow(state, *decide(ONE, state, now=1e6, order_slots=0, draining=False))


@pytest.mark.parametrize("interruption", [LOST, answered("a", 1, "infrastructure", resumable=True)])
def test_an_interrupted_attempt_is_gone_on_with_on_its_own_base(interruption: Event) -> None:
    state = land_other(begun(ONE, sent("a"), interruption))
    again = next_order(ONE, state)
    assert again and (again.attempt, again.resumes, again.base) == (2, 1, "c0")
    assert as_sent(ONE, state, again).resumes == 1
    assert state.tip == "m-other-1"


@pytest.mark.parametrize("interruption", [LOST, answered("a", 1, "infrastructure", resumable=True), ASKS])
@pytest.mark.parametrize(
    ("files", "path", "goes_on"),
    [
        (["x/**"], "x/1", False),
        (["x/**"], "y", True),
        (["x/**"], "granted", False),
        (["x/**"], "wanted", False),
        (None, "granted", False),
        (None, "wanted", False),
        (None, "x/1", True),
    ],
)
def test_an_interrupted_attempt_is_not_gone_on_with_where_its_files_have_changed(
    files: list[str] | None, path: str, goes_on: bool, interruption: Event
) -> None:
    """On its old base it could only conflict. It begins again at no cost, and is told a person's answer."""
    of = course(task("a", agent=BuiltinAgent(), files=files), task("other"))
    asks: list[Event] = [
        PathsAsked(task="a", attempt=1, number=1, paths=("granted",)),
        PathsGranted(task="a", attempt=1, number=1, paths=("granted",)),
        PathsAsked(task="a", attempt=1, number=2, paths=("wanted",)),
        PathsQueued(task="a", attempt=1, number=2, paths=("wanted",), why="w"),
    ]
    state = follow(begun(of, sent("a"), *asks), interruption)
    if interruption is ASKS:
        follow(state, *decide(of, state, now=1e6, order_slots=0, draining=False))
    land_other(state, path)
    follow(state, *grant_request(of, state, PersonRequest(do="answer", task="a", text="tabs")))
    again = next_order(of, state)
    assert again and (again.resumes, again.base) == ((1, "c0") if goes_on else (None, "m-other-1"))
    assert state.tasks["a"].charged == 0
    assert len(as_sent(of, state, again).replies) == (interruption is ASKS)


def test_what_landed_before_the_first_of_the_attempts_began_is_in_its_base() -> None:
    of = course(task("a", agent=BuiltinAgent(), files=["x"]), task("other"))
    state = land_other(begun(of), "x")
    follow(state, sent("a", base="m-other-1"), LOST)
    again = next_order(of, state)
    assert again and again.resumes == 1


def test_going_on_does_not_make_an_old_base_new() -> None:
    """The second attempt continues on the first one's base, so it lacks all landings since then."""
    of = course(task("a", agent=BuiltinAgent(), files=["x"]), task("other"))
    state = land_other(begun(of, sent("a"), LOST), "z")
    second = next_order(of, state)
    assert second and second.resumes == 1, "z is none of its business yet"
    granted_z = PathsGranted(task="a", attempt=2, number=1, paths=("z",))
    follow(state, second, PathsAsked(task="a", attempt=2, number=1, paths=("z",)), granted_z)
    follow(state, MessageLost(message_id=f"{RUN}.a.2", why="gone"))
    again = next_order(of, state)
    assert again and (again.resumes, again.base) == (None, "m-other-1")


def test_a_person_without_a_question_is_told_to_mend_and_to_retry() -> None:
    """A missing key cannot be mended by an answer."""
    state = begun(ONE, sent("a"), answered("a", 1, "needs_human", detail="no key for m-1; set M_KEY"))
    (event,) = decide(ONE, state, now=1e6, order_slots=0, draining=False)
    said = f"no key for m-1; set M_KEY; mend it, then: forgepool retry {RUN} a"
    assert event == TaskParked(task="a", question=said, why="trouble")
    follow(state, event)
    assert state.tasks["a"].question == ""
    assert grant_request(ONE, state, PersonRequest(do="answer", task="a", text="x")) == []
    assert next_order(ONE, follow(state, *grant_request(ONE, state, PersonRequest(do="retry", task="a"))))


@pytest.mark.parametrize(
    "since",
    [
        [answered("a", 1, "infrastructure")],
        [LOST, sent("a", 2), answered("a", 2, "infrastructure")],
        [answered("a", 1, "infrastructure", resumable=True), sent("a", 2), answered("a", 2, "infrastructure")],
    ],
)
def test_what_left_nothing_to_go_on_with_begins_on_the_tip(since: list[Event]) -> None:
    state = land_other(begun(ONE, sent("a"), *since))
    again = next_order(ONE, state)
    assert again and (again.resumes, again.base) == (None, "m-other-1")


def test_an_attempt_that_was_judged_or_given_up_by_a_person_is_not_gone_on_with() -> None:
    failed = begun(ONE, sent("a"), answered("a", 1, "agent_failed", resumable=True))
    follow(failed, *decide(ONE, failed, now=1e6, order_slots=0, draining=False))
    again = next_order(ONE, failed)
    assert again and again.resumes is None
    retried = follow(parked(begun(ONE, sent("a"), ASKS)), TaskRetried(task="a"))
    again = next_order(ONE, retried)
    assert again and again.resumes is None


def test_a_command_that_was_lost_begins_anew() -> None:
    state = land_other(begun(ONE, sent("b"), MessageLost(message_id=f"{RUN}.b.1", why="gone")))
    state.tasks["a"].enter("landed", 100.0)
    again = next_order(ONE, state, "b")
    assert again and (again.resumes, again.base) == (None, "m-other-1")


def test_a_models_limit_is_no_trouble_and_no_attempt_however_often() -> None:
    state = begun(ONE)
    for attempt in range(1, MOST_TROUBLES + 5):
        follow(state, sent("a", attempt), answered("a", attempt, "infrastructure", not_before=900.0, detail="limit"))
        assert (state.tasks["a"].troubles, state.tasks["a"].charged) == (0, 0)
    assert next_order(ONE, state, now=899.0) is None
    assert next_order(ONE, state, now=900.0) is not None
    shown = {one.task: one.detail for one in standing(ONE, state, now=200.0, live=True).tasks}
    assert shown["a"] == f"waits until {clock(900.0, 200.0)} for the model's rate limit"


def test_a_limit_whose_reset_has_passed_is_asked_less_and_less_often() -> None:
    state = begun(ONE)
    for attempt in range(1, 9):
        follow(state, sent("a", attempt), answered("a", attempt, "infrastructure", not_before=1.0))
    assert state.tasks["a"].not_before == 160.0, "a minute, not a busy loop"


def test_a_question_parks_the_task_and_tells_how_to_answer_it() -> None:
    state = begun(ONE, sent("a"), ASKS)
    (event,) = decide(ONE, state, now=1e6, order_slots=0, draining=False)
    assert event == TaskParked(task="a", question="tabs or spaces?", why="question")
    follow(state, event)
    command = f"forgepool answer {RUN} a TEXT"
    assert sentence(event, run=RUN) == f"a: asks: tabs or spaces? (answer with: {command})"
    (shown, *_) = standing(ONE, state, now=200.0, live=True).tasks
    assert shown.question == "tabs or spaces?" and command in shown.detail
    assert state.tasks["a"].charged == 0


def test_an_answer_sends_the_task_on_with_all_that_was_said() -> None:
    state = parked(begun(ONE, sent("a"), ASKS))
    follow(state, TaskBlocked(task="b", by="a"))
    events = grant_request(ONE, state, PersonRequest(do="answer", task="a", text="tabs", by="ann"))
    first = Reply(question="tabs or spaces?", answer="tabs", by="ann")
    assert events == [TaskReplied(task="a", reply=first), TaskRetried(task="b", afresh=False)]
    again = next_order(ONE, land_other(follow(state, *events)))
    assert again and (again.resumes, again.base) == (1, "c0")
    assert as_sent(ONE, state, again).replies == (first,)
    follow(state, answered("a", 2, "needs_human", question="how wide?", resumable=True))
    state = parked(state)
    follow(state, *grant_request(ONE, state, PersonRequest(do="answer", task="a", text="4")))
    again = next_order(ONE, state)
    assert again and again.resumes == 2
    assert [reply.answer for reply in as_sent(ONE, state, again).replies] == ["tabs", "4"]


def test_nothing_is_answered_where_nothing_was_asked() -> None:
    wish = PersonRequest(do="answer", task="a", text="tabs")
    assert grant_request(ONE, begun(ONE), wish) == []
    troubled = begun(ONE, TaskParked(task="a", question="the disk is full"))
    assert grant_request(ONE, troubled, wish) == []
    with pytest.raises(IllegalStep, match="asks nothing"):
        follow(troubled, TaskReplied(task="a", reply=Reply(question="q", answer="r")))


def test_a_task_is_told_what_those_it_needs_have_come_to() -> None:
    needs = (TaskNeed(id="a"), TaskNeed(id="b", full=True))
    of = course(task("a", title="Make it"), task("b"), task("c").model_copy(update={"needs": needs}))
    state = begun(of)
    for name, summary in (("a", "s" * 5000), ("b", "f" * 5000)):
        follow(state, sent(name), answered(name, paths=["x"], claimed_summary=summary), queued(name), check_sent(name))
        follow(state, CheckAnswered(task=name, result=verdict(name)), intended(name))
        follow(state, LandingAnswered(task=name, result=landing(name)))
    event = next_order(of, state, "c")
    assert event
    assert as_sent(of, state, event).priors == (
        Prior(task="a", title="Make it", summary="s" * 4000, commit="m-a-1", paths=("x",)),
        Prior(task="b", full=True, title="b", summary="f" * 5000, commit="m-b-1", paths=("x",)),
    )


def test_what_needs_tell_is_bounded_as_a_whole() -> None:
    names = [f"n{number}" for number in range(100)]
    of = course(*(task(name) for name in names), task("all", *names))
    state = begun(of)
    for name in names:
        state.tasks[name].phase, state.tasks[name].commit = "landed", "c"
        state.tasks[name].result = answered(name, claimed_summary="s" * 4000).result
    event = next_order(of, state, "all")
    assert event
    told = as_sent(of, state, event).priors
    assert len(told) == 100 and all(one.commit == "c" for one in told)
    assert [bool(one.summary) for one in told] == [True] * 64 + [False] * 36
