"""How often which test was red and green on one tree: a score for each, for the report. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One trial of a check in which the test had its say; `test` is empty where no runner names any."""

    check: str
    test: str
    flaked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """In how many trials a test was seen, and was a flake."""

    check: str
    test: str
    flakes: int
    runs: int

    @property
    def share(self) -> float:
        return self.flakes / self.runs


def scores(sightings: Iterable[Sighting]) -> tuple[Score, ...]:
    """Return the score of every test that was a flake at least once, the worst first."""
    seen = [(one.check, one.test, one.flaked) for one in sightings]
    runs = Counter((check, test) for check, test, _ in seen)
    flakes = Counter((check, test) for check, test, flaked in seen if flaked)
    found = (
        Score(check=check, test=test, flakes=count, runs=runs[check, test]) for (check, test), count in flakes.items()
    )
    return tuple(sorted(found, key=lambda score: (-score.share, -score.flakes, score.check, score.test)))
