"""Tasks whose models may not be asked for now stay pending, are told with the time, and start one by one after it."""

from dataclasses import replace
from pathlib import Path

import pytest
from plans import begun, course, follow, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.shut_models import AskedModels, ModelLimits, find_asked
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import Event, ModelsShut, OrderSent
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.host_text import clock
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.fleet import AccountFinder, AccountWatch
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.breaker import Breaker
from forgepool.workers.llm.routing.pace import AccountPace, PacedCall
from forgepool.workers.queue.broker import ORDERS, REVIEWS, Redis
from forgepool.workers.queue.leases import HostFacts, Present
from forgepool.workers.schema.orders import AcpAgent, BuiltinAgent, CliAgent

PAID = course(
    *(task(f"t{at}", files=(f"f{at}",), agent=BuiltinAgent()) for at in range(20)),
    task("plain", files=("p",)),
    task("named", files=("n",), agent=BuiltinAgent(model="gpt")),
)
CODE = find_asked(PAID.tasks["t0"])
assert CODE is not None
NOW, END = 1_000.0, 5_000.0


def ask(of: PlanIndex, state: RunState, limits: ModelLimits | None, now: float = NOW) -> list[Event]:
    """Return what is decided until nothing more is."""
    every: list[Event] = []
    while events := decide(of, state, now=now, order_slots=100, check_slots=0, draining=False, limits=limits):
        every += events
        follow(state, *events, at=now)
    return every


def orders(events: list[Event]) -> list[str]:
    return [event.task for event in events if isinstance(event, OrderSent)]


def test_tasks_of_models_that_are_shut_stay_pending_and_the_others_start() -> None:
    state = begun(PAID)
    decided = ask(PAID, state, {CODE: END})
    assert orders(decided) == ["plain", "named"]
    (told,) = (event for event in decided if isinstance(event, ModelsShut))
    assert told.tasks == {"t0": END}
    assert sentence(told) == (
        f"tasks such as 't0' wait until {clock(END, NOW)}: none of their models may be asked before"
    )
    assert state.tasks["t0"].phase == "pending" and state.tasks["t0"].charged == 0
    shown = {one.task: one for one in standing(PAID, state, now=NOW, live=True).tasks}
    assert (shown["t7"].phase, shown["t7"].detail) == (
        "pending",
        f"waits until {clock(END, NOW)} for the model's rate limit",
    )


def test_it_is_told_once_and_again_only_when_the_time_changes() -> None:
    state = begun(PAID)
    ask(PAID, state, {CODE: END})
    assert ask(PAID, state, {CODE: END + 0.5}, NOW + 10) == []
    assert ask(PAID, state, {CODE: END + 900}, NOW + 20) == [ModelsShut(tasks={"t0": END + 900}, at=NOW + 20)]


def test_a_short_limit_holds_nothing_and_a_long_one_holds_to_its_end() -> None:
    state = begun(PAID)
    ask(PAID, state, {CODE: END})
    assert ask(PAID, state, {CODE: END}, END - 5) == []
    assert len(orders(ask(PAID, begun(PAID), {CODE: NOW + 30}))) == 22


def test_after_the_limit_orders_start_one_by_one_and_then_faster() -> None:
    state = begun(PAID)
    ask(PAID, state, {CODE: END})
    started = [len(orders(ask(PAID, state, {}, END + seconds))) for seconds in (0, 1, 5, 10, 15, 60)]
    assert started == [1, 0, 1, 2, 4, 12]


def test_a_limit_that_is_gone_before_its_end_holds_nothing() -> None:
    state = begun(PAID)
    ask(PAID, state, {CODE: END})
    decided = ask(PAID, state, {}, NOW + 1)
    assert decided[0] == ModelsShut(tasks={}, at=NOW + 1) and len(orders(decided)) == 20
    assert sentence(decided[0]) == "models may be asked again for all waiting tasks"


def test_where_nothing_is_known_of_limits_orders_are_those_of_before() -> None:
    assert orders(ask(PAID, begun(PAID), None)) == orders(ask(PAID, begun(PAID), {}))
    assert len(orders(ask(PAID, begun(PAID), {}))) == 22


def test_what_a_task_asks_is_known_of_models_and_programs() -> None:
    assert find_asked(task("a")) is None
    assert find_asked(task("a", agent=AcpAgent(run="gemini --acp"))) is None
    assert find_asked(task("a", agent=CliAgent(program="claude"))) == AskedModels(program="claude", names=(None,))
    named = BuiltinAgent(model="x", models={"plan": "y"})
    assert find_asked(task("a", type="docs", agent=named)) == AskedModels(task_type="docs", names=("y", "x"))


TABLE = """
accounts:
  first: {wire: anthropic, key: FIRST_KEY}
  second: {wire: openai-chat, key: SECOND_KEY}
models:
  one: {account: first, family: a, window_tokens: 1000}
  two: {account: second, family: b, window_tokens: 1000}
routes:
  code: {primary: one, then: [two], reason: a test, source: here, date: '2026-11-01'}
budget: one
"""
PLAN = course(task("a", agent=BuiltinAgent()), task("c", agent=CliAgent(program="claude"))).plan
BUILTIN, CLAUDE = AskedModels(task_type="code", names=(None,)), AskedModels(program="claude", names=(None,))


def host(*keys: str) -> Present:
    can = tuple(f"key {name}" for name in keys)
    return Present(host="h", queues=(ORDERS,), concurrency=1, pid=1, since=0.0, protocol=1, facts=HostFacts(can=can))


@pytest.fixture
def watch(tmp_path: Path, redis: Redis) -> AccountWatch:
    (tmp_path / "models.yaml").write_text(TABLE)
    return AccountWatch(client=redis, models_file=tmp_path / "models.yaml")


def shut(redis: Redis, account: str, until: float) -> None:
    failure = ModelFailed("no more", trouble="usage_limit", resets_at=until)
    Breaker(client=redis).note((account, "any"), failure)


def test_a_task_is_shut_until_the_first_of_the_accounts_with_a_key_is_open(watch: AccountWatch, redis: Redis) -> None:
    now = redis.time()[0]
    shut(redis, "first", now + 900)
    both = watch.look(PLAN, [host("FIRST_KEY", "SECOND_KEY")], now)
    assert both == {}, "the other account has no limit"
    watch._looked = 0.0
    assert watch.look(PLAN, [host("FIRST_KEY")], now) == {BUILTIN: now + 900}
    shut(redis, "second", now + 600)
    watch._looked = 0.0
    assert watch.look(PLAN, [host("FIRST_KEY", "SECOND_KEY")], now) == {BUILTIN: now + 600}
    shut(redis, "cli:claude", now + 300)
    watch._looked = 0.0
    assert watch.look(PLAN, [host("FIRST_KEY", "SECOND_KEY")], now)[CLAUDE] == now + 300


def test_a_pause_after_a_refusal_counts_and_an_empty_redis_knows_nothing(watch: AccountWatch, redis: Redis) -> None:
    now = redis.time()[0]
    assert watch.look(PLAN, [host("FIRST_KEY")], now) == {}
    pace = AccountPace(breaker=Breaker(client=redis), run="other")
    wanted = PacedCall(model="one", input_tokens=1, most_output=1, counts_cached=True)
    pace.ask("first", wanted)
    pace.settle("first", wanted, "refused", Usage(), ModelFailed("x", trouble="rate_limit", retry_after_s=120.0))
    watch._looked = 0.0
    assert watch.look(PLAN, [host("FIRST_KEY")], now)[BUILTIN] == pytest.approx(now + 120, abs=3)


def test_no_host_with_a_key_is_no_limit(watch: AccountWatch, redis: Redis) -> None:
    """A host is missing there, and no model is shut off."""
    now = redis.time()[0]
    shut(redis, "first", now + 900)
    assert watch.look(PLAN, [host()], now) == {}
    watch._looked, plan = 0.0, course(task("a", agent=BuiltinAgent())).plan
    assert watch.look(plan, [host()], now) == {}, "no account is left to ask about"


def test_the_accounts_of_a_task_are_those_with_a_key_in_the_order_of_its_models(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(TABLE)
    finder = AccountFinder(models_file=tmp_path / "models.yaml")
    named = BuiltinAgent(model="two", models={"plan": "one"})
    of = course(*PAID.plan.tasks[:1], task("b", agent=named), task("c", agent=CliAgent(program="claude")), task("d"))
    found = finder.find(of, [host("FIRST_KEY", "SECOND_KEY")])
    both = ("first", "second")
    assert found.orders == {"t0": (both,), "b": (both, both[::-1]), "c": (("cli:claude",),)}
    assert found.offered["one"] == ("first",)
    racing = task("r", agent=BuiltinAgent(model="one"), ladder=("one", "two"), attempts=2, race=True)
    raced = finder.find(replace(course(racing), racing=frozenset("r")), [host("FIRST_KEY", "SECOND_KEY")])
    assert (raced.orders, raced.beside) == ({"r": (both,)}, {"r": (both[::-1],)})
    assert finder.find(of, [host("SECOND_KEY")]).orders["t0"] == (("second",),)


def test_the_accounts_of_reviewers_are_those_of_the_models_that_the_plan_names(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(TABLE)
    finder = AccountFinder(models_file=tmp_path / "models.yaml")
    reviewer = host("SECOND_KEY").model_copy(update={"queues": (REVIEWS,)})
    of = course(task("a"), review=PlanReview(policy=ReviewPolicy(by=("two", "one"))))
    assert finder.find(of, [reviewer]).reviewers == (("second", "b"),)
    assert (
        finder.find(course(task("a"), review=PlanReview(policy=ReviewPolicy(script="x"))), [reviewer]).reviewers == ()
    )
