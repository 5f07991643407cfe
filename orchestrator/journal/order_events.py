"""What happens to a message, and to the attempt that somebody makes by an order."""

from typing import Literal

from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.workers.schema.orders import Message, WorkResult


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
    used: SeenUse | None = None
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
