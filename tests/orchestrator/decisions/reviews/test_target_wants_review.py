"""A review that the target demands is done, or waits for a person's approval, even if the plan demands none."""

from typing import Any

import pytest
from plans import (
    answered,
    awaited,
    begun,
    check_sent,
    course,
    follow,
    intended,
    landing,
    queued,
    review_answered,
    review_sent,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import CheckAnswered, Event, LandingIntended, TaskParked
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.plan.entries import GateOptions
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.dispatch import check_request, land_request
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.messages.answers import PersonApproval, ReviewApproval
from forgepool.workers.schema.orders import BuiltinAgent

COMMANDS = course(task("a"), task("b"))
WAIVED = course(task("a", agent=BuiltinAgent()), task("b"), review="none")
GREEN = CheckAnswered(task="a", result=verdict("a", reviewed=True))


def next_events(of: PlanIndex, state: RunState) -> list[Event]:
    return decide(of, state, now=1e6, order_slots=0, review_slots=1, draining=False)


def judged(of: PlanIndex) -> RunState:
    return begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"), GREEN)


def approve(of: PlanIndex, state: RunState) -> list[Event]:
    said = grant_request(of, state, PersonRequest(do="approve", task="a", by="Ada"))
    follow(state, *said)
    return said


@pytest.mark.parametrize("of", [COMMANDS, WAIVED], ids=["commands", "review-none"])
def test_it_is_reviewed_and_lands_on_that(of: PlanIndex) -> None:
    assert not of.reviewed
    state = judged(of)
    assert next_events(of, state) == [awaited("a")]
    follow(state, awaited("a"))
    assert [one.kind for one in next_events(of, state)] == ["review.sent"]
    follow(state, review_sent("a"), review_answered("a"))
    (intent,) = next_events(of, state)
    assert isinstance(intent, LandingIntended) and isinstance(intent.approvals[0], ReviewApproval)
    follow(state, intent)
    asked = land_request(of, state, state.outstanding()[intent.message_id], now=1.0)
    assert asked.reviewed and asked.approvals == intent.approvals


@pytest.mark.parametrize("of", [COMMANDS, WAIVED], ids=["commands", "review-none"])
def test_where_nobody_can_review_it_a_person_is_asked_and_may_approve(of: PlanIndex) -> None:
    state = follow(judged(of), awaited("a"), review_sent("a"), review_answered("a", "unreachable"))
    (parked,) = next_events(of, state)
    assert isinstance(parked, TaskParked) and parked.why == "review"
    follow(state, parked)
    assert [one.kind for one in approve(of, state)] == ["task.approved"]
    for _ in range(3):
        follow(state, *next_events(of, state))
    follow(state, CheckAnswered(task="a", result=verdict("a", "green", 2, reviewed=True)))
    follow(state, *next_events(of, state))
    assert state.tasks["a"].phase == "landing"
    assert state.tasks["a"].review.person == PersonApproval(commit="c-a-1", by="Ada") and not state.halted


def test_nothing_of_it_lands_without() -> None:
    with pytest.raises(IllegalStep, match="no approval covers"):
        follow(judged(COMMANDS), intended("a"))


def test_what_is_known_of_the_target_holds_for_the_next_check_and_for_no_other_attempt() -> None:
    of = course(task("a"), gate=GateOptions(order="side_by_side"))
    state = follow(judged(of), awaited("a"), review_sent("a"), review_answered("a"), check_sent("a", 2, base="c1"))
    asked = check_request(of, state, state.outstanding()["r-1.a.1.check-2"], now=1.0)
    assert asked.reviewed
    follow(state, CheckAnswered(task="a", result=verdict("a", "stale", 2)), sent("a", 2))
    assert not of.wants_review(state.tasks["a"])


def test_status_says_that_somebody_is_to_look_at_it() -> None:
    (line, _) = standing(COMMANDS, judged(COMMANDS), now=1.0, live=True).tasks
    assert line.review is not None and line.review.outcome == ""


def refused(of: PlanIndex, state: RunState, **said: Any) -> list[Event]:
    return receive_answer(of, state, landing("a", "refused", detail="nobody has approved it").model_copy(update=said))


def test_an_approval_that_a_lander_finds_wanting_stops_that_task_alone() -> None:
    """No check reported that an approval is needed, so the landing's answer decides it."""
    plain = CheckAnswered(task="a", result=verdict("a"))
    state = begun(COMMANDS, sent("a"), answered("a"), queued("a"), check_sent("a"), plain, intended("a"))
    assert [one.kind for one in refused(COMMANDS, state)] == ["landing.answered", "gate.halted"]
    events = refused(COMMANDS, state, unapproved="a")
    assert [one.kind for one in events] == ["landing.answered", "task.parked"]
    follow(state, *events)
    found = state.tasks["a"]
    assert (found.phase, found.parked_for, state.halted) == ("needs_human", "review", "")
    assert "nobody has approved it; forgepool approve r-1 a --by NAME" in found.detail
    assert [one.kind for one in approve(COMMANDS, state)] == ["task.approved"]
