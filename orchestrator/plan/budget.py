"""
What a run may use, has used, and has promised: pure.

Money and tokens are reserved when an order is sent and settled when it is answered; an order is sent only if what is
left covers its reservation, and it is told to keep within that. So what is used and reserved together never exceeds
the cap, however many orders are out. One thing can pass it: a CLI agent is ended only after it has told that it used
too much. What was used beyond a reservation counts as it is.

Each attempt counts what it used itself, without what it carried over from those it went on from. One that goes on
reserves only what it may use besides; the limit it is told is both together, because its worker counts both.

What an attempt used that was lost or cancelled is read in the hub, which is given its transcript after each turn. A
turn that was under way is not in it, and what a vendor charges for a call that died with its worker nobody knows: twice
the largest turn so far is counted for it, and a twentieth of the reservation at least; a quarter where no turn is
known. Where the hub was not asked, or is given no transcript, the whole reservation stays counted.

A task with limits of its own reserves these. One without reserves a fair share of what is left: as if every slot that
can still be useful were to reserve as much, and one more, which stays in hand for attempts that must be gone on with.
A share is at least a twentieth of the cap. When the wish does not fit, the task waits for what the orders under way
will not have used; when none is under way, it takes what is left. A twentieth of the cap (or the task's own limit, if
that is less) is the least worth starting with: below it the budget counts as used.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from forgepool.workers.context.transcript.usage import add_spent
from forgepool.workers.schema.orders import Limits, Message, Spent

_LEAST_SHARE = 20
"""A share is at least this part of the cap."""
_MICRO = 1_000_000
_NOTHING = Spent()
_TURN_SHARE, _FIRST_TURN_SHARE = 0.05, 0.25
"""Of its reservation, the least that is counted for a turn under way when an attempt was lost."""


class Budget(Message):
    """The most a run may use. None is no cap of that kind."""

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, gt=0)

    @property
    def capped(self) -> bool:
        return self.usd is not None or self.tokens is not None


class SeenUse(Message):
    """What the hub's transcript says of an attempt that was lost or cancelled; nothing of all where it has none."""

    used: Spent = Spent()
    """With what it went on from."""
    carried: Spent = Spent()
    """Of that, what it went on from."""
    largest_turn: Spent = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one attempt was promised, and what it used."""

    reserved_usd: float | None = None
    reserved_tokens: int | None = None
    """What it may use itself, besides what it carried over."""
    resumes: int | None = None
    carried: Spent = _NOTHING
    """What attempts before it had used, in the conversation it goes on with."""
    spent: Spent | None = None
    """As it answered, with what was carried over."""
    seen: SeenUse | None = None
    ended: Literal["", "lost", "untaken"] = ""
    """How it ended without an answer; `lost` is also cancelled under way, `untaken` that nobody had begun it."""
    models: tuple[str, ...] = ()
    at_least: Spent = _NOTHING
    """What others are known to have carried over from it."""

    @property
    def whole(self) -> Spent | None:
        """All of its conversation, for who goes on with it; None where nothing of it is known."""
        found = self.seen.used if self.spent is None and self.seen is not None else self.spent
        return found if found is not None and (found.tokens or found.cost_usd != 0.0) else None

    @property
    def own(self) -> Spent | None:
        """What it is known to have used itself; None where nothing is known."""
        known = self._told
        return known if known is None else _largest(known, self.at_least)

    @property
    def _told(self) -> Spent | None:
        """By its answer, or by the hub."""
        told = self.seen.used if self.spent is None and self.seen is not None else self.spent
        return None if told is None else without(told, self.carried)

    @property
    def counted_usd(self) -> float:
        """What it counts against the cap: its reservation, until its price is known."""
        return max(self._counted(self.reserved_usd, lambda spent: spent.cost_usd), self.at_least.cost_usd or 0.0)

    @property
    def counted_tokens(self) -> int:
        return max(math.ceil(self._counted(self.reserved_tokens, lambda spent: spent.tokens)), self.at_least.tokens)

    @property
    def limit_usd(self) -> float | None:
        """What its worker is told, who counts what is carried over, too; None without a limit of that kind."""
        return None if self.reserved_usd is None else self.reserved_usd + (self.carried.cost_usd or 0.0)

    @property
    def limit_tokens(self) -> int | None:
        return None if self.reserved_tokens is None else self.reserved_tokens + self.carried.tokens

    @property
    def open(self) -> bool:
        """Whether something is counted for it that may yet turn out to be less."""
        return self.spent is None and not self.ended and bool(self.reserved_usd or self.reserved_tokens)

    def _counted(self, reserved: float | None, kind: Callable[[Spent], float | None]) -> float:
        promised = reserved or 0.0
        if self.ended == "untaken" and self.spent is None:
            return 0.0
        used = None if self._told is None else kind(self._told)
        if used is None or self.spent is not None or self.seen is None:
            return promised if used is None else used
        largest = kind(self.seen.largest_turn) or 0.0
        turn = max(2 * largest, _TURN_SHARE * promised) if largest else _FIRST_TURN_SHARE * promised
        return used + turn if reserved is None else max(used, min(used + turn, promised))


def find_carried_use(uses: Mapping[int, Use], resumes: int | None) -> Spent:
    """What an order that goes on from this attempt finds used already, as far as is known."""
    while resumes is not None and (use := uses.get(resumes)) is not None:
        if use.whole is not None:
            return use.whole
        resumes = use.resumes
    return _NOTHING


def settle_use(
    uses: Mapping[int, Use],
    attempt: int,
    spent: Spent,
    *,
    models: Sequence[str],
    includes: Sequence[int],
    carried: Spent | None = None,
) -> dict[int, Use]:
    """
    The uses of a task, after an attempt has answered.

    `carried` is what it says to have carried over from those it includes; None, where it does not say so, is all that
    these are known to have used. Whatever they used besides, as turns that never reached the hub, counts on.
    """
    found = dict(uses)
    before = [one for one in sorted(includes) if one < attempt and one in found]
    known = _NOTHING
    for one in before:
        known = add_spent(known, found[one].own or _NOTHING)
    over = (known if carried is None else carried) if includes else _NOTHING
    if before and (more := without(over, known)) != _NOTHING:
        newest = found[before[-1]]
        found[before[-1]] = replace(newest, at_least=add_spent(newest.own or _NOTHING, more))
    mine = found.get(attempt, Use())
    found[attempt] = replace(mine, spent=spent, carried=over, models=tuple(models), ended="")
    return found


def give_up_use(use: Use, *, taken: bool, seen: SeenUse | None) -> Use:
    """An attempt that was lost or cancelled; `seen` is None where the hub was not asked, or could not tell."""
    if not taken:
        return replace(use, ended="untaken")
    carried = use.carried if seen is None else seen.carried
    return replace(use, ended="lost", seen=seen, carried=carried)


def without(whole: Spent, part: Spent) -> Spent:
    """What is left of a use without a part of it; never less than nothing. Unknown where the whole cost is."""
    if part == _NOTHING:
        return whole
    cost = None if whole.cost_usd is None else max(0.0, whole.cost_usd - (part.cost_usd or 0.0))
    return Spent(
        seconds=max(0.0, whole.seconds - part.seconds),
        turns=max(0, whole.turns - part.turns),
        input_tokens=max(0, whole.input_tokens - part.input_tokens),
        output_tokens=max(0, whole.output_tokens - part.output_tokens),
        cached_tokens=max(0, whole.cached_tokens - part.cached_tokens),
        cost_usd=cost,
    )


def _largest(one: Spent, other: Spent) -> Spent:
    return add_spent(one, without(other, one)) if other != _NOTHING else one


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What an order may use; None is not limited by the run."""

    usd: float | None = None
    tokens: int | None = None


Kind = Literal["usd", "tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLedger:
    """The cap, and what counts against it."""

    cap: Budget
    usd: float
    tokens: int
    under_way: "Reservation" = Reservation()
    """Of that, what is reserved for attempts that may still use less."""
    lost: "Reservation" = Reservation()
    """Of that, what is counted for attempts that never answered, without what they are known to have used."""

    @classmethod
    def of(cls, cap: Budget, uses: Iterable[Use]) -> "BudgetLedger":
        every = list(uses)
        return cls(
            cap=cap,
            usd=sum(use.counted_usd for use in every),
            tokens=sum(use.counted_tokens for use in every),
            under_way=_held(use for use in every if use.spent is None and not use.ended),
            lost=_held(use for use in every if use.spent is None and use.ended),
        )

    @property
    def left_usd(self) -> float | None:
        return None if self.cap.usd is None else max(0.0, self.cap.usd - self.usd)

    @property
    def left_tokens(self) -> int | None:
        return None if self.cap.tokens is None else max(0, self.cap.tokens - self.tokens)

    def reserve(
        self, limits: Limits, *, useful: int, last: bool, before: Use | None = None, carried: Spent = _NOTHING
    ) -> Reservation | None:
        """
        What an order reserves, or None where that does not fit.

        `useful` is how many slots could take orders like it; `last`: no order is under way whose reservation could come
        back. One that goes on with an attempt carries over what that used, which counts within its own limits;
        `before` is the use of that attempt: what is left of what was reserved for it is the least that is wished for.
        """
        own, rest = left_of(limits, carried), _rest(before)
        usd = _part(self.cap.usd, self.left_usd, own.usd, rest.usd, useful=useful, last=last)
        tokens = _part(self.cap.tokens, self.left_tokens, own.tokens, rest.tokens, useful=useful, last=last)
        if isinstance(usd, str) or isinstance(tokens, str):
            return None
        return Reservation(
            usd=None if usd is None else math.floor(usd * _MICRO) / _MICRO or usd,
            tokens=None if tokens is None else math.floor(tokens),
        )

    def with_reserved(self, reserved: Reservation) -> "BudgetLedger":
        return replace(self, usd=self.usd + (reserved.usd or 0.0), tokens=self.tokens + (reserved.tokens or 0))

    def find_used_up(self, limits: Limits, carried: Spent = _NOTHING) -> Kind | None:
        """The kind of budget of which too little is left for such an order; None where there is enough of both."""
        own = left_of(limits, carried)
        if _least(self.cap.usd, own.usd) > _or_no_end(self.left_usd):
            return "usd"
        if _least(self.cap.tokens, own.tokens) > _or_no_end(self.left_tokens):
            return "tokens"
        return None

    def above(self, cap: Budget) -> Iterator[str]:
        """Of a new cap, the kinds that are below what counts already."""
        if cap.usd is not None and cap.usd < self.usd:
            yield "usd"
        if cap.tokens is not None and cap.tokens < self.tokens:
            yield "tokens"


def _held(uses: Iterable[Use]) -> Reservation:
    """What counts for these without being known to be used."""
    usd, tokens = 0.0, 0
    for use in uses:
        known = use.own or _NOTHING
        usd += max(0.0, use.counted_usd - (known.cost_usd or 0.0))
        tokens += max(0, use.counted_tokens - known.tokens)
    return Reservation(usd=usd, tokens=tokens)


def left_of(limits: Limits, carried: Spent) -> Reservation:
    """Of a task's own limits, what an attempt may use itself."""
    usd, tokens = limits.cost_usd, limits.tokens
    return Reservation(
        usd=None if usd is None else max(0.0, usd - (carried.cost_usd or 0.0)),
        tokens=None if tokens is None else max(0, tokens - carried.tokens),
    )


def _rest(before: Use | None) -> Reservation:
    """What an attempt has not used of what was reserved for it."""
    use = before or Use()
    used = use.own or _NOTHING
    return Reservation(
        usd=max(0.0, (use.reserved_usd or 0.0) - (used.cost_usd or 0.0)),
        tokens=max(0, (use.reserved_tokens or 0) - used.tokens),
    )


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
