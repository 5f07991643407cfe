"""
How much a filling window presses: rungs of a ladder, each of which acts once on the way up.

Between one rebuild and the next a conversation only grows. A rung that has acted therefore rests until the share has
been below the ladder's `reset`: a rung that acted whenever the share is above it would act before every call.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

CALM = "calm"
"""Below every rung."""
RUNGS = (
    ("nudge", 0.50),
    ("reminder", 0.60),
    ("l1", 0.70),
    ("l2", 0.80),
    ("hard", 0.85),
    ("emergency", 0.90),
)
"""Name and share of the window, lowest first; from R-2. From `hard` on a model may be asked for a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    level: str = CALM
    """The highest rung reached since the share was last below `reset`."""
    armed: bool = True
    """Whether that rung has not acted yet."""

    @property
    def fires(self) -> bool:
        return self.armed and self.level != CALM


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """
    Raises:
        ValueError: the rungs do not rise, or one of them is below `reset`.
    """

    rungs: tuple[tuple[str, float], ...] = RUNGS
    target: float = 0.40
    """What a phase's fresh context is filled to at the most."""
    reset: float = 0.40
    """Below this share every rung may act again."""

    def __post_init__(self) -> None:
        shares = [self.reset, *(share for _, share in self.rungs)]
        if any(later < earlier for earlier, later in pairwise(shares)):
            raise ValueError(f"rungs of a ladder rise from its reset on; these are {', '.join(map(str, shares))}")

    def level(self, share: float) -> str:
        """The highest rung that a share reaches."""
        return next((name for name, least in reversed(self.rungs) if share >= least), CALM)

    def after(self, before: Pressure, share: float) -> Pressure:
        """A rung that was reached before has acted; only a higher one, or a reset, arms again."""
        if share < self.reset:
            return Pressure()
        level = self.level(share)
        if self._height(level) > self._height(before.level):
            return Pressure(level=level)
        return Pressure(level=before.level, armed=before.level == CALM)

    def over(self, shares: Iterable[float]) -> Pressure:
        """The pressure after all of these shares, oldest first."""
        pressure = Pressure()
        for share in shares:
            pressure = self.after(pressure, share)
        return pressure

    def _height(self, level: str) -> int:
        """Of a rung, from 1; 0 of what is none."""
        return next((place for place, (name, _) in enumerate(self.rungs, start=1) if name == level), 0)
