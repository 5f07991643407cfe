"""
A review in a vendor's batch lane: requests about one call follow one another, and its reservation is settled once.
"""

import time
from typing import Any

import pytest
from plans import (
    RUN,
    answered,
    awaited,
    begun,
    check_sent,
    course,
    follow,
    queued,
    review_answered,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    MessageLost,
    MessageTaken,
    ReviewSent,
    TaskCancelled,
    TaskParked,
    TipMoved,
)
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.run.dispatch import review_request
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.llm.batch import BatchTicket
from forgepool.workers.schema.orders import ScriptedAgent, Spent

NOW = 1e6
KEY = f"{RUN}.a.1.review-1"
TICKET = BatchTicket(account="gpt", model="gpt-x", id="batch_1")


def of(*names: str, **policy: Any) -> PlanIndex:
    tasks = [task(name, agent=ScriptedAgent(script="x")) for name in names or ("a",)]
    lane = ReviewPolicy(**({"lane": "batch", "context_mode": "injected"} | policy))
    return course(*tasks, budget=Budget(usd=10.0), review=PlanReview(policy=lane))


def reviewing(of: PlanIndex) -> RunState:
    state = begun(of)
    for name in of.tasks:
        follow(state, sent(name), answered(name, spent=Spent()), queued(name, reviewed=True))
        follow(state, check_sent(name), CheckAnswered(task=name, result=verdict(name)), awaited(name))
    return state


def events(plan: PlanIndex, state: RunState, now: float = NOW) -> list[Event]:
    return decide(plan, state, now=now, order_slots=0, review_slots=4, draining=False)


def ask(plan: PlanIndex, state: RunState, now: float = NOW) -> ReviewSent:
    (asked,) = [one for one in events(plan, state, now) if isinstance(one, ReviewSent)]
    follow(state, asked)
    return asked


def waits(number: int = 1, ticket: BatchTicket = TICKET, until: float = NOW + 30.0, **said: Any) -> Event:
    return review_answered("a", "infrastructure", number, not_before=until, batch=ticket, **said)


def test_each_request_is_about_the_same_call_on_the_same_tip_and_reserves_nothing_more() -> None:
    plan = of()
    state = reviewing(plan)
    first = ask(plan, state)
    assert first.batch is not None and first.batch.key == first.message_id == KEY and not first.batch.again
    assert (first.batch.since, first.batch.until) == (NOW, NOW + 3600.0)
    follow(state, waits())
    assert plan.ledger(state).usd == first.reserved_usd == 5.0
    assert events(plan, state, NOW + 29.0) == []
    follow(state, TipMoved(tip="c9"))
    second = ask(plan, state, NOW + 31.0)
    assert second.batch is not None and (second.number, second.base) == (2, first.base)
    assert (second.batch.key, second.batch.until, second.batch.ticket) == (KEY, NOW + 3600.0, TICKET)
    assert second.batch.again and second.reserved_usd == 5.0 == plan.ledger(state).usd
    request = review_request(plan, state, state.tasks["a"], state.outstanding()[second.message_id], now=NOW)
    assert request.batch == second.batch and request.cost_usd == 5.0
    follow(state, review_answered("a", "passed", 2, spent=Spent(turns=1, cost_usd=0.25)))
    assert plan.ledger(state).usd == 0.25 and state.tasks["a"].review.batch is None
    assert list(state.tasks["a"].review.uses) == [2]


def test_where_no_batch_brings_an_answer_the_next_request_is_live_and_what_was_paid_counts() -> None:
    plan = of()
    state = reviewing(plan)
    ask(plan, state)
    over = TICKET.model_copy(update={"over": "its batch has expired"})
    follow(state, waits(1, over, NOW, spent=Spent(turns=1, cost_usd=0.5), detail="it is made live: it has expired"))
    assert plan.ledger(state).usd == 0.5
    live = ask(plan, state)
    assert live.batch is None and live.reserved_usd == pytest.approx(4.75) and plan.ledger(state).usd == 5.25
    follow(state, review_answered("a", "infrastructure", 2, not_before=NOW + 9.0))
    assert ask(plan, state, NOW + 10.0).batch is None, "a limit of the models' brings the lane back"
    follow(state, review_answered("a", "passed", 3, spent=Spent(turns=1, cost_usd=1.0)))
    assert plan.ledger(state).usd == 1.5


def test_a_lost_request_is_followed_by_one_that_looks_for_its_batch() -> None:
    plan = of()
    state = reviewing(plan)
    ask(plan, state)
    follow(state, MessageTaken(message_id=KEY, host="h", pid=1), MessageLost(message_id=KEY, why="gone"))
    assert plan.ledger(state).usd == 5.0
    second = ask(plan, state)
    assert second.batch is not None and second.batch.again and second.batch.key == KEY
    assert plan.ledger(state).usd == 5.0
    follow(state, review_answered("a", "infrastructure", 2, detail="git is away"))
    assert plan.ledger(state).usd == 5.0, "the batch may be there"
    third = ask(plan, state, NOW + 90.0)
    assert third.batch is not None and third.batch.key == KEY and plan.ledger(state).usd == 5.0


def test_a_resent_request_looks_for_its_batch() -> None:
    plan = of()
    state = reviewing(plan)
    first = ask(plan, state)
    message = state.outstanding()[first.message_id]
    resent = review_request(plan, state, state.tasks["a"], message, now=NOW, resent=True)
    assert resent.batch is not None and resent.batch.again


def test_a_batch_that_is_not_waited_for_any_more_may_be_paid_and_counts_in_full() -> None:
    plan = of()
    state = reviewing(plan)
    ask(plan, state)
    follow(state, waits(), TaskCancelled(task="a"))
    assert plan.ledger(state).usd == 5.0 and plan.ledger(state).under_way.usd == 0.0
    untaken = reviewing(plan)
    ask(plan, untaken)
    follow(untaken, TaskCancelled(task="a"))
    assert plan.ledger(untaken).usd == 0.0


def test_a_candidate_whose_review_waits_for_money_waits_for_a_batch_that_may_cost_less() -> None:
    plan = of("a", "b", limits={"cost_usd": 6.0})
    state = reviewing(plan)
    assert ask(plan, state).task == "a"
    follow(state, waits())
    assert not any(isinstance(one, TaskParked | ReviewSent) for one in events(plan, state))
    assert ask(plan, state, NOW + 31.0).task == "a"
    follow(state, review_answered("a", "passed", 2, spent=Spent(turns=1, cost_usd=0.1)))
    assert ask(plan, state).task == "b"


def test_a_request_names_the_batches_that_hold_other_reviews() -> None:
    plan = of("a", "b")
    state = reviewing(plan)
    follow(state, *events(plan, state))
    follow(state, waits())
    message = state.outstanding()[f"{RUN}.b.1.review-1"]
    request = review_request(plan, state, state.tasks["b"], message, now=NOW)
    assert request.batch is not None and request.batch.others == ("batch_1",)


@pytest.mark.parametrize(("hour", "lane"), [(23, True), (3, True), (6, True), (7, False), (12, False), (21, False)])
def test_by_day_a_review_for_the_night_is_made_live(hour: int, lane: bool) -> None:
    plan = of(when="night")
    at = time.mktime((2026, 11, 28, hour, 30, 0, 0, 0, -1))
    assert (ask(plan, reviewing(plan), at).batch is not None) == lane


def test_a_person_is_told_once_that_a_review_is_in_a_batch_and_once_why_it_is_not_any_more() -> None:
    plan = of()
    state = reviewing(plan)
    told = [ask(plan, state), waits(detail="it is in batch batch_1")]
    follow(state, told[1])
    told += [ask(plan, state, NOW + 31.0), waits(2, TICKET.model_copy(update={"looks": 1}), detail="it is in batch")]
    over = TICKET.model_copy(update={"looks": 2, "over": "expired"})
    told.append(waits(3, over, detail="it is made live: expired"))
    assert [sentence(one) for one in told] == [
        "a: review requested",
        "a: its review: it is in batch batch_1",
        None,
        None,
        "a: its review: it is made live: expired",
    ]


def test_work_that_more_than_one_family_is_to_read_is_reviewed_live() -> None:
    plan = of()
    state = reviewing(plan)
    state.climb("a", 2)
    plan = plan.grow_with(state)
    asked = ask(plan, state)
    assert asked.batch is None
    message = state.outstanding()[asked.message_id]
    assert review_request(plan, state, state.tasks["a"], message, now=NOW).policy.reviewers == 2


def test_a_batch_that_may_have_been_made_counts_in_full_where_its_request_was_lost_and_it_is_too_late() -> None:
    plan = of()
    state = reviewing(plan)
    first = ask(plan, state)
    follow(state, MessageTaken(message_id=first.message_id, host="h", pid=1))
    follow(state, MessageLost(message_id=first.message_id, why="gone"))
    late = ask(plan, state, NOW + 4000.0)
    over = BatchTicket(over="no batch was made before its deadline")
    follow(state, review_answered("a", "infrastructure", late.number, not_before=NOW + 4000.0, batch=over))
    use = state.tasks["a"].review.uses[late.number]
    assert use.counted_usd == first.reserved_usd and use.counted_usd, use
    assert state.tasks["a"].review.batch is None


def test_a_look_that_is_told_for_the_past_waits_all_the_same() -> None:
    plan = of()
    state = reviewing(plan)
    ask(plan, state)
    follow(state, waits(until=-30.0))
    assert state.tasks["a"].review.not_before >= state.at + 5.0
