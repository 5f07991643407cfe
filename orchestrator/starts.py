"""
Which orders to send now, on which base, with how much of the run's budget: pure.
"""

import hashlib
from collections.abc import Iterator, Sequence

from orchestrator.budget import Ledger, Reservation
from orchestrator.course import Course
from orchestrator.events import OrderSent, TaskParked
from orchestrator.readiness import count_overtaken, ready
from orchestrator.state import State
from orchestrator.task_state import TaskState


def next_orders(course: Course, state: State, now: float, slots: int) -> list[OrderSent]:
    free = slots - len(state.in_phase("running"))
    if free <= 0 or state.halted:
        return []
    waiting = [task.id for task in state.in_phase("pending") if task.not_before <= now]
    if not waiting:
        return []
    orders = list(_started(course, state, now, waiting, free))
    if not orders and course.budget(state).capped:
        # Who pays for nothing need not wait for money behind those who do.
        orders = list(_started(course, state, now, [one for one in waiting if one not in course.paid], free))
    return orders


def out_of_budget(course: Course, state: State) -> list[TaskParked]:
    """The tasks for which too little of the budget is left, once no order is under way that could give some back."""
    if not course.budget(state).capped or _may_come_back(state):
        return []
    ledger = course.ledger(state)
    parked = []
    for task in state.in_phase("pending"):
        if task.id in course.paid and (kind := ledger.used_up(course.tasks[task.id].limits)) is not None:
            parked.append(TaskParked(task=task.id, question=_budget_question(state, ledger, kind), why="budget"))
    return parked


def token(message_id: str, issued_at: float) -> str:
    """Differs for every message ever sent under an id; needs no randomness, so that decisions can be replayed."""
    return hashlib.sha256(f"{message_id}@{issued_at!r}".encode()).hexdigest()[:16]


def _started(course: Course, state: State, now: float, waiting: Sequence[str], free: int) -> Iterator[OrderSent]:
    """From the top, as far as slots, locks and the budget go; who comes after one that waits for money waits too."""
    landed = {task.id for task in state.in_phase("landed")}
    wanted = course.wanted(state)
    started = ready(
        course.graph,
        landed=landed,
        in_flight=course.in_flight(state),
        waiting=waiting,
        slots=free,
        overtaken={task: state.tasks[task].overtaken for task in waiting},
        wanted=wanted,
    )
    purse = _Purse(course, state, free)
    for task_id in started:
        reserved = purse.take(state.tasks[task_id])
        if reserved is None:
            return
        overtook = count_overtaken(course.graph, [task_id], landed=landed, waiting=waiting, wanted=wanted)
        passed = tuple(one for one in overtook if one not in started)
        yield _order(course, state, state.tasks[task_id], now, reserved, passed)


def _order(
    course: Course, state: State, task: TaskState, now: float, reserved: Reservation, overtook: tuple[str, ...]
) -> OrderSent:
    attempt = task.attempt + 1
    message_id = f"{state.run}.{task.id}.{attempt}"
    resumes = resumed(course, state, task)
    return OrderSent(
        task=task.id,
        attempt=attempt,
        message_id=message_id,
        token=token(message_id, now),
        base=state.tip if resumes is None else task.interrupted_base,
        issued_at=now,
        overtook=overtook,
        reserved_usd=reserved.usd,
        reserved_tokens=reserved.tokens,
        resumes=resumes,
    )


def resumed(course: Course, state: State, task: TaskState) -> int | None:
    """
    The attempt to go on from: one that said it can be gone on with, or one that was lost in a conversation.

    None where a task has landed since what this one works on: on its old base it could only conflict with it. Who else
    moved the target meanwhile, and what of it, is not known here.
    """
    said = task.result is not None and task.result.resumable
    if task.interrupted is None or not (said or task.id in course.conversing):
        return None
    touches = course.touches(task)
    since = (one for one in state.in_phase("landed") if one.landed_at > task.based_at and one.result is not None)
    overtaken = any(touches.covers(path) for one in since if one.result for path in one.result.paths)
    return None if overtaken else task.interrupted


class _Purse:
    """What is left of the budget while orders are decided on. Without a cap nothing is added up."""

    def __init__(self, course: Course, state: State, free: int) -> None:
        self._course, self._state = course, state
        self._ledger = course.ledger(state) if course.budget(state).capped else None
        pending = sum(task.id in course.paid for task in state.in_phase("pending"))
        self._useful = min(free, pending)
        self._last = not _may_come_back(state)

    def take(self, task: TaskState) -> Reservation | None:
        """What the task's next order may use; None where that is not to be had now."""
        limits = self._course.tasks[task.id].limits
        if task.id not in self._course.paid:
            return Reservation()
        if self._ledger is None:
            return Reservation(usd=limits.cost_usd, tokens=limits.tokens)
        resumes = resumed(self._course, self._state, task)
        before = None if resumes is None else task.uses.get(resumes)
        reserved = self._ledger.reserve(limits, useful=self._useful, before=before, last=self._last)
        if reserved is not None:
            self._ledger = self._ledger.with_reserved(reserved)
            self._useful, self._last = self._useful - 1, False
        return reserved


def _may_come_back(state: State) -> bool:
    """Whether an order is under way whose reservation may turn out to be more than it used."""
    running = (task for task in state.in_phase("running"))
    return any((use := task.uses.get(task.attempt)) is not None and use.open for task in running)


def _budget_question(state: State, ledger: Ledger, kind: str) -> str:
    if kind == "usd":
        of, option = f"{ledger.usd:.2f} of {ledger.cap.usd:.2f} USD are", "--budget-usd USD"
    else:
        of, option = f"{ledger.tokens:,} of {ledger.cap.tokens:,} tokens are", "--budget-tokens TOKENS"
    return f"the run's budget is used: {of} spent or reserved; raise it: forgepool resume {state.run} {option}"
