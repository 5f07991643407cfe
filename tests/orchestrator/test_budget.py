"""What is used and reserved together never exceeds the cap, whatever is sent, answered, lost and gone on with."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import answered, begun, course, follow, sent, task

from orchestrator.bill import bill, bill_words
from orchestrator.budget import Budget, Ledger, Reservation, Use, settled
from orchestrator.course import Course
from orchestrator.decisions import decide
from orchestrator.dispatch import order
from orchestrator.events import BudgetSet, Event, MessageLost, OrderSent, TaskParked
from orchestrator.requests import with_budget
from orchestrator.state import State
from workers.messages import BuiltinAgent, Limits, Spent, WorkOrder

NO_LIMITS = Limits()


def paid(name: str, *needs: str, **said: Any) -> Any:
    return task(name, *needs, agent=BuiltinAgent(), **said)


def started(of: Course, state: State, *, slots: int = 9) -> list[OrderSent]:
    events = decide(of, state, now=1e6, order_slots=slots, draining=False)
    return [event for event in events if isinstance(event, OrderSent)]


def orders_of(of: Course, state: State, events: list[OrderSent]) -> list[WorkOrder]:
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
    """Each attempt uses up to all it may; a lost one has used it without a word, and may be gone on with or not."""
    uses: dict[int, Use] = {}
    really = {"usd": 0.0, "tokens": 0}
    open_, lost = dict[int, Reservation](), list[int]()
    for number, (step, chance) in enumerate(steps, start=1):
        ledger = Ledger.of(cap, uses.values())
        assert cap.usd is None or max(ledger.usd, really["usd"]) <= cap.usd + 1e-9
        assert cap.tokens is None or max(ledger.tokens, really["tokens"]) <= cap.tokens
        if step == "send" and len(open_) < slots:
            reserved = ledger.reserve(limits, useful=slots - len(open_), before=None, last=not open_)
            assert reserved or open_ or ledger.used_up(limits), "nothing starts, and nothing is said to be used up"
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
                uses = settled(uses, attempt, mine, models=(), includes=())


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
        "the run's budget is used: 0.96 of 1.00 USD are spent or reserved; "
        "raise it: forgepool resume r-1 --budget-usd USD"
    )
    assert state.tasks["c"].phase == "pending", "a command goes on"
    follow(state, *with_budget(of, state, Budget(usd=5.0)))
    assert [event.task for event in started(of, state)] == ["b", "c"]


def test_a_task_that_was_interrupted_and_stopped_for_money_goes_on_where_it_was() -> None:
    of = course(paid("a"), budget=Budget(usd=1.0))
    state = begun(of)
    for attempt in (1, 2):
        follow(state, *started(of, state), MessageLost(message_id=f"r-1.a.{attempt}", why="gone"))
    (parked,) = decide(of, state, now=1e6, order_slots=1, draining=False)
    assert isinstance(parked, TaskParked) and parked.why == "budget"
    follow(state, parked)
    follow(state, *with_budget(of, state, Budget(usd=5.0)))
    (again,) = started(of, state)
    assert (again.attempt, again.resumes) == (3, 2)


def test_an_attempt_that_includes_a_lost_one_replaces_what_was_held_for_it() -> None:
    of = course(paid("a"), budget=Budget(usd=4.0))
    state = begun(of)
    follow(state, *started(of, state, slots=1), MessageLost(message_id="r-1.a.1", why="gone"))
    assert of.ledger(state).usd == 2.0
    follow(state, *started(of, state, slots=1))
    assert of.ledger(state).usd == 4.0
    follow(state, answered("a", 2, spent=spent(1.25, 500), includes=(1,), models=("m",)))
    assert of.ledger(state).usd == 1.25
    whole = bill(state.tasks["a"].uses.values())
    assert (whole.input_tokens, whole.cost_usd, whole.unanswered_attempts) == (500, 1.25, 0)


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
    after = settled(uses, 2, spent(None), models=(), includes=(1,))
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
    ledger = Ledger.of(Budget(usd=9.0), [Use(spent=spent(1.0, 20))])
    assert list(ledger.above(cap)) == kinds
