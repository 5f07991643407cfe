"""`forgepool retry`: have tasks of a run done again, with a person's words to their agents or another model."""

from collections.abc import Sequence
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, printable
from forgepool.orchestrator.cli.run.options import Run, complete_task, find_run_with
from forgepool.orchestrator.cli.run.requests import NoResume, ask_and_go_on, check_text, gate_of, login_name
from forgepool.orchestrator.decisions.reasons import find_last_work, why_never_mends
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import is_being_written
from forgepool.orchestrator.launch.prerequisites import unreviewable
from forgepool.orchestrator.plan.addition import choose_models
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.task import RETRIABLE
from forgepool.workers.llm.routing.table import read_table, unknown
from forgepool.workers.schema.settings import Settings


def register(app: typer.Typer) -> None:
    app.command()(retry)


def retry(
    run: Run,
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK]...", help="Tasks of the plan.", autocompletion=complete_task),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="All tasks that failed, or that infrastructure failed too often.")
    ] = False,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="Words for the tasks' agents, in quotes.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="A model for the tasks' next attempts.")
    ] = None,
    from_candidate: Annotated[
        bool, typer.Option("--from-candidate", help="Begin the next attempts with the last work that was kept.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin the next attempts with nothing.")] = False,
    no_resume: NoResume = False,
) -> int:
    """
    Retry tasks that failed, were blocked or cancelled, or wait for a person, with the tasks they block and are blocked
    by. A run that has ended resumes at once.

    Without --from-candidate or --fresh, an attempt begins with the work of the one before it where that can be mended.
    """
    if (gate := gate_of(run)) is not None:
        todo = f"forgepool queue retry {' '.join(tasks or ['ENTRY'])} --target {gate.target}"
        raise CannotRun(f"{gate.run} is a merge queue, and its tasks are entries; to retry one: {todo}")
    kept = find_run_with(run, None)
    named = _find_retried(kept, tasks or [], failed=failed)
    if note is not None:
        _check_note(kept, named, note)
    if model is not None:
        _check_model(kept, named, model)
    if from_candidate:
        _check_works(kept, named, fresh=fresh)
    request = PersonRequest(
        do="retry",
        named=named,
        text=note or "",
        by=printable(login_name()),
        model=model or "",
        begins="candidate" if from_candidate else "fresh" if fresh else "",
    )
    if len(named) == 1:
        request = request.model_copy(update={"task": named[0], "named": ()})
    return ask_and_go_on(run, request, resume_after=not no_resume)


def _find_retried(kept: KeptRun, tasks: Sequence[str], *, failed: bool) -> tuple[str, ...]:
    """
    Return the tasks to retry. Of those that wait for a person, `failed` means only those in trouble: a question, a
    budget or a review has a command of its own.

    Raises:
        CannotRun: no task is named, or one of them cannot be retried.
    """
    run, state = kept.options.run, kept.state()
    if bool(tasks) == failed:
        both = "name tasks or give --failed, not both" if failed else "no task is named"
        raise CannotRun(f"{both}: forgepool retry {run} TASK..., or forgepool retry {run} --failed")
    named = tuple(dict.fromkeys(tasks))
    for task in named:
        find_run_with(run, task)
        if state.tasks[task].phase not in RETRIABLE and not is_being_written(kept.folder):
            raise CannotRun(f"there is nothing to retry in run {run}: '{task}' is {state.tasks[task].phase}")
    if not failed:
        return named
    found = [task.id for task in state.in_phase("failed", "needs_human") if task.parked_for in (None, "trouble")]
    if not found:
        raise CannotRun(f"no task of run {run} has failed; `forgepool status {run}` lists its tasks")
    return tuple(task for task in kept.course.tasks if task in found)


def _check_note(kept: KeptRun, tasks: Sequence[str], note: str) -> None:
    """Raises CannotRun where it is no text, or a task's agent reads none."""
    run = kept.options.run
    if not note.strip():
        raise CannotRun(f"the note is empty; give one in quotes: forgepool retry {run} {tasks[0]} --note 'TEXT'")
    check_text(note, "the note")
    for task in tasks:
        if kept.course.tasks[task].agent.kind == "command":
            raise CannotRun(
                f"task '{task}' is done by a command, which reads no note; leave out --note, or name the others alone"
            )


def _check_works(kept: KeptRun, tasks: Sequence[str], *, fresh: bool) -> None:
    """Raises CannotRun where `--fresh` says the opposite, or a task has no work that an attempt can begin with."""
    if fresh:
        raise CannotRun("--from-candidate and --fresh exclude each other; give one of them")
    state = kept.state()
    for task in tasks:
        why = why_never_mends(kept.course, task)
        if not why and find_last_work(state.tasks[task]) is None:
            why = "has left no work that the hub has"
        if why:
            raise CannotRun(f"task '{task}' {why}; leave out --from-candidate, or name the others alone")


def _check_model(kept: KeptRun, tasks: Sequence[str], model: str) -> None:
    """Raises CannotRun where a task's agent takes no model, or no such model is known here."""
    for task in tasks:
        agent = kept.course.tasks[task].agent
        if agent.kind != "builtin":
            raise CannotRun(
                f"task '{task}' is done by a {agent.kind} agent, and --model is for the built-in agent; leave out "
                f"--model, or give the task another agent: forgepool resume {kept.options.run} --plan FILE"
            )
    settings = Settings()
    # Workers on other hosts have tables of their own.
    if settings.broker_url is None and not kept.options.broker:
        table = read_table(settings.models_file)
        if model not in table.models:
            raise CannotRun(f"--model {model!r}: {unknown('model', model, table.models)}")
        if (warning := unreviewable(choose_models(kept.plan, dict.fromkeys(tasks, model)), settings)) is not None:
            complain(f"warning: {warning}", 0)
