"""
What an attempt carries over from earlier ones is reported separately from its own use and does not raise its limits.
"""

from premade import order

from forgepool.workers.context.transcript.entries import ConversationStarted, Entry, Resumed, TurnSaid
from forgepool.workers.llm.messages import Text, Turn, Usage
from forgepool.workers.schema.orders import Limits, Spent
from forgepool.workers.workspace.resume import limits_with, sum_carried_in

BEGINS = ConversationStarted(at=1.0, order_id="night.rename.1", model="m", system=(), tools=())
GOES_ON = Resumed(at=2.0, order_id="night.rename.2", lost=Spent(input_tokens=7))


def said(tokens: int) -> TurnSaid:
    turn = Turn(role="assistant", parts=(Text(text="t"),), usage=Usage(input_tokens=tokens, cost_usd=0.25))
    return TurnSaid(at=1.0, turn=turn)


ENTRIES: list[Entry] = [BEGINS, said(30), GOES_ON, said(5)]


def test_an_attempt_of_its_own_carries_nothing_over() -> None:
    assert sum_carried_in([BEGINS, said(30)], attempt=1) == Spent()


def test_turns_lost_to_the_hub_are_carried_over_with_those_that_were_kept() -> None:
    carried = sum_carried_in(ENTRIES, attempt=2)
    assert (carried.input_tokens, carried.cost_usd) == (37, 0.25)


def test_who_finds_less_than_its_limits_allow_for_may_not_use_that_besides() -> None:
    limits = Limits(tokens=1000, cost_usd=2.0)
    two = order(order_id="night.rename.2", attempt=2, limits=limits, carried=Spent(input_tokens=137, cost_usd=0.75))
    assert (limits_with(two, ENTRIES).tokens, limits_with(two, ENTRIES).cost_usd) == (900, 1.5)
    assert (limits_with(two, []).tokens, limits_with(two, []).cost_usd) == (863, 1.25)


def test_who_finds_more_keeps_its_limits_and_one_without_has_none() -> None:
    two = order(order_id="night.rename.2", attempt=2, limits=Limits(), carried=Spent(input_tokens=3, cost_usd=0.1))
    assert limits_with(two, ENTRIES) == Limits()
