"""
What the hub knows and the journal does not: answers that were lost on their way, landings nobody reported.

The hub is asked, never Redis: a result that was published is adopted, a marker that exists means landed.
"""

from collections.abc import Callable, Sequence

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckSent,
    Event,
    LandingAnswered,
    OrderAnswered,
    OrderSent,
    TaskFailed,
    TaskParked,
    TaskReturned,
)
from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.supervisor.messages import Landing
from forgepool.workers.context.transcript.entries import Entry, TranscriptWrong, TurnSaid, parse_transcript
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.schema.orders import BuiltinAgent, Limits, Spent
from forgepool.workers.workspace.checkpoints import read_progress
from forgepool.workers.workspace.refs import marker_ref, read_result, result_ref, run_refs
from forgepool.workers.workspace.resume import sum_carried_in
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.target import is_contained

_GIVING_UP = (TaskFailed, TaskReturned, TaskParked, OrderSent)
_MAY_HAVE_LANDED = ("queued", "testing", "reviewing", "reviewed", "landing")


def recover_events(state: RunState, mirror: Mirror) -> list[Event]:
    """
    What the hub's refs say of tasks whose answers are missing. Raises GitFailed when the hub cannot be asked.
    """
    refs = mirror.hub_refs(run_refs(state.run))
    landing = state.train.landing
    together = landing.intent.entries[:-1] if landing is not None else ()
    events: list[Event] = []
    for task in state.tasks.values():
        if task.id in together:
            # They land with the last of them, or not at all.
            continue
        marker = refs.get(marker_ref(state.run, task.id))
        if task.phase in _MAY_HAVE_LANDED and (marker is not None or task.intended):
            events += recover_landing(state, mirror, task)
        elif task.phase == "running" and result_ref(state.run, task.id, task.attempt) in refs:
            events += recover_result(state, mirror, task)
    return events


def recover_result(state: RunState, mirror: Mirror, task: TaskState) -> list[Event]:
    """The result of the attempt under way, where the hub has it."""
    result = read_result(mirror, state.run, task.id, task.attempt)
    if result is None or task.message is None:
        return []
    mine = result.model_copy(update={"token": task.message.token})
    return [OrderAnswered(task=task.id, result=mine)]


def find_seen_use(course: PlanIndex, state: RunState, mirror: Mirror, task: TaskState) -> SeenUse | None:
    """
    What the hub knows of the use of the attempt under way; None for agents of which it is given no transcript, and
    where that cannot be read. Raises GitFailed when the hub cannot be asked.
    """
    if not isinstance(course.tasks[task.id].agent, BuiltinAgent):
        return None
    found = read_progress(mirror, state.run, task.id, task.attempt)
    if found is None:
        return SeenUse()
    try:
        return sum_seen_use(parse_transcript(found.transcript, "progress"), attempt=task.attempt)
    except TranscriptWrong:
        return None


def sum_seen_use(entries: Sequence[Entry], *, attempt: int) -> SeenUse:
    return SeenUse(
        used=_used(entries),
        carried=sum_carried_in(entries, attempt=attempt),
        largest_turn=_largest_turn(entries),
    )


def recover_landing(state: RunState, mirror: Mirror, task: TaskState) -> list[Event]:
    """
    That a landing under way or in doubt has happened, where the hub says so: by the marker, or by the target's history.

    A hub that is killed within a push leaves the one without the other: git moves several refs one after another.
    """
    marker = marker_ref(state.run, task.id)
    commit = mirror.hub_refs(marker).get(marker)
    if commit is None or not is_contained(mirror, state.target, commit):
        commit = next((one for one in map(CommitId, task.intended) if is_contained(mirror, state.target, one)), None)
    return [] if commit is None else [_has_landed(state, task, commit)]


def unless_landed(state: RunState, mirror: Mirror, events: Sequence[Event]) -> list[Event]:
    """
    The same events, but for a task that is given up, begun anew or checked again, whose landing is in doubt and has
    happened: that it has landed.

    A lander thought dead may have been slow. Raises GitFailed when the hub cannot be asked: without its answer the
    task may not be given up, nor done twice.
    """
    return settle_events(state, events, lambda task: recover_landing(state, mirror, task))


def settle_events(state: RunState, events: Sequence[Event], ask: Callable[[TaskState], list[Event]]) -> list[Event]:
    """The same events, or, where `ask` shows that tasks they concern have landed, that alone: more may follow."""
    doubtful = dict.fromkeys(one for event in events for one in _concerned(event))
    found = [each for task in (state.tasks[one] for one in doubtful) if task.landing_in_doubt for each in ask(task)]
    return found or list(events)


def _concerned(event: Event) -> tuple[str, ...]:
    if isinstance(event, _GIVING_UP):
        return (event.task,)
    return event.car or (event.task,) if isinstance(event, CheckSent) else ()


def _has_landed(state: RunState, task: TaskState, commit: CommitId) -> Event:
    landing = state.train.landing
    message = landing.message if landing is not None and task.id in landing.intent.entries else None
    # They land with the last of them; whatever else has landed has done so alone.
    together = landing.intent.entries if landing is not None and landing.intent.commit == commit else ()
    return LandingAnswered(
        task=task.id,
        entries=together if len(together) > 1 else (),
        result=Landing(
            request_id=message.message_id if message else "",
            token=message.token if message else "",
            outcome="landed",
            commit=commit,
            detail="found landed in the hub",
        ),
    )


def _used(entries: Sequence[Entry]) -> Spent:
    return Meter.of(Limits(), entries).spent


def _largest_turn(entries: Sequence[Entry]) -> Spent:
    """Of each kind the most that a turn used; a cost that is not known leaves what those with a price say."""
    turns = [_used([entry]) for entry in entries if isinstance(entry, TurnSaid) and entry.turn.role == "assistant"]
    return Spent(
        input_tokens=max((one.input_tokens for one in turns), default=0),
        output_tokens=max((one.output_tokens for one in turns), default=0),
        cost_usd=max((one.cost_usd or 0.0 for one in turns), default=0.0),
    )
