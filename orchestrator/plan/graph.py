"""
The graph of a plan's tasks: their needs, locks and ranks, and the check of the needs as they are written. Pure.

A graph is built once for a plan and holds no state of a run, which `readiness` gets with each call. Conflicts between
tasks are computed when first asked for.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Literal

from forgepool.orchestrator.plan.entries import PlanReading, WrittenTask
from forgepool.orchestrator.plan.overlap import NOTHING, Globs, OverlapIndex
from forgepool.workers.schema.mistakes import MAX_MISTAKES, nearest

Undeclared = Literal["optimistic", "exclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNeeds:
    """A task as the scheduler sees it."""

    id: str
    needs: tuple[str, ...] = ()
    writes: Globs | None = None
    """None is undeclared, which differs from writing nothing."""
    reads: Globs = NOTHING
    priority: int = 0
    duration_s: float | None = None
    position: int = 0
    """Its place in the plan."""
    soft: bool = False
    """Those that need it wait for its end alone, however it ends."""


class Graph:
    """
    The tasks of a plan with their dependents, rank and conflicts.

    Raises:
        ValueError: two tasks share an id, one needs a task that does not exist, or needs run in a circle.
    """

    def __init__(
        self,
        tasks: Sequence[TaskNeeds],
        *,
        learned: Mapping[str, float] | None = None,
        undeclared: Undeclared = "optimistic",
        reads_block: bool = True,
    ) -> None:
        self.tasks: Mapping[str, TaskNeeds] = {task.id: task for task in tasks}
        self.everyone = frozenset(self.tasks)
        self._needs = {task.id: frozenset(task.needs) for task in tasks}
        self.after = _after(tasks)
        """The direct dependents of each task."""
        self.duration_s = _durations(tasks, learned or {})
        backwards = _dependents_first(self.tasks, self.after)
        self._place = {task: at for at, task in enumerate(reversed(backwards))}
        self._remaining_s = _remaining(backwards, self.after, self.duration_s)
        self._bit = {task.id: 1 << at for at, task in enumerate(tasks)}
        self._behind = _behind(backwards, self.after, self._bit)
        self.order = tuple(sorted(self.tasks, key=self._standing))
        """The order of starting: priority, longest remaining path, most dependents, place in the plan."""
        self.rank: Mapping[str, int] = {task: at for at, task in enumerate(self.order)}
        self.alone = frozenset(task.id for task in tasks if task.writes is None and undeclared == "exclusive")
        """Tasks that run alone, without any other in flight."""
        self.soft = frozenset(task.id for task in tasks if task.soft)
        """Tasks whose end satisfies a need, whatever it is."""
        self._reads_block = reads_block
        self._writers = OverlapIndex({task.id: task.writes for task in tasks if task.writes})
        self._readers = OverlapIndex({task.id: task.reads for task in tasks if task.reads and reads_block})
        # Bounded, since a task may hold many locks in its life, with room for all in flight.
        self._locked_out = lru_cache(maxsize=max(1024, 4 * len(self.tasks)))(self._find_locked_out)

    def remaining_path_s(self, task: str) -> float:
        """Return the seconds of the longest path from the start of this task to the end of the plan."""
        return self._remaining_s[task]

    def dependents(self, task: str) -> int:
        """Count the tasks that need it, directly or through others."""
        return self._behind[task].bit_count()

    def after_all(self, tasks: Iterable[str]) -> list[str]:
        """Return all direct and indirect dependents of these tasks, each after its own needs."""
        behind: set[str] = set()
        waiting = list(tasks)
        while waiting:
            new = [task for task in self.after[waiting.pop()] if task not in behind]
            behind.update(new)
            waiting += new
        return sorted(behind, key=self._place.__getitem__)

    def is_ordered(self, a: str, b: str) -> bool:
        """Return whether one of the two needs the other, directly or through others."""
        return bool(self._behind[a] & self._bit[b] or self._behind[b] & self._bit[a])

    def find_locked_out(self, task: str, lock: Globs | None) -> frozenset[str]:
        """
        Return the tasks that may not start while this one is in flight with this write lock; None is no lock.

        The holder need not be a task of this plan. A task may be in its own answer.
        """
        if task in self.alone:
            return self.everyone
        own = self.tasks.get(task)
        return self._locked_out(lock or NOTHING, own.reads if own and self._reads_block else NOTHING)

    def _find_locked_out(self, writes: Globs, reads: Globs) -> frozenset[str]:
        by_reading = self._writers.meeting(reads) if reads else frozenset[str]()
        return self._writers.meeting(writes) | self._readers.meeting(writes) | by_reading | self.alone

    def find_writers(self, paths: Globs) -> frozenset[str]:
        """Return the tasks that declare to write one of these paths."""
        return self._writers.meeting(paths)

    def stands_in_the_way(self, task: str, lock: Globs | None, wanted: Globs) -> bool:
        """Return whether a task in flight with this lock keeps others from writing these paths."""
        if lock is not None and lock.meets(wanted):
            return True
        return self._reads_block and task in self.tasks and self.tasks[task].reads.meets(wanted)

    def witness(self, task: str, other: str, lock: Globs | None, *, wanted: Globs = NOTHING) -> tuple[str, str] | None:
        """
        Return the globs, theirs and ours, that keep this task from starting beside the other one and its lock.

        `wanted` are globs that this task will hold on top of those it declares.
        """
        if task in self.alone or other in self.alone:
            return "**", "**"
        own, theirs = self.tasks[task], self.tasks.get(other)
        writes = (own.writes or NOTHING) | wanted
        pairs: list[tuple[Globs | None, Globs]] = [(lock, writes)]
        if self._reads_block:
            pairs += [(lock, own.reads), (theirs.reads if theirs else None, writes)]
        meetings = (held.witness(wanted) for held, wanted in pairs if held and wanted)
        return next(filter(None, meetings), None)

    def needs_landed(self, task: str, landed: Set[str]) -> bool:
        needs = self._needs[task]
        return not needs or needs <= landed

    def _standing(self, task: str) -> tuple[float, float, int, int]:
        own = self.tasks[task]
        return -own.priority, -self._remaining_s[task], -self.dependents(task), own.position


def find_cycle(tasks: Iterable[TaskNeeds]) -> tuple[str, ...] | None:
    """Return a circle of needs as `(a, b, c)` where a needs b, b needs c and c needs a; None if there is none."""
    needs = {task.id: task.needs for task in tasks}
    known = {name: [need for need in own if need in needs] for name, own in needs.items()}
    return next(map(tuple, _cycles(known)), None)


def largest_together(graph: Graph) -> int:
    """
    Return the largest number of tasks that can be in flight together, by needs and conflicts.

    It is exact, and only for small plans: the time grows with 1.4 to the power of the number of tasks.
    """
    names = list(graph.tasks)
    apart = [0] * len(names)
    for at, name in enumerate(names):
        locked_out = graph.find_locked_out(name, graph.tasks[name].writes)
        for to, other in enumerate(names):
            if to != at and (other in locked_out or graph.is_ordered(name, other)):
                apart[at] |= 1 << to
                apart[to] |= 1 << at
    return _largest_free((1 << len(names)) - 1, apart)


def _largest_free(left: int, apart: Sequence[int]) -> int:
    inside = [at for at in range(len(apart)) if left >> at & 1]
    at = max(inside, key=lambda task: (apart[task] & left).bit_count(), default=None)
    if at is None or not apart[at] & left:
        return len(inside)
    without = left & ~(1 << at)
    return max(_largest_free(without, apart), 1 + _largest_free(without & ~apart[at], apart))


def _after(tasks: Sequence[TaskNeeds]) -> Mapping[str, tuple[str, ...]]:
    after: dict[str, list[str]] = {task.id: [] for task in tasks}
    if len(after) < len(tasks):
        raise ValueError("two tasks have one id; give each its own")
    for task in tasks:
        for need in dict.fromkeys(task.needs):
            if need not in after:
                raise ValueError(f"task '{task.id}' needs '{need}', which is not among the tasks; name one that is")
            after[need].append(task.id)
    return {name: tuple(dependents) for name, dependents in after.items()}


def _durations(tasks: Sequence[TaskNeeds], learned: Mapping[str, float]) -> Mapping[str, float]:
    """Return durations as given, else as learned, else the median of the known ones, else 1 s."""
    known = {task.id: learned.get(task.id) if task.duration_s is None else task.duration_s for task in tasks}
    from statistics import median

    usual = median([seconds for seconds in known.values() if seconds is not None] or [1.0])
    return {name: usual if seconds is None else seconds for name, seconds in known.items()}


def _dependents_first(tasks: Mapping[str, TaskNeeds], after: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    left = {name: len(dependents) for name, dependents in after.items()}
    ordered = [name for name, count in left.items() if not count]
    for name in ordered:
        for need in dict.fromkeys(tasks[name].needs):
            left[need] -= 1
            if not left[need]:
                ordered.append(need)
    if len(ordered) < len(tasks):
        circle = find_cycle(tasks.values()) or ()
        raise ValueError(f"needs run in a circle: {' -> '.join((*circle, *circle[:1]))}; take one of them out")
    return tuple(ordered)


def _remaining(
    backwards: Sequence[str], after: Mapping[str, tuple[str, ...]], duration_s: Mapping[str, float]
) -> Mapping[str, float]:
    remaining: dict[str, float] = {}
    for name in backwards:
        remaining[name] = duration_s[name] + max((remaining[then] for then in after[name]), default=0.0)
    return remaining


def _behind(
    backwards: Sequence[str], after: Mapping[str, tuple[str, ...]], bit: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the set of each task's transitive dependents, as the bits of a number."""
    behind: dict[str, int] = {}
    for name in backwards:
        reached = 0
        for then in after[name]:
            reached |= behind[then] | bit[then]
        behind[name] = reached
    return behind


_MOST_NEEDS = 1_000_000


def needs_of_all(
    reading: PlanReading, written: Sequence[WrittenTask], standing: Collection[str] = ()
) -> dict[str, dict[str, bool]]:
    """
    Return each task's needs, with groups replaced by their members; True asks for the full output. They may also be of
    tasks that stand already.
    """
    names: dict[str, list[str]] = {one: [one] for one in (*standing, *(each.entry.id for each in written))}
    for entry in reading.source.tasks:
        if entry.group_name:
            names.setdefault(entry.group_name, [])
    for each in written:
        if group := reading.source.tasks[each.index].group_name:
            names[group].append(each.entry.id)
    needs: dict[str, dict[str, bool]] = {}
    count = 0
    for each in written:
        needs[each.entry.id] = _needs_of(reading, each, names, "run" if standing else "plan")
        count += len(needs[each.entry.id])
        if count > _MOST_NEEDS:
            sentence = f"makes more than {_MOST_NEEDS:,} needs in all; put one task between the two groups"
            reading.refuse(each.index, ("needs",), f"task '{each.entry.id}' {sentence}")
            return {}
    return needs


def _needs_of(
    reading: PlanReading, task: WrittenTask, names: Mapping[str, Sequence[str]], around: str
) -> dict[str, bool]:
    needs: dict[str, bool] = {}
    for at, text in enumerate(task.entry.needs):
        name, colon, depth = text.partition(":")
        if colon and depth != "full":
            wrong = f"needs '{text}'; write '{name}' or '{name}:full'"
        elif name not in names:
            wrong = f"needs '{name}', which is not in the {around}; tasks are: {_nearest_first(reading, name, names)}"
        elif task.entry.id in names[name]:
            wrong = "needs itself; remove the need"
        else:
            needs.update({each: needs.get(each, False) or bool(colon) for each in names[name]})
            continue
        reading.refuse(task.index, ("needs", at), f"task '{task.entry.id}' {wrong}")
    return needs


def _nearest_first(reading: PlanReading, name: str, names: Mapping[str, object]) -> str:
    """List at most ten names. Beyond the number of shown mistakes, similar names are not searched, which takes time."""
    like = nearest(name, names, 10) if len(reading.wrong) < MAX_MISTAKES else []
    shown = list(dict.fromkeys([*like, *islice(names, 10)]))[:10]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def check_cycles(reading: PlanReading, written: Sequence[WrittenTask], needs: Mapping[str, Iterable[str]]) -> None:
    at = {each.entry.id: each for each in written}
    for circle in _cycles(needs):
        # Tasks that stood before make no circle alone.
        first = next(place for place, name in enumerate(circle) if name in at)
        cycle = [*circle[first:], *circle[:first]]
        task = at[cycle[0]]
        names = [*cycle, cycle[0]] if len(cycle) <= 10 else [*cycle[:8], "...", cycle[-1], cycle[0]]
        sentence = f"task '{task.entry.id}' waits for itself: {' -> '.join(names)}; remove one of these needs"
        reading.refuse(task.index, ("needs",), sentence)


def _cycles(needs: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """
    Return cycles among needs, at least one for each set of entangled tasks. Linear, and without recursion.

    Each task that can never start needs another such task, so following these needs leads into a cycle.
    """
    stuck = _stuck(needs)
    next_of = {task: next(need for need in needs[task] if need in stuck) for task in needs if task in stuck}
    order = {task: at for at, task in enumerate(needs)}
    cycles: list[list[str]] = []
    seen: dict[str, str] = {}
    for start in next_of:
        path: list[str] = []
        task = start
        while task not in seen:
            seen[task] = start
            path.append(task)
            task = next_of[task]
        if seen[task] == start:
            cycle = path[path.index(task) :]
            first = cycle.index(min(cycle, key=order.__getitem__))
            cycles.append([*cycle[first:], *cycle[:first]])
    return cycles


def _stuck(needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the tasks that can never start."""
    waiting = {task: set(of) for task, of in needs.items()}
    dependents: dict[str, list[str]] = defaultdict(list)
    for task, of in waiting.items():
        for need in of:
            dependents[need].append(task)
    free = [task for task, of in waiting.items() if not of]
    while free:
        done = free.pop()
        del waiting[done]
        for task in dependents[done]:
            waiting[task].discard(done)
            if not waiting[task]:
                free.append(task)
    return set(waiting)
