"""
The state of a run or a queue, as `fold.apply` computes it from events.

Derived facts (which tasks are ready, what is in flight) are no part of an event. They are computed on request, or kept
up with the tasks (`Phases`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import takewhile

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.queue_events import Word
from forgepool.orchestrator.journal.queue_rules import GateRules
from forgepool.orchestrator.plan.budget import Budget, Use
from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.state.hosts import HostHealth
from forgepool.orchestrator.state.phases import Phases
from forgepool.orchestrator.state.post_merge import WaveReviewState, WaveState
from forgepool.orchestrator.state.review import Outstanding, ReviewState
from forgepool.orchestrator.state.streaks import Asked, TroubleStreak
from forgepool.orchestrator.state.task import MAY_BE_REVIEWED, TERMINAL, IllegalStep, Phase, TaskState
from forgepool.orchestrator.state.train import TrainState
from forgepool.workers.schema.reports import LeadNote, LeadReply, LeadRequest

REOPENED = "it had ended"
"""In place of the reason of a stop: the run had come to its end, and a person has given it more to do since."""


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task that waits for another run's paths, or has done so since it last started."""

    run: str
    """Empty while no run holds its paths."""
    path: str
    since: float
    """When it began to wait, in Unix seconds."""


@dataclass(slots=True, kw_only=True)
class LeadState:
    """The task that leads a run, beside its phase."""

    request: LeadRequest | None = None
    """The request by which its conversation rests."""
    reply: LeadReply | None = None
    """The last reply."""
    collected: dict[str, str] = field(default_factory=dict)
    """By task whose result it has, the phase in which that had ended."""
    notes: tuple[LeadNote, ...] = ()
    words: tuple[e.LeadSpoken, ...] = ()
    """Words of people to it."""
    heard: int = 0
    """How many of these it has been told."""
    reviewed: str = ""
    """The task for whose synthesis a review was asked."""
    reviewed_text: str = ""
    """The digest of its text as it was proven then."""

    def take_reply(self, event: e.LeadReplied) -> None:
        self.request, self.reply, self.heard = None, event.reply, event.heard
        self.collected = self.collected | {result.task: result.ended for result in event.reply.results}


@dataclass(slots=True, kw_only=True)
class RunState:
    """A run: its tasks, its target's tip as last seen, and whether its gate is open."""

    tasks: dict[str, TaskState]
    removed: dict[str, TaskState] = field(default_factory=dict)
    """Tasks that another plan has left out: what they used counts, and so do their attempts if they come back."""
    added: tuple[Task, ...] = ()
    """Tasks of the run that its plan's file does not name, in the order in which they were added."""
    dropped: tuple[str, ...] = ()
    """Tasks of the plan's file or added ones that were dropped before they began."""
    models: dict[str, str] = field(default_factory=dict)
    """By task, the model that a person has chosen for its next attempts, in place of the plan's."""
    rungs: dict[str, int] = field(default_factory=dict)
    """By task, the place, from 1, of its model in its ladder, once it has had more than one attempt."""
    additions: dict[str, int] = field(default_factory=dict)
    """By the key of each addition, how many tasks it added."""
    lead: LeadState = field(default_factory=LeadState)
    survey: e.SurveyFound | None = None
    """An earlier run's survey, which this run's survey corrects."""
    run: str = ""
    hub: str = ""
    target: str = ""
    plan_digest: str = ""
    gate_file: bool = False
    """The target had a gate file when the run began."""
    tip: str = ""
    forecast: e.RunForecast | None = None
    began_on: str = ""
    """The tip when the run began."""
    train: TrainState = field(default_factory=TrainState)
    wave: WaveState = field(default_factory=WaveState)
    wave_review: WaveReviewState = field(default_factory=WaveReviewState)
    budget: Budget | None = None
    """The budget a person has set since; None is the plan's."""
    treasury: dict[str, e.TreasuryLimited] = field(default_factory=dict)
    """By limit and period, what was told last of a limit that all runs share."""
    submitted: dict[str, e.EntrySubmitted] = field(default_factory=dict)
    """In a queue: its entries, as they were submitted last."""
    lost: frozenset[str] = frozenset()
    """Landed entries that were taken out of the target later."""
    refused: dict[str, e.EntryRefused] = field(default_factory=dict)
    """In a queue: the last submission under a name, where it was not taken in."""
    out_of_turn: dict[tuple[str, int], e.EntryRefused] = field(default_factory=dict)
    """In a queue: by name and number, delegations that came out of turn, until they are answered."""
    held: set[str] = field(default_factory=set)
    """In a queue: entries that a person holds where they are."""
    paused: str = ""
    """In a queue: why nothing is tested and nothing lands; empty where a person has not paused it."""
    rules: GateRules = field(default_factory=GateRules)
    """In a queue: the rules a person has set."""
    answered: dict[str, tuple[int, Word]] = field(default_factory=dict)
    """In a queue: by entry, the last answer to the run that delegated it, with the number of the delegation."""
    assets: str = ""
    """The commit of the files beside the plan that tasks are given; empty where there are none."""
    gate: str = ""
    """In a run: the queue that serves its target and takes its candidates; empty for a train of its own."""
    gate_away: str = ""
    """In a run: one sentence, while that queue is silent."""
    halted: str = ""
    halt_words: str = ""
    """The same as a whole sentence, with what follows from it. It counts while `halted` is not empty."""
    halted_by_infrastructure: bool = False
    halted_by_review: bool = False
    """The integration review halted it; a person's approval reopens the gate."""
    streaks: dict[Asked, TroubleStreak] = field(default_factory=dict)
    """By kind of message, the infrastructure mistake that its last answers told of."""
    hosts: dict[str, HostHealth] = field(default_factory=dict)
    """By name, the hosts that have answered."""
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By task that no present host can do, what is missing; the first task alone of those that lack the same."""
    lacking_since: float = 0.0
    shut_models: dict[str, float] = field(default_factory=dict)
    """By task none of whose models may be asked, until when; the first task alone of those that ask the same."""
    elsewhere: dict[str, HeldTask] = field(default_factory=dict)
    """By waiting task, the other run that has its paths in flight, or has had them."""
    finished: bool = False
    stopped: str | None = None
    """
    The reason of its last stop, empty where an event before it tells it, or REOPENED. None where no process has stopped
    since it last went on: it is under way, or its process died.
    """
    number: int = 0
    at: float = 0.0
    phases: Phases = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.phases = Phases(self.tasks.values())

    @classmethod
    def blank(cls, tasks: Iterable[str]) -> "RunState":
        return cls(tasks={one: TaskState(id=one) for one in tasks})

    def add_task(self, task_id: str) -> TaskState:
        """Add a task; one that was removed goes on with the attempts that it had."""
        task = self.removed.pop(task_id) if task_id in self.removed else TaskState(id=task_id)
        self.tasks[task_id] = task
        self.phases.add(task)
        return task

    def climb(self, task: str, rung: int) -> None:
        """Note the place of the task's next model in its ladder; 0 leaves it."""
        if rung:
            self.rungs = self.rungs | {task: rung}

    def take_survey(self, task: TaskState, event: e.SurveyFound, at: float) -> None:
        """Take an earlier run's survey: as this run's, or as what this run's corrects."""
        if not event.stands:
            self.survey = event
            return
        task.base, task.report, task.detail = event.commit, event.report, f"kept from run {event.by_run}"
        task.enter("reported", at)

    def reply_to_lead(self, task: TaskState, event: e.LeadReplied, at: float) -> None:
        if self.lead.request is None or self.lead.request.number != event.reply.number:
            raise IllegalStep(f"'{task.id}' waits for no reply {event.reply.number}")
        self.lead.take_reply(event)
        task.enter("pending", at)

    def halt(self, event: e.GateHalted) -> None:
        self.halted, self.halted_by_infrastructure = event.why, event.infrastructure
        self.halt_words = f"{event.effect}: {event.why}"
        self.halted_by_review = event.reviewed
        if event.streak:
            self.streaks[event.streak].stopped = event.why

    def add_tasks(self, event: e.TasksAdded) -> None:
        """Take the step of the event. Raises IllegalStep."""
        if event.request in self.additions:
            raise IllegalStep(f"the tasks of request {event.request} were added already")
        if there := [task.id for task in event.tasks if task.id in self.tasks]:
            raise IllegalStep(f"there is a task '{there[0]}' already")
        ids = {self.add_task(task.id).id for task in event.tasks}
        self.added = (*self.added, *event.tasks)
        self.dropped = tuple(one for one in self.dropped if one not in ids)
        if event.request:
            self.additions[event.request] = len(ids)
        if self.finished and not self.all_ended:
            self.note_reopening()

    def end(self) -> None:
        """Take the step of a run's last event. Raises IllegalStep."""
        if not self.all_ended:
            raise IllegalStep("a run does not end while a task may still go on")
        if self.wave.message is not None and self.wave.tasks:
            raise IllegalStep("a run does not end while its target is checked")
        if self.wave_review.review.message is not None:
            raise IllegalStep("a run does not end while what has landed is reviewed")
        if any(review.message is not None for review in self.reviews()):
            raise IllegalStep("a run does not end while its lead's synthesis is reviewed")
        self.wave.message, self.finished, self.stopped = None, True, ""

    def note_reopening(self) -> None:
        """Note that there is more to do in a run that had ended; one without a process needs to be resumed."""
        self.finished = False
        if self.stopped is not None:
            self.stopped = REOPENED

    def drop_tasks(self, event: e.TasksDropped) -> None:
        """Take the step of the event. Raises IllegalStep."""
        for task in (self.step(one, "pending") for one in event.tasks):
            if task.attempt:
                raise IllegalStep(f"'{task.id}' has begun, and is not dropped")
        self.removed |= {one: self.tasks[one] for one in event.tasks}
        self.replace_tasks({one: task for one, task in self.tasks.items() if one not in event.tasks})
        self.added = tuple(task for task in self.added if task.id not in event.tasks)
        self.dropped = (*self.dropped, *event.tasks)
        self.lacking = {one: lack for one, lack in self.lacking.items() if one not in event.tasks}
        self.elsewhere = {one: held for one, held in self.elsewhere.items() if one not in event.tasks}

    def replace_tasks(self, tasks: dict[str, TaskState]) -> None:
        self.tasks, self.phases = tasks, Phases(tasks.values())

    def outstanding(self) -> dict[str, Outstanding]:
        """Return, by message id, the messages whose answers are due."""
        asked = (review.message for review in self.reviews())
        orders = (task.message for task in self.phases.each("running"))
        owed = {one.message_id: one for one in (*orders, *asked) if one is not None}
        of_waves = (one for one in (self.wave.message, self.wave_review.review.message) if one is not None)
        return owed | {one.message_id: one for one in (*self.train.messages(), *of_waves)}

    def reviews(self) -> Iterator[ReviewState]:
        """Yield the reviews that may be under way: of tasks at the gate, and of a lead's synthesis."""
        yield from (task.review for task in self.phases.each(*MAY_BE_REVIEWED))
        lead = self.tasks.get(self.lead.reviewed)
        if lead is not None and lead.phase == "reported":
            yield lead.review

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
        """Return the messages about the event's subject; only their answers can become needless by it."""
        task = self.tasks.get(getattr(event, "task", ""))
        if task is not None:
            return (*task.messages, *self.train.messages())
        if isinstance(event, e.CarDissolved | e.TipMoved):
            return self.train.messages()
        of_any = isinstance(event, e.MessageLost | e.WaveApproved | e.RunResumed | e.RunEnded)
        return tuple(self.outstanding().values()) if of_any else ()

    def uses(self) -> Iterator[Use]:
        """Yield the reservation and the use of all work that models do in this run."""
        for task in (*self.tasks.values(), *self.removed.values()):
            yield from task.uses.values()
            yield from task.review.uses.values()
        yield from self.wave_review.review.uses.values()

    def in_phase(self, *phases: Phase) -> list[TaskState]:
        """Return the tasks in these phases, in the plan's order."""
        return self.phases.in_order(self.phases.each(*phases))

    def count(self, *phases: Phase) -> int:
        return self.phases.count(phases)

    @property
    def all_ended(self) -> bool:
        return self.count(*TERMINAL) == len(self.tasks)

    def find_done(self) -> Set[str]:
        """Name the tasks that satisfy what needs them. The set changes with the next event."""
        return self.phases.done

    def find_landed(self, *, after: int) -> list[TaskState]:
        """Return the tasks that have landed after the event of that number, the first to land first."""
        # A task lands once: the last to enter the phase has landed last.
        landed = list(takewhile(lambda task: task.landed_at > after, self.phases.latest("landed")))
        return sorted(self.phases.in_order(landed), key=lambda task: task.landed_at)

    def task_of(self, order_id: str) -> TaskState | None:
        """The task whose attempt under way is this order."""
        owed = (task for task in self.phases.each("running") if task.message is not None)
        return next((task for task in owed if task.message and task.message.message_id == order_id), None)

    def note_held(self, tasks: Mapping[str, tuple[str, str]], at: float) -> None:
        """Take in which tasks wait for other runs; one that had to wait before has waited since then."""
        known = {task: replace(held, run="", path="") for task, held in self.elsewhere.items()}
        new = {task: HeldTask(*by, known[task].since if task in known else at) for task, by in tasks.items()}
        self.elsewhere = known | new

    def note_treasury(self, event: e.TreasuryLimited) -> None:
        self.treasury = self.treasury | {event.limit: event}

    def forget_treasury_waits(self, accounts: Iterable[str]) -> None:
        """Note that something paid was sent: neither the limits of its accounts nor those of the run hold it back."""
        sent = tuple(f"account {one} " for one in accounts)
        self.treasury = {
            name: one
            for name, one in self.treasury.items()
            if one.effect != "waits" or (name.startswith("account ") and not name.startswith(sent))
        }

    @property
    def treasury_words(self) -> str:
        """Return the sentence on a limit that holds reviews back; empty where none does."""
        return next((one.words for one in self.treasury.values() if one.effect == "waits" and not one.task), "")

    def note_trouble(self, kind: Asked, tasks: Iterable[str], detail: str, at: float, *, asked_at: float) -> None:
        self.streaks.setdefault(kind, TroubleStreak()).note(tasks, detail, at, asked_at=asked_at)

    def note_host(self, host: str, *, failed: bool, detail: str, at: float) -> None:
        """Take in that a host has answered, and whether infrastructure failed it."""
        if host:
            self.hosts.setdefault(host, HostHealth()).note(failed, detail, at)

    def end_streak(self, kind: Asked) -> None:
        """Infrastructure works again, or a person says that it does: what had stopped for it goes on."""
        streak = self.streaks.pop(kind, None)
        if streak is not None and streak.stopped and streak.stopped == self.halted:
            self.halted, self.halted_by_infrastructure = "", False

    def step(self, task_id: str, *allowed: Phase) -> TaskState:
        task = self.tasks.get(task_id)
        if task is None:
            raise IllegalStep(f"there is no task '{task_id}'")
        if task.phase not in allowed:
            raise IllegalStep(f"task '{task_id}' is {task.phase}, not {' or '.join(allowed)}")
        return task


_WORD = re.compile(r"(?<![\w./-])[\w-]{1,100}(?![\w/-]|\.\w)", re.ASCII)
"""A word that may be an entry's name; what stands within a path or a ref is none."""


def branch_of(state: RunState, entry: str) -> str:
    known = state.submitted.get(entry) or state.refused.get(entry)
    return known.branch if known is not None and known.branch else entry


def with_branches(state: RunState, text: str) -> str:
    """The text with each entry named as people know it."""
    return _WORD.sub(lambda found: branch_of(state, found[0]), text)
