"""
What an attempt has used of its limits, and what the next question to a model may still use.

Asked before each question, with the worst it could cost, so that no limit of tokens or money is passed by an answer
that is longer than hoped for. Time is asked about separately, by whoever waits.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.transcript.entries import Entry, Noted, QuestionTried, Rebuilt, Resumed, TurnSaid
from forgepool.workers.llm.messages import Opaque, Part, Text, ToolCall, ToolResult, Turn, Usage
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.schema.orders import Limits, Spent

Price = Callable[[int, int], float | None]
"""The most that so many input and output tokens could cost, in USD; None where no price is known."""

_CHARACTERS_PER_TOKEN = 3.0
"""Fewer than any vendor's measure, of text and code: an estimate to be on the safe side."""
_LEAST_OUTPUT = 512
"""Tokens an answer needs to be worth asking for."""
_USUAL_OUTPUT = 8192


@dataclass(slots=True, kw_only=True)
class Meter:
    limits: Limits
    spent: Spent = field(default_factory=Spent)
    """Without time."""
    began: float = field(default_factory=time.monotonic)

    @property
    def so_far(self) -> Spent:
        """With the time since this process began to lead the attempt."""
        return self.spent.model_copy(update={"seconds": time.monotonic() - self.began})

    @classmethod
    def of(cls, limits: Limits, entries: Iterable[Entry]) -> "Meter":
        """As the transcript tells it: each turn once, also those that were lost and asked for again."""
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
        """Which limit is reached; None while there is some of everything left."""
        if self.limits.turns is not None and self.spent.turns >= self.limits.turns:
            return f"the agent used its {self.limits.turns} turns without finishing"
        return None

    def room(self, request: ModelRequest, price: Price) -> int | str | None:
        """
        The most output tokens the answer to this may have; None is as many as the model gives; a sentence where what
        is left of a limit is not enough for an answer.
        """
        left = self._tokens_left(request), self._affordable(request, price)
        least = min((one for one in left if one is not None), default=None)
        if least is None or least >= _LEAST_OUTPUT:
            return least
        which = "tokens" if least == left[0] else "money"
        return f"the agent used its {self._limit(which)} without finishing"

    def _limit(self, which: str) -> str:
        return f"{self.limits.tokens:,} tokens" if which == "tokens" else f"{self.limits.cost_usd:g} USD"

    def _tokens_left(self, request: ModelRequest) -> int | None:
        if self.limits.tokens is None:
            return None
        return self.limits.tokens - self.spent.tokens - estimate_tokens(request)

    def _affordable(self, request: ModelRequest, price: Price) -> int | None:
        """Output tokens that the rest of the money pays for, whatever of the input is cached."""
        if self.limits.cost_usd is None:
            return None
        given = estimate_tokens(request)
        bare, usual = price(given, 0), price(given, _USUAL_OUTPUT)
        if bare is None or usual is None:
            return None
        if self.spent.cost_usd is None:
            # Something has been used that has no price: what is left of the money is not known, so nothing is.
            return 0
        left_usd = self.limits.cost_usd - self.spent.cost_usd - bare
        each_usd = (usual - bare) / _USUAL_OUTPUT
        if left_usd < 0:
            return 0
        return int(left_usd / each_usd) if each_usd > 0 else None


def to_spent(usage: Usage) -> Spent:
    return Spent(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
    )


def add_spent(one: Spent, other: Spent) -> Spent:
    known = one.cost_usd is not None and other.cost_usd is not None
    return Spent(
        seconds=one.seconds + other.seconds,
        turns=one.turns + other.turns,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        cost_usd=(one.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
    )


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """Of several questions; without a price where one of them has none."""
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
    """
    Input tokens of a request, rather too many: what the vendor counted for its beginning, and characters for the rest.
    """
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
    """Of its system prompt and its tools."""
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
"""Characters a token, until a provider has counted."""
_LEAST, _MOST = 0.5, 8.0
"""What a count may come to: characters of Chinese are a token or two, and eight to a token are a very plain text."""
_WEIGHT = 0.5
"""Of the newest count against those before it."""


@dataclass(slots=True, kw_only=True)
class Gauge:
    window_tokens: int
    fixed_characters: int
    """Of the system prompt and the tools' descriptions."""
    characters_per_token: dict[str, float] = field(default_factory=dict)
    """By model, as its provider counted."""
    _last: str = ""

    def count(self, model: str, characters: int, tokens: int) -> None:
        """A provider's count of a request of so many characters, all of it. An absurd one is left out."""
        found = characters / tokens if tokens > 0 else 0.0
        if not _LEAST <= found <= _MOST:
            return
        before = self.characters_per_token.get(model, found)
        self.characters_per_token[model] = before + _WEIGHT * (found - before)
        self._last = model

    @property
    def characters_a_token(self) -> float:
        """Of the model that was counted last."""
        return self.characters_per_token.get(self._last, USUAL)

    def tokens(self, characters: int) -> int:
        return int(characters / self.characters_a_token)

    def share(self, characters: int) -> float:
        """Of the window, 0 to 1 and beyond; `characters` of the history shown, without system prompt and tools."""
        return self.tokens(self.fixed_characters + characters) / self.window_tokens


def length(part: Part) -> int:
    """Characters of a part as a vendor is sent it, about."""
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
