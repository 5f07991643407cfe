"""Pressure levels act once on the way up, and are armed again only below the reset."""

from collections.abc import Iterable
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.context.edits.state import CALM, Ladder, Pressure

RUNGS = (("nudge", 0.50), ("reminder", 0.60), ("l1", 0.70), ("l2", 0.80), ("hard", 0.85), ("emergency", 0.90))
LADDER = Ladder(rungs=RUNGS, reset=0.40)
SHARES = st.floats(0, 1.5)
LEVELS = [CALM, *(name for name, _ in RUNGS)]


def over(shares: Iterable[float]) -> Pressure:
    return reduce(LADDER.after, shares, Pressure())


@pytest.mark.parametrize(
    ("share", "level"),
    [
        (0.0, CALM),
        (0.4999, CALM),
        (0.50, "nudge"),
        (0.60, "reminder"),
        (0.70, "l1"),
        (0.80, "l2"),
        (0.85, "hard"),
        (0.90, "emergency"),
        (3.0, "emergency"),
    ],
)
def test_each_share_has_its_rung(share: float, level: str) -> None:
    assert LADDER.level(share) == level


def test_a_rung_acts_once_until_the_share_has_been_below_the_reset() -> None:
    """A share that wavers above the reset arms nothing."""
    pressure = Pressure()
    acted = []
    for share in (0.3, 0.72, 0.75, 0.69, 0.41, 0.72, 0.39, 0.71, 0.71):
        pressure = LADDER.after(pressure, share)
        acted.append(pressure.fires)
    assert acted == [False, True, False, False, False, False, False, True, False]


def test_a_higher_rung_acts_though_a_lower_one_has() -> None:
    """A skipped level counts as acted together with the one above it."""
    assert over([0.55, 0.72]) == Pressure(level="l1", armed=True)
    assert over([0.95]) == Pressure(level="emergency", armed=True)
    assert over([0.95, 0.72]) == Pressure(level="emergency", armed=False)


def test_the_reset_itself_does_not_arm() -> None:
    """Only a share below it does."""
    assert over([0.72, 0.40]) == Pressure(level="l1", armed=False)
    assert over([0.72, 0.3999]) == Pressure()


@given(st.lists(SHARES, max_size=20), SHARES, SHARES)
def test_more_pressure_is_never_a_lower_level(shares: list[float], one: float, other: float) -> None:
    """This holds for any history, and a level falls only to calm."""
    before = over(shares)
    low, high = (LADDER.after(before, share) for share in sorted((one, other)))
    assert LEVELS.index(low.level) <= LEVELS.index(high.level)
    assert low.level == CALM or LEVELS.index(low.level) >= LEVELS.index(before.level)


@given(st.lists(st.floats(0.41, 1.5), min_size=1, max_size=60))
def test_without_a_reset_no_rung_acts_twice(shares: list[float]) -> None:
    pressure = Pressure()
    acted = []
    for share in shares:
        pressure = LADDER.after(pressure, share)
        if pressure.fires:
            acted.append(pressure.level)
    assert len(acted) == len(set(acted))


def test_a_ladder_whose_rungs_do_not_rise_is_refused() -> None:
    """The levels are in the wrong order, or the lowest is at the reset."""
    with pytest.raises(ValueError, match="rise from its reset"):
        Ladder(rungs=(("high", 0.9), ("low", 0.7)), reset=0.4)
    with pytest.raises(ValueError, match="rise from its reset"):
        Ladder(rungs=(("low", 0.3),), reset=0.4)
