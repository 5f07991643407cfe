"""
Actions of a page: words of the command line, left where it leaves them, and shown as the command to copy.

A live run or queue takes the word from its inbox. Of one that no process runs, the word is journaled at once, and the
run goes on with `forgepool resume`: a server runs no tasks.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from forgepool.orchestrator.cli.output.say import printable
from forgepool.orchestrator.cli.queue.control import leave_or_do, refuse_forgotten
from forgepool.orchestrator.cli.run.requests import check_text, deliver
from forgepool.orchestrator.decisions.queue.intake import apply_request, nothing_to_do, verb
from forgepool.orchestrator.decisions.queue.submissions import CLASSES
from forgepool.orchestrator.decisions.requests import (
    grant_request,
    may_choose_profile,
    why_not_approve,
    why_not_reject,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.launch.revision import choose_budget
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.home import HomeView, RunLook
from forgepool.orchestrator.reports.queue_board import gate_sentence
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import branch_of
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.context.profiles.registry import names

Word = Literal[
    "answer", "approve", "reject", "retry", "cancel", "context", "budget", "hold", "release", "reclass", "pause", "go"
]
WORDS: tuple[Word, ...] = get_args(Word)
_DEEDS = {"budget": "change the budget of", "context": "change the context profile of"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAction:
    """One button, with the command that does the same."""

    do: Word
    label: str
    command: str
    task: str = ""
    candidate: str = ""
    """The commit that the page shows: an approval of it holds for no other."""
    text: str = ""
    """The label of the text to give; empty where none is wanted."""
    choices: tuple[str, ...] = ()
    """The texts to choose from."""
    named: bool = False
    """The person's name is kept with it."""
    grave: bool = False
    """It ends work, so it is asked for twice."""


def actions_of(look: RunLook, task: TaskState | None) -> list[WebAction]:
    """Return what a person can do now about a task or an entry, or about the whole."""
    gate = look.kept.options.gate
    found = (_on_entry if gate else _on_task)(look, task) if task is not None else _on_whole(look)
    return [action for action in found if _changes(look, action)]


def _on_task(look: RunLook, task: TaskState) -> Iterator[WebAction]:
    run = look.state.run
    where = f"{run} {task.id}"
    if task.question:
        command = f"forgepool answer {where} TEXT"
        yield WebAction(do="answer", label="Answer", command=command, task=task.id, text="Your answer", named=True)
    yield from _judging(look, task)
    yield WebAction(do="retry", label="Retry", command=f"forgepool retry {where}", task=task.id)
    if may_choose_profile(look.course, look.state, task.id):
        yield WebAction(
            do="context",
            label="Change context profile",
            command=f"forgepool context use PROFILE {where}",
            task=task.id,
            text="Profile",
            choices=names(),
        )
    yield WebAction(do="cancel", label="Cancel task", command=f"forgepool cancel {where}", task=task.id, grave=True)


def _judging(look: RunLook, task: TaskState) -> Iterator[WebAction]:
    where = f"{look.state.run} {shlex.quote(task.id)}"
    if why_not_approve(look.course, look.state, task.id) is None:
        command = f"forgepool approve {where} --by NAME"
        yield WebAction(
            do="approve", label="Approve", command=command, task=task.id, candidate=task.candidate, named=True
        )
    if look.course.wants_review(task) and why_not_reject(look.state, task.id) is None:
        command = f"forgepool reject {where} REASON --by NAME"
        yield WebAction(
            do="reject",
            label="Reject",
            command=command,
            task=task.id,
            candidate=task.candidate,
            text="What is wrong, for the next attempt",
            named=True,
        )


def _on_entry(look: RunLook, task: TaskState) -> Iterator[WebAction]:
    target, name = shlex.quote(look.state.target), shlex.quote(branch_of(look.state, task.id))
    commit = look.state.submitted[task.id].commit
    yield from _judging(look, task)
    words: tuple[tuple[Word, str], ...] = (("retry", "Retry"), ("hold", "Hold"), ("release", "Release"))
    for do, label in words:
        command = f"forgepool queue {do} {name} --target {target}"
        yield WebAction(do=do, label=label, command=command, task=task.id, candidate=commit)
    command = f"forgepool queue priority {name} CLASS --target {target}"
    yield WebAction(
        do="reclass", label="Change priority", command=command, task=task.id, text="Class", choices=tuple(CLASSES)
    )
    command = f"forgepool queue withdraw {name} --target {target}"
    yield WebAction(do="cancel", label="Withdraw", command=command, task=task.id, candidate=commit, grave=True)


def _on_whole(look: RunLook) -> Iterator[WebAction]:
    if not look.kept.options.gate:
        yield from _budgeting(look)
        yield WebAction(do="cancel", label="Cancel run", command=f"forgepool cancel {look.state.run}", grave=True)
        return
    target = shlex.quote(look.state.target)
    yield WebAction(
        do="pause",
        label="Pause",
        command=f"forgepool queue pause WHY --target {target}",
        text="Why, for those who wait",
    )
    yield WebAction(do="go", label="Resume", command=f"forgepool queue resume --target {target}")


def _budgeting(look: RunLook) -> Iterator[WebAction]:
    """Offer another budget, of the kind that the run has, where models are at work or have stopped for want of one."""
    state, cap = look.state, look.course.budget(look.state)
    parked = any(task.parked_for == "budget" for task in state.in_phase("needs_human"))
    if look.course.paid and (parked or not state.finished):
        kind, what = ("tokens", "Tokens") if cap.usd is None and cap.tokens is not None else ("usd", "US dollars")
        command = f"forgepool budget {state.run} --{kind} N"
        yield WebAction(do="budget", label="Change budget", command=command, text=f"{what} in all")


def _changes(look: RunLook, action: WebAction) -> bool:
    """Tell whether the action would change something now."""
    if action.do == "budget":
        return True
    text = action.text and "text"
    if action.do == "reclass":
        task = look.state.tasks[action.task]
        other = [one for one in CLASSES if one != look.state.submitted[task.id].klass]
        text = other[0]
    request = PersonRequest(
        do=action.do, task=action.task or None, candidate=action.candidate, by="a person", text=text
    )
    changes = apply_request(look.state, request) if look.kept.options.gate else None
    return bool(grant_request(look.course, look.state, request) if changes is None else changes)


def act_on(home: HomeView, run: str, given: dict[str, str]) -> str:
    """
    Do what a form asks for; return what follows, in one sentence.

    Raises:
        CannotRun: the form is wrong, or its word would change nothing.
        NoSuchRun, JournalUnreadable: there is no readable journal.
    """
    return home.view(run).look(lambda look: leave_word(*perform(look, given), look))


def perform(look: RunLook, given: dict[str, str]) -> tuple[KeptRun, PersonRequest]:
    """
    Return the request that a form asks for, and the run to leave it in.

    Raises:
        CannotRun: the form is wrong, or its word would change nothing.
    """
    do, task, text, by = (given.get(name, "").strip() for name in ("do", "task", "text", "by"))
    if do not in WORDS:
        raise CannotRun(f"'{do[:40]}' is no action; actions are: {', '.join(WORDS)}")
    for said in (text, by):
        check_text(said, "the text")
    offered = actions_of(look, look.state.tasks.get(task)) if task in look.state.tasks or not task else []
    action = next((one for one in offered if one.do == do), None)
    if action is None:
        raise CannotRun(f"there is nothing to {do} {f'about {task[:100]!r}' if task else 'here'} now")
    if given.get("candidate", "") != action.candidate:
        raise CannotRun(f"'{task}' has another candidate by now; look at it, then {do} that one")
    if do == "answer" and not text:
        raise CannotRun("the answer is empty; write one")
    if action.choices and text not in action.choices:
        raise CannotRun(f"'{text[:40]}' is none of {', '.join(action.choices)}")
    if action.named and not by:
        raise CannotRun("your name is missing; it is kept with what you decide")
    request = PersonRequest(do=do, task=task or None, text=text, by=printable(by)[:200], candidate=action.candidate)
    if do == "budget":
        request = request.model_copy(update={"text": "", "budget": _read_budget(look, action, text)})
    return replace(look.kept, course=look.course), request


def _read_budget(look: RunLook, action: WebAction, text: str) -> Budget:
    """Raises CannotRun."""
    try:
        amount = float(text.replace(",", ""))
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e15:
        raise CannotRun(f"'{text[:40]}' is no budget; give a number above 0, such as 20")
    usd, tokens = (None, int(amount)) if "--tokens" in action.command else (amount, None)
    return choose_budget(replace(look.kept, course=look.course), look.state, usd, tokens)


def leave_word(kept: KeptRun, request: PersonRequest, look: RunLook) -> str:
    """Leave the request as the command line does; return what follows, in one sentence. Raises CannotRun."""
    about = branch_of(look.state, request.task) if request.task else look.state.run
    if kept.options.gate and apply_request(look.state, request) is not None:
        if request.task and request.do == "retry":
            refuse_forgotten(look.state, request.task)
        changes = leave_or_do(kept, request)
        if changes is None:
            return f"The queue is asked to {verb(request)} {about}."
        if not changes:
            raise CannotRun(nothing_to_do(look.state, request))
        return "; ".join(gate_sentence(change, look.state) or "" for change in changes)
    done = deliver(kept, request)
    if done is None:
        return f"The run is asked to {_DEEDS.get(request.do, request.do)} {about}; it does so at its next turn."
    state, events = done
    if not events:
        raise CannotRun(f"there is nothing to {request.do} about {about} any more")
    said = "; ".join(sentence(event, run=state.run) or "" for event in events[:3])
    return said if state.finished else f"{said}. The run goes on with: forgepool resume {state.run}"
