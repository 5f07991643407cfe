"""
A conversation in our own words, whoever the vendor: texts, tool calls, tool results, turns.

Written to transcripts and read back, so these are closed models. Vendors' forms are made from them elsewhere.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from forgepool.workers.schema.orders import Message


class Text(Message):
    kind: Literal["text"] = "text"
    text: str
    phase: str = ""
    """The vendor's mark on it (`commentary`, `final_answer`), sent back as it came."""


Wire = Literal["anthropic", "openai-responses", "openai-chat", "scripted"]


class Opaque(Message):
    """
    A block only its vendor understands (signed thinking, encrypted reasoning), sent back unchanged in its place.

    Left out where the conversation goes on over another wire, with another model or through another account.
    """

    kind: Literal["opaque"] = "opaque"
    wire: Wire
    model: str
    account: str = ""
    block: Mapping[str, JsonValue]


class ToolCall(Message):
    """What the model wants done. The arguments are whatever it sent: the tool's own schema judges them."""

    kind: Literal["call"] = "call"
    id: str
    name: str
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict)
    malformed: str | None = None
    """What it sent in place of arguments where that was not one JSON object; such a call is never run."""


class ToolResult(Message):
    """What came of one call. Every call has exactly one, also when it was refused or never run."""

    kind: Literal["result"] = "result"
    call_id: str
    text: str
    is_error: bool = False


Part = Annotated[Text | Opaque | ToolCall | ToolResult, Field(discriminator="kind")]


class Usage(Message):
    """
    Tokens of one answer, in one form for all vendors. `cost_usd` is None where no price is known, which is not the
    same as nothing.
    """

    input_tokens: int = 0
    """All of the input: `cached_tokens` and `written_tokens` are part of it."""
    cached_tokens: int = 0
    written_tokens: int = 0
    written_1h_tokens: int = 0
    """Of those written to the cache, what is kept there for an hour."""
    output_tokens: int = 0
    """All of the output: `reasoning_tokens` are part of it."""
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def fresh_tokens(self) -> int:
        return self.input_tokens - self.cached_tokens - self.written_tokens

    @property
    def hit_rate(self) -> float:
        """The share of the input that came from the cache, 0 to 1."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


StopReason = Literal["end", "calls", "max_tokens", "refusal", "overflow"]


class Turn(Message):
    """One side's say. The user's side also carries what the tools and the harness answer."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    id: str = ""
    """The provider's name for an answer; empty for the user's side."""
    model: str = ""
    """Who gave the answer; empty for the user's side."""
    stop: StopReason = "end"
    """
    Why the answer ended where it does. No tool is run from one that ended by `max_tokens`, `refusal` or `overflow` (the
    model's window was full).
    """
    usage: Usage = Usage()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


def user(*parts: Part) -> Turn:
    return Turn(role="user", parts=parts)
