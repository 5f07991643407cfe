"""
Providers before the adapters: `Retrying` asks one model again after a pause, `ModelChain` asks the next model.

A conversation stays with the model that answers it for as long as that works. Its prompt is cached there, and only that
model reads its own reasoning. After a fall it stays with the new one. `breaker` knows which models are shut off for all
workers. A turn from a chain has its price, and carries our name for its model.
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
"""Seconds between two checks of `stop`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits of retrying."""

    attempts: int = 6
    total_s: float = 600.0
    """Seconds after the start of the first try, after which no other begins."""
    first_wait_s: float = 1.0
    """Seconds of the first wait; each further one is twice as long."""
    longest_wait_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """The clock (Unix time), sleep and chance, as arguments, so that tests take no time."""

    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    """Returns a number from 0 to 1."""


@dataclass(slots=True, kw_only=True)
class Retrying:
    """A provider that asks another one repeatedly; that one asks once."""

    provider: Provider
    model: str
    account: str
    """Model and account, for reports of tries."""
    patience: Patience = field(default_factory=Patience)
    time: Time = field(default_factory=Time)
    worth_it: Callable[[ModelFailed], bool] = lambda failure: True
    """Gets every failed try, and returns whether another one is wanted."""

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
        """Return the seconds until the next try; None where there is none."""
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
    Return the seconds to wait after this try (numbered from 1); None where waiting is useless or too long.

    Without a word from the vendor it is half of a doubling pause, plus up to as much at random. So callers that
    failed together do not return together. With one it is that long, but at least the first pause (some vendors say
    0 as long as the trouble lasts). Up to a tenth is added at random.
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
    Sleep in slices.

    Raises:
        ModelFailed: the caller gave up meanwhile.
    """
    left_s = seconds
    while left_s > 0:
        if stop():
            raise ModelFailed("stopped while waiting to ask again", trouble="stopped")
        piece_s = min(left_s, _SLICE_S)
        sleep(piece_s)
        left_s -= piece_s


def _date(failure: ModelFailed, now: float) -> None:
    """Set the time at which the trouble ends, where the vendor said in how many seconds."""
    if failure.resets_at is None and failure.retry_after_s is not None:
        failure.resets_at = now + failure.retry_after_s


_NO_MATTER_WHOM: frozenset[Trouble] = frozenset(("overflow", "stopped", "no_turn"))
"""Failures of the conversation or its caller, which no other model mends."""
_FOR_GOOD: frozenset[Trouble] = frozenset(("authentication", "bad_request"))
"""Failures that would repeat with this conversation and model."""
_LIMITS: frozenset[Trouble] = frozenset(("usage_limit", "rate_limit"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contender:
    """A candidate with everything needed to ask it."""

    candidate: ModelChoice
    tariff: Tariff
    open: Callable[[], Provider]
    """Called once, at the first question; its provider asks once."""
    wanting: str = ""
    """The missing condition for asking it; empty when it can be asked."""

    @property
    def pair(self) -> Pair:
        return (self.candidate.account, self.candidate.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passed:
    """The reason why one contender gave nothing, and the time until which that holds, where known."""

    contender: Contender
    why: str
    trouble: Trouble = "unavailable"
    until: float | None = None


@dataclass(slots=True, kw_only=True)
class ModelChain:
    """The models for one conversation. `why` is a sentence on their choice."""

    contenders: tuple[Contender, ...]
    """The models, in the order in which they are asked."""
    breaker: Breaker
    why: str = ""
    loyal: bool = True
    """A conversation that one of these models began stays with it."""
    patience: Patience = field(default_factory=Patience)
    time: Time = field(default_factory=Time)
    _opened: dict[Contender, Provider] = field(default_factory=dict)
    _out: dict[Contender, ModelFailed] = field(default_factory=dict)
    """The models not asked again about this conversation, each with its failure."""
    _stays_with: Contender | None = None

    @property
    def model(self) -> str:
        """The model that would be asked next, as far as is known without asking; empty when there is none."""
        return next((contender.candidate.model for contender in self._order(()) if not self._ruled_out(contender)), "")

    def price(self, input_tokens: int, max_output_tokens: int) -> float | None:
        """Return the most that the next question can cost, for any model; None when some price is unknown."""
        able = [contender for contender in self.contenders if not self._ruled_out(contender)]
        costs = [contender.tariff.worst_case_usd(input_tokens, max_output_tokens) for contender in able]
        known = [cost for cost in costs if cost is not None]
        return max(known) if known and len(known) == len(costs) else None

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        """
        Return the answer of the first model that gives one.

        Raises:
            ModelFailed: `overflow`, `stopped` and `no_turn` as they come. Where waiting may help, `usage_limit` (if
                only limits stand in the way) or `unavailable`, with the earliest time. Else `authentication` or
                `bad_request` (if a model refused so), or `unavailable` (if no model can be asked).
        """
        passed: list[_Passed] = []
        verdicts = self.breaker.look(contender.pair for contender in self.contenders)
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
        yield from (contender for contender in self.contenders if contender is not first)

    def _asked_before(self, turns: tuple[Turn, ...]) -> Contender | None:
        last = next((turn.model for turn in reversed(turns) if turn.role == "assistant"), "")
        return next(
            (
                contender
                for contender in self.contenders
                if contender.candidate.model == last and not self._ruled_out(contender)
            ),
            None,
        )

    def _ruled_out(self, contender: Contender) -> str:
        return contender.wanting or str(self._out.get(contender, ""))

    def _reason_against(self, contender: Contender, verdict: Verdict) -> _Passed | None:
        """Return why the contender is not asked now; None when it is."""
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
        """Record a failure and its price, and return whether another try is worth it."""
        failure.usage = _priced(contender, failure.usage)
        self.breaker.note(contender.pair, failure)
        return not isinstance(self.breaker.look([contender.pair])[contender.pair], Shut)

    def _provider(self, contender: Contender) -> Provider:
        if contender not in self._opened:
            self._opened[contender] = contender.open()
        return self._opened[contender]


def _priced(contender: Contender, usage: Usage) -> Usage:
    """Return the usage with its price; an empty usage costs nothing, whatever the price."""
    if usage == Usage():
        return usage
    return usage.model_copy(update={"cost_usd": contender.tariff.cost_usd(usage)})


def _nobody(passed: list[_Passed]) -> ModelFailed:
    """Return the failure for a question that no contender answered."""
    reasons = "; ".join(
        f"{refusal.contender.candidate.model} ({refusal.contender.candidate.account}): {_told(refusal)}"
        for refusal in passed
    )
    return ModelFailed(
        f"no model can be asked: {reasons}"
        if reasons
        else "no model can be asked: none is configured; see docs/how-to/models.md",
        trouble=_trouble_of_all(passed),
        resets_at=min((refusal.until for refusal in passed if refusal.until is not None), default=None),
    )


def _trouble_of_all(passed: list[_Passed]) -> Trouble:
    dated = [refusal for refusal in passed if refusal.until is not None]
    if dated:
        return "usage_limit" if all(refusal.trouble in _LIMITS for refusal in dated) else "unavailable"
    refusals = {refusal.trouble for refusal in passed} & _FOR_GOOD
    # A key comes first: it is what a person can mend.
    return "authentication" if "authentication" in refusals else next(iter(refusals), "unavailable")


def _told(passed: _Passed) -> str:
    why = " ".join(passed.why.split())
    if passed.until is None:
        return why
    return f"{why} (not before {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(passed.until))})"
