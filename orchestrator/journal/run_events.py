"""The events of a run as a whole."""

from typing import Literal

from pydantic import Field, model_validator

from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.document import Task
from forgepool.supervisor.messages.answers import Approval, Certificate, CheckResult, Landing, Review
from forgepool.workers.llm.batch import BatchCall
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.orders import Message


class RunStarted(Message):
    kind: Literal["run.started"] = "run.started"
    run: str
    plan_digest: str
    hub: str
    target: str
    tip: str
    """The target's commit when the run began."""
    gate_file: bool = False
    """True if the target had a gate file then; losing it later pauses the queue."""
    sandbox: Level | None = None
    """The sandbox of commands on this machine; for other hosts each result says it."""
    gate: str = ""
    """The gate that keeps the target, to which candidates are given; empty for a train of its own."""
    assets: str = ""
    """The commit of the files beside the plan that tasks are given; empty where there are none."""
    base_first: bool = False
    """The target is checked before the first paid call to a model."""


class RunForecast(Message):
    """The forecast of a run as it begins, where its plan or earlier runs of it tell how long its tasks take."""

    kind: Literal["run.forecast"] = "run.forecast"
    seconds: tuple[float, float, float]
    """From its start to its end: in the middle, and that which it takes at least and at most, nine times in ten."""
    usd: tuple[float, float, float] | None = None
    """The same of its cost; None where that of an attempt is unknown."""
    spans: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """By task, when it starts and when it ends, in seconds from the run's start."""
    runs: tuple[str, ...] = ()
    """The earlier runs that it is drawn from; without one, all is from the plan."""


class RunResumed(Message):
    kind: Literal["run.resumed"] = "run.resumed"
    tip: str
    sandbox: Level | None = None
    gate: str | None = None
    """The queue, as in `RunStarted`; None where it is unchanged."""
    hub: str | None = None
    """The hub as it is reached from now on, from another machine; None where it is unchanged."""


class RunPaused(Message):
    kind: Literal["run.paused"] = "run.paused"
    why: str
    """Empty where an event before it, such as `GateHalted`, has told it."""


class RunEnded(Message):
    kind: Literal["run.ended"] = "run.ended"
    landed: int
    not_landed: int
    """Tasks that are not done. In earlier journals: all that did not land."""
    unchanged: int = 0
    already_there: int = 0
    reported: int = 0


class BudgetSet(Message):
    """A person has given the run another budget than its plan's."""

    kind: Literal["budget.set"] = "budget.set"
    budget: Budget


class TreasuryLimited(Message):
    """A limit of the treasury holds paid work back, has a person asked, or is told of; or the run may pass it."""

    kind: Literal["treasury.limited"] = "treasury.limited"
    limit: str
    """The limit in one period."""
    effect: Literal["waits", "asks", "warned", "passed"]
    """`passed`: a person lets this run pass it until its period ends."""
    words: str = ""
    """The limit, and what is used of it, as a sentence."""
    until: float = 0.0
    """Unix seconds at which its period ends."""
    by: str = ""
    task: str = Field(default="", exclude_if=lambda task: not task)
    """For a limit of an account: a task that waits for it. Others of the same models wait as well."""


class PlanRevised(Message):
    """A person has given the run another plan, which is kept in its folder beside the first."""

    kind: Literal["plan.revised"] = "plan.revised"
    plan_file: str
    """In the run's folder."""
    plan_digest: str
    tasks: tuple[str, ...]
    """All tasks of the run from now on, in the plan's order."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """None of them has landed."""
    afresh: tuple[str, ...] = ()
    """Changed tasks, which begin again with all their attempts."""
    reopened: tuple[str, ...] = ()
    """Tasks that were blocked by one of these, and wait for it again."""
    kept: tuple[str, ...] = ()
    """Tasks that were added to the run, which the plan's file does not name."""
    assets: str = ""
    """The commit of the plan's assets; empty if it has none."""


class TasksAdded(Message):
    """The run has more tasks than its plan's file, from now on."""

    kind: Literal["tasks.added"] = "tasks.added"
    tasks: tuple[Task, ...]
    by: str
    """A person, or the task that leads the run."""
    why: str
    request: str = ""
    """The key under which they were asked for: the same key adds once. `TASK#NUMBER` is of a task that leads."""


class TasksDropped(Message):
    """Tasks that had not begun are no longer of the run."""

    kind: Literal["tasks.dropped"] = "tasks.dropped"
    tasks: tuple[str, ...]
    by: str
    why: str


class GateHalted(Message):
    """The target itself is red, or refuses us: nothing more is let in until a person has seen to it."""

    kind: Literal["gate.halted"] = "gate.halted"
    why: str
    infrastructure: bool = False
    reviewed: bool = False
    """It is the review of a wave that shut it: a person's word on that opens it."""
    streak: Literal["", "order", "check"] = ""
    """The messages to which the same infrastructure mistake was the answer, task after task. A good one opens it."""
    orders: bool = False
    """No host can do the orders that are left. Landing has nothing to do with it."""

    @property
    def effect(self) -> str:
        """Return what follows, as the beginning of a sentence."""
        return "the run stops" if self.orders or self.streak else "landing is paused"


class WorkersMissing(Message):
    """Messages wait in a queue that no worker listens to."""

    kind: Literal["workers.missing"] = "workers.missing"
    queue: str


class HostsLacking(Message):
    """Waiting tasks that no present host can do, with what is missing; none once hosts can do all again."""

    kind: Literal["hosts.lacking"] = "hosts.lacking"
    tasks: dict[str, tuple[str, ...]]
    """By task, the missing things in words; the first task alone of those that lack the same."""


class ModelsShut(Message):
    """Waiting tasks none of whose models may be asked for a while; none once they may be asked again."""

    kind: Literal["models.shut"] = "models.shut"
    tasks: dict[str, float]
    """By task, until when, in Unix seconds; the first task alone of those that ask the same models."""
    at: float
    """Unix seconds."""


class TasksHeld(Message):
    """Waiting tasks for whose paths other runs have tasks in flight; none once the paths are free again."""

    kind: Literal["tasks.held"] = "tasks.held"
    tasks: dict[str, tuple[str, str]]
    """By task, the other run and its glob that meets the task's."""


class HostSuspended(Message):
    """Infrastructure failed a host's answers again and again: it gets nothing until then, and then one order."""

    kind: Literal["host.suspended"] = "host.suspended"
    host: str
    why: str
    until: float
    """Unix seconds."""


class HostReadmitted(Message):
    """A suspended host has done its probe well."""

    kind: Literal["host.readmitted"] = "host.readmitted"
    host: str


class HostMismatched(Message):
    """A present host reads another version of the messages, and gets none."""

    kind: Literal["host.mismatched"] = "host.mismatched"
    host: str
    protocol: int
    own: int
    """The version of the run's messages."""


class MessagesRefused(Message):
    """A host refuses the run's messages, or its answers are refused: it has not the run's key."""

    kind: Literal["messages.refused"] = "messages.refused"
    host: str
    """The name it gives itself, which proves nothing; '' where it gives none."""
    why: str


class PartRestarted(Message):
    """Part of a one-machine run (its Redis, a worker) died and was started again."""

    kind: Literal["part.restarted"] = "part.restarted"
    part: str


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
    """By entry of the batch, the checks that its changes affect; an entry that is missing needs all checks."""
    issued_at: float


class CheckAnswered(Message):
    kind: Literal["check.answered"] = "check.answered"
    task: str
    result: CheckResult
    ahead: tuple[str, ...] = ()
    car: tuple[str, ...] = ()
    """The entries it concerns, as far as they had not landed; empty for the task alone."""


class CheckDoubted(Message):
    """The first run of a decisive trial was red, and it is run again: who comes behind need not wait for the second."""

    kind: Literal["check.doubted"] = "check.doubted"
    message_id: str


class CheckCancelled(Message):
    """The answer of this trial is no longer needed."""

    kind: Literal["check.cancelled"] = "check.cancelled"
    task: str
    message_id: str
    why: str


class CarDissolved(Message):
    """
    A red or timed-out batch with no other suspect: its entries are tested in parts, behind all others.

    Where the tests that failed are the own ones of some of its entries, these are tried alone, and the rest stays.
    """

    kind: Literal["car.dissolved"] = "car.dissolved"
    car: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    message_id: str
    suspects: tuple[str, ...] = ()
    """Entries in no part, whose own tests were all that failed."""


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
    """The commits to which the entries are composed."""
    certificates: tuple[Certificate, ...]
    approvals: tuple[Approval | None, ...] = ()
    """For each entry, the approval that lets it land; None where none is needed."""
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
    """The tasks that have landed since, in that order."""
    issued_at: float


class WaveAnswered(Message):
    kind: Literal["wave.answered"] = "wave.answered"
    result: CheckResult


class WaveReviewSent(Message):
    """All landings are reviewed as a whole, once all checks were green on them; nothing lands meanwhile."""

    kind: Literal["wave_review.sent"] = "wave_review.sent"
    number: int
    message_id: str
    token: str
    base: str
    """The target's commit before the first landing that no integration review has passed."""
    tip: str
    tasks: tuple[str, ...]
    """The tasks that have landed since, in that order."""
    issued_at: float
    reserved_usd: float | None = None
    reserved_tokens: int | None = None
    batch: BatchCall | None = Field(default=None, exclude_if=lambda call: call is None)
    accounts: tuple[str, ...] = Field(default=(), exclude_if=lambda accounts: not accounts)


class WaveReviewAnswered(Message):
    kind: Literal["wave_review.answered"] = "wave_review.answered"
    result: Review


class WaveApproved(Message):
    """A person has looked at what has landed up to this tip, and answers for it in a reviewer's place."""

    kind: Literal["wave.approved"] = "wave.approved"
    by: str
    tip: str
