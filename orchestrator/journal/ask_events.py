"""The events of what an attempt under way asks for: paths that it does not hold, and more of the budget."""

from dataclasses import dataclass
from typing import Literal

from forgepool.workers.schema.orders import LimitKind, Message


class PathsAsked(Message):
    """An attempt under way wants to change paths that its task does not hold."""

    kind: Literal["paths.asked"] = "paths.asked"
    task: str
    attempt: int
    number: int
    """The number of the request within the attempt, in no order; the answer names it."""
    paths: tuple[str, ...]


class PathsGranted(Message):
    """It holds these paths, too, from now on; journaled before it is told so."""

    kind: Literal["paths.granted"] = "paths.granted"
    task: str
    attempt: int
    paths: tuple[str, ...]
    """Without those it held already."""
    number: int | None = None
    """The number of the request; None in earlier journals, where only one could be open."""


class PathsQueued(Message):
    """A task in flight holds or reads some of these paths; this task holds them all from its next start on."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A running attempt's request for paths beyond those it holds, and the answer."""

    number: int
    paths: tuple[str, ...]
    at: float
    verdict: Literal["granted", "queued", "refused"] | None = None
    """None for no longer than one turn of the loop."""
    why: str = ""


class MoneyAsked(Message):
    """An attempt under way needs a larger part of the run's budget. A later one of its requests replaces this."""

    kind: Literal["money.asked"] = "money.asked"
    task: str
    attempt: int
    kinds: tuple[LimitKind, ...]
    usd: float = 0.0
    """The least that its next call needs beyond its limits; 0 where it can still go on."""
    tokens: int = 0


class MoneyGranted(Message):
    """Its reservation is larger from now on; journaled before the attempt is told so."""

    kind: Literal["money.granted"] = "money.granted"
    task: str
    attempt: int
    reserved_usd: float | None = None
    """Its whole reservation now, as in `order.sent`."""
    reserved_tokens: int | None = None


class MoneyQueued(Message):
    """Too little of the budget is left for it; it gets what comes back before anything new starts."""

    kind: Literal["money.queued"] = "money.queued"
    task: str
    attempt: int


class BudgetAwaited(Message):
    """An attempt has used its part of the run's budget; the task goes on from it when there is more."""

    kind: Literal["budget.awaited"] = "budget.awaited"
    task: str
    attempt: int
