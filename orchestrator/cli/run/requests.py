"""Requests to a run: `cancel`, `retry`, `answer`, `approve`, `reject`."""

import getpass
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import printable, say
from forgepool.orchestrator.cli.run.run import Run, resume, tell_changes
from forgepool.orchestrator.decisions import post_merge
from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.decisions.requests import grant_request, why_not_approve, why_not_reject
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import Event, RunResumed, RunStarted
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import JournalBusy
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.settings import Settings

Task = Annotated[str, typer.Argument(help="A task of the plan.")]
NoResume = Annotated[
    bool, typer.Option("--no-resume", help="Only note it; `forgepool resume` goes on with the run later.")
]


def register(app: typer.Typer) -> None:
    app.command()(cancel)
    app.command()(retry)
    app.command()(answer)
    app.command()(approve)
    app.command()(reject)


def cancel(run: Run, task: Annotated[str | None, typer.Argument(help="One task; default: all.")] = None) -> None:
    """Cancel a run, or one of its tasks. What is just landing still lands."""
    if (gate := _gate(run)) is not None:
        todo = f"to take one out of line: forgepool queue withdraw {task or 'ENTRY'} --target {gate.target}"
        all_of_it = "" if task is not None else f"; to stop all: forgepool queue pause --target {gate.target}"
        raise CannotRun(f"{gate.run} is a gate, and its tasks are entries; {todo}{all_of_it}")
    ask(run, PersonRequest(do="cancel", task=task))


def retry(run: Run, task: Task, no_resume: NoResume = False) -> int:
    """
    Try a task again that failed, was blocked or cancelled, or waits for a person, together with what it blocks and
    what blocks it. A run that has ended goes on at once.
    """
    if (gate := _gate(run)) is not None:
        todo = f"forgepool queue retry {task} --target {gate.target}"
        raise CannotRun(f"{gate.run} is a gate, and its tasks are entries; to try one again: {todo}")
    return ask_and_go_on(run, PersonRequest(do="retry", task=task), resume_after=not no_resume)


def answer(
    run: Run,
    task: Task,
    text: Annotated[str, typer.Argument(help="The answer; in quotes, as one word of the command line.")],
    by: Annotated[str | None, typer.Option("--by", help="Who answers; default: you.")] = None,
    no_resume: NoResume = False,
) -> int:
    """
    Answer the question with which a task waits for a person; it then goes on where it was. A run that has ended goes on
    at once.
    """
    kept = find_run_with(run, task)
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
    request = PersonRequest(do="answer", task=task, text=text, by=printable(name))
    return ask_and_go_on(run, request, resume_after=not no_resume)


def approve(
    run: Run,
    task: Annotated[str | None, typer.Argument(help="A task of the plan; none with --all-green or --wave.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who has looked at it.")] = None,
    all_green: Annotated[
        bool, typer.Option("--all-green", help="Every task that waits for a person and whose checks are green.")
    ] = False,
    wave: Annotated[bool, typer.Option("--wave", help="In place of a task: all that has landed, as a whole.")] = False,
    no_resume: NoResume = False,
) -> int:
    """
    Let a task's candidate land, if its checks are green, because you have looked at it; with --wave, stand in for the
    review of all that has landed. A run that has ended goes on at once.
    """
    task = None if task is None else _entry_name(run, task)
    kept = find_run_with(run, task)
    name = kept.options.run
    if (task is not None) + wave + all_green != 1:
        raise CannotRun(f"approve one thing: forgepool approve {name} TASK, or --all-green or --wave in place of TASK")
    if wave:
        return _approve_wave(kept, by, resume_after=not no_resume)
    word = task or "--all-green"
    person = _named_person(by, f"forgepool approve {name} {word} --by NAME")
    state = kept.state()
    tasks = [task] if task is not None else _green(kept, state)
    for one in tasks:
        if (wrong := why_not_approve(kept.course, state, one)) is not None:
            raise CannotRun(f"task '{one}' of run {name} {wrong}")
    requests = [PersonRequest(do="approve", task=one, by=person, candidate=state.tasks[one].candidate) for one in tasks]
    return ask_and_go_on(run, *requests, resume_after=not no_resume)


def _green(kept: KeptRun, state: RunState) -> list[str]:
    """
    The tasks that wait for a person's word on a candidate whose checks are green.

    Raises:
        CannotRun: there is none.
    """
    waiting = [one for one in state.in_phase("needs_human", "reviewing") if one.candidate]
    able = [one for one in waiting if why_not_approve(kept.course, state, one.id) is None]
    green = [one.id for one in able if one.verdict is not None and one.verdict.verdict == "green"]
    if not green:
        others = ", ".join(one.id for one in waiting)
        rest = f"; {others} wait without green checks" if others else ""
        raise CannotRun(f"no task of run {kept.options.run} waits for a person with its checks green{rest}")
    return green


def _approve_wave(kept: KeptRun, by: str | None, *, resume_after: bool) -> int:
    run = kept.options.run
    name = _named_person(by, f"forgepool approve {run} --wave --by NAME", what="what has landed")
    state = kept.state()
    if (wrong := post_merge.why_not_approve_landings(kept.course, state)) is not None:
        raise CannotRun(f"run {run} {wrong}")
    said = PersonRequest(do="approve", wave=True, by=name, candidate=state.tip)
    return ask_and_go_on(run, said, wish=f"approve what has landed up to {state.tip[:12]}", resume_after=resume_after)


def reject(
    run: Run,
    task: Task,
    reason: Annotated[str, typer.Argument(help="What is wrong with it, for the next attempt; in quotes.")] = "",
    by: Annotated[str | None, typer.Option("--by", help="Who has looked at the candidate.")] = None,
    no_resume: NoResume = False,
) -> int:
    """
    Do not let a task's candidate land: it goes back with your reason, or has failed if no attempt is left. A run that
    has ended goes on at once.
    """
    task = _entry_name(run, task)
    kept = find_run_with(run, task)
    name = _named_person(by, f"forgepool reject {kept.options.run} {task} REASON --by NAME")
    prove_text(reason, "the reason")
    state = kept.state()
    if (wrong := why_not_reject(state, task)) is not None:
        raise CannotRun(f"task '{task}' of run {kept.options.run} {wrong}")
    said = PersonRequest(do="reject", task=task, text=reason.strip(), by=name, candidate=state.tasks[task].candidate)
    return ask_and_go_on(run, said, resume_after=not no_resume)


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


def _entry_name(run: str, task: str) -> str:
    """A queue's entry may be given by its branch's own name."""
    return task if _gate(run) is None else entry_name(task)


def _gate(run: str) -> RunOptions | None:
    """None where it is a run of a plan."""
    options = run_folder.find(Settings(), run).options
    return options if options.gate else None


def prove_text(text: str, what: str) -> None:
    """Raise CannotRun for bytes of the command line that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise CannotRun(f"{what} is not UTF-8; give it as UTF-8 text") from problem


def find_run_with(run: str, task: str | None) -> KeptRun:
    """The run, which has the task if one is named. Raises CannotRun."""
    kept = run_folder.find(Settings(), run)
    if task is not None and task not in kept.course.tasks:
        known = ", ".join(list(kept.course.tasks)[:10])
        raise CannotRun(f"run {kept.options.run} has no task '{task}'; it has: {known}")
    return kept


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def ask_and_go_on(run: str, *requests: PersonRequest, wish: str = "", resume_after: bool) -> int:
    """
    Ask for all of these, then resume the run where it had ended and now has something to do; its exit status.

    A run that a person interrupted stays so, and so does one whose workers are on other hosts, by a Redis that is not
    known here: they go on when that is said.
    """
    kept = find_run_with(run, None)
    before, recorded = kept.replay()
    for request in requests:
        ask(run, request, wish=wish, go_on=False)
    state = kept.state()
    if state.finished or state.number == before.number:
        return 0
    waited = before.finished or before.halted_by_review
    held = [one.event.sandbox for one in recorded if isinstance(one.event, RunStarted | RunResumed)][-1:]
    elsewhere = held == [None] and Settings().broker_url is None
    if kept.options.gate or not (waited and resume_after) or elsewhere:
        say(f"go on with: {_go_on(kept)}")
        return 0
    return resume(kept.options.run, sandbox="off" if held == ["off"] else None)


def ask(run: str, request: PersonRequest, *, wish: str = "", go_on: bool = True) -> None:
    """
    To the orchestrator if there is one, else into the journal at once. `wish`: the request in words, as what follows
    "to"; its name where none are given. `go_on`: name the command that goes on with the run.
    """
    kept = find_run_with(run, request.task)
    wish = wish or f"{request.do} {request.task or 'all its tasks'}"

    def decide(state: RunState) -> list[Event]:
        if state.finished:
            # A `cancel` that came too late for it would undo what is asked for now.
            inbox.discard(kept.folder)
        return grant_request(kept.course, state, request)

    try:
        state, changes = kept.amend(decide)
    except JournalBusy:
        inbox.leave(kept.folder, request)
        say(f"asked run {kept.options.run} to {wish}{_if_it_ends(kept, request)}")
        return
    tell_changes(kept, changes)
    if not changes:
        raise CannotRun(f"there is nothing to {request.do} in run {kept.options.run}: {_phases(state, request)}")
    if go_on and not state.finished:
        say(f"go on with: {_go_on(kept)}")


def _if_it_ends(kept: KeptRun, request: PersonRequest) -> str:
    """What to do where a run is just ending, and will not look into its inbox again."""
    return "" if request.do == "cancel" else f"; if it ends before it hears: {_go_on(kept)}"


def _go_on(kept: KeptRun) -> str:
    one = kept.options
    return (
        f"forgepool queue serve --repo {one.hub} --target {one.target}" if one.gate else f"forgepool resume {one.run}"
    )


def _phases(state: RunState, request: PersonRequest) -> str:
    if request.task is not None:
        return f"'{request.task}' is {state.tasks[request.task].phase}"
    return "all its tasks have ended"
