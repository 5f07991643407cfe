"""The cost of a review is reserved when it is sent and settled by its answer. Without money the review waits."""

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
    review_sent,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import with_budget
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    MessageLost,
    MessageTaken,
    ReviewSent,
    TaskParked,
    TaskRetried,
)
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.dispatch import review_request
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.schema.orders import BuiltinAgent, Limits, ScriptedAgent, Spent

CAP = Budget(usd=10.0)


def of(*tasks: Any, budget: Budget = CAP, **policy: Any) -> PlanIndex:
    tasks = tasks or (task("a", agent=ScriptedAgent(script="x")),)
    return course(*tasks, budget=budget, review=PlanReview(policy=ReviewPolicy(**policy)))


def reviewing(of: PlanIndex, *names: str, spent: Spent | None = None) -> RunState:
    state = begun(of)
    for name in names or ("a",):
        follow(state, sent(name), answered(name, spent=spent or Spent()), queued(name, reviewed=True))
        follow(state, check_sent(name), CheckAnswered(task=name, result=verdict(name)), awaited(name))
    return state


def next_events(of: PlanIndex, state: RunState, *, orders: int = 0, reviews: int = 4) -> list[Event]:
    return decide(of, state, now=1e6, order_slots=orders, review_slots=reviews, draining=False)


def asked(of: PlanIndex, state: RunState, **said: Any) -> list[ReviewSent]:
    return [one for one in next_events(of, state, **said) if isinstance(one, ReviewSent)]


def test_a_share_is_reserved_told_to_the_reviewer_and_settled_at_its_answer() -> None:
    plan = of()
    state = reviewing(plan)
    (sent,) = asked(plan, state)
    assert sent.reserved_usd == 5.0 and plan.ledger(state).usd == 0.0
    follow(state, sent)
    assert plan.ledger(state).usd == 5.0
    request = review_request(plan, state, state.tasks["a"], state.outstanding()[sent.message_id], now=1.0)
    assert request.cost_usd == 5.0 and request.tokens is None
    follow(state, review_answered("a", spent=Spent(cost_usd=0.25)))
    assert plan.ledger(state).usd == 0.25


def test_a_scripted_reviewer_reserves_nothing_and_needs_no_money() -> None:
    plan = of(script="x")
    state = reviewing(plan, spent=Spent(cost_usd=10.0))
    (sent,) = asked(plan, state)
    assert (sent.reserved_usd, sent.reserved_tokens) == (None, None)


def test_reviews_and_orders_of_one_turn_never_reserve_the_same_money_twice() -> None:
    plan = of(task("a", agent=ScriptedAgent(script="x")), task("b", agent=BuiltinAgent(), limits=Limits(cost_usd=6.0)))
    state = reviewing(plan)
    while events := next_events(plan, state, orders=3):
        follow(state, *events)
        assert plan.ledger(state).usd <= 10.0
    assert {one.kind for one in state.outstanding().values()} == {"review"}, "six dollars more are not there"
    follow(state, review_answered("a", spent=Spent(cost_usd=0.1)))
    assert "order.sent" in [one.kind for one in next_events(plan, state, orders=3)]


def test_two_reviews_of_one_turn_never_reserve_the_same_money_twice() -> None:
    made = [task(name, agent=ScriptedAgent(script="x")) for name in "ab"]
    plan = of(*made, limits=Limits(cost_usd=6.0))
    state = reviewing(plan, "a", "b")
    assert [one.task for one in asked(plan, state)] == ["a"]


def test_a_review_waits_for_what_another_will_leave_rather_than_make_do_with_too_little() -> None:
    plan = of(*(task(name, agent=ScriptedAgent(script="x")) for name in "ab"), limits=Limits(cost_usd=6.0))
    state = reviewing(plan, "a", "b")
    follow(state, review_sent("a", reserved_usd=6.0))
    assert next_events(plan, state) == []
    follow(state, review_answered("a", spent=Spent(cost_usd=1.0)))
    assert [(one.task, one.reserved_usd) for one in asked(plan, state)] == [("b", 6.0)]


def test_a_limit_of_the_reviews_own_is_what_it_reserves_for_each_conversation() -> None:
    plan = of(limits=Limits(cost_usd=1.0), reviewers=2)
    (sent,) = asked(plan, reviewing(plan))
    assert sent.reserved_usd == 3.0, "two reviewers, and a judge"


def test_a_review_for_which_too_little_is_left_waits_for_what_is_under_way_and_then_for_a_person() -> None:
    plan = of(task("a", agent=ScriptedAgent(script="x")), task("b", agent=BuiltinAgent(), limits=Limits(cost_usd=9.9)))
    state = begun(plan, sent("b", base="c0").model_copy(update={"reserved_usd": 9.9}))
    follow(state, sent("a"), answered("a"), queued("a", reviewed=True), check_sent("a"))
    follow(state, CheckAnswered(task="a", result=verdict("a")), awaited("a"))
    assert next_events(plan, state) == []
    (line,) = [one for one in standing(plan, state, now=1e6, live=True).tasks if one.task == "a"]
    assert line.phase == "reviewing" and "waits for budget that others may leave" in line.detail
    follow(state, answered("b", 1, "no_change", spent=Spent(cost_usd=9.8)))
    told = []
    while events := next_events(plan, state):
        follow(state, *events)
        told += events
    (parked,) = [one for one in told if isinstance(one, TaskParked) and one.task == "a"]
    assert parked.why == "budget" and f"budget {RUN} --usd USD" in parked.question
    assert f"forgepool approve {RUN} a --by NAME" in parked.question


def test_more_budget_has_the_same_candidate_reviewed_and_no_other_attempt_made() -> None:
    plan = of()
    state = reviewing(plan, spent=Spent(cost_usd=9.9))
    (parked,) = next_events(plan, state)
    follow(state, parked)
    _, reopened = with_budget(plan, state, Budget(usd=20.0))
    assert reopened == TaskRetried(task="a", afresh=False)
    follow(state, *with_budget(plan, state, Budget(usd=20.0)))
    seen = []
    while events := next_events(plan, state, orders=4):
        follow(state, *events)
        seen += [one.kind for one in events]
    assert seen == ["candidate.restored", "entry.queued", "check.sent"]
    follow(state, CheckAnswered(task="a", result=verdict("a", "green", 2)))
    follow(state, *next_events(plan, state))
    assert len(asked(plan, state)) == 1 and state.tasks["a"].attempt == 1


@pytest.mark.parametrize(("own", "why"), [(Limits(), "budget"), (Limits(cost_usd=1.0), "review")])
def test_a_review_that_the_budget_cut_short_waits_for_more_and_one_at_its_own_limit_for_a_word(
    own: Limits, why: str
) -> None:
    plan = of(limits=own)
    state = reviewing(plan)
    (sent,) = asked(plan, state)
    answer = review_answered("a", "limits", spent=Spent(cost_usd=sent.reserved_usd))
    (parked,) = next_events(plan, follow(state, sent, answer))
    assert isinstance(parked, TaskParked) and parked.why == why


def test_a_review_that_is_lost_counts_with_all_that_was_reserved_unless_nobody_had_begun_it() -> None:
    plan = of()
    message = f"{RUN}.a.1.review-1"
    lost = MessageLost(message_id=message, why="gone")
    untaken = follow(reviewing(plan), review_sent("a", reserved_usd=4.0), lost)
    assert plan.ledger(untaken).usd == 0.0
    taken = MessageTaken(message_id=message, host="h", pid=1)
    state = follow(reviewing(plan), review_sent("a", reserved_usd=4.0), taken, lost)
    assert plan.ledger(state).usd == 4.0


def test_what_is_not_priced_counts_with_all_that_was_reserved() -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a", reserved_usd=4.0))
    follow(state, review_answered("a", spent=Spent(cost_usd=None, input_tokens=5)))
    assert plan.ledger(state).usd == 4.0


def test_status_counts_what_reviews_have_used_and_tells_it_apart() -> None:
    plan = of(budget=Budget())
    used = Spent(input_tokens=100, cost_usd=0.5)
    state = reviewing(plan, spent=Spent(input_tokens=10, cost_usd=0.1))
    follow(state, review_sent("a"), review_answered("a", spent=used))
    found = standing(plan, state, now=1e6, live=True)
    (line,) = found.tasks
    assert (line.used.cost_usd, line.used_by_reviews.cost_usd, found.used.input_tokens) == (0.6, 0.5, 110)


def test_a_review_that_breaks_off_without_telling_a_turn_keeps_what_was_reserved() -> None:
    """Otherwise a review that pays for a call and breaks off could repeat that past the cap."""
    plan = of()
    state = follow(reviewing(plan), review_sent("a", reserved_usd=4.0), review_answered("a", "infrastructure"))
    assert plan.ledger(state).usd == 4.0
    again = review_sent("a", 2, reserved_usd=4.0)
    follow(state, again, review_answered("a", "infrastructure", 2, spent=Spent(turns=1, cost_usd=0.5)))
    assert plan.ledger(state).usd == 4.5, "what is told is what counts"


def test_a_review_that_is_to_wait_for_a_models_limit_has_used_nothing() -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a", reserved_usd=4.0))
    follow(state, review_answered("a", "infrastructure", not_before=500.0))
    assert plan.ledger(state).usd == 0.0
