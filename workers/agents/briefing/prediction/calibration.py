"""Turns scores into probabilities: isotonic regression by pooling adjacent violators. Nothing here reads files."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forgepool.workers.schema.orders import Message

_BELIEF = 2.0
"""Observations that the score itself counts for, at each of its steps: it keeps three lucky commits from a 1.0."""
_STEPS = 20


class Curve(Message):
    """A function that never falls, given by its corners; between two of them it is a straight line."""

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def at(self, score: float) -> float:
        right = bisect_left(self.scores, score)
        if right == 0:
            return self.probabilities[0]
        if right == len(self.scores):
            return self.probabilities[-1]
        low, high = self.scores[right - 1], self.scores[right]
        share = (score - low) / (high - low)
        return self.probabilities[right - 1] * (1 - share) + self.probabilities[right] * share


AS_IT_IS = Curve(scores=(0.0, 1.0), probabilities=(0.0, 1.0))
"""The curve shipped: the weights of the signals make a score that is a probability in an average repository."""


@dataclass(slots=True)
class _Block:
    scores: float
    hits: float
    weight: float


def fit(observations: Iterable[tuple[float, bool, float]], *, belief: float = _BELIEF) -> Curve:
    """Return the curve that never falls and is nearest to the observations: a score, was it right, and a weight."""
    steps = [(step + 0.5) / _STEPS for step in range(_STEPS)] if belief else []
    points = [(score, float(right), weight) for score, right, weight in observations]
    points += [(step, step, belief) for step in steps]
    blocks: list[_Block] = []
    for score, hit, weight in sorted(points):
        blocks.append(_Block(score * weight, hit * weight, weight))
        while len(blocks) > 1 and blocks[-2].hits * blocks[-1].weight >= blocks[-1].hits * blocks[-2].weight:
            last = blocks.pop()
            blocks[-1].scores += last.scores
            blocks[-1].hits += last.hits
            blocks[-1].weight += last.weight
    return Curve(
        scores=tuple(block.scores / block.weight for block in blocks),
        probabilities=tuple(block.hits / block.weight for block in blocks),
    )


def calibration_error(predicted: Sequence[tuple[float, bool]], *, bins: int = 10) -> float:
    """Return the expected calibration error: the mean gap between probability and share of hits, over equal bins."""
    sums = [[0.0, 0.0] for _ in range(bins)]
    for probability, right in predicted:
        part = sums[min(int(probability * bins), bins - 1)]
        part[0] += probability
        part[1] += right
    return sum(abs(expected - hits) for expected, hits in sums) / len(predicted) if predicted else 0.0
