"""
A generated world of changes: when they arrive, how long their checks take, which are bad, which fail together.

The terms and the seed decide all of it. A policy's actions change none of it, so every policy meets the same world.
"""

import math
import random
from dataclasses import dataclass
from functools import cached_property

MODULES = 60
_PER_CHANGE = (0.70, 0.20, 0.07, 0.03)
"""Shares of changes that touch one, two, three and four modules; about every twentieth pair has one in common."""
_BUSY = tuple(1 / (at + 1) ** 0.5 for at in range(MODULES))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTerms:
    """Parameters of a world."""

    workers: int = 8
    rate_h: float = 28.0
    bad: float = 0.08
    """Probability that a change is red by itself."""
    flake: float = 0.0
    """Probability that a run of the checks is red for no reason."""
    retries: int = 0
    """Number of times that red checks run again before they count."""
    changes: int = 600
    burst: int = 0
    """Number of changes that come at once at the beginning."""
    label: float = 0.9
    """Probability that a change is rightly labelled as risky or not."""
    real: float = 0.04
    """Share of the pairs with a module in common that fail together."""
    scopes: bool = False
    """True where the checks of a change look at its own modules only. A green result then holds until a change in one
    of these."""
    check_min: float = 8.0
    spread: float = 0.5
    """Standard deviation of the logarithm of the time that checks take."""
    cap_min: float = 90.0
    base_age_min: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedChange:
    number: int
    arrived: float
    """Minutes since the beginning, as all times are."""
    base: float
    """Time of the target that the change was written on; what landed later it does not know."""
    takes: float
    bad: bool
    risk: float
    modules: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class World:
    terms: QueueTerms
    seed: int

    @cached_property
    def changes(self) -> tuple[SimulatedChange, ...]:
        chance, now, found = random.Random(self.seed), 0.0, list[SimulatedChange]()
        for number in range(self.terms.changes):
            if number >= self.terms.burst:
                now += chance.expovariate(self.terms.rate_h / 60)
            found.append(_change(number, now, self.terms, chance))
        return tuple(found)

    def clashes(self, one: int, other: int) -> bool:
        """Tell whether these two fail together, even if each is good alone."""
        low, high = sorted((one, other))
        if not self.changes[low].modules & self.changes[high].modules:
            return False
        return random.Random(f"{self.seed} {low} {high}").random() < self.terms.real


def _change(number: int, now: float, terms: QueueTerms, chance: random.Random) -> SimulatedChange:
    bad = chance.random() < terms.bad
    risky = bad == (chance.random() < terms.label)
    takes = min(terms.cap_min, terms.check_min * math.exp(chance.gauss(0, terms.spread)))
    age = terms.base_age_min * math.exp(chance.gauss(0, 1))
    count = chance.choices((1, 2, 3, 4), _PER_CHANGE)[0]
    return SimulatedChange(
        number=number,
        arrived=now,
        base=now - age,
        takes=takes,
        bad=bad,
        risk=_risk(risky, terms),
        modules=frozenset(chance.choices(range(MODULES), _BUSY, k=count)),
    )


def _risk(risky: bool, terms: QueueTerms) -> float:
    """Return the probability that a change with this label is bad."""
    told = terms.label if risky else 1 - terms.label
    bad, good = terms.bad * told, (1 - terms.bad) * (1 - told)
    return bad / (bad + good) if bad else 0.0
