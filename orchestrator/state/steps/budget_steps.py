"""The effects of what an attempt asks of the run's budget."""

from dataclasses import replace

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.budget import MoneyAsk, Use
from forgepool.orchestrator.state.steps.task_steps import interrupt_task
from forgepool.orchestrator.state.task import IllegalStep, TaskState


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
