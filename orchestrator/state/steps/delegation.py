"""What happens between a run and the gate of its target, done to the run's state."""

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep, TaskState


def delegate_entry(task: TaskState, event: e.EntryGiven, at: float) -> None:
    if event.number != task.given + 1:
        raise IllegalStep(f"giving {event.number} of '{task.id}' does not follow {task.given}")
    if task.landing_in_doubt:
        raise IllegalStep(f"'{task.id}' may have landed by this run's own train, and is not given to another")
    task.given, task.told, task.recalled = event.number, None, False
    if event.number == 1:
        task.given_on = event.tip
    task.verdict, task.certificates, task.detail = None, (), ""
    task.enter("given", at)


def take_reply(state: RunState, event: e.EntryTold, at: float) -> None:
    """Apply a queue's reply. `landed` ends the task here; a returned entry is handled by the next decision."""
    task, answer = state.step(event.task, "given"), event.answer
    if answer.number != task.given:
        raise IllegalStep(f"what is said of giving {answer.number} of '{task.id}' is not of {task.given}")
    state.tip, state.gate_away = event.tip, ""
    task.told, task.detail = answer, answer.why
    if answer.word == "landed":
        state.wave_review.has_landed("", state.number + 1)
        task.commit, task.landed_at, task.certificates = answer.commit, state.number + 1, answer.certificates
        task.troubles = 0
        task.enter("landed", at)
