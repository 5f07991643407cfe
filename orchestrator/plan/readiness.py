"""
Decides which tasks may start now, and in which order. Pure: no clock, no queue, no journal.

A task may start when its needs have landed and it conflicts with no task in flight: its writes and reads meet no held
write lock, and its writes meet no reads of a task in flight. Reads only count unless the plan says that they do not
block. A task is in flight from its start until it has landed or is abandoned. The higher ranked task goes first
(`Graph.order`), and tasks that start together never conflict with one another.

No task waits for ever. A start *overtakes* a task that ranks higher, has its needs, and conflicts with it. A task that
was overtaken `PATIENCE` times reserves its locks: no lower-ranked task that conflicts with it starts any more. So it
waits for tasks in flight, for higher-ranked ones, and for at most `PATIENCE` others. A task in flight has its needs, so
no reservation keeps it from ending.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from forgepool.orchestrator.plan.graph import Graph, largest_together
from forgepool.orchestrator.plan.overlap import NOTHING, Globs

Locked = Globs | None
"""The write lock of a task in flight: its declared globs, and those granted since; None is no lock yet."""

PATIENCE = 8
_MOST_EXACT = 30
"""In plans of so few tasks, every set of tasks is tried for the widest."""
_NOT_OVERTAKEN: Mapping[str, int] = {}
_NOTHING_WANTED: Mapping[str, Globs] = {}


def ready(
    graph: Graph,
    *,
    landed: Set[str],
    in_flight: Mapping[str, Locked],
    waiting: Collection[str],
    slots: int,
    overtaken: Mapping[str, int] = _NOT_OVERTAKEN,
    wanted: Mapping[str, Globs] = _NOTHING_WANTED,
) -> list[str]:
    """
    Return the tasks to start now, the highest ranked first, at most `slots` of them.

    `waiting` are the pending tasks; leaving out those whose needs have not landed is quicker. `overtaken` has the
    counts of `count_overtaken` so far. `wanted` are globs that waiting tasks will hold on top of those they declare.
    """
    if slots <= 0:
        return []
    able = [graph.rank[task] for task in waiting if task not in in_flight and graph.needs_landed(task, landed)]
    return choose(
        graph,
        sorted(able),
        in_flight=in_flight,
        slots=slots,
        overtaken=lambda task: overtaken.get(task, 0),
        wanted=wanted,
    )


def choose(
    graph: Graph,
    ranks: Iterable[int],
    *,
    in_flight: Mapping[str, Locked],
    slots: int,
    overtaken: Callable[[str], int],
    wanted: Mapping[str, Globs] = _NOTHING_WANTED,
    admit: Callable[[str], bool] = lambda _: True,
) -> list[str]:
    """
    Return the tasks to start now, as `ready` does, of those with these ranks; they come in order, and have their needs.

    `admit` is asked last, and counts on the start of a task that it admits. No more ranks are read than are needed.
    """
    if not graph.alone.isdisjoint(in_flight):
        return []
    refused: set[str] = set()
    for task, lock in in_flight.items():
        refused |= _kept_out(graph, task, lock, wanted)
    return _chosen(graph, ranks, refused, slots, overtaken, wanted, admit)


def _chosen(
    graph: Graph,
    ranks: Iterable[int],
    refused: set[str],
    slots: int,
    overtaken: Callable[[str], int],
    wanted: Mapping[str, Globs],
    admit: Callable[[str], bool],
) -> list[str]:
    """Choose tasks that are not refused, by rank; each refuses those that conflict with it. Changes `refused`."""
    passed: dict[str, int] = {}
    started: list[str] = []
    for rank in ranks:
        if len(started) == slots:
            break
        task = graph.order[rank]
        if task in refused:
            passed[task] = overtaken(task)
            if passed[task] >= PATIENCE:
                refused |= _shut_out_by(graph, task, wanted)
            continue
        if not admit(task):
            continue
        started.append(task)
        shut_out = _shut_out_by(graph, task, wanted)
        refused |= shut_out
        for held_up in passed.keys() & shut_out:
            passed[held_up] += 1
            if passed[held_up] == PATIENCE:
                refused |= _shut_out_by(graph, held_up, wanted)
    return started


def _shut_out_by(graph: Graph, task: str, wanted: Mapping[str, Globs] = _NOTHING_WANTED) -> frozenset[str]:
    """Return the tasks that may not start once this one has."""
    return _kept_out(graph, task, _to_hold(graph, task, wanted), wanted)


def _to_hold(graph: Graph, task: str, wanted: Mapping[str, Globs]) -> Locked:
    """Return the lock that a task holds from its start."""
    writes, more = graph.tasks[task].writes, wanted.get(task)
    return writes if more is None else (writes or NOTHING) | more


def _kept_out(graph: Graph, task: str, lock: Locked, wanted: Mapping[str, Globs]) -> frozenset[str]:
    """Return the tasks that may not start while this one is in flight, by declared or wanted globs."""
    declared = graph.find_locked_out(task, lock)
    if not wanted:
        return declared
    return declared | {other for other, paths in wanted.items() if graph.stands_in_the_way(task, lock, paths)}


def count_overtaken(
    graph: Graph,
    started: Sequence[str],
    *,
    landed: Set[str],
    waiting: Collection[str],
    before: Mapping[str, int] = _NOT_OVERTAKEN,
    wanted: Mapping[str, Globs] = _NOTHING_WANTED,
) -> dict[str, int]:
    """
    Return how often each waiting task was overtaken, now that these have started; the next `ready` needs it.

    `waiting` are the pending tasks, with or without the started ones. `landed` is as it was before the start.
    """
    counts = {task: before[task] for task in before if task in waiting and task not in started}
    for low in started:
        for high in _shut_out_by(graph, low, wanted).intersection(waiting):
            if graph.rank[high] < graph.rank[low] and high not in started and graph.needs_landed(high, landed):
                counts[high] = counts.get(high, 0) + 1
    return counts


def find_overtaken(
    graph: Graph, started: str, *, able: Container[str], wanted: Mapping[str, Globs] = _NOTHING_WANTED
) -> tuple[str, ...]:
    """Return those of the `able` tasks, which have their needs, that this start overtakes."""
    rank = graph.rank[started]
    return tuple(one for one in _shut_out_by(graph, started, wanted) if graph.rank[one] < rank and one in able)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The reasons why a task waits. Without any of them it starts at the next decision."""

    needs: tuple[str, ...] = ()
    """Its needs that have not landed, in the order given."""
    failed: tuple[str, ...] = ()
    """Its needs that never will land."""
    lock: tuple[str, str, str] | None = None
    """A task in flight, the glob it holds, and our glob that meets it; `**` stands for a task that runs alone."""
    reserved: tuple[str, str, str] | None = None
    """The same for a higher-ranked task that was overtaken too often."""
    slot: bool = False
    """True when only a free slot is missing."""


def why_waiting(
    graph: Graph,
    task: str,
    *,
    landed: Set[str],
    in_flight: Mapping[str, Locked],
    failed: Set[str] = frozenset(),
    overtaken: Mapping[str, int] = _NOT_OVERTAKEN,
    slots: int = 0,
    wanted: Mapping[str, Globs] = _NOTHING_WANTED,
) -> Waiting:
    needs = tuple(need for need in graph.tasks[task].needs if need not in landed)
    mine = wanted.get(task, NOTHING)
    lock = _first_witness(graph, task, in_flight, mine)
    impatient = {
        high: _to_hold(graph, high, wanted)
        for high, times in overtaken.items()
        if times >= PATIENCE and graph.rank[high] < graph.rank[task] and high not in in_flight
    }
    reserved = None if needs or lock else _first_witness(graph, task, impatient, mine)
    return Waiting(
        needs=needs,
        failed=tuple(need for need in needs if need in failed),
        lock=lock,
        reserved=reserved,
        slot=not (needs or lock or reserved or slots),
    )


def _first_witness(graph: Graph, task: str, held: Mapping[str, Locked], wanted: Globs) -> tuple[str, str, str] | None:
    for other, lock in held.items():
        if other != task and (pair := graph.witness(task, other, lock, wanted=wanted)):
            return other, *pair
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The analysis of a plan that `forgepool check` shows before it runs."""

    order: tuple[str, ...]
    critical_path: tuple[str, ...]
    critical_path_s: float
    width: int
    """The most tasks that can run together, by needs and locks."""
    width_is: Literal["exact", "simulated"]
    """`simulated` is the widest of the waves, where the plan is too large to try every set."""
    waves: tuple[tuple[str, ...], ...]
    """Tasks that start together if all take equally long and slots do not run out."""
    after_waves: int
    """The number of tasks after the listed waves."""
    conflicts: tuple[tuple[str, str, str, str], ...]
    """`(a, b, glob of a, glob of b)` for tasks that may not run together, and that no need orders."""
    more_conflicts: bool
    alone: tuple[str, ...]
    """Tasks that run alone, which are not repeated among the conflicts."""


def preview(graph: Graph, *, most_waves: int = 100, most_conflicts: int = 1000) -> Preview:
    waves, after_waves = _waves(graph, most_waves)
    conflicts = tuple(islice(find_conflicts(graph), most_conflicts + 1))
    exact = len(graph.order) <= _MOST_EXACT
    path = find_critical_path(graph)
    return Preview(
        order=graph.order,
        critical_path=path,
        critical_path_s=graph.remaining_path_s(path[0]) if path else 0.0,
        width=largest_together(graph) if exact else max(map(len, waves), default=0),
        width_is="exact" if exact else "simulated",
        waves=waves,
        after_waves=after_waves,
        conflicts=conflicts[:most_conflicts],
        more_conflicts=len(conflicts) > most_conflicts,
        alone=tuple(task for task in graph.order if task in graph.alone),
    )


def find_critical_path(graph: Graph) -> tuple[str, ...]:
    """Return the longest path of needs, by the expected durations of the tasks."""
    path: list[str] = []
    choice: Sequence[str] = tuple(graph.tasks)
    while choice:
        path.append(max(choice, key=graph.remaining_path_s))
        choice = graph.after[path[-1]]
    return tuple(path)


def _waves(graph: Graph, most: int) -> tuple[tuple[tuple[str, ...], ...], int]:
    landed: set[str] = set()
    frontier = {task for task, own in graph.tasks.items() if not own.needs}
    waves: list[tuple[str, ...]] = []
    while frontier and len(waves) < most:
        wave = ready(graph, landed=landed, in_flight={}, waiting=frontier, slots=len(frontier))
        waves.append(tuple(wave))
        landed.update(wave)
        frontier.difference_update(wave)
        frontier.update(then for task in wave for then in graph.after[task] if graph.needs_landed(then, landed))
    return tuple(waves), len(graph.order) - len(landed)


def find_conflicts(graph: Graph) -> Iterator[tuple[str, str, str, str]]:
    """Yield `(a, b, glob of a, glob of b)` for tasks that may not run together, and that no need orders."""
    for task in graph.tasks.values():
        beside = _shut_out_by(graph, task.id) - graph.alone if task.id not in graph.alone else ()
        for other in sorted(beside, key=lambda name: graph.tasks[name].position):
            if graph.tasks[other].position <= task.position or graph.is_ordered(task.id, other):
                continue
            if pair := graph.witness(other, task.id, task.writes):
                yield task.id, other, *pair
