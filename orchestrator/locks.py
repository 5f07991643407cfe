"""
Paths beyond the declared ones: who gets them, who waits, who is refused. Pure.

A candidate that touched undeclared paths waits until nobody else holds them, and enters the train with them. A running
attempt asks before it touches them: free paths it holds from then on; for others it waits, with its worker, but only
for somebody who does not wait himself, and not for ever.
"""

from orchestrator.course import Course
from orchestrator.events import EntryQueued, Event, LockExtended, PathsGranted, PathsRefused
from orchestrator.overlap import Globs
from orchestrator.retries import again_or_stop, reason_of_scope
from orchestrator.state import State
from orchestrator.task_state import IN_FLIGHT, Ask, TaskState

LONGEST_WAIT_S = 600.0
"""Seconds that a running attempt, and its worker with it, waits for paths that another task holds."""


def waits_for(course: Course, state: State, task: TaskState) -> str | None:
    """
    The task in flight whose lock a candidate has to wait for, because of paths it touched undeclared.

    Where candidates wait for one another in a circle, the one that was answered first goes on.
    """
    for other in _holders(course, state, task):
        circle = other.phase == "candidate" and _waits_on(course, state, other, task)
        if not circle or (other.since, other.id) < (task.since, task.id):
            return other.id
    return None


def may_ask(course: Course, task_id: str) -> bool:
    """Whether an attempt at this task may ask for paths: not where the plan forbids it to leave what it declared."""
    return course.plan.scope == "extend" or course.declared[task_id] is None


def admitted(course: Course, state: State) -> list[Event]:
    """
    Candidates that may enter the train. One at a time: a lock taken by one may be waited for by the next.
    """
    waiting = sorted(state.in_phase("candidate"), key=lambda task: (task.since, task.id))
    for task in waiting:
        outside = _outside(course, task)
        if outside and not may_ask(course, task.id):
            reason = reason_of_scope(outside, attempt=task.result.attempt if task.result else task.attempt)
            return [again_or_stop(task, reason, attempts=course.tasks[task.id].attempts)]
        if waits_for(course, state, task) is None:
            extended: list[Event] = [LockExtended(task=task.id, paths=outside)] if outside else []
            return [*extended, EntryQueued(task=task.id)]
    return []


def answered_asks(course: Course, state: State, now: float) -> list[Event]:
    """
    One question that can be answered now: what is granted to one is held from the next, and who is refused waits no
    more. The oldest is granted first; the youngest is refused first, as it closed the circle.
    """
    asking = [(task, task.ask) for task in state.in_phase("running") if task.ask is not None and _waits(task)]
    asking.sort(key=lambda one: (one[1].at, one[0].id))
    found: list[Event] = [answer for task, ask in asking if (answer := _answer(course, state, task, ask, now))]
    granted = next((one for one in found if isinstance(one, PathsGranted)), None)
    return found[-1:] if granted is None else [granted]


def asked_of(course: Course, state: State, task: TaskState) -> str | None:
    """The task that holds what a running attempt has asked for, and waits for."""
    if task.phase != "running" or task.ask is None or not _waits(task):
        return None
    holders = _holding(course, state, task, beyond(course, task, task.ask.paths))
    return holders[0].id if holders else None


def _answer(course: Course, state: State, task: TaskState, ask: Ask, now: float) -> Event | None:
    wanted = beyond(course, task, ask.paths)
    if wanted and not may_ask(course, task.id):
        why = f"{_some(wanted)} is outside its `files`, and the plan says `scope: strict`"
        return PathsRefused(task=task.id, attempt=task.attempt, why=why)
    holders = _holding(course, state, task, wanted)
    if not holders:
        return PathsGranted(task=task.id, attempt=task.attempt, paths=wanted)
    waiting = next((one for one in holders if _waits(one)), None)
    if waiting is not None:
        why = f"task '{waiting.id}' holds {_some(wanted)}, and waits for other tasks' paths itself"
    elif now >= ask.at + LONGEST_WAIT_S:
        why = f"task '{holders[0].id}' has held {_some(wanted)} for the {LONGEST_WAIT_S / 60:.0f} minutes it waited"
    else:
        return None
    return PathsRefused(task=task.id, attempt=task.attempt, why=why)


def _waits(task: TaskState) -> bool:
    """Whether a task in flight waits for paths: a candidate may, a running attempt does while its asking is open."""
    return task.phase == "candidate" or (task.phase == "running" and task.ask is not None and task.ask.granted is None)


def _some(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _holders(course: Course, state: State, task: TaskState) -> list[TaskState]:
    """Who in flight holds what a candidate touched undeclared."""
    return _holding(course, state, task, _outside(course, task))


def _holding(course: Course, state: State, task: TaskState, paths: tuple[str, ...]) -> list[TaskState]:
    if not paths:
        return []
    touched = Globs.exactly(paths)
    others = (one for one in state.tasks.values() if one.phase in IN_FLIGHT and one.id != task.id)
    return [one for one in others if (held := course.lock(one)) is not None and held.meets(touched)]


def _waits_on(course: Course, state: State, task: TaskState, wanted: TaskState) -> bool:
    """Whether a candidate waits for another, be it through further candidates."""
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


def _outside(course: Course, task: TaskState) -> tuple[str, ...]:
    """The paths a candidate touched that its lock does not cover."""
    return () if task.result is None else beyond(course, task, task.result.paths)


def beyond(course: Course, task: TaskState, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Of these paths, those that a task in flight does not hold."""
    held = course.lock(task)
    return tuple(path for path in paths if held is None or not held.covers(path))
