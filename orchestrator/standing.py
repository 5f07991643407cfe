"""How a run stands, for people and for programs: derived from its state, never kept."""

from dataclasses import asdict, dataclass

from orchestrator.decisions import Course, waits_for
from orchestrator.readiness import Waiting, why_waiting
from orchestrator.state import TERMINAL, State, TaskState


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
    waits = Waits(course, state)
    return Standing(
        run=state.run,
        target=state.target,
        tip=state.tip,
        outcome=_outcome(state, live=live),
        tasks=tuple(_task(waits, task, now) for task in state.tasks.values()),
    )


def _outcome(state: State, *, live: bool) -> str:
    if not state.finished:
        return "running" if live else "paused"
    return "landed" if all(task.phase == "landed" for task in state.tasks.values()) else "incomplete"


def _task(waits: "Waits", task: TaskState, now: float) -> TaskStanding:
    end = task.ended or now
    host = task.landed_on_host if task.phase == "landed" else task.holder
    return TaskStanding(
        task=task.id,
        phase=waits.phase_name(task),
        attempts=task.attempt,
        commit=task.commit or None,
        seconds=round(end - task.first_started, 2) if task.first_started else None,
        host=task.result.host if task.result else host,
        detail=task.detail if task.phase in TERMINAL else waits.reason(task),
    )


class Waits:
    """What tasks wait for in one state. What holds for all of them is looked up once."""

    def __init__(self, course: Course, state: State) -> None:
        self._course, self._state = course, state
        self._landed = {task.id for task in state.in_phase("landed")}
        self._in_flight = course.in_flight(state)
        self._overtaken = {task.id: task.overtaken for task in state.in_phase("pending") if task.overtaken}

    def phase_name(self, task: TaskState) -> str:
        """The phase, with `ready` told from `pending`: nothing but a slot is missing."""
        if task.phase != "pending":
            return task.phase
        waiting = self._why(task)
        return "pending" if waiting.needs or waiting.lock or waiting.reserved else "ready"

    def reason(self, task: TaskState) -> str:
        """What a task that has not ended waits for, in a few words; who has it when it is being worked on."""
        match task.phase:
            case "candidate":
                other = waits_for(self._course, self._state, task)
                return f"waits for '{other}', which holds what it changed undeclared" if other else ""
            case "queued":
                shut = self._state.halted
                return f"the gate is shut: {shut}" if shut else "waits for its turn at the gate"
            case "pending":
                return self._pending(task)
            case _:
                return task.holder or ("no worker has taken it yet" if task.message else "")

    def _pending(self, task: TaskState) -> str:
        waiting = self._why(task)
        if waiting.needs:
            return f"needs {', '.join(waiting.needs[:4])}"
        if waiting.lock is not None:
            other, theirs, _ = waiting.lock
            return f"waits for '{other}', which holds {theirs}"
        if waiting.reserved is not None:
            other, theirs, _ = waiting.reserved
            return f"lets '{other}' go first, which has waited long for {theirs}"
        return f"again after trouble: {task.detail}" if task.troubles else "waits for a worker"

    def _why(self, task: TaskState) -> Waiting:
        return why_waiting(
            self._course.graph, task.id, landed=self._landed, in_flight=self._in_flight, overtaken=self._overtaken
        )
