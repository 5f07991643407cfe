"""`forgepool add`: more tasks for a run."""

import sys
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, say, say_json, tell_slow
from forgepool.orchestrator.cli.run.options import Run, complete_task, find_run_with
from forgepool.orchestrator.cli.run.requests import check_text, confinements, deliver, login_name
from forgepool.orchestrator.cli.run.run import tell_changes
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.delegation import why_not_through
from forgepool.orchestrator.decisions.requests import find_ended, grant_request, why_not_drop, why_refused
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.launch.preflight import lacking
from forgepool.orchestrator.launch.prerequisites import check_agents, check_sandbox, unreviewable
from forgepool.orchestrator.plan.addition import grow_plan, read_addition
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.reports.event_text import shorten_list
from forgepool.orchestrator.run.hub import CannotRun, Hub, reopen_hub
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.documents import read_text
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import tree_paths


def register(app: typer.Typer) -> None:
    app.command()(add)


def add(
    run: Run,
    tasks: Annotated[Path, typer.Argument(metavar="TASKS.yaml", help="The tasks (YAML); - reads standard input.")],
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop", metavar="TASK", help="A task that they replace; repeatable.", autocompletion=complete_task
        ),
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the journal.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """
    Add tasks to a run, whether it runs, was interrupted or has ended. They are written as in a plan file, with `tasks`
    and perhaps `defaults`, and may need the tasks that the run has. A replaced task must not have begun.
    """
    kept = find_run_with(run, None)
    name = kept.options.run
    if kept.options.gate:
        raise CannotRun(f"{name} is a merge queue and has no plan; submit changes with: forgepool queue submit BRANCH")
    check_text(why, "the reason given with --why")
    settings, dropped = _settings_of(kept), tuple(dict.fromkeys(drop or ()))
    state, course = _with_words(kept)
    if (wrong := why_not_drop(state, dropped)) is not None:
        raise CannotRun(wrong)
    with tell_slow("reading the repository; the first copy of a large one takes a while"):
        hub = reopen_hub(kept.options.hub, settings)
    folder = Path.cwd() if str(tasks) == "-" else tasks.parent
    plan, ended = grow_plan(course.plan, (), dropped), {**find_ended(state), **dict.fromkeys(dropped, "is dropped")}
    read = read_addition(_text(tasks), plan, folder, partial(_files, plan, hub), name=_name(tasks), ended=ended)
    by, key = login_name() or "a person", uuid.uuid4().hex
    request = PersonRequest(do="add", tasks=read, drop=dropped, text=why, by=by, key=key)
    if (wrong := why_refused(course, state, request)) is not None:
        raise CannotRun(wrong)
    _check(plan.model_copy(update={"tasks": read}), state, hub, settings, folder)
    return _tell(kept, request, as_json=as_json)


def _settings_of(kept: KeptRun) -> Settings:
    """Return the settings by which the run's own process works: its Redis, and how its commands were confined."""
    settings, (_, recorded) = Settings(), kept.replay()
    said: dict[str, object] = {"sandbox": "off"} if confinements(recorded) == ["off"] else {}
    if kept.options.broker and settings.broker_url is None:
        said["broker_url"] = kept.options.broker
    return settings.model_copy(update=said)


def _with_words(kept: KeptRun) -> tuple[RunState, PlanIndex]:
    """Return the run as it will be once its process has taken in the tasks of earlier calls."""
    waiting = [request for _, request in inbox.waiting(kept.folder) if request.do == "add"]
    state = kept.state()
    course = kept.course.grow_with(state)
    for request in waiting:
        for event in grant_request(course, state, request):
            apply(state, event, number=state.number + 1, at=state.at)
        course = course.grow_with(state)
    return state, course


def _name(tasks: Path) -> str:
    return "standard input" if str(tasks) == "-" else str(tasks)


def _text(tasks: Path) -> str:
    if str(tasks) != "-":
        return read_text(tasks, str(tasks))
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as problem:
        raise CannotRun("standard input is not UTF-8; give the tasks as UTF-8 text") from problem


def _files(plan: Plan, hub: Hub) -> Sequence[str]:
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    return tree_paths(hub.mirror.git, tip)


def _check(added: Plan, state: RunState, hub: Hub, settings: Settings, folder: Path) -> None:
    """
    Check the added tasks as `forgepool run` checks those of a plan file. Raises CannotRun and others.
    """
    if state.gate and (why := why_not_through(added, state.gate)) is not None:
        raise CannotRun(why)
    check_agents(added, settings)
    check_sandbox(added, settings)
    if missing := lacking(added, hub, settings, folder, late=True):
        raise CannotRun(missing[0])
    if not state.gate and (unseen := unreviewable(added, settings)) is not None:
        complain(unseen, 0)


def _tell(kept: KeptRun, request: PersonRequest, *, as_json: bool) -> int:
    run, done = kept.options.run, deliver(kept, request)
    go_on = f"forgepool resume {run}"
    ids = [task.id for task in request.tasks]
    if done is not None and not done[1]:
        raise CannotRun(f"run {run} has changed meanwhile, and no task was added; see: forgepool status {run}")
    if as_json:
        said = {"run": run, "added": ids, "dropped": list(request.drop), "by": request.by, "why": request.text}
        say_json({**said, "continue": None if done is None else go_on})
    elif done is None:
        say(f"asked run {run} to add {shorten_list(ids)}; if it ends before it reads this: {go_on}")
    else:
        tell_changes(kept, done[1])
        say(f"continue with: {go_on}")
    return 0
