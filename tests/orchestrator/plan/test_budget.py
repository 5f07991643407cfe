"""Usage and reservations together never exceed the cap, in any order of messages, answers, losses and resumes."""

import math
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import answered, begun, follow, sent, task
from plans import course as course_with_reviews
from pydantic import ValidationError

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import with_budget
from forgepool.orchestrator.journal.events import (
    BudgetAwaited,
    BudgetSet,
    Event,
    MessageLost,
    MessageTaken,
    OrderSent,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TaskParked,
    TaskRetried,
)
from forgepool.orchestrator.plan.budget import Budget, BudgetLedger, Reservation, SeenUse, Use, settle_use
from forgepool.orchestrator.reports.costs import bill, bill_words, budget_words, usd_words
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent, Limits, Spent, WorkOrder

NO_LIMITS = Limits()
course = partial(course_with_reviews, review="none")
"""Reviews have a part of the budget, too: tests/orchestrator/decisions/orders/test_money.py."""


def paid(name: str, *needs: str, **said: Any) -> Any:
    return task(name, *needs, agent=BuiltinAgent(), **said)


def started(of: PlanIndex, state: RunState, *, slots: int = 9) -> list[OrderSent]:
    events = decide(of, state, now=1e6, order_slots=slots, draining=False)
    return [event for event in events if isinstance(event, OrderSent)]


def orders_of(of: PlanIndex, state: RunState, events: list[OrderSent]) -> list[WorkOrder]:
    follow(state, *events)
    found = []
    for event in events:
        one = state.tasks[event.task]
        assert one.message
        found.append(order(of, state, one, one.message, now=1e6, resent=False))
    return found


def spent(usd: float | None, tokens: int = 0) -> Spent:
    return Spent(turns=1, input_tokens=tokens, cost_usd=usd)


_CAPS = st.builds(
    Budget,
    usd=st.none() | st.floats(0.01, 100).map(lambda usd: round(usd, 6)),
    tokens=st.none() | st.integers(100, 10**6),
)
_LIMITS = st.builds(Limits, cost_usd=st.none() | st.floats(0.01, 50), tokens=st.none() | st.integers(1, 10**6))
_STEPS = st.lists(st.tuples(st.sampled_from(["send", "send", "answer", "lose"]), st.integers(0, 99)), max_size=60)


@settings(max_examples=200, deadline=None)
@given(cap=_CAPS, limits=_LIMITS, steps=_STEPS, slots=st.integers(1, 8))
def test_many_reservations_at_once_never_exceed_the_cap(
    cap: Budget, limits: Limits, steps: list[tuple[str, int]], slots: int
) -> None:
    """Each attempt uses up to its limit. A lost one has used it without a report, and may be continued or not."""
    uses: dict[int, Use] = {}
    really = {"usd": 0.0, "tokens": 0}
    open_, lost = dict[int, Reservation](), list[int]()
    for number, (step, chance) in enumerate(steps, start=1):
        ledger = BudgetLedger.of(cap, uses.values())
        assert cap.usd is None or max(ledger.usd, really["usd"]) <= cap.usd + 1e-9
        assert cap.tokens is None or max(ledger.tokens, really["tokens"]) <= cap.tokens
        if step == "send" and len(open_) < slots:
            reserved = ledger.reserve(limits, useful=slots - len(open_), before=None, last=not open_)
            assert reserved or open_ or ledger.find_used_up(limits), "nothing starts, and nothing is said to be used up"
            if reserved is not None:
                assert reserved.usd != 0 and reserved.tokens != 0
                open_[number] = reserved
                uses[number] = Use(reserved_usd=reserved.usd, reserved_tokens=reserved.tokens)
        elif step in ("answer", "lose") and open_:
            attempt = sorted(open_)[chance % len(open_)]
            had = open_.pop(attempt)
            mine = spent((had.usd or 0.0) * chance / 99, (had.tokens or 0) * chance // 99)
            really["usd"] += mine.cost_usd or 0.0
            really["tokens"] += mine.tokens
            if step == "lose":
                lost.append(attempt)
            else:
                uses = settle_use(uses, attempt, mine, models=(), includes=())


def test_a_share_leaves_one_in_hand_for_an_attempt_that_is_lost() -> None:
    of = course(*(paid(f"t{number}") for number in range(9)), budget=Budget(usd=20.0))
    state = begun(of)
    first = started(of, state, slots=4)
    assert [event.reserved_usd for event in first] == [4.0] * 4
    follow(state, *first, MessageLost(message_id="r-1.t0.1", why="gone"))
    (again,) = started(of, state, slots=4)
    assert (again.task, again.resumes, again.reserved_usd) == ("t0", 1, 4.0)


def test_an_order_is_told_to_keep_within_its_reservation_and_its_tasks_own_limits() -> None:
    of = course(
        paid("a", limits=Limits(cost_usd=0.5, tokens=700)), paid("b"), task("c"), budget=Budget(usd=9.0, tokens=1000)
    )
    state = begun(of)
    told = {one.task: one.limits for one in orders_of(of, state, started(of, state))}
    assert (told["a"].cost_usd, told["a"].tokens) == (0.5, 700)
    assert told["b"].cost_usd == 4.25 and told["b"].tokens == 150
    assert (told["c"].cost_usd, told["c"].tokens) == (None, None), "a command costs nothing, and reserves nothing"


def test_without_a_cap_a_tasks_own_limits_go_as_they_are() -> None:
    of = course(paid("a", limits=Limits(cost_usd=0.5)))
    state = begun(of)
    (one,) = orders_of(of, state, started(of, state))
    assert (one.limits.cost_usd, one.limits.tokens) == (0.5, None)


def test_a_task_that_does_not_fit_waits_for_what_comes_back_and_then_takes_what_is_left() -> None:
    of = course(*(paid(name, limits=Limits(cost_usd=4.0)) for name in "abc"), task("free"), budget=Budget(usd=10.0))
    state = begun(of)
    first = started(of, state)
    assert [event.task for event in first] == ["a", "b"]
    follow(state, *first)
    assert [event.task for event in started(of, state)] == ["free"], "who pays for nothing does not wait behind money"
    follow(state, sent("free"), answered("a", spent=spent(3.5)), answered("b", spent=spent(3.9)))
    while (last := decide(of, state, now=1e6, order_slots=9, draining=False)) and last[-1].kind != "order.sent":
        follow(state, *last)
    (order_of_c,) = [one for one in last if isinstance(one, OrderSent)]
    assert order_of_c.task == "c" and order_of_c.reserved_usd == pytest.approx(2.6, abs=1e-5)


def test_a_budget_that_is_used_parks_what_needs_it_with_the_command_that_raises_it() -> None:
    of = course(paid("a"), paid("b"), task("c"), budget=Budget(usd=1.0))
    state = begun(of)
    (first, *_) = started(of, state, slots=1)
    follow(state, first, answered("a", spent=spent(0.96)))
    events: list[Event] = []
    while more := decide(of, state, now=1e6, order_slots=0, draining=False):
        events += more
        follow(state, *more)
    (parked,) = [event for event in events if isinstance(event, TaskParked)]
    assert (parked.task, parked.why) == ("b", "budget")
    assert parked.question == (
        "the run's budget is used: 0.96 of 1.00 USD are spent or reserved; raise it: forgepool budget r-1 --usd USD"
    )
    assert state.tasks["c"].phase == "pending", "a command goes on"
    follow(state, *with_budget(of, state, Budget(usd=5.0)))
    assert [event.task for event in started(of, state)] == ["b", "c"]


def lost(attempt: int, used: SeenUse | None) -> list[Event]:
    """Return the events of a worker that took the order and vanished."""
    message_id = f"r-1.a.{attempt}"
    return [
        MessageTaken(message_id=message_id, host="h", pid=7),
        MessageLost(message_id=message_id, why="w", used=used),
    ]


def settle(of: PlanIndex, state: RunState) -> list[Event]:
    """Apply all decisions until none follows, without starting an order."""
    found: list[Event] = []
    while more := decide(of, state, now=1e6, order_slots=0, draining=False):
        found += more
        follow(state, *more)
    return found


def test_a_task_that_was_interrupted_and_stopped_for_money_goes_on_where_it_was() -> None:
    of = course(paid("a"), budget=Budget(usd=1.0))
    state = begun(of)
    for attempt in (1, 2):
        follow(state, *started(of, state), *lost(attempt, None))
    (parked,) = decide(of, state, now=1e6, order_slots=1, draining=False)
    assert isinstance(parked, TaskParked) and parked.why == "budget"
    follow(state, parked)
    follow(state, *with_budget(of, state, Budget(usd=5.0)))
    (again,) = started(of, state)
    assert (again.attempt, again.resumes) == (3, 2)


@pytest.mark.parametrize(
    ("used", "counted"),
    [
        (None, 2.0),
        (SeenUse(), 0.5),
        (SeenUse(used=spent(0.3), largest_turn=spent(0.2)), 0.7),
        (SeenUse(used=spent(0.3), largest_turn=spent(0.01)), 0.4),
        (SeenUse(used=spent(0.3), largest_turn=spent(0.1), unseen=4), 1.1),
        (SeenUse(used=spent(0.3), largest_turn=spent(0.1), unseen=None), 2.0),
        (SeenUse(used=spent(2.5), largest_turn=spent(0.1), unseen=None), 2.5),
        (SeenUse(used=spent(1.9), largest_turn=spent(0.5)), 2.0),
        (SeenUse(used=spent(2.5), largest_turn=spent(0.5)), 2.5),
        (SeenUse(used=spent(None), largest_turn=spent(0.0)), 2.0),
    ],
)
def test_a_lost_attempt_counts_what_the_hub_knows_and_the_turn_under_way(used: SeenUse | None, counted: float) -> None:
    """Without an answer from the hub the whole reservation counts. Use beyond the reservation is never hidden."""
    of = course(paid("a"), budget=Budget(usd=4.0))
    state = begun(of)
    (first,) = started(of, state, slots=1)
    assert first.reserved_usd == 2.0
    follow(state, first, *lost(1, used))
    assert of.ledger(state).usd == pytest.approx(counted)


def test_an_order_that_nobody_took_counts_nothing_when_it_is_lost_or_cancelled() -> None:
    of = course(paid("a"), paid("b"), budget=Budget(usd=4.0))
    state = begun(of)
    follow(state, *started(of, state), MessageLost(message_id="r-1.a.1", why="gone"), TaskCancelled(task="b"))
    assert of.ledger(state).usd == 0.0
    assert bill(state.tasks["a"].uses.values()).unanswered_attempts == 0


def test_a_cancelled_attempt_counts_as_a_lost_one() -> None:
    of = course(paid("a"), budget=Budget(usd=4.0))
    used = SeenUse(used=spent(0.3, 70), largest_turn=spent(0.2))
    taken = MessageTaken(message_id="r-1.a.1", host="h", pid=7)
    state = begun(of)
    follow(state, *started(of, state, slots=1), taken, TaskCancelled(task="a", used=used))
    assert of.ledger(state).usd == pytest.approx(0.7)
    assert bill(state.tasks["a"].uses.values()).cost_usd == pytest.approx(0.3)


def test_who_goes_on_reserves_only_what_it_may_use_besides_and_is_told_both_together() -> None:
    of = course(paid("a", limits=Limits(cost_usd=2.0, tokens=1000)), budget=Budget(usd=10.0))
    state = begun(of)
    used = SeenUse(used=spent(0.5, 300), largest_turn=spent(0.1, 50))
    follow(state, *started(of, state), *lost(1, used))
    (again,) = started(of, state)
    assert (again.resumes, again.reserved_usd, again.reserved_tokens) == (1, 1.5, 700)
    (told,) = orders_of(of, state, [again])
    assert (told.limits.cost_usd, told.limits.tokens, told.carried.cost_usd) == (2.0, 1000, 0.5)
    follow(state, answered("a", 2, spent=spent(1.5, 800), includes=(1,), carried=used.used))
    assert of.ledger(state).usd == pytest.approx(1.5 + 0.2), "the turn that was under way was used by nobody else"


def test_a_share_of_the_budget_comes_on_top_of_what_is_carried_over() -> None:
    of = course(paid("a"), budget=Budget(usd=10.0))
    state = begun(of)
    follow(state, *started(of, state), *lost(1, SeenUse(used=spent(4.0), largest_turn=spent(0.5))))
    (again,) = started(of, state)
    (told,) = orders_of(of, state, [again])
    assert again.reserved_usd is not None and told.limits.cost_usd == pytest.approx(4.0 + again.reserved_usd)
    assert of.ledger(state).usd <= 10.0


@pytest.mark.parametrize("limits", [Limits(), Limits(cost_usd=9.0)])
def test_an_attempt_that_the_budget_cut_short_waits_for_more_and_goes_on_uncharged(limits: Limits) -> None:
    of = course(paid("a", limits=limits, attempts=1), budget=Budget(usd=4.0))
    state = begun(of)
    (first,) = started(of, state)
    follow(state, first, answered("a", 1, "limits_spent", spent=spent(first.reserved_usd, 10), resumable=False))
    waits, *more = settle(of, state)
    parked = [event for event in more if isinstance(event, TaskParked)]
    assert waits == BudgetAwaited(task="a", attempt=1) and state.tasks["a"].charged == 0
    left = of.ledger(state).left_usd
    assert bool(parked) == (left == 0.0), "a person is asked only where nothing is left"
    assert all(event.why == "budget" and "--usd USD" in event.question for event in parked)
    follow(state, *with_budget(of, state, Budget(usd=20.0)))
    (again,) = started(of, state)
    (told,) = orders_of(of, state, [again])
    assert (again.resumes, told.carried.cost_usd) == (1, first.reserved_usd)
    assert told.limits.cost_usd is not None and told.limits.cost_usd > (first.reserved_usd or 0)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(cost_usd=1.0), {}),
        (Limits(turns=1), {}),
        (Limits(wall_s=60), {"started_at": 100.0, "finished_at": 161.0}),
    ],
)
def test_an_attempt_that_ended_at_a_limit_of_its_own_failed(limits: Limits, said: dict[str, Any]) -> None:
    of = course(paid("a", limits=limits, attempts=1), budget=Budget(usd=4.0))
    state = begun(of)
    follow(state, *started(of, state), answered("a", 1, "limits_spent", spent=spent(0.9), **said))
    assert isinstance(settle(of, state)[0], TaskFailed)


def test_a_program_counts_as_cut_short_only_when_it_passed_what_it_was_given() -> None:
    for used, kind in ((0.1, TaskFailed), (3.0, BudgetAwaited)):
        of = course(task("a", agent=CliAgent(program="claude"), attempts=1), budget=Budget(usd=4.0))
        state = begun(of)
        follow(state, *started(of, state), answered("a", 1, "limits_spent", spent=spent(used)))
        assert of.ledger(state).usd == used
        assert isinstance(settle(of, state)[0], kind)


def test_more_budget_reopens_what_waited_for_it_and_nothing_else() -> None:
    """
    A task that a person cancelled stays cancelled. An agent's question stays open, though tasks that need it wait as
    well.
    """
    of = course(paid("a"), paid("b", "a"), task("c"), paid("d"), paid("e", "c"), task("f", "d"), budget=Budget(usd=1.0))
    state = begun(of, TaskCancelled(task="c"))
    follow(state, sent("d"), answered("d", 1, "needs_human", question="which?", spent=spent(0.99), resumable=True))
    found = settle(of, state)
    assert [event.task for event in found if isinstance(event, TaskParked) and event.why == "budget"] == ["a"]
    blocked = {event.task for event in found if isinstance(event, TaskBlocked)}
    assert blocked == {"b", "e", "f"}, "what needs a task that will not land is blocked, whatever it costs"
    events = with_budget(of, state, Budget(usd=5.0))
    assert [event.task for event in events if isinstance(event, TaskRetried)] == ["a", "b"]
    follow(state, *events)
    assert (state.tasks["c"].phase, state.tasks["d"].question) == ("cancelled", "which?")


def test_more_budget_runs_nothing_again_that_a_person_cancelled() -> None:
    of = course(task("c"), paid("a", "c"), budget=Budget(usd=1.0))
    state = begun(of, TaskCancelled(task="c"), TaskParked(task="a", question="q", why="budget"))
    events = with_budget(of, state, Budget(usd=5.0))
    assert [event.task for event in events if isinstance(event, TaskRetried)] == ["a"]


def test_turns_that_never_reached_the_hub_go_on_counting() -> None:
    """The first attempt used 1.0, and the next one found 0.6 of it. The total is 1.9."""
    uses = {1: Use(reserved_usd=2.0, spent=spent(1.0)), 2: Use(reserved_usd=2.0, resumes=1, carried=spent(1.0))}
    after = settle_use(uses, 2, spent(1.5), models=(), includes=(1,), carried=spent(0.6))
    assert sum(use.counted_usd for use in after.values()) == pytest.approx(1.9)
    assert bill(after.values()).cost_usd == pytest.approx(1.9)


def test_a_late_answer_of_an_attempt_that_was_gone_on_from_counts_what_nobody_carried_over() -> None:
    uses = {1: Use(reserved_usd=2.0, ended="lost", seen=SeenUse(used=spent(0.6))), 2: Use(reserved_usd=2.0, resumes=1)}
    uses = settle_use(uses, 2, spent(1.5), models=(), includes=(1,), carried=spent(0.6))
    uses = settle_use(uses, 1, spent(1.7), models=(), includes=())
    assert sum(use.counted_usd for use in uses.values()) == pytest.approx(1.7 + 0.9)


def test_what_was_found_beyond_what_was_known_is_counted_once() -> None:
    """A push arrived after the hub was asked."""
    uses = {1: Use(reserved_usd=2.0, ended="lost", seen=SeenUse()), 2: Use(reserved_usd=2.0, resumes=1)}
    after = settle_use(uses, 2, spent(1.5), models=(), includes=(1,), carried=spent(0.9))
    assert sum(use.counted_usd for use in after.values()) == pytest.approx(1.5)


@pytest.mark.parametrize("amount", [math.inf, math.nan])
def test_a_budget_without_an_end_is_none(amount: float) -> None:
    with pytest.raises(ValidationError):
        Budget(usd=amount)


def test_what_is_held_without_being_used_is_said_in_words() -> None:
    of = course(paid("a"), paid("b"), budget=Budget(usd=9.0))
    state = begun(of)
    follow(state, *started(of, state), *lost(1, SeenUse(used=spent(0.5), largest_turn=spent(0.2))))
    assert list(budget_words(of.ledger(state))) == [
        "3.90 of 9.00 USD spent or reserved (3.00 USD reserved for attempts under way; "
        "0.40 USD held for lost or cancelled attempts, whose usage is not fully known)"
    ]


def test_who_waits_for_money_says_so_and_who_comes_after_it_too() -> None:
    of = course(*(paid(name, limits=Limits(cost_usd=usd)) for name, usd in zip("abc", (3, 2, 1), strict=True)))
    state = begun(of, BudgetSet(budget=Budget(usd=4.0)))
    follow(state, *started(of, state, slots=1))
    said = {one.task: one.detail for one in standing(of, state, now=1.0, live=True).tasks}
    assert said["b"] == "waits for what orders under way will leave of the budget; 1.00 USD are left, too little for it"
    assert said["c"] == "waits behind 'b', which waits for budget"


def test_a_use_without_a_known_price_counts_as_all_that_was_reserved() -> None:
    of = course(paid("a"), budget=Budget(usd=4.0, tokens=10_000))
    state = begun(of)
    (first,) = started(of, state, slots=1)
    follow(state, first, answered("a", spent=spent(None, 300), models=("local",)))
    assert (of.ledger(state).usd, of.ledger(state).tokens) == (first.reserved_usd, 300)
    assert bill(state.tasks["a"].uses.values()).cost_usd is None
    assert bill_words(bill(state.tasks["a"].uses.values())) == "local: 300 tokens in, 0 out, cost unknown"


def test_an_unknown_price_never_makes_earlier_attempts_cheaper() -> None:
    uses = {1: Use(reserved_usd=2.0), 2: Use(reserved_usd=1.0)}
    after = settle_use(uses, 2, spent(None), models=(), includes=(1,))
    assert sum(use.counted_usd for use in after.values()) == 3.0


def test_a_person_sets_the_budget_of_a_run_and_it_is_kept() -> None:
    of = course(paid("a"), budget=Budget(usd=4.0))
    state = begun(of, BudgetSet(budget=Budget(usd=7.0)))
    assert of.budget(state) == Budget(usd=7.0)
    assert of.budget(begun(of)) == Budget(usd=4.0)
    assert list(of.ledger(state).above(Budget(usd=0.0001))) == []


@pytest.mark.parametrize(
    ("cap", "kinds"), [(Budget(usd=0.5), ["usd"]), (Budget(tokens=10), ["tokens"]), (Budget(), [])]
)
def test_a_cap_below_what_counts_already_is_told(cap: Budget, kinds: list[str]) -> None:
    ledger = BudgetLedger.of(Budget(usd=9.0), [Use(spent=spent(1.0, 20))])
    assert list(ledger.above(cap)) == kinds


@pytest.mark.parametrize(("amount", "words"), [(0.0, "0.00"), (0.004, "0.0040"), (0.01, "0.01"), (12.345, "12.35")])
def test_a_small_sum_is_not_told_as_nothing(amount: float, words: str) -> None:
    """Amounts are in cents, and below one cent the exact amount is shown."""
    assert usd_words(amount) == words
