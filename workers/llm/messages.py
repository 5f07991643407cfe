"""
A conversation in our own words, whoever the vendor: texts, tool calls, tool results, turns.

Written to transcripts and read back, so these are closed models. Vendors' forms are made from them elsewhere.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from workers.messages import Message


class Text(Message):
    kind: Literal["text"] = "text"
    text: str


class ToolCall(Message):
    """What the model wants done. The arguments are whatever it sent: the tool's own schema judges them."""

    kind: Literal["call"] = "call"
    id: str
    name: str
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict)


class ToolResult(Message):
    """What came of one call. Every call has exactly one, also when it was refused or never run."""

    kind: Literal["result"] = "result"
    call_id: str
    text: str
    is_error: bool = False


Part = Annotated[Text | ToolCall | ToolResult, Field(discriminator="kind")]


class Usage(Message):
    """Tokens of one answer. `cost_usd` is None where no price is known, which is not the same as nothing."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0


StopReason = Literal["end", "calls", "max_tokens", "refusal"]


class Turn(Message):
    """One side's say. The user's side also carries what the tools and the harness answer."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    id: str = ""
    """The provider's name for an answer; empty for the user's side."""
    model: str = ""
    """Who gave the answer; empty for the user's side."""
    stop: StopReason = "end"
    """Why the answer ended where it does. No tool is run from one that ended by `max_tokens` or `refusal`."""
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
