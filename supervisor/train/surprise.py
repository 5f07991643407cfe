"""The rates of unexpected rejects and of reds that tell whose they are, and the arrivals that a queue can bear."""

import math
from collections.abc import Sequence

from forgepool.supervisor.train.model import TrainEntry

RISKY = 0.2
_WINDOW = 60
_PRIOR_N = 50
_FIRST_N = 2
"""Red cars without suspects that are assumed before the first one is seen."""
_LOAD = 0.8
"""The share of a queue's capacity above which waiting grows without bound, for all practical purposes."""


def is_unexpected(entry: TrainEntry, *, returned: bool) -> bool:
    return returned and (entry.vetted or entry.risk < RISKY)


def surprise_rate(outcomes: Sequence[bool]) -> float:
    """Return the rate from the last outcomes, in the order of decision; true is an unexpected reject."""
    seen = outcomes[-_WINDOW:]
    return (1 + sum(seen)) / (_PRIOR_N + len(seen))


def suspect_rate(named: Sequence[bool]) -> float:
    """Return the share of red cars whose failing tests named suspects; 0 before the first."""
    return sum(named) / (_FIRST_N + len(named))


def admission(arrivals_per_h: float, check_min: float, reject_rate: float, slots: int) -> str | None:
    """
    Return the sentence about too many arrivals; None where they can be borne.

    A train whose each entry is rejected with probability p lands about 1/p of them in the time of one check, whatever
    the slots; n slots check at most n over the runs of one entry in cars of the best size, about 2 times the root of p.
    """
    at_once = arrivals_per_h * check_min / 60
    rejected = max(reject_rate, 1e-3)
    runs = min(1.0 + rejected, max(1 / 8, 2 * math.sqrt(rejected)))
    by_rejects, by_slots = 1 / rejected, slots / runs
    if at_once <= _LOAD * min(by_rejects, by_slots):
        return None
    bound, remedy = (
        (by_slots, f"more slots than {slots}")
        if by_slots < by_rejects
        else (by_rejects, f"fewer rejects than {reject_rate:.0%}")
    )
    most = _LOAD * bound * 60 / check_min
    return (
        f"{arrivals_per_h:.3g} arrivals an hour with checks of {check_min:.3g} minutes are more than the line can "
        f"bear, about {most:.3g} an hour; it wants {remedy}, or quicker checks"
    )
