"""Requests to a run: `cancel`, `answer`, `say`, `budget`, `approve`, `reject`. `retry` has a module of its own."""

import getpass
from collections.abc import Sequence
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import printable, say
from forgepool.orchestrator.cli.run.options import OneTask, Run, Task, complete_task, find_run_with
from forgepool.orchestrator.cli.run.run import resume, tell_changes
from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.decisions.requests import grant_request, why_not_approve, why_not_reject
from forgepool.orchestrator.decisions.reviews import post_merge
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import Event, RunResumed, RunStarted
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import JournalBusy, Recorded, is_being_written
from forgepool.orchestrator.launch.revision import choose_budget
from forgepool.orchestrator.reports.costs import name_amounts
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.state.run import REOPENED, RunState, branch_of
from forgepool.orchestrator.state.task import TERMINAL
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.settings import Settings

NoResume = Annotated[
    bool, typer.Option("--no-resume", help="Only record it; continue the run later with `forgepool resume`.")
]


def register(app: typer.Typer) -> None:
    app.command()(cancel)
    app.command()(answer)
    app.command("say")(say_to_lead)
    app.command()(budget)
    app.command()(approve)
    app.command()(reject)


def cancel(run: Run, task: OneTask = None) -> None:
    """Cancel a run, or one of its tasks. A task that is landing still lands."""
    if (gate := gate_of(run)) is not None:
        todo = f"to withdraw one: forgepool queue withdraw {task or 'ENTRY'} --target {gate.target}"
        all_of_it = "" if task is not None else f"; to pause all: forgepool queue pause --target {gate.target}"
        raise CannotRun(f"{gate.run} is a merge queue, and its tasks are entries; {todo}{all_of_it}")
    ask(run, PersonRequest(do="cancel", task=task))


def answer(
    run: Run,
    task: Task,
    text: Annotated[str, typer.Argument(help="The answer, in quotes.")],
    by: Annotated[str | None, typer.Option("--by", help="Who answers; default: you.")] = None,
    no_resume: NoResume = False,
) -> int:
    """Answer a task's question; the task continues where it stopped. A run that has ended resumes at once."""
    kept = find_run_with(run, task)
    if not text.strip():
        raise CannotRun(f"the answer is empty; give one in quotes: forgepool answer {kept.options.run} {task} 'TEXT'")
    check_question(kept.state(), task)
    name = login_name() if by is None else by
    for said, what in ((text, "the answer"), (name, "the name given with --by")):
        check_text(said, what)
    request = PersonRequest(do="answer", task=task, text=text, by=printable(name))
    return ask_and_go_on(run, request, resume_after=not no_resume)


def say_to_lead(
    run: Run,
    text: Annotated[str, typer.Argument(help="What the lead should know, in quotes.")],
    by: Annotated[str | None, typer.Option("--by", help="Who says it; default: you.")] = None,
) -> None:
    """Say something to the task that leads a run. It hears it with its next reply, and no task is stopped for it."""
    kept = find_run_with(run, None)
    name = login_name() if by is None else by
    if not text.strip():
        raise CannotRun(f"there is nothing to say; give it in quotes: forgepool say {kept.options.run} 'TEXT'")
    for said, what in ((text, "the text"), (name, "the name given with --by")):
        check_text(said, what)
    ask(
        run, PersonRequest(do="say", task=_find_lead(kept), text=text, by=printable(name) or "a person"), wish="hear it"
    )


def budget(
    run: Run,
    usd: Annotated[float | None, typer.Option(min=0.01, help="The cap on its cost from now on.")] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="The cap on its input and output tokens from now on.")
    ] = None,
    no_resume: NoResume = False,
) -> int:
    """Give a run another budget, also while it is under way. A run that ended for want of one resumes at once."""
    kept = find_run_with(run, None)
    name, state = kept.options.run, kept.state()
    if (gate := gate_of(run)) is not None:
        raise CannotRun(f"{gate.run} is a merge queue, and has no budget; give one to a run")
    if usd is None and tokens is None:
        raise CannotRun(f"no budget is given; name one, such as: forgepool budget {name} --usd 20")
    cap = choose_budget(kept, state, usd, tokens)
    if cap == kept.course.budget(state):
        raise CannotRun(f"run {name} has a budget of {name_amounts(cap.usd, cap.tokens)} already; give another one")
    wish = f"go on with a budget of {name_amounts(cap.usd, cap.tokens)}"
    return ask_and_go_on(run, PersonRequest(do="budget", budget=cap), wish=wish, resume_after=not no_resume)


def _find_lead(kept: KeptRun) -> str:
    """Raises CannotRun where the run has no lead, or that has ended."""
    lead, run = kept.course.lead, kept.options.run
    if lead is None:
        raise CannotRun(f"run {run} has no task that leads it; a task with 'leads: true' in its plan would")
    phase = kept.state().tasks[lead].phase
    if phase in TERMINAL:
        raise CannotRun(f"'{lead}', which led run {run}, has ended as {phase} and hears nothing any more")
    return lead


def check_question(state: RunState, task: str) -> None:
    """Raise CannotRun where the task asks nothing."""
    if not state.tasks[task].question:
        asking = ", ".join(one.id for one in state.tasks.values() if one.question)
        others = f"waiting for an answer: {asking}" if asking else "no task does"
        raise CannotRun(f"task '{task}' of run {state.run} has no question, it is {state.tasks[task].phase}; {others}")


def approve(
    run: Run,
    task: Annotated[
        str | None,
        typer.Argument(help="A task of the plan; omit it with --all-green or --wave.", autocompletion=complete_task),
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who reviewed it.")] = None,
    all_green: Annotated[
        bool, typer.Option("--all-green", help="Approve every task that waits for a person and whose checks passed.")
    ] = False,
    wave: Annotated[bool, typer.Option("--wave", help="In place of a task: approve all that has landed.")] = False,
    no_resume: NoResume = False,
) -> int:
    """
    Approve a task's candidate, which then lands if its checks pass. With --wave, approve all that has landed in place
    of the integration review. A run that has ended resumes at once.
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
    Return the tasks that wait for a person and whose checks pass.

    Raises:
        CannotRun: there is none.
    """
    waiting = [task for task in state.in_phase("needs_human", "reviewing") if task.candidate]
    able = [one for one in waiting if why_not_approve(kept.course, state, one.id) is None]
    green = [one.id for one in able if one.verdict is not None and one.verdict.verdict == "green"]
    if not green:
        others = ", ".join(one.id for one in waiting)
        rest = f"; {others} wait, but their checks have not passed" if others else ""
        raise CannotRun(f"no task of run {kept.options.run} waits for a person with passing checks{rest}")
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
    reason: Annotated[str, typer.Argument(help="What is wrong, for the next attempt; in quotes.")] = "",
    by: Annotated[str | None, typer.Option("--by", help="Who reviewed it.")] = None,
    no_resume: NoResume = False,
) -> int:
    """
    Reject a task's candidate: it is returned with your reason, or fails if no attempt is left. A run that has ended
    resumes at once.
    """
    task = _entry_name(run, task)
    kept = find_run_with(run, task)
    name = _named_person(by, f"forgepool reject {kept.options.run} {task} REASON --by NAME")
    check_text(reason, "the reason")
    state = kept.state()
    if (wrong := why_not_reject(state, task)) is not None:
        raise CannotRun(f"task '{task}' of run {kept.options.run} {wrong}")
    said = PersonRequest(do="reject", task=task, text=reason.strip(), by=name, candidate=state.tasks[task].candidate)
    return ask_and_go_on(run, said, resume_after=not no_resume)


def _named_person(by: str | None, command: str, *, what: str = "the candidate") -> str:
    """
    Return the reviewer's name: an approval is never recorded without one.

    Raises:
        CannotRun: no readable name is given.
    """
    if by is None or not by.strip():
        raise CannotRun(f"the reviewer of {what} is not named; give a name: {command}")
    check_text(by, "the name given with --by")
    return printable(by.strip())


def _entry_name(run: str, task: str) -> str:
    """Return the task's name; an entry of a queue may be given by its branch."""
    return task if gate_of(run) is None else entry_name(task)


def gate_of(run: str) -> RunOptions | None:
    """Return the options of a merge queue; None for a run of a plan."""
    options = run_folder.find(Settings(), run).options
    return options if options.gate else None


_MOST_TEXT = 20_000


def check_text(text: str, what: str) -> None:
    """Raise CannotRun for bytes of the command line that are not UTF-8, and for a text that is too long."""
    if len(text) > _MOST_TEXT:
        raise CannotRun(f"{what} is longer than {_MOST_TEXT:,} characters; shorten it")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise CannotRun(f"{what} is not UTF-8; give it as UTF-8 text") from problem


def login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def ask_and_go_on(run: str, *requests: PersonRequest, wish: str = "", resume_after: bool) -> int:
    """
    Make the requests, then resume the run if it had ended and now has something to do; return its exit status.

    A run that was interrupted is not resumed, nor one whose workers are on other hosts with a Redis unknown here.
    """
    kept = find_run_with(run, None)
    before, recorded = kept.replay()
    for request in requests:
        ask(run, request, wish=wish, go_on=False)
    state = kept.state()
    if state.finished or state.number == before.number or is_being_written(kept.folder):
        return 0
    if not resume_after or not may_resume(kept, before, state, recorded):
        say(f"continue with: {_go_on(kept)}")
        return 0
    return resume(kept.options.run, sandbox="off" if confinements(recorded) == ["off"] else None)


def may_resume(kept: KeptRun, before: RunState, after: RunState, recorded: Sequence[Recorded]) -> bool:
    """
    Tell whether a run goes on by itself after a person's word: one that this word opened again. Its end may have come
    between the two states. Not one whose workers are on other hosts with a Redis unknown here.
    """
    elsewhere = confinements(recorded) == [None] and Settings().broker_url is None
    return not kept.options.gate and not elsewhere and after.stopped == REOPENED != before.stopped


def confinements(recorded: Sequence[Recorded]) -> list[Level | None]:
    """Return how the last process of the run confined its commands, in a list; empty where it never began."""
    return [record.event.sandbox for record in recorded if isinstance(record.event, RunStarted | RunResumed)][-1:]


def ask(run: str, request: PersonRequest, *, wish: str = "", go_on: bool = True) -> None:
    """
    Pass a request to the running orchestrator, else journal it at once. `wish` describes it in words; `go_on` prints
    the command that resumes the run.
    """
    kept = find_run_with(run, request.task)
    wish = wish or f"{request.do} {_named(kept, request)}"
    done = deliver(kept, request)
    if done is None:
        say(f"asked run {kept.options.run} to {wish}{_if_it_ends(kept, request)}")
        return
    state, changes = done
    tell_changes(kept, changes)
    if not changes:
        raise CannotRun(f"there is nothing to {request.do} in run {kept.options.run}: {_phases(state, request)}")
    if go_on and not state.finished:
        say(f"continue with: {_go_on(kept)}")


def deliver(kept: KeptRun, request: PersonRequest) -> tuple[RunState, list[Event]] | None:
    """
    Leave a request for the process that runs the run, which takes it in at its next turn: None. Where no process does,
    journal its events at once, and return them with the state after them; there are none where it changes nothing.
    """

    def decide(state: RunState) -> list[Event]:
        if state.finished:
            # An earlier `cancel` that came too late would undo this request.
            inbox.discard(kept.folder)
        return grant_request(kept.course.grow_with(state), state, request)

    try:
        return kept.amend(decide)
    except JournalBusy:
        inbox.leave(kept.folder, request)
        return None


def _named(kept: KeptRun, request: PersonRequest) -> str:
    if request.task is None:
        return ", ".join(request.named) or "all its tasks"
    return branch_of(kept.state(), request.task) if kept.options.gate else request.task


def _if_it_ends(kept: KeptRun, request: PersonRequest) -> str:
    """Return a hint for the case that the run is just ending and never reads its inbox."""
    return "" if request.do == "cancel" else f"; if it ends before it reads this: {_go_on(kept)}"


def _go_on(kept: KeptRun) -> str:
    one = kept.options
    return (
        f"forgepool queue serve --repo {one.hub} --target {one.target}" if one.gate else f"forgepool resume {one.run}"
    )


def _phases(state: RunState, request: PersonRequest) -> str:
    if request.task is not None:
        return f"'{request.task}' is {state.tasks[request.task].phase}"
    if request.named:
        return ", ".join(f"'{task}' is {state.tasks[task].phase}" for task in request.named)
    return "all its tasks have ended"
