"""What becomes of a task, and what is said of its candidate."""

from typing import Literal

from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.supervisor.messages import Review
from forgepool.workers.schema.orders import Message, ReasonPack, Reply

ParkedFor = Literal["trouble", "question", "budget", "review"]
"""
What a person is wanted for: infrastructure that fails on and on, an agent's question, a budget that is used, a review
that nobody else can give.
"""


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


class TaskReturned(Message):
    """Back to an agent, with the reasons; costs the task one of its attempts, unless `free`."""

    kind: Literal["task.returned"] = "task.returned"
    task: str
    reason: ReasonPack
    free: bool = False
    """It costs no attempt: others landed meanwhile, and what a command makes of the new tip may differ."""


class TaskFailed(Message):
    kind: Literal["task.failed"] = "task.failed"
    task: str
    reason: ReasonPack


class TaskUnchanged(Message):
    """An attempt ended well and changed nothing, where the plan takes that for done (`unchanged: ok`)."""

    kind: Literal["task.unchanged"] = "task.unchanged"
    task: str
    why: str


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
    used: SeenUse | None = None
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
