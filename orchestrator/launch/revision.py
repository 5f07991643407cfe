"""
Gives a run another budget, or a corrected plan.

It decides which tasks keep their outcome, which restart, and which changes come too late.

The new plan is written into the run's folder beside the first; the event that names it is journaled afterwards.
"""

import os
from pathlib import Path

from pydantic import ValidationError

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import with_blocked, with_budget
from forgepool.orchestrator.journal.events import Event, PlanRevised
from forgepool.orchestrator.journal.store import JournalBusy
from forgepool.orchestrator.launch.preflight import refuse_unready
from forgepool.orchestrator.plan.addition import check_growth
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.document import Plan, Task, dump_plan, plan_digest
from forgepool.orchestrator.reports.costs import name_amounts
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun, carry_assets, open_hub, read_plan
from forgepool.orchestrator.run.recovery import find_already_there, work_of
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.settings import Settings

_ENDED_BADLY = ("failed", "blocked", "cancelled")


def take_plan(kept: KeptRun, path: Path, settings: Settings) -> tuple[KeptRun, list[Event]]:
    """
    Give a run the plan in `path`; return the run and the journaled events, none if it has that plan already.

    Raises:
        DocumentWrong: the plan file is invalid.
        CannotRun: the plan is another run's, or changes something too late.
        JournalBusy: the run is under way.
    """
    if kept.options.gate:
        raise CannotRun(
            f"{kept.options.run} is a merge queue and has no plan; submit changes with: forgepool queue submit BRANCH"
        )
    hub = open_hub(kept.options.hub, settings)
    written = read_plan(path, hub)
    _refuse_another(kept, written)
    refuse_unready(written, hub)

    def decide(state: RunState) -> list[Event]:
        plan = with_landed(kept.plan, written, state)
        if plan == kept.plan or not state.run:
            return []
        name = f"plan-{state.number + 1}.json"
        revised = revise(kept.plan, plan, state, name)
        revised = revised.model_copy(update={"assets": carry_assets(written, path.parent, hub, kept.folder, state.run)})
        _write(kept.folder / name, dump_plan(plan))
        there = find_already_there(hub.mirror, hub.tip_for(plan), plan, among={*revised.added, *revised.afresh})
        return [revised, *there]

    _, changes = kept.amend(decide)
    options = kept.options.model_copy(
        update={"plan_file": str(path.absolute()), "plan_file_digest": run_folder.file_digest(path)}
    )
    run_folder.with_options(kept, options)
    return run_folder.open_run(settings, kept.options.run), changes


def with_landed(old: Plan, new: Plan, state: RunState) -> Plan:
    """
    Return the new plan plus the tasks that it left out and that stay: landed ones, and those added to the run.

    Raises:
        CannotRun: an added task needs one that was left out.
    """
    ids = {task.id for task in new.tasks}
    added = {task.id for task in state.added} - ids
    # What they needed was done before them, and may be gone from the plan as well.
    stay = [
        task if task.id in added and state.tasks[task.id].phase != "landed" else task.model_copy(update={"needs": ()})
        for task in old.tasks
        if task.id not in ids and (task.id in added or state.tasks[task.id].phase == "landed")
    ]
    whole = new.model_copy(update={"tasks": (*new.tasks, *stay)})
    if (why := check_growth(whole, (), ())) is not None:
        raise CannotRun(f"{why}; it was added to the run")
    return whole


def revise(old: Plan, new: Plan, state: RunState, plan_file: str) -> PlanRevised:
    """
    Decide what follows from another plan. Pure.

    Raises:
        CannotRun: it changes or drops a task that is landing, or changes one that has landed.
    """
    before, after = ({task.id: task for task in plan.tasks} for plan in (old, new))
    removed = tuple(one for one in before if one not in after)
    afresh = tuple(
        one
        for one, task in after.items()
        if one in before and _begins_afresh(old, new, before[one], task, state.tasks[one])
    )
    _refuse_late(state, (*afresh, *removed))
    chosen = with_blocked(PlanIndex(new, {}), state, {*afresh, *(one for one in after if one not in before)})
    waiting = tuple(one for one in after if one in chosen and one in before and one not in afresh)
    return PlanRevised(
        plan_file=plan_file,
        plan_digest=plan_digest(new),
        tasks=tuple(after),
        added=tuple(one for one in after if one not in before),
        removed=removed,
        kept=tuple(task.id for task in state.added if task in new.tasks),
        afresh=afresh,
        reopened=tuple(one for one in waiting if state.tasks[one].phase == "blocked"),
    )


def _begins_afresh(old: Plan, new: Plan, before: Task, after: Task, task: TaskState) -> bool:
    """Tell whether a task restarts: when its work changed, or when it ended badly and anything changed."""
    if work_of(old, before) != work_of(new, after):
        return True
    mended = task.phase in _ENDED_BADLY or (task.phase == "needs_human" and task.parked_for in ("trouble", "budget"))
    return mended and before != after


def _refuse_another(kept: KeptRun, plan: Plan) -> None:
    for key, is_, was in (("name", plan.name, kept.plan.name), ("target", plan.target, kept.plan.target)):
        if is_ != was:
            raise CannotRun(
                f"the plan's {key} is '{is_}', but that of run {kept.options.run} is '{was}'; "
                f"keep the {key}, or start another run with `forgepool run`"
            )


def _refuse_late(state: RunState, ids: tuple[str, ...]) -> None:
    for task in (state.tasks[one] for one in ids):
        if (why := _why_too_late(state, task)) is not None:
            raise CannotRun(f"task '{task.id}' {why}")


def _why_too_late(state: RunState, task: TaskState) -> str | None:
    if task.phase == "landed":
        return (
            f"has landed as {task.commit[:12]}, but the plan now asks for other work under that id; give it another "
            "id, or start a new run with `forgepool run`, which skips what has landed unchanged"
        )
    if task.phase == "landing" or task.landing_in_doubt:
        return f"may be landing right now; first resume without --plan: forgepool resume {state.run}"
    if task.phase == "given":
        return f"was submitted to {state.gate}; withdraw it first: forgepool cancel {state.run} {task.id}"
    return None


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # the journal is about to name it


def read_cap(before: Budget, usd: float | None, tokens: int | None) -> Budget:
    """Return a budget with these caps; a kind that is not given stays. Raises CannotRun."""
    try:
        return Budget(usd=before.usd if usd is None else usd, tokens=before.tokens if tokens is None else tokens)
    except ValidationError as wrong:
        raise CannotRun(f"--budget-usd {usd:g} is not a budget; give an amount in dollars, such as 20") from wrong


def choose_budget(kept: KeptRun, state: RunState, usd: float | None, tokens: int | None) -> Budget:
    """Return the run's budget with these caps. Raises CannotRun: it is less than what is spent or reserved."""
    cap, ledger = read_cap(kept.course.budget(state), usd, tokens), kept.course.ledger(state)
    for kind in ledger.above(cap):
        used = f"{ledger.usd:.2f} USD" if kind == "usd" else f"{ledger.tokens:,} tokens"
        raise CannotRun(
            f"a budget of {name_amounts(cap.usd, cap.tokens)} is less than the {used} that run {kept.options.run} has "
            "spent or reserved; give more"
        )
    return cap


def set_budget(kept: KeptRun, usd: float | None, tokens: int | None) -> list[Event]:
    """
    Journal a new budget, never below what is spent or reserved. Return the events.

    Raises:
        CannotRun: the run is under way, or the budget is too small.
    """
    run = kept.options.run
    try:
        return kept.amend(lambda state: with_budget(kept.course, state, choose_budget(kept, state, usd, tokens)))[1]
    except JournalBusy as busy:
        wanted = ("" if usd is None else f" --usd {usd:g}") + ("" if tokens is None else f" --tokens {tokens}")
        raise CannotRun(f"run {run} is under way; to change its budget: forgepool budget {run}{wanted}") from busy
