"""The change that events of a whole run make to its state."""

from typing import get_args

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.orders import begin_afresh, reopen
from forgepool.orchestrator.state.steps.train import settle_phases
from forgepool.orchestrator.state.task import TERMINAL, IllegalStep, Phase, TaskState

_MAY_BE_REPLACED: tuple[Phase, ...] = tuple(
    phase for phase in get_args(Phase) if phase not in ("landed", "landing", "given")
)


def start_run(state: RunState, event: e.RunStarted) -> None:
    if state.run:
        raise IllegalStep(f"run {state.run} has started already")
    state.run, state.hub, state.target = event.run, event.hub, event.target
    state.tip, state.plan_digest, state.gate_file = event.tip, event.plan_digest, event.gate_file
    state.gate, state.assets = event.gate, event.assets
    state.wave.since = state.wave_review.anchor = event.tip
    state.wave.base_first = event.base_first


def resume_run(state: RunState, event: e.RunResumed, at: float) -> None:
    if not state.run:
        raise IllegalStep("a run that never began cannot go on")
    moved = event.tip != state.tip
    if moved:
        state.train.note_moved_tip()
        settle_phases(state, at)
    state.tip, state.halted, state.finished = event.tip, "", False
    state.gate, state.gate_away = state.gate if event.gate is None else event.gate, ""
    state.halted_by_infrastructure = state.halted_by_review = False
    state.wave_review.resume()
    state.train.reopen()
    state.wave.resume(moved=moved)


def end_run(state: RunState) -> None:
    if any(task.phase not in TERMINAL for task in state.tasks.values()):
        raise IllegalStep("a run does not end while a task may still go on")
    if state.wave.message is not None and state.wave.tasks:
        raise IllegalStep("a run does not end while its target is checked")
    if state.wave_review.review.message is not None:
        raise IllegalStep("a run does not end while what has landed is reviewed")
    state.wave.message, state.finished = None, True


def revise_plan(state: RunState, event: e.PlanRevised, at: float) -> None:
    """Take another plan. Tests at the gate were run by the old plan's checks, and are run again."""
    for task in (state.step(one, *_MAY_BE_REPLACED) for one in (*event.removed, *event.afresh)):
        if task.landing_in_doubt:
            raise IllegalStep(f"'{task.id}' may have landed, and is not replaced")
        state.train.leave(task.id)
        state.held.discard(task.id)
        begin_afresh(task, at)
    for task in (state.step(one, "blocked") for one in event.reopened):
        reopen(task, at)
    known = state.removed | state.tasks
    state.tasks = {one: known.get(one) or TaskState(id=one) for one in event.tasks}
    state.removed = {one: task for one, task in known.items() if one not in state.tasks}
    state.plan_digest, state.assets = event.plan_digest, event.assets
    state.finished = state.finished and all(task.phase in TERMINAL for task in state.tasks.values())
    state.train.note_moved_tip()
    settle_phases(state, at)


def halt_gate(state: RunState, event: e.GateHalted) -> None:
    state.halted, state.halted_by_infrastructure = event.why, event.infrastructure
    state.halted_by_review = event.reviewed
