"""
The state of a run: a fold over its events, and the only steps a task may take.

`State.apply` is the one writer. An event that does not fit the phase its task is in is an IllegalStep: it is refused
before it is journaled. What is derived (which tasks are ready, what is in flight) is computed, never kept.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from orchestrator import events as e
from supervisor.messages import Certificate, CheckResult
from workers.messages import ReasonPack, WorkResult

Phase = Literal[
    "pending",
    "running",
    "answered",
    "candidate",
    "queued",
    "testing",
    "judged",
    "landing",
    "landed",
    "failed",
    "blocked",
    "cancelled",
    "needs_human",
]
"""
`pending` holds no lock and waits for needs, locks or a slot. `answered` and `judged` last no longer than one turn of
the loop, until it is decided what follows. `candidate` waits for a lock on paths it touched undeclared.
"""

IN_FLIGHT: frozenset[Phase] = frozenset(("running", "answered", "candidate", "queued", "testing", "judged", "landing"))
AT_GATE: frozenset[Phase] = frozenset(("testing", "judged", "landing"))
TERMINAL: frozenset[Phase] = frozenset(("landed", "failed", "blocked", "cancelled", "needs_human"))

MOST_TROUBLES = 12
"""Times in a row that infrastructure may fail a task before a person is asked; with back-off about eight minutes."""


class IllegalStep(Exception):
    """An event that cannot happen to this task now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """A message somebody owes an answer to."""

    message_id: str
    token: str
    kind: Literal["order", "check", "landing"]
    task: str
    issued_at: float


@dataclass(slots=True, kw_only=True)
class TaskState:
    """One task as the events so far have left it."""

    id: str
    phase: Phase = "pending"
    attempt: int = 0
    """Orders sent so far; numbers the next one."""
    charged: int = 0
    """Attempts that count: those lost to infrastructure do not."""
    troubles: int = 0
    """Failures of infrastructure in a row."""
    not_before: float = 0.0
    """Unix seconds before which it is not tried again, after infrastructure failed it."""
    overtaken: int = 0
    """Starts that have passed it by while only locks held it up."""
    checks: int = 0
    landings: int = 0
    landing_in_doubt: bool = False
    """A lander vanished, or the hub died on it: the target may have moved, and may still."""
    base: str = ""
    message: Outstanding | None = None
    holder: str = ""
    """`host/pid` of the worker that has the message, once one is seen to."""
    result: WorkResult | None = None
    extra: tuple[str, ...] = ()
    """Paths held beyond the declared globs."""
    queued_at: int = 0
    """Number of the event that first put it into the train; kept over requeues."""
    verdict: CheckResult | None = None
    certificates: tuple[Certificate, ...] = ()
    commit: str = ""
    """The commit that landed."""
    reasons: tuple[ReasonPack, ...] = ()
    detail: str = ""
    """One sentence on how it came to be where it is."""
    since: float = 0.0
    first_started: float = 0.0
    ended: float = 0.0
    landed_on_host: str = ""


@dataclass(slots=True, kw_only=True)
class State:
    """A run: its tasks, its target's tip as last seen, and whether its gate is open."""

    tasks: dict[str, TaskState]
    run: str = ""
    hub: str = ""
    target: str = ""
    plan_digest: str = ""
    gate_file: bool = False
    """The target had a gate file when the run began."""
    tip: str = ""
    halted: str = ""
    halted_by_infrastructure: bool = False
    finished: bool = False
    number: int = 0
    at: float = 0.0

    @classmethod
    def blank(cls, tasks: Iterable[str]) -> "State":
        return cls(tasks={one: TaskState(id=one) for one in tasks})

    def apply(self, event: e.Event, *, number: int, at: float) -> None:
        """
        Takes one event in.

        Raises:
            IllegalStep: it cannot happen now; the state is unchanged.
        """
        step = _STEPS[type(event)]
        step(self, event, at)
        self.number, self.at = number, at

    def outstanding(self) -> dict[str, Outstanding]:
        """By message id, what somebody owes an answer to."""
        return {task.message.message_id: task.message for task in self.tasks.values() if task.message}

    def in_phase(self, *phases: Phase) -> list[TaskState]:
        return [task for task in self.tasks.values() if task.phase in phases]

    def task_of(self, message_id: str) -> TaskState | None:
        """The task whose answer is awaited under this message id."""
        return next((one for one in self.tasks.values() if one.message and one.message.message_id == message_id), None)

    def step(self, task_id: str, *allowed: Phase) -> TaskState:
        task = self.tasks.get(task_id)
        if task is None:
            raise IllegalStep(f"there is no task '{task_id}'")
        if task.phase not in allowed:
            raise IllegalStep(f"task '{task_id}' is {task.phase}, not {' or '.join(allowed)}")
        return task


def _enter(task: TaskState, phase: Phase, at: float) -> None:
    task.phase, task.since, task.holder = phase, at, ""
    if phase in TERMINAL:
        task.ended = at


def _run_started(state: State, event: e.RunStarted, at: float) -> None:
    if state.run:
        raise IllegalStep(f"run {state.run} has started already")
    state.run, state.hub, state.target = event.run, event.hub, event.target
    state.tip, state.plan_digest, state.gate_file = event.tip, event.plan_digest, event.gate_file


def _run_resumed(state: State, event: e.RunResumed, at: float) -> None:
    if not state.run:
        raise IllegalStep("a run that never began cannot go on")
    state.tip, state.halted, state.finished = event.tip, "", False
    state.halted_by_infrastructure = False


def _run_ended(state: State, event: e.RunEnded, at: float) -> None:
    if any(task.phase not in TERMINAL for task in state.tasks.values()):
        raise IllegalStep("a run does not end while a task may still go on")
    state.finished = True


def _order_sent(state: State, event: e.OrderSent, at: float) -> None:
    task = state.step(event.task, "pending")
    if event.attempt != task.attempt + 1:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' does not follow {task.attempt}")
    _enter(task, "running", at)
    task.landing_in_doubt = False
    task.attempt, task.base, task.extra, task.result = event.attempt, event.base, (), None
    task.verdict, task.certificates = None, ()
    task.first_started = task.first_started or at
    task.overtaken = 0
    for passed in event.overtook:
        state.tasks[passed].overtaken += 1
    task.message = Outstanding(
        message_id=event.message_id,
        token=event.token,
        kind="order",
        task=task.id,
        issued_at=event.issued_at,
    )


def _message_taken(state: State, event: e.MessageTaken, at: float) -> None:
    _owed(state, event.message_id).holder = f"{event.host}/{event.pid}"


def _message_lost(state: State, event: e.MessageLost, at: float) -> None:
    """
    An order is tried anew, a check or landing of the same candidate is asked for again: at once the first time.

    It counts as trouble, or a message that kills whoever takes it would be sent for ever.
    """
    task = _owed(state, event.message_id)
    kind = task.message.kind if task.message else "order"
    task.message = None
    task.landing_in_doubt = task.landing_in_doubt or kind == "landing"
    first = task.troubles == 0
    _trouble(task, event.why, at)
    if first:
        task.not_before = at
    _enter(task, "pending" if kind == "order" else "queued", at)


def _owed(state: State, message_id: str) -> TaskState:
    task = state.task_of(message_id)
    if task is None:
        raise IllegalStep(f"no answer is owed to {message_id}")
    return task


def _order_answered(state: State, event: e.OrderAnswered, at: float) -> None:
    task = state.step(event.task, "running", "pending")
    adopted = task.phase == "pending"
    if adopted and event.result.outcome != "candidate":
        raise IllegalStep(f"a late answer to '{task.id}' that is no candidate changes nothing")
    # What an earlier candidate of it held besides is not held any more: others may have taken it since.
    task.message, task.result, task.extra = None, event.result, ()
    match event.result.outcome:
        case "candidate":
            task.troubles = 0
            _enter(task, "candidate", at)
        case "infrastructure":
            _trouble(task, event.result.detail, at)
            _enter(task, "pending", at)
        case _:
            task.troubles = 0
            _enter(task, "answered", at)


def _trouble(task: TaskState, detail: str, at: float) -> None:
    """Infrastructure failed it: nobody's fault, tried again after a pause that doubles up to a minute."""
    task.troubles += 1
    task.detail = detail
    task.not_before = at + min(60.0, 0.5 * 2.0**task.troubles)


def _lock_extended(state: State, event: e.LockExtended, at: float) -> None:
    task = state.step(event.task, "candidate")
    task.extra = event.paths


def _entry_queued(state: State, event: e.EntryQueued, at: float) -> None:
    task = state.step(event.task, "candidate")
    _enter(task, "queued", at)
    task.queued_at = state.number + 1


def _check_sent(state: State, event: e.CheckSent, at: float) -> None:
    task = state.step(event.task, "queued")
    _enter(task, "testing", at)
    task.checks += 1
    task.message = Outstanding(
        message_id=event.message_id,
        token=event.token,
        kind="check",
        task=task.id,
        issued_at=event.issued_at,
    )
    task.verdict, task.certificates = None, ()
    task.base = event.base


def _check_answered(state: State, event: e.CheckAnswered, at: float) -> None:
    task = state.step(event.task, "testing")
    task.message, task.verdict = None, event.result
    match event.result.verdict:
        case "infrastructure":
            _trouble(task, event.result.detail, at)
            _enter(task, "queued", at)
        case "stale":
            task.detail = event.result.detail
            _enter(task, "pending", at)
        case "base_red" | "not_configured":
            task.detail = event.result.detail
            _enter(task, "queued", at)
        case _:
            task.troubles = 0
            _enter(task, "judged", at)


def _landing_intended(state: State, event: e.LandingIntended, at: float) -> None:
    task = state.step(event.task, "judged")
    if task.verdict is None or task.verdict.verdict != "green" or task.verdict.commit != event.commit:
        raise IllegalStep(f"'{task.id}' may not land {event.commit[:12]}: that is not what was found green")
    _enter(task, "landing", at)
    task.landings += 1
    task.certificates = event.certificates
    task.message = Outstanding(
        message_id=event.message_id,
        token=event.token,
        kind="landing",
        task=task.id,
        issued_at=event.issued_at,
    )


def _landing_answered(state: State, event: e.LandingAnswered, at: float) -> None:
    """A task whose landing was thought lost, or that was composed anew, may turn out to have landed."""
    task = state.step(event.task, "landing", "queued", "testing", "judged")
    result = event.result
    if task.phase != "landing" and result.outcome != "landed":
        raise IllegalStep(f"a late answer to the landing of '{task.id}' that is not 'landed' changes nothing")
    task.message = None
    match result.outcome:
        case "landed":
            task.commit, task.landed_on_host = result.commit or "", result.host
            task.troubles, task.detail = 0, ""
            _enter(task, "landed", at)
            state.tip = result.commit or state.tip
        case "moved":
            task.detail = result.detail
            _enter(task, "queued", at)
            state.tip = result.commit or state.tip
        case "refused":
            task.detail = result.detail
            _enter(task, "queued", at)
        case "infrastructure":
            task.landing_in_doubt = True
            _trouble(task, result.detail, at)
            _enter(task, "queued", at)


def _task_returned(state: State, event: e.TaskReturned, at: float) -> None:
    task = state.step(event.task, "answered", "candidate", "judged")
    _charge(task, event.reason)
    _enter(task, "pending", at)


def _task_failed(state: State, event: e.TaskFailed, at: float) -> None:
    task = state.step(event.task, "answered", "candidate", "judged")
    _charge(task, event.reason)
    _enter(task, "failed", at)


def _charge(task: TaskState, reason: ReasonPack) -> None:
    task.charged += 1
    task.reasons = (*task.reasons, reason)
    task.detail = reason.summary


def _task_blocked(state: State, event: e.TaskBlocked, at: float) -> None:
    task = state.step(event.task, "pending")
    task.detail = f"needs '{event.by}', which did not land"
    _enter(task, "blocked", at)


def _task_parked(state: State, event: e.TaskParked, at: float) -> None:
    task = state.step(event.task, "pending", "queued")
    task.detail = event.question
    _enter(task, "needs_human", at)


def _task_cancelled(state: State, event: e.TaskCancelled, at: float) -> None:
    """Not while landing: by then the target may have moved."""
    task = state.step(event.task, "pending", "running", "answered", "candidate", "queued", "testing", "judged")
    task.message, task.detail = None, "cancelled"
    _enter(task, "cancelled", at)


def _task_retried(state: State, event: e.TaskRetried, at: float) -> None:
    task = state.step(event.task, "failed", "blocked", "cancelled", "needs_human")
    task.charged = task.troubles = 0
    task.not_before = task.ended = 0.0
    task.detail = "tried again by hand"
    state.finished = False
    _enter(task, "pending", at)


def _gate_halted(state: State, event: e.GateHalted, at: float) -> None:
    state.halted, state.halted_by_infrastructure = event.why, event.infrastructure


def _noted(state: State, event: e.Event, at: float) -> None:
    """Changes nothing that is folded."""


_STEPS: dict[type, Callable[..., None]] = {
    e.RunStarted: _run_started,
    e.RunResumed: _run_resumed,
    e.RunPaused: _noted,
    e.RunEnded: _run_ended,
    e.OrderSent: _order_sent,
    e.MessageTaken: _message_taken,
    e.MessageLost: _message_lost,
    e.OrderAnswered: _order_answered,
    e.LockExtended: _lock_extended,
    e.EntryQueued: _entry_queued,
    e.CheckSent: _check_sent,
    e.CheckAnswered: _check_answered,
    e.LandingIntended: _landing_intended,
    e.LandingAnswered: _landing_answered,
    e.TaskReturned: _task_returned,
    e.TaskFailed: _task_failed,
    e.TaskBlocked: _task_blocked,
    e.TaskParked: _task_parked,
    e.TaskCancelled: _task_cancelled,
    e.TaskRetried: _task_retried,
    e.GateHalted: _gate_halted,
    e.WorkersMissing: _noted,
    e.PartRestarted: _noted,
}
