"""How a run stands, for people and for programs: derived from its state, never kept."""

from dataclasses import asdict, dataclass

from orchestrator.decisions import Course, waits_for
from orchestrator.readiness import why_waiting
from orchestrator.state import IN_FLIGHT, TERMINAL, State, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStanding:
    """One line of `status`."""

    task: str
    phase: str
    attempts: int
    commit: str | None
    seconds: float | None
    """From its first start to its end, or to now."""
    host: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    run: str
    target: str
    tip: str
    outcome: str
    """`running`, `paused`, `landed` (all of it) or `incomplete`."""
    tasks: tuple[TaskStanding, ...]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def standing(course: Course, state: State, *, now: float, live: bool) -> Standing:
    return Standing(
        run=state.run,
        target=state.target,
        tip=state.tip,
        outcome=_outcome(state, live=live),
        tasks=tuple(_task(course, state, task, now) for task in state.tasks.values()),
    )


def _outcome(state: State, *, live: bool) -> str:
    if not state.finished:
        return "running" if live else "paused"
    return "landed" if all(task.phase == "landed" for task in state.tasks.values()) else "incomplete"


def _task(course: Course, state: State, task: TaskState, now: float) -> TaskStanding:
    end = task.ended or now
    host = task.landed_on_host if task.phase == "landed" else task.holder
    return TaskStanding(
        task=task.id,
        phase=phase_name(course, state, task),
        attempts=task.attempt,
        commit=task.commit or None,
        seconds=round(end - task.first_started, 2) if task.first_started else None,
        host=task.result.host if task.result else host,
        detail=task.detail if task.phase in TERMINAL else waiting_for(course, state, task),
    )


def phase_name(course: Course, state: State, task: TaskState) -> str:
    """The phase, with `ready` told from `pending`: nothing but a slot is missing."""
    if task.phase != "pending":
        return task.phase
    waiting = why_waiting(course.graph, task.id, landed=_landed(state), in_flight=course.in_flight(state))
    return "pending" if waiting.needs or waiting.lock else "ready"


def waiting_for(course: Course, state: State, task: TaskState) -> str:
    """What a task that has not ended waits for, in a few words; empty when it is being worked on."""
    if task.phase == "candidate":
        other = waits_for(course, state, task)
        return f"waits for '{other}', which holds what it changed undeclared" if other else ""
    if task.phase == "queued":
        return f"the gate is shut: {state.halted}" if state.halted else "waits for its turn at the gate"
    if task.phase != "pending":
        return task.holder
    waiting = why_waiting(course.graph, task.id, landed=_landed(state), in_flight=course.in_flight(state))
    if waiting.needs:
        return f"needs {', '.join(waiting.needs[:4])}"
    if waiting.lock is not None:
        other, theirs, _ = waiting.lock
        return f"waits for '{other}', which holds {theirs}"
    return f"again after trouble: {task.detail}" if task.troubles else "waits for a worker"


def in_flight_count(state: State) -> int:
    return sum(task.phase in IN_FLIGHT for task in state.tasks.values())


def _landed(state: State) -> set[str]:
    return {task.id for task in state.in_phase("landed")}
