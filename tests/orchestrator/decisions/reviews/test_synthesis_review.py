"""A lead's synthesis is reviewed once by another family before its run ends, and never holds up that end for ever."""

import sys
from typing import Any

import pytest
from plans import RUN, answered, begun, course, follow, review_answered, review_sent, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.lead.review import find_due, synthesis_lines, view_review, write_subject
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    BudgetSet,
    Event,
    GateHalted,
    MessageLost,
    MessageTaken,
    ReviewSent,
    RunEnded,
    RunResumed,
    TaskReported,
    TaskRetried,
)
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.run.dispatch import review_request
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.messages.answers import Objection
from forgepool.workers.schema.orders import BuiltinAgent, ScriptedAgent, Spent
from forgepool.workers.schema.reports import Report

AGENT = BuiltinAgent()
LEAD = task("lead", agent=AGENT, leads=AGENT, answers=True, description="Find the zone.")
OTHER = task("b", agent=AGENT, answers=True)
TEXT = "The zone is lost in `dates.py`. All tests pass."
FOUND = Report(summary="It is lost in dates.py.", output="LINE 40 DROPS IT")


def led(of: PlanIndex, *more: Event, spent: Spent | None = None) -> RunState:
    """Return a run whose lead has ended with a synthesis, after `b` has reported."""
    of_lead = {"families": ("anthropic",), "spent": spent or Spent()}
    reported = (sent("b"), answered("b", 1, "reported"), TaskReported(task="b", report=FOUND), sent("lead"))
    written = TaskReported(task="lead", report=Report(summary="so", output=TEXT))
    return begun(of, *reported, answered("lead", 1, "reported", **of_lead), written, *more)


def next_events(of: PlanIndex, state: RunState, *, now: float = 100.0) -> list[Event]:
    return decide(of, state, now=now, order_slots=4, draining=False)


def told(of: PlanIndex, state: RunState) -> str:
    return "\n".join(synthesis_lines(of, state))


def test_a_synthesis_is_reviewed_once_and_then_the_run_ends() -> None:
    of = course(LEAD, OTHER)
    state = led(of)
    (asked,) = next_events(of, state)
    assert isinstance(asked, ReviewSent) and asked.task == "lead"
    follow(state, asked)
    assert next_events(of, state) == []
    with pytest.raises(IllegalStep, match="while its lead's synthesis is reviewed"):
        apply(state, RunEnded(landed=0, not_landed=0), number=state.number + 1, at=100.0)
    assert "A model of another family is asked about it before the run ends." in told(of, state)
    answer = review_answered("lead", objections=()).result.model_copy(update={"token": asked.token})
    follow(state, review_answered("lead").model_copy(update={"result": answer}))
    assert [type(event) for event in next_events(of, state)] == [RunEnded]
    assert "A model of another family, gpt-x (gpt), has held it against the results, and objects to nothing in it." in (
        told(of, state)
    )


def test_the_reviewer_is_told_the_proven_text_the_goal_and_the_results() -> None:
    of = course(LEAD, OTHER)
    state = led(of, review_sent("lead"))
    (message,) = state.outstanding().values()
    request = review_request(of, state, state.tasks["lead"], message, now=1.0)
    assert (request.entries, request.authors[0].families) == ((), ("anthropic",))
    subject = request.synthesis
    assert subject is not None and subject == write_subject(of, state, state.tasks["lead"])
    assert subject.text == "The zone is lost in `dates.py`."
    assert subject.struck == ("All tests pass. (it names no task in backticks and no commit)",)
    assert "Find the zone." in subject.goal
    (result,) = subject.results
    assert result.task == "b" and result.header.startswith("b | reported |") and "LINE 40 DROPS IT" in result.text


def test_objections_stand_beside_the_text_which_stays() -> None:
    of = course(LEAD, OTHER)
    said = (Objection(quote="The zone is lost in `dates.py`.", why="</blockquote> b names\nno file"),)
    answer = review_answered("lead", "failed", objections=said, voids=("not in the synthesis: x",))
    state = led(of, review_sent("lead"), answer)
    assert [type(event) for event in next_events(of, state)] == [RunEnded]
    text = told(of, state)
    assert text.startswith("> The zone is lost in `dates.py`.\n")
    assert "objects to 1 sentence. 1 more objection quoted no sentence of it, and is left out." in text
    assert '- "The zone is lost in `dates.py`.": < /blockquote> b names no file' in text
    view = view_review(of, state)
    assert view is not None and (view.outcome, view.objections, view.dropped) == ("objects", said, 1)
    assert sentence(answer, run="r") == "lead: gpt-x objects to 1 sentence of its synthesis"


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"review": "none"}, "the plan says `review: none`"),
        ({"review": PlanReview(person=True)}, "the plan says `review: person`, so no model is asked"),
    ],
)
def test_a_plan_that_wants_no_model_as_reviewer_has_none_for_its_synthesis(plan: dict[str, Any], why: str) -> None:
    of = course(LEAD, OTHER, **plan)
    state = led(of)
    assert [type(event) for event in next_events(of, state)] == [RunEnded]
    assert f"No other model has reviewed this text: {why}." in told(of, state)


def test_an_answer_without_any_other_task_is_not_reviewed() -> None:
    of = course(LEAD)
    written = TaskReported(task="lead", report=Report(summary="so"))
    state = begun(of, sent("lead"), answered("lead", 1, "reported"), written)
    assert [type(event) for event in next_events(of, state)] == [RunEnded]
    assert "reviewed this text: the run has no other task whose result could bear it." in told(of, state)


def test_without_a_model_of_another_family_the_run_ends_and_says_so_and_a_resume_asks_again() -> None:
    of = course(LEAD, OTHER)
    state = led(of, review_sent("lead"), review_answered("lead", "unreachable", detail="set OTHER_KEY"))
    (ended,) = next_events(of, state)
    assert isinstance(ended, RunEnded)
    assert "No other model has reviewed this text: no model of another family could be asked: set OTHER_KEY." in (
        told(of, state)
    )
    follow(state, ended, RunResumed(tip="c0", gate=None, hub=None))
    (again,) = next_events(of, state)
    assert isinstance(again, ReviewSent) and again.number == 2


def test_without_room_in_the_budget_the_run_ends_and_says_so_and_a_larger_budget_is_used() -> None:
    of = course(LEAD, OTHER, budget=Budget(usd=1.0))
    state = led(of, spent=Spent(cost_usd=1.0))
    assert [type(event) for event in next_events(of, state)] == [RunEnded]
    why = "the run's budget has no room for it: 1.00 of 1.00 USD are spent or reserved"
    assert f"No other model has reviewed this text: {why}." in told(of, state)
    follow(state, BudgetSet(budget=Budget(usd=3.0)))
    (asked,) = next_events(of, state)
    assert isinstance(asked, ReviewSent) and asked.reserved_usd is not None
    follow(state, asked, review_answered("lead", objections=(), spent=Spent(cost_usd=0.5)))
    assert of.ledger(state).usd == 1.5


def test_a_scripted_reviewer_needs_no_money() -> None:
    review = PlanReview(policy=PlanReview().policy.model_copy(update={"script": "x"}))
    of = course(LEAD, OTHER, budget=Budget(usd=1.0), review=review)
    (asked,) = next_events(of, led(of, spent=Spent(cost_usd=1.0)))
    assert isinstance(asked, ReviewSent)


def test_a_review_that_is_lost_is_asked_for_once_more() -> None:
    of = course(LEAD, OTHER)
    state = led(of, review_sent("lead"))
    follow(state, MessageLost(message_id=f"{RUN}.lead.1.review-1", why="gone"))
    (again,) = next_events(of, state)
    assert isinstance(again, ReviewSent) and again.number == 2
    follow(state, again, MessageLost(message_id=again.message_id, why="gone again"))
    assert [type(event) for event in next_events(of, state)] == [RunEnded]
    assert "No other model has reviewed this text: 2 requests for a review failed, lastly: gone again." in (
        told(of, state)
    )


def test_a_fleet_without_reviewers_is_waited_for_once_and_then_the_run_ends() -> None:
    of = course(LEAD, OTHER)
    state = led(of)
    (asked,) = decide(of, state, now=100.0, order_slots=4, review_slots=0, draining=False)
    assert isinstance(asked, ReviewSent)
    follow(state, asked)
    follow(state, *decide(of, state, now=1_001.0, order_slots=4, review_slots=0, draining=False), at=1_001.0)
    ended = decide(of, state, now=1_001.0, order_slots=4, review_slots=0, draining=False)
    assert [type(event) for event in ended] == [RunEnded]
    assert "No other model has reviewed this text: no worker took it within 15 minutes." in told(of, state)
    follow(state, *ended, RunResumed(tip="c0", gate=None, hub=None))
    assert [type(event) for event in next_events(of, state)] == [ReviewSent]


def test_it_is_asked_when_every_task_has_ended_and_a_later_change_of_the_text_is_told() -> None:
    of = course(LEAD, OTHER, task("c", agent=AGENT, answers=True))
    state = led(of, sent("c"))
    assert next_events(of, state) == []
    assert state.tasks["lead"].report is not None
    state.tasks["lead"].report = Report(summary="so", output="It is found. `c` is done.")
    follow(state, answered("c", 1, "reported"), TaskReported(task="c", report=FOUND))
    (asked,) = next_events(of, state)
    assert isinstance(asked, ReviewSent) and asked.synthesis
    answer = review_answered("lead", objections=()).result.model_copy(update={"token": asked.token})
    follow(state, asked, review_answered("lead").model_copy(update={"result": answer}))
    earlier = "It has reviewed an earlier state of this text."
    assert "> It is found. `c` is done." in told(of, state) and earlier not in told(of, state)
    follow(state, TaskRetried(task="c"))
    assert "> It is found.\n" in told(of, state) and earlier in told(of, state)


def test_a_synthesis_of_which_nothing_is_confirmed_is_not_reviewed() -> None:
    of = course(LEAD, OTHER)
    state = led(of)
    state.tasks["lead"].report = Report(summary="so", output="All tests pass.")
    assert [type(event) for event in next_events(of, state)] == [RunEnded]
    assert "No other model has reviewed this text: nothing of it is confirmed." in told(of, state)


def test_a_decision_looks_at_no_task_that_has_reported() -> None:
    """Thousands of them would cost every decision milliseconds."""

    def count_calls(tasks: int) -> int:
        of = course(LEAD, *(task(f"t{at}", agent=AGENT, answers=True) for at in range(tasks)))
        state = begun(of, sent("lead"))
        for one in [*state.tasks.values()][1:]:
            one.enter("reported", 100.0)
        calls = 0

        def note(_: object, event: str, __: object) -> None:
            nonlocal calls
            calls += event == "call"

        next_events(of, state)
        sys.setprofile(note)
        try:
            next_events(of, state)
            state.outstanding()
        finally:
            sys.setprofile(None)
        return calls

    assert count_calls(400) == count_calls(4)


def test_a_review_that_no_worker_takes_is_given_up() -> None:
    of = course(LEAD, OTHER)
    state = led(of, review_sent("lead"))
    assert next_events(of, state, now=900.0) == []
    (lost,) = next_events(of, state, now=1_001.0)
    assert lost == MessageLost(message_id=f"{RUN}.lead.1.review-1", why="no worker took it within 15 minutes")
    follow(state, MessageTaken(message_id=f"{RUN}.lead.1.review-1", host="vm", pid=7))
    assert next_events(of, state, now=1_001.0) == []


def test_a_short_usage_limit_is_waited_for_and_a_long_one_is_not() -> None:
    of = course(LEAD, OTHER)
    for until, ends in ((400.0, False), (90_000.0, True)):
        answer = review_answered("lead", "infrastructure", not_before=until, detail="try later")
        state = led(of, review_sent("lead"), answer)
        assert [type(event) for event in next_events(of, state)] == ([RunEnded] if ends else [])
        assert ("its reviewers have reached a usage limit: try later" in told(of, state)) is ends
        assert len(next_events(of, state, now=500.0)) == 1


def test_a_short_usage_limit_that_is_told_late_is_short() -> None:
    of = course(LEAD, OTHER)
    late = review_answered("lead", "infrastructure", not_before=5_010.0, detail="try later")
    state = follow(led(of, review_sent("lead")), late, at=5_000.0)
    assert next_events(of, state, now=5_000.0) == []
    assert [type(event) for event in next_events(of, state, now=5_020.0)] == [ReviewSent]


def test_usage_limits_one_after_the_other_are_waited_for_15_minutes_together() -> None:
    of = course(LEAD, OTHER)
    state = led(of, review_sent("lead"), review_answered("lead", "infrastructure", not_before=800.0, detail="later"))
    again = review_answered("lead", "infrastructure", 2, not_before=1_500.0, detail="later")
    follow(state, review_sent("lead", 2), again, at=810.0)
    assert [type(event) for event in next_events(of, state, now=810.0)] == [RunEnded]


def test_a_run_that_had_stopped_ends_without_a_review() -> None:
    of = course(LEAD, OTHER)
    state = led(of, GateHalted(why="the hub is away"))
    assert find_due(of, state) is None
    assert "No other model has reviewed this text: the run had stopped: the hub is away." in told(of, state)


def test_another_try_of_the_lead_drops_the_review_of_the_first() -> None:
    of = course(LEAD, OTHER)
    state = led(of, review_sent("lead"))
    follow(state, TaskRetried(task="lead"))
    assert state.outstanding() == {}
    assert told(of, state) == ""


def test_a_lead_of_scripts_is_reviewed_too() -> None:
    script = ScriptedAgent(script="turns: [{say: hm}]")
    of = course(task("lead", agent=script, leads=script, answers=True), OTHER)
    (asked,) = next_events(of, led(of))
    assert isinstance(asked, ReviewSent)
