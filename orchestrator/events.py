"""
What can happen in a run. The journal keeps these, in order, for ever; all state is folded from them.

An event states a fact with its evidence. Times are the journal's. Adding a field needs a default, changing the
meaning of one needs a new event: journals of earlier versions must go on being read.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, model_validator

from orchestrator.budget import Budget, Seen
from orchestrator.gatekeeper.rules import GateRules
from orchestrator.through.messages import Asks, Card, GateAnswer, Word
from supervisor.messages import Approval, Author, Certificate, CheckResult, Landing, LandingStyle, Review
from supervisor.train.model import EntryClass
from workers.messages import Message, ReasonPack, Reply, WorkResult
from workers.sandbox.confinement import Level

ParkedFor = Literal["trouble", "question", "budget", "review"]
"""
What a person is wanted for: infrastructure that fails on and on, an agent's question, a budget that is used, a review
that nobody else can give.
"""


class RunStarted(Message):
    kind: Literal["run.started"] = "run.started"
    run: str
    plan_digest: str
    hub: str
    target: str
    tip: str
    """The target's commit when the run began."""
    gate_file: bool = False
    """Whether the target had a gate file then; losing it later shuts the gate."""
    sandbox: Level | None = None
    """What holds commands, where they run on this machine; of other hosts each result says it."""
    gate: str = ""
    """The gate that keeps the target, to which candidates are given; empty for a train of its own."""


class RunResumed(Message):
    kind: Literal["run.resumed"] = "run.resumed"
    tip: str
    sandbox: Level | None = None
    gate: str | None = None
    """As of `RunStarted`; None where that stays as it was."""


class RunPaused(Message):
    kind: Literal["run.paused"] = "run.paused"
    why: str


class RunEnded(Message):
    kind: Literal["run.ended"] = "run.ended"
    landed: int
    not_landed: int


class BudgetSet(Message):
    """A person has given the run another budget than its plan's."""

    kind: Literal["budget.set"] = "budget.set"
    budget: Budget


class OrderSent(Message):
    """Journaled before the message is sent: an order that was never seen is sent again."""

    kind: Literal["order.sent"] = "order.sent"
    task: str
    attempt: int
    message_id: str
    token: str
    base: str
    issued_at: float
    overtook: tuple[str, ...] = ()
    """Higher-ranked tasks held up only by locks, which this start passes by."""
    reserved_usd: float | None = None
    """
    Of the run's budget, besides what is carried over; None where neither the run nor the task has a limit of that kind.
    """
    reserved_tokens: int | None = None
    resumes: int | None = None
    """The interrupted attempt it goes on from, on the base that one had."""


class MessageTaken(Message):
    """A worker holds the lease of a message."""

    kind: Literal["message.taken"] = "message.taken"
    message_id: str
    host: str
    pid: int


class MessageLost(Message):
    """Nobody works on it any more, and no answer came: not the task's failure."""

    kind: Literal["message.lost"] = "message.lost"
    message_id: str
    why: str
    used: Seen | None = None
    """Of an order, what the hub knows of its use; None where that was not asked: then all that was reserved counts."""


class OrderAnswered(Message):
    kind: Literal["order.answered"] = "order.answered"
    task: str
    result: WorkResult


class PathsAsked(Message):
    """An attempt under way wants to change paths that its task does not hold."""

    kind: Literal["paths.asked"] = "paths.asked"
    task: str
    attempt: int
    number: int
    """Of the asking, within the attempt, and in no order; the answer names it."""
    paths: tuple[str, ...]


class PathsGranted(Message):
    """It holds these paths, too, from now on; journaled before it is told so."""

    kind: Literal["paths.granted"] = "paths.granted"
    task: str
    attempt: int
    paths: tuple[str, ...]
    """Without those it held already."""
    number: int | None = None
    """Of the asking; None in earlier journals, where only one could be open."""


class PathsQueued(Message):
    """Somebody in flight holds or reads some of these: the task holds them all from its next start on."""

    kind: Literal["paths.queued"] = "paths.queued"
    task: str
    attempt: int
    paths: tuple[str, ...]
    """Without those it held already."""
    why: str
    number: int | None = None


class PathsRefused(Message):
    kind: Literal["paths.refused"] = "paths.refused"
    task: str
    attempt: int
    why: str
    number: int | None = None


class LockExtended(Message):
    """A candidate touched paths outside its declared globs, and holds them too from now on."""

    kind: Literal["lock.extended"] = "lock.extended"
    task: str
    paths: tuple[str, ...]


class EntrySubmitted(Message):
    """Somebody's commit stands in the train; there may have been an earlier one of that name, which is withdrawn."""

    kind: Literal["entry.submitted"] = "entry.submitted"
    task: str
    """The entry's name."""
    revision: int
    """Numbers the commits that were submitted under the name."""
    commit: str
    title: str
    by: str = ""
    author: Author = Author(agent="person")
    klass: EntryClass = "normal"
    needs: tuple[str, ...] = ()
    """Entries that have to land before it."""
    style: LandingStyle | None = None
    paths: tuple[str, ...] = ()
    """What it changes; none where that is not known."""
    grants: tuple[str, ...] = ()
    """Globs of what a person lets this very commit change, protected or not."""
    waive: tuple[str, ...] = ()
    """Rules of the scans that a person does not apply to it."""
    granted_by: str = ""
    card: Card | None = None
    """What the run says of it that has given it; None where a person has, or a program."""


class EntryRefused(Message):
    """What was submitted does not stand in the train, and nothing has changed."""

    kind: Literal["entry.refused"] = "entry.refused"
    name: str
    commit: str
    why: str
    asks: Asks | None = None
    """Who wants to be told, where that is a run."""


class EntryAnswered(Message):
    """The run that has given it has been told: it lies in the hub."""

    kind: Literal["entry.answered"] = "entry.answered"
    name: str
    number: int
    word: Word


class EntryGiven(Message):
    """Of a run: the candidate is the gate's from now on. Durable before it is pushed, as often as that takes."""

    kind: Literal["entry.given"] = "entry.given"
    task: str
    number: int
    """Of the task's givings."""
    commit: str
    gate: str
    """As it was known then."""


class EntryRecalled(Message):
    """Of a run: a person wants it back. It is the gate's until that has answered."""

    kind: Literal["entry.recalled"] = "entry.recalled"
    task: str


class EntryTold(Message):
    """Of a run: what the gate says has become of it, found in the hub."""

    kind: Literal["entry.told"] = "entry.told"
    task: str
    answer: GateAnswer
    tip: str
    """The target's, then."""


class GateNoticed(Message):
    """Of a run: which gate keeps its target, or that it is not heard of any more."""

    kind: Literal["gate.noticed"] = "gate.noticed"
    gate: str
    away: str = ""
    """One sentence, for as long as nobody is heard of; empty where it stands."""


class EntryHeld(Message):
    """A person keeps it where it is, or lets it go on."""

    kind: Literal["entry.held"] = "entry.held"
    task: str
    by: str = ""
    held: bool


class EntryReclassed(Message):
    kind: Literal["entry.reclassed"] = "entry.reclassed"
    task: str
    by: str = ""
    klass: EntryClass


class GatePaused(Message):
    """Nothing is tested and nothing lands until a person resumes it; what is under way may finish."""

    kind: Literal["gate.paused"] = "gate.paused"
    by: str = ""
    why: str = ""


class GateResumed(Message):
    """After a pause, or after something had shut the gate."""

    kind: Literal["gate.resumed"] = "gate.resumed"
    by: str = ""


class GateRuled(Message):
    """What a person has set as the gate was opened, where that differs from before."""

    kind: Literal["gate.ruled"] = "gate.ruled"
    rules: GateRules


class GateFrozen(Message):
    """A freeze has begun: nothing but hotfixes lands until then. Told again where the end is another."""

    kind: Literal["gate.frozen"] = "gate.frozen"
    until: float
    """Unix seconds."""
    clock: str
    """The same, as the clock shows it that the freezes are of."""


class GateThawed(Message):
    """The freeze is over."""

    kind: Literal["gate.thawed"] = "gate.thawed"


class TipMoved(Message):
    """Somebody else has moved the target; what lands from now on is composed on that, and nobody is blamed."""

    kind: Literal["tip.moved"] = "tip.moved"
    tip: str
    lost: tuple[str, ...] = ()
    """Entries that have landed, and are not in its history: the target was taken back."""


class EntryQueued(Message):
    """The candidate stands in the train."""

    kind: Literal["entry.queued"] = "entry.queued"
    task: str
    reviewed: bool = False
    """It may not land without an approval."""


class CheckSent(Message):
    """A trial: the car, on top of the target's tip and of entries that are assumed to land before it."""

    kind: Literal["check.sent"] = "check.sent"
    task: str
    """The last of the car."""
    message_id: str
    token: str
    base: str
    ahead: tuple[str, ...] = ()
    car: tuple[str, ...] = ()
    """Empty for the task alone."""
    at: int | None = None
    """The car is coupled with this, and takes this place in the train; None for one that has a place, or wants none."""
    decisive: bool = True
    scopes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Of entries of the car, the checks that what they change has to do with; without one, all."""
    issued_at: float


class CheckAnswered(Message):
    kind: Literal["check.answered"] = "check.answered"
    task: str
    result: CheckResult
    ahead: tuple[str, ...] = ()
    car: tuple[str, ...] = ()
    """What it is about, as far as it had not landed by then; empty for the task alone."""


class CheckDoubted(Message):
    """The first run of a decisive trial was red, and it is run again: who comes behind need not wait for the second."""

    kind: Literal["check.doubted"] = "check.doubted"
    message_id: str


class CheckCancelled(Message):
    """Nobody wants to know any more what this trial would say."""

    kind: Literal["check.cancelled"] = "check.cancelled"
    task: str
    message_id: str
    why: str


class CarDissolved(Message):
    """Red, or out of time, with nobody else to doubt: its entries are tried in parts, behind all others."""

    kind: Literal["car.dissolved"] = "car.dissolved"
    car: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    message_id: str


class ReviewAwaited(Message):
    """The entry waits for its approval, and holds no slot at the gate meanwhile; it keeps its lock."""

    kind: Literal["review.awaited"] = "review.awaited"
    task: str


class ReviewSent(Message):
    kind: Literal["review.sent"] = "review.sent"
    task: str
    number: int
    """Of all reviews that were asked for the task."""
    message_id: str
    token: str
    base: str
    issued_at: float
    reserved_usd: float | None = None
    """Of the run's budget, as for an order; None for a scripted reviewer."""
    reserved_tokens: int | None = None


class ReviewAnswered(Message):
    kind: Literal["review.answered"] = "review.answered"
    task: str
    result: Review


class LandingIntended(Message):
    """Durable before the target may move: from here on, recovery asks the hub what became of it."""

    kind: Literal["landing.intended"] = "landing.intended"
    task: str
    message_id: str
    token: str
    base: str
    commit: str
    tree: str
    entries: tuple[str, ...] = ()
    """All that land with it, in order, the task itself last; empty for the task alone."""
    commits: tuple[str, ...] = ()
    """What each of them is composed to."""
    certificates: tuple[Certificate, ...]
    approvals: tuple[Approval | None, ...] = ()
    """For each of them, whose word lets it land; None where nobody's is wanted."""
    issued_at: float

    @model_validator(mode="before")
    @classmethod
    def _of_one_task(cls, said: object) -> object:
        """Earlier journals know landings of one task alone, with one approval."""
        if isinstance(said, dict) and "approval" in said:
            return {**{key: value for key, value in said.items() if key != "approval"}, "approvals": [said["approval"]]}
        return said


class LandingAnswered(Message):
    kind: Literal["landing.answered"] = "landing.answered"
    task: str
    result: Landing
    entries: tuple[str, ...] = ()
    """All that were to land with it; empty for the task alone."""


class TaskReturned(Message):
    """Back to an agent, with the reasons; costs the task one of its attempts."""

    kind: Literal["task.returned"] = "task.returned"
    task: str
    reason: ReasonPack


class TaskFailed(Message):
    kind: Literal["task.failed"] = "task.failed"
    task: str
    reason: ReasonPack


class TaskBlocked(Message):
    kind: Literal["task.blocked"] = "task.blocked"
    task: str
    by: str
    """The need that did not land."""


class TaskParked(Message):
    """Waits for a person: nothing the run can do by itself would help."""

    kind: Literal["task.parked"] = "task.parked"
    task: str
    question: str
    why: ParkedFor = "trouble"
    """`question`: an agent's, which can be answered; the others are mended, and the task tried again."""


class TaskCancelled(Message):
    kind: Literal["task.cancelled"] = "task.cancelled"
    task: str
    used: Seen | None = None
    """Of the order under way; as for one that is lost."""


class TaskRetried(Message):
    """A person asked for it: with `task.replied` the one way out of a terminal state, of which landed has none."""

    kind: Literal["task.retried"] = "task.retried"
    task: str
    afresh: bool = True
    """From the target's tip and with all its attempts; else where it was."""


class TaskReplied(Message):
    """A person answered the question that had parked it."""

    kind: Literal["task.replied"] = "task.replied"
    task: str
    reply: Reply


class TaskApproved(Message):
    """A person lets this candidate land, whatever a reviewer said or did not say; it wants its certificates still."""

    kind: Literal["task.approved"] = "task.approved"
    task: str
    by: str
    commit: str
    """The candidate's: another one is not approved."""


class TaskRejected(Message):
    """A person does not let this candidate land."""

    kind: Literal["task.rejected"] = "task.rejected"
    task: str
    by: str
    reason: ReasonPack
    again: bool
    """Whether it has an attempt left; else it has failed."""


class CandidateRestored(Message):
    """An approved candidate that had been given up, or waited for a person, holds its lock again."""

    kind: Literal["candidate.restored"] = "candidate.restored"
    task: str


class WaveSent(Message):
    """All checks are run on the target itself; nothing is let in meanwhile."""

    kind: Literal["wave.sent"] = "wave.sent"
    number: int
    message_id: str
    token: str
    base: str
    """The target's tip, which is checked."""
    since: str
    """The tip at which it was found green last, or at which the run began."""
    tasks: tuple[str, ...]
    """Those that have landed since, in that order."""
    issued_at: float


class WaveAnswered(Message):
    kind: Literal["wave.answered"] = "wave.answered"
    result: CheckResult


class WaveReviewSent(Message):
    """What has landed is reviewed as a whole, once all checks were green on it; nothing is let in meanwhile."""

    kind: Literal["wave_review.sent"] = "wave_review.sent"
    number: int
    message_id: str
    token: str
    base: str
    """The target's commit before the first landing that nobody has passed as a whole yet."""
    tip: str
    tasks: tuple[str, ...]
    """Those that have landed since, in that order."""
    issued_at: float
    reserved_usd: float | None = None
    reserved_tokens: int | None = None


class WaveReviewAnswered(Message):
    kind: Literal["wave_review.answered"] = "wave_review.answered"
    result: Review


class WaveApproved(Message):
    """A person has looked at what has landed up to this tip, and answers for it in a reviewer's place."""

    kind: Literal["wave.approved"] = "wave.approved"
    by: str
    tip: str


class ProfileChosen(Message):
    """A person chose another context profile for the task, from the next call to its model on."""

    kind: Literal["profile.chosen"] = "profile.chosen"
    task: str
    profile: str


class ContextRebuilt(Message):
    """What an attempt's model is shown was rebuilt, or was to be and is not."""

    kind: Literal["context.rebuilt"] = "context.rebuilt"
    task: str
    attempt: int
    profile: str
    why: str
    changed: bool = True
    before_tokens: int
    """Of the next request, as they were estimated."""
    after_tokens: int
    window_tokens: int
    calls: int = 0
    """To models, for a summary."""
    cost_usd: float | None = 0.0
    """Of these."""
    dropped: tuple[int, ...] = ()
    """Steps whose results are not shown whole any more."""
    archive: str = ""
    """The folder where they can be read, on the worker's host and as long as the attempt lasts."""


class GateHalted(Message):
    """The target itself is red, or refuses us: nothing more is let in until a person has seen to it."""

    kind: Literal["gate.halted"] = "gate.halted"
    why: str
    infrastructure: bool = False
    reviewed: bool = False
    """It is the review of a wave that shut it: a person's word on that opens it."""


class WorkersMissing(Message):
    """Messages wait in a queue that no worker listens to."""

    kind: Literal["workers.missing"] = "workers.missing"
    queue: str


class PartRestarted(Message):
    """Part of a one-machine run (its Redis, a worker) died and was started again."""

    kind: Literal["part.restarted"] = "part.restarted"
    part: str


Event = Annotated[
    RunStarted
    | RunResumed
    | RunPaused
    | RunEnded
    | BudgetSet
    | OrderSent
    | MessageTaken
    | MessageLost
    | OrderAnswered
    | PathsAsked
    | PathsGranted
    | PathsQueued
    | PathsRefused
    | LockExtended
    | EntryQueued
    | EntrySubmitted
    | EntryRefused
    | EntryAnswered
    | EntryGiven
    | EntryRecalled
    | EntryTold
    | GateNoticed
    | EntryHeld
    | EntryReclassed
    | GatePaused
    | GateResumed
    | GateRuled
    | GateFrozen
    | GateThawed
    | TipMoved
    | CheckSent
    | CheckAnswered
    | CheckDoubted
    | CheckCancelled
    | CarDissolved
    | ReviewAwaited
    | ReviewSent
    | ReviewAnswered
    | LandingIntended
    | LandingAnswered
    | TaskReturned
    | TaskFailed
    | TaskBlocked
    | TaskParked
    | TaskCancelled
    | TaskRetried
    | TaskReplied
    | TaskApproved
    | TaskRejected
    | CandidateRestored
    | WaveSent
    | WaveAnswered
    | WaveReviewSent
    | WaveReviewAnswered
    | WaveApproved
    | ProfileChosen
    | ContextRebuilt
    | GateHalted
    | WorkersMissing
    | PartRestarted,
    Field(discriminator="kind"),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event)
