"""
Finds out before a run whether a plan's commands can run, and whether the target passes its checks.

Programs, Python modules and files that a command needs are looked for in the sandbox, on the target's tip. A run checks
the target in its workers, while the first agents work; here the checks run in this process.
"""

import secrets
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.budget import DEFAULT_USD
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.plan.entries import SURVEY
from forgepool.orchestrator.run.hub import CannotRun, Hub
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.policy.gate_file.document import GATE_FILE, CheckDefinition, effective_checks
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.orders import CommandAgent
from forgepool.workers.schema.settings import Settings, search_path
from forgepool.workers.shell.requirements import ShellRequirement, requirements_of
from forgepool.worktrees.commits.changes import FileTooLarge, read_file, tree_paths
from forgepool.worktrees.git.git import CommitId

RUN = "preflight"
"""The folder, beside those of runs, for the logs of checks that belong to no run."""
_PATIENCE_S = 3600.0
_MOST_NAMED = 3


def refuse_unready(plan: Plan, hub: Hub) -> bool:
    """
    Return whether the target has a gate file of its own.

    Raises:
        CannotRun: the target is checked out somewhere, or nothing defines which checks must pass.
    """
    folder = hub.facts.checked_out.get(plan.target)
    if folder is not None:
        raise CannotRun(
            f"branch {plan.target} is checked out in {folder}, whose files would go stale when changes land; "
            f"switch that folder to another branch, or give the plan another `target`"
        )
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    try:
        text = read_file(hub.mirror.git, tip, GATE_FILE)
    except FileTooLarge as problem:
        raise CannotRun(f"{GATE_FILE} of the target is too large: {problem}") from problem
    if text is not None:
        read_gate_file(text.decode(errors="replace"), GATE_FILE)
    elif plan.checks in (None, ()):
        raise CannotRun(
            f"plan {plan.name} has no checks, and {hub.facts.default_branch or 'the target'} has no {GATE_FILE}; "
            "nothing lands unchecked: add `checks:` to one of them, or write `checks: none` in the plan"
        )
    return text is not None


def lacking(plan: Plan, hub: Hub, settings: Settings, folder: Path, *, late: bool = False) -> list[str]:
    """
    Return a sentence for each thing that commands of the plan or its checks need and will not find.

    `folder` is that of the plan file, or with `late` that of tasks for a run that has begun. With workers on other
    hosts only files are looked for, because what is installed there is unknown.

    Raises:
        DocumentWrong: the target's gate file is invalid.
        GitFailed, NoSandbox, Unusable, OSError: it could not be found out.
    """
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    files = frozenset(tree_paths(hub.mirror.git, tip))
    target = plan.target if plan.target in hub.heads else "the target"
    said = [*_missing_files(plan, files, folder, target, late=late)]
    if settings.broker_url is not None:
        return said
    return said + lacking_tools(_checks(plan, hub, tip), plan.tasks, hub, tip, settings)


def lacking_tools(
    checks: Sequence[CheckDefinition], tasks: Sequence[Task], hub: Hub, tip: CommitId, settings: Settings
) -> list[str]:
    """Return a sentence for each program or Python module that commands on this host would not find."""
    wanted: dict[ShellRequirement, list[str]] = defaultdict(list)
    for who, requirement in (*_of_checks(checks), *_of_tasks(tasks)):
        wanted[requirement].append(who)
    if not wanted:
        return []
    from forgepool.supervisor.checks.missing import missing
    from forgepool.supervisor.checks.running import CheckPlace

    with make_scratch() as logs:
        place = CheckPlace(mirror=hub.mirror, settings=settings, logs=logs, stop=lambda: False)
        return [_not_there(one, wanted[one]) for one in missing(tuple(wanted), tip, place)]


def check_tip(
    hub: Hub,
    tip: CommitId,
    target: str,
    settings: Settings,
    *,
    plan_checks: Sequence[CheckDefinition] = (),
    waived: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> CheckResult:
    """
    Run all checks on a commit, as a run does before it calls a model. Checks remembered as green are not repeated.
    """
    from forgepool.supervisor.gate.check_entry import examine

    now = time.time()
    request = CheckRequest(
        request_id=_name(),
        token=secrets.token_hex(8),
        run=RUN,
        hub=hub.facts.url,
        target=target,
        base=tip,
        entries=(),
        whole=True,
        remembered=True,
        plan_checks=tuple(plan_checks),
        checks_waived=waived,
        private=True,
        issued_at=now,
        start_by=now + _PATIENCE_S,
    )
    return examine(request, settings, stop=stop)


def _name() -> str:
    return f"{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def _checks(plan: Plan, hub: Hub, tip: CommitId) -> tuple[CheckDefinition, ...]:
    text = read_file(hub.mirror.git, tip, GATE_FILE)
    of_target = read_gate_file(text.decode(errors="replace"), GATE_FILE).checks if text is not None else ()
    return effective_checks(of_target, plan.checks if isinstance(plan.checks, tuple) else ())


def _of_checks(checks: Iterable[CheckDefinition]) -> Iterator[tuple[str, ShellRequirement]]:
    """Yield what checks need; a check with a set-up is not asked, since the set-up may install it."""
    for check in checks:
        script, who = (check.run, f"check '{check.name}'")
        if check.setup is not None:
            script, who = check.setup, f"the set-up of {who}"
        yield from ((who, requirement) for requirement in requirements_of(script) if requirement.kind != "file")


def _of_tasks(tasks: Iterable[Task]) -> Iterator[tuple[str, ShellRequirement]]:
    for task in tasks:
        if "PATH" not in task.env:
            scripts = [task.agent.run] if isinstance(task.agent, CommandAgent) else []
            for script in scripts:
                yield from (
                    (f"task '{task.id}'", requirement)
                    for requirement in requirements_of(script)
                    if requirement.kind != "file"
                )


def _not_there(requirement: ShellRequirement, who: Sequence[str]) -> str:
    first = who[0] if len(who) == 1 else f"{who[0]} (and {len(who) - 1} more)"
    name = requirement.name
    if requirement.kind == "module":
        where = f"'{requirement.by} -m {name}', and that Python has no module '{name}'"
        return f"{first} runs {where}; install it there, or let a check's `setup` install it"
    found = shutil.which(name, path=search_path())
    where = f"which is at {found}, where the sandbox does not show it" if found else "which is not on the PATH"
    return f"{first} runs '{name}', {where}; install it where commands see it, or change the command"


def _missing_files(plan: Plan, files: frozenset[str], folder: Path, target: str, *, late: bool) -> Iterator[str]:
    """
    Yield a sentence for each file that a task's command runs and that is not committed to the target.

    For a task with `needs` only files beside the plan count: an earlier task may create the others.
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    for task in plan.tasks:
        if isinstance(task.agent, CommandAgent):
            for requirement in requirements_of(task.agent.run):
                path = requirement.name.removeprefix("./")
                if (
                    requirement.kind == "file"
                    and _is_missing(path, files)
                    and (not task.needs or (folder / path).is_file())
                ):
                    wanted[path].append(task.id)
    for path, tasks in wanted.items():
        who = ", ".join(f"'{task}'" for task in tasks[:_MOST_NAMED])
        more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
        noun = "task" if len(tasks) == 1 else "tasks"
        runs = f"{noun} {who}{more} {'runs' if len(tasks) == 1 else 'run'} {path}"
        if late:
            yield f"{runs}, which is not committed to {target}; commit it there: no file travels with added tasks"
        elif (folder / path).is_file():
            carry = f'write `assets: [{path}]` into the plan, and run "$FORGEPOOL_ASSETS/{path}"'
            yield f"{runs}, which is beside the plan file but not committed to {target}; {carry}, or commit it"
        else:
            yield f"{runs}, which is not committed to {target}; commit it, or carry it with `assets` of the plan"


def _is_missing(path: str, files: frozenset[str]) -> bool:
    """
    Tell whether a command's file is missing. Hidden folders and `node_modules` are made by set-ups; absolute paths are
    the host's.
    """
    parts = path.split("/")
    made = any(part.startswith(".") or part == "node_modules" for part in parts)
    return not path.startswith("/") and not made and path not in files


def warn_unread_survey(plan: Plan) -> str | None:
    """Return a sentence about a survey that no task is given; None where the plan has none, or a model reads it."""
    read = any(need.id == SURVEY for task in plan.tasks for need in task.needs)
    if read or not any(task.surveys for task in plan.tasks):
        return None
    return f"no task of plan {plan.name} reads its survey, because commands do all its work; remove 'survey'"


def warn_unused_verify(plan: Plan) -> str | None:
    """Return a sentence about tasks whose 'verify' does nothing, because no built-in agent does them; else None."""
    wanted = [task for task in plan.tasks if task.verify and task.leads is None]
    # A task whose terms a built-in agent has, too, may have them from the defaults.
    used = [task.verify for task in wanted if task.agent.kind == "builtin"]
    idle = [f"'{task.id}'" for task in wanted if task.agent.kind != "builtin" and task.verify not in used]
    if not idle:
        return None
    return f"'verify' is for the built-in agent, and does nothing for {', '.join(idle[:5])}; remove it there"


def warn_uncapped(plan: Plan, settings: Settings) -> str | None:
    """
    Return a sentence about a plan whose models may cost any amount; None where it has a cap, the treasury has one for
    all runs or this person's, or it pays for nothing. Raises DocumentWrong for a wrong `treasury.yaml`.
    """
    if plan.budget.capped or not PlanIndex(plan, {}).paid or _is_capped_by_treasury(settings):
        return None
    return (
        f"plan {plan.name} calls models and has no budget: each attempt may cost {DEFAULT_USD:g} USD or its own "
        "limit, and nothing limits the sum; cap it with --budget-usd USD, or with `budget` in the plan"
    )


def _is_capped_by_treasury(settings: Settings) -> bool:
    if settings.treasury_file is None:
        return False
    from forgepool.orchestrator.run.neighbours.treasury import read_treasury

    source = read_treasury(settings)
    mine = ("", settings.person)
    return source is not None and any(
        one.at_limit != "warn" and not (one.project or one.account) and one.person in mine for one in source.limits
    )
