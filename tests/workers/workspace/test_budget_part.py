"""An attempt gets more of the run's budget while it is under way, whatever Redis loses."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from forgepool.workers.context.transcript.usage import Meter, Shortage
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.replies import MoneyAnswer, MoneyRequest, read, reply_money
from forgepool.workers.schema.orders import BuiltinAgent, Limits, Spent, WorkOrder
from forgepool.workers.workspace.budget_part import BudgetPart

ORDER = WorkOrder(
    order_id="r.a.1",
    token="t",
    run="r",
    task="a",
    attempt=1,
    hub="/hub",
    target="t",
    base="b",
    title="a",
    agent=BuiltinAgent(),
    limits=Limits(cost_usd=1.0),
    shared=("usd",),
    issued_at=1.0,
    start_by=2.0,
)
Reply = Callable[[MoneyRequest], MoneyAnswer | None]


def price(given: int, answered: int) -> float:
    return (3 * given + 15 * answered) / 1e6


REQUEST = ModelRequest(system=("x" * 3000,), tools=(), turns=(), phase="execute")


@pytest.fixture
def part(redis_url: str) -> BudgetPart:
    ends_at = time.monotonic() + 20
    return BudgetPart(
        order=ORDER,
        broker_url=redis_url,
        stop=lambda: False,
        left_s=lambda: ends_at - time.monotonic(),
        known=ORDER.limits,
    )


@pytest.fixture
def run(redis: Redis) -> Iterator[Callable[[Reply], list[MoneyRequest]]]:
    """Answer requests as a run does, and return those that have come."""
    done, threads = threading.Event(), list[threading.Thread]()

    def go(reply: Reply) -> list[MoneyRequest]:
        asked: list[MoneyRequest] = []

        def serve() -> None:
            after = "0-0"
            while not done.is_set():
                for entry, text in read(redis, "r", after=after, wait_s=0.05):
                    after = entry
                    request = MoneyRequest.model_validate_json(text)
                    asked.append(request)
                    if (answer := reply(request)) is not None:
                        reply_money(redis, request.order_id, answer)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return asked

    yield go
    done.set()
    for thread in threads:
        thread.join()


def test_an_attempt_asks_at_four_fifths_and_goes_on_meanwhile(
    part: BudgetPart, run: Callable[[Reply], list[MoneyRequest]]
) -> None:
    asked = run(lambda request: MoneyAnswer(verdict="granted", usd=1.5))
    meter = Meter(limits=ORDER.limits, spent=Spent(cost_usd=0.79), part=part)
    meter.room(REQUEST, price)
    assert asked == [] and meter.limits.cost_usd == 1.0
    meter.spent = Spent(cost_usd=0.8)
    until = time.monotonic() + 10
    while meter.limits.cost_usd == 1.0 and time.monotonic() < until:
        meter.room(REQUEST, price)
    assert meter.limits.cost_usd == 1.5
    assert asked[0] == MoneyRequest(order_id="r.a.1", token="t", kinds=("usd",), has_usd=1.0)
    assert meter.find_near(3600.0) is None, "it may grow on"


def test_an_attempt_that_can_make_no_call_waits_for_the_answer(
    part: BudgetPart, run: Callable[[Reply], list[MoneyRequest]]
) -> None:
    asked = run(lambda request: MoneyAnswer(verdict="granted", usd=1.2))
    meter = Meter(limits=ORDER.limits, spent=Spent(cost_usd=0.995), part=part)
    room = meter.room(REQUEST, price)
    assert isinstance(room, int) and room > 512
    assert asked[-1].needs_usd == pytest.approx(price(1001, 513) - 0.005, abs=1e-4)


def test_a_request_that_is_lost_is_repeated(part: BudgetPart, run: Callable[[Reply], list[MoneyRequest]]) -> None:
    answers = iter([None, MoneyAnswer(verdict="granted", usd=2.0)])
    asked = run(lambda request: next(answers))
    meter = Meter(limits=ORDER.limits, spent=Spent(cost_usd=1.0), part=part)
    assert isinstance(meter.room(REQUEST, price), int)
    assert len(asked) == 2 and asked[0] == asked[1]


def test_an_attempt_ends_where_nothing_is_left_and_is_told_of_its_limit(
    part: BudgetPart, run: Callable[[Reply], list[MoneyRequest]], redis: Redis
) -> None:
    """An older answer to a smaller request ends nothing."""
    reply_money(redis, "r.a.1", MoneyAnswer(verdict="queued", usd=1.0))
    run(lambda one: MoneyAnswer(verdict="queued", usd=1.0, needs_usd=one.needs_usd, needs_tokens=one.needs_tokens))
    meter = Meter(limits=ORDER.limits, spent=Spent(cost_usd=0.999), part=part)
    assert meter.room(REQUEST, price) == "the agent used its 1 USD without finishing"
    assert meter.find_near(3600.0) == "99 % of your 1 USD are used"


def test_what_a_resumed_attempt_does_not_find_stays_taken_from_what_it_is_granted(
    part: BudgetPart, run: Callable[[Reply], list[MoneyRequest]]
) -> None:
    run(lambda request: MoneyAnswer(verdict="granted", usd=1.5))
    meter = Meter(limits=Limits(cost_usd=0.7), spent=Spent(cost_usd=0.7), part=part)
    meter.room(REQUEST, price)
    assert meter.limits.cost_usd == pytest.approx(1.2)


def test_no_one_waits_without_a_redis(part: BudgetPart) -> None:
    part.broker_url = "redis://127.0.0.1:1/0"
    assert part.grow(ORDER.limits, Spent(cost_usd=1.0), Shortage(kinds=("usd",), usd=0.1)) == ORDER.limits


def test_models_without_a_known_price_do_not_count_against_the_default_limit() -> None:
    meter = Meter(limits=Limits(), priced_usd=10.0)
    assert meter.room(REQUEST, lambda given, answered: None) is None
    meter.spent = Spent(cost_usd=None)
    assert meter.room(REQUEST, price) is None
    meter.spent = Spent(cost_usd=9.999)
    assert meter.room(REQUEST, price) == "the agent used its 10 USD without finishing"
