"""
What the events at the gate do to a task: from its place in the train to its landing.

Each function is given a task in a phase in which its event may happen; `state` has the table of those.
"""

from orchestrator import events as e
from orchestrator.outstanding import Outstanding
from orchestrator.task_state import IllegalStep, TaskState


def lock_extended(task: TaskState, event: e.LockExtended, at: float) -> None:
    task.extra = (*task.extra, *event.paths)


def queued(task: TaskState, event: e.EntryQueued, at: float) -> None:
    task.reviewed = event.reviewed
    task.enter("queued", at)


def check_sent(task: TaskState, event: e.CheckSent, at: float) -> None:
    task.enter("testing", at)
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


def check_answered(task: TaskState, event: e.CheckAnswered, at: float) -> None:
    task.message, task.verdict = None, event.result
    task.reviewed = task.reviewed or event.result.reviewed
    match event.result.verdict:
        case "infrastructure":
            task.fall_into_trouble(event.result.detail, at)
            task.enter("queued", at)
        case "stale":
            task.detail, task.result = event.result.detail, None
            task.enter("pending", at)
        case "base_red" | "not_configured":
            task.detail = event.result.detail
            task.enter("queued", at)
        case _:
            task.troubles = 0
            task.enter("judged", at)


def landing_intended(task: TaskState, event: e.LandingIntended, at: float) -> None:
    if task.verdict is None or task.verdict.verdict != "green" or task.verdict.commit != event.commit:
        raise IllegalStep(f"'{task.id}' may not land {event.commit[:12]}: that is not what was found green")
    if task.reviewed and (event.approval is None or event.approval != task.approval):
        raise IllegalStep(f"'{task.id}' may not land {event.commit[:12]}: nobody has approved that very change")
    task.enter("landing", at)
    task.landings += 1
    task.certificates = event.certificates
    task.intended = (*task.intended, event.commit)
    task.message = Outstanding(
        message_id=event.message_id,
        token=event.token,
        kind="landing",
        task=task.id,
        issued_at=event.issued_at,
    )


def landing_answered(task: TaskState, event: e.LandingAnswered, at: float) -> None:
    """A task whose landing was thought lost, or that was composed anew, may turn out to have landed."""
    result = event.result
    if task.phase != "landing" and result.outcome != "landed":
        raise IllegalStep(f"a late answer to the landing of '{task.id}' that is not 'landed' changes nothing")
    task.message = None
    if result.outcome != "infrastructure":
        task.intended = task.intended[:-1]
    if result.outcome != "landed":
        task.verdict, task.reviewed = None, task.reviewed or result.unapproved
    match result.outcome:
        case "landed":
            task.commit, task.landed_on_host = result.commit or "", result.host
            task.troubles, task.detail = 0, ""
            task.enter("landed", at)
        case "moved" | "refused":
            task.detail = result.detail
            task.enter("queued", at)
        case "infrastructure":
            task.fall_into_trouble(result.detail, at)
            task.enter("queued", at)
