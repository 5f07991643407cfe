"""
Changes of the plan of a run under way. A piece of plan text with more tasks is read like a plan file, against the plan
that stands. Pure.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from forgepool.orchestrator.plan.document import Plan, Task, await_survey, read_tasks
from forgepool.orchestrator.plan.entries import PlanReading, PlanSource
from forgepool.orchestrator.plan.fan_out import TaskEntry, TaskFields
from forgepool.orchestrator.plan.graph import TaskNeeds, find_cycle
from forgepool.workers.schema.documents import Version, read, validate
from forgepool.workers.schema.mistakes import Mistake
from forgepool.workers.schema.orders import BuiltinAgent, Message

MOST_BY_LEAD, MOST_BY_PERSON = 50, 1000
"""The tasks that may be added to one run."""
_NOTHING_ENDED: Mapping[str, str] = {}
_NO_RUNGS: Mapping[str, int] = {}


class AdditionSource(Message):
    """A piece of plan as it is written: tasks for a run, with defaults of their own."""

    version: Version = 1
    defaults: TaskFields = TaskFields()
    tasks: tuple[TaskEntry, ...]


def read_addition(
    text: str,
    plan: Plan,
    folder: Path,
    files: Callable[[], Sequence[str]],
    *,
    name: str = "the added tasks",
    ended: Mapping[str, str] = _NOTHING_ENDED,
) -> tuple[Task, ...]:
    """
    Read tasks that are added to a plan; their ids differ from its ids, and their needs may be of both.

    The scripts that they name are in `folder`; `files` returns the paths of the tree, for a `for_each`. `ended` says,
    for tasks that no other may wait for, what became of them, as in "has failed".

    Raises:
        DocumentWrong: with every mistake found, under `name`.
    """
    document = read(text, name)
    piece = validate(document, AdditionSource)
    source = PlanSource(version=1, name=plan.name, defaults=piece.defaults, tasks=piece.tasks)
    reading = PlanReading(document=document, source=source, wrong=[])
    if not piece.tasks:
        reading.wrong.append(Mistake(document.line(("tasks",)), "'tasks' is empty; write at least one task"))
    own = {entry.id for entry in piece.tasks}
    ended = {one: fate for one, fate in ended.items() if one not in own}
    for index, entry in enumerate(piece.tasks):
        for at, need in enumerate(entry.needs):
            if (fate := ended.get(need.partition(":")[0])) is not None:
                sentence = f"task '{entry.id}' needs '{need}', which {fate}; need another task, or none"
                reading.refuse(index, ("needs", at), sentence)
    standing = {task.id: [need.id for need in task.needs] for task in plan.tasks}
    added = read_tasks(reading, folder, files, {**dict.fromkeys(ended, ()), **standing})
    return await_survey(added) if any(task.surveys for task in plan.tasks) else added


def grow_plan(plan: Plan, added: Sequence[Task], dropped: Collection[str]) -> Plan:
    """Return the plan with the added tasks at its end, and without the dropped ones."""
    ids = {task.id for task in added}
    stay = [task for task in plan.tasks if task.id not in ids and task.id not in dropped]
    return plan.model_copy(update={"tasks": (*stay, *added)})


def list_rungs(task: Task) -> tuple[Task, ...]:
    """Return the task as each model of its ladder would do it; itself without one."""
    return (task,) if task.leads is not None else tuple(_with_model(task, model) for model in task.ladder) or (task,)


def choose_models(plan: Plan, models: Mapping[str, str], rungs: Mapping[str, int] = _NO_RUNGS) -> Plan:
    """
    Return the plan with these models, by task, for the conversations of built-in agents; for other tasks with a ladder,
    with the model at that place of it, from 1.
    """
    if not models and not rungs:
        return plan
    climbed = (task for task in plan.tasks if task.ladder and task.leads is None and task.id in rungs)
    # A corrected plan may have a shorter ladder.
    by_ladder = {task.id: task.ladder[min(rungs[task.id], len(task.ladder)) - 1] for task in climbed}
    chosen = by_ladder | {**models}
    return plan.model_copy(update={"tasks": tuple(_with_model(task, chosen.get(task.id)) for task in plan.tasks)})


def _with_model(task: Task, model: str | None) -> Task:
    if model is None or not isinstance(task.agent, BuiltinAgent):
        return task
    reviewers = {phase: name for phase, name in task.agent.models.items() if phase == "review"}
    return task.model_copy(update={"agent": task.agent.model_copy(update={"model": model, "models": reviewers})})


def check_growth(plan: Plan, added: Sequence[Task], dropped: Collection[str]) -> str | None:
    """Return, in one sentence, why the plan cannot grow so; None where it can."""
    before = {task.id.lower(): task.id for task in plan.tasks if task.id not in dropped}
    if there := [task.id for task in added if task.id.lower() in before]:
        return f"the run has a task '{before[there[0].lower()]}' already; give the new one another id"
    grown = grow_plan(plan, added, dropped)
    leads = [task.id for task in grown.tasks if task.leads is not None]
    if len(leads) > 1:
        return f"the run has a lead, '{leads[0]}', already; take 'leads' out of '{leads[1]}'"
    ids = {task.id for task in grown.tasks}
    for task in grown.tasks:
        for need in task.needs:
            if need.id in dropped and need.id not in ids:
                return f"task '{task.id}' needs '{need.id}', which is to be dropped; drop '{task.id}', too"
            if need.id not in ids:
                return f"task '{task.id}' needs '{need.id}', which is no task of the run; take the need out"
    if circle := find_cycle(TaskNeeds(id=one.id, needs=tuple(need.id for need in one.needs)) for one in grown.tasks):
        return f"tasks would wait for one another: {' -> '.join((*circle, circle[0]))}; take one of these needs out"
    return None
