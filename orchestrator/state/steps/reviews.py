"""
What the events of a review, and of people's words about a candidate, do to its task.

Each function is given a task in a phase in which its event may happen; `state` has the table of those.
"""

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.state.pending import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.orders import charge, reopen
from forgepool.orchestrator.state.steps.train import settle_phases
from forgepool.orchestrator.state.task import IN_FLIGHT, IllegalStep, TaskState
from forgepool.supervisor.messages import PersonApproval


def await_review(state: RunState, task: TaskState, at: float) -> None:
    """What was passed before is another diff now, where it stands."""
    if task.review.answer is not None and task.review.answer.outcome == "passed":
        task.review.answer = None
    task.enter("reviewing", at)
    state.train.uncouple(task.id)
    settle_phases(state, at)


def send_review(task: TaskState, event: e.ReviewSent) -> None:
    review = task.review
    if review.message is not None or event.number != review.sent + 1:
        raise IllegalStep(f"review {event.number} of '{task.id}' does not follow {review.sent}")
    review.sent, review.base, review.holder = event.number, event.base, ""
    review.limit_until = 0.0
    use = Use(reserved_usd=event.reserved_usd, reserved_tokens=event.reserved_tokens)
    review.uses = review.uses | {event.number: use}
    review.message = Outstanding(
        message_id=event.message_id,
        token=event.token,
        kind="review",
        task=task.id,
        issued_at=event.issued_at,
    )


def answer_review(task: TaskState, event: e.ReviewAnswered, at: float) -> None:
    """Whatever is not a pass takes it out of the train: what its trials say would change nothing."""
    review, result = task.review, event.result
    if review.message is None or review.message.message_id != result.request_id:
        raise IllegalStep(f"no review of '{task.id}' is waited for under {result.request_id}")
    review.settle(result)
    if review.puts_off(result, at):
        return
    if result.outcome == "stale":
        task.result, task.detail = None, result.detail
        task.enter("pending", at)
        return
    review.answer, review.verdicts = result, review.verdicts + 1
    if result.outcome != "passed":
        task.enter("reviewed", at)
    elif task.phase == "reviewing":
        task.enter("queued", at)


def lose_review(task: TaskState, event: e.MessageLost, at: float) -> None:
    """Asked for again, at once the first time; what it may have used stays counted."""
    first = task.review.troubles == 0
    task.review.let_go()
    task.review.fall_into_trouble(event.why, at)
    if first:
        task.review.not_before = at


def approve_task(task: TaskState, event: e.TaskApproved, at: float) -> None:
    """A review under way is not wanted any more. What was given up waits for its lock, and has its attempt back."""
    if not task.candidate or task.candidate != event.commit:
        raise IllegalStep(f"'{task.id}' has no candidate {event.commit[:12]} that could be approved")
    if task.phase not in IN_FLIGHT:
        _take_back(task, at)
    elif task.phase in ("reviewing", "reviewed"):
        task.enter("queued", at)
    task.review.let_go()
    task.review.calm()
    task.review.person = PersonApproval(commit=event.commit, by=event.by)
    task.detail = f"approved by {event.by}"


def _take_back(task: TaskState, at: float) -> None:
    if task.phase in ("pending", "failed") and not task.kept:
        task.charged = max(0, task.charged - 1)
    task.kept, task.over = True, task.attempt
    reopen(task, at)


def reject_task(task: TaskState, event: e.TaskRejected, at: float) -> None:
    if not task.candidate or event.reason.attempt != task.made_by:
        raise IllegalStep(f"'{task.id}' has no candidate of attempt {event.reason.attempt} that could be rejected")
    task.message, task.kept = None, False
    task.review.person = None
    reopen(task, at)
    charge(task, event.reason)
    task.enter("pending" if event.again else "failed", at)


def restore_candidate(task: TaskState, at: float) -> None:
    if not task.restorable or not task.candidate:
        raise IllegalStep(f"'{task.id}' has no candidate that could go on")
    task.kept = False
    task.enter("candidate", at)
