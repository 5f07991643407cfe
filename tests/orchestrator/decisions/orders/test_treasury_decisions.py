"""The decisions of a run that the limits on all runs leave little. The amounts of the other runs are given as facts."""

from typing import Any

import pytest
from plans import answered, awaited, begun, check_sent, course, follow, queued, review, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.treasury import (
    AskedAccounts,
    CountedUse,
    LimitStanding,
    Totals,
    TreasuryFacts,
    TreasuryLimit,
    find_accounts_used,
)
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.reports.attention import Liveness, attention
from forgepool.orchestrator.reports.costs import describe_money
from forgepool.orchestrator.reports.status import standing as run_standing
from forgepool.orchestrator.run.dispatch import order, review_request
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.schema.orders import BuiltinAgent, Limits, Spent

NOW = 86_400.0 * 20_000
FIRST, SECOND = (TreasuryLimit(account=name, per="day", usd=10.0) for name in ("first", "second"))
DAY = TreasuryLimit(per="day", usd=10.0)
USD = 1_000_000


def paid(name: str, *needs: str, **said: Any) -> Any:
    return task(name, *needs, files=[f"{name}.txt"], agent=BuiltinAgent(), limits=Limits(cost_usd=2.0), **said)


def facts(limit: TreasuryLimit = DAY, others: float = 0.0, *, kept: float = 0.0, is_open: bool = True) -> TreasuryFacts:
    used = Totals(orders_usd=int(others * USD))
    return TreasuryFacts(current=(LimitStanding(limit=limit, at=NOW, kept=kept, others=used),), open=is_open)


def step(of: PlanIndex, state: RunState, *, now: float = NOW, review_slots: int = 1) -> list[e.Event]:
    found: list[e.Event] = []
    while more := decide(of, state, now=now, order_slots=9, check_slots=0, review_slots=review_slots, draining=False):
        found += more
        follow(state, *more, at=now)
    return found


def orders(events: list[e.Event]) -> dict[str, float | None]:
    return {one.task: one.reserved_usd for one in events if isinstance(one, e.OrderSent)}


def three(treasury: TreasuryFacts | None, **said: Any) -> tuple[PlanIndex, RunState]:
    of = course(paid("a"), paid("b"), paid("c"), task("free"), review="none", **said).within(treasury)
    return of, begun(of, at=NOW)


def made(state: RunState, name: str, usd: float) -> e.OrderAnswered:
    one = state.tasks[name]
    assert one.message is not None
    return answered(name, one.attempt, spent=Spent(turns=1, cost_usd=usd), token=one.message.token)


def test_without_a_treasury_everything_starts_as_before() -> None:
    of, state = three(None)
    assert orders(step(of, state)) == {"a": 2.0, "b": 2.0, "c": 2.0, "free": None}


def test_only_what_the_others_leave_is_started_and_commands_go_on() -> None:
    of, state = three(facts(others=5.5))
    events = step(of, state)
    assert orders(events) == {"a": 2.0, "b": 2.0, "free": None}
    (told,) = [one for one in events if isinstance(one, e.TreasuryLimited)]
    assert (told.effect, told.until) == ("waits", NOW + 86_400.0)
    assert told.words == (
        "the treasury's limit of the day leaves too little: 9.50 of 10.00 USD are spent or reserved by all runs; the "
        "day ends at 2024-10-05 00:00 UTC"
    )
    assert describe_money(told) == f"work waits: {told.words}"
    shown = {one.task: one for one in run_standing(of.within(None), state, now=NOW, live=True).tasks}
    assert shown["c"].detail == f"waits: {told.words}" and state.tasks["c"].phase == "pending"
    assert step(of, state) == [], "it is told once"
    follow(state, made(state, "a", 0.5), at=NOW)
    assert orders(step(of, state)) == {"c": 0.5}, "what comes back is given to the next, as 'a' used it"
    assert state.treasury_words == ""


def test_a_hard_limit_parks_nothing_and_work_goes_on_in_the_next_period() -> None:
    of, state = three(facts(others=10.0))
    assert orders(step(of, state)) == {"free": None} and state.count("needs_human") == 0
    tomorrow = TreasuryFacts(current=(LimitStanding(limit=DAY, at=NOW + 86_400.0),))
    assert orders(step(of.within(tomorrow), state, now=NOW + 86_400.0)).keys() == {"a", "b", "c"}


def test_a_run_of_its_own_budget_that_is_used_up_still_asks_for_that() -> None:
    of = course(paid("a"), review="none", budget=Budget(usd=1.0)).within(facts())
    state = begun(of, at=NOW)
    step(of, state)
    failed = made(state, "a", 1.0)
    failed = failed.model_copy(update={"result": failed.result.model_copy(update={"outcome": "verify_failed"})})
    follow(state, failed, at=NOW)
    (parked,) = [one for one in step(of, state) if isinstance(one, e.TaskParked)]
    assert "forgepool budget r-1 --usd USD" in parked.question


def test_what_the_run_used_in_earlier_periods_takes_nothing_of_this_one() -> None:
    of, state = three(None)
    follow(state, *[one for one in decide(of, state, now=NOW - 9e5, order_slots=1, draining=False)], at=NOW - 9e5)
    follow(state, made(state, "a", 500.0), at=NOW - 8e5)
    of = of.within(facts(others=5.5))
    assert orders(step(of, state)) == {"b": 2.0, "c": 2.0, "free": None}


def test_nothing_that_costs_starts_before_all_runs_have_told_what_they_use() -> None:
    of, state = three(facts(is_open=False))
    assert orders(step(of, state)) == {"free": None} and not state.treasury


def test_a_limit_that_asks_parks_what_waits_and_a_retry_lets_the_run_pass_it_in_its_period() -> None:
    of, state = three(facts(DAY.model_copy(update={"at_limit": "ask"}), 10.0))
    events = step(of, state)
    told = [one for one in events if isinstance(one, e.TreasuryLimited) and one.effect == "asks"]
    parked = [one for one in events if isinstance(one, e.TaskParked)]
    assert len(told) == 1 and {one.task for one in parked} == {"a", "b", "c"}
    assert parked[0].why == "budget" and "forgepool retry r-1 a lets this run pass it until then" in parked[0].question
    rows = [row for row in attention(of.within(None), state, Liveness(live=True, now=NOW)) if row.cause == "budget"]
    assert [row.command for row in rows] == [f"forgepool retry r-1 {name}" for name in "abc"]
    said = grant_request(of, state, PersonRequest(do="retry", task="a", by="ada"))
    assert [one.kind for one in said] == ["treasury.limited", "task.retried"]
    follow(state, *said, at=NOW)
    assert orders(step(of, state)) == {"a": 2.0, "b": 2.0, "c": 2.0}, "the others go on with it"
    tomorrow = TreasuryFacts(current=(LimitStanding(limit=DAY, at=NOW + 86_400.0, others=Totals(10 * USD)),))
    assert tomorrow.left(state, review=False).usd == 0.0, "the word was for one period"


def test_a_limit_that_warns_is_told_once_and_holds_nothing_back() -> None:
    of, state = three(facts(DAY.model_copy(update={"at_limit": "warn"}), 10.0))
    events = step(of, state)
    told = [one for one in events if isinstance(one, e.TreasuryLimited)]
    assert [one.effect for one in told] == ["warned"] and "is reached: 16.00 of 10.00 USD" in told[0].words
    assert orders(events) == {"a": 2.0, "b": 2.0, "c": 2.0, "free": None}
    follow(state, made(state, "a", 0.5), at=NOW)
    assert not [one for one in step(of, state) if isinstance(one, e.TreasuryLimited)]


def test_a_limit_that_was_passed_leaves_a_higher_one_as_it_is() -> None:
    asks = DAY.model_copy(update={"at_limit": "ask"})
    both = tuple(LimitStanding(limit=one, at=NOW) for one in (asks, DAY.model_copy(update={"usd": 15.0})))
    of, state = three(TreasuryFacts(current=both))
    passed = e.TreasuryLimited(limit=both[0].name, effect="passed", by="ada")
    follow(state, passed, at=NOW)
    assert of.treasury is not None and of.treasury.left(state, review=False).usd == pytest.approx(15.0, abs=1e-4)


def at_review(treasury: TreasuryFacts) -> tuple[PlanIndex, RunState]:
    of = course(paid("a"), paid("b"), review=PlanReview(policy=ReviewPolicy()))
    state = begun(of, sent("a"), answered("a"), queued("a", reviewed=True), check_sent("a"))
    follow(state, e.CheckAnswered(task="a", result=verdict("a")), awaited("a"))
    return of.within(treasury), state


def test_the_part_kept_for_reviews_is_used_by_reviews_alone() -> None:
    of, state = at_review(facts(others=9.0, kept=0.1))
    events = step(of, state)
    (asked,) = [one for one in events if isinstance(one, e.ReviewSent)]
    assert asked.reserved_usd is not None and 0 < asked.reserved_usd <= 1.0 and not orders(events)


def test_a_review_that_does_not_fit_waits_and_says_so() -> None:
    of, state = at_review(facts(others=9.9, kept=0.1))
    events = step(of, state)
    assert not [one for one in events if isinstance(one, e.ReviewSent | e.TaskParked)]
    shown = {one.task: one for one in run_standing(of.within(None), state, now=NOW, live=True).tasks}
    assert shown["a"].detail.startswith("its review waits: the treasury's limit of the day leaves too little")


@pytest.mark.parametrize("later", [False, True])
def test_an_attempt_gets_more_only_in_the_period_in_which_it_was_sent(later: bool) -> None:
    of = course(paid("a"), review="none", budget=Budget(usd=1.0)).within(facts())
    state = begun(of, at=NOW)
    step(of, state)
    now = NOW + 86_400.0 if later else NOW
    there = of.within(TreasuryFacts(current=(LimitStanding(limit=DAY, at=now),)))
    left = there.treasury.left(state, review=False, task=state.tasks["a"]) if there.treasury else None
    assert left is not None and left.usd == pytest.approx(0.0 if later else 9.0, abs=1e-4)


def test_a_retry_goes_on_only_with_what_waited_for_the_limit() -> None:
    of, state = three(facts(DAY.model_copy(update={"at_limit": "ask"}), 10.0))
    step(of, state)
    waiting = [one for one in state.in_phase("needs_human")]
    waiting[1].detail = "another question"
    said = grant_request(of, state, PersonRequest(do="retry", by="ada"))
    afresh = {one.task: one.afresh for one in said if isinstance(one, e.TaskRetried)}
    assert afresh[waiting[0].id] is False and afresh[waiting[1].id] is True
    changed = grant_request(of, state, PersonRequest(do="retry", task=waiting[0].id, by="ada", begins="fresh"))
    assert [one.afresh for one in changed if isinstance(one, e.TaskRetried)] == [True]


def test_the_limit_with_the_least_amount_left_is_the_one_that_work_meets() -> None:
    month = TreasuryLimit(per="month", usd=100.0, at_limit="ask")
    hard = LimitStanding(limit=DAY, at=NOW, others=Totals(int(9.7 * USD)))
    found = TreasuryFacts(current=(LimitStanding(limit=month, at=NOW, others=Totals(97 * USD)), hard))
    _, state = three(None)
    assert found.find_tightest(state, review=False) == hard


def test_a_halted_run_tells_of_no_limit() -> None:
    of, state = three(facts(others=10.0))
    state.halted = "red"
    assert not [one for one in step(of, state) if isinstance(one, e.TreasuryLimited)]


def test_a_budget_is_compared_with_all_that_the_run_has_used() -> None:
    """A limit of a day knows the use of that day alone."""
    of, state = three(None)
    follow(state, *[one for one in decide(of, state, now=NOW - 9e5, order_slots=1, draining=False)], at=NOW - 9e5)
    follow(state, made(state, "a", 7.0), at=NOW - 8e5)
    less = PersonRequest(do="budget", budget=Budget(usd=6.0))
    assert grant_request(of.within(facts()), state, less) == []
    assert grant_request(of.within(facts()), state, less.model_copy(update={"budget": Budget(usd=9.0)}))


def by_account(asked: AskedAccounts, *used: tuple[TreasuryLimit, float], kept: float = 0.0) -> TreasuryFacts:
    current = (LimitStanding(limit=one, at=NOW, kept=kept, others=Totals(int(usd * USD))) for one, usd in used)
    return TreasuryFacts(current=tuple(current), asked=asked)


IN_TURN = AskedAccounts(orders={name: (("first", "second"),) for name in "ab"} | {"c": (("second",),)})


def owed(state: RunState, *names: str) -> list[Outstanding]:
    return [one for one in state.outstanding().values() if one.task in (names or state.tasks)]


def accounts(events: list[e.Event]) -> dict[str, tuple[str, ...]]:
    return {one.task: one.accounts for one in events if isinstance(one, e.OrderSent)}


def test_an_order_reserves_with_the_first_of_its_accounts_that_has_room() -> None:
    of, state = three(by_account(IN_TURN, (FIRST, 9.0), (SECOND, 0.0)))
    events = step(of, state)
    assert accounts(events) == {"a": ("first",), "b": ("second",), "c": ("second",), "free": ()}
    assert orders(events) == {"a": pytest.approx(1.0, abs=1e-4), "b": 2.0, "c": 2.0, "free": None}
    told = {one.task: order(of, state, state.tasks[one.task], one, now=NOW, resent=False) for one in owed(state)}
    closed = {name: told[name].closed_accounts for name in "abc"}
    assert closed == {"a": ("second",), "b": ("first",), "c": ("first",)}, "they have reserved nothing with those"


def test_an_account_without_a_limit_comes_in_its_turn_and_is_never_closed() -> None:
    of, state = three(by_account(IN_TURN, (FIRST, 10.0)))
    assert accounts(step(of, state)) == {"a": ("second",), "b": ("second",), "c": ("second",), "free": ()}
    assert all(
        order(of, state, state.tasks["a"], one, now=NOW, resent=False).closed_accounts == ("first",)
        for one in owed(state, "a")
    )


def test_tasks_wait_for_the_limit_of_their_accounts_and_those_of_others_go_on() -> None:
    asked = AskedAccounts(orders={"a": (("first",),), "b": (("first",),), "c": (("second",),)})
    of = course(paid("a"), paid("b"), paid("c", type="docs"), review="none").within(by_account(asked, (FIRST, 10.0)))
    one_slot = decide(of, begun(of, at=NOW), now=NOW, order_slots=1, check_slots=0, draining=False)
    assert accounts(one_slot) == {"c": ("second",)}, "who waits for a limit takes no slot"
    state = begun(of, at=NOW)
    events = step(of, state)
    assert accounts(events) == {"c": ("second",)}
    (told,) = [one for one in events if isinstance(one, e.TreasuryLimited)]
    assert told.effect == "waits" and "are spent or reserved by all runs of account first; the day ends" in told.words
    follow(state, e.MessageLost(message_id="r-1.c.1", why="gone"), at=NOW)
    again = step(of, state, now=NOW + 60.0)
    assert accounts(again) == {"c": ("second",)}
    assert not [one for one in again if isinstance(one, e.TreasuryLimited)], "it is told once"
    follow(state, made(state, "c", 1.0), at=NOW)
    step(of, state)
    shown = {one.task: one.detail for one in run_standing(of.within(None), state, now=NOW, live=True).tasks}
    assert shown["a"] == shown["b"] == f"waits: {told.words}" and "treasury" not in shown["c"]
    tomorrow = by_account(asked, (FIRST, 0.0))
    assert accounts(step(of.within(tomorrow), state)) == {"a": ("first",), "b": ("first",)}
    assert not state.treasury, "what waited has gone on"


def test_an_order_takes_what_the_limit_of_its_account_leaves_and_asks_for_more_of_that() -> None:
    of, state = three(by_account(AskedAccounts(orders={"a": (("first",),)}), (FIRST, 9.0)))
    assert orders(step(of, state))["a"] == pytest.approx(1.0, abs=1e-4)
    follow(state, e.MoneyAsked(task="a", attempt=1, kinds=("usd",)), at=NOW)
    assert [one.kind for one in step(of, state)] == ["money.queued"]
    more = by_account(AskedAccounts(orders={"a": (("first",),)}), (FIRST, 8.5))
    (granted,) = step(of.within(more), state)
    assert isinstance(granted, e.MoneyGranted) and granted.reserved_usd == pytest.approx(1.5, abs=1e-4)
    cut = made(state, "a", 1.5)
    follow(state, cut.model_copy(update={"result": cut.result.model_copy(update={"outcome": "limits_spent"})}), at=NOW)
    assert step(of.within(more), state)[0].kind == "budget.awaited", "it costs no attempt"


def test_a_limit_of_an_account_that_asks_parks_only_what_asks_that_account() -> None:
    asks = FIRST.model_copy(update={"at_limit": "ask"})
    asked = AskedAccounts(orders={"a": (("first",),), "b": (("second",),), "c": (("second",),)})
    of, state = three(by_account(asked, (asks, 10.0)))
    events = step(of, state)
    parked = [one for one in events if isinstance(one, e.TaskParked)]
    assert [one.task for one in parked] == ["a"] and "of account first" in parked[0].question
    assert accounts(events) == {"b": ("second",), "c": ("second",), "free": ()}
    follow(state, *grant_request(of, state, PersonRequest(do="retry", task="a", by="ada")), at=NOW)
    assert accounts(step(of, state)) == {"a": ("first",)}


def test_a_review_reserves_with_the_accounts_with_room_of_other_families_than_its_author() -> None:
    reviewers = (("first", "x"), ("second", "y"), ("third", "kin"))
    limits = ((FIRST, 9.5), (SECOND, 10.0), (TreasuryLimit(account="third", per="day", usd=10.0), 0.0))
    of, state = at_review(by_account(AskedAccounts(reviewers=reviewers), *limits, kept=0.1))
    result = state.tasks["a"].result
    assert result is not None
    state.tasks["a"].result = result.model_copy(update={"families": ("kin",)})
    (asked,) = [one for one in step(of, state) if isinstance(one, e.ReviewSent)]
    assert asked.accounts == ("first",) and asked.reserved_usd is not None and 0 < asked.reserved_usd <= 0.5
    (message,) = owed(state, "a")
    told = review_request(of, state, state.tasks["a"], message, now=NOW)
    assert told.closed_accounts == ("second", "third")


def test_a_review_waits_where_none_of_its_accounts_has_room() -> None:
    of, state = at_review(by_account(AskedAccounts(reviewers=(("first", "x"),)), (FIRST, 10.0)))
    events = step(of, state)
    assert not [one for one in events if isinstance(one, e.ReviewSent | e.TaskParked)]
    shown = {one.task: one for one in run_standing(of.within(None), state, now=NOW, live=True).tasks}
    assert shown["a"].detail.startswith("its review waits: the treasury's limit of the day leaves too little")


@pytest.mark.parametrize(
    ("reserved", "models", "used"),
    [
        (("a",), (), ("a",)),
        (("a",), ("one",), ("a",)),
        (("a", "b"), ("one",), ("a",)),
        (("a", "b"), ("one", "two"), ("a", "b")),
        (("a",), ("both",), ("a", "b")),
        (("a",), ("two",), ("b",)),
        (("a", "b"), ("one", "of a program"), ("a", "b")),
        (("cli:claude",), ("one",), ("cli:claude",)),
        ((), ("one",), ()),
    ],
)
def test_the_accounts_that_a_use_may_have_asked_are_those_of_the_models_that_have_answered(
    reserved: tuple[str, ...], models: tuple[str, ...], used: tuple[str, ...]
) -> None:
    offered = {"one": ("a",), "two": ("b",), "both": ("a", "b")}
    assert find_accounts_used(reserved, models, offered) == used


@pytest.mark.parametrize(("waited_s", "why"), [(0.0, "review"), (600.0, "budget")])
def test_a_review_that_waited_for_a_rate_limit_is_not_cut_by_its_limit_of_time(waited_s: float, why: str) -> None:
    of, state = at_review(facts(others=9.0, kept=0.1))
    (asked,) = [one for one in step(of, state) if isinstance(one, e.ReviewSent)]
    long = ReviewPolicy().limits.wall_s + 300.0
    told = {"request_id": asked.message_id, "token": asked.token, "seconds": long, "waited_s": waited_s}
    follow(state, e.ReviewAnswered(task="a", result=review("a", "limits").model_copy(update=told)), at=NOW)
    assert [one.why for one in step(of, state) if isinstance(one, e.TaskParked)] == [why]


def test_a_limit_that_holds_work_back_counts_only_what_reserved_with_its_account() -> None:
    """What did not could not ask it. A limit that warns closes no account, and counts what fell back on it."""
    used = CountedUse(at=NOW, review=False, usd=1.0, tokens=0, accounts=("second",), used=("first", "second"))
    assert [used.counts_for(one) for one in (FIRST, SECOND, DAY)] == [False, True, True]
    assert used.counts_for(FIRST.model_copy(update={"at_limit": "warn"}))
