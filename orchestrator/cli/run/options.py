"""Arguments and options that several commands on runs have, and the run they name. Nothing of a run is loaded here."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from forgepool.orchestrator.run.run_folder import KeptRun

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to standard error.")]
JsonList = Annotated[bool, typer.Option("--json", help="Print a JSON list.")]
Again = Annotated[bool, typer.Option("--again", help="Also repeat what an earlier run of this plan has landed.")]


def complete_run(incomplete: str) -> list[str]:
    """Return the runs of this host that begin so, the latest first, for a shell that completes a name."""
    from forgepool.orchestrator.run import run_folder
    from forgepool.workers.schema.settings import Settings

    return [name for name in run_folder.run_names(Settings()) if name.startswith(incomplete)]


def complete_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the tasks that begin so, of the run named before them; of the latest run if none is."""
    from forgepool.orchestrator.journal.store import JournalUnreadable
    from forgepool.orchestrator.run import run_folder
    from forgepool.workers.schema.settings import Settings
    from forgepool.worktrees.errors import UserError

    try:
        course = run_folder.find(Settings(), ctx.params.get("run")).course
    except (UserError, JournalUnreadable):
        return []  # The command itself says it.
    return [task for task in course.tasks if task.startswith(incomplete)]


def complete_entry(incomplete: str) -> list[str]:
    """Return the entries that begin so, of all queues of this host."""
    from forgepool.orchestrator.journal.store import JournalUnreadable
    from forgepool.orchestrator.run import run_folder
    from forgepool.workers.schema.settings import Settings

    entries: dict[str, None] = {}
    for run in run_folder.run_names(Settings()):
        with suppress(JournalUnreadable):
            kept = run_folder.open_run(Settings(), run, with_course=False)
            entries |= dict.fromkeys(kept.state().tasks if kept.options.gate else ())
    return [entry for entry in entries if entry.startswith(incomplete)]


Run = Annotated[str, typer.Argument(help="The run's name, or its beginning.", autocompletion=complete_run)]
OptionalRun = Annotated[
    str | None,
    typer.Argument(help="The run's name, or its beginning; default: the latest run.", autocompletion=complete_run),
]
Task = Annotated[str, typer.Argument(help="A task of the plan.", autocompletion=complete_task)]
OneTask = Annotated[str | None, typer.Argument(help="One task; default: all.", autocompletion=complete_task)]
_MOST_AUTOMATIC, _MOST = 4, 64
"""Trials at once: more than four mostly repeat runs of others, so only a person asks for more."""


def trials_of(asked: str, *, processors: int) -> int:
    """Return the number that `--trials` asks for; `auto` is one for each processor, up to four. Raises UserError."""
    from forgepool.worktrees.errors import UserError

    if asked == "auto":
        return max(1, min(processors, _MOST_AUTOMATIC))
    if not asked.isdecimal() or not 1 <= int(asked) <= _MOST:
        raise UserError(f"--trials is {asked}; it must be auto or a number from 1 to {_MOST}")
    return int(asked)


def cores_beside_workers() -> int:
    """Return the half of the processors that a run's checks may use, since its workers use the other."""
    return (os.cpu_count() or 1) // 2


def find_run_with(run: str, task: str | None) -> "KeptRun":
    """Find the run, and check that it has the task. Raises UserError."""
    from forgepool.orchestrator.decisions.plan_index import GateCourse
    from forgepool.orchestrator.run import run_folder
    from forgepool.workers.schema.settings import Settings
    from forgepool.worktrees.errors import UserError

    kept = run_folder.find(Settings(), run)
    if task is not None and task not in kept.course.tasks:
        course, names = kept.course, list(kept.course.tasks)[:10]
        named = [course.entries[one].branch or one for one in names] if isinstance(course, GateCourse) else names
        raise UserError(f"run {kept.options.run} has no task '{task}'; it has: {', '.join(named)}")
    return kept


def find_task(run: str, task: str) -> "tuple[KeptRun, str]":
    """Return the run and the task's name; an entry of a queue may be named by its branch. Raises UserError."""
    from forgepool.orchestrator.decisions.queue.submissions import entry_name

    kept = find_run_with(run, None)
    name = entry_name(task) if kept.options.gate and task not in kept.course.tasks else task
    return find_run_with(kept.options.run, name if name in kept.course.tasks else task), name
