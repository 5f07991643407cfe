"""A snapshot, indexed: who is in which car, what a trial covers, what a car needs. Nothing is decided here."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from forgepool.supervisor.train.model import Ids, Scopes, Snapshot, TrainEntry, Trial, have_common, scopes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Sets of cars are the bits of an integer: the first car's is 1."""

    seen: Snapshot
    cars: tuple[Ids, ...]
    entries: dict[str, TrainEntry]
    place: dict[str, int]
    """By batched entry, the place of its batch."""
    needed: tuple[int | None, ...]
    """For each batch, the earlier batches it cannot be tested without; None where what it needs is elsewhere."""
    scopes: tuple[Scopes, ...]
    """The scopes of each batch."""
    related: tuple[int, ...]
    """For each batch, the earlier ones with which it shares a scope, and those that it or they need."""
    barred: int
    """Batches that are neither tested nor landed now: a member is held, or what they need does not go first."""
    covered: dict[str, int]
    """For each trial that is not stale, the batches that lie wholly in its spec."""
    tried: dict[tuple[Ids, Ids], list[Trial]]
    """Trials that are not stale, by what is ahead and the car."""
    alone: dict[str, list[Trial]]
    """Decisive trials, stale ones too, by their one entry."""

    def out(self, at: int) -> bool:
        return bool(self.barred >> at & 1)

    def ids(self, cars: int) -> Ids:
        return tuple(one for at in bits(cars) for one in self.cars[at])

    def find_trials(self, ahead: int, at: int) -> list[Trial]:
        """Trials of a car behind these."""
        return self.tried.get((self.ids(ahead), self.cars[at]), [])

    def greens(self, ahead: int, at: int) -> bool:
        return any(trial.state == "green" for trial in self.find_trials(ahead, at))

    def is_alone(self, entry: str) -> bool:
        """Tell whether a trial of it alone is under way, even on a tip that the target has left."""
        return any(trial.state in ("running", "stopping") for trial in self.alone.get(entry, ()))

    def has_doubt(self, at: int) -> bool:
        """Its one entry was passed by while it was on trial alone, and still is."""
        car = self.cars[at]
        return len(car) == 1 and any(trial.stale for trial in self.alone.get(car[0], ())) and self.is_alone(car[0])

    def busy(self, scopes: Scopes) -> int:
        """The cars that share one of these scopes."""
        return sum(1 << at for at, others in enumerate(self.scopes) if have_common(scopes, others))

    def needs(self, entry: TrainEntry) -> Ids:
        """Return the queued entries that it needs."""
        return tuple(need for need in entry.needs if need in self.entries)

    def walk_couples(self) -> Iterator[tuple[int, Trial]]:
        """Trials of cars, and the car's place."""
        for trials in self.tried.values():
            for trial in trials:
                at = self.place.get(trial.car[0])
                if at is not None and self.cars[at] == trial.car:
                    yield at, trial


def lay_out(seen: Snapshot) -> Layout:
    cars = tuple(tuple(one.id for one in car) for car in seen.cars)
    place = {one: at for at, car in enumerate(cars) for one in car}
    entries = {one.id: one for one in (*seen.waiting, *(one for car in seen.cars for one in car))}
    tried = dict[tuple[Ids, Ids], list[Trial]]()
    alone = dict[str, list[Trial]]()
    for trial in seen.trials:
        if not trial.stale:
            tried.setdefault((trial.ahead, trial.car), []).append(trial)
        if not trial.ahead and len(trial.car) == 1:
            alone.setdefault(trial.car[0], []).append(trial)
    scopes = tuple(scopes_of(car) for car in seen.cars)
    needed = tuple(_needed(at, car, place, entries) for at, car in enumerate(seen.cars))
    return Layout(
        seen=seen,
        cars=cars,
        entries=entries,
        place=place,
        needed=needed,
        scopes=scopes,
        related=_related(scopes, needed),
        barred=_barred(seen.cars, needed),
        covered={trial.id: _covered(trial, cars, place) for trial in seen.trials if not trial.stale},
        tried=tried,
        alone=alone,
    )


def bits(cars: int) -> Iterator[int]:
    while cars:
        low = cars & -cars
        yield low.bit_length() - 1
        cars ^= low


def _needed(at: int, car: tuple[TrainEntry, ...], place: dict[str, int], entries: dict[str, TrainEntry]) -> int | None:
    found, before = 0, set[str]()
    for entry in car:
        for need in entry.needs:
            if need not in entries or need in before:
                continue
            where = place.get(need, at)
            if where >= at:
                return None
            found |= 1 << where
        before.add(entry.id)
    return found


def _related(scopes: tuple[Scopes, ...], needed: tuple[int | None, ...]) -> tuple[int, ...]:
    found, everywhere, by_scope = list[int](), 0, dict[str, int]()
    for at, of_car in enumerate(scopes):
        mask = (1 << at) - 1 if of_car is None else everywhere
        for scope in of_car or ():
            mask |= by_scope.get(scope, 0)
            by_scope[scope] = by_scope.get(scope, 0) | 1 << at
        everywhere |= 1 << at if of_car is None else 0
        found.append(mask if mask == (1 << at) - 1 else _with_needed(mask | (needed[at] or 0), needed))
    return tuple(found)


def _with_needed(cars: int, needed: tuple[int | None, ...]) -> int:
    found, left = 0, cars
    while left:
        at = left.bit_length() - 1
        found |= 1 << at
        left = (left | (needed[at] or 0)) & ~found
    return found


def _barred(cars: tuple[tuple[TrainEntry, ...], ...], needed: tuple[int | None, ...]) -> int:
    found = 0
    for at, car in enumerate(cars):
        needs = needed[at]
        if needs is None or needs & found or any(one.held or not one.ready for one in car):
            found |= 1 << at
    return found


def _covered(trial: Trial, cars: tuple[Ids, ...], place: dict[str, int]) -> int:
    members = Counter(place[one] for one in trial.spec if one in place)
    return sum(1 << at for at, count in members.items() if count == len(cars[at]))
