"""
The budget of a run: its cap, the usage so far, and the reservations of orders under way. Pure.

Money and tokens are reserved when an order is sent, and settled when it is answered. An order is sent only if the rest
of the budget covers its reservation, which is its limit. So usage and reservations together never exceed the cap,
however many orders are out. The exception is a CLI agent, which is ended only after it has reported too much usage.

Each attempt counts its own usage, without that of attempts it resumed. An attempt that resumes reserves only its own
further usage. The limit in its order is both together, because its worker counts both.

The usage of a lost or cancelled attempt is read from the hub, which gets its transcript after each turn. The turn under
way is not in it, and the vendor's charge for a call that died with its worker is unknown: it counts as twice the
largest turn so far, at least a twentieth of the reservation, and a quarter where no turn is known. Where the hub was
not asked, or has no transcript, the whole reservation stays counted.

A task reserves its expected use, which is that of earlier tasks like it, else its own limits. Any other reserves a fair
share of the rest: as if every useful slot reserved as much, and one more slot, kept in hand for attempts that need
more. A share is at least a twentieth of the cap. When the wish does not fit, the task waits for what the orders under
way will not have used; when none is under way, it takes the rest. A twentieth of the cap, or the task's own limit if
that is less, is the least worth starting with: below it the budget counts as used.

An attempt under way may ask for more before its part is used. A grant is a larger reservation: all of this holds.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from forgepool.workers.schema.orders import LimitKind, Limits, Message, Spent, add_spent

_LEAST_SHARE = 20
"""The least share is the cap divided by this."""
_MICRO = 1_000_000
_NOTHING, _NO_LIMITS = Spent(), Limits()
DEFAULT_TURNS, DEFAULT_USD = 150, 10.0
"""The limits of an attempt by a model where its task has none of that kind."""
_TURN_SHARE, _FIRST_TURN_SHARE = 0.05, 0.25
"""The least part of a lost attempt's reservation that counts for its turn under way, with and without earlier turns."""


class Budget(Message):
    """The most a run may use. None is no cap of that kind."""

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, gt=0)

    @property
    def capped(self) -> bool:
        return self.usd is not None or self.tokens is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyAsk:
    """The request of an attempt under way for a larger part of the budget."""

    kinds: tuple[LimitKind, ...]
    usd: float = 0.0
    """The least that its next call needs; 0 where it can still go on."""
    tokens: int = 0
    at: float
    queued: bool = False
    """The budget had too little left; the attempt gets what comes back."""


class SeenUse(Message):
    """The usage of a lost or cancelled attempt, read from its transcript in the hub; zero where the hub has none."""

    used: Spent = Spent()
    """Its usage, with that of the attempts it resumed."""
    carried: Spent = Spent()
    """The part of `used` by the attempts it resumed."""
    largest_turn: Spent = Spent()
    unseen: int | None = 1
    """Turns that the hub may lack, the one under way included; None where they cannot be estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The reservation and the usage of one attempt."""

    reserved_usd: float | None = None
    reserved_tokens: int | None = None
    """Its own further usage at most, without what it carried over."""
    resumes: int | None = None
    carried: Spent = _NOTHING
    """The usage of earlier attempts in the conversation that it resumes."""
    spent: Spent | None = None
    """The usage in its answer, with what was carried over."""
    seen: SeenUse | None = None
    ended: Literal["", "lost", "untaken"] = ""
    """Its end without an answer: `lost`, or cancelled under way; `untaken`, if no worker had begun it."""
    models: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    """The accounts that it reserved with, under a treasury."""
    at_least: Spent = _NOTHING
    """Usage that later attempts are known to have carried over from it."""
    sent_at: float = 0.0
    """Unix seconds; all that it uses counts on the day on which it was sent."""

    @property
    def whole(self) -> Spent | None:
        """The usage of its whole conversation, for an attempt that resumes it; None where it is unknown."""
        known = self._known
        return known if known is not None and (known.tokens or known.cost_usd != 0.0) else None

    @property
    def own(self) -> Spent | None:
        """Its own usage as far as it is known, or None."""
        known = self._own_known
        return known if known is None else _largest(known, self.at_least)

    @property
    def _known(self) -> Spent | None:
        """The usage by its answer, else by the hub."""
        return self.seen.used if self.spent is None and self.seen is not None else self.spent

    @property
    def _own_known(self) -> Spent | None:
        return None if self._known is None else without(self._known, self.carried)

    @property
    def counted_usd(self) -> float:
        """The amount that counts against the cap: the reservation, until the usage is known."""
        return max(self._counted(self.reserved_usd, lambda spent: spent.cost_usd), self.at_least.cost_usd or 0.0)

    @property
    def counted_tokens(self) -> int:
        return max(math.ceil(self._counted(self.reserved_tokens, lambda spent: spent.tokens)), self.at_least.tokens)

    @property
    def limit_usd(self) -> float | None:
        """The limit in its order, including carried-over usage; None without a limit of that kind."""
        return None if self.reserved_usd is None else self.reserved_usd + (self.carried.cost_usd or 0.0)

    @property
    def limit_tokens(self) -> int | None:
        return None if self.reserved_tokens is None else self.reserved_tokens + self.carried.tokens

    @property
    def open(self) -> bool:
        """True while its reservation counts, and it may still use less."""
        return self.spent is None and not self.ended and bool(self.reserved_usd or self.reserved_tokens)

    def _counted(self, reserved: float | None, kind: Callable[[Spent], float | None]) -> float:
        promised = reserved or 0.0
        if self.ended == "untaken" and self.spent is None:
            return 0.0
        used = None if self._own_known is None else kind(self._own_known)
        if used is None or self.spent is not None or self.seen is None:
            return promised if used is None else used
        if self.seen.unseen is None and reserved is not None:
            return max(used, promised)
        largest = (kind(self.seen.largest_turn) or 0.0) * (self.seen.unseen or 1)
        turn = max(2 * largest, _TURN_SHARE * promised) if largest else _FIRST_TURN_SHARE * promised
        return used + turn if reserved is None else max(used, min(used + turn, promised))


def find_carried_use(uses: Mapping[int, Use], resumes: int | None) -> Spent:
    """Return the known usage that an order which resumes this attempt carries over."""
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
    Return the uses of a task after an attempt has answered.

    `carried` is the usage that it reports to have carried over from the attempts in `includes`; None stands for their
    known usage. If they used more, in turns that never reached the hub, that still counts.
    """
    settled = dict(uses)
    before = [earlier for earlier in sorted(includes) if earlier < attempt and earlier in settled]
    known = _NOTHING
    for earlier in before:
        known = add_spent(known, settled[earlier].own or _NOTHING)
    over = (known if carried is None else carried) if includes else _NOTHING
    if before and (more := without(over, known)) != _NOTHING:
        newest = settled[before[-1]]
        settled[before[-1]] = replace(newest, at_least=add_spent(newest.own or _NOTHING, more))
    own = settled.get(attempt, Use())
    settled[attempt] = replace(own, spent=spent, carried=over, models=tuple(models), ended="")
    return settled


def give_up_use(use: Use, *, taken: bool, seen: SeenUse | None) -> Use:
    """Return the use of an attempt that was lost or cancelled; `seen` is None where the hub could not be read."""
    if not taken:
        return replace(use, ended="untaken")
    carried = use.carried if seen is None else seen.carried
    return replace(use, ended="lost", seen=seen, carried=carried)


def without(whole: Spent, part: Spent) -> Spent:
    """Subtract a part from a use, down to zero. The cost stays unknown where the whole cost is."""
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


def _largest(use: Spent, other: Spent) -> Spent:
    return add_spent(use, without(other, use)) if other != _NOTHING else use


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The usage reserved for an order; None is not limited by the run."""

    usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLedger:
    """The cap, and the usage and reservations that count against it."""

    cap: Budget
    usd: float
    tokens: int
    under_way: "Reservation" = Reservation()
    """The part that is reserved for attempts under way, which may still use less."""
    lost: "Reservation" = Reservation()
    """The part that counts for attempts without an answer, beyond their known usage."""

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
        self,
        limits: Limits,
        *,
        useful: int,
        last: bool,
        before: Use | None = None,
        carried: Spent = _NOTHING,
        most: Limits = _NO_LIMITS,
        least: "Reservation | None" = None,
    ) -> "Reservation | None":
        """
        Return an order's reservation, or None where it does not fit.

        `limits` are its wish, the usage `carried` over included. `useful` is the number of slots that could take orders
        like it. `last` says that no order is under way whose reservation could come back. `before` is the use of the
        attempt that it resumes, if any: the rest of that one's reservation is the least wish. `most` limits a share,
        and less than `least` is not worth starting with.
        """
        own, rest, top = left_of(limits, carried), _rest(before), left_of(most, carried)
        floor = least or Reservation()
        usd = _part(self.cap.usd, self.left_usd, own.usd, rest.usd, top.usd, floor.usd, useful=useful, last=last)
        tokens = _part(
            self.cap.tokens,
            self.left_tokens,
            own.tokens,
            rest.tokens,
            top.tokens,
            floor.tokens,
            useful=useful,
            last=last,
        )
        if isinstance(usd, str) or isinstance(tokens, str):
            return None
        return Reservation(
            usd=None if usd is None else math.floor(usd * _MICRO) / _MICRO or usd,
            tokens=None if tokens is None else math.floor(tokens),
        )

    def with_reserved(self, reserved: Reservation) -> "BudgetLedger":
        return replace(self, usd=self.usd + (reserved.usd or 0.0), tokens=self.tokens + (reserved.tokens or 0))

    def find_used_up(
        self,
        limits: Limits,
        carried: Spent = _NOTHING,
        *,
        most: Limits = _NO_LIMITS,
        least: "Reservation | None" = None,
    ) -> LimitKind | None:
        """Return the kind of budget that is used up for such an order; None where there is enough of both."""
        own, top, floor = left_of(limits, carried), left_of(most, carried), least or Reservation()
        if _least(self.cap.usd, own.usd, top.usd, floor.usd) > _or_no_end(self.left_usd):
            return "usd"
        if _least(self.cap.tokens, own.tokens, top.tokens, floor.tokens) > _or_no_end(self.left_tokens):
            return "tokens"
        return None

    def above(self, cap: Budget) -> Iterator[str]:
        """Yield the kinds of a new cap that are below the usage and reservations so far."""
        if cap.usd is not None and cap.usd < self.usd:
            yield "usd"
        if cap.tokens is not None and cap.tokens < self.tokens:
            yield "tokens"


def _held(uses: Iterable[Use]) -> Reservation:
    """Sum what counts for these attempts beyond their known usage."""
    usd, tokens = 0.0, 0
    for use in uses:
        known = use.own or _NOTHING
        usd += max(0.0, use.counted_usd - (known.cost_usd or 0.0))
        tokens += max(0, use.counted_tokens - known.tokens)
    return Reservation(usd=usd, tokens=tokens)


def left_of(limits: Limits, carried: Spent) -> Reservation:
    """Return the rest of a task's own limits after carried-over usage."""
    usd, tokens = limits.cost_usd, limits.tokens
    return Reservation(
        usd=None if usd is None else max(0.0, usd - (carried.cost_usd or 0.0)),
        tokens=None if tokens is None else max(0, tokens - carried.tokens),
    )


def _rest(before: Use | None) -> Reservation:
    """Return the unused rest of an attempt's reservation."""
    used = (use := before or Use()).own or _NOTHING
    usd, tokens = (use.reserved_usd or 0.0) - (used.cost_usd or 0.0), (use.reserved_tokens or 0) - used.tokens
    return Reservation(usd=max(0.0, usd), tokens=max(0, tokens))


def _part(
    cap: float | None,
    left: float | None,
    own: float | None,
    before: float | None,
    most: float | None,
    floor: float | None,
    *,
    useful: int,
    last: bool,
) -> float | Literal["too little"] | None:
    """Return the part of one kind of budget that an order takes; None where neither cap nor own limit is set."""
    if cap is None or left is None:
        return own
    share = max(left / (max(1, useful) + 1), _whole_share(cap))
    least = _least(cap, own, most, floor)
    wish = min(own, cap) if own is not None else min(max(share, before or 0.0, least), _or_no_end(most))
    if wish <= left:
        return wish
    return left if last and left >= least else "too little"


def _least(cap: float | None, own: float | None, most: float | None, floor: float | None) -> float:
    if cap is None:
        return 0.0
    return min(_or_no_end(own), _or_no_end(most), max(_whole_share(cap), floor or 0.0))


def find_least_share(cap: Budget) -> "Reservation":
    """Return the least that is worth starting an order with."""
    return Reservation(
        usd=None if cap.usd is None else _whole_share(cap.usd),
        tokens=None if cap.tokens is None else math.ceil(_whole_share(cap.tokens)),
    )


def _whole_share(cap: float) -> float:
    """Return the least share: at least one token, or a millionth of a dollar, since reservations are rounded down."""
    return max(cap / _LEAST_SHARE, 1.0 if isinstance(cap, int) else 1 / _MICRO)


def _or_no_end(amount: float | None) -> float:
    return math.inf if amount is None else amount
