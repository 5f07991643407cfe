"""`forgepool simulate plan`: forecasts how long a plan takes, what it costs and what limits it, on a virtual clock."""

import math
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.app import add_group
from forgepool.orchestrator.cli.output.say import complain, say, say_json
from forgepool.orchestrator.cli.run.options import cores_beside_workers, trials_of
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import RunForecast
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.run.hub import Hub, open_hub, read_plan, wants_reviews
from forgepool.orchestrator.run.run_folder import KeptRun, learn_from_runs
from forgepool.orchestrator.simulate.forecast import Fit, Forecast, Grounds, Wanted, as_event, fit, forecast, grounds
from forgepool.orchestrator.simulate.forecast_text import as_json, lines
from forgepool.orchestrator.simulate.run import StandsStill
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError

_SEEDS = 20
_MOST_SEEDS = 1000
_TASKS_AT_ALL_SEEDS = 150
_LEAST_SEEDS = 3
_SEEDS_OF_A_RUN = 5


_ANY_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    simulate = add_group(app, "simulate", "Try Forgepool's decisions on a virtual clock.")
    simulate.command(hidden=True, context_settings=_ANY_OPTIONS, add_help_option=False)(queue)
    simulate.command()(plan)


def queue() -> int:
    """Say where the queue simulator is now."""
    sentence = "the queue simulator is a benchmark now; run benchmarks/queue/simulate.py in Forgepool's repository"
    return complain(sentence, 2)


def plan(
    plan: Annotated[Path, typer.Argument(help="The plan file (YAML).")],
    repo: Annotated[str, typer.Option(help="Path or URL of the repository the target lives in.")] = ".",
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks at once. Default: one for each processor.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="N", help="Batches of candidates checked at once. Default: as in a run.")
    ] = None,
    check_s: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Duration of the checks. Default: as in earlier runs, else 60."),
    ] = None,
    bad: Annotated[
        float | None, typer.Option(metavar="P", help="Probability that a candidate fails its checks. Default: 0.08.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="K", help=f"Number of simulated runs. Default: {_SEEDS}, fewer for large plans."),
    ] = None,
    from_runs: Annotated[
        bool, typer.Option("--from-runs", help="Take durations, failures and costs from the last runs of this plan.")
    ] = False,
    gantt: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the run of median length.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """
    Forecast a plan by playing it with the real scheduler and merge queue on a virtual clock; nothing is started.

    Shows how long it takes, what it costs, what limits it, and what one more worker would gain; and which figures come
    from earlier runs and which are assumed.
    """
    as_in_a_run = trials_of("auto", processors=cores_beside_workers())
    wanted = Wanted(
        workers=_count("--workers", (os.cpu_count() or 1) if workers is None else workers, 256),
        trials=_count("--trials", as_in_a_run if trials is None else trials, 256),
        seeds=_count("--seeds", _SEEDS if seeds is None else seeds, _MOST_SEEDS),
        check_s=_seconds(check_s),
        bad=_probability(bad),
        from_runs=from_runs,
    )
    if gantt is not None:
        _refuse_folder(gantt)
    played = forecast_plan(plan, repo, wanted, Settings(), fewer=seeds is None)
    if gantt is not None:
        _draw(gantt, played.course.plan.name, played.found)
    if json:
        say_json(played.as_json())
    else:
        for line in lines(played.course, played.found, played.based, played.fitted, played.wanted):
            say(line)
        if gantt is not None:
            say(f"chart: {gantt} shows seed {played.found.middle.seed}")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanForecast:
    """A forecast of a plan, with what it is based on."""

    course: PlanIndex
    found: Forecast
    based: Grounds
    fitted: Fit
    wanted: Wanted

    def as_json(self) -> dict[str, object]:
        return as_json(self.course, self.found, self.based, self.fitted, self.wanted)


def forecast_plan(plan: Path, repo: str, wanted: Wanted, settings: Settings, *, fewer: bool = True) -> PlanForecast:
    """
    Play a plan on a virtual clock; with `fewer`, the larger the plan, the fewer runs.

    Raises:
        DocumentWrong, HubUnusable, CannotRun, GitFailed: the plan or the repository cannot be used.
    """
    hub = open_hub(repo, settings)
    return play_plan(read_plan(plan, hub), hub, wanted, settings, fewer=fewer)


def play_plan(read: Plan, hub: Hub, wanted: Wanted, settings: Settings, *, fewer: bool = True) -> PlanForecast:
    """Play a plan that has been read, as `forecast_plan` does."""
    course = learn_from_runs(settings, read)
    fitted = fit(settings, read)
    based = grounds(course, wanted, fitted, reviewed=wants_reviews(hub.mirror, hub.tip_for(read)))
    if fewer:
        wanted = _fewer(wanted, len(read.tasks))
    found = forecast(course, based.terms, seeds=wanted.seeds)
    return PlanForecast(course=course, found=found, based=based, fitted=fitted, wanted=wanted)


def forecast_run(kept: KeptRun, hub: Hub, settings: Settings, done: Collection[str]) -> RunForecast | None:
    """
    Forecast a run that begins now, without the tasks that are done. Durations are those of earlier runs of its plan,
    else the plan's own.

    None where the duration of a task, of the checks or of reviews is unknown, and for a plan that takes long to play.
    """
    plan, left = kept.plan, [task for task in kept.plan.tasks if task.id not in done]
    fitted = fit(settings, plan)
    known = all(fitted.work_s.get(task.id) or task.duration_s is not None for task in left)
    known = known and (plan.checks == "none" or bool(fitted.seconds("check")))
    known = known and (not kept.course.reviewed or bool(fitted.seconds("review")))
    if not left or not known or len(left) > _TASKS_AT_ALL_SEEDS:
        return None
    tasks = tuple(
        task.model_copy(update={"needs": tuple(need for need in task.needs if need.id not in done)}) for task in left
    )
    wanted = Wanted(
        workers=kept.options.workers,
        trials=kept.options.trials,
        seeds=_SEEDS_OF_A_RUN,
        from_runs=bool(fitted.runs),
    )
    try:
        played = play_plan(plan.model_copy(update={"tasks": tasks}), hub, wanted, settings, fewer=False)
    except StandsStill:  # Only a forecast is lost.
        return None
    return as_event(played.found, fitted)


def default_terms(workers: int | None = None) -> Wanted:
    """Return the terms of a forecast without options: those of a run on this machine."""
    return Wanted(
        workers=_count("--workers", (os.cpu_count() or 1) if workers is None else workers, 256),
        trials=trials_of("auto", processors=cores_beside_workers()),
        seeds=_SEEDS,
    )


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"--gantt {path} is a folder; name a file in it, such as {path / 'plan.svg'}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--gantt {path}: there is no folder {path.absolute().parent}; create it, or name another")


def _draw(path: Path, name: str, found: Forecast) -> None:
    from forgepool.orchestrator.simulate.gantt import gantt

    title = f"{name}, simulated with {found.workers} {'worker' if found.workers == 1 else 'workers'}"
    try:
        path.write_text(gantt(found.middle, found.look, title=f"{title}, seed {found.middle.seed}"), encoding="utf-8")
    except OSError as trouble:
        raise UserError(f"--gantt {path} cannot be written: {trouble.strerror}") from trouble


def _fewer(wanted: Wanted, tasks: int) -> Wanted:
    """Reduce the number of simulated runs for large plans, which take long to play."""
    seeds = wanted.seeds * _TASKS_AT_ALL_SEEDS // max(tasks, 1)
    return replace(wanted, seeds=min(wanted.seeds, max(_LEAST_SEEDS, seeds)))


def _count(option: str, given: int, most: int) -> int:
    if not 1 <= given <= most:
        raise UserError(f"{option} is {given}; it must be from 1 to {most}")
    return given


def _seconds(given: float | None) -> float | None:
    if given is not None and not (given > 0 and math.isfinite(given)):
        raise UserError(f"--check-s is {given:g}; it must be a number of seconds above 0")
    return given


def _probability(given: float | None) -> float | None:
    if given is not None and not 0 <= given < 1:
        raise UserError(f"--bad is {given:g}; a probability is at least 0 and below 1, such as 0.08")
    return given
