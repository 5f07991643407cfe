"""One plan with all that its rules look at, and the questions that several rules ask."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.plan.graph import Graph, TaskNeeds
from forgepool.orchestrator.plan.overlap import NOTHING, Globs
from forgepool.orchestrator.plan.validation.facts import Fault, Level, PlanFacts, PlanLimits, Requirement
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.workers.agents.briefing.prediction.signals import words
from forgepool.workers.agents.briefing.prediction.snapshot import IndexedTree
from forgepool.workers.schema.globs import Tree, parse
from forgepool.workers.schema.orders import CommandAgent


@dataclass(frozen=True, kw_only=True)
class Case:
    """A plan and what it is compared with."""

    plan: Plan
    lines: PlanLines
    facts: PlanFacts
    requirements: Sequence[Requirement] | None
    limits: PlanLimits

    def fault(self, rule: str, task: Task, where: Sequence[str | int], sentence: str, level: Level = "error") -> Fault:
        """Return a fault of a task, at the line of one of its keys."""
        line = self.lines.of_task(task.id, *where)
        return Fault(rule=rule, task=task.id, sentence=f"task '{task.id}' {sentence}", line=line, level=level)

    def at_command(self, task: Task, command: str) -> tuple[str, int]:
        """Return the place of an acceptance command in its task."""
        if command in task.guards:
            return "guards", task.guards.index(command)
        return "acceptance", task.acceptance.index(command)

    @cached_property
    def named(self) -> IndexedTree:
        """The base's paths, to find those that a text names."""
        return IndexedTree(dict.fromkeys(self.facts.paths, ""), {})

    @cached_property
    def tasks(self) -> dict[str, Task]:
        return {task.id: task for task in self.plan.tasks}

    @cached_property
    def tree(self) -> Tree:
        return Tree.of(self.facts.paths)

    def is_there(self, path: str) -> bool:
        """Tell whether the base has a file or folder of that path."""
        return path in self.tree.files or path in self.tree.directories

    def match_files(self, glob: str) -> Iterator[str]:
        """Yield the files of the base that a glob covers."""
        ways = parse(glob).ways
        if all(way.literal is not None and way.literal not in self.tree.directories for way in ways):
            yield from (way.literal for way in ways if way.literal in self.tree.files)
        else:
            yield from (path for path in self.facts.paths if any(way.matches(path) for way in ways))

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of the plan that may name a file."""
        return frozenset(word for task in self.plan.tasks for word in words(words_of(task)))

    @cached_property
    def writes(self) -> dict[str, Globs | None]:
        """The globs that each task may write; None where it declares none."""
        return {task.id: None if task.files is None else Globs.of(task.files) for task in self.plan.tasks}

    @cached_property
    def graph(self) -> Graph:
        return Graph(
            [
                TaskNeeds(
                    id=task.id,
                    needs=tuple(need.id for need in task.needs),
                    writes=self.writes[task.id],
                    reads=Globs.of(task.reads) if task.reads else NOTHING,
                    position=at,
                )
                for at, task in enumerate(self.plan.tasks)
            ],
            undeclared=self.plan.undeclared,
            reads_block=self.plan.reads == "block",
        )

    def is_before(self, first: str, second: str) -> bool:
        """Tell whether the second task needs the first one, directly or through others."""
        return first in self.needs(second)

    def needs(self, task: str) -> frozenset[str]:
        """Return all tasks that a task needs, directly or through others."""
        if task not in self._needs:
            seen, waiting = set[str](), [task]
            while waiting:
                new = [need.id for need in self.tasks[waiting.pop()].needs if need.id not in seen]
                seen.update(new)
                waiting += new
            self._needs[task] = frozenset(seen)
        return self._needs[task]

    @cached_property
    def _needs(self) -> dict[str, frozenset[str]]:
        return {}

    def makers(self, task: Task, globs: Globs) -> list[str]:
        """Return the other tasks that declare to write one of these paths, in the plan's order."""
        found = self.graph.find_writers(globs) - {task.id}
        return sorted(found, key=lambda name: self.graph.tasks[name].position)

    def may_make(self, task: Task, path: str) -> bool:
        """Tell whether a path can be there once the task is done: the task, or one that it needs, may write it."""
        writers = (task.id, *self.needs(task.id))
        return any((globs := self.writes[each]) is None or globs.covers(path) for each in writers)


def words_of(task: Task) -> str:
    """Return all that a person or planner wrote about a task, its commands included."""
    command = task.agent.run if isinstance(task.agent, CommandAgent) else ""
    return "\n".join([task.title, task.description, *task.acceptance, command])


def is_by_model(task: Task) -> bool:
    return not isinstance(task.agent, CommandAgent)
