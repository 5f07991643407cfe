"""
A provider that stands for several: asks the first that can be asked, and the next when that one gives nothing.

A conversation stays with whoever answers it, for as long as that works: its prompt is in that one's cache, and that one
alone reads its own reasoning. After a fall the conversation stays where it fell to. To wait and ask again is `retry`'s,
who is shut off for all workers is `breaker`'s. A turn that comes from here has its price, and is called by our name for
its model.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from forgepool.workers.llm.messages import Turn, Usage
from forgepool.workers.llm.provider import (
    PASSING,
    Hear,
    ModelFailed,
    ModelRequest,
    Provider,
    ProviderTry,
    Trouble,
    deaf,
)
from forgepool.workers.llm.routing.breaker import FIRST_PAUSE_S, Breaker, Pair, Probe, Shut, Verdict
from forgepool.workers.llm.routing.router import ModelChoice, Tariff

_SLICE_S = 0.2
"""Seconds between two questions whether to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long, and how often."""

    attempts: int = 6
    total_s: float = 600.0
    """Seconds after the first try began, after which no other begins."""
    first_wait_s: float = 1.0
    """Doubled with each further wait."""
    longest_wait_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """The clock (Unix seconds), sleep and chance: arguments, so that hours can be tried out in no time."""

    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    """A number from 0 to 1."""


def goes_on(failure: ModelFailed) -> bool:
    """Nothing speaks against another try."""
    return True


@dataclass(slots=True, kw_only=True)
class Retrying:
    """A provider that asks another one, which asks once."""

    provider: Provider
    model: str
    account: str
    """Both are for what is told of tries."""
    patience: Patience = field(default_factory=Patience)
    time: Time = field(default_factory=Time)
    worth_it: Callable[[ModelFailed], bool] = goes_on
    """Told of every failed try, and asked whether another one is wanted by anybody."""

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        began = self.time.clock()
        attempt = 0
        while True:
            attempt += 1
            tried_at = self.time.clock()
            try:
                return self.provider.ask(request, stop=stop, hear=hear)
            except ModelFailed as failure:
                if failure.trouble == "stopped":
                    raise
                now = self.time.clock()
                _date(failure, now)
                wait_s = self._wait_s(failure, attempt, now - began) if self.worth_it(failure) else None
                hear(self._told(failure, now - tried_at, wait_s))
                if wait_s is None:
                    raise
                wait(wait_s, stop=stop, sleep=self.time.sleep)

    def _wait_s(self, failure: ModelFailed, attempt: int, spent_s: float) -> float | None:
        """Seconds until the next try; None where there is to be none."""
        wait_s = pause_s(failure, attempt, self.patience, self.time.chance())
        over = attempt >= self.patience.attempts or wait_s is None or spent_s + wait_s > self.patience.total_s
        return None if over else wait_s

    def _told(self, failure: ModelFailed, seconds: float, wait_s: float | None) -> ProviderTry:
        return ProviderTry(
            model=self.model,
            account=self.account,
            trouble=failure.trouble,
            said=str(failure),
            status=failure.status,
            seconds=seconds,
            wait_s=wait_s,
            usage=failure.usage,
        )


def pause_s(failure: ModelFailed, attempt: int, patience: Patience, chance: float) -> float | None:
    """
    Seconds to wait after the try with this number, from 1; None where waiting is no use, or would be too long.

    Without the vendor's word: half of a doubling pause, and up to as much again by chance, so that those who failed
    together do not come back together. With it: that long, but never less than the first pause (some say 0 as long as
    the trouble lasts), and up to a tenth of it more.
    """
    if failure.trouble not in PASSING:
        return None
    if failure.retry_after_s is not None:
        if failure.retry_after_s > patience.longest_wait_s:
            return None
        return max(failure.retry_after_s, patience.first_wait_s) * (1 + chance / 10)
    # Not 2**attempt alone: a float ends somewhere.
    doubled = min(patience.longest_wait_s, patience.first_wait_s * 2.0 ** min(attempt - 1, 30))
    return doubled * (1 + chance) / 2


def wait(seconds: float, *, stop: Callable[[], bool], sleep: Callable[[float], None]) -> None:
    """
    Sleeps so long, in pieces.

    Raises:
        ModelFailed: the asker gave up meanwhile.
    """
    left_s = seconds
    while left_s > 0:
        if stop():
            raise ModelFailed("stopped while waiting to ask again", trouble="stopped")
        piece_s = min(left_s, _SLICE_S)
        sleep(piece_s)
        left_s -= piece_s


def _date(failure: ModelFailed, now: float) -> None:
    """Notes when the trouble is over, wherever the vendor said in how many seconds."""
    if failure.resets_at is None and failure.retry_after_s is not None:
        failure.resets_at = now + failure.retry_after_s


_NO_MATTER_WHOM: frozenset[Trouble] = frozenset(("overflow", "stopped", "no_turn"))
"""Troubles of the conversation or its asker, that no other model mends."""
_FOR_GOOD: frozenset[Trouble] = frozenset(("authentication", "bad_request"))
"""Troubles that this conversation would have with this model again."""
_LIMITS: frozenset[Trouble] = frozenset(("usage_limit", "rate_limit"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contender:
    """A candidate with all that it takes to ask it."""

    candidate: ModelChoice
    tariff: Tariff
    open: Callable[[], Provider]
    """Called once, when it is first asked; the provider asks once."""
    wanting: str = ""
    """Why it cannot be asked at all, as what would change that; empty when it can."""

    @property
    def pair(self) -> Pair:
        return (self.candidate.account, self.candidate.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passed:
    """Why one contender gave nothing; `until`: when it may, as far as that is known."""

    contender: Contender
    why: str
    trouble: Trouble = "unavailable"
    until: float | None = None


@dataclass(slots=True, kw_only=True)
class ModelChain:
    """Asked about one conversation. Its `why` is a sentence on the choice of models."""

    contenders: tuple[Contender, ...]
    """In the order in which they are to be asked."""
    breaker: Breaker
    why: str = ""
    loyal: bool = True
    """Whether a conversation that somebody among them has begun goes on with that one."""
    patience: Patience = field(default_factory=Patience)
    time: Time = field(default_factory=Time)
    _opened: dict[Contender, Provider] = field(default_factory=dict)
    _out: dict[Contender, ModelFailed] = field(default_factory=dict)
    """Who is not asked again about this conversation, and why."""
    _stays_with: Contender | None = None

    @property
    def model(self) -> str:
        """Who would be asked next, as far as is known without asking anybody; empty when there is nobody."""
        return next((one.candidate.model for one in self._order(()) if not self._ruled_out(one)), "")

    def price(self, input_tokens: int, max_output_tokens: int) -> float | None:
        """The most that the next question can cost, whoever answers; None when somebody's price is not known."""
        able = [one for one in self.contenders if not self._ruled_out(one)]
        costs = [one.tariff.worst_case_usd(input_tokens, max_output_tokens) for one in able]
        known = [cost for cost in costs if cost is not None]
        return max(known) if known and len(known) == len(costs) else None

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        """
        Raises:
            ModelFailed: `overflow`, `stopped` and `no_turn` as they come. Where waiting may help, `usage_limit`, if
                limits alone stand in the way, or `unavailable`, with the earliest time. Where it does not,
                `authentication` or `bad_request`, if somebody refused so, or `unavailable`, if nobody can be asked.
        """
        passed: list[_Passed] = []
        verdicts = self.breaker.look(one.pair for one in self.contenders)
        for contender in self._order(request.turns):
            found = self._reason_against(contender, verdicts[contender.pair])
            answer = found or self._ask_one(contender, request, stop, hear)
            if isinstance(answer, Turn):
                self._stays_with = contender
                return answer
            passed.append(answer)
        raise _nobody(passed)

    def _order(self, turns: tuple[Turn, ...]) -> Iterator[Contender]:
        first = self._stays_with or (self._asked_before(turns) if self.loyal else None)
        if first is not None:
            yield first
        yield from (one for one in self.contenders if one is not first)

    def _asked_before(self, turns: tuple[Turn, ...]) -> Contender | None:
        last = next((turn.model for turn in reversed(turns) if turn.role == "assistant"), "")
        return next((one for one in self.contenders if one.candidate.model == last and not self._ruled_out(one)), None)

    def _ruled_out(self, contender: Contender) -> str:
        return contender.wanting or str(self._out.get(contender, ""))

    def _reason_against(self, contender: Contender, verdict: Verdict) -> _Passed | None:
        """Why it is not asked now; None when it is."""
        if why := self._ruled_out(contender):
            out = self._out.get(contender)
            return _Passed(contender=contender, why=why, trouble=out.trouble if out else "unavailable")
        if isinstance(verdict, Probe) and not self.breaker.claim(contender.pair):
            verdict = self.breaker.look([contender.pair])[contender.pair]
        if isinstance(verdict, Shut):
            return _Passed(contender=contender, why=verdict.why, trouble=verdict.trouble, until=verdict.until)
        return None

    def _ask_one(
        self, contender: Contender, request: ModelRequest, stop: Callable[[], bool], hear: Hear
    ) -> Turn | _Passed:
        asked = Retrying(
            provider=self._provider(contender),
            model=contender.candidate.model,
            account=contender.candidate.account,
            patience=self.patience,
            time=self.time,
            worth_it=lambda failure: self._noted(contender, failure),
        )
        try:
            turn = asked.ask(request, stop=stop, hear=hear)
            self.breaker.praise(contender.pair)
        except ModelFailed as failure:
            if failure.trouble in _NO_MATTER_WHOM:
                # Of what was stopped nobody else has heard.
                failure.usage = _priced(contender, failure.usage)
                raise
            return self._fell(contender, failure)
        finally:
            # Where nothing was learnt, as from a try that was stopped, somebody else may try.
            self.breaker.give_back(contender.pair)
        usage = _priced(contender, turn.usage)
        return turn.model_copy(update={"model": contender.candidate.model, "usage": usage})

    def _fell(self, contender: Contender, failure: ModelFailed) -> _Passed:
        if failure.trouble in _FOR_GOOD:
            self._out[contender] = failure
            return _Passed(contender=contender, why=str(failure), trouble=failure.trouble)
        verdict = self.breaker.look([contender.pair])[contender.pair]
        until = verdict.until if isinstance(verdict, Shut) else failure.resets_at
        if until is None and failure.trouble in PASSING:
            until = self.time.clock() + FIRST_PAUSE_S
        return _Passed(contender=contender, why=str(failure), trouble=failure.trouble, until=until)

    def _noted(self, contender: Contender, failure: ModelFailed) -> bool:
        """Whether it is worth trying again, now that all know of this failure and of its price."""
        failure.usage = _priced(contender, failure.usage)
        self.breaker.note(contender.pair, failure)
        return not isinstance(self.breaker.look([contender.pair])[contender.pair], Shut)

    def _provider(self, contender: Contender) -> Provider:
        if contender not in self._opened:
            self._opened[contender] = contender.open()
        return self._opened[contender]


def _priced(contender: Contender, usage: Usage) -> Usage:
    """What was not asked for costs nothing, whoever would have answered."""
    if usage == Usage():
        return usage
    return usage.model_copy(update={"cost_usd": contender.tariff.cost_usd(usage)})


def _nobody(passed: list[_Passed]) -> ModelFailed:
    """What is said when all have been passed over."""
    said = "; ".join(
        f"{one.contender.candidate.model} ({one.contender.candidate.account}): {_told(one)}" for one in passed
    )
    return ModelFailed(
        f"no model can be asked: {said}"
        if said
        else "no model can be asked: none is configured; see docs/how-to/models.md",
        trouble=_trouble_of_all(passed),
        resets_at=min((one.until for one in passed if one.until is not None), default=None),
    )


def _trouble_of_all(passed: list[_Passed]) -> Trouble:
    dated = [one for one in passed if one.until is not None]
    if dated:
        return "usage_limit" if all(one.trouble in _LIMITS for one in dated) else "unavailable"
    refusals = {one.trouble for one in passed} & _FOR_GOOD
    # A key comes first: it is what a person can mend.
    return "authentication" if "authentication" in refusals else next(iter(refusals), "unavailable")


def _told(passed: _Passed) -> str:
    why = " ".join(passed.why.split())
    if passed.until is None:
        return why
    return f"{why} (not before {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(passed.until))})"
