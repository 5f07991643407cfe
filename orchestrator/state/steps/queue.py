"""What the events of a gate do to its state: who is submitted, held, reclassed; pauses; a target that others move."""

from typing import TypeVar

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.train import settle_phases
from forgepool.orchestrator.state.task import IN_TRAIN, TERMINAL, IllegalStep, TaskState
from forgepool.workers.schema.orders import WorkResult

Key = TypeVar("Key")
_MOST_REFUSED = 200


def submit_entry(state: RunState, event: e.EntrySubmitted, at: float) -> None:
    """Another commit under the name of one that has not landed takes its place, with a new word on everything."""
    task = state.tasks.get(event.task)
    if task is None:
        task = state.tasks[event.task] = TaskState(id=event.task)
    if task.phase in ("landed", "landing") or task.landing_in_doubt:
        raise IllegalStep(f"'{event.task}' is {task.phase}; what is submitted under its name needs another")
    if event.revision != task.attempt + 1:
        raise IllegalStep(f"revision {event.revision} of '{event.task}' does not follow {task.attempt}")
    if task.id in state.train.line.entries:
        state.train.leave(task.id)
        settle_phases(state, at)
    task.review.forget_candidate()
    task.attempt, task.verdict, task.certificates, task.detail = event.revision, None, (), ""
    task.troubles, task.not_before, task.ended, task.reviewed = 0, 0.0, 0.0, False
    task.result = WorkResult(
        order_id=f"{state.run}.{event.task}.{event.revision}",
        token="",
        outcome="candidate",
        commit=event.commit,
        paths=event.paths,
        planned=event.card.planned if event.card is not None else (),
        claimed_summary=event.card.claims if event.card is not None else "",
    )
    task.queued_at = task.queued_at or state.number + 1
    task.first_started = task.first_started or at
    state.submitted[event.task] = event
    state.refused.pop(event.task, None)
    if event.card is not None:
        state.out_of_turn.pop((event.task, event.card.asks.number), None)
    task.enter("queued", at)


def refuse_entry(state: RunState, event: e.EntryRefused) -> None:
    """Kept for whoever asks: of the latest only, for anybody may push anything."""
    if event.out_of_turn and event.asks is not None:
        _keep(state.out_of_turn, (event.name, event.asks.number), event)
    else:
        _keep(state.refused, event.name, event)


def _keep(kept: dict[Key, e.EntryRefused], key: Key, event: e.EntryRefused) -> None:
    kept.pop(key, None)
    kept[key] = event
    while len(kept) > _MOST_REFUSED:
        del kept[next(iter(kept))]


def answer_entry(state: RunState, event: e.EntryAnswered) -> None:
    """An answer to what came out of turn says nothing of the others."""
    if state.out_of_turn.pop((event.name, event.number), None) is None:
        state.answered[event.name] = (event.number, event.word)


def hold_entry(state: RunState, event: e.EntryHeld) -> None:
    task = state.step(event.task, *IN_TRAIN)
    if event.held:
        state.held.add(task.id)
    else:
        state.held.discard(task.id)
        state.train.let_go(task.id)


def reclass_entry(state: RunState, event: e.EntryReclassed) -> None:
    state.step(event.task, *IN_TRAIN)
    state.submitted[event.task] = state.submitted[event.task].model_copy(update={"klass": event.klass})


def pause_queue(state: RunState, event: e.GatePaused) -> None:
    state.paused = event.why or f"paused{f' by {event.by}' if event.by else ''}"


def resume_queue(state: RunState) -> None:
    state.paused, state.halted, state.halted_by_infrastructure = "", "", False
    state.train.reopen()


def move_tip(state: RunState, event: e.TipMoved, at: float) -> None:
    """Whatever had shut the gate may be mended by it; who was refused for it is asked for again."""
    if state.train.landing is not None:
        raise IllegalStep("a landing is under way, whose answer tells where the target is")
    state.tip, state.halted = event.tip, ""
    state.lost = frozenset(event.lost)
    state.train.reopen()
    state.train.note_moved_tip()
    settle_phases(state, at)


def find_withdrawn_need(state: RunState, needs: tuple[str, ...]) -> str | None:
    """Of these needs, one that will not land by itself or by a person's word; None where there is none."""
    ended = (one for one in needs if (task := state.tasks.get(one)) is not None and task.phase in TERMINAL)
    return next((one for one in ended if state.tasks[one].phase not in ("landed", "needs_human")), None)
