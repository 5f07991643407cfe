"""Scores become probabilities that hold: the fit never falls, and it is better than any constant."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.agents.briefing.prediction.calibration import AS_IT_IS, Curve, calibration_error, fit

SCORES = st.floats(min_value=0, max_value=1)
OBSERVATIONS = st.lists(st.tuples(SCORES, st.booleans(), st.floats(min_value=0.01, max_value=1)), max_size=60)


@given(OBSERVATIONS, SCORES, SCORES)
def test_a_higher_score_is_never_less_probable(
    observations: list[tuple[float, bool, float]], one: float, other: float
) -> None:
    curve = fit(observations)
    low, high = sorted((one, other))
    assert 0 <= curve.at(low) <= curve.at(high) + 1e-9 <= 1 + 2e-9


def test_neighbours_in_the_wrong_order_are_pooled() -> None:
    """The right 0.2 and the wrong 0.4 both become a half. The others keep their values."""
    curve = fit([(0.0, False, 1), (0.2, True, 1), (0.4, False, 1), (0.9, True, 1)], belief=0)
    assert [curve.at(score) for score in (0.0, 0.3, 0.9, 1.0)] == pytest.approx([0, 0.5, 1, 1])
    assert curve.at(0.6) == pytest.approx(0.75)


def test_a_fitted_curve_is_better_than_a_constant_and_than_the_score() -> None:
    """A made-up history, in which the score squared is the truth; fitted on one half, judged on the other."""
    dice = random.Random(7)
    drawn = [(score, dice.random() < score**2) for score in (dice.random() for _ in range(4000))]
    curve = fit((score, right, 1.0) for score, right in drawn[:2000])
    constant = sum(right for _, right in drawn[:2000]) / 2000

    def squares(pairs: list[tuple[float, bool]]) -> float:
        return sum((probability - right) ** 2 for probability, right in pairs) / len(pairs)

    fitted = [(curve.at(score), right) for score, right in drawn[2000:]]
    assert squares(fitted) < 0.75 * squares([(constant, right) for _, right in drawn[2000:]])
    assert calibration_error(fitted) < 0.03 < calibration_error(drawn[2000:])


def test_a_few_lucky_commits_are_not_certain() -> None:
    assert fit([(0.6, True, 1.0)] * 3).at(0.6) < 0.9
    assert fit([(0.6, True, 1.0)] * 3, belief=0).at(0.6) == 1.0


def test_without_observations_the_score_is_the_probability() -> None:
    assert fit(()).at(0.475) == pytest.approx(0.475)
    assert AS_IT_IS.at(0.3) == pytest.approx(0.3)


def test_the_calibration_error_is_the_mean_gap_weighted_by_its_bin() -> None:
    """Nine of ten at 0.05 are wrong, as they should be nearly; the one at 0.95 is wrong, and it should not be."""
    assert calibration_error([(0.1, number == 0) for number in range(10)]) == pytest.approx(0)
    assert calibration_error([(0.05, False)] * 9 + [(0.95, False)]) == pytest.approx(0.9 * 0.05 + 0.1 * 0.95)
    assert calibration_error([]) == 0


def test_a_curve_survives_its_file() -> None:
    curve = Curve(scores=(0.1, 0.7), probabilities=(0.0, 0.4))
    assert Curve.model_validate_json(curve.encode()) == curve
