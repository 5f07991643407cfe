"""
The vendors' batch lanes: one call each, answered within minutes or hours for a part of the live price.

A `BatchTicket` names a call that a vendor has taken. It is journaled before it is waited for, and nothing waits with
it: who has it looks once, and comes back later. The vendors' forms are in `wires`; `routing.lane` is the provider.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from forgepool.workers.llm.messages import Turn
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.schema.orders import Message, Spent


class BatchTicket(Message):
    """A call in a vendor's batch lane."""

    account: str = ""
    model: str = ""
    id: str = ""
    """The batch's id at the vendor; empty while it is not known whether there is one."""
    most: Spent = Spent()
    """The most that the call can cost."""
    looks: int = 0
    """How often it was looked at."""
    cancelled: bool = False
    over: str = ""
    """Why the lane brings no answer, so that the call is made live; empty while it may bring one."""

    @property
    def is_news(self) -> bool:
        """Tell whether something became of it since the last request."""
        return not self.looks or bool(self.over)


class BatchCall(Message):
    """A request to make one call by the batch lane, or to look what became of it."""

    key: str
    """The call's name, the same each time it is looked for."""
    since: float
    """The Unix time at which it was first asked for."""
    until: float
    """The Unix time after which it is made live."""
    again: bool = False
    """An earlier request may have made the batch."""
    ticket: BatchTicket | None = None
    others: tuple[str, ...] = ()
    """Ids of batches that are known to hold other calls."""

    @property
    def unread(self) -> Spent:
        """Return the most that its batch has cost, for an answer that is of no use any more."""
        return self.ticket.most if self.ticket is not None and self.ticket.id else Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLook:
    """The state of a batch with one call."""

    kind: Literal["waits", "answered", "over"]
    answer: object = None
    """The vendor's whole answer."""
    why: str = ""
    """Why there will be none."""


WAITS = BatchLook(kind="waits")


class Batches(Protocol):
    """One model's batch lane at one vendor. Each method may raise ModelFailed, as a provider does."""

    def create(self, key: str, request: ModelRequest) -> str:
        """Make a batch of one call, and return its id."""

    def find(self, key: str, since: float, others: Collection[str]) -> str | None:
        """
        Return the id of the batch that holds the call; None where there is none since then. The empty string says that
        a batch under way may hold it.
        """

    def look(self, batch: str, key: str) -> BatchLook:
        """Return how the batch stands."""

    def cancel(self, batch: str) -> None:
        """Ask the vendor to end the batch. An answer that is there already stays."""

    def read(self, answer: object, request: ModelRequest) -> Turn:
        """Return an answer as the turn that a live one would have been."""
