"""
What a person may say of a candidate, and what follows: pure.

An approval takes the place of a reviewer's word, never of checks. It is one candidate's; another attempt wants another.
"""

from forgepool.orchestrator.decisions.orders.retries import again_or_stop, reason_of_rejection
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.submissions import entry_of
from forgepool.orchestrator.journal.events import CandidateRestored, Event, TaskApproved, TaskRejected
from forgepool.orchestrator.journal.queue_events import Asks
from forgepool.orchestrator.plan.readiness import ready
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_FLIGHT, TaskState

_SPOKEN = ("review_failed", "rejected")
"""Reasons that a person may overrule; no word makes up for a red check."""


def approve(course: PlanIndex, state: RunState, task_id: str, *, by: str) -> list[Event]:
    """Empty where there is nothing to approve, as `why_not_approve` says."""
    if why_not_approve(course, state, task_id) is not None:
        return []
    return [TaskApproved(task=task_id, by=by, commit=state.tasks[task_id].candidate)]


def reject(course: PlanIndex, state: RunState, task_id: str, *, by: str, why: str) -> list[Event]:
    if why_not_reject(state, task_id) is not None:
        return []
    task = state.tasks[task_id]
    reason = reason_of_rejection(task, by=by, why=why)
    again = again_or_stop(course, task, reason).kind == "task.returned"
    return [TaskRejected(task=task_id, by=by, reason=reason, again=again)]


def why_not_approve(course: PlanIndex, state: RunState, task_id: str) -> str | None:
    """What stands against approving it, to be read after its name; None where nothing does."""
    task = state.tasks[task_id]
    if task.phase == "landed":
        return f"has landed already, as {task.commit[:12]}"
    if task.phase == "landing":
        return "is just landing"
    if task.phase == "given":
        return _at_gate(state, task, "approve")
    if not course.wants_review(task):
        return "wants no approval: its candidates land by their checks alone"
    if task.review.person is not None and task.phase != "cancelled":
        return f"is approved already, by {task.review.person.by}"
    if not task.candidate:
        return f"has no candidate to approve, it is {task.phase}"
    if task.phase in IN_FLIGHT or (task.phase == "needs_human" and _waits_for_word(task)) or _overruled(task):
        return None
    return f"is {task.phase} for another reason than its review: {task.detail}; begin it anew with `forgepool retry`"


def why_not_reject(state: RunState, task_id: str) -> str | None:
    task = state.tasks[task_id]
    if task.phase == "landed":
        return f"has landed already, as {task.commit[:12]}; a landing is not taken back"
    if task.phase == "given":
        return _at_gate(state, task, "reject")
    if task.phase == "landing" or task.landing_in_doubt:
        return "may be landing just now, and is not called back"
    waiting = task.phase in IN_FLIGHT or task.restorable or (task.phase == "needs_human" and _waits_for_word(task))
    if not task.candidate or not waiting:
        return f"has no candidate that waits, it is {task.phase}"
    return None


def _at_gate(state: RunState, task: TaskState, word: str) -> str:
    entry = entry_of(Asks(run=state.run, task=task.id, number=task.given))
    return f"is in the hands of a gate; say it there: forgepool {word} {state.gate} {entry}"


def restore_approved(course: PlanIndex, state: RunState) -> list[Event]:
    """An approved candidate whose lock is free, and with it all it may not stand beside; one at a time."""
    waiting = [task.id for task in state.in_phase("pending") if task.restorable]
    if not waiting:
        return []
    done = state.find_done()
    free = ready(course.graph, landed=done, in_flight=course.in_flight(state), waiting=waiting, slots=1)
    return [CandidateRestored(task=one) for one in free]


def _waits_for_word(task: TaskState) -> bool:
    """Parked with a candidate that nobody has judged against."""
    judged = any(reason.attempt == task.made_by for reason in task.reasons)
    return task.parked_for in ("review", "budget") and bool(task.candidate) and not judged


def _overruled(task: TaskState) -> bool:
    """Whether its last candidate was given up for nothing but somebody's word."""
    if task.phase not in ("failed", "pending") or not task.reasons:
        return False
    last = task.reasons[-1]
    return last.attempt == task.made_by and last.kind in _SPOKEN
