"""The effects of what an attempt asks for, paths or more of the budget, and the last word of a stopped one."""

from dataclasses import replace

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.budget import MoneyAsk, Use
from forgepool.orchestrator.state.steps.task_steps import (
    ask_paths,
    grant_paths,
    interrupt_task,
    queue_paths,
    refuse_paths,
)
from forgepool.orchestrator.state.task import IllegalStep, TaskState


def change_paths(
    task: TaskState, event: e.PathsAsked | e.PathsGranted | e.PathsQueued | e.PathsRefused, at: float
) -> None:
    match event:
        case e.PathsAsked():
            ask_paths(task, event, at)
        case e.PathsGranted():
            grant_paths(task, event)
        case e.PathsQueued():
            queue_paths(task, event)
        case e.PathsRefused():
            refuse_paths(task, event)


def keep_work(task: TaskState, event: e.WorkKept) -> None:
    """Take in the last word of an attempt that was given up: what it tells of its use replaces the estimate."""
    if event.commit or event.withheld:
        task.works = task.works | {event.attempt: event}
    use = task.uses.get(event.attempt)
    if event.spent is not None and use is not None and use.spent is None and use.ended:
        settled = replace(use, spent=event.spent, models=event.models, ended="")
        task.uses = task.uses | {event.attempt: settled}


def change_money(task: TaskState, event: e.MoneyAsked | e.MoneyGranted | e.MoneyQueued, at: float) -> None:
    if event.attempt != task.attempt:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' is over and asks for nothing")
    match event:
        case e.MoneyAsked():
            since = at if task.money is None else task.money.at
            task.money = MoneyAsk(kinds=event.kinds, usd=event.usd, tokens=event.tokens, at=since)
        case e.MoneyGranted():
            _require_ask(task)
            use = task.uses.get(event.attempt, Use())
            more = replace(use, reserved_usd=event.reserved_usd, reserved_tokens=event.reserved_tokens)
            task.uses, task.money = task.uses | {event.attempt: more}, None
        case e.MoneyQueued():
            task.money = replace(_require_ask(task), queued=True)


def _require_ask(task: TaskState) -> MoneyAsk:
    if task.money is None:
        raise IllegalStep(f"attempt {task.attempt} of '{task.id}' asks for no more of the budget")
    return task.money


def await_budget(task: TaskState, event: e.BudgetAwaited, at: float) -> None:
    """The attempt does not count, and the next one goes on from it."""
    if task.result is None or task.result.attempt != event.attempt:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' is not the one that has ended")
    interrupt_task(task, event.attempt, touched=task.result.paths)
    task.detail = "its part of the run's budget was not enough"
    task.enter("pending", at)
