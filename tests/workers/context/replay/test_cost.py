"""The price of a request follows exactly from what earlier requests left in the cache."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.workers.context.replay.cost import ANTHROPIC, Block, Cashier, Prices, ReplayBill, total


def blocks(*keys: int, mark: int | None = None) -> list[Block]:
    """Return blocks of 40 characters, or ten tokens, each."""
    return [Block(key, 40, mark=key == mark) for key in keys]


def ask(cashier: Cashier, found: Sequence[Block], output_characters: int = 0) -> tuple[float, float, float]:
    """Return what this request alone was charged: fresh, written and cached."""
    before = (cashier.bill.fresh, cashier.bill.written, cashier.bill.cached)
    cashier.begin()
    for block in found:
        cashier.add(block)
    cashier.ask(output_characters)
    after = (cashier.bill.fresh, cashier.bill.written, cashier.bill.cached)
    return tuple(new - old for new, old in zip(after, before, strict=True))  # type: ignore[return-value]  # three


def test_a_longer_request_reads_the_one_before_and_writes_the_rest() -> None:
    cashier = Cashier(system_characters=400)
    assert ask(cashier, blocks(1, 2), 80) == (0, 120, 0)
    assert ask(cashier, blocks(1, 2, 3, 4), 80) == (0, 20, 120)
    assert (cashier.bill.calls, cashier.bill.output) == (2, 40)
    assert (cashier.bill.peak, cashier.bill.mean) == (140, 130)


def test_a_change_in_the_middle_reads_no_further_than_an_earlier_request_ended() -> None:
    """The third block is unchanged, but no earlier request ended after it."""
    cashier = Cashier(system_characters=400)
    ask(cashier, blocks(1, 2))
    ask(cashier, blocks(1, 2, 3, 4))
    assert ask(cashier, blocks(1, 2, 3, 9, 5)) == (0, 30, 120)


def test_a_mark_is_read_up_to_where_no_request_has_ended() -> None:
    cashier = Cashier(system_characters=400)
    ask(cashier, blocks(1, 2, 3, mark=2))
    assert ask(cashier, blocks(1, 2, 9)) == (0, 10, 120)


def test_of_a_request_without_marks_nothing_but_the_whole_is_read() -> None:
    cashier = Cashier(system_characters=400)
    ask(cashier, blocks(1, 2, 3))
    assert ask(cashier, blocks(1, 2, 9)) == (0, 30, 100)


def test_an_automatic_cache_reads_every_common_beginning() -> None:
    cashier = Cashier(system_characters=400, automatic=True)
    ask(cashier, blocks(1, 2, 3))
    assert ask(cashier, blocks(1, 2, 9)) == (0, 10, 120)


def test_a_prefix_moved_by_one_block_is_another_prefix() -> None:
    cashier = Cashier(system_characters=0, automatic=True)
    ask(cashier, blocks(1, 2, 3))
    assert ask(cashier, blocks(9, 1, 2, 3)) == (0, 40, 0)


def test_without_a_cache_for_messages_each_request_is_fresh_but_for_the_system_prompt() -> None:
    cashier = Cashier(system_characters=400, messages_cached=False)
    assert ask(cashier, blocks(1, 2)) == (20, 100, 0)
    assert ask(cashier, blocks(1, 2, 3)) == (30, 0, 100)


def test_what_the_cache_forgot_is_written_again_and_then_read() -> None:
    cashier = Cashier(system_characters=400)
    ask(cashier, blocks(1, 2))
    cashier.forget()
    assert ask(cashier, blocks(1, 2)) == (0, 120, 0)
    assert ask(cashier, blocks(1, 2)) == (0, 0, 120)


def test_a_question_on_the_live_prefix_reads_what_is_held_and_holds_nothing_new() -> None:
    cashier = Cashier(system_characters=400)
    ask(cashier, blocks(1, 2))
    cashier.begin()
    for block in blocks(1, 2, 3):
        cashier.add(block)
    cashier.aside(live=True, characters=80, output_characters=40)
    assert (cashier.bill.cached, cashier.bill.fresh, cashier.bill.output) == (120, 10 + 20, 10)
    cashier.ask(0)
    assert (cashier.bill.written, cashier.bill.calls) == (120 + 10, 2)


def test_a_question_with_a_text_of_its_own_is_fresh() -> None:
    cashier = Cashier(system_characters=400)
    ask(cashier, blocks(1, 2))
    cashier.aside(live=False, characters=800, output_characters=40)
    assert (cashier.bill.cached, cashier.bill.fresh, cashier.bill.output) == (0, 200, 10)


def test_prices_are_per_million() -> None:
    bill = ReplayBill(fresh=1e6, written=2e6, cached=3e6, output=4e6)
    prices = Prices(name="own", fresh=1.0, written=10.0, cached=100.0, output=1000.0)
    assert bill.cost_usd(prices) == pytest.approx(1 + 20 + 300 + 4000)
    shares = [
        ANTHROPIC.written / ANTHROPIC.fresh,
        ANTHROPIC.cached / ANTHROPIC.fresh,
        ANTHROPIC.output / ANTHROPIC.fresh,
    ]
    assert shares == pytest.approx([1.25, 0.1, 5.0])


def test_bills_are_added_up_and_peaks_averaged() -> None:
    bills = [
        ReplayBill(cached=9, written=1, calls=2, prompts=10, peak=8),
        ReplayBill(fresh=10, calls=3, prompts=30, peak=12),
    ]
    found = total(bills)
    assert (found.cached, found.written, found.fresh, found.calls, found.prompts) == (9, 1, 10, 5, 40)
    assert (found.peak, found.mean, found.hit_rate) == (10, 8, 9 / 20)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), automatic=st.booleans())
def test_each_request_reads_the_longest_prefix_that_is_held(seed: int, automatic: bool) -> None:
    """The result is compared with the definition, on randomly changed requests."""
    chance = random.Random(seed)
    cashier, held, request = Cashier(system_characters=0, automatic=automatic), set[tuple[int, ...]](), [1]
    for _ in range(12):
        if chance.random() < 0.4:
            request[chance.randrange(len(request))] = chance.randrange(5)
        request += [chance.randrange(5) for _ in range(chance.randrange(3))]
        marked = chance.randrange(len(request))
        ends = [cut for cut in range(1, len(request) + 1) if tuple(request[:cut]) in held]
        found = [Block(key, 40, mark=place == marked) for place, key in enumerate(request)]
        assert ask(cashier, found)[2] == 10 * max(ends, default=0)
        held |= {tuple(request), tuple(request[: marked + 1])}
        if automatic:
            held |= {tuple(request[:cut]) for cut in range(1, len(request))}
