"""`forgepool run` and `forgepool resume`."""

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr

from forgepool.orchestrator.cli import raise_missed_interrupt
from forgepool.orchestrator.cli.output.progress import display, exit_status, tell_outcome
from forgepool.orchestrator.cli.output.say import complain, hush, say, tell_slow
from forgepool.orchestrator.cli.output.standing import tell_wanted
from forgepool.orchestrator.cli.run.check import preview_plan
from forgepool.orchestrator.cli.run.options import Again, Json, Run, cores_beside_workers, trials_of
from forgepool.orchestrator.cli.run.pages_beside import Serve, serve_pages
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import Event, RunForecast
from forgepool.orchestrator.journal.store import JournalBusy, Recorded
from forgepool.orchestrator.launch.embedded import prepare_host
from forgepool.orchestrator.launch.notify import Notifier, open_notifier
from forgepool.orchestrator.launch.preflight import refuse_unready
from forgepool.orchestrator.launch.revision import read_cap, set_budget, take_plan
from forgepool.orchestrator.launch.session import Listener, gate_of, resume_run, start_run, take_in_late
from forgepool.orchestrator.plan.document import plan_digest
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun, Hub, open_hub, read_plan, reopen_hub
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.takeover import find_run
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.sandbox.layers import Wanted
from forgepool.workers.schema.logs import log_to_file
from forgepool.workers.schema.settings import Settings

if TYPE_CHECKING:
    from forgepool.orchestrator.cli.run.pull_request import Proposal

Plan = Annotated[Path, typer.Argument(help="The plan file (YAML).")]
Repo = Annotated[str, typer.Option(help="Path or URL of the repository the target lives in.")]
Broker = Annotated[str | None, typer.Option(help="A shared Redis (redis://...); default: a private one.")]
BrokerAgain = Annotated[
    str | None, typer.Option(help="The shared Redis; `none`: a private one, though the run had a shared one.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=256, help="Tasks at once on this host; default: one for each processor.")
]
WorkersAgain = Annotated[
    int | None, typer.Option(min=1, max=256, help="Tasks at once on this host; default: as before.")
]
Weight = Annotated[
    int, typer.Option(min=1, max=1000, help="Part of the hosts' slots, relative to other runs on the same Redis.")
]
WeightAgain = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Part of the hosts' slots beside other runs; default: as before.")
]
NewUsd = Annotated[
    float | None,
    typer.Option(min=0.0, help="New cap on the cost of the whole run, including what it has cost so far."),
]
NewTokens = Annotated[int | None, typer.Option(min=1, help="The same in tokens.")]
CorrectedPlan = Annotated[
    Path | None, typer.Option("--plan", help="A corrected plan; unchanged tasks keep their outcome.")
]
Trials = Annotated[
    str, typer.Option(metavar="N|auto", help="Batches tested at once on this machine; auto: by its processors.")
]
OwnTrain = Annotated[
    bool, typer.Option("--own-train", help="Land by the run itself, even if a merge queue serves the target.")
]
BegunElsewhere = Annotated[
    str | None, typer.Option(help="The repository of a run that another machine began; it is continued here.")
]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Do not wait to see whether the other machine still holds the run.")
]
Notify = Annotated[
    str | None,
    typer.Option(metavar="URL|COMMAND", help="Notify it when a person is needed, near the budget, and at the end."),
]
Pr = Annotated[
    str | None,
    typer.Option(
        "--pr",
        metavar="FORGE",
        help="At the end, open a pull request to the default branch: github:OWNER/REPO[@URL] or gitlab:GROUP/PROJECT.",
    ),
]
Sandbox = Annotated[
    Wanted | None,
    typer.Option(help="Confinement of commands. auto: the best available. require: bubblewrap, or refuse. off: none."),
]


def register(app: typer.Typer) -> None:
    app.command()(run)
    app.command()(resume)


def run(
    plan: Plan,
    repo: Repo = ".",
    workers: Workers = None,
    trials: Trials = "auto",
    weight: Weight = 1,
    broker: Broker = None,
    sandbox: Sandbox = None,
    own_train: OwnTrain = False,
    again: Again = False,
    budget_usd: Annotated[
        float | None, typer.Option(min=0.01, help="Cap on the cost of the run, in place of the plan's.")
    ] = None,
    budget_tokens: NewTokens = None,
    name: Annotated[str | None, typer.Option("--name", hidden=True, help="The run's name.")] = None,
    checked: Annotated[
        str | None, typer.Option("--plan-digest", hidden=True, help="Digest of the plan as it was checked.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and preview only; start nothing.")] = False,
    serve: Serve = False,
    notify: Notify = None,
    pr: Pr = None,
    as_json: Json = False,
) -> int:
    """Run a plan. Each task ends with a landed commit, or with the reason why there is none."""
    settings, at_once = settings_with(broker, sandbox, notify), trials_of(trials, processors=cores_beside_workers())
    if name is not None and (not run_folder.is_run_name(name) or (run_folder.runs_folder(settings) / name).exists()):
        raise CannotRun(f"--name {name} is taken, or is no name; leave it out, and the run gets one")
    seed = None if dry_run else prepare_host(settings)
    with tell_slow("reading the repository; the first copy of a large one takes a while"):
        hub = open_hub(repo, settings)
        read = read_plan(plan, hub)
    if checked not in (None, plan_digest(read)):
        raise CannotRun(f"{plan} reads differently since it was checked; have it checked again")
    read = read.model_copy(update={"budget": read_cap(read.budget, budget_usd, budget_tokens)})
    refuse_unready(read, hub)
    if dry_run:
        gate_of(read, hub, own_train=own_train)
        return preview_plan(read, hub, as_json=as_json)
    proposal = _proposal(pr, lambda: hub, read.target, settings)
    wishes = listen_to_ctrl_c()
    notifier = open_notifier(settings, PlanIndex(read, {}), wishes.untold.append)
    with (
        serve_pages(settings, wanted=serve, tell=_warn if as_json else say),
        display(PlanIndex(read, {}), as_json=as_json) as shown,
    ):
        kept, ending = start_run(
            read,
            plan,
            hub,
            settings,
            workers=workers or os.cpu_count() or 1,
            trials=at_once,
            weight=weight,
            own_train=own_train,
            again=again,
            run=name,
            wishes=wishes,
            listener=listen_to_run(shown.listen, wishes, settings, notifier),
            seed=seed,
            warn=_warn,
            forecast=partial(_forecast, hub, settings),
        )
    return _close(kept, ending, settings, notifier, wishes, proposal, as_json=as_json)


def resume(
    run: Run,
    workers: WorkersAgain = None,
    weight: WeightAgain = None,
    broker: BrokerAgain = None,
    sandbox: Sandbox = None,
    budget_usd: NewUsd = None,
    budget_tokens: NewTokens = None,
    own_train: OwnTrain = False,
    repo: BegunElsewhere = None,
    take_over: TakeOver = False,
    plan: CorrectedPlan = None,
    notify: Notify = None,
    pr: Pr = None,
    as_json: Json = False,
) -> int:
    """Continue a run that was interrupted or halted, whose budget was used up, or whose plan is corrected."""
    settings = settings_with(broker, sandbox, notify)
    if broker == "none":
        settings = settings.model_copy(update={"broker_url": None})
    seed = prepare_host(settings)
    kept = find_run(settings, run, repo, take_over=take_over, tell=_warn)
    kept = _with_late_words(kept, settings, as_json=as_json)
    _set_budget(kept, budget_usd, budget_tokens, as_json=as_json)
    kept = kept if plan is None else _take_plan(kept, plan, settings, as_json=as_json)
    state = kept.state()
    if state.finished:
        return _tell_ended(kept, state, as_json=as_json)
    _require_broker(kept, broker, settings)
    _tell_old_plan(kept)
    proposal = _proposal(pr, lambda: reopen_hub(kept.options.hub, settings), kept.options.target, settings)
    wishes = listen_to_ctrl_c()
    notifier = open_notifier(settings, kept.course, wishes.untold.append)
    with display(kept.course, as_json=as_json) as shown:
        listener = listen_to_run(shown.listen, wishes, settings, notifier)
        ending = resume_run(
            kept,
            settings,
            workers=workers,
            weight=weight,
            own_train=own_train,
            wishes=wishes,
            listener=listener,
            seed=seed,
            warn=_warn,
        )
    return _close(kept, ending, settings, notifier, wishes, proposal, as_json=as_json)


def _with_late_words(kept: run_folder.KeptRun, settings: Settings, *, as_json: bool) -> run_folder.KeptRun:
    late = take_in_late(kept)
    tell_changes(kept, () if as_json else late)
    return run_folder.open_run(settings, kept.options.run) if late else kept


def _proposal(pr: str | None, hub: Callable[[], Hub], target: str, settings: Settings) -> "Proposal | None":
    if pr is None:
        return None
    from forgepool.orchestrator.cli.run.pull_request import prepare_proposal

    return prepare_proposal(pr, hub(), target, settings)


def _forecast(hub: Hub, settings: Settings, kept: run_folder.KeptRun, done: Collection[str]) -> RunForecast | None:
    """Forecast a run; what that needs is loaded only where it may be known how long the tasks take."""
    earlier = [one for one in run_folder.run_names(settings) if one.startswith(f"{kept.plan.name[:40]}-")]
    if not earlier[1:] and any(task.duration_s is None for task in kept.plan.tasks):
        return None
    from forgepool.orchestrator.cli.simulate import forecast_run

    return forecast_run(kept, hub, settings, done)


def _require_broker(kept: run_folder.KeptRun, broker: str | None, settings: Settings) -> None:
    """Refuse to leave the workers of a shared Redis, which may be at work on the run, unless a person says so."""
    if kept.options.broker and broker is None and settings.broker_url is None:
        raise CannotRun(
            f"the workers of run {kept.options.run} are at {kept.options.broker}; resume it with `--broker URL` (or "
            "set FORGEPOOL_BROKER_URL), or on this machine alone with `--broker none`"
        )


def _tell_old_plan(kept: run_folder.KeptRun) -> None:
    if kept.plan_file_changed():
        complain(
            f"{kept.options.plan_file} has changed since this run began; the run keeps its old plan, "
            f"stored in {kept.folder / 'plan.json'}",
            0,
        )


def _tell_ended(kept: run_folder.KeptRun, state: RunState, *, as_json: bool) -> int:
    run = kept.options.run
    if as_json:
        tell_outcome(kept, state, "ended", as_json=True)
    else:
        say(
            f"run {run} has ended; `forgepool retry {run} TASK` reopens a task, "
            f"and `forgepool resume {run} --plan FILE` takes a corrected plan"
        )
        tell_wanted(standing(kept.course, state, now=time.time(), live=False))
    return exit_status(kept.course, state, "ended")


def _take_plan(kept: run_folder.KeptRun, plan: Path, settings: Settings, *, as_json: bool) -> run_folder.KeptRun:
    try:
        kept, changes = take_plan(kept, plan, settings)
    except JournalBusy as busy:
        run = kept.options.run
        raise CannotRun(
            f"run {run} is under way, so its plan cannot be changed; "
            f"stop it with Ctrl-C first, then: forgepool resume {run} --plan {plan}"
        ) from busy
    if not as_json:
        tell_changes(kept, changes)
        if not changes:
            say(f"run {kept.options.run} already has the plan in {plan}")
    return kept


def _set_budget(kept: run_folder.KeptRun, usd: float | None, tokens: int | None, *, as_json: bool) -> None:
    if usd is None and tokens is None:
        return
    changes = set_budget(kept, usd, tokens)
    if not as_json:
        tell_changes(kept, changes)


def _warn(sentence: str) -> None:
    complain(sentence, 0)


def tell_changes(kept: run_folder.KeptRun, changes: Sequence[Event]) -> None:
    for change in changes:
        say(sentence(change, run=kept.options.run) or "")


def settings_with(broker: str | None, sandbox: Wanted | None = None, notify: str | None = None) -> Settings:
    """Return the settings, with the command line's values in place of the environment's."""
    given = {"broker_url": broker, "sandbox": sandbox, "notify": SecretStr(notify) if notify is not None else None}
    return Settings().model_copy(update={name: value for name, value in given.items() if value is not None})


def listen_to_ctrl_c() -> Wishes:
    """Handle Ctrl-C: once, start nothing new and let running work finish; twice, stop now. SIGTERM counts as twice."""
    wishes = Wishes()

    def note_interrupt(number: int, frame: FrameType | None) -> None:
        if wishes.drain or number == signal.SIGTERM:
            wishes.stop = True
            wishes.untold.append("stopping now; finished work is kept")
        else:
            wishes.untold.append("starting nothing new, running tasks may finish; press Ctrl-C again to stop now")
        wishes.drain = True

    signal.signal(signal.SIGINT, note_interrupt)
    signal.signal(signal.SIGTERM, note_interrupt)
    raise_missed_interrupt()
    return wishes


def listen_to_run(show: Listener, wishes: Wishes, settings: Settings, notifier: Notifier | None = None) -> Listener:
    """
    Return a listener that shows a run's progress and moves this process's log into the run's folder.

    A closed output, as in `forgepool run PLAN | head -1`, interrupts the run.
    """
    logged = False

    def listen(state: RunState, recorded: Sequence[Recorded]) -> None:
        nonlocal logged
        if state.run and not logged:
            logged = True
            log_to_file(run_folder.runs_folder(settings) / state.run / "logs" / "orchestrator.log", state.run)
        if notifier is not None:
            notifier.listen(state, recorded)
        while wishes.untold:
            complain(wishes.untold.pop(0), 0)
        try:
            show(state, recorded)
        except BrokenPipeError:
            hush()
            complain(f"the output was closed, so the run stops; continue with: forgepool resume {state.run}", 0)
            wishes.drain = wishes.stop = True

    return listen


def _close(
    kept: run_folder.KeptRun,
    ending: str,
    settings: Settings,
    notifier: Notifier | None,
    wishes: Wishes,
    proposal: "Proposal | None" = None,
    *,
    as_json: bool,
) -> int:
    from forgepool.orchestrator.reports.proof.files import write_report

    kept = run_folder.open_run(settings, kept.options.run)
    write_report(kept, settings)
    state = kept.state()
    tell_outcome(kept, state, ending, as_json=as_json)
    if notifier is not None and ending != "interrupted":
        notifier.tell_end(state)
    if proposal is not None and ending != "interrupted":
        proposal.send(kept)
    for line in wishes.untold:
        complain(line, 0)
    return exit_status(kept.course, state, ending)
