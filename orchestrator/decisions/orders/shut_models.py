"""
Tasks that stay pending while none of their models may be asked, and how they start once one may be. Pure.

A limit that would end an attempt at its first question is waited for without one, so it costs none. What is known of
limits is advice: a run that knows nothing of them sends its orders, and its workers wait.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import ModelsShut
from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent, PhaseName

SHORT_S = 60.0
"""Seconds for which no order is held back: its worker waits as well."""
_STEP_S, _SLOW_S = 5.0, 60.0
"""After a limit one order starts, then twice as many every few seconds, until a minute is over."""
_SAME_S = 1.0
_PHASES: tuple[PhaseName, ...] = ("plan", "execute")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModels:
    """The models that an attempt asks: those of a type of task, with those that are named, or a program's."""

    task_type: str = ""
    names: tuple[str | None, ...] = ()
    program: str = ""


ModelLimits = Mapping[AskedModels, float]
"""Until when none of them may be asked, in Unix seconds, as the workers know it."""


def find_asked(task: Task) -> AskedModels | None:
    """Return the models that attempts at a task ask; None where that is none, or not known."""
    match task.agent:
        case BuiltinAgent() as agent:
            names = dict.fromkeys(agent.models.get(phase) or agent.model for phase in _PHASES)
            return AskedModels(task_type=task.type, names=tuple(names))
        case CliAgent(program=program, model=model):
            return AskedModels(program=program, names=(model,))
        case _:
            return None


def tell_shut(course: PlanIndex, state: RunState, now: float, limits: ModelLimits | None) -> list[ModelsShut]:
    """Tell which waiting tasks have no model that may be asked, where that has changed."""
    if limits is None or not (limits or state.shut_models):
        return []
    known = _known(course, state)
    lasting = {asked: until for asked, until in known.items() if until > now}
    # One that is held already is held to the end.
    current = {asked: until for asked, until in limits.items() if until > now + (0.0 if asked in lasting else SHORT_S)}
    if current.keys() == lasting.keys() and all(abs(current[one] - lasting[one]) <= _SAME_S for one in current):
        return []
    # What is over stays known for a while, so that its tasks do not all start at once.
    over = {asked: until for asked, until in known.items() if now - _SLOW_S < until <= now}
    told: dict[AskedModels, tuple[str, float]] = {}
    for task in _waiting(course, state):
        asked = find_asked(course.tasks[task.id])
        until = None if asked is None else current.get(asked, over.get(asked))
        if asked is not None and until is not None:
            told.setdefault(asked, (task.id, until))
    tasks = dict(told.values())
    return [] if tasks == state.shut_models else [ModelsShut(tasks=tasks, at=now)]


def find_tasks_shut(course: PlanIndex, state: RunState, now: float) -> frozenset[str]:
    """Return the tasks that may not start now because of limits, as far as they are journaled."""
    known = _known(course, state)
    left = {asked: _count_startable(course, state, asked, until, now) for asked, until in known.items()}
    held = []
    for task in _waiting(course, state) if known else ():
        asked = find_asked(course.tasks[task.id])
        if asked is not None and asked in left:
            left[asked] -= 1
            if left[asked] < 0:
                held.append(task.id)
    return frozenset(held)


def find_shut_until(course: PlanIndex, state: RunState, task: TaskState) -> float:
    """Return until when no model of the task may be asked; 0 where that is not journaled."""
    if not state.shut_models:
        return 0.0
    asked = find_asked(course.tasks[task.id])
    return 0.0 if asked is None else _known(course, state).get(asked, 0.0)


def find_treasury_wait(course: PlanIndex, state: RunState, task: TaskState) -> str:
    """Return the sentence on a limit of the treasury that holds back a waiting task; empty where none does."""
    for limit in state.treasury.values():
        # The limit of an account holds back what asks the same models as the task that it was told of.
        other = course.tasks.get(limit.task)
        alike = other is not None and find_asked(other) == find_asked(course.tasks[task.id])
        if limit.effect == "waits" and (alike or not limit.limit.startswith("account ")):
            return limit.words
    return ""


def _known(course: PlanIndex, state: RunState) -> dict[AskedModels, float]:
    found = ((find_asked(course.tasks[one]), until) for one, until in state.shut_models.items() if one in course.tasks)
    return {asked: until for asked, until in found if asked is not None}


def _waiting(course: PlanIndex, state: RunState) -> Iterator[TaskState]:
    """Yield the waiting tasks that have their needs, the highest ranked first."""
    return (state.tasks[course.graph.order[rank]] for rank in course.frontier(state).ranks)


def _count_startable(course: PlanIndex, state: RunState, asked: AskedModels, until: float, now: float) -> int:
    """Return how many tasks that ask these models may start now: after a limit, more and more."""
    if now < until:
        return 0
    if now >= until + _SLOW_S:
        return len(state.tasks)
    started = sum(
        task.message is not None and task.message.issued_at >= until and find_asked(course.tasks[task.id]) == asked
        for task in state.phases.each("running")
    )
    return max(0, int(2 ** ((now - until) // _STEP_S)) - started)
