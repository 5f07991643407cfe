"""The search for the largest green set of hunks, against made-up gates; the real one is in tests/road."""

import random
from collections.abc import Callable

import pytest

from forgepool.orchestrator.launch.salvage.search import PartRelations, Parts, PartsVerdict, find_green

Gate = Callable[[Parts], bool]


def search(gate: Gate, relations: PartRelations, *, blame: Parts = frozenset()) -> tuple[Parts, int]:
    """Return the set that is found, and the number of different questions. The result was asked about, and is green."""
    known: dict[Parts, bool] = {}
    running = find_green(relations)
    try:
        asked = next(running)
        while True:
            green = known.setdefault(asked, gate(asked))
            asked = running.send(PartsVerdict(green=green, blamed=Parts() if green else blame & asked))
    except StopIteration as ended:
        found: Parts = ended.value
    assert not found or known[found]
    return found, len(known)


def unrelated(count: int) -> PartRelations:
    return PartRelations(names=[frozenset()] * count, files=[f"{one}.txt" for one in range(count)])


def without(bad: Parts) -> Gate:
    return lambda asked: asked.isdisjoint(bad)


def test_a_green_whole_is_one_question() -> None:
    assert search(without(frozenset()), unrelated(100)) == (frozenset(range(100)), 1)


def test_nothing_is_green_where_every_part_is_bad() -> None:
    found, _ = search(lambda asked: False, unrelated(5))
    assert found == frozenset()


@pytest.mark.parametrize(("count", "bad", "most"), [(10, 2, 12), (100, 1, 9), (100, 2, 19), (100, 5, 60)])
def test_every_good_part_is_found_with_few_questions(count: int, bad: int, most: int) -> None:
    """About log2(n) questions for each bad part; the most of 200 random places of them."""
    asked = []
    for seed in range(200):
        chosen = frozenset(random.Random(seed).sample(range(count), bad))
        found, questions = search(without(chosen), unrelated(count))
        assert found == frozenset(range(count)) - chosen
        asked.append(questions)
    assert max(asked) <= most


def test_parts_that_need_each_other_stay_together() -> None:
    """Eight uses of a new name in a change of forty parts are red without each other, and one other part is bad."""
    uses = frozenset(range(2, 40, 5))
    names = [frozenset([b"renamed"]) if one in uses else frozenset[bytes]() for one in range(40)]
    relations = PartRelations(names=names, files=[f"{one}.txt" for one in range(40)])
    found, questions = search(lambda asked: 20 not in asked and uses & asked in (uses, frozenset()), relations)
    assert found == frozenset(range(40)) - {20}
    assert questions <= 25


def test_hunks_of_one_file_are_tried_together_at_the_end() -> None:
    """They need each other and share no name, so halving calls each of them bad."""
    relations = PartRelations(names=[frozenset()] * 9, files=["a.txt"] * 3 + [f"{one}.txt" for one in range(6)])
    pair = frozenset([0, 2])
    found, _ = search(lambda asked: 5 not in asked and asked & pair in (pair, frozenset()), relations)
    assert found == frozenset(range(9)) - {5}


def test_a_part_that_needs_a_later_one_is_added_at_the_end() -> None:
    found, _ = search(lambda asked: 7 not in asked and (0 not in asked or 9 in asked), unrelated(10))
    assert found == frozenset(range(10)) - {7}


def test_parts_that_the_gate_names_cost_one_question_together() -> None:
    bad = frozenset([3, 44, 71])
    found, questions = search(without(bad), unrelated(100), blame=bad)
    assert found == frozenset(range(100)) - bad
    assert questions == 2 + len(bad)


def test_no_left_out_part_can_be_added_alone() -> None:
    """Also to gates for which a set says nothing about another one."""
    for seed in range(100):
        chance = random.Random(seed)
        red = [frozenset(chance.sample(range(12), chance.randint(1, 3))) for _ in range(4)]

        def gate(asked: Parts, red: list[Parts] = red) -> bool:
            return not any(one <= asked for one in red)

        found, _ = search(gate, unrelated(12))
        assert gate(found) and not any(gate(found | {one}) for one in frozenset(range(12)) - found)
