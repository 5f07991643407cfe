"""`forgepool context use`: another context profile for a run's tasks, while they are worked on."""

from typing import Annotated

import typer

from forgepool.orchestrator.cli.run.requesting import ask, find_run_with
from forgepool.orchestrator.cli.run.running import Run
from forgepool.orchestrator.decisions.requests import CONVERSING, may_choose_profile
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.context.profiles.registry import find_profile


def register(context: typer.Typer) -> None:
    context.command()(use)


def use(
    profile: Annotated[str, typer.Argument(help="A context profile; docs/explanation/context.md has them.")],
    run: Run,
    task: Annotated[str | None, typer.Argument(help="One task; default: all.")] = None,
) -> None:
    """Choose another context profile for a run or one of its tasks; it holds from the model's next call on."""
    name = find_profile(profile).make().name
    kept = find_run_with(run, task)
    state = kept.state()
    able = [one for one in ([task] if task else state.tasks) if may_choose_profile(kept.course, state, one)]
    if not able:
        raise CannotRun(_why_not(kept, state, task))
    whom = f"'{task}'" if task else "all its tasks"
    ask(run, PersonRequest(do="context", task=task, text=name), wish=f"show {whom} by the profile '{name}'")


def _why_not(kept: KeptRun, state: RunState, task: str | None) -> str:
    run = kept.options.run
    if task is None:
        return f"no task of run {run} has a conversation to be shown otherwise: all have ended, or are done by programs"
    kind = kept.course.tasks[task].agent.kind
    if kind not in CONVERSING:
        return f"task '{task}' of run {run} is done by another program (agent: {kind}), which sees to its own context"
    phase = state.tasks[task].phase
    return f"task '{task}' of run {run} is over, it is {phase}; a profile can be chosen while a task goes on"
