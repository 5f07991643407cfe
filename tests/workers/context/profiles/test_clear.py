"""`clear` removes the oldest results in batches for good, and `off` removes nothing."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import ROUNDS, Round, Talk, endure, ran, read

from forgepool.workers.context.edits.state import Cause
from forgepool.workers.context.profiles.comparators import CLEARED, Clear
from forgepool.workers.context.profiles.registry import Off


def talk(results: int, characters: int = 4_000) -> Talk:
    made = Talk()
    for number in range(results):
        made.model(ran(f"step {number}", str(number % 10) * characters))
    return made


def test_defaults_are_the_published_ones() -> None:
    """The trigger is 100,000 tokens, and three results stay."""
    assert (Clear().trigger_tokens, Clear().keep) == (100_000, 3)


def test_all_but_the_newest_results_are_cleared() -> None:
    """They get one text, and nothing else changes."""
    made = talk(8)
    proposal = made.ask(Clear(trigger_tokens=5_000, at_least_tokens=1_000))
    assert proposal is not None
    made.put_in_force(proposal)
    assert [made.result(step) == CLEARED for step in range(1, 9)] == [True] * 5 + [False] * 3
    assert (made.edit.cut, made.edit.head, made.edit.inputs) == (1, (), {})


def test_nothing_is_cleared_up_to_the_trigger() -> None:
    """The whole request counts: 8 results of 1,000 tokens and their calls."""
    made = talk(8)
    tokens = made.size() // 4
    assert made.ask(Clear(trigger_tokens=tokens, at_least_tokens=1)) is None
    assert made.ask(Clear(trigger_tokens=tokens - 1, at_least_tokens=1)) is not None


def test_nothing_is_cleared_where_it_would_free_too_little() -> None:
    """Five results of 1,000 tokens minus their placeholders count."""
    made = talk(8)
    freed = 5 * (4_000 - len(CLEARED)) // 4
    assert made.ask(Clear(trigger_tokens=1, at_least_tokens=freed + 1)) is None
    assert made.ask(Clear(trigger_tokens=1, at_least_tokens=freed)) is not None


def test_what_was_cleared_is_neither_restored_nor_counted_again() -> None:
    """The next batch waits until it is large enough."""
    clear = Clear(trigger_tokens=1, at_least_tokens=3_000)
    made = talk(8)
    proposal = made.ask(clear)
    assert proposal is not None
    made.put_in_force(proposal)
    for number in range(4):
        assert made.ask(clear) is None, number
        made.model(ran(f"later {number}", "z" * 4_000))
    proposal = made.ask(clear)
    assert proposal is not None
    assert set(proposal.edit.results) == set(range(1, 10))


def test_a_result_the_model_has_not_seen_is_never_cleared() -> None:
    """This holds however many arrive at once, and however few are kept."""
    made = talk(2)
    made.model(*(read(f"{number}.py", "y" * 4_000) for number in range(6)))
    proposal = made.ask(Clear(trigger_tokens=1, keep=0, at_least_tokens=1))
    assert proposal is not None
    assert set(proposal.edit.results) == {1, 2}


def test_short_results_do_not_grow() -> None:
    """A result shorter than its placeholder stays."""
    made = talk(6, characters=len(CLEARED))
    assert made.ask(Clear(trigger_tokens=1, at_least_tokens=0)) is None


@settings(max_examples=300)
@given(ROUNDS, st.integers(0, 4), st.sampled_from([0, 200]))
def test_every_view_is_whole(rounds: Sequence[Round], keep: int, at_least: int) -> None:
    """This holds for any conversation at any time, however often it was cleared."""
    endure(Clear(trigger_tokens=500, keep=keep, at_least_tokens=at_least), rounds, window_tokens=3_000)


@pytest.mark.parametrize("cause", ["call", "cold", "red", "overflow", "switch", "wish"])
def test_off_changes_nothing_whatever_happens(cause: Cause) -> None:
    """This holds even if the conversation no longer fits."""
    assert talk(40).ask(Off(), cause) is None
