"""
The usage of an attempt: what is left of its limits, what the next request may use, and how full the window is.

A `Meter` is asked before each request with its worst possible cost, so that no answer exceeds a limit of tokens or
money. Where these limits are a part of the run's budget, it asks for more before they are reached. Callers watch the
time.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from forgepool.workers.context.transcript.entries import Entry, Noted, QuestionTried, Rebuilt, Resumed, TurnSaid
from forgepool.workers.llm.messages import Opaque, Part, Text, ToolCall, ToolResult, Turn, Usage
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.schema.orders import LimitKind, Limits, Spent, add_spent

Price = Callable[[int, int], float | None]
"""Returns the most that so many input and output tokens can cost, in USD; None where the price is unknown."""

_CHARACTERS_PER_TOKEN = 3.0
"""Fewer characters than any vendor counts per token, so that the estimate errs on the safe side."""
_LEAST_OUTPUT = 512
"""The fewest tokens for which an answer is worth asking for."""
_USUAL_OUTPUT, _CRAMPED_OUTPUT = 8192, 4 * _LEAST_OUTPUT
ROUNDED_USD = 1e-5
"""Parts of a budget are rounded down; so much more is asked for."""
LAST_TURNS = 3
"""An agent is told when so many turns are left, and one that has explored enough has so many to report."""
_NEAR = 0.75
"""The share of a limit at which the agent is told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The part of a limit that is missing."""

    kinds: tuple[LimitKind, ...]
    usd: float = 0.0
    """The least that the next call needs beyond the limits; 0 where it can be made."""
    tokens: int = 0

    @property
    def stops(self) -> bool:
        """Tell whether the next call cannot be made."""
        return bool(self.usd or self.tokens)


class GrowingPart(Protocol):
    """The part of the run's budget that an attempt has."""

    refused: bool
    """True where the budget had no more when it was asked last."""

    @property
    def kinds(self) -> tuple[LimitKind, ...]:
        """The limits that are a part of the budget."""

    def grow(self, limits: Limits, spent: Spent, short: Shortage | None) -> Limits:
        """Return the attempt's limits, raised by what it was granted; ask for more where little is left."""


@dataclass(slots=True, kw_only=True)
class Meter:
    limits: Limits
    spent: Spent = field(default_factory=Spent)
    """The usage without time."""
    priced_usd: float | None = None
    """The limit of money where `limits` have none; models without a known price do not count against it."""
    part: GrowingPart | None = None
    """None where the limits are final."""
    began: float = field(default_factory=time.monotonic)
    waited_s: float = 0.0
    """Seconds of waiting for accounts' rate limits, which count against no limit of time."""

    @property
    def so_far(self) -> Spent:
        """Return the usage with the time since this process took over the attempt."""
        return self.spent.model_copy(update={"seconds": time.monotonic() - self.began})

    @classmethod
    def of(cls, limits: Limits, entries: Iterable[Entry]) -> "Meter":
        """Read the usage from a transcript, including lost turns that were asked for again."""
        meter = cls(limits=limits)
        for entry in entries:
            match entry:
                case TurnSaid(turn=turn) if turn.role == "assistant":
                    meter.count(turn.usage)
                case Noted(usage=usage) | QuestionTried(usage=usage) | Rebuilt(usage=usage) if (
                    usage.input_tokens or usage.output_tokens
                ):
                    meter.spent = add_spent(meter.spent, to_spent(usage))
                case Resumed(lost=lost):
                    meter.spent = add_spent(meter.spent, lost)
                case _:
                    pass
        return meter

    def count(self, usage: Usage) -> None:
        self.spent = add_spent(self.spent, to_spent(usage).model_copy(update={"turns": 1}))

    def find_used_up(self) -> str | None:
        """Return the limit that is reached, as a sentence; None while some of every limit is left."""
        if self.limits.turns is not None and self.spent.turns >= self.limits.turns:
            return f"the agent used its {self.limits.turns} turns without finishing"
        return None

    def room(self, request: ModelRequest, price: Price) -> int | str | None:
        """
        Return the most output tokens the answer may have; None is unlimited. A sentence names the limit that leaves too
        little.
        """
        if self.part is not None:
            self.limits = self.part.grow(self.limits, self.spent, self._find_shortage(request, price))
        left = self._tokens_left(request), self._affordable(request, price)
        least = _least(left)
        if least is None or least >= _LEAST_OUTPUT:
            return least
        which = "tokens" if least == left[0] else "money"
        return f"the agent used its {self._limit(which)} without finishing"

    def find_warning(self, left_s: float) -> str | None:
        """Return what the agent is to be told of its limits now; the part before the colon names the occasion."""
        left = None if self.limits.turns is None else self.limits.turns - self.spent.turns
        if left is not None and left <= LAST_TURNS:
            return (
                f"[the harness] Your last turns: {left} of your {self.limits.turns} turns left. End with what stands."
            )
        if (near := self.find_near(left_s)) is None:
            return None
        return f"[the harness] A limit is near: {near}. Do what matters most first, and end in time."

    def find_near(self, left_s: float) -> str | None:
        """Return a sentence about a limit once three quarters of it are used; None before, and while it may grow."""
        growing = () if self.part is None or self.part.refused else self.part.kinds
        shares = [(1 - left_s / self.limits.wall_s, f"{self.limits.wall_s:g} s of time")]
        if self.limits.turns is not None:
            shares.append((self.spent.turns / self.limits.turns, f"{self.limits.turns} turns"))
        if self.limits.tokens is not None and "tokens" not in growing:
            shares.append((self.spent.tokens / self.limits.tokens, self._limit("tokens")))
        if self._most_usd is not None and "usd" not in growing:
            shares.append(((self.spent.cost_usd or 0.0) / self._most_usd, self._limit("money")))
        share, limit = max(shares)
        return f"{int(100 * share)} % of your {limit} are used" if share >= _NEAR else None

    @property
    def _most_usd(self) -> float | None:
        return self.priced_usd if self.limits.cost_usd is None else self.limits.cost_usd

    def _find_shortage(self, request: ModelRequest, price: Price) -> Shortage | None:
        """Return the kinds of limits that leave less than a usual answer, and what the shortest one lacks."""
        left: dict[LimitKind, int | None] = {
            "tokens": self._tokens_left(request),
            "usd": self._affordable(request, price),
        }
        kinds = tuple(kind for kind, tokens in left.items() if tokens is not None and tokens < _CRAMPED_OUTPUT)
        if not kinds:
            return None
        given = estimate_tokens(request)
        usd, tokens = 0.0, 0
        if "tokens" in kinds and self.limits.tokens is not None and (left["tokens"] or 0) < _LEAST_OUTPUT:
            tokens = self.spent.tokens + given + _LEAST_OUTPUT - self.limits.tokens
        known = self.limits.cost_usd is not None and self.spent.cost_usd is not None
        if "usd" in kinds and known and (left["usd"] or 0) < _LEAST_OUTPUT:
            cost = price(given, _LEAST_OUTPUT + 1) or 0.0
            missing = (self.spent.cost_usd or 0.0) + cost - (self.limits.cost_usd or 0.0)
            usd = max(0.0, missing) + ROUNDED_USD
        return Shortage(kinds=kinds, usd=usd, tokens=tokens)

    def _limit(self, which: str) -> str:
        return f"{self.limits.tokens:,} tokens" if which == "tokens" else f"{self._most_usd:g} USD"

    def _tokens_left(self, request: ModelRequest) -> int | None:
        if self.limits.tokens is None:
            return None
        return self.limits.tokens - self.spent.tokens - estimate_tokens(request)

    def _affordable(self, request: ModelRequest, price: Price) -> int | None:
        """Return the output tokens that the remaining money pays for, as if no input were cached."""
        if self._most_usd is None:
            return None
        given = estimate_tokens(request)
        bare, usual = price(given, 0), price(given, _USUAL_OUTPUT)
        if bare is None or usual is None:
            return None
        if self.spent.cost_usd is None:
            # Something has been used that has no price: what is left of the money is not known, so nothing is.
            return None if self.limits.cost_usd is None else 0
        left_usd = self._most_usd - self.spent.cost_usd - bare
        each_usd = (usual - bare) / _USUAL_OUTPUT
        if left_usd < 0:
            return 0
        return int(left_usd / each_usd) if each_usd > 0 else None


def _least(left: Iterable[int | None]) -> int | None:
    return min((one for one in left if one is not None), default=None)


def to_spent(usage: Usage) -> Spent:
    return Spent(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
    )


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """Add usages; the price is None where one of them has none."""
    found = list(usages)
    costs = [usage.cost_usd for usage in found]
    return Usage(
        input_tokens=sum(usage.input_tokens for usage in found),
        cached_tokens=sum(usage.cached_tokens for usage in found),
        written_tokens=sum(usage.written_tokens for usage in found),
        written_1h_tokens=sum(usage.written_1h_tokens for usage in found),
        output_tokens=sum(usage.output_tokens for usage in found),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in found),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def estimate_tokens(request: ModelRequest) -> int:
    """Estimate the input tokens of a request, rather too many: the vendor's last count, and characters for the rest."""
    counted, rest = 0, request.turns
    for number in range(len(request.turns) - 1, -1, -1):
        usage = request.turns[number].usage
        if usage.input_tokens and not request.rebuilt:
            counted, rest = usage.input_tokens + usage.output_tokens, request.turns[number + 1 :]
            break
    if counted:
        return counted + _tokens(_characters(rest))
    return _tokens(count_fixed_characters(request) + _characters(rest))


def count_fixed_characters(request: ModelRequest) -> int:
    """Count the characters of the system prompt and the tools."""
    return sum(map(len, request.system)) + sum(len(str(tool.schema)) + len(tool.description) for tool in request.tools)


def _characters(turns: tuple[Turn, ...]) -> int:
    return sum(_length(part) for turn in turns for part in turn.parts)


def _length(part: object) -> int:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return len(text)
        case ToolCall(arguments=arguments):
            return len(str(arguments))
        case _:
            return 0


def _tokens(characters: int) -> int:
    return int(characters / _CHARACTERS_PER_TOKEN) + 1


USUAL = 4.0
"""Characters per token until a provider has counted."""
_LEAST, _MOST = 0.5, 8.0
"""The plausible range of characters per token: Chinese has one or two tokens a character, very plain text 1/8."""
_WEIGHT = 0.5
"""The weight of the newest count against earlier ones."""


@dataclass(slots=True, kw_only=True)
class Gauge:
    window_tokens: int
    fixed_characters: int
    """Characters of the system prompt and the tools' descriptions."""
    characters_per_token: dict[str, float] = field(default_factory=dict)
    """Characters per token by model, as its provider counted."""
    _last: str = ""

    def count(self, model: str, characters: int, tokens: int) -> None:
        """Take a provider's token count for a whole request. An implausible count is ignored."""
        found = characters / tokens if tokens > 0 else 0.0
        if not _LEAST <= found <= _MOST:
            return
        before = self.characters_per_token.get(model, found)
        self.characters_per_token[model] = before + _WEIGHT * (found - before)
        self._last = model

    @property
    def characters_a_token(self) -> float:
        """Return the ratio of the model counted last."""
        return self.characters_per_token.get(self._last, USUAL)

    def tokens(self, characters: int) -> int:
        return int(characters / self.characters_a_token)

    def share(self, characters: int) -> float:
        """Return the share of the window used, above 1 where it overflows. `characters` is the shown history alone."""
        return self.tokens(self.fixed_characters + characters) / self.window_tokens


def length(part: Part) -> int:
    """Return the approximate number of characters a vendor is sent for a part."""
    match part:
        case Text(text=text) | ToolResult(text=text):
            return len(text)
        case ToolCall(name=name, arguments=arguments):
            return len(name) + sum(
                len(key) + len(value if isinstance(value, str) else str(value)) for key, value in arguments.items()
            )
        case Opaque(block=block):
            return len(str(block))


def turn_length(turn: Turn) -> int:
    return sum(map(length, turn.parts))


def lengths(turns: Sequence[Turn]) -> int:
    return sum(map(turn_length, turns))
