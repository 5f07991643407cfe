"""
The limits of a treasury on what all runs together use, and what they leave to one run. Pure.

An attempt or a review counts in the day and month (UTC) in which it was sent, with its reservation until its use is
known. So nothing moves from one period into the next. Amounts are whole millionths of a dollar, and tokens.
"""

import calendar
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from pydantic import Field

from forgepool.orchestrator.journal.run_events import TreasuryLimited
from forgepool.orchestrator.plan.budget import Budget, BudgetLedger, Reservation, Use
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.documents import Version
from forgepool.workers.schema.orders import Message

MICRO = 1_000_000
_PAD_USD, _PAD_TOKENS = 1 / MICRO, 1
"""Added to a cap and counted as used: what is left stays as it is, and no cap is ever zero."""
_MARGIN = 2
"""Amounts are rounded to whole ones here and in the ledger of the run."""
UNCOUNTED = "uncounted: "
PROGRAM = "cli:"
"""An account of a CLI agent begins so: its program may have a login of its own."""
_LEAST = 50
"""With less than a limit divided by this left, it counts as reached: an attempt could do little with it."""


class TreasuryLimit(Message):
    """A limit on what models use in each day or month. It holds for an account, a project, a person, or for all."""

    account: str = ""
    """An account of `models.yaml`, or `cli:` and the name of a CLI agent's program; empty for all."""
    project: str = ""
    """The address of a repository; empty for all."""
    person: str = ""
    """The name of a person who starts runs; empty for all."""
    per: Literal["day", "month"]
    """The period, by UTC."""
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, gt=0)
    at_limit: Literal["hard", "warn", "ask"] = "hard"
    """`hard`: work waits for the next period. `ask`: a person is asked. `warn`: it is said once, and work goes on."""

    @property
    def scope(self) -> str:
        named = {"account": self.account, "project": self.project, "person": self.person}
        return next((f"{kind} {name}" for kind, name in named.items() if name), "all")

    def period(self, at: float) -> str:
        return time.strftime("%Y-%m-%d" if self.per == "day" else "%Y-%m", time.gmtime(at))


class TreasurySource(Message):
    """The file `treasury.yaml`."""

    version: Version
    kept_for_reviews: float = Field(default=0.1, ge=0, le=0.9)
    """The share of each limit that only reviews may use."""
    limits: tuple[TreasuryLimit, ...] = Field(min_length=1)


class Totals(NamedTuple):
    """The amounts that count in one period: reservations, until the use is known."""

    orders_usd: int = 0
    reviews_usd: int = 0
    orders_tokens: int = 0
    reviews_tokens: int = 0

    def add(self, other: "Totals") -> "Totals":
        return Totals(*(one + another for one, another in zip(self, other, strict=True)))


NO_TOTALS = Totals()


class CountedUse(NamedTuple):
    """One use as it counts."""

    at: float
    review: bool
    usd: float
    tokens: int
    accounts: tuple[str, ...] = ()
    """The accounts that it reserved with."""
    used: tuple[str, ...] = ()
    """The accounts that it may have used."""

    def counts_for(self, limit: TreasuryLimit) -> bool:
        """Tell whether it counts for a limit, by its account: one with a limit is asked only if it is reserved with."""
        if not limit.account or limit.at_limit == "warn":
            return not limit.account or limit.account in self.used
        return limit.account in self.accounts and limit.account in self.used


Offered = Mapping[str, tuple[str, ...]]
"""By model, the accounts that offer it."""
_NONE_OFFERED: Offered = {}


def find_accounts_used(accounts: tuple[str, ...], models: Iterable[str], offered: Offered) -> tuple[str, ...]:
    """
    Return the accounts that a use may have asked: those that offer a model which has answered. As long as that is not
    known, and for a CLI agent, they are those that it reserved with.
    """
    answered = list(models)
    if not answered or any(one.startswith(PROGRAM) for one in accounts) or not offered.keys() >= {*answered}:
        return accounts
    return accounts and tuple(dict.fromkeys(account for model in answered for account in offered[model]))


def list_counted(state: RunState, offered: Offered = _NONE_OFFERED) -> Iterator[CountedUse]:
    for task in (*state.tasks.values(), *state.removed.values()):
        yield from _counted(task.uses.values(), offered, review=False)
        yield from _counted(task.review.uses.values(), offered, review=True)
    yield from _counted(state.wave_review.review.uses.values(), offered, review=True)


def _counted(uses: Iterable[Use], offered: Offered, *, review: bool) -> Iterator[CountedUse]:
    for use in uses:
        used = find_accounts_used(use.accounts, use.models, offered)
        yield CountedUse(use.sent_at, review, use.counted_usd, use.counted_tokens, use.accounts, used)


def sum_counted(counted: Iterable[CountedUse], limit: TreasuryLimit, period: str) -> Totals:
    """Add up what was sent in the period, with the limit's account if it has one."""
    usd, tokens = [0.0, 0.0], [0, 0]
    for one in counted:
        if limit.period(one.at) == period and one.counts_for(limit):
            usd[one.review] += one.usd
            tokens[one.review] += one.tokens
    return Totals(to_micro(usd[0]), to_micro(usd[1]), tokens[0], tokens[1])


def to_micro(usd: float) -> int:
    """Return whole millionths, rounded up, but for what a sum of floats is off."""
    return math.ceil(usd * MICRO - 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStanding:
    """A limit in one period, and what the other runs have of it."""

    limit: TreasuryLimit
    at: float
    """A time in the period."""
    kept: float = 0.0
    """The share that only reviews may use."""
    others: Totals = NO_TOTALS

    @property
    def period(self) -> str:
        return self.limit.period(self.at)

    @property
    def cell(self) -> str:
        """Its name, which all runs use that have such a limit."""
        return f"{self.limit.scope} {self.period}"

    @property
    def name(self) -> str:
        """Its name in the journal: a word of a person is about this limit, and no other on the same amounts."""
        return f"{self.cell} {self.limit.at_limit} {self.limit.usd} {self.limit.tokens}"

    @property
    def until(self) -> float:
        """Unix seconds at which the period ends."""
        now = time.gmtime(self.at)
        if self.limit.per == "day":
            return calendar.timegm((now.tm_year, now.tm_mon, now.tm_mday + 1, 0, 0, 0))
        return calendar.timegm((now.tm_year, now.tm_mon + 1, 1, 0, 0, 0))

    @property
    def caps(self) -> tuple[int | None, int | None]:
        """Millionths of a dollar, and tokens."""
        return (None if self.limit.usd is None else round(self.limit.usd * MICRO), self.limit.tokens)

    def parts(self) -> tuple[int, int]:
        """Return the part of both that only reviews may use."""
        usd, tokens = self.caps
        return (int((usd or 0) * self.kept), int((tokens or 0) * self.kept))

    def left(self, mine: Totals, *, review: bool) -> tuple[int | None, int | None]:
        """Return what is left of both kinds for an order, or for a review."""
        used, caps, parts = mine.add(self.others), self.caps, self.parts()
        spent = ((used.orders_usd, used.reviews_usd), (used.orders_tokens, used.reviews_tokens))
        found: list[int | None] = []
        for cap, part, (orders, reviews) in zip(caps, parts, spent, strict=True):
            left = None if cap is None else cap - orders - (reviews if review else max(reviews, part)) - _MARGIN
            found.append(left if left is None or cap is None or left >= cap / _LEAST else 0)
        return found[0], found[1]

    def is_reached(self, mine: Totals) -> bool:
        used = mine.add(self.others)
        spent = (used.orders_usd + used.reviews_usd, used.orders_tokens + used.reviews_tokens)
        return any(cap is not None and amount >= cap for amount, cap in zip(spent, self.caps, strict=True))

    def words(self, mine: Totals, *, reached: bool) -> str:
        """Return that the limit is reached, or leaves too little, and when its period ends."""
        used, parts = mine.add(self.others), []
        if self.limit.usd is not None:
            spent = (used.orders_usd + used.reviews_usd) / MICRO
            parts.append(f"{spent:.2f} of {self.limit.usd:.2f} USD")
        if self.limit.tokens is not None:
            parts.append(f"{used.orders_tokens + used.reviews_tokens:,} of {self.limit.tokens:,} tokens")
        ends = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.until))
        whose = "all runs" if self.limit.scope == "all" else f"all runs of {self.limit.scope}"
        return (
            f"the treasury's limit of the {self.limit.per} {'is reached' if reached else 'leaves too little'}: "
            f"{' and '.join(parts)} are spent or reserved by {whose}; the {self.limit.per} ends at {ends}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAccounts:
    """The accounts that a run may ask, by the table of models."""

    orders: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """By task, for each model that its attempts begin with, the accounts in the order in which they are asked."""
    beside: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """The same, by task that races, for the model of the attempt beside the first one."""
    reviewers: tuple[tuple[str, str], ...] = ()
    """The accounts of the models that review, each with the family of its model."""
    offered: Offered = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreasuryFacts:
    """The limits that hold for a run, as they stand when it decides."""

    current: tuple[LimitStanding, ...]
    open: bool = True
    """False until all runs have said what they use: until then nothing may be reserved."""
    uncounted: tuple[str, ...] = ()
    """Sentences on journals whose amounts the limits know nothing of."""
    asked: AskedAccounts = AskedAccounts()
    accounts: tuple[str, ...] = ()
    """The accounts of one order or review, whose limits hold it back as well; none for the run as a whole."""
    _sums: dict[str, tuple[int, Totals]] = field(default_factory=dict, compare=False, repr=False)
    _restricted: dict[Budget, tuple[int, BudgetLedger]] = field(default_factory=dict, compare=False, repr=False)
    _narrowed: dict[tuple[str, ...], "TreasuryFacts"] = field(default_factory=dict, compare=False, repr=False)

    def narrow(self, accounts: tuple[str, ...]) -> "TreasuryFacts":
        """Return the limits as they hold for an order or a review that asks these accounts."""
        if accounts not in self._narrowed:
            self._narrowed[accounts] = replace(self, accounts=accounts, _restricted={}, _narrowed=self._narrowed)
        return self._narrowed[accounts]

    def choose(self, state: RunState, task: str, *, beside: bool = False) -> tuple[str, ...]:
        """
        Return the accounts that an order of a task reserves with. For each of its models it is the first with room, and
        where none has any, the first of all.
        """
        chains = (self.asked.beside if beside else self.asked.orders).get(task, ())
        chosen = (next((one for one in chain if self.has_room(state, one)), chain[0]) for chain in chains if chain)
        return tuple(dict.fromkeys(chosen))

    def choose_for_review(self, state: RunState, families: Collection[str]) -> tuple[str, ...]:
        """Return the accounts that a review of work of these families reserves with: all that have room, else all."""
        able = tuple(dict.fromkeys(one for one, family in self.asked.reviewers if family not in families))
        return tuple(one for one in able if self.has_room(state, one, review=True)) or able

    def has_room(self, state: RunState, account: str, *, review: bool = False) -> bool:
        """Tell whether all limits of an account leave room."""
        own = (one for one in self.current if one.limit.account == account and restricts(state, one))
        return all(0 not in self._left(state, one, review=review) for one in own)

    def list_closed(self, state: RunState, accounts: Collection[str]) -> tuple[str, ...]:
        """Return the accounts that may not be asked by what has reserved with these: all others that have a limit."""
        limited = {one.limit.account for one in self.current if one.limit.account and restricts(state, one)}
        return tuple(sorted(limited.difference(accounts)))

    def mine(self, state: RunState, standing: LimitStanding) -> Totals:
        """Return what the run itself has of a limit."""
        number, found = self._sums.get(standing.cell, (-1, Totals()))
        if number != state.number:
            found = sum_counted(list_counted(state, self.asked.offered), standing.limit, standing.period)
            self._sums[standing.cell] = state.number, found
        return found

    def restrict(self, own: Budget, state: RunState) -> BudgetLedger:
        """
        Return the budget of the run with what counts of it; where the treasury leaves less, what it leaves, with what
        the run has in the same period.
        """
        known = self._restricted.get(own)
        if known is None or known[0] != state.number:
            known = self._restricted[own] = state.number, self._restrict(own, state)
        return known[1]

    def _restrict(self, own: Budget, state: RunState) -> BudgetLedger:
        ledger, left = BudgetLedger.of(own, state.uses()), self.left(state, review=True)
        usd, tokens = own.usd, own.tokens
        if left.usd is not None and (ledger.left_usd is None or left.usd < ledger.left_usd):
            mine = self._mine_of_tightest(state, 0) / MICRO + _PAD_USD
            usd, ledger = mine + left.usd, replace(ledger, usd=mine)
        if left.tokens is not None and (ledger.left_tokens is None or left.tokens < ledger.left_tokens):
            mine_tokens = self._mine_of_tightest(state, 1) + _PAD_TOKENS
            tokens, ledger = mine_tokens + left.tokens, replace(ledger, tokens=mine_tokens)
        return replace(ledger, cap=Budget(usd=usd, tokens=tokens))

    def _mine_of_tightest(self, state: RunState, kind: Literal[0, 1]) -> int:
        """Return what the run has of the limit with the least left, on dollars or on tokens."""
        lefts = ((self._left(state, standing)[kind], standing) for standing in self._restricting(state))
        found = [(left, standing) for left, standing in lefts if left is not None]
        mine = self.mine(state, min(found, key=lambda one: one[0])[1])
        return mine.orders_tokens + mine.reviews_tokens if kind else mine.orders_usd + mine.reviews_usd

    def _left(self, state: RunState, standing: LimitStanding, *, review: bool = True) -> tuple[int | None, int | None]:
        return standing.left(self.mine(state, standing), review=review)

    def left(self, state: RunState, *, review: bool, task: TaskState | None = None) -> Reservation:
        """
        Return what an order or a review may reserve now; None is without limit. A `task` under way that was sent in an
        earlier period gets no more: it goes on with another attempt.
        """
        use = None if task is None or task.phase != "running" else task.uses.get(task.attempt)
        usd: list[int] = []
        tokens: list[int] = []
        for standing in self._restricting(state):
            shut = not self.open or (use is not None and standing.limit.period(use.sent_at) != standing.period)
            found = self._left(state, standing, review=review)
            usd += [] if found[0] is None else [0 if shut else found[0]]
            tokens += [] if found[1] is None else [0 if shut else found[1]]
        return Reservation(usd=min(usd) / MICRO if usd else None, tokens=min(tokens) if tokens else None)

    def _restricting(self, state: RunState) -> Iterator[LimitStanding]:
        held_by = ("", *self.accounts)
        return (one for one in self.current if one.limit.account in held_by and restricts(state, one))

    def find_tightest(self, state: RunState, *, review: bool) -> LimitStanding | None:
        """Return the limit that work meets first; None where no limit holds work back."""
        found: list[tuple[float, LimitStanding]] = []
        for kind in (0, 1):
            lefts = [
                (left, standing)
                for standing in (self._restricting(state) if self.open else ())
                if (left := self._left(state, standing, review=review)[kind]) is not None
            ]
            if lefts:
                left, standing = min(lefts, key=lambda one: one[0])
                found.append((left / (standing.caps[kind] or 1), standing))
        return min(found, key=lambda one: one[0])[1] if found else None

    def note(
        self, state: RunState, standing: LimitStanding, effect: Literal["waits", "asks", "warned"], task: str = ""
    ) -> TreasuryLimited:
        words = standing.words(self.mine(state, standing), reached=effect == "warned")
        waiting = task if standing.limit.account else ""
        return TreasuryLimited(limit=standing.name, effect=effect, words=words, until=standing.until, task=waiting)

    def warn(self, state: RunState) -> Iterator[TreasuryLimited]:
        """Yield, once in a period, that a limit is reached that only warns; and once, what no limit counts."""
        for problem in self.uncounted:
            if (name := f"{UNCOUNTED}{problem}") not in state.treasury:
                words = f"the treasury's limits may be passed by what another run has used, which is unknown: {problem}"
                yield TreasuryLimited(limit=name, effect="warned", words=words)
        for standing in self.current if self.open else ():
            is_new = standing.limit.at_limit == "warn" and standing.name not in state.treasury
            if is_new and standing.is_reached(self.mine(state, standing)):
                yield self.note(state, standing, "warned")


def restricts(state: RunState, standing: LimitStanding) -> bool:
    """Tell whether nothing may be reserved beyond it: a person may have let the run pass it in its period."""
    noted = state.treasury.get(standing.name)
    return standing.limit.at_limit != "warn" and (noted is None or noted.effect != "passed")
