"""The target is checked while the first agents work. No paid model is called until work can land on it."""

from typing import Any

import pytest
from plans import RUN, answered, check_sent, course, follow, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    GateHalted,
    LandingAnswered,
    OrderSent,
    RunEnded,
    RunResumed,
    RunStarted,
    SurveyFound,
    WaveSent,
)
from forgepool.orchestrator.plan.entries import GateOptions, Wave
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import CheckFailure, CheckResult
from forgepool.workers.schema.orders import BuiltinAgent
from forgepool.workers.schema.reports import Report

MODEL = BuiltinAgent()


def of(*tasks: Any, **said: Any) -> PlanIndex:
    return course(*tasks, review="none", **said)


def started(course_: PlanIndex) -> RunState:
    beginning = RunStarted(run=RUN, plan_digest="d", hub="/hub", target="t", tip="c0", base_first=True)
    return follow(RunState.blank(course_.tasks), beginning)


def next_events(of_: PlanIndex, state: RunState) -> list[Event]:
    return decide(of_, state, now=1e6, order_slots=4, draining=False)


def onward(of_: PlanIndex, state: RunState) -> list[tuple[str, str]]:
    """Apply all decisions until an answer is needed, and return the events."""
    seen: list[tuple[str, str]] = []
    while events := next_events(of_, state):
        seen += [(event.kind, getattr(event, "task", "")) for event in events]
        follow(state, *events)
    return seen


def red(**said: Any) -> CheckFailure:
    given = {"check": "test", "how": "exit", "status": 1, "log_tail": "", "log": "", "command": "make test", **said}
    return CheckFailure.model_validate(given)


def told(of_: PlanIndex, state: RunState, kind: str, *failures: CheckFailure) -> list[Event]:
    message = state.wave.message
    assert message is not None
    where = {"request_id": message.message_id, "token": message.token}
    result = CheckResult.model_validate({**where, "verdict": kind, "failures": failures, "detail": "it is red"})
    events = receive_answer(of_, state, result)
    follow(state, *events)
    return events


def test_models_wait_for_the_target_and_commands_do_not() -> None:
    plan = of(task("a"), task("m", agent=MODEL))
    state = started(plan)
    assert sorted(onward(plan, state)) == [("order.sent", "a"), ("wave.sent", "")]
    assert told(plan, state, "green")[1:] == []
    assert onward(plan, state) == [("order.sent", "m")]


@pytest.mark.parametrize(
    ("kind", "failures", "waits"),
    [
        ("base_red", [red(tests=("t::a",))], False),
        ("base_red", [red()], True),
        ("base_red", [red(tests=("t::a",)), red(check="lint")], True),
        ("base_red", [red(tests=("t::a",), how="timeout")], True),
        ("not_configured", [], True),
    ],
)
def test_a_red_target_is_waited_for_unless_its_failing_tests_are_known(
    kind: str, failures: list[CheckFailure], waits: bool
) -> None:
    """A known failure of the target is held against no entry."""
    plan = of(task("a"), task("m", agent=MODEL))
    state = started(plan)
    onward(plan, state)
    assert not [one for one in told(plan, state, kind, *failures) if isinstance(one, GateHalted)]
    assert (onward(plan, state) == []) == waits


def test_a_task_that_has_the_red_check_among_its_own_commands_is_there_to_make_it_green() -> None:
    plan = of(task("fix", agent=MODEL, acceptance=("make test",)), task("m", agent=MODEL))
    state = started(plan)
    onward(plan, state)
    told(plan, state, "base_red", red())
    assert onward(plan, state) == [("order.sent", "fix")]
    survey = task("survey", answers=True, surveys=True, agent=MODEL)
    plan = of(survey, task("fix", "survey", agent=MODEL, acceptance=("make test",)), task("m", "survey", agent=MODEL))
    state = started(plan)
    onward(plan, state)
    told(plan, state, "base_red", red())
    assert onward(plan, state) == [("order.sent", "survey")], "it is made for the task that makes it green"


def test_a_run_stops_where_nothing_but_models_is_left_and_the_target_is_red() -> None:
    plan = of(task("a"), task("m", agent=MODEL), task("n", "m", agent=MODEL))
    state = started(plan)
    onward(plan, state)
    told(plan, state, "base_red", red())
    assert onward(plan, state) == [], "a is still at work"
    follow(state, answered("a", 1, "agent_failed"))
    seen = onward(plan, state)
    assert seen == [("task.returned", "a"), ("order.sent", "a")] and not state.halted
    follow(state, answered("a", 2, "agent_failed"))
    assert onward(plan, state) == [("task.failed", "a"), ("gate.halted", "")]
    assert "no model was called for m;" in state.halted and "push a fix to t" in state.halted


def test_a_run_does_not_stop_for_a_task_that_would_start_as_soon_as_there_is_room() -> None:
    plan = of(task("a"), task("m", agent=MODEL))
    state = started(plan)
    follow(state, *[one for one in next_events(plan, state) if isinstance(one, WaveSent)])
    told(plan, state, "base_red", red())
    kinds = {one.kind for one in decide(plan, state, now=1e6, order_slots=0, draining=False)}
    assert "gate.halted" not in kinds


def test_trouble_with_the_check_of_the_target_says_nothing_of_it() -> None:
    plan = of(task("m", agent=MODEL))
    state = started(plan)
    onward(plan, state)
    told(plan, state, "infrastructure")
    assert state.wave.holds_models and state.wave.base_red is None
    assert onward(plan, state) == [("wave.sent", "")], "it is asked again"


def test_what_has_landed_was_green_and_models_wait_no_longer() -> None:
    plan = of(task("a"), task("m", agent=MODEL))
    state = started(plan)
    onward(plan, state)
    told(plan, state, "base_red", red())
    follow(state, answered("a"), queued("a"), check_sent("a"))
    follow(state, CheckAnswered(task="a", result=verdict("a")), intended("a"))
    follow(state, LandingAnswered(task="a", result=landing("a")))
    assert ("order.sent", "m") in onward(plan, state)


@pytest.mark.parametrize(("tip", "sent_next"), [("c0", ("order.sent", "m")), ("c9", ("wave.sent", ""))])
def test_a_person_who_goes_on_has_read_that_it_is_red_unless_it_has_moved_since(
    tip: str, sent_next: tuple[str, str]
) -> None:
    plan = of(task("m", agent=MODEL))
    state = started(plan)
    onward(plan, state)
    told(plan, state, "base_red", red())
    assert onward(plan, state) == [("gate.halted", "")]
    follow(state, RunResumed(tip=tip))
    assert onward(plan, state) == [sent_next]


def test_who_goes_on_before_anything_was_said_of_the_target_still_waits_for_it() -> None:
    plan = of(task("m", agent=MODEL))
    state = started(plan)
    follow(state, RunResumed(tip="c0"))
    assert onward(plan, state) == [("wave.sent", "")]


def test_a_run_without_work_for_models_ends_without_the_answer() -> None:
    plan = of(task("a", unchanged="ok"), gate=GateOptions(wave=Wave()))
    state = started(plan)
    follow(state, sent("a"), answered("a", 1, "no_change"))
    while events := next_events(plan, state):
        follow(state, *events)
    assert state.finished and not any(isinstance(one, OrderSent | RunEnded) for one in next_events(plan, state))


def test_a_run_whose_survey_was_kept_stops_at_a_red_target_as_well() -> None:
    """Its tasks have their need, and wait for the target alone."""
    survey = task("survey", answers=True, surveys=True, agent=MODEL)
    plan = of(survey, task("m", "survey", agent=MODEL))
    state = started(plan)
    found = SurveyFound(task="survey", by_run="r-0", commit="c" * 40, report=Report(summary="s"), stands=True)
    follow(state, found)
    assert onward(plan, state) == [("wave.sent", "")]
    told(plan, state, "base_red", red())
    (halted,) = next_events(plan, state)
    assert isinstance(halted, GateHalted) and "no model was called for m;" in halted.why
