"""Requests to a run: `cancel`, `retry`, `answer`, `approve`, `reject`."""

import getpass
from typing import Annotated

import typer

from orchestrator import inbox, runs, wave_reviews
from orchestrator.approvals import why_not_approve, why_not_reject
from orchestrator.cli.running import Run, tell_changes
from orchestrator.cli.say import printable, say
from orchestrator.cli.texts import prove_text
from orchestrator.events import Event
from orchestrator.hub import CannotRun
from orchestrator.inbox import Request
from orchestrator.journal import JournalBusy
from orchestrator.requests import granted
from orchestrator.runs import KeptRun, Options
from orchestrator.state import State
from workers.settings import Settings

Task = Annotated[str, typer.Argument(help="A task of the plan.")]


def register(app: typer.Typer) -> None:
    app.command()(cancel)
    app.command()(retry)
    app.command()(answer)
    app.command()(approve)
    app.command()(reject)


def cancel(run: Run, task: Annotated[str | None, typer.Argument(help="One task; default: all.")] = None) -> None:
    """Cancel a run, or one of its tasks. What is landing lands."""
    if (gate := _gate(run)) is not None:
        todo = f"to take one out of line: forgepool gate withdraw {task or 'ENTRY'} --gate {gate.run}"
        all_of_it = "" if task is not None else f"; to stop all: forgepool gate pause --gate {gate.run}"
        raise CannotRun(f"{gate.run} is a gate, and its tasks are entries; {todo}{all_of_it}")
    ask(run, Request(do="cancel", task=task))


def retry(run: Run, task: Task) -> None:
    """Try a task again that failed, was blocked, cancelled, or waits for a person; with what blocks it or it blocks."""
    if (gate := _gate(run)) is not None:
        todo = f"forgepool gate retry {task} --gate {gate.run}"
        raise CannotRun(f"{gate.run} is a gate, and its tasks are entries; to try one again: {todo}")
    ask(run, Request(do="retry", task=task))


def answer(
    run: Run,
    task: Task,
    text: Annotated[str, typer.Argument(help="The answer; in quotes, as one word of the command line.")],
    by: Annotated[str | None, typer.Option("--by", help="Who answers; default: you.")] = None,
) -> None:
    """Answer the question with which a task waits for a person; it then goes on where it was."""
    kept = kept_with(run, task)
    if not text.strip():
        raise CannotRun(f"the answer is empty; write it in quotes: forgepool answer {kept.options.run} {task} 'TEXT'")
    state = kept.state()
    if not state.tasks[task].question:
        asking = ", ".join(one.id for one in state.tasks.values() if one.question)
        others = f"these do: {asking}" if asking else "no task of it does"
        raise CannotRun(
            f"task '{task}' of run {kept.options.run} asks nothing, it is {state.tasks[task].phase}; {others}"
        )
    name = _person() if by is None else by
    for said, what in ((text, "the answer"), (name, "the name given with --by")):
        prove_text(said, what)
    ask(run, Request(do="answer", task=task, text=text, by=printable(name)))


def approve(
    run: Run,
    task: Annotated[str | None, typer.Argument(help="A task of the plan; none with --wave.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who has looked at it.")] = None,
    wave: Annotated[bool, typer.Option("--wave", help="What has landed, as a whole, in place of a task.")] = False,
) -> None:
    """
    Let a task's candidate land without a reviewer's word, if its checks are green, since you have looked at it; or
    answer for what has landed as a whole.
    """
    kept = kept_with(run, task)
    if wave == (task is not None):
        raise CannotRun(f"approve one thing: forgepool approve {kept.options.run} TASK, or --wave in place of TASK")
    if task is None:
        _approve_wave(kept, by)
        return
    name = _named_person(by, f"forgepool approve {kept.options.run} {task} --by NAME")
    state = kept.state()
    if (wrong := why_not_approve(kept.course, state, task)) is not None:
        raise CannotRun(f"task '{task}' of run {kept.options.run} {wrong}")
    ask(run, Request(do="approve", task=task, by=name, candidate=state.tasks[task].candidate))


def _approve_wave(kept: KeptRun, by: str | None) -> None:
    run = kept.options.run
    name = _named_person(by, f"forgepool approve {run} --wave --by NAME", what="what has landed")
    state = kept.state()
    if (wrong := wave_reviews.why_not_approve(kept.course, state)) is not None:
        raise CannotRun(f"run {run} {wrong}")
    said = Request(do="approve", wave=True, by=name, candidate=state.tip)
    ask(run, said, wish=f"approve what has landed up to {state.tip[:12]}")


def reject(
    run: Run,
    task: Task,
    reason: Annotated[str, typer.Argument(help="What is wrong with it, for the next attempt; in quotes.")] = "",
    by: Annotated[str | None, typer.Option("--by", help="Who has looked at the candidate.")] = None,
) -> None:
    """Do not let a task's candidate land: it goes back with your reason, or has failed if no attempt is left."""
    kept = kept_with(run, task)
    name = _named_person(by, f"forgepool reject {kept.options.run} {task} REASON --by NAME")
    prove_text(reason, "the reason")
    state = kept.state()
    if (wrong := why_not_reject(state, task)) is not None:
        raise CannotRun(f"task '{task}' of run {kept.options.run} {wrong}")
    ask(run, Request(do="reject", task=task, text=reason.strip(), by=name, candidate=state.tasks[task].candidate))


def _named_person(by: str | None, command: str, *, what: str = "the candidate") -> str:
    """
    Nobody is put down as having looked at something without having said so.

    Raises:
        CannotRun: no name is given, or none that can be read.
    """
    if by is None or not by.strip():
        raise CannotRun(f"it is not said who has looked at {what}; give a name: {command}")
    prove_text(by, "the name given with --by")
    return printable(by.strip())


def _gate(run: str) -> Options | None:
    """None where it is a run of a plan."""
    options = runs.find(Settings(), run).options
    return options if options.gate else None


def kept_with(run: str, task: str | None) -> KeptRun:
    """The run, which has the task if one is named. Raises CannotRun."""
    kept = runs.find(Settings(), run)
    if task is not None and task not in kept.course.tasks:
        known = ", ".join(list(kept.course.tasks)[:10])
        raise CannotRun(f"run {kept.options.run} has no task '{task}'; it has: {known}")
    return kept


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def ask(run: str, request: Request, *, wish: str = "") -> None:
    """
    To the orchestrator if there is one, else into the journal at once. `wish`: the request in words, as what follows
    "to"; its name where none are given.
    """
    kept = kept_with(run, request.task)
    wish = wish or f"{request.do} {request.task or 'all its tasks'}"

    def decide(state: State) -> list[Event]:
        if state.finished:
            # A `cancel` that came too late for it would undo what is asked for now.
            inbox.discard(kept.folder)
        return granted(kept.course, state, request)

    try:
        state, changes = kept.amend(decide)
    except JournalBusy:
        inbox.leave(kept.folder, request)
        say(f"asked run {kept.options.run} to {wish}{_if_it_ends(kept, request)}")
        return
    tell_changes(kept, changes)
    if not changes:
        raise CannotRun(f"there is nothing to {request.do} in run {kept.options.run}: {_phases(state, request)}")
    if not state.finished:
        say(f"go on with: {_go_on(kept)}")


def _if_it_ends(kept: KeptRun, request: Request) -> str:
    """What to do where a run is just ending, and will not look into its inbox again."""
    return "" if request.do == "cancel" else f"; if it ends before it hears: {_go_on(kept)}"


def _go_on(kept: KeptRun) -> str:
    one = kept.options
    return f"forgepool gate serve --repo {one.hub} --target {one.target}" if one.gate else f"forgepool resume {one.run}"


def _phases(state: State, request: Request) -> str:
    if request.task is not None:
        return f"'{request.task}' is {state.tasks[request.task].phase}"
    return "all its tasks have ended"
