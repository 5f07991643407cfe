"""
What a run may use, has used, and has promised: pure.

Money and tokens are reserved when an order is sent and settled when it is answered; an order is sent only if what is
left covers its reservation, and it is told to keep within that. So what is used and reserved together never exceeds
the cap, however many orders are out. What a lost order used is not known: its reservation stays counted, until an
attempt that goes on from it has answered with a use that includes it.

A task with limits of its own reserves these. One without reserves a fair share of what is left: as if every slot that
can still be useful were to reserve as much, and one more, which stays in hand for attempts that must be gone on with.
A share is at least a twentieth of the cap. When the wish does not fit, the task waits for what the orders under way
will not have used; when none is under way, it takes what is left. A twentieth of the cap (or the task's own limit, if
that is less) is the least worth starting with: below it the budget counts as used.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from workers.messages import Limits, Message, Spent

_LEAST_SHARE = 20
"""A share is at least this part of the cap."""
_MICRO = 1_000_000


class Budget(Message):
    """The most a run may use. None is no cap of that kind."""

    usd: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)

    @property
    def capped(self) -> bool:
        return self.usd is not None or self.tokens is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one attempt was promised, and what it used."""

    reserved_usd: float | None = None
    reserved_tokens: int | None = None
    spent: Spent | None = None
    """None until it is answered; for ever, where it was lost."""
    models: tuple[str, ...] = ()
    part_of: int | None = None
    """The later attempt whose use has this one's in it."""
    unpriced_usd: float = 0.0
    """Counted for attempts that are part of this one, where it has no price to replace that with."""

    @property
    def counted_usd(self) -> float:
        """What it counts against the cap: its reservation, until its price is known."""
        if self.part_of is not None:
            return 0.0
        if self.spent is None or self.spent.cost_usd is None:
            return (self.reserved_usd or 0.0) + self.unpriced_usd
        return self.spent.cost_usd

    @property
    def counted_tokens(self) -> int:
        if self.part_of is not None:
            return 0
        return (self.reserved_tokens or 0) if self.spent is None else self.spent.tokens

    @property
    def open(self) -> bool:
        """Whether something is counted for it that may yet turn out to be less."""
        return self.spent is None and self.part_of is None and bool(self.reserved_usd or self.reserved_tokens)


def settled(
    uses: Mapping[int, Use], attempt: int, spent: Spent, *, models: Sequence[str], includes: Sequence[int]
) -> dict[int, Use]:
    """The uses of a task, after an attempt has answered; those it includes count with it from now on, and once."""
    found = dict(uses)
    mine = found.get(attempt, Use())
    unpriced = mine.unpriced_usd
    for other in includes:
        if other < attempt and (known := found.get(other)) is not None:
            unpriced += known.counted_usd
            found[other] = replace(known, part_of=attempt)
    found[attempt] = replace(mine, spent=spent, models=tuple(models), unpriced_usd=unpriced)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What an order may use; None is not limited by the run."""

    usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The cap, and what counts against it."""

    cap: Budget
    usd: float
    tokens: int

    @classmethod
    def of(cls, cap: Budget, uses: Iterable[Use]) -> "Ledger":
        usd, tokens = 0.0, 0
        for use in uses:
            usd += use.counted_usd
            tokens += use.counted_tokens
        return cls(cap=cap, usd=usd, tokens=tokens)

    @property
    def left_usd(self) -> float | None:
        return None if self.cap.usd is None else max(0.0, self.cap.usd - self.usd)

    @property
    def left_tokens(self) -> int | None:
        return None if self.cap.tokens is None else max(0, self.cap.tokens - self.tokens)

    def reserve(self, limits: Limits, *, useful: int, before: Use | None, last: bool) -> Reservation | None:
        """
        What an order reserves, or None where that does not fit.

        `useful` is how many slots could take orders like it; `before` the use of the attempt it goes on from, whose
        limit it is given at least; `last`: no order is under way whose reservation could come back.
        """
        had = before or Use()
        usd = _part(self.cap.usd, self.left_usd, limits.cost_usd, had.reserved_usd, useful=useful, last=last)
        tokens = _part(self.cap.tokens, self.left_tokens, limits.tokens, had.reserved_tokens, useful=useful, last=last)
        if isinstance(usd, str) or isinstance(tokens, str):
            return None
        return Reservation(
            usd=None if usd is None else math.floor(usd * _MICRO) / _MICRO or usd,
            tokens=None if tokens is None else math.floor(tokens),
        )

    def with_reserved(self, reserved: Reservation) -> "Ledger":
        return replace(self, usd=self.usd + (reserved.usd or 0.0), tokens=self.tokens + (reserved.tokens or 0))

    def used_up(self, limits: Limits) -> str | None:
        """The kind of budget of which too little is left for such an order; None where there is enough of both."""
        if _least(self.cap.usd, limits.cost_usd) > _or_no_end(self.left_usd):
            return "usd"
        if _least(self.cap.tokens, limits.tokens) > _or_no_end(self.left_tokens):
            return "tokens"
        return None

    def above(self, cap: Budget) -> Iterator[str]:
        """Of a new cap, the kinds that are below what counts already."""
        if cap.usd is not None and cap.usd < self.usd:
            yield "usd"
        if cap.tokens is not None and cap.tokens < self.tokens:
            yield "tokens"


def _part(
    cap: float | None, left: float | None, own: float | None, before: float | None, *, useful: int, last: bool
) -> float | Literal["too little"] | None:
    """The part of one kind of budget that an order takes; None where there is neither cap nor limit of its own."""
    if cap is None or left is None:
        return own
    share = max(left / (max(1, useful) + 1), _whole_share(cap))
    wish = min(own, cap) if own is not None else max(share, before or 0.0)
    if wish <= left:
        return wish
    return left if last and left >= _least(cap, own) else "too little"


def _least(cap: float | None, own: float | None) -> float:
    return 0.0 if cap is None else min(_or_no_end(own), _whole_share(cap))


def _whole_share(cap: float) -> float:
    """Whole tokens, whole millionths of a dollar: what is reserved is rounded down, and must not be nothing."""
    return max(cap / _LEAST_SHARE, 1.0 if isinstance(cap, int) else 1 / _MICRO)


def _or_no_end(amount: float | None) -> float:
    return math.inf if amount is None else amount
