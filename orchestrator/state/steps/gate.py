"""
What brings a candidate to the gate: the paths it holds, and its place in the train.

Each function is given a task in a phase in which its event may happen; `state` has the table of those.
"""

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.task import TaskState


def lock_extended(task: TaskState, event: e.LockExtended, at: float) -> None:
    task.extra = (*task.extra, *event.paths)


def queued(task: TaskState, event: e.EntryQueued, at: float) -> None:
    task.reviewed, task.verdict = event.reviewed, None
    task.enter("queued", at)
