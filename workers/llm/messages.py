"""
Our own types for a conversation, whatever the vendor: texts, tool calls, tool results, turns.

They are closed models, because they are written to transcripts and read back. `wires` makes the vendors' forms of them.
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
    A block that only its vendor understands (signed thinking, encrypted reasoning), sent back unchanged in its
    place.

    It is left out where the conversation continues over another wire, with another model or through another
    account.
    """

    kind: Literal["opaque"] = "opaque"
    wire: Wire
    model: str
    account: str = ""
    block: Mapping[str, JsonValue]


class ToolCall(Message):
    """A tool call of the model. Its arguments are unchecked: the tool's own schema judges them."""

    kind: Literal["call"] = "call"
    id: str
    name: str
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict)
    malformed: str | None = None
    """The text that was sent as arguments where it is not one JSON object; such a call is never run."""


class ToolResult(Message):
    """The result of one call. Every call has exactly one, even when it was refused or never run."""

    kind: Literal["result"] = "result"
    call_id: str
    text: str
    is_error: bool = False


Part = Annotated[Text | Opaque | ToolCall | ToolResult, Field(discriminator="kind")]


class Usage(Message):
    """The tokens of one answer, in one form for all vendors. `cost_usd` is None where no price is known."""

    input_tokens: int = 0
    """All of the input, `cached_tokens` and `written_tokens` included."""
    cached_tokens: int = 0
    written_tokens: int = 0
    written_1h_tokens: int = 0
    """The tokens written to the cache that are kept there for an hour; part of `written_tokens`."""
    output_tokens: int = 0
    """All of the output, `reasoning_tokens` included."""
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
    """One side's contribution. The user's side also carries the answers of tools and harness."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    id: str = ""
    """The provider's id of an answer; empty for the user's side."""
    model: str = ""
    """The model that answered; empty for the user's side."""
    stop: StopReason = "end"
    """The reason why the answer ended. No tool is run after `max_tokens`, `refusal` or `overflow` (a full window)."""
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
