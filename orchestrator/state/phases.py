"""
The tasks of a run by phase, and those that may start next by their needs.

Both follow from the tasks, and are kept up as these enter phases. What is asked after every event must not cost a look
at every task of a large plan.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import get_args

from forgepool.orchestrator.plan.graph import Graph
from forgepool.orchestrator.state.task import DONE, TERMINAL, Phase, TaskState


class Phases:
    """Every task in its phase. Lists are in the order of the plan."""

    def __init__(self, tasks: Iterable[TaskState]) -> None:
        self._place: dict[str, int] = {}
        self._by_phase: dict[Phase, dict[str, TaskState]] = {phase: {} for phase in get_args(Phase)}
        self._again: dict[str, TaskState] = {}
        self.done: set[str] = set()
        """The tasks that satisfy what needs them."""
        self.frontier: Frontier | None = None
        """The tasks that may start, once a graph was asked about."""
        for task in tasks:
            self.add(task)
        landed = self._by_phase["landed"].items()
        self._by_phase["landed"] = dict(sorted(landed, key=lambda one: one[1].landed_at))

    def add(self, task: TaskState) -> None:
        self._place[task.id] = len(self._place)
        self._put(task)
        task.entered = self._move

    def each(self, *phases: Phase) -> Iterator[TaskState]:
        """Yield the tasks in these phases, in no order."""
        return (task for phase in phases for task in self._by_phase[phase].values())

    def in_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        return sorted(tasks, key=lambda task: self._place[task.id])

    def count(self, phases: Iterable[Phase]) -> int:
        return sum(len(self._by_phase[phase]) for phase in phases)

    def pending_again(self) -> list[TaskState]:
        """Return the pending tasks that have been tried: only they have troubles, a kept candidate or wanted paths."""
        return self.in_order(self._again.values())

    def latest(self, phase: Phase) -> Iterator[TaskState]:
        """Yield the tasks of a phase, the one that entered it last first."""
        return reversed(self._by_phase[phase].values())

    def _move(self, task: TaskState, was: Phase) -> None:
        del self._by_phase[was][task.id]
        self._again.pop(task.id, None)
        self.done.discard(task.id)
        self._put(task)

    def _put(self, task: TaskState) -> None:
        self._by_phase[task.phase][task.id] = task
        if task.phase == "pending" and task.attempt:
            self._again[task.id] = task
        if task.phase in DONE:
            self.done.add(task.id)
        if self.frontier is not None:
            self.frontier.note(task.id, task.phase)


class Frontier:
    """The pending tasks whose needs are done, by rank, and those that need what will not be done."""

    def __init__(self, graph: Graph, tasks: Iterable[TaskState]) -> None:
        self.graph = graph
        self.ranks: list[int] = []
        """The ranks of those that may start, the highest ranked first."""
        self.doomed: set[str] = set()
        self._able: set[str] = set()
        self._pending: set[str] = set()
        self._done: set[str] = set()
        self._hopeless: set[str] = set()
        self._open = {name: len(set(task.needs)) for name, task in graph.tasks.items()}
        self._lost = dict.fromkeys(graph.tasks, 0)
        for task in tasks:
            self.note(task.id, task.phase)

    def __contains__(self, task: str) -> bool:
        return task in self._able

    def note(self, task: str, phase: Phase) -> None:
        """Take in that the task has entered the phase."""
        if task not in self.graph.tasks:
            return
        done = phase in (TERMINAL if task in self.graph.soft else DONE)
        self._join(self._done, task, done, self._open, -1)
        self._join(self._hopeless, task, phase in TERMINAL and not done, self._lost, 1)
        if phase == "pending":
            self._pending.add(task)
        else:
            self._pending.discard(task)
        self._place(task)

    def _join(self, members: set[str], task: str, joins: bool, count: dict[str, int], step: int) -> None:
        """Take the task in, or out, and count that for those that need it."""
        if joins == (task in members):
            return
        members.symmetric_difference_update((task,))
        for then in self.graph.after[task]:
            count[then] += step if joins else -step
            self._place(then)

    def _place(self, task: str) -> None:
        pending, rank = task in self._pending, self.graph.rank[task]
        able = pending and not self._open[task]
        if able and task not in self._able:
            self._able.add(task)
            insort(self.ranks, rank)
        elif not able and task in self._able:
            self._able.remove(task)
            del self.ranks[bisect_left(self.ranks, rank)]
        if pending and self._lost[task]:
            self.doomed.add(task)
        else:
            self.doomed.discard(task)
