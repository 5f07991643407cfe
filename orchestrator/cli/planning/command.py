"""`forgepool plan` and `forgepool do`."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, say, say_json
from forgepool.orchestrator.cli.planning.files import refuse_unwritable
from forgepool.orchestrator.cli.planning.session import INTERRUPTED, HowMuch, PlannedFile, PlanOrder, plan_goal
from forgepool.orchestrator.cli.run.check import describe_plan, preview_plan
from forgepool.orchestrator.cli.run.options import Json
from forgepool.orchestrator.cli.run.pages_beside import Serve
from forgepool.orchestrator.cli.run.run import Broker, Notify, Pr, Repo, Sandbox, Workers, run, settings_with
from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.reports.costs import usd_words
from forgepool.orchestrator.run.run_folder import new_run_id, runs_folder
from forgepool.workers.schema.orders import CommandAgent
from forgepool.worktrees.errors import InfrastructureError, UserError

GoalWords = Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done, in a sentence.")]
Specification = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE.md", help="A specification, whose list items become requirements."),
]
Base = Annotated[str | None, typer.Option(help="Branch, tag or commit to plan on. Default: the default branch.")]
PlanBudget = Annotated[
    float | None, typer.Option(min=0.01, help="Cap on planning and the run together, in US dollars.")
]
PlanOnly = Annotated[
    Path | None, typer.Option("--plan-only", metavar="FILE", help="Write the plan there, and run nothing.")
]
CriticOrNone = Annotated[
    bool | None,
    typer.Option("--critic/--no-critic", help="Default: a critic is asked if one of another family has a key."),
]
LeadOrNone = Annotated[
    bool | None,
    typer.Option("--lead/--no-lead", help="Default: a task leads to a proven synthesis, if the plan can have one."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    app.command()(plan)
    app.command()(do)


def plan(
    goal: GoalWords,
    specification: Specification = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan there. Default: the home.")
    ] = None,
    critic: Annotated[bool, typer.Option("--critic", help="Let a model of another family object to it once.")] = False,
    budget_usd: Annotated[
        float | None,
        typer.Option(min=0.01, help="Cap on planning; what is left becomes the plan's budget."),
    ] = None,
    repo: Repo = ".",
    base: Base = None,
    yes: Annotated[bool, typer.Option("--yes", help="Replace the file of --output without asking.")] = False,
    as_json: Json = False,
) -> int:
    """
    Write a plan file for a goal. A model reads the repository and plans; its plan is sent back until it holds.

    Nothing is run. Next to the plan, a file that ends in .why.md says which task fulfils which requirement, and why.
    """
    order = PlanOrder(
        words=goal,
        specification=specification,
        repo=repo,
        base=base,
        critic="always" if critic else "never",
        budget_usd=budget_usd,
        workers=None,
        lead="never",
        settings=settings_with(None),
        tell=_warn if as_json else say,
    )
    refuse_unwritable(output)
    planned = plan_goal(order)
    if isinstance(planned, int):
        return planned
    return _deliver(planned, order, output, yes=yes, as_json=as_json)


def do(
    goal: GoalWords,
    specification: Specification = None,
    yes: Yes = False,
    plan_only: PlanOnly = None,
    critic: CriticOrNone = None,
    lead: LeadOrNone = None,
    budget_usd: PlanBudget = None,
    repo: Repo = ".",
    base: Base = None,
    workers: Workers = None,
    broker: Broker = None,
    sandbox: Sandbox = None,
    serve: Serve = False,
    notify: Notify = None,
    pr: Pr = None,
    as_json: Json = False,
) -> int:
    """Plan a goal as `forgepool plan` does, show the plan with its forecast, ask for a yes, and run it."""
    order = PlanOrder(
        words=goal,
        specification=specification,
        repo=repo,
        base=base,
        critic=_how_much(critic),
        budget_usd=budget_usd,
        workers=workers,
        lead=_how_much(lead),
        settings=settings_with(broker, sandbox, notify),
        tell=_warn if as_json else say,
    )
    refuse_unwritable(plan_only)
    planned = plan_goal(order)
    if isinstance(planned, int):
        return planned
    if plan_only is not None:
        return _deliver(planned, order, plan_only, yes=yes, as_json=as_json)
    _show(planned, as_json=as_json)
    if (refusal := _without_yes(planned, order, yes=yes, as_json=as_json)) is not None:
        return refusal
    start = partial(run, planned.path, repo, workers, broker=broker, sandbox=sandbox, as_json=as_json)
    name = new_run_id(planned.plan.name)
    try:
        return start(name=name, serve=serve, notify=notify, pr=pr)
    except (UserError, InfrastructureError) as failure:
        if (runs_folder(order.settings) / name).exists():
            raise
        later = f"the plan is kept; then: {order.run_words(planned.path)}"
        return complain(f"{failure}; {later}", 2 if isinstance(failure, UserError) else 3)


def _without_yes(planned: PlannedFile, order: PlanOrder, *, yes: bool, as_json: bool) -> int | None:
    """Return the exit status after the sentence why the plan is not run; None where it may be."""
    kept = f"the plan is kept; `{order.run_words(planned.path)}` runs it"
    unread = [reason for task in planned.plan.tasks for reason in _liberties(task)]
    if yes and not unread:
        return None
    for line in _rights(planned):
        (_warn if as_json else say)(line)
    answer = _ask("Run this plan?", kept)
    if answer is None and yes:
        why = f"{unread[0]}, which a person must read, whatever --yes says"
        return complain(f"not run: {why}; {kept}", 2)
    if answer is None:
        return complain(f"not run: no person is at a terminal to say yes, and --yes was not given; {kept}", 2)
    return None if answer else complain(f"not run; {kept}", 1)


def _liberties(task: Task) -> Iterator[str]:
    """Yield what a task takes that only a person may give."""
    if task.grants:
        yield f"task '{task.id}' has 'grants'"
    if isinstance(task.agent, CommandAgent):
        # No model reviews the work of commands, because people write them. A planner wrote this one.
        yield f"task '{task.id}' is done by a command that the planner wrote"


def _rights(planned: PlannedFile) -> Iterator[str]:
    """Yield what a yes permits: the commands that the plan runs, and the protected files that it may change."""
    plan = planned.plan
    yield f"\nplan: {planned.path}"
    for check in plan.checks if isinstance(plan.checks, tuple) else ():
        hosts = f" (network: {', '.join(check.network)})" if check.network else ""
        yield f"  check {check.name}: {_in_line(check.setup or '', check.run)}{hosts}"
    for task in plan.tasks:
        command = task.agent.run if isinstance(task.agent, CommandAgent) else ""
        runs = f" runs {_in_line(command)};" if command else ""
        yield f"  task {task.id}:{runs} accepted by {_in_line(*task.acceptance) or 'nothing'}"
        if task.grants:
            yield f"    grants: {', '.join(task.grants)}"


def _in_line(*commands: str) -> str:
    return ", ".join(f"`{' '.join(one.split())}`" for one in commands if one)


def _how_much(said: bool | None) -> HowMuch:
    return "if possible" if said is None else "always" if said else "never"


def _deliver(planned: PlannedFile, order: PlanOrder, output: Path | None, *, yes: bool, as_json: bool) -> int:
    """Show a plan and write it where a person wants it; a file that is there is replaced only after a yes."""
    _show(planned, as_json=as_json)
    path = planned.path if output is None else output
    if output is not None and output.exists():
        changes = planned.files.differences(output)
        for line in changes:
            (_warn if as_json else say)(line)
        answer = yes or not changes or _ask(f"Replace {output}?", f"the new plan is {planned.path}")
        if answer is None:
            why = f"{output} exists, and no person is at a terminal to say yes"
            return complain(f"{why}; the new plan is {planned.path}; give --yes to replace the file", 2)
        if not answer:
            return complain(f"{output} stays as it is; the new plan is {planned.path}", 1)
    why_path = planned.why if output is None else planned.files.write(output)
    if as_json:
        say_json(_as_json(planned, path, why_path))
    else:
        say(f"\nplan:     {path}\nreasons:  {why_path}\nrun it:   {order.run_words(path)}")
    return 0


def _show(planned: PlannedFile, *, as_json: bool) -> None:
    """Print the plan as `forgepool check` does, its warnings, and the forecast."""
    if as_json:
        return
    say("")
    preview_plan(planned.plan, planned.hub, as_json=False)
    for warning in planned.files.warnings:
        say(f"warning: {warning}")
    cost = planned.compiled.spent.cost_usd
    say(f"\nplanning cost {'an unknown amount' if cost is None else f'{usd_words(cost)} USD'}")
    say(f"forecast: {planned.summary}")


def _as_json(planned: PlannedFile, path: Path, why: Path) -> dict[str, object]:
    heard = planned.compiled.criticism
    return {
        "plan_file": str(path),
        "why_file": str(why),
        "folder": str(planned.path.parent),
        "preview": describe_plan(planned.plan, planned.hub, []),
        "covers": {one: list(tasks) for one, tasks in planned.draft.covers.items()},
        "warnings": planned.files.warnings,
        "models": list(planned.compiled.models),
        "spent": planned.compiled.spent.model_dump(mode="json"),
        "critic": None
        if heard is None
        else {"models": list(heard.models), "objections": list(heard.objections), "silence": heard.silence},
        "forecast": planned.forecast.as_json(),
    }


def _ask(question: str, kept: str) -> bool | None:
    """Ask the person at the terminal; return None without one. Ctrl-C ends the command and says what is kept."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    try:
        return typer.confirm(question, default=False, err=True)
    except typer.Abort as abort:
        sys.stderr.write("\n")
        if isinstance(abort.__context__, EOFError):
            return False
        raise typer.Exit(complain(f"interrupted; {kept}", INTERRUPTED)) from None


def _warn(line: str) -> None:
    complain(line, 0)
