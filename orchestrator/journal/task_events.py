"""The events of a task and of its candidate."""

from typing import Literal

from pydantic import Field

from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.supervisor.messages.answers import Review
from forgepool.workers.llm.batch import BatchCall
from forgepool.workers.schema.orders import Message, ReasonPack, Reply, Spent, WorkResult
from forgepool.workers.schema.reports import LeadReply, Report


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
    """The part of the run's budget it reserves, beyond what is carried over; None without a limit of that kind."""
    reserved_tokens: int | None = None
    resumes: int | None = None
    """The interrupted attempt it goes on from, on the base that one had."""
    mends: int | None = None
    """The attempt whose work it begins with."""
    host: str = ""
    """The host that it is sent to; empty where any may take it."""
    leads: bool = False
    """It is of the task that leads the run."""
    accounts: tuple[str, ...] = Field(default=(), exclude_if=lambda accounts: not accounts)
    """The accounts that it reserves with, where there is a treasury."""
    races: int | None = Field(default=None, exclude_if=lambda attempt: attempt is None)
    """The attempt under way beside which it works, until one of the two has landed."""
    rung: int = Field(default=0, exclude_if=lambda rung: not rung)
    """The place, from 1, of its model in the ladder, where it races."""


class TaskPassedOn(Message):
    """A host lacks a key or a program for the task, and another present host is not known to: that one is tried."""

    kind: Literal["task.passed_on"] = "task.passed_on"
    task: str
    host: str
    """It gets no order of the task any more, until a person has it tried again or resumes the run."""
    why: str


class MessageTaken(Message):
    """A worker holds the lease of a message."""

    kind: Literal["message.taken"] = "message.taken"
    message_id: str
    host: str
    pid: int


class MessageLost(Message):
    """No worker works on the message any more, and no answer came. This is not the task's failure."""

    kind: Literal["message.lost"] = "message.lost"
    message_id: str
    why: str
    used: SeenUse | None = None
    """For an order, the use that the hub knows of; None where it was not asked: then the whole reservation counts."""


class OrderAnswered(Message):
    kind: Literal["order.answered"] = "order.answered"
    task: str
    result: WorkResult


class WorkKept(Message):
    """The last word on an attempt that was stopped: its files are kept, and its use. An answer tells it otherwise."""

    kind: Literal["work.kept"] = "work.kept"
    task: str
    attempt: int
    what: Literal["candidate", "unverified", "unfinished"] = "unverified"
    """Only a candidate may land. `unfinished` work is that of an attempt which another one may continue."""
    commit: str = ""
    withheld: str = ""
    """Why the hub does not have it, and what has it."""
    files: int = 0
    """How many paths it changes; 0 where that is not known."""
    models: tuple[str, ...] = Field(default=(), exclude_if=lambda models: not models)
    """The models that made it, as far as an answer tells."""
    families: tuple[str, ...] = Field(default=(), exclude_if=lambda families: not families)
    """Theirs."""
    mends: int | None = Field(default=None, exclude_if=lambda attempt: attempt is None)
    """The attempt with whose work it began."""
    spent: Spent | None = Field(default=None, exclude_if=lambda spent: spent is None)


def list_kept(answered: OrderAnswered) -> dict[int, WorkKept]:
    """Return what an answer says of its attempt's files; nothing where it changed none."""
    result = answered.result
    kept = WorkKept(
        task=answered.task,
        attempt=result.attempt,
        withheld=result.withheld,
        files=len(result.paths),
        models=result.models,
        families=result.families,
        mends=result.mended,
    )
    if result.outcome == "candidate":
        kept = kept.model_copy(update={"what": "candidate", "commit": result.commit or ""})
    elif result.resumable:
        kept = kept.model_copy(update={"what": "unfinished"})
    elif result.unverified is not None:
        kept = kept.model_copy(update={"commit": result.unverified})
    elif not result.withheld:
        return {}
    return {result.attempt: kept}


class LockExtended(Message):
    """A candidate touched paths outside its declared globs, and holds them too from now on."""

    kind: Literal["lock.extended"] = "lock.extended"
    task: str
    paths: tuple[str, ...]


class ProfileChosen(Message):
    """A person chose another context profile for the task, from the next call to its model on."""

    kind: Literal["profile.chosen"] = "profile.chosen"
    task: str
    profile: str


class ContextRebuilt(Message):
    """
    A rebuild of the conversation that an attempt's model is shown, or the reason why it was left. Without both it says
    alone how full the window is.
    """

    kind: Literal["context.rebuilt"] = "context.rebuilt"
    task: str
    attempt: int
    profile: str
    why: str
    changed: bool = True
    before_tokens: int
    """Estimated tokens of the next request, before the rebuild."""
    after_tokens: int
    window_tokens: int
    calls: int = 0
    """To models, for a summary."""
    cost_usd: float | None = 0.0
    """US dollars for these calls."""
    dropped: tuple[int, ...] = ()
    """Steps whose results are not shown whole any more."""
    archive: str = ""
    """The folder where they can be read, on the worker's host and as long as the attempt lasts."""


ParkedFor = Literal["trouble", "question", "budget", "review"]
"""
The reason a person is needed: repeated infrastructure failures, an agent's question, a used-up budget, a review that no
model can give.
"""


class ReviewAwaited(Message):
    """The entry waits for its approval, and holds no slot at the gate meanwhile; it keeps its lock."""

    kind: Literal["review.awaited"] = "review.awaited"
    task: str


class ReviewSent(Message):
    kind: Literal["review.sent"] = "review.sent"
    task: str
    number: int
    """The number of the review, over all reviews of the task."""
    message_id: str
    token: str
    base: str
    issued_at: float
    reserved_usd: float | None = None
    """The part of the run's budget it reserves, as for an order; None for a scripted reviewer."""
    reserved_tokens: int | None = None
    synthesis: str = ""
    """The digest of the proven text, where a lead's synthesis is reviewed."""
    batch: BatchCall | None = Field(default=None, exclude_if=lambda call: call is None)
    """Its call in a vendor's batch lane; None for a live review."""
    accounts: tuple[str, ...] = Field(default=(), exclude_if=lambda accounts: not accounts)


class ReviewAnswered(Message):
    kind: Literal["review.answered"] = "review.answered"
    task: str
    result: Review


class TaskReturned(Message):
    """Back to an agent, with the reasons; costs the task one of its attempts, unless `free`."""

    kind: Literal["task.returned"] = "task.returned"
    task: str
    reason: ReasonPack
    free: bool = False
    """It costs no attempt: others landed meanwhile, and what a command makes of the new tip may differ."""
    rung: int = Field(default=0, exclude_if=lambda rung: not rung)
    """The place, from 1, of its next model in its ladder; 0 leaves the model as it is."""


class TaskFailed(Message):
    kind: Literal["task.failed"] = "task.failed"
    task: str
    reason: ReasonPack


class TaskUnchanged(Message):
    """An attempt ended well and changed nothing, where the plan takes that for done (`unchanged: ok`)."""

    kind: Literal["task.unchanged"] = "task.unchanged"
    task: str
    why: str


class TaskReported(Message):
    """A task that answers has done so."""

    kind: Literal["task.reported"] = "task.reported"
    task: str
    report: Report


class SurveyFound(Message):
    """An earlier run's survey of the repository: it stands for the plan's, or the plan's is to correct it."""

    kind: Literal["survey.found"] = "survey.found"
    task: str
    by_run: str
    commit: str
    """The commit that it describes."""
    report: Report
    stands: bool
    """True if the run begins on the tree that it describes: then no agent is asked."""
    changed: tuple[str, ...] = ()
    """Files that differ since, at most 200."""
    changed_count: int = 0
    """How many differ."""


class LeadReplied(Message):
    """The reply to the request by which the task that leads the run rests; it goes on with its next order."""

    kind: Literal["lead.replied"] = "lead.replied"
    task: str
    reply: LeadReply
    heard: int = 0
    """How many words of people it has heard with it, in all."""


class LeadSpoken(Message):
    """A person has said something to the task that leads the run, which hears it with its next reply."""

    kind: Literal["lead.spoken"] = "lead.spoken"
    task: str
    text: str
    by: str


class TaskAlreadyThere(Message):
    """An earlier run of the plan has landed this very task, and its commit is in the target's history."""

    kind: Literal["task.already_there"] = "task.already_there"
    task: str
    commit: str
    by_run: str


class TaskBlocked(Message):
    kind: Literal["task.blocked"] = "task.blocked"
    task: str
    by: str
    """The need that did not land, or did not report."""
    reports: bool = Field(default=False, exclude_if=lambda reports: not reports)
    """True where that need was to report."""

    @property
    def why(self) -> str:
        return f"needs '{self.by}', which did not {'report' if self.reports else 'land'}"


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
    used: SeenUse | None = None
    """The use of the order under way; as for one that is lost."""
    by: str = ""
    """The task that leads the run and has cancelled it; empty for a person."""
    why: str = ""


BeginsFrom = Literal["", "candidate", "fresh"]
"""A person's word on the work that the next attempt begins with. Empty leaves it to the rule."""


class TaskRetried(Message):
    """
    A person asked for a retry. Beside `task.replied` it is the only way out of a terminal state, and a landed task has
    none.
    """

    kind: Literal["task.retried"] = "task.retried"
    task: str
    afresh: bool = True
    """From the target's tip and with all its attempts; else where it was."""
    note: str = ""
    """Words of a person to the agent of its next attempts; empty where there are none."""
    by: str = ""
    """The person's name, where there is a note."""
    model: str = ""
    """The model of its next attempts; empty leaves it as it is."""
    begins: BeginsFrom = ""

    @property
    def notes(self) -> tuple[Reply, ...]:
        return (Reply(question="", answer=self.note, by=self.by),) if self.note else ()


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
    """True if it has an attempt left; otherwise it has failed."""
    rung: int = Field(default=0, exclude_if=lambda rung: not rung)
    """The same as in `task.returned`."""


class CandidateRestored(Message):
    """An approved candidate that had been given up, or waited for a person, holds its lock again."""

    kind: Literal["candidate.restored"] = "candidate.restored"
    task: str
