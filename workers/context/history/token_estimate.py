"""
How full a model's window is: characters counted here, calibrated by what its provider counted.

One gauge for a conversation. System prompt, tools and history count, cached or not; every threshold of every profile is
a share of the window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.llm.messages import Opaque, Part, Text, ToolCall, ToolResult, Turn

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
