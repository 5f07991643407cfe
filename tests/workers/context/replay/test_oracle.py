"""The oracle loses nothing, and no schedule of such events is cheaper."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import Tape, random_tape

from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.replay import comparison
from forgepool.workers.context.replay.comparison import SIZES, floor, oracle
from forgepool.workers.context.replay.cost import ANTHROPIC, OPENAI, Block, Cashier, Prices
from forgepool.workers.context.replay.needs import find_lost, needs, words
from forgepool.workers.context.replay.recording import Recording
from forgepool.workers.context.replay.simulation import ReplayTerms, simulate
from forgepool.workers.context.transcript.usage import length

NOTHING: frozenset[str] = frozenset()


def append_usd(recording: Recording, prices: Prices) -> float:
    return simulate(recording, {}, Off(), ReplayTerms(prices=prices)).bill.cost_usd(prices)


@settings(max_examples=40)
@given(seed=st.integers(0, 100_000), prices=st.sampled_from([ANTHROPIC, OPENAI]))
def test_floor_below_oracle_below_append_only(seed: int, prices: Prices) -> None:
    recording = random_tape(seed, 16)
    wanted = needs(recording.turns, NOTHING)
    usd = {
        (bound.__name__, inputs): bound(recording, wanted, prices, inputs=inputs).bill.cost_usd(prices)
        for bound in (floor, oracle)
        for inputs in (False, True)
    }
    small = 1e-9
    assert usd["floor", False] <= usd["oracle", False] + small
    assert usd["oracle", False] <= append_usd(recording, prices) + small
    assert usd["floor", True] <= usd["floor", False] + small
    assert usd["floor", True] <= usd["oracle", True] + small


@settings(max_examples=40)
@given(seed=st.integers(0, 100_000), inputs=st.booleans())
def test_what_is_not_dead_shows_all_that_is_needed(seed: int, inputs: bool) -> None:
    recording = random_tape(seed, 16)
    wanted = needs(recording.turns, NOTHING)
    life = comparison._life(recording, wanted, inputs=inputs)
    parts = [part for turn in recording.turns for part in turn.parts]
    places = [place for place, turn in enumerate(recording.turns) if turn.role == "assistant"]
    for call, place in enumerate(places):
        alive = [words(part) for part, piece in zip(parts, life.pieces, strict=True) if piece.born <= call < piece.dead]
        if place in wanted:
            assert not find_lost(wanted[place], alive).any


def test_what_nobody_needs_again_is_dead_after_the_call_that_follows_it() -> None:
    tape = Tape()
    tape.read("a", "def renewal(): pass")
    tape.read("b", "never_named_again = 1")
    tape.call("grep", {"pattern": "renewal"}, "")
    tape.say("done")
    recording = tape.recording
    life = comparison._life(recording, needs(recording.turns, NOTHING), inputs=False)
    results = [piece for piece in life.pieces if piece.dead != float("inf")]
    assert [(piece.born, piece.dead) for piece in results] == [(1, 3), (2, 3), (3, 4)]


def test_what_something_else_still_shows_keeps_nothing_alive() -> None:
    tape = Tape(task="mend expire")
    tape.read("a", "def expire(): pass")
    tape.read("b", "")
    tape.call("grep", {"pattern": "expire"}, "")
    recording = tape.recording
    life = comparison._life(recording, needs(recording.turns, NOTHING), inputs=False)
    assert next(piece for piece in life.pieces if piece.dead != float("inf")).dead == 2


def test_inputs_may_go_where_they_are_large() -> None:
    tape = Tape()
    tape.call("write_file", {"path": "a", "content": "x" * 4_000}, "OK")
    for _ in range(40):
        tape.read("b", "")
    recording = tape.recording
    without, with_inputs = (floor(recording, {}, ANTHROPIC, inputs=inputs).bill.cached for inputs in (False, True))
    assert without - with_inputs == pytest.approx(39 * length(recording.turns[1].parts[0]) / 4)


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), inputs=st.booleans(), prices=st.sampled_from([ANTHROPIC, OPENAI]))
def test_no_schedule_is_cheaper(seed: int, inputs: bool, prices: Prices) -> None:
    """All schedules are priced with a mark on every block."""
    recording = random_tape(seed, 7)
    wanted = needs(recording.turns, NOTHING)
    life = comparison._life(recording, wanted, inputs=inputs)
    calls = len(life.outputs)
    cheapest = min(
        _paid(recording, life, set(events), size, prices)
        for size in SIZES
        for count in range(calls)
        for events in combinations(range(1, calls), count)
    )
    found = oracle(recording, wanted, prices, inputs=inputs)
    assert found.bill.cost_usd(prices) == pytest.approx(cheapest)


def _paid(recording: Recording, life: "comparison._Life", events: set[int], size: float, prices: Prices) -> float:
    cashier = Cashier(system_characters=len(recording.system), automatic=True)
    gone: set[int] = set()
    for call, output in enumerate(life.outputs):
        if call in events:
            gone |= {at for at, piece in enumerate(life.pieces) if piece.dead <= call and piece.tokens >= size}
        cashier.begin()
        for at, piece in enumerate(life.pieces):
            if piece.born <= call and at not in gone:
                cashier.add(Block(at, int(piece.tokens * 4)))
        cashier.ask(int(output * 4))
    return cashier.bill.cost_usd(prices)


def test_long_recordings_are_looked_at_more_coarsely_and_stay_below_append_only() -> None:
    tape = Tape()
    for number in range(900):
        tape.read(f"f{number}", f"text_of_{number} " * 40)
    recording = tape.recording
    found = oracle(recording, needs(recording.turns, NOTHING), ANTHROPIC, inputs=False)
    assert found.bill.cost_usd(ANTHROPIC) < 0.5 * append_usd(recording, ANTHROPIC)
