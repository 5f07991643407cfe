"""
Locks on paths beyond the declared ones: a request is granted, waits, or is refused. Pure.

A candidate that touched undeclared paths waits until no other task holds them, and enters the train with them. A
running attempt asks before it touches them, and is answered at once. It holds free paths from then on. For paths that
are not free the attempt ends, and the next one starts when they are: no task waits with a slot or a lock.

Paths that other runs have in flight keep only tasks from starting. What is in flight waits for no other run, so that
two runs never wait for one another.
"""

from collections.abc import Mapping

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import again_or_stop, reason_of_scope, reason_of_unmended
from forgepool.orchestrator.journal.ask_events import Ask
from forgepool.orchestrator.journal.events import (
    EntryQueued,
    Event,
    LockExtended,
    PathsGranted,
    PathsQueued,
    PathsRefused,
    TasksHeld,
)
from forgepool.orchestrator.plan.overlap import NOTHING, Globs
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_FLIGHT, TaskState
from forgepool.workers.schema.globs import normal


def waits_for(course: PlanIndex, state: RunState, task: TaskState) -> str | None:
    """
    The task in flight whose lock a candidate has to wait for, because of paths it touched undeclared.

    Where candidates wait for one another in a circle, the one that was answered first goes on.
    """
    for other in _holders(course, state, task):
        circle = other.phase == "candidate" and _waits_on(course, state, other, task)
        if not circle or (other.since, other.id) < (task.since, task.id):
            return other.id
    return None


def may_ask(course: PlanIndex, task_id: str) -> bool:
    """
    Tell whether an attempt at this task may ask for paths: not where the plan forbids it to leave what it declared.
    """
    declared = course.tasks[task_id].files
    return declared is None or (course.plan.scope == "extend" and bool(declared))


PathsElsewhere = Mapping[str, Globs] | None
"""By run, the paths that other runs have in flight on this target; None where that is not known."""

_LONGEST_HOLD_S = 1800.0
"""Seconds that a task waits for other runs before it starts all the same: they may take turns with its paths."""


def hold_back(course: PlanIndex, state: RunState, elsewhere: PathsElsewhere) -> list[TasksHeld]:
    """Tell which tasks wait for paths that other runs have in flight, where that has changed."""
    if elsewhere is None or not (elsewhere or state.elsewhere):
        return []
    held = _find_held(course, state, elsewhere)
    before = {task: (by.run, by.path) for task, by in state.elsewhere.items() if by.run}
    return [] if held == before else [TasksHeld(tasks=held)]


def _find_held(course: PlanIndex, state: RunState, elsewhere: Mapping[str, Globs]) -> dict[str, tuple[str, str]]:
    graph, frontier, wanted = course.graph, course.frontier(state), course.find_wanted_locks(state)
    held: dict[str, tuple[str, str]] = {}
    for run, paths in sorted(elsewhere.items()):
        # A task that declares nothing has no paths that could meet any, and starts.
        met = graph.find_locked_out("", paths)
        met |= {task for task, more in wanted.items() if paths.meets(more)}
        for task in sorted(task for task in met if task in frontier and task not in held):
            known = state.elsewhere.get(task)
            if known is not None and known.run == run:
                # Another path of the same run is no news.
                held[task] = (run, known.path)
            elif pair := _paths_of(course, task, wanted).witness(paths):
                held[task] = (run, pair[1])
    return held


def _paths_of(course: PlanIndex, task: str, wanted: Mapping[str, Globs]) -> Globs:
    """Return what a task writes, then what it reads."""
    needs = course.graph.tasks[task]
    return (needs.writes or NOTHING) | wanted.get(task, NOTHING) | needs.reads


def find_tasks_held_elsewhere(state: RunState, now: float) -> frozenset[str]:
    """Return the tasks that may not start now because of other runs, as far as it is journaled."""
    waiting = state.elsewhere.items()
    return frozenset(task for task, by in waiting if by.run and abs(now - by.since) < _LONGEST_HOLD_S)


def admit_candidates(course: PlanIndex, state: RunState) -> list[Event]:
    """
    Candidates that may enter the train. One at a time: a lock taken by one may be waited for by the next.
    """
    waiting = sorted(state.in_phase("candidate"), key=lambda task: (task.since, task.id))
    for task in waiting:
        outside = _outside(course, task)
        answers = course.tasks[task.id].answers
        if answers or (outside and not may_ask(course, task.id)):
            # A worker of an earlier version knows no task that answers, and makes a candidate of it.
            declared = course.tasks[task.id].files or ()
            reason = reason_of_scope(outside, declared, attempt=task.made_by)
            return [again_or_stop(course, task, reason)]
        if (same := reason_of_unmended(task)) is not None:
            return [again_or_stop(course, task, same)]
        if waits_for(course, state, task) is None:
            extended: list[Event] = [LockExtended(task=task.id, paths=outside)] if outside else []
            return [*extended, EntryQueued(task=task.id, reviewed=course.wants_review(task))]
    return []


def answer_ask(course: PlanIndex, state: RunState) -> list[Event]:
    """The answer to the oldest open question. One at a time: what is granted to one is held from the next."""
    asking = [(ask, task) for task in state.working() for ask in task.asks.values() if ask.verdict is None]
    if not asking:
        return []
    ask, task = min(asking, key=lambda one: (one[0].at, one[1].id))
    return [_answer(course, state, task, ask)]


def _answer(course: PlanIndex, state: RunState, task: TaskState, ask: Ask) -> Event:
    wrong = next((path for path in ask.paths if not _is_path(path)), None)
    if wrong is not None:
        why = f"'{wrong}' is no path within the repository; name files by their paths from its top"
        return PathsRefused(task=task.id, attempt=task.attempt, number=ask.number, why=why)
    wanted = beyond(course, task, ask.paths)
    if wanted and not may_ask(course, task.id):
        strict = (
            "the plan says `scope: strict`" if course.tasks[task.id].files else "`files: []` lets it change nothing"
        )
        why = f"{_some(wanted)} is outside its `files`, and {strict}"
        return PathsRefused(task=task.id, attempt=task.attempt, number=ask.number, why=why)
    other = _in_the_way(course, state, task, wanted)
    if other is None:
        return PathsGranted(task=task.id, attempt=task.attempt, number=ask.number, paths=wanted)
    why = f"task '{other}' is at work on {_some(wanted)}"
    return PathsQueued(task=task.id, attempt=task.attempt, number=ask.number, paths=wanted, why=why)


def _is_path(path: str) -> bool:
    return bool(normal(path)) and "\0" not in path


def _in_the_way(course: PlanIndex, state: RunState, task: TaskState, wanted: tuple[str, ...]) -> str | None:
    """Return a task in flight that holds one of these paths or, where reads block, reads one."""
    paths = Globs.exactly(wanted)
    others = (one for one in state.in_phase(*IN_FLIGHT) if one.id != task.id)
    stand = course.graph.stands_in_the_way
    return next((one.id for one in others if wanted and stand(one.id, course.lock(one), paths)), None)


def _some(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _holders(course: PlanIndex, state: RunState, task: TaskState) -> list[TaskState]:
    """Return the tasks in flight that hold what a candidate touched undeclared."""
    return _holding(course, state, task, _outside(course, task))


def _holding(course: PlanIndex, state: RunState, task: TaskState, paths: tuple[str, ...]) -> list[TaskState]:
    if not paths:
        return []
    touched = Globs.exactly(paths)
    by_plan = course.graph.find_writers(touched)
    others = (one for one in state.in_phase(*IN_FLIGHT) if one.id != task.id)
    return [one for one in others if one.id in by_plan or (one.extra and _holds_beyond(course, one, touched))]


def _holds_beyond(course: PlanIndex, task: TaskState, touched: Globs) -> bool:
    held = course.lock(task)
    return held is not None and held.meets(touched)


def _waits_on(course: PlanIndex, state: RunState, task: TaskState, wanted: TaskState) -> bool:
    """Tell whether a candidate waits for another, directly or through further candidates."""
    seen = {task.id}
    waiting = [task]
    while waiting:
        for holder in _holders(course, state, waiting.pop()):
            if holder.id == wanted.id:
                return True
            if holder.phase == "candidate" and holder.id not in seen:
                seen.add(holder.id)
                waiting.append(holder)
    return False


def _outside(course: PlanIndex, task: TaskState) -> tuple[str, ...]:
    """The paths a candidate touched that its lock does not cover."""
    return () if task.result is None else beyond(course, task, task.result.paths)


def beyond(course: PlanIndex, task: TaskState, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths that the task's lock does not cover. Invalid paths are never covered."""
    held = course.lock(task)
    return tuple(path for path in paths if held is None or not _is_path(path) or not held.covers(path))
