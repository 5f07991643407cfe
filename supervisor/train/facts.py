"""
The facts that trials have settled: which entries may land, are returned, or have their batch split. No guess is made
here.
"""

import functools
import operator

from forgepool.supervisor.train.layout import Layout, bits
from forgepool.supervisor.train.model import Action, Dissolve, Land, Return, TrainEntry, Trial
from forgepool.supervisor.train.odds import DOUBTED

TRIES = 2
"""Timeouts of one spec after which its car is not tried again."""


def facts(layout: Layout, odds: list[float]) -> list[Action]:
    """At most one: it changes what there is to plan."""
    landing = _landing(layout, odds)
    if landing is not None:
        return [Land(trial=landing.id)]
    for trial in layout.seen.trials:
        verdict = _verdict(layout, trial)
        if verdict is not None:
            return [verdict]
    return _broken(layout)


def times_out(trials: list[Trial]) -> bool:
    return sum(trial.state == "timeout" for trial in trials) >= TRIES


def green_prefix(layout: Layout) -> int:
    """How many of the first cars are green, the last of them behind all that have to do with it."""
    green = (at for at, cars in enumerate(layout.related) if layout.greens(cars, at))
    return max(green, default=-1) + 1


def _landing(layout: Layout, odds: list[float]) -> Trial | None:
    """The green trial that lands most."""
    able = [trial for at, trial in layout.walk_couples() if _may_land(layout, odds, at, trial)]
    if able:
        return max(able, key=lambda trial: len(trial.spec))
    tried = sum({1 << at for at, trial in layout.walk_couples() if trial.state in ("running", "green")})
    free = (entry for entry in layout.seen.waiting if not layout.busy(entry.scopes) & tried)
    return next((trial for entry in free if (trial := _own_landing(layout, entry.id))), None)


def _own_landing(layout: Layout, waiting: str) -> Trial | None:
    """One that waits may land by its own trial, where that costs no car's trial its tip."""
    for trial in layout.tried.get(((), (waiting,)), ()):
        if trial.lands and _spec_is_ready(layout, trial):
            return trial
    return None


def _may_land(layout: Layout, odds: list[float], at: int, trial: Trial) -> bool:
    covered = layout.covered[trial.id]
    before = functools.reduce(operator.or_, (layout.related[car] for car in (*bits(covered), at)))
    passed = bits(before & ~covered)
    return (
        trial.lands
        and _spec_is_ready(layout, trial)
        and all(odds[other] < DOUBTED or layout.out(other) for other in passed)
        and (layout.seen.policy.later_passes or _each_is_green(layout, trial))
    )


def _spec_is_ready(layout: Layout, trial: Trial) -> bool:
    before = set[str]()
    for one in trial.spec:
        entry = layout.entries[one]
        if entry.held or not entry.ready or not before.issuperset(layout.needs(entry)):
            return False
        before.add(one)
    return True


def _each_is_green(layout: Layout, trial: Trial) -> bool:
    """Each car ahead was found green by itself, on those ahead of it."""
    before = 0
    for at in dict.fromkeys(layout.place[one] for one in trial.ahead):
        if not any(one.lands for one in layout.find_trials(before & layout.related[at], at)):
            return False
        before |= 1 << at
    return True


def _verdict(layout: Layout, trial: Trial) -> Action | None:
    if trial.ahead or trial.state not in ("red", "timeout"):
        return None
    first = trial.car[0]
    if trial.clash == first:
        return Return(entry=first, trial=trial.id)
    if len(trial.car) > 1:
        red = trial.state == "red" or times_out(layout.tried[(), trial.car])
        return _dissolved(layout, trial) if red and trial.car in layout.cars else None
    if not trial.decisive or any(_excuses(other, trial) for other in layout.tried.get(((), trial.car), ())):
        return None
    red = trial.state == "red" or times_out(layout.alone[first])
    return Return(entry=first, trial=trial.id) if red else None


def _excuses(other: Trial, red: Trial) -> bool:
    """
    Tell whether a green trial excuses a red one. One from before the tip moved excuses nothing that is red on the tip.
    """
    return other.state == "green" and other.behind <= red.behind


def _dissolved(layout: Layout, trial: Trial) -> Dissolve:
    """
    Split a red batch. Those whose own tests failed are taken out, and one that clashed goes alone; otherwise singles
    where there are slots, or halves, the first half first.
    """
    car, size = trial.car, len(trial.car)
    suspects = tuple(one for one in car if one in trial.suspects)
    if suspects:
        rest = tuple(one for one in car if one not in suspects)
        return Dissolve(car=car, parts=(rest,) if rest else (), trial=trial.id, suspects=suspects)
    if trial.clash in car:
        rest = tuple(one for one in car if one != trial.clash)
        return Dissolve(car=car, parts=(rest, (trial.clash,)), trial=trial.id)
    step = 1 if size <= layout.seen.slots else (size + 1) // 2
    return Dissolve(car=car, parts=tuple(car[at : at + step] for at in range(0, size, step)), trial=trial.id)


def _broken(layout: Layout) -> list[Action]:
    """Split a batch some of whose members are held, so that they do not keep the others."""
    for at, car in enumerate(layout.seen.cars):
        lost = {one.id for one in car if not one.ready or _lacks_a_need(layout, at, one)}
        going = tuple(one.id for one in car if one.id not in lost and not one.held)
        if lost or 0 < len(going) < len(car):
            return [Dissolve(car=layout.cars[at], parts=(going,) if going else (), trial="")]
    return []


def _lacks_a_need(layout: Layout, at: int, entry: TrainEntry) -> bool:
    aboard = layout.cars[at]
    before = aboard[: aboard.index(entry.id)]
    return any(layout.place.get(need, at) >= at and need not in before for need in layout.needs(entry))
