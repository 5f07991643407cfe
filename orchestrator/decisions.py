"""
What to do next: pure. Plan, state and free slots in; the next events out.

The run loop journals the events, takes them into the state, sends the messages they stand for, and asks again until
there are none. The simulator and the random-event tests ask the same function. No clock, queue, file or git here.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from orchestrator.events import (
    CheckSent,
    EntryQueued,
    Event,
    LandingIntended,
    LockExtended,
    OrderSent,
    RunEnded,
    TaskBlocked,
    TaskParked,
)
from orchestrator.overlap import Globs
from orchestrator.plan import Plan, Task
from orchestrator.readiness import Graph, TaskNeeds, count_overtaken, ready
from orchestrator.retries import again_or_stop, reason_of_check, reason_of_scope, reason_of_work
from orchestrator.state import AT_GATE, IN_FLIGHT, MOST_TROUBLES, TERMINAL, State, TaskState


@dataclass(frozen=True)
class Course:
    """A plan, indexed for decisions. Built once a run."""

    plan: Plan
    learned_s: Mapping[str, float]
    """Seconds tasks took in earlier runs of this plan, where the plan itself says nothing."""

    @cached_property
    def tasks(self) -> dict[str, Task]:
        return {task.id: task for task in self.plan.tasks}

    @cached_property
    def declared(self) -> dict[str, Globs | None]:
        """The globs each task may write; None where it declares none."""
        return {task.id: None if task.files is None else Globs.of(task.files) for task in self.plan.tasks}

    @cached_property
    def graph(self) -> Graph:
        return Graph(
            [
                TaskNeeds(
                    id=task.id,
                    needs=tuple(need.id for need in task.needs),
                    writes=self.declared[task.id],
                    reads=Globs.of(task.reads),
                    priority=task.priority,
                    duration_s=task.duration_s,
                    position=position,
                )
                for position, task in enumerate(self.plan.tasks)
            ],
            learned=self.learned_s,
            undeclared=self.plan.undeclared,
            reads_block=self.plan.reads == "block",
        )

    def lock(self, task: TaskState) -> Globs | None:
        """What a task in flight holds: its declared globs, and the paths it touched besides."""
        declared = self.declared[task.id]
        if not task.extra:
            return declared
        extra = Globs.exactly(task.extra)
        return extra if declared is None else declared | extra

    def in_flight(self, state: State) -> dict[str, Globs | None]:
        return {task.id: self.lock(task) for task in state.tasks.values() if task.phase in IN_FLIGHT}


def decide(course: Course, state: State, *, now: float, order_slots: int, draining: bool) -> list[Event]:
    """
    The next events. Ask again after taking them in; an empty list means: wait for an answer, or for time to pass.

    `order_slots` is how many orders may be in workers' hands at once; `draining` starts nothing new, and neither does a
    gate that is shut.
    """
    if state.finished:
        return []
    for decided in (_settled(course, state), _admitted(course, state), _blocked(course, state)):
        if decided:
            return decided
    if not draining:
        started = [*_next_check(state, now), *_next_orders(course, state, now, order_slots)]
        if started:
            return started
    if all(task.phase in TERMINAL for task in state.tasks.values()):
        landed = len(state.in_phase("landed"))
        return [RunEnded(landed=landed, not_landed=len(state.tasks) - landed)]
    return []


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


def _holders(course: Course, state: State, task: TaskState) -> list[TaskState]:
    """Who in flight holds what a candidate touched undeclared."""
    outside = _outside(course, task)
    if not outside:
        return []
    touched = Globs.exactly(outside)
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


def _settled(course: Course, state: State) -> list[Event]:
    """What follows from answers: once more, failed, or on to the landing."""
    events: list[Event] = []
    for task in state.in_phase("answered", "judged", "pending", "queued"):
        attempts = course.tasks[task.id].attempts
        if task.phase in ("pending", "queued"):
            if task.troubles >= MOST_TROUBLES:
                events.append(TaskParked(task=task.id, question=_trouble_question(task)))
        elif task.phase == "answered" and task.result is not None:
            reason = reason_of_work(task.result, attempt=task.result.attempt)
            events.append(again_or_stop(task, reason, attempts=attempts))
        elif task.verdict is not None and task.verdict.verdict == "green":
            events.append(_landing(state, task))
        elif task.verdict is not None:
            reason = reason_of_check(task.verdict, attempt=_attempt_at_gate(task))
            events.append(again_or_stop(task, reason, attempts=attempts))
    return events


def _attempt_at_gate(task: TaskState) -> int:
    """The attempt whose candidate is judged: not the latest, where a late one was adopted in its place."""
    return task.result.attempt if task.result else task.attempt


def _trouble_question(task: TaskState) -> str:
    return f"infrastructure failed it {task.troubles} times in a row, lastly: {task.detail}; mend it, then retry"


def _admitted(course: Course, state: State) -> list[Event]:
    """
    Candidates that may enter the train. One at a time: a lock taken by one may be waited for by the next.
    """
    waiting = sorted(state.in_phase("candidate"), key=lambda task: (task.since, task.id))
    for task in waiting:
        outside = _outside(course, task)
        if outside and course.plan.scope == "strict" and course.declared[task.id] is not None:
            reason = reason_of_scope(outside, attempt=_attempt_at_gate(task))
            return [again_or_stop(task, reason, attempts=course.tasks[task.id].attempts)]
        if waits_for(course, state, task) is None:
            extended: list[Event] = [LockExtended(task=task.id, paths=outside)] if outside else []
            return [*extended, EntryQueued(task=task.id)]
    return []


def _outside(course: Course, task: TaskState) -> tuple[str, ...]:
    """The paths a candidate touched that its lock does not cover."""
    if task.result is None:
        return ()
    held = course.lock(task)
    return tuple(path for path in task.result.paths if held is None or not held.covers(path))


def _blocked(course: Course, state: State) -> list[Event]:
    """Pending tasks that need what will not land, and at once all that need them."""
    hopeless = {task.id for task in state.tasks.values() if task.phase in TERMINAL and task.phase != "landed"}
    waiting = [one for one in course.graph.after_all(hopeless) if state.tasks[one].phase == "pending"]
    events: list[Event] = []
    for task_id in waiting:
        by = next((need.id for need in course.tasks[task_id].needs if need.id in hopeless), None)
        if by is not None:
            hopeless.add(task_id)
            events.append(TaskBlocked(task=task_id, by=by))
    return events


def _next_check(state: State, now: float) -> Iterator[Event]:
    """The serial train: one entry at the gate at a time, in the order in which they first came."""
    if state.halted or any(task.phase in AT_GATE for task in state.tasks.values()):
        return
    queued = sorted(state.in_phase("queued"), key=lambda task: task.queued_at)
    for task in queued:
        if task.not_before <= now:
            message_id = f"{state.run}.{task.id}.{task.attempt}.check-{task.checks + 1}"
            yield CheckSent(
                task=task.id,
                message_id=message_id,
                token=_token(message_id, now),
                base=state.tip,
                issued_at=now,
            )
            return


def _next_orders(course: Course, state: State, now: float, slots: int) -> Iterator[Event]:
    free = slots - len(state.in_phase("running"))
    if free <= 0 or state.halted:
        return
    landed = {task.id for task in state.in_phase("landed")}
    waiting = [task.id for task in state.in_phase("pending") if task.not_before <= now]
    if not waiting:
        return
    started = ready(
        course.graph,
        landed=landed,
        in_flight=course.in_flight(state),
        waiting=waiting,
        slots=free,
        overtaken={task: state.tasks[task].overtaken for task in waiting},
    )
    for task_id in started:
        overtook = count_overtaken(course.graph, [task_id], landed=landed, waiting=waiting)
        attempt = state.tasks[task_id].attempt + 1
        message_id = f"{state.run}.{task_id}.{attempt}"
        yield OrderSent(
            task=task_id,
            attempt=attempt,
            message_id=message_id,
            token=_token(message_id, now),
            base=state.tip,
            issued_at=now,
            overtook=tuple(one for one in overtook if one not in started),
        )


def _landing(state: State, task: TaskState) -> LandingIntended:
    verdict = task.verdict
    if verdict is None or verdict.commit is None or verdict.tree is None:
        raise ValueError(f"'{task.id}' was found green without a commit")
    message_id = f"{state.run}.{task.id}.{task.attempt}.land-{task.landings + 1}"
    return LandingIntended(
        task=task.id,
        message_id=message_id,
        token=_token(message_id, state.at),
        base=task.base,
        commit=verdict.commit,
        tree=verdict.tree,
        certificates=verdict.certificates,
        issued_at=state.at,
    )


def _token(message_id: str, issued_at: float) -> str:
    """Differs for every message ever sent under an id; needs no randomness, so that decisions can be replayed."""
    return hashlib.sha256(f"{message_id}@{issued_at!r}".encode()).hexdigest()[:16]
