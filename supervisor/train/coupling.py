"""The next entry to go, its companions in one batch, and its place among the batches."""

import math
from collections import Counter
from collections.abc import Iterator

from forgepool.supervisor.train.facts import green_prefix
from forgepool.supervisor.train.layout import Layout, lay_out
from forgepool.supervisor.train.model import Couple, Snapshot, TrainEntry, TrainPolicy, have_common
from forgepool.supervisor.train.odds import entry_risk
from forgepool.supervisor.train.queue import RANK

FIRST = -1
"""The rank of an entry that was overtaken as often as allowed."""
HOTFIX = RANK["hotfix"]
_MOSTLY_NAMED = 0.5
"""The share of red cars with suspects above which entries of any risk share a car."""


def ranks(layout: Layout) -> dict[str, int]:
    """Return the order of the waiting entries: by class, then by acceptance; what one needs goes before it."""
    policy = layout.seen.policy
    found = dict[str, int]()
    waiting = {entry.id: entry for entry in layout.seen.waiting}
    for entry in sorted(waiting.values(), key=lambda entry: order(entry, policy)):
        for one in _with_needs(entry, waiting, found):
            found[one.id] = order(entry, policy)[0]
    return found


def in_order(seen: Snapshot) -> list[str]:
    """All entries in the order in which they are to land: cars, hotfixes that wait among them, then the others."""
    layout = lay_out(seen)
    found = ranks(layout)
    hot = [one for one, rank in found.items() if rank == HOTFIX]
    place = _place(layout, [layout.entries[one] for one in hot], HOTFIX)
    cars = [*layout.cars[:place], tuple(hot), *layout.cars[place:]]
    return [*(one for car in cars for one in car), *(one for one in found if one not in hot)]


def order(entry: TrainEntry, policy: TrainPolicy) -> tuple[int, int, str]:
    rank = FIRST if entry.overtaken >= policy.most_overtaken else RANK[entry.klass]
    return rank, entry.accepted, entry.id


def next_car(layout: Layout, able: dict[str, int]) -> Couple | None:
    """Return the first of these entries that may go, with those like it."""
    backlog = [layout.entries[one] for one in able]
    aboard = Counter(one.submitter for car in layout.seen.cars for one in car)
    first = next(_may_be_first(layout, backlog, aboard), None)
    if first is None:
        return None
    car = [first]
    size = _size(layout, first, len(backlog))
    aboard[first.submitter] += 1
    for entry in _like(first, backlog):
        if len(car) >= size:
            break
        if _goes_with(layout, entry, car, able) and not _has_enough(layout, entry, backlog, aboard):
            car.append(entry)
            aboard[entry.submitter] += 1
    return Couple(entries=tuple(one.id for one in car), at=_place(layout, car, able[first.id]))


def _like(first: TrainEntry, backlog: list[TrainEntry]) -> list[TrainEntry]:
    """In their order, those first that share a scope with it: who shares none waits for others for nothing."""
    return sorted(backlog, key=lambda entry: not have_common(first.scopes, entry.scopes))


def _with_needs(entry: TrainEntry, waiting: dict[str, TrainEntry], found: dict[str, int]) -> Iterator[TrainEntry]:
    """An entry and all it needs that waits, the needed first; in a cycle, each once."""
    met, stack = set[str](), [(entry, False)]
    while stack:
        one, is_done = stack.pop()
        if is_done:
            yield one
        elif one.id not in met and one.id not in found:
            met.add(one.id)
            stack.append((one, True))
            stack.extend((waiting[need], False) for need in reversed(one.needs) if need in waiting)


def _may_be_first(layout: Layout, backlog: list[TrainEntry], aboard: Counter[str]) -> Iterator[TrainEntry]:
    free = [entry for entry in backlog if all(need in layout.place for need in layout.needs(entry))]
    return (entry for entry in free if not _has_enough(layout, entry, free, aboard))


def _has_enough(layout: Layout, entry: TrainEntry, others: list[TrainEntry], aboard: Counter[str]) -> bool:
    """Tell whether its submitter has as many entries in batches as allowed while other submitters wait."""
    cap = layout.seen.policy.most_of_one
    if cap is None or aboard[entry.submitter] < cap:
        return False
    return any(other.submitter != entry.submitter and aboard[other.submitter] < cap for other in others)


def _size(layout: Layout, first: TrainEntry, backlog: int) -> int:
    """
    Return the size that the backlog asks for, capped where it stops paying: about one over the root of the risk.

    Where reds name their suspects they take no halving, and cost one more run whatever the size.
    """
    if first.single:
        return 1
    halved = max(0.01, 1 - layout.seen.named)
    pays = round(1 / math.sqrt(max(1e-3, entry_risk(first))) / halved)
    return max(1, min(layout.seen.policy.most, math.ceil(backlog / max(1, layout.seen.slots)), pays))


def _goes_with(layout: Layout, entry: TrainEntry, car: list[TrainEntry], able: dict[str, int]) -> bool:
    first, aboard = car[0], {one.id for one in car}
    if entry.single or entry.id in aboard or entry.kind != first.kind:
        return False
    if (able[entry.id] == HOTFIX) != (able[first.id] == HOTFIX):
        return False
    if any(need not in layout.place and need not in aboard for need in layout.needs(entry)):
        return False
    # Where a red mostly names its suspects, the others lose one run by it, and what is known to be good needs no own.
    return layout.seen.named > _MOSTLY_NAMED or entry_risk(entry) <= 2 * entry_risk(first) + 0.02


def _place(layout: Layout, car: list[TrainEntry], rank: int) -> int:
    """
    Return the last place; a hotfix's is the first behind green batches, other hotfixes, its needs, and overtaken
    entries.
    """
    if rank != HOTFIX:
        return len(layout.cars)
    most = layout.seen.policy.most_overtaken
    stays = [
        at + 1
        for at, other in enumerate(layout.seen.cars)
        if any(one.klass == "hotfix" or one.overtaken >= most for one in other)
    ]
    needed = [layout.place[need] + 1 for one in car for need in layout.needs(one) if need in layout.place]
    return max(green_prefix(layout), *stays, *needed, 0)
