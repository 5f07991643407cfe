"""
The use of the slots: each batch behind all that will likely land before it, risky entries alone, and speculative
trials.

A running trial is cancelled where its path cannot come true any more, or where one that is far likelier wants its slot.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from forgepool.supervisor.train.coupling import HOTFIX, next_car, order, ranks
from forgepool.supervisor.train.facts import times_out
from forgepool.supervisor.train.layout import Layout, bits
from forgepool.supervisor.train.model import Action, Cancel, Ids, StartTrial, TrainEntry, Trial
from forgepool.supervisor.train.odds import Outlook

_REFUTED = 0.05
"""A path this many times less likely than the likeliest of its car is not waited for."""
_WORTH = 0.1
"""Paths less likely than this wait until more is settled."""
_ENOUGH_SLOTS = 4
"""Below this, no slot is spared for trying alone what could go in a car."""
_DEEP = 0.5
"""Unexpected rejects among the cars in line, above which all entries are tried alone first."""
_FEW = 4
"""Cars that share a scope, below which what is risky costs so few others something that it goes among them at once."""

Wish = tuple[float, StartTrial]


@dataclass(slots=True, kw_only=True)
class Work:
    """One plan in the making: what there is, and what it comes to so far."""

    layout: Layout
    outlook: Outlook
    ranks: dict[str, int]
    busy: int
    kept: set[str] = field(default_factory=set)
    """Running trials of paths that are the likeliest of their cars."""
    waiting: int = 0
    """Cars that wait until more is settled; one behind them would too."""
    actions: list[Action] = field(default_factory=list)

    @property
    def free(self) -> int:
        started = sum(isinstance(action, StartTrial) for action in self.actions)
        return self.layout.seen.slots - self.busy - started


def work(layout: Layout) -> list[Action]:
    made = Work(
        layout=layout,
        outlook=Outlook(layout),
        ranks=ranks(layout),
        busy=sum(trial.state in ("running", "stopping") for trial in layout.seen.trials),
    )
    wishes = list(_wishes(made))
    cancels = _refuted(made) or _too_many(made)
    if cancels:
        return cancels
    able = _able(made)
    _start(made, wishes, able)
    going = {one: rank for one, rank in able.items() if rank == HOTFIX or _may_go_on_trial(made, one)}
    car = next_car(layout, going) if going and not made.actions else None
    if car is not None:
        return [car]
    if not made.actions:
        _vet(made, room=layout.seen.slots, risky=False)
        _hedge(made)
    return made.actions


def _wishes(made: Work) -> Iterator[Wish]:
    """For each car that is not on trial on its likeliest path, the trial it wants."""
    layout, asked = made.layout, 0
    running = {at for at, trial in layout.walk_couples() if trial.state == "running"}
    for at, car in enumerate(layout.cars):
        if asked > layout.seen.slots and at not in running:
            # However likely it is, those before it have all slots.
            continue
        if layout.out(at) or layout.has_doubt(at) or not made.outlook.paths(at):
            continue
        path = made.outlook.paths(at)[0]
        ahead = layout.ids(path.ahead)
        known = layout.tried.get((ahead, car), [])
        made.kept.update(trial.id for trial in known if trial.state == "running")
        if not _is_wanted(layout, path.ahead, car, known):
            continue
        if path.chance >= _WORTH or not ahead:
            asked += 1
            yield path.chance, _start_of(ahead, car)
        else:
            made.waiting |= 1 << at


def _may_go_on_trial(made: Work, one: str) -> bool:
    return made.free > 0 and not made.layout.busy(made.layout.entries[one].scopes) & made.waiting


def _is_wanted(layout: Layout, ahead: int, car: Ids, known: list[Trial]) -> bool:
    """
    Tell whether a trial is still to be started: not where it runs or has been answered, except once after a timeout, or
    a red that may be another's.

    A trial that was green before the tip moved is tried again, as soon as nothing ahead of it is open.
    """
    states, on_tip = {trial.state for trial in known}, {trial.state for trial in known if not trial.behind}
    if states & {"running", "stopping"} or "green" in on_tip:
        return False
    if "green" in states and "red" not in on_tip and not times_out(known):
        return all(layout.greens(ahead & layout.related[at], at) for at in bits(ahead))
    if "red" in states:
        return not ahead and len(car) == 1
    return not times_out(known) or (not ahead and len(car) == 1)


def _start_of(ahead: Ids, car: Ids) -> StartTrial:
    return StartTrial(ahead=ahead, car=car, decisive=not ahead and len(car) == 1)


def _running(made: Work) -> Iterator[tuple[float, int, Trial]]:
    """Cars' trials that run and are not of their car's likeliest path: the chance of theirs, and the car's place."""
    for at, trial in made.layout.walk_couples():
        if trial.state == "running" and trial.id not in made.kept:
            yield made.outlook.chance(at, trial), at, trial


def _refuted(made: Work) -> list[Action]:
    found = list[Action]()
    for chance, at, trial in _running(made):
        best = made.outlook.paths(at)[0].chance if made.outlook.paths(at) else 1.0
        if chance < _REFUTED * best:
            found.append(Cancel(trial=trial.id, why="refuted: what it assumes will not come true"))
    return found


def _too_many(made: Work) -> list[Action]:
    """Cancel the trials least likely to be of use: the last in line first, and entries alone before cars."""
    excess = made.busy - made.layout.seen.slots
    stopping = sum(trial.state == "stopping" for trial in made.layout.seen.trials)
    if excess <= stopping:
        return []
    chances = {
        trial.id: (made.outlook.chance(at, trial), -at)
        for at, trial in made.layout.walk_couples()
        if trial.state == "running"
    }
    running = [trial.id for trial in reversed(made.layout.seen.trials) if trial.state == "running"]
    running.sort(key=lambda trial: chances.get(trial, (0.0, 0)))
    return [Cancel(trial=one, why="there are fewer slots than trials") for one in running[: excess - stopping]]


def _start(made: Work, wishes: list[Wish], able: dict[str, int]) -> None:
    """Start trials of batches first, then of entries alone; with one slot, the first in the queue."""
    slots = made.layout.seen.slots
    if slots == 1 and _one_alone_is_first(made, wishes, able):
        _vet(made, room=1)
        return
    promised = sum(trial.state == "stopping" for trial in made.layout.seen.trials)
    for chance, start in wishes:
        if made.free > 0:
            made.actions.append(start)
        elif promised > 0:
            promised -= 1
        else:
            _preempt(made, chance)
            return
    if slots > 1 or not able:
        _vet(made, room=max(1, int(slots * made.layout.seen.policy.vet_share)))


def _one_alone_is_first(made: Work, wishes: list[Wish], able: dict[str, int]) -> bool:
    alone = next(_to_try_alone(made), None)
    if alone is None:
        return False
    others = wishes[0][1].car if wishes else tuple(able)
    place = {one: at for at, one in enumerate(made.ranks)}
    if not wishes:
        return all(place[alone.id] < place[one] for one in others)
    policy = made.layout.seen.policy
    return order(alone, policy) < min(order(made.layout.entries[one], policy) for one in others)


def _preempt(made: Work, chance: float) -> None:
    least = min(_running(made), key=lambda found: (found[0], -found[1]), default=None)
    if least is not None and least[0] < chance / 2:
        made.actions.append(Cancel(trial=least[2].id, why="another is likelier to be needed"))


def _able(made: Work) -> dict[str, int]:
    """Return the entries that may be coupled now, with their ranks."""
    found = dict[str, int]()
    for one, rank in made.ranks.items():
        entry = made.layout.entries[one]
        if entry.ready and not entry.held and not _goes_alone(made, entry) and not made.layout.is_alone(entry.id):
            found[one] = rank
    return found


def _goes_alone(made: Work, entry: TrainEntry) -> bool:
    """Tell whether it is tested alone first: it may not land yet, or it is risky, or all entries are by now."""
    if entry.held or made.layout.needs(entry):
        return False
    if not entry.ready:
        # Green by itself on this very tip it waits for a word; green on an earlier one that says nothing.
        return all(trial.state != "green" for trial in made.layout.tried.get(((), (entry.id,)), ()))
    if entry.vetted or entry.suspect:
        return not entry.vetted
    if made.layout.seen.slots < _ENOUGH_SLOTS or entry.single or made.ranks[entry.id] == HOTFIX:
        return False
    others = made.layout.busy(entry.scopes).bit_count()
    if entry.scopes is not None and others < _FEW:
        return False
    deep = others * made.layout.seen.surprise > _DEEP
    return deep or entry.risk > made.layout.seen.policy.vet_above


def _to_try_alone(made: Work) -> Iterator[TrainEntry]:
    for one in made.ranks:
        entry = made.layout.entries[one]
        if _goes_alone(made, entry) and not made.layout.is_alone(entry.id):
            yield entry


def _vet(made: Work, *, room: int, risky: bool = True) -> None:
    """Test entries alone, as many as there is room for; those that are merely `risky` may be left out."""
    started = {action.car for action in made.actions if isinstance(action, StartTrial)}
    taken = sum(made.layout.is_alone(entry.id) for entry in made.layout.seen.waiting)
    for entry in _to_try_alone(made):
        if made.free <= 0 or taken >= room:
            return
        if (entry.id,) not in started and (risky or not entry.ready):
            made.actions.append(_start_of((), (entry.id,)))
            taken += 1


def _hedge(made: Work) -> None:
    """The likeliest of other paths, while slots are idle."""
    layout, wishes = made.layout, list[Wish]()
    for at, car in enumerate(layout.cars):
        for path in made.outlook.paths(at)[1:]:
            if path.chance < max(_REFUTED, layout.seen.policy.hedge_above) or layout.out(at):
                break
            ahead = layout.ids(path.ahead)
            if (ahead, car) not in layout.tried:
                wishes.append((path.chance, _start_of(ahead, car)))
    wishes.sort(key=lambda wish: -wish[0])
    made.actions.extend(start for _, start in wishes[: max(0, made.free)])
