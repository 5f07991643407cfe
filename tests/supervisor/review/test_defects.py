"""Planted defects and their honest twins: proofs that they differ, and what scripted reviewers find in them."""

from collections.abc import Iterator

import pytest
from defects import PAIRS, Case, Pair, Player, cases
from review_kit import COMMAND, Desk, several

from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import ReviewPolicy

BLIND = Player(family="left", blind=("race", "border"), ghosts=("leak",))
OTHER = Player(family="right", blind=("injection",), ghosts=())
CASES = {case.name: case for case in cases()}


def proven(pair: Pair, code: str) -> bool:
    names: dict[str, object] = {}
    exec(code, names)
    try:
        exec(pair.proof, names)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.kind)
def test_a_planted_defect_is_one_and_its_twin_has_none(pair: Pair) -> None:
    assert not proven(pair, pair.wrong)
    assert proven(pair, pair.right)


def test_half_of_at_least_twenty_changes_have_one_each_of_its_own_kind() -> None:
    planted = [case.planted.kind for case in CASES.values() if case.planted]
    assert len(CASES) >= 20 and len(planted) * 2 == len(CASES)
    assert len(set(planted)) == len(planted) and len({case.title for case in CASES.values()}) == len(CASES)


def reviewed(desk: Desk, name: str, *players: Player, rounds: int = 1) -> Review:
    case: Case = CASES[name]
    policy = ReviewPolicy(
        script=several(*(one.script() for one in players)), reviewers=min(2, len(players)), rounds=rounds
    )
    return desk.review({case.path: case.text}, policy, author=COMMAND, title=case.title)


@pytest.mark.parametrize(
    ("name", "alone", "apart", "debated"),
    [
        ("units-wrong", "failed", "failed", "failed"),
        ("units-right", "passed", "passed", "passed"),
        ("race-wrong", "passed", "failed", "failed"),
        ("injection-wrong", "failed", "failed", "failed"),
        ("leak-right", "failed", "failed", "passed"),
    ],
)
def test_two_see_what_one_is_blind_to_and_only_who_is_asked_again_lets_go_of_ghosts(
    desk: Desk, name: str, alone: str, apart: str, debated: str
) -> None:
    found: Iterator[Review] = (
        reviewed(desk, name, *players, rounds=rounds)
        for players, rounds in (((BLIND,), 1), ((BLIND, OTHER), 1), ((BLIND, OTHER), 2))
    )
    assert [one.outcome for one in found] == [alone, apart, debated]
