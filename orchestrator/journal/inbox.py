"""
Requests from people to a run: a file each, in the run's own folder, taken in by the orchestrator at its next turn.

A folder needs no Redis and no open port, and a request left while the orchestrator is dead is found on resume.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from forgepool.orchestrator.journal.task_events import BeginsFrom
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.document import Task
from forgepool.workers.schema.orders import Message


class PersonRequest(Message):
    """A request of a person to a run; one without a task concerns all its tasks."""

    do: Literal[
        "cancel",
        "retry",
        "answer",
        "budget",
        "context",
        "add",
        "say",
        "approve",
        "reject",
        "pause",
        "go",
        "hold",
        "release",
        "reclass",
        "grant",
    ]
    """The last six of a gate alone: `go` ends a pause, or opens a gate that was shut."""
    task: str | None = None
    text: str = ""
    """
    The text of an answer, of `say` or with a `retry`; the profile of `context`, the reason of `reject`, `add` and
    `pause`, the class of `reclass`.
    """
    by: str = ""
    """The name of the person, where it is kept."""
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    """For `grant`: paths the entry may change, and rules that are not applied to it."""
    candidate: str = ""
    """
    The candidate at the time of an `approve`, `reject`, or an entry's `retry` or `grant`; of a wave, the target's tip.
    The request holds for no other commit.
    """
    tasks: tuple[Task, ...] = ()
    """For `add`: the tasks."""
    drop: tuple[str, ...] = ()
    """For `add`: the tasks that they replace."""
    named: tuple[str, ...] = ()
    """For `retry`: the tasks, where they are several. Its text is a note for their agents."""
    model: str = ""
    """For `retry`: the model of their next attempts; empty leaves it as it is."""
    budget: Budget | None = None
    """For `budget`: the run's new one."""
    begins: BeginsFrom = ""
    """For `retry`."""
    key: str = ""
    """For `add`: a request with the same key is granted once."""
    wave: bool = False
    """For `approve`: it means everything that has landed, as a whole, and no task."""


def leave(run_folder: Path, request: PersonRequest) -> None:
    """Leaves a request; it is whole or not there."""
    inbox = run_folder / "inbox"
    inbox.mkdir(exist_ok=True)
    name = uuid.uuid4().hex
    draft = inbox / f".{name}"
    draft.write_text(request.encode())
    draft.rename(inbox / f"{name}.json")


def discard(run_folder: Path) -> int:
    """
    Delete each `cancel` that came too late for a run that has ended; return how many there were. Kept, it would be
    granted when the run is reopened, and undo the next `retry`. The other requests reopen the run and are kept for the
    next `resume`.
    """
    late = [path for path, request in waiting(run_folder) if request.do == "cancel"]
    for path in late:
        path.unlink(missing_ok=True)
    return len(late)


def waiting(run_folder: Path) -> Iterator[tuple[Path, PersonRequest]]:
    """Requests not taken in yet, oldest first. The caller unlinks each once its events are journaled."""
    inbox = run_folder / "inbox"
    if not inbox.is_dir():
        return
    for path in sorted(inbox.glob("*.json"), key=os.path.getmtime):
        yield path, PersonRequest.model_validate_json(path.read_text())
