"""Arguments and options that several commands on runs have, and the run they name. Nothing of a run is loaded here."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from forgepool.orchestrator.run.run_folder import KeptRun

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to standard error.")]
Run = Annotated[str, typer.Argument(help="The run's name, or its beginning.")]
Task = Annotated[str, typer.Argument(help="A task of the plan.")]


def find_run_with(run: str, task: str | None) -> "KeptRun":
    """Find the run, and check that it has the task. Raises UserError."""
    from forgepool.orchestrator.run import run_folder
    from forgepool.workers.schema.settings import Settings
    from forgepool.worktrees.errors import UserError

    kept = run_folder.find(Settings(), run)
    if task is not None and task not in kept.course.tasks:
        known = ", ".join(list(kept.course.tasks)[:10])
        raise UserError(f"run {kept.options.run} has no task '{task}'; it has: {known}")
    return kept
