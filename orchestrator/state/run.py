"""
The state of a run: a fold over its events, and the only steps a task may take.

`State.apply` is the one writer. An event that does not fit the phase its task is in is an IllegalStep: it is refused
before it is journaled. What is derived (which tasks are ready, what is in flight) is computed, never kept.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.delegation import Word
from forgepool.orchestrator.journal.queue_rules import GateRules
from forgepool.orchestrator.plan.budget import Budget, Use
from forgepool.orchestrator.state.pending import Outstanding
from forgepool.orchestrator.state.post_merge import WaveState
from forgepool.orchestrator.state.post_merge_review import WaveReviewState
from forgepool.orchestrator.state.steps import delegation as through_steps
from forgepool.orchestrator.state.steps import gate as gate_steps
from forgepool.orchestrator.state.steps import orders as order_steps
from forgepool.orchestrator.state.steps import queue as gate_entries
from forgepool.orchestrator.state.steps import reviews as review_steps
from forgepool.orchestrator.state.steps import train as train_steps
from forgepool.orchestrator.state.task import DONE, IN_TRAIN, RETRIABLE, TERMINAL, IllegalStep, Phase, TaskState
from forgepool.orchestrator.state.train import TrainState


@dataclass(slots=True, kw_only=True)
class State:
    """A run: its tasks, its target's tip as last seen, and whether its gate is open."""

    tasks: dict[str, TaskState]
    removed: dict[str, TaskState] = field(default_factory=dict)
    """Tasks that another plan has left out: what they used counts, and so do their attempts if they come back."""
    run: str = ""
    hub: str = ""
    target: str = ""
    plan_digest: str = ""
    gate_file: bool = False
    """The target had a gate file when the run began."""
    tip: str = ""
    train: TrainState = field(default_factory=TrainState)
    wave: WaveState = field(default_factory=WaveState)
    wave_review: WaveReviewState = field(default_factory=WaveReviewState)
    budget: Budget | None = None
    """As a person has set it since; None is the plan's."""
    submitted: dict[str, e.EntrySubmitted] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    """Entries that have landed, and that somebody has taken out of the target since."""
    """Of a gate: its entries, as they were submitted last."""
    refused: dict[str, e.EntryRefused] = field(default_factory=dict)
    """Of a gate: what was submitted last under a name and not taken in."""
    out_of_turn: dict[tuple[str, int], e.EntryRefused] = field(default_factory=dict)
    """Of a gate: by name and number, givings that came out of turn, until they are answered."""
    held: set[str] = field(default_factory=set)
    """Of a gate: entries that a person keeps where they are."""
    paused: str = ""
    """Of a gate: why nothing is tested and nothing lands; empty where a person has not paused it."""
    rules: GateRules = field(default_factory=GateRules)
    """Of a gate, as a person has set them."""
    answered: dict[str, tuple[int, Word]] = field(default_factory=dict)
    """Of a gate: by entry, what the run that has given it was told of it last, with the number of the giving."""
    assets: str = ""
    """The commit of the files beside the plan that tasks are given; empty where there are none."""
    gate: str = ""
    """Of a run: the gate that keeps its target, where candidates are given to it; empty for a train of its own."""
    gate_away: str = ""
    """Of a run: one sentence, where that gate is not heard of any more."""
    halted: str = ""
    halted_by_infrastructure: bool = False
    halted_by_review: bool = False
    """Of a wave: a person's word opens the gate again."""
    finished: bool = False
    number: int = 0
    at: float = 0.0

    @classmethod
    def blank(cls, tasks: Iterable[str]) -> "State":
        return cls(tasks={one: TaskState(id=one) for one in tasks})

    def apply(self, event: e.Event, *, number: int, at: float) -> None:
        """
        Takes one event in.

        Raises:
            IllegalStep: it cannot happen now; the state is unchanged.
        """
        step = _STEPS.get(type(event))
        if step is None:
            _of_task(self, event, at)
        else:
            step(self, event, at)
        self._place_in_train(event)
        self.number, self.at = number, at

    def _place_in_train(self, event: e.Event) -> None:
        """Whoever goes on elsewhere stands in line no more, and who is back at the gate does."""
        about = event.result.about if isinstance(event, e.CheckAnswered) else ""
        for task in (self.tasks.get(one) for one in (getattr(event, "task", ""), about)):
            if task is None or (task.phase in IN_TRAIN) == (task.id in self.train.line.entries):
                continue
            if task.phase in IN_TRAIN:
                self.train.enter(task.id, task.queued_at)
            else:
                if isinstance(event, e.TaskReturned | e.TaskFailed):
                    self.train.note(returned=True)
                self.train.leave(task.id)
                self.held.discard(task.id)
                train_steps.settle_phases(self, self.at)

    def outstanding(self) -> dict[str, Outstanding]:
        """By message id, what somebody owes an answer to."""
        asked = (task for task in self.tasks.values() if task.message is not None or task.review.message is not None)
        owed = {one.message_id: one for task in asked for one in task.messages}
        of_waves = (one for one in (self.wave.message, self.wave_review.review.message) if one is not None)
        return owed | {one.message_id: one for one in (*self.train.messages(), *of_waves)}

    def holder(self, message: Outstanding) -> str:
        """`host/pid` of the worker that has it, once one is seen to."""
        if message.kind == "wave":
            return self.wave.holder
        if message.kind == "wave_review":
            return self.wave_review.review.holder
        if message.kind in ("check", "landing"):
            return self.train.holder(message)
        task = self.tasks[message.task]
        return task.review.holder if message.kind == "review" else task.holder

    def messages_about(self, event: e.Event) -> tuple[Outstanding, ...]:
        """What is owed of that of which the event tells, of which alone it can make answers needless."""
        task = self.tasks.get(getattr(event, "task", ""))
        if task is not None:
            return (*task.messages, *self.train.messages())
        if isinstance(event, e.CarDissolved | e.TipMoved):
            return self.train.messages()
        of_any = isinstance(event, e.MessageLost | e.WaveApproved | e.RunResumed | e.RunEnded)
        return tuple(self.outstanding().values()) if of_any else ()

    def uses(self) -> Iterator[Use]:
        """What everything that models do in this run was promised, and has used."""
        for task in (*self.tasks.values(), *self.removed.values()):
            yield from task.uses.values()
            yield from task.review.uses.values()
        yield from self.wave_review.review.uses.values()

    def in_phase(self, *phases: Phase) -> list[TaskState]:
        return [task for task in self.tasks.values() if task.phase in phases]

    def done(self) -> frozenset[str]:
        """Name the tasks that satisfy what needs them."""
        return frozenset(task.id for task in self.tasks.values() if task.phase in DONE)

    def task_of(self, message_id: str) -> TaskState | None:
        """The task whose answer is awaited under this message id."""
        owed = ((task, one) for task in self.tasks.values() for one in task.messages)
        return next((task for task, one in owed if one.message_id == message_id), None)

    def step(self, task_id: str, *allowed: Phase) -> TaskState:
        task = self.tasks.get(task_id)
        if task is None:
            raise IllegalStep(f"there is no task '{task_id}'")
        if task.phase not in allowed:
            raise IllegalStep(f"task '{task_id}' is {task.phase}, not {' or '.join(allowed)}")
        return task


# A step takes exactly the event it stands beside; a mapping of steps cannot say so for each of them.
TaskStep = Callable[[TaskState, Any, float], None]

_GOING_ON: tuple[Phase, ...] = tuple(
    phase for phase in get_args(Phase) if phase not in TERMINAL or phase == "needs_human"
)
_MAY_BE_APPROVED: tuple[Phase, ...] = (
    *("candidate", "queued", "testing", "reviewing", "reviewed"),
    *("pending", "failed", "needs_human"),
)
_MAY_BE_REPLACED: tuple[Phase, ...] = tuple(
    phase for phase in get_args(Phase) if phase not in ("landed", "landing", "given")
)
_MAY_BE_GIVEN_BACK: tuple[Phase, ...] = ("answered", "candidate", "queued", "testing", "reviewing", "reviewed", "given")
_TASK_STEPS: dict[type, tuple[TaskStep, tuple[Phase, ...]]] = {
    e.OrderSent: (order_steps.sent, ("pending",)),
    e.OrderAnswered: (order_steps.answered, ("running", "pending")),
    e.ProfileChosen: (order_steps.profile_chosen, _GOING_ON),
    e.ContextRebuilt: (order_steps.context_rebuilt, ("running",)),
    e.PathsAsked: (order_steps.paths_asked, ("running",)),
    e.PathsGranted: (order_steps.paths_granted, ("running",)),
    e.PathsQueued: (order_steps.paths_queued, ("running",)),
    e.PathsRefused: (order_steps.paths_refused, ("running",)),
    e.LockExtended: (gate_steps.lock_extended, ("candidate",)),
    e.EntryQueued: (gate_steps.queued, ("candidate",)),
    e.ReviewSent: (review_steps.sent, ("queued", "testing", "reviewing")),
    e.ReviewAnswered: (review_steps.answered, ("queued", "testing", "reviewing")),
    e.TaskReturned: (order_steps.returned, _MAY_BE_GIVEN_BACK),
    e.TaskFailed: (order_steps.failed, _MAY_BE_GIVEN_BACK),
    e.TaskUnchanged: (order_steps.unchanged, ("answered",)),
    e.TaskAlreadyThere: (order_steps.already_there, ("pending",)),
    e.TaskBlocked: (order_steps.blocked, ("pending", "queued", "testing")),
    e.TaskParked: (order_steps.parked, ("pending", "queued", "testing", "answered", "reviewing", "reviewed")),
    e.TaskCancelled: (
        order_steps.cancelled,
        (
            *("pending", "running", "answered", "candidate", "queued", "testing", "reviewing", "reviewed", "given"),
            "needs_human",
        ),
    ),
    e.TaskApproved: (review_steps.approved, _MAY_BE_APPROVED),
    e.TaskRejected: (review_steps.rejected, _MAY_BE_APPROVED),
    e.CandidateRestored: (review_steps.restored, ("pending",)),
    e.TaskRetried: (order_steps.retried, RETRIABLE),
    e.TaskReplied: (order_steps.replied, ("needs_human",)),
    e.EntryGiven: (through_steps.given, ("queued", "testing", "reviewing")),
    e.EntryRecalled: (through_steps.recalled, ("given",)),
}
"""By event, what it does to its task, and the phases that task may be in."""


def _of_task(state: State, event: Any, at: float) -> None:
    step, allowed = _TASK_STEPS[type(event)]
    step(state.step(event.task, *allowed), event, at)


def _run_started(state: State, event: e.RunStarted, at: float) -> None:
    if state.run:
        raise IllegalStep(f"run {state.run} has started already")
    state.run, state.hub, state.target = event.run, event.hub, event.target
    state.tip, state.plan_digest, state.gate_file = event.tip, event.plan_digest, event.gate_file
    state.gate, state.assets = event.gate, event.assets
    state.wave.since = state.wave_review.anchor = event.tip
    state.wave.base_first = event.base_first


def _run_resumed(state: State, event: e.RunResumed, at: float) -> None:
    if not state.run:
        raise IllegalStep("a run that never began cannot go on")
    moved = event.tip != state.tip
    if moved:
        state.train.moved()
        train_steps.settle_phases(state, at)
    state.tip, state.halted, state.finished = event.tip, "", False
    state.gate, state.gate_away = state.gate if event.gate is None else event.gate, ""
    state.halted_by_infrastructure = state.halted_by_review = False
    state.wave_review.resumed()
    state.train.reopen()
    state.wave.resumed(moved=moved)


def _run_ended(state: State, event: e.RunEnded, at: float) -> None:
    if any(task.phase not in TERMINAL for task in state.tasks.values()):
        raise IllegalStep("a run does not end while a task may still go on")
    if state.wave.message is not None and state.wave.tasks:
        raise IllegalStep("a run does not end while its target is checked")
    if state.wave_review.review.message is not None:
        raise IllegalStep("a run does not end while what has landed is reviewed")
    state.wave.message, state.finished = None, True


def _budget_set(state: State, event: e.BudgetSet, at: float) -> None:
    state.budget = event.budget


def _plan_revised(state: State, event: e.PlanRevised, at: float) -> None:
    """Take another plan. Tests at the gate were run by the old plan's checks, and are run again."""
    for task in (state.step(one, *_MAY_BE_REPLACED) for one in (*event.removed, *event.afresh)):
        if task.landing_in_doubt:
            raise IllegalStep(f"'{task.id}' may have landed, and is not replaced")
        state.train.leave(task.id)
        state.held.discard(task.id)
        order_steps.begin_afresh(task, at)
    for task in (state.step(one, "blocked") for one in event.reopened):
        order_steps.reopen(task, at)
    known = state.removed | state.tasks
    state.tasks = {one: known.get(one) or TaskState(id=one) for one in event.tasks}
    state.removed = {one: task for one, task in known.items() if one not in state.tasks}
    state.plan_digest, state.assets = event.plan_digest, event.assets
    state.finished = state.finished and all(task.phase in TERMINAL for task in state.tasks.values())
    state.train.moved()
    train_steps.settle_phases(state, at)


def _order_sent(state: State, event: e.OrderSent, at: float) -> None:
    _of_task(state, event, at)
    if event.resumes is None:
        state.tasks[event.task].based_at = state.number + 1
    for passed in event.overtook:
        state.tasks[passed].overtaken += 1


def _entry_queued(state: State, event: e.EntryQueued, at: float) -> None:
    _of_task(state, event, at)
    task = state.tasks[event.task]
    task.queued_at = task.queued_at or state.number + 1


def _review_awaited(state: State, event: e.ReviewAwaited, at: float) -> None:
    review_steps.awaited(state.step(event.task, "queued", "testing"), event, at)
    state.train.uncouple(event.task)
    train_steps.settle_phases(state, at)


def _reopened(state: State, event: e.TaskRetried | e.TaskReplied | e.TaskApproved | e.TaskRejected, at: float) -> None:
    _of_task(state, event, at)
    state.finished = state.finished and state.tasks[event.task].phase in TERMINAL


def _message_taken(state: State, event: e.MessageTaken, at: float) -> None:
    message, holder = _owed(state, event.message_id), f"{event.host}/{event.pid}"
    if message.kind == "wave":
        state.wave.holder = holder
    elif message.kind == "wave_review":
        state.wave_review.review.holder = holder
    elif message.kind in ("check", "landing"):
        state.train.taken(message, holder)
    elif message.kind == "review":
        state.tasks[message.task].review.holder = holder
    else:
        state.tasks[message.task].holder = holder


def _message_lost(state: State, event: e.MessageLost, at: float) -> None:
    message = _owed(state, event.message_id)
    if message.kind == "wave":
        state.wave.lost(event, at)
    elif message.kind == "wave_review":
        state.wave_review.lost(event, at)
    elif message.kind == "review":
        review_steps.lost(state.tasks[message.task], event, at)
    elif message.kind == "check":
        train_steps.check_lost(state, event, at)
    elif message.kind == "landing":
        train_steps.landing_lost(state, event, at)
    else:
        order_steps.lost(state.tasks[message.task], event, at)


def _owed(state: State, message_id: str) -> Outstanding:
    message = state.outstanding().get(message_id)
    if message is None:
        raise IllegalStep(f"no answer is owed to {message_id}")
    return message


def _wave_sent(state: State, event: e.WaveSent, at: float) -> None:
    state.wave.sent(event, state.number + 1)


def _wave_answered(state: State, event: e.WaveAnswered, at: float) -> None:
    state.wave.answered(event, at)


def _wave_review_sent(state: State, event: e.WaveReviewSent, at: float) -> None:
    if event.tip != state.tip or event.tip != state.wave.since:
        raise IllegalStep(f"{event.tip[:12]} is not reviewed as a whole before all checks are green on it")
    state.wave_review.sent(event, state.number + 1)


def _wave_review_answered(state: State, event: e.WaveReviewAnswered, at: float) -> None:
    state.wave_review.answered(event, at)


def _wave_approved(state: State, event: e.WaveApproved, at: float) -> None:
    if event.tip != state.tip:
        raise IllegalStep(f"the target is at {state.tip[:12]}, not at {event.tip[:12]} as {event.by} has seen it")
    state.wave_review.approved(event, state.number + 1)
    if state.halted_by_review:
        state.halted, state.halted_by_review = "", False


def _gate_halted(state: State, event: e.GateHalted, at: float) -> None:
    state.halted, state.halted_by_infrastructure = event.why, event.infrastructure
    state.halted_by_review = event.reviewed


def _noted(state: State, event: e.Event, at: float) -> None:
    """Changes nothing that is folded."""


_STEPS: dict[type, Callable[..., None]] = {
    e.RunStarted: _run_started,
    e.RunResumed: _run_resumed,
    e.RunPaused: _noted,
    e.RunEnded: _run_ended,
    e.BudgetSet: _budget_set,
    e.PlanRevised: _plan_revised,
    e.OrderSent: _order_sent,
    e.EntryQueued: _entry_queued,
    e.EntrySubmitted: gate_entries.submitted,
    e.EntryRefused: gate_entries.refused,
    e.EntryAnswered: gate_entries.answered,
    e.EntryTold: through_steps.told,
    e.GateNoticed: through_steps.noticed,
    e.EntryHeld: gate_entries.held,
    e.EntryReclassed: gate_entries.reclassed,
    e.GatePaused: gate_entries.paused,
    e.GateResumed: gate_entries.resumed,
    e.GateRuled: gate_entries.ruled,
    e.GateFrozen: _noted,
    e.GateThawed: _noted,
    e.TipMoved: gate_entries.tip_moved,
    e.CheckSent: train_steps.check_sent,
    e.CheckAnswered: train_steps.check_answered,
    e.CheckDoubted: train_steps.check_doubted,
    e.CheckCancelled: train_steps.check_cancelled,
    e.CarDissolved: train_steps.car_dissolved,
    e.ReviewAwaited: _review_awaited,
    e.LandingIntended: train_steps.landing_intended,
    e.LandingAnswered: train_steps.landing_answered,
    e.TaskRetried: _reopened,
    e.TaskReplied: _reopened,
    e.TaskApproved: _reopened,
    e.TaskRejected: _reopened,
    e.WaveSent: _wave_sent,
    e.WaveAnswered: _wave_answered,
    e.WaveReviewSent: _wave_review_sent,
    e.WaveReviewAnswered: _wave_review_answered,
    e.WaveApproved: _wave_approved,
    e.MessageTaken: _message_taken,
    e.MessageLost: _message_lost,
    e.GateHalted: _gate_halted,
    e.WorkersMissing: _noted,
    e.PartRestarted: _noted,
}
"""What concerns more than one task, or the run itself; all other events are in `_TASK_STEPS`."""
