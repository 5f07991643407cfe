"""
How likely it is that a car is good, and that what a trial assumes comes true. Figures; who acts on them is elsewhere.

A **path** of a car is the set of cars before it that are assumed to land before it does.
"""

import math
from dataclasses import dataclass

from forgepool.supervisor.train.layout import Layout, bits
from forgepool.supervisor.train.model import TrainEntry, Trial

SURE = 0.97
"""That a car is good which was green in some trial, whatever stood ahead of it."""
DOUBTED = 0.5
"""Cars below this are routed around, and may be passed by."""
SUSPECTED = 0.6
"""The risk of an entry whose own tests have failed in a car, until its own trial is over."""
_PASSED = 0.3
"""The chance of an entry that was passed by as suspect, until its own trial is over."""
_NOBODYS = 0.01
"""The probability that a red is no entry's fault."""
_WIDTH = 16
"""Paths of one car that are followed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    chance: float
    ahead: int
    """The cars assumed to land, as bits."""


def entry_risk(entry: TrainEntry) -> float:
    """That it is red by itself, after what is known of it."""
    return 1 - SURE if entry.vetted else max(entry.risk, SUSPECTED) if entry.suspect else entry.risk


def car_odds(layout: Layout) -> list[float]:
    """
    Return, for each batch, the probability that it is good by itself.

    A red trial tells of its last car, or of the one that clashed, and only as much as those ahead of it are sure: of
    a red, the part in which that car is good and another is not.
    """
    odds = before_reds(layout)
    for subject, covered in reds(layout):
        others = math.prod(odds[other] for other in bits(covered & ~(1 << subject)))
        odds[subject] = _doubted(odds[subject], others)
    return odds


def before_reds(layout: Layout) -> list[float]:
    """Return the knowledge about each batch by itself, and from green trials."""
    odds = [math.prod(_prior(one, layout.seen.surprise) for one in car) for car in layout.seen.cars]
    for _, trial in layout.walk_couples():
        if trial.state == "green":
            for at in bits(layout.covered[trial.id]):
                odds[at] = max(odds[at], SURE)
    return [min(good, _PASSED) if layout.has_doubt(at) else good for at, good in enumerate(odds)]


def reds(layout: Layout) -> list[tuple[int, int]]:
    """Return, for each red trial, the batch it tells of, and the batches among which one spoils the others."""
    coupled = list(layout.walk_couples())
    greens = {layout.covered[trial.id] for _, trial in coupled if trial.state == "green"}
    found = []
    for at, trial in coupled:
        about = {layout.place[one] for one in trial.suspects or (trial.clash,) if one in layout.place}
        # Where a green excuses all that the red points to, it is about the batch itself.
        for subjects in (about, {at}) if trial.is_doubted else ():
            told = [(one, layout.covered[trial.id] & ((1 << one) - 1 | 1 << one)) for one in subjects]
            told = [(one, covered) for one, covered in told if all(covered & ~green for green in greens)]
            if told:
                found += told
                break
    return found


_Path = tuple[float, int]
"""The same as a Path: there are many of them."""


class Outlook:
    """
    The possible paths of each batch among those that affect it, by all that is known of the batches together.

    A path that has all cars of a red trial on it comes true only if that red was no entry's fault.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._good = before_reds(layout)
        self._marginal = car_odds(layout)
        self._reds = dict[int, list[int]]()
        for subject, covered in reds(layout):
            self._reds.setdefault(subject, []).append(covered)
        self._followed = {0: _Followed(paths=[(1.0, 0)], scale=1.0)}
        self._paths = dict[int, list[Path]]()

    def paths(self, at: int) -> list[Path]:
        """Return the paths of a batch, the likeliest first; none where its needs are on none of those followed."""
        if at not in self._paths:
            followed, needed = self._among(self._layout.related[at]).paths, self._layout.needed[at]
            able = [] if needed is None else [path for path in followed if not needed & ~path[1]]
            self._paths[at] = [Path(chance=chance, ahead=ahead) for chance, ahead in able]
        return self._paths[at]

    def chance(self, at: int, trial: Trial) -> float:
        """That the path of a trial of this car comes true, be those held released in time or not."""
        ahead, chance, among = self._layout.covered[trial.id], 1.0, 0
        self._among(self._layout.related[at])
        for other in bits(self._layout.related[at]):
            good = self._good_among(other, among)
            among |= 1 << other
            chance /= self._followed[among].scale
            needed = self._layout.needed[other]
            if ahead >> other & 1:
                chance *= good * self._spared(other, ahead)
            elif needed is not None and not needed & ~ahead and not self._layout.out(other):
                chance *= 1 - good
        return chance

    def _among(self, cars: int) -> "_Followed":
        """
        Return the paths by these batches; what was followed for another batch counts as far as both have the same
        before them.
        """
        last = cars.bit_length() - 1
        if cars not in self._followed and cars ^ 1 << last in self._followed:
            self._followed[cars] = self._after(self._followed[cars ^ 1 << last], last, cars ^ 1 << last)
        if cars in self._followed:
            return self._followed[cars]
        among, found = 0, self._followed[0]
        for at in bits(cars):
            before, among = among, among | 1 << at
            if among not in self._followed:
                self._followed[among] = self._after(found, at, before)
            found = self._followed[among]
        return found

    def _after(self, before: "_Followed", at: int, among: int) -> "_Followed":
        """
        The paths that go on past this car; one that lacks what it needs there can only be passed by.

        Scaled, so that those followed sum to one: of a long line even the likeliest would come to 0.
        """
        if self._layout.out(at):
            return _Followed(paths=before.paths, scale=1.0)
        found, car, needed, good = list[_Path](), 1 << at, self._layout.needed[at] or 0, self._good_among(at, among)
        is_red = at in self._reds
        for chance, ahead in before.paths:
            if needed & ~ahead:
                found.append((chance, ahead))
                continue
            spared = self._spared(at, ahead | car) if is_red else 1.0
            found.append((chance * good * spared, ahead | car))
            found.append((chance * (1 - good), ahead))
        found.sort(key=_likeliest_first)
        del found[_WIDTH:]
        scale = sum([chance for chance, _ in found]) or 1.0
        return _Followed(paths=[(chance / scale, ahead) for chance, ahead in found], scale=scale)

    def _good_among(self, at: int, among: int) -> float:
        """
        Return the chance of a batch among these. A red with a batch outside of them counts only as far as it tells of
        this one alone.
        """
        known = among | 1 << at
        if all(not covered & ~known for covered in self._reds.get(at, ())):
            return self._good[at]
        return min(self._good[at], self._marginal[at])

    def _spared(self, at: int, ahead: int) -> float:
        return _NOBODYS if any(not covered & ~ahead for covered in self._reds.get(at, ())) else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """The likeliest paths by some of the cars, and what they were scaled by at the last of these."""

    paths: list[_Path]
    scale: float


def _likeliest_first(path: _Path) -> float:
    return -path[0]


def _prior(entry: TrainEntry, surprise: float) -> float:
    return SURE if entry.vetted else (1 - entry_risk(entry)) * (1 - surprise)


def _doubted(own: float, others: float) -> float:
    red = 1 - own * others
    return own if red <= 0 else min(own, own * (1 - others) / red)
