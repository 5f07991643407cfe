"""
Requests from people to a run: a file each, in the run's own folder, taken in by the orchestrator at its next turn.

A folder needs no Redis and no open port, and a request left while the orchestrator is dead is found on resume.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from forgepool.workers.schema.orders import Message


class PersonRequest(Message):
    """What a person asks of a run; without a task, of all its tasks."""

    do: Literal[
        "cancel",
        "retry",
        "answer",
        "context",
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
    """Of an answer; of `context`, the profile; of `reject` and `pause`, the reason; of `reclass`, the class."""
    by: str = ""
    """Who asks, where that is kept."""
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    """Of `grant`: what the entry may change, and rules that are not applied to it."""
    candidate: str = ""
    """
    Of `approve`, `reject` and an entry's `retry` and `grant`: the commit that was the candidate when it was said, of a
    wave the target's tip; of no other does it hold.
    """
    wave: bool = False
    """Of `approve`: what has landed is meant, as a whole, and no task."""


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
    Throws away each `cancel` that came too late for a run that has ended; returns how many that were.

    Kept, it would be granted when somebody reopens the run, and undo the next `retry`. The others are the reopening:
    they are kept for the next `resume`.
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
