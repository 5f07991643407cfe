"""
Starts or resumes a run: checks that it can begin, prepares the hub, Redis and workers, runs the loop, cleans up.

Everything that can be refused is refused before anything is started (`prerequisites`).
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import structlog

from forgepool.orchestrator.decisions.orders.treasury import TreasurySource
from forgepool.orchestrator.decisions.queue.delegation import why_not_through
from forgepool.orchestrator.decisions.requests import grant_request, why_refused
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import (
    Event,
    RunForecast,
    RunPaused,
    RunResumed,
    RunStarted,
    SurveyFound,
    TaskAlreadyThere,
)
from forgepool.orchestrator.journal.hub_copy import HubCopy, LeaseLost, give_back, open_copy
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Journal, Recorded
from forgepool.orchestrator.journal.surveys import find_survey
from forgepool.orchestrator.launch import embedded
from forgepool.orchestrator.launch.embedded import Embedded
from forgepool.orchestrator.launch.preflight import lacking, refuse_unready, warn_uncapped, warn_unread_survey
from forgepool.orchestrator.launch.prerequisites import (
    check_agents,
    check_home,
    check_hub_writable,
    check_sandbox,
    check_transport,
    unreviewable,
)
from forgepool.orchestrator.plan.document import Plan, plan_digest
from forgepool.orchestrator.reports.leftovers import list_kept_tasks, remove_refs
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.delegation import ThroughLoop, standing_gate, take_away
from forgepool.orchestrator.run.fleet import AccountWatch
from forgepool.orchestrator.run.hub import CannotRun, Hub, bring_home, carry_assets, reopen_hub, wants_reviews
from forgepool.orchestrator.run.loop import Ending, Loop
from forgepool.orchestrator.run.neighbours.treasury import hold_treasury, open_desk
from forgepool.orchestrator.run.recovery import find_already_there
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions, learn_from_runs
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL
from forgepool.workers.queue.broker import address_of, connect, ping, use_broker
from forgepool.workers.sandbox.own_processes import Seed
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.settings import Settings, put_first_on_path
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.target import create_target

_MOST_REVIEWS_AT_ONCE = 4
log = structlog.get_logger()
Listener = Callable[[RunState, Sequence[Recorded]], None]
Warn = Callable[[str], None]
KnownFirst = TaskAlreadyThere | SurveyFound | RunForecast
"""An event about what is known as a run begins."""
Prophet = Callable[[KeptRun, Collection[str]], RunForecast | None]
"""Forecasts a run, without the tasks that are done already."""


def _unheard(sentence: str) -> None:
    """Ignore a warning."""


def start_run(
    plan: Plan,
    plan_file: Path,
    hub: Hub,
    settings: Settings,
    *,
    workers: int,
    trials: int = 1,
    weight: int = 1,
    own_train: bool = False,
    again: bool = False,
    wishes: Wishes,
    listener: Listener,
    programs: str = "",
    run: str | None = None,
    seed: Seed | None = None,
    warn: Warn = _unheard,
    forecast: Prophet = lambda kept, done: None,
) -> tuple[KeptRun, Ending]:
    """
    Run a plan. What earlier runs of it have landed or surveyed is not done once more, unless `again` is set.
    `run` is its name where that is known before. `warn` receives a sentence for each problem that stops a part of it.
    """
    has_gate_file, gate = refuse_unready(plan, hub), gate_of(plan, hub, own_train=own_train)
    level = _check_machine(plan, plan_file, hub, settings)
    run = run or run_folder.new_run_id(plan.name)
    check_hub_writable(hub.mirror, run)
    _warn_of(plan, settings, gate, warn)
    tip = create_target(hub.mirror, plan.target, hub.tip_for(plan))
    hub.mirror.ensure(tip, refs=(f"refs/heads/{plan.target}",))
    options = RunOptions(
        run=run,
        hub=hub.facts.url,
        target=plan.target,
        workers=workers,
        trials=trials,
        plan_file=str(plan_file.absolute()),
        plan_file_digest=run_folder.file_digest(plan_file),
        programs=programs,
        weight=weight,
        broker=address_of(settings.broker_url or ""),
        own_train=own_train,
        person=settings.person,
    )
    with hold_treasury(settings, alone=settings.broker_url is None) as bounds:
        kept = run_folder.keep(settings, options, plan)
        beginning = _beginning_of(kept, hub, tip, level, gate=gate, has_gate_file=has_gate_file)
        known: list[KnownFirst] = [] if again else [*_find_known(kept, hub, tip, settings, warn)]
        known += _foretell(kept, known, forecast)
        return kept, _go(kept, hub.mirror, settings, [beginning, *known], wishes, listener, seed, bounds)


def _foretell(kept: KeptRun, known: Sequence[KnownFirst], forecast: Prophet) -> Iterator[RunForecast]:
    done = {
        one.task for one in known if isinstance(one, TaskAlreadyThere) or (isinstance(one, SurveyFound) and one.stands)
    }
    if (found := forecast(kept, done)) is not None:
        yield found


def _warn_of(plan: Plan, settings: Settings, gate: str, warn: Warn) -> None:
    unreviewed = None if gate else unreviewable(plan, settings)
    for sentence in filter(None, (unreviewed, warn_uncapped(plan, settings), warn_unread_survey(plan))):
        warn(sentence)


def _find_known(kept: KeptRun, hub: Hub, tip: CommitId, settings: Settings, warn: Warn) -> Iterator[KnownFirst]:
    """Find the tasks that earlier runs have landed, and the survey that they have left."""
    yield from find_already_there(hub.mirror, tip, kept.plan)
    yield from find_survey(settings.home, kept.options.hub, kept.plan, hub.mirror.git, tip, warn)


def _beginning_of(
    kept: KeptRun, hub: Hub, tip: CommitId, level: Level | None, *, gate: str, has_gate_file: bool
) -> RunStarted:
    options, plan = kept.options, kept.plan
    return RunStarted(
        run=options.run,
        plan_digest=plan_digest(plan),
        hub=options.hub,
        target=plan.target,
        tip=tip,
        gate_file=has_gate_file,
        sandbox=level,
        gate=gate,
        assets=carry_assets(plan, Path(options.plan_file).parent, hub, kept.folder, options.run),
        base_first=not gate and (has_gate_file or plan.checks != "none"),
    )


def _check_machine(plan: Plan, plan_file: Path, hub: Hub, settings: Settings) -> Level | None:
    """Check everything that the run needs on this machine; return how its commands will be confined."""
    check_agents(plan, settings)
    level = check_sandbox(plan, settings)
    check_transport(settings)
    check_home(settings)
    if missing := lacking(plan, hub, settings, plan_file.parent):
        more = f"; and {len(missing) - 1} more: forgepool check {plan_file}" if missing[1:] else ""
        raise CannotRun(f"{missing[0]}{more}")
    return level


def gate_of(plan: Plan, hub: Hub, *, own_train: bool) -> str:
    """
    Return the merge queue that lands the plan's candidates; empty where the run lands them itself.

    Raises:
        CannotRun: a queue serves the target, and the plan has options that a queue cannot keep.
        GitFailed: the hub could not be asked.
    """
    gate = "" if own_train else standing_gate(hub.mirror, plan.target)
    if gate and (why := why_not_through(plan, gate)) is not None:
        raise CannotRun(why)
    return gate


def _gate_again(kept: KeptRun, hub: Hub, *, own_train: bool) -> str:
    """
    Return the queue a resumed run delegates to: the one serving the target now, else the previous one.

    Entries delegated before stay with the previous queue until it replies.
    """
    state = kept.state()
    given = state.in_phase("given")
    if own_train and given:
        names = ", ".join(task.id for task in given[:5])
        raise CannotRun(
            f"{state.gate} has {names} of run {state.run}, and may land them; cancel them first, or "
            f"serve the queue: forgepool queue serve --repo {state.hub} --target {state.target}"
        )
    return "" if own_train else gate_of(kept.plan, hub, own_train=False) or state.gate


def resume_run(
    kept: KeptRun,
    settings: Settings,
    *,
    workers: int | None,
    weight: int | None = None,
    own_train: bool = False,
    wishes: Wishes,
    listener: Listener,
    seed: Seed | None = None,
    warn: Warn = _unheard,
) -> Ending:
    """Resume a run where its journal ends; `seed` is of `prepare_host`."""
    if kept.options.gate:
        where = f"--repo {kept.options.hub} --target {kept.options.target}"
        raise CannotRun(f"{kept.options.run} is a merge queue, not a run; continue with: forgepool queue serve {where}")
    if not kept.state().run:
        raise CannotRun(f"run {kept.options.run} never began; start it again: forgepool run {kept.options.plan_file}")
    hub = reopen_hub(kept.options.hub, settings)
    folder = hub.facts.checked_out.get(kept.options.target)
    if folder is not None:
        raise CannotRun(f"branch {kept.options.target} is checked out in {folder}; switch that folder, then resume")
    tip = hub.heads.get(kept.options.target)
    if tip is None:
        raise CannotRun(f"branch {kept.options.target} is gone from {hub.facts.url}; create it again, then resume")
    if kept.options.programs:
        put_first_on_path(kept.options.programs)
    left = _left(kept)
    check_agents(left, settings)
    carry_assets(kept.plan, None, hub, kept.folder, kept.options.run)
    own_train = own_train or kept.options.own_train
    gate = _gate_again(kept, hub, own_train=own_train)
    moved = hub.facts.url if hub.facts.url != kept.state().hub else None
    beginning = RunResumed(tip=tip, sandbox=check_sandbox(left, settings), gate=gate, hub=moved)
    if not gate and (unseen := unreviewable(left, settings)) is not None:
        warn(unseen)
    said = {
        "workers": workers,
        "weight": weight,
        "own_train": own_train,
        "broker": address_of(settings.broker_url or ""),
    }
    changed = {name: value for name, value in said.items() if value not in (None, getattr(kept.options, name))}
    if changed:
        kept = run_folder.with_options(kept, kept.options.model_copy(update=changed))
    with hold_treasury(settings, alone=settings.broker_url is None) as limits:
        return _go(kept, hub.mirror, settings, [beginning], wishes, listener, seed, limits)


def _left(kept: KeptRun) -> Plan:
    """Return the plan without tasks that have ended or need only landing: their agents need not be here any more."""
    state = kept.state()
    done = {task.id for task in state.tasks.values() if task.phase in TERMINAL or task.restorable}
    left = tuple(task for task in kept.course.grow_with(state).plan.tasks if task.id not in done)
    return kept.plan.model_copy(update={"tasks": left})


def take_in_late(kept: KeptRun) -> list[Event]:
    """
    Journal the requests that reached a run as it ended; a late `cancel` is dropped. Return the events.

    A run that has not ended reads its own requests. Raises JournalBusy, JournalUnreadable.
    """
    if not kept.state().finished:
        return []
    inbox.discard(kept.folder)
    taken: list[Event] = []
    for path, request in inbox.waiting(kept.folder):
        state = kept.state()
        if (why := why_refused(kept.course.grow_with(state), state, request)) is not None:
            log.warning("request.overtaken", run=kept.options.run, why=why)
        _, changes = kept.amend(partial(_grant, kept, request=request))
        path.unlink(missing_ok=True)
        taken += changes
    return taken


def _grant(kept: KeptRun, state: RunState, request: PersonRequest) -> list[Event]:
    return grant_request(kept.course.grow_with(state), state, request)


def _go(
    kept: KeptRun,
    mirror: Mirror,
    settings: Settings,
    beginning: Sequence[Event],
    wishes: Wishes,
    listener: Listener,
    seed: Seed | None,
    limits: TreasurySource | None,
) -> Ending:
    journal = Journal(kept.folder)
    try:
        state, earlier = kept.replay()
        # First of all: a run whose journal is empty could not be resumed.
        begin(state, journal, *beginning, listener=listener)
        copy = open_copy(mirror, kept.folder, state.run, settings, begun=bool(earlier))
        copy.push()
        # A queue that serves the target has its own reviewers.
        asked = bool(kept.course.reviewed) or kept.course.integration_review != "never"
        reviewed = (asked or wants_reviews(mirror, CommitId(state.tip))) and not state.gate
        workers, trials = kept.options.workers, kept.options.trials
        reviews = min(workers, _MOST_REVIEWS_AT_ONCE) if reviewed else 0
        slots = {"workers": workers, "reviews": reviews, "trials": trials}
        with transport(settings, kept.folder / "logs", seed=seed, **slots) as (url, parts):
            link = Link(connect(url), kept.options.run, settings.lease_ttl_s)
            loop = (ThroughLoop if state.gate else Loop)(
                course=learn_from_runs(settings, kept.plan).grow_with(state),
                state=state,
                journal=journal,
                folder=kept.folder,
                mirror=mirror,
                link=link,
                parts=parts,
                wishes=wishes,
                listener=listener,
                copy=copy,
                treasury=open_desk(settings, limits, kept.options, link.client, alone=parts is not None),
                weight=kept.options.weight,
                accounts=AccountWatch(client=link.client, models_file=settings.models_file),
            )
            ending = _run(loop, resumed=bool(earlier))
        if ending == "ended":
            _tidy(mirror, state, kept.folder, copy)
            inbox.discard(kept.folder)
            return ending
        with suppress(GitFailed):
            copy.push(held=False)
        return ending
    finally:
        journal.close()


def _run(loop: Loop, *, resumed: bool) -> Ending:
    try:
        return loop.run(resumed=resumed)
    except LeaseLost as lost:
        loop.record([RunPaused(why=lost.why)])
        raise


def begin(state: RunState, journal: Journal, *beginning: Event, listener: Listener) -> None:
    """Apply and journal the first events, all or none, before the loop starts."""
    now = time.time()
    for event in beginning:
        apply(state, event, number=state.number + 1, at=now)
    listener(state, journal.append(beginning, at=now))


@contextmanager
def transport(
    settings: Settings, logs: Path, *, workers: int, reviews: int, trials: int, seed: Seed | None = None
) -> Iterator[tuple[str, Embedded | None]]:
    """Use the shared Redis of the settings and yield its URL, or start a private one with our own workers."""
    if settings.broker_url is not None:
        ping(connect(settings.broker_url), settings.broker_url)
        use_broker(settings.broker_url)
        yield settings.broker_url, None
        return
    parts = embedded.start(settings, logs=logs, workers=workers, reviews=reviews, trials=trials, seed=seed)
    try:
        use_broker(parts.url)
        yield parts.url, parts
    finally:
        parts.stop()


def _tidy(mirror: Mirror, state: RunState, folder: Path, copy: HubCopy) -> None:
    """
    Remove the run's refs from the hub, except the work of tasks that did not land, fetch its transcripts, and pack the
    objects. An unreachable hub keeps them. Raises LeaseLost: they are another's.
    """
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            if copy.lease.held:
                copy.push(held=False)
                give_back(folder)
            take_away(mirror, state)
            bring_home(mirror, state.run, folder)
            remove_refs(mirror, state, but_for=list_kept_tasks(state))
            mirror.pack()
            return
        except GitFailed:
            time.sleep(0.5)
