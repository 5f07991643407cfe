"""`forgepool simulate`: what the merge train does with a load, and what others would, before anybody has to wait."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.app import CommandGroup
from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.run.durations import learn_durations
from forgepool.orchestrator.run.hub import open_hub, read_plan, wants_reviews
from forgepool.orchestrator.simulate.plan.fitted import fit
from forgepool.orchestrator.simulate.plan.forecast import Forecast, Wanted, forecast, grounds
from forgepool.orchestrator.simulate.plan.forecast_text import as_json, lines
from forgepool.orchestrator.simulate.queue.numbers import Numbers, play
from forgepool.orchestrator.simulate.queue.policies import POLICIES
from forgepool.orchestrator.simulate.queue.world import QueueTerms
from forgepool.supervisor.train.surprise import admission
from forgepool.workers.llm.routing.table import unknown
from forgepool.workers.schema.settings import Settings

SEEDS = "1,2,3"
_MOST_SEEDS = 1000
_USUAL = 600


class BadWorld(typer.BadParameter):
    """What cannot be simulated."""


def register(app: typer.Typer) -> None:
    simulate = typer.Typer(cls=CommandGroup, help="Forgepool's decisions on a virtual clock.", no_args_is_help=True)
    simulate.command()(queue)
    simulate.command()(plan)
    simulate.callback()(_simulate)
    app.add_typer(simulate, name="simulate")


def _simulate() -> None:
    """Forgepool's decisions on a virtual clock."""


def queue(
    workers: Annotated[int, typer.Option(metavar="N", help="Runs of the checks at once.")] = 8,
    rate: Annotated[float, typer.Option(metavar="H", help="Arrivals an hour.")] = 28.0,
    bad: Annotated[float, typer.Option(metavar="P", help="Probability that a change is red by itself.")] = 0.08,
    flake: Annotated[float, typer.Option(metavar="P", help="Probability that a run is red for no reason.")] = 0.0,
    retries: Annotated[int, typer.Option(metavar="N", help="How often red checks are run again.")] = 0,
    changes: Annotated[
        int | None, typer.Option(metavar="N", help=f"How many arrive. Default: {_USUAL}, or the burst.")
    ] = None,
    scopes: Annotated[
        bool, typer.Option("--scopes", help="Checks look at some modules each, and say at which.")
    ] = False,
    burst: Annotated[int, typer.Option(metavar="N", help="Of these, how many at once, at the beginning.")] = 0,
    seeds: Annotated[
        str, typer.Option(metavar="LIST", help="Random worlds, as in 1,2,3 or 101-110; or how many of them.")
    ] = SEEDS,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"One of {', '.join(POLICIES)}; may be given again. Default: all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each policy.")] = False,
) -> int:
    """
    Play the merge train, and what others do instead, against the same arrivals on a virtual clock.

    Checks take 8 minutes in the median. A change touches one to four of 60 modules; of two that share a module, one
    pair in 25 is red together. Times are from arrival to landing; each figure is the mean over the worlds.
    """
    count = changes if changes is not None else burst or _USUAL
    terms = QueueTerms(
        workers=_count("--workers", workers, 1),
        rate_h=_above_zero("--rate", rate),
        bad=_probability("--bad", bad),
        flake=_probability("--flake", flake),
        retries=_count("--retries", retries, 0),
        changes=_count("--changes", count, 1),
        burst=_count("--burst", burst, 0, most=count),
        scopes=scopes,
    )
    worlds, names = _seeds(seeds), _policies(policy)
    found = list[Numbers]()
    for name in names:
        found.append(play(name, POLICIES[name], terms, worlds))
        if as_json:
            say_json(found[-1].as_json())
    if not as_json:
        _tell(found, terms, worlds)
    return 1 if any(one.red_moves or one.exactness_violations for one in found) else 0


def _tell(found: list[Numbers], terms: QueueTerms, worlds: list[int]) -> None:
    columns = ("policy", "P50", "P95", "P99", "per h", "runs", "wasted", "decided", "false", "wrong")
    print_table(columns, [_row(one) for one in found])
    say(
        "P50, P95, P99: minutes from arrival to landing. per h: landings. runs: of the checks, for each change.\n"
        "wasted: of their time, in runs that were cancelled. decided: by the time the last one arrived.\n"
        "false: returned though good. wrong: moves of the target to what is red, and to what was not tested so."
    )
    mean_min = terms.check_min * math.exp(terms.spread**2 / 2)
    warning = None if terms.burst == terms.changes else admission(terms.rate_h, mean_min, terms.bad, terms.workers)
    if warning is not None:
        say(warning)


def _row(one: Numbers) -> tuple[str, ...]:
    return (
        one.policy,
        *(f"{value:.1f}" for value in (one.p50_min, one.p95_min, one.p99_min, one.landed_per_h)),
        f"{one.runs_per_change:.2f}",
        f"{one.wasted_pct:.1f}%",
        f"{one.decided_pct:.1f}%",
        f"{one.false_reject_pct:.2f}%",
        f"{one.red_moves}+{one.exactness_violations}",
    )


def _count(option: str, given: int, least: int, most: int | None = None) -> int:
    if given < least:
        raise BadWorld(f"{option} is {given}; it is {least} or more")
    if most is not None and given > most:
        raise BadWorld(f"{option} is {given}, and only {most} arrive at all; give at most that, or more --changes")
    return given


def _above_zero(option: str, given: float) -> float:
    if not (given > 0 and math.isfinite(given)):
        raise BadWorld(f"{option} is {given:g}; arrivals an hour are a number above 0")
    return given


def _probability(option: str, given: float) -> float:
    if not 0 <= given < 1:
        raise BadWorld(f"{option} is {given:g}; a probability is from 0 to less than 1, as in 0.08")
    return given


def _seeds(written: str) -> list[int]:
    """`3` is the first three worlds, `1,2,3` and `101-110` name them."""
    parts = [part.strip() for part in written.split(",")]
    found = list[int]()
    for part in parts:
        low, dash, high = part.partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not dash)):
            raise BadWorld(f"--seeds has '{part}'; give numbers as in 1,2,3, a range as in 101-110, or how many")
        found.extend(range(int(low), min(int(high or low), int(low) + _MOST_SEEDS) + 1))
    if len(parts) == 1 and "-" not in written:
        found = list(range(1, min(found[0], _MOST_SEEDS + 1) + 1))
    if not 0 < len(found) <= _MOST_SEEDS:
        raise BadWorld(f"--seeds '{written}' are {len(found) or 'no'} worlds; give from 1 to {_MOST_SEEDS}")
    return found


def _policies(given: list[str] | None) -> list[str]:
    for name in given or ():
        if name not in POLICIES:
            raise BadWorld(f"--policy: {unknown('policy', name, tuple(POLICIES))}")
    return list(dict.fromkeys(given or POLICIES))


_SEEDS = 20
_TASKS_AT_ALL_SEEDS = 150
_LEAST_SEEDS = 3


def plan(
    plan: Annotated[Path, typer.Argument(help="The plan file (YAML).")],
    repo: Annotated[str, typer.Option(help="Path or URL of the repository the target lives in.")] = ".",
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks worked on at once. Default: this machine's processors.")
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Batches of candidates checked at once.")] = 1,
    check_s: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How long the checks take. Default: as in earlier runs, else 60."),
    ] = None,
    bad: Annotated[
        float | None, typer.Option(metavar="P", help="Probability that a candidate is red. Default: 0.08.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="K", help=f"Runs to play. Default: {_SEEDS}, fewer for large plans.")
    ] = None,
    from_runs: Annotated[
        bool, typer.Option("--from-runs", help="Durations, reds and costs as in the last runs of this plan.")
    ] = False,
    gantt: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the run of median length.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> int:
    """
    Play a plan with the scheduler and the merge train of real runs, on a virtual clock: nothing is started.

    Says how long it takes, what it costs, what bounds it, and what one more worker would buy; and what of
    this is taken from earlier runs, what only assumed.
    """
    wanted = Wanted(
        workers=_within("--workers", (os.cpu_count() or 1) if workers is None else workers, 256),
        trials=_within("--trials", trials, 256),
        seeds=_within("--seeds", _SEEDS if seeds is None else seeds, _MOST_SEEDS),
        check_s=_seconds(check_s),
        bad=None if bad is None else _probability("--bad", bad),
        from_runs=from_runs,
    )
    if gantt is not None:
        _refuse_folder(gantt)
    settings = Settings()
    hub = open_hub(repo, settings)
    read = read_plan(plan, hub)
    course = PlanIndex(read, learn_durations(settings, read))
    fitted = fit(settings, read)
    based = grounds(course, wanted, fitted, reviewed=wants_reviews(hub.mirror, hub.tip_for(read)))
    if seeds is None:
        wanted = _fewer(wanted, len(read.tasks))
    found = forecast(course, based.terms, seeds=wanted.seeds)
    if gantt is not None:
        _draw(gantt, read.name, found)
    if json:
        say_json(as_json(course, found, based, fitted, wanted))
    else:
        for line in lines(course, found, based, fitted, wanted):
            say(line)
        if gantt is not None:
            say(f"chart: {gantt} shows seed {found.middle.seed}")
    return 0


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise BadWorld(f"--gantt {path} is a folder; name a file in it, such as {path / 'plan.svg'}")
    if not path.absolute().parent.is_dir():
        raise BadWorld(f"--gantt {path}: there is no folder {path.absolute().parent}; make it, or name another")


def _draw(path: Path, name: str, found: Forecast) -> None:
    from forgepool.orchestrator.simulate.plan.gantt import gantt

    title = f"{name}, simulated with {found.workers} {'worker' if found.workers == 1 else 'workers'}"
    try:
        path.write_text(gantt(found.middle, found.look, title=f"{title}, seed {found.middle.seed}"), encoding="utf-8")
    except OSError as trouble:
        raise BadWorld(f"--gantt {path} cannot be written: {trouble.strerror}") from trouble


def _fewer(wanted: Wanted, tasks: int) -> Wanted:
    """A run of many tasks takes long to play: as many runs as the tasks of a small plan make up for."""
    seeds = wanted.seeds * _TASKS_AT_ALL_SEEDS // max(tasks, 1)
    return replace(wanted, seeds=min(wanted.seeds, max(_LEAST_SEEDS, seeds)))


def _within(option: str, given: int, most: int) -> int:
    if not 1 <= given <= most:
        raise BadWorld(f"{option} is {given}; it is from 1 to {most}")
    return given


def _seconds(given: float | None) -> float | None:
    if given is not None and not (given > 0 and math.isfinite(given)):
        raise BadWorld(f"--check-s is {given:g}; it is a number of seconds above 0")
    return given
