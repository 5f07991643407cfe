"""
The events that follow from a resting lead's request. Pure.

A request that asks for tasks adds them under its own key, and the reply is decided on afterwards, from the state. So
whatever dies between the two, they are added once.
"""

import json
import re
from pathlib import Path
from typing import assert_never

from forgepool.orchestrator.decisions.lead.results import (
    bring_headers,
    find_behind,
    find_open,
    plan_lines,
    summary_of,
    tell_open,
    tell_words,
)
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import find_ended, why_not_grow
from forgepool.orchestrator.journal.events import Event, LeadReplied, TaskCancelled, TaskFailed, TasksAdded
from forgepool.orchestrator.plan.addition import read_addition
from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TERMINAL, TaskState
from forgepool.workers.agents.briefing.references import split_reference
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, ScriptedAgent
from forgepool.workers.schema.reports import DispatchedTask, LeadReply, LeadRequest

MOST_LOST = 2
"""Workers that a lead may lose in a row; then the run goes on without it."""
_TITLE_CHARACTERS = 100
_PLACE = re.compile(r"^dispatch:(?:\d+:)? ")
"""A place in the text that the tasks are written into for the plan's reader; the lead has never seen it."""
_NOT_PLAIN = re.compile(r"[^\n -~]")
"""JSON writes characters beyond U+FFFF in two halves, which the plan's reader refuses; it takes them written in one."""
_INHERITED = ("policy", "unattended", "runs_on", "limits", "attempts", "env")
"""The fields that a dispatched task takes from its lead: bounds alone, and nothing that its lead is granted."""
_NOWHERE = Path()
"""A dispatched task names no file beside a plan."""


def reply_to_lead(course: PlanIndex, state: RunState) -> list[Event]:
    """Return the events by which a lead that rests goes on; none while there is nothing to tell it."""
    for task in state.in_phase("waiting"):
        if (request := state.lead.request) is not None:
            return _answer(course, state, task, request)
    return []


def _answer(course: PlanIndex, state: RunState, lead: TaskState, request: LeadRequest) -> list[Event]:
    match request.do:
        case "dispatch":
            return _dispatch(course, state, lead, request)
        case "collect":
            return _collect(course, state, lead, request)
        case "cancel":
            return _cancel(course, state, lead, request)
        case "read":
            return _read_result(course, state, lead, request)
        case other:
            assert_never(other)


def give_up_lead(course: PlanIndex, state: RunState) -> list[Event]:
    """Fail a lead whose worker was lost again and again: the other tasks go on without it."""
    if course.lead is None:
        return []
    task = state.tasks[course.lead]
    if task.phase != "pending" or task.lost < MOST_LOST:
        return []
    why = f"its worker was lost {task.lost} times in a row; the run goes on without it"
    return [TaskFailed(task=task.id, reason=ReasonPack(attempt=task.attempt, kind="agent_failed", summary=why))]


def first_reply(course: PlanIndex, state: RunState, lead: str) -> LeadReply:
    """Return what a lead is told before it asks: the tasks that its run has already."""
    standing = [one.id for one in find_open(course, state, lead)]
    return LeadReply(number=0, text="\n".join(plan_lines(course, state, lead)), open=tuple(standing))


def _dispatch(course: PlanIndex, state: RunState, lead: TaskState, request: LeadRequest) -> list[Event]:
    key = f"{lead.id}#{request.number}"
    if key in state.additions:
        return _reply(course, state, lead, request, _receipt(course, state, request))
    try:
        tasks = _read(course, state, course.tasks[lead.id], request)
    except DocumentWrong as wrong:
        said = "\n".join(f"- {_PLACE.sub('', mistake)}" for mistake in wrong.mistakes)
        return _reply(course, state, lead, request, f"Nothing was added. Mend this, and dispatch again:\n{said}")
    added = TasksAdded(tasks=tasks, by=lead.id, why=f"dispatched by '{lead.id}'", request=key)
    if (why := why_not_grow(course, state, added)) is not None:
        return _reply(course, state, lead, request, f"Nothing was added: {why}")
    return [added]


def _read(course: PlanIndex, state: RunState, lead: Task, request: LeadRequest) -> tuple[Task, ...]:
    """Raises DocumentWrong."""
    agent = lead.leads or BuiltinAgent()
    behind = find_behind(course, lead.id)
    wrong = []
    for one in request.tasks:
        if one.answers and not isinstance(agent, BuiltinAgent | ScriptedAgent):
            wrong.append(f"'{one.id}' is to answer, and its agent ({agent.kind}) cannot; give it files to write")
        if one.skill is not None and not isinstance(agent, BuiltinAgent):
            wrong.append(f"'{one.id}' has a skill, which its agent ({agent.kind}) does not take; leave it out")
        if (again := one.retry_of) is not None and again not in state.tasks:
            wrong.append(f"'{one.id}' is to try '{again}' again, which is no task of this run")
        named = (*(need.partition(":")[0] for need in one.needs), again)
        for other in behind.intersection(named):
            wrong.append(f"'{one.id}' names '{other}', which is yourself or waits for your end; take it out")
    if wrong:
        raise DocumentWrong("dispatch", [Mistake(0, sentence) for sentence in wrong])
    piece = json.dumps({"tasks": [_entry(state, one) for one in request.tasks]}, indent=1, ensure_ascii=False)
    piece = _NOT_PLAIN.sub(lambda found: f"\\U{ord(found[0]):08X}", piece)
    # The lead's worker has looked for files that are given to a task, in the tree that the lead sees.
    seen = [split_reference(ref).path for one in request.tasks for ref in one.context]
    tasks = read_addition(piece, course.plan, _NOWHERE, lambda: seen, name="dispatch", ended=find_ended(state))
    skills = {one.id: one.skill for one in request.tasks}
    led = [agent.model_copy(update={"skill": skills[task.id]}) if skills[task.id] else agent for task in tasks]
    ladder = lead.ladder if isinstance(agent, BuiltinAgent) and agent.model is None and not agent.models else ()
    if ladder:
        led = [by.model_copy(update={"model": ladder[0]}) for by in led]
    return tuple(
        task.model_copy(update={"agent": by, "ladder": ladder, **_inherited(lead, task)})
        for task, by in zip(tasks, led, strict=True)
    )


def _inherited(lead: Task, task: Task) -> dict[str, object]:
    """Return what a dispatched task takes from its lead, which has it from the plan's defaults or of its own."""
    return {name: getattr(lead, name) for name in (*_INHERITED, *(() if task.answers else ("criteria",)))}


def _entry(state: RunState, one: DispatchedTask) -> dict[str, object]:
    """Return a dispatched task as an entry of a plan file."""
    before = state.tasks.get(one.retry_of or "")
    again = f"\n\nThis is another try of '{before.id}', which ended so: {before.detail}" if before else ""
    # Another try gets the context of the first in short: what was given whole then did not help.
    context = [ref.removesuffix(":full") if again else ref for ref in one.context]
    written: dict[str, object] = {
        "id": one.id,
        "title": one.objective.strip().split("\n")[0][:_TITLE_CHARACTERS],
        "description": f"{one.objective.strip()}\n\n{one.notes.strip()}{again}",
        "agent": {"builtin": {}},  # The reader wants one; the lead's own choice takes its place.
        "needs": one.needs,
        "files": one.files,
        "context": context,
        "answers": one.answers,
        "acceptance": one.acceptance,
    }
    return {key: value for key, value in written.items() if value}


def _receipt(course: PlanIndex, state: RunState, request: LeadRequest) -> str:
    """Say which tasks were added, and which of them will wait for others that write the same files."""
    added = [one.id for one in request.tasks if one.id in state.tasks]
    lines = [f"Added: {', '.join(added)}."]
    under_way = [one.id for one in state.tasks.values() if one.phase not in TERMINAL]
    for at, name in enumerate(added):
        for other in (*added[:at], *(one for one in under_way if one not in added)):
            mine, theirs = course.declared[name], course.declared[other]
            if mine is None or theirs is None or course.graph.is_ordered(name, other):
                continue
            if (globs := mine.witness(theirs)) is not None:
                lines.append(f"'{other}' and '{name}' both may write {globs[0]}: they run one after the other.")
    return "\n".join(lines)


def _collect(course: PlanIndex, state: RunState, lead: TaskState, request: LeadRequest) -> list[Event]:
    standing = find_open(course, state, lead.id)
    ended = [one for one in standing if one.phase in TERMINAL]
    if request.what not in ("ready", "all"):
        wanted = state.tasks.get(request.what)
        known = ", ".join(one.id for one in standing) or "none"
        if wanted is None:
            return _reply(course, state, lead, request, f"there is no task '{request.what}'; open are: {known}")
        if wanted.id in find_behind(course, lead.id):
            why = f"'{wanted.id}' is yourself or waits for your end, and has no result for you; open are: {known}"
            return _reply(course, state, lead, request, why)
        if wanted.phase in TERMINAL:
            return _reply(course, state, lead, request, "", [wanted])
        enough = False
    else:
        enough = bool(ended) if request.what == "ready" else len(ended) == len(standing)
    if enough or not standing:
        return _reply(course, state, lead, request, "" if ended else "Everything is collected already.", ended)
    if state.lead.heard < len(state.lead.words):
        return _reply(course, state, lead, request, "Nothing that you wait for has ended yet.")
    return []


def _cancel(course: PlanIndex, state: RunState, lead: TaskState, request: LeadRequest) -> list[Event]:
    lines, cancelled = [], []
    for name in request.ids:
        task = state.tasks.get(name)
        if task is None or name == lead.id:
            lines.append(f"- {name}: no task of yours")
        elif task.phase == "cancelled":
            lines.append(f"- {name}: cancelled")
        elif task.phase in ("landing", "given") or task.landing_in_doubt or task.phase in TERMINAL:
            lines.append(f"- {name}: is {task.phase}, and cannot be cancelled")
        else:
            cancelled.append(TaskCancelled(task=name, by=lead.id, why=request.why))
    return [*cancelled] or _reply(course, state, lead, request, "\n".join(lines))


def _read_result(course: PlanIndex, state: RunState, lead: TaskState, request: LeadRequest) -> list[Event]:
    task = state.tasks.get(request.what)
    if task is None or task.phase not in TERMINAL:
        how = "no task of this run" if task is None else f"{task.phase}, and has no result yet"
        return _reply(course, state, lead, request, f"'{request.what}' is {how}")
    read = task.id if request.full and task.phase in DONE else ""
    return _reply(course, state, lead, request, summary_of(course, task, full=request.full), read=read)


def _reply(
    course: PlanIndex,
    state: RunState,
    lead: TaskState,
    request: LeadRequest,
    text: str,
    ended: list[TaskState] | None = None,
    *,
    read: str = "",
) -> list[Event]:
    """Reply with this text, these results, the words of people since, and what is open after it."""
    results, headers = bring_headers(course, state, ended or [])
    left = [one for one in find_open(course, state, lead.id) if one.id not in {each.task for each in results}]
    parts = (text, *headers, *tell_words(state), tell_open(left))
    reply = LeadReply(
        number=request.number,
        text="\n\n".join(part for part in parts if part),
        results=results,
        open=tuple(one.id for one in left),
        read=read,
    )
    return [LeadReplied(task=lead.id, reply=reply, heard=len(state.lead.words))]
