"""How often an entry is rejected unexpectedly, and how many arrivals a queue can handle."""

import pytest

from forgepool.supervisor.train.model import TrainEntry
from forgepool.supervisor.train.surprise import admission, is_unexpected, surprise_rate

CAREFUL = TrainEntry(id="a", accepted=1, risk=0.01)
RISKY = TrainEntry(id="b", accepted=2, risk=0.5)
VETTED = TrainEntry(id="c", accepted=3, risk=0.5, vetted=True)


@pytest.mark.parametrize(
    ("entry", "returned", "unexpected"),
    [
        (CAREFUL, True, True),
        (CAREFUL, False, False),
        (RISKY, True, False),
        (VETTED, True, True),
        (VETTED, False, False),
    ],
)
def test_an_expected_reject_is_a_surprise(entry: TrainEntry, returned: bool, unexpected: bool) -> None:
    """A rejection is unexpected if the entry was thought safe or was green alone. A landing never is."""
    assert is_unexpected(entry, returned=returned) == unexpected


def test_one_surprise_decides_the_rate() -> None:
    """The rate begins at one in fifty and follows the last sixty decided entries."""
    assert surprise_rate([]) == pytest.approx(0.02)
    assert surprise_rate([True] * 10) == pytest.approx(11 / 60)
    assert surprise_rate([True] * 40 + [False] * 60) == pytest.approx(1 / 110)


def test_a_bearable_load_is_warned_of() -> None:
    """28 arrivals an hour with checks of 8 minutes are fine with 8 slots and 8 % rejections."""
    assert admission(28, 8, 0.08, 8) is None
    assert admission(3, 8, 0.08, 1) is None


def test_too_many_rejects_pass_unsaid() -> None:
    """Above four fifths of 1/p arrivals in a check's time, more slots do not help. The sentence says what does."""
    said = admission(28, 8, 0.3, 64)
    assert said is not None
    assert "28 arrivals an hour" in said
    assert "about 20 an hour" in said
    assert "fewer rejects than 30%" in said


def test_too_few_slots_pass_unsaid() -> None:
    """One slot cannot handle 28 an hour with any batch size."""
    said = admission(28, 8, 0.05, 1)
    assert said is not None
    assert "it wants more slots than 1, or quicker checks" in said
