"""
What the events of an attempt do to its task, from the order to the answer and to what follows from it.

Each function is given a task in a phase in which its event may happen; `state` has the table of those.
"""

from dataclasses import replace

from orchestrator import events as e
from orchestrator.budget import Use, settled
from orchestrator.task_state import Ask, IllegalStep, Outstanding, TaskState
from workers.messages import ReasonPack


def sent(task: TaskState, event: e.OrderSent, at: float) -> None:
    if event.attempt != task.attempt + 1:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' does not follow {task.attempt}")
    task.enter("running", at)
    task.landing_in_doubt = False
    task.attempt, task.base, task.result = event.attempt, event.base, None
    task.resumes, task.interrupted, task.interrupted_base = event.resumes, None, ""
    task.verdict, task.certificates = None, ()
    task.first_started = task.first_started or at
    task.overtaken = 0
    task.limit_until = 0.0
    task.uses = task.uses | {event.attempt: Use(reserved_usd=event.reserved_usd, reserved_tokens=event.reserved_tokens)}
    task.message = Outstanding(
        message_id=event.message_id,
        token=event.token,
        kind="order",
        task=task.id,
        issued_at=event.issued_at,
    )


def lost(task: TaskState, why: str, at: float) -> None:
    """
    An order is tried anew, a check or landing of the same candidate is asked for again: at once the first time.

    It counts as trouble, or a message that kills whoever takes it would be sent for ever.
    """
    kind = task.message.kind if task.message else "order"
    task.message = None
    task.landing_in_doubt = task.landing_in_doubt or kind == "landing"
    first = task.troubles == 0
    task.fall_into_trouble(why, at)
    if first:
        task.not_before = at
    if kind == "order":
        task.interrupted, task.interrupted_base = task.attempt, task.base
    task.enter("pending" if kind == "order" else "queued", at)


def answered(task: TaskState, event: e.OrderAnswered, at: float) -> None:
    """Also late, of an attempt thought lost: then only a candidate changes anything."""
    result = event.result
    if task.phase == "pending" and result.outcome != "candidate":
        raise IllegalStep(f"a late answer to '{task.id}' that is no candidate changes nothing")
    task.message, task.result, task.ask = None, result, None
    task.uses = settled(task.uses, result.attempt, result.spent, models=result.models, includes=result.includes)
    task.interrupted, task.interrupted_base = (result.attempt, task.base) if result.resumable else (None, "")
    match result.outcome:
        case "candidate":
            task.troubles = task.waits = 0
            task.enter("candidate", at)
        case "infrastructure":
            if result.not_before is None:
                task.fall_into_trouble(result.detail, at)
            else:
                task.wait_for_limit(result.not_before, result.detail, at)
            task.enter("pending", at)
        case _:
            task.troubles = task.waits = 0
            task.enter("answered", at)


def paths_asked(task: TaskState, event: e.PathsAsked, at: float) -> None:
    if event.attempt != task.attempt:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' is over and asks for nothing")
    task.ask = Ask(number=event.number, paths=event.paths, at=at)


def paths_granted(task: TaskState, event: e.PathsGranted, at: float) -> None:
    task.ask = replace(_open_ask(task, event.attempt), granted=True)
    task.extra = (*task.extra, *event.paths)


def paths_refused(task: TaskState, event: e.PathsRefused, at: float) -> None:
    task.ask = replace(_open_ask(task, event.attempt), granted=False, why=event.why)


def _open_ask(task: TaskState, attempt: int) -> Ask:
    if task.ask is None or task.ask.granted is not None or attempt != task.attempt:
        raise IllegalStep(f"attempt {attempt} of '{task.id}' waits for no paths")
    return task.ask


def returned(task: TaskState, event: e.TaskReturned, at: float) -> None:
    _charge(task, event.reason)
    task.enter("pending", at)


def failed(task: TaskState, event: e.TaskFailed, at: float) -> None:
    _charge(task, event.reason)
    task.enter("failed", at)


def _charge(task: TaskState, reason: ReasonPack) -> None:
    """The next attempt, if there is one, begins afresh: it is to do better, not to go on."""
    task.charged += 1
    task.reasons = (*task.reasons, reason)
    task.interrupted, task.interrupted_base = None, ""
    task.detail = reason.summary


def blocked(task: TaskState, event: e.TaskBlocked, at: float) -> None:
    task.detail = f"needs '{event.by}', which did not land"
    task.enter("blocked", at)


def parked(task: TaskState, event: e.TaskParked, at: float) -> None:
    task.detail, task.parked_for = event.question, event.why
    task.question = event.question if event.why == "question" else ""
    task.enter("needs_human", at)


def cancelled(task: TaskState, event: e.TaskCancelled, at: float) -> None:
    """Not while landing: by then the target may have moved."""
    task.message, task.detail = None, "cancelled"
    task.enter("cancelled", at)


def retried(task: TaskState, event: e.TaskRetried, at: float) -> None:
    if event.afresh:
        task.charged = 0
        task.interrupted, task.interrupted_base = None, ""
    task.detail = "tried again by hand" if event.afresh else ""
    _reopen(task, at)


def replied(task: TaskState, event: e.TaskReplied, at: float) -> None:
    if not task.question:
        raise IllegalStep(f"task '{task.id}' asks nothing")
    task.replies = (*task.replies, event.reply)
    task.detail = "answered by a person"
    _reopen(task, at)


def _reopen(task: TaskState, at: float) -> None:
    task.troubles = task.waits = 0
    task.not_before = task.limit_until = task.ended = 0.0
    task.parked_for, task.question = None, ""
    task.enter("pending", at)
