"""Our own adapters pointed at a vendor server, and a small conversation for them."""

from collections.abc import Callable
from typing import Any

from vendors.answers import Wire
from vendors.server import VendorServer

from forgepool.workers.llm.messages import Text, ToolResult, Turn, user
from forgepool.workers.llm.provider import Endpoint, ModelRequest, Provider, ToolOffer
from forgepool.workers.llm.wires.anthropic import AnthropicMessages
from forgepool.workers.llm.wires.openai_chat import OpenAIChat
from forgepool.workers.llm.wires.openai_responses import OpenAIResponses

WIRES: tuple[Wire, ...] = ("anthropic", "openai-responses", "openai-chat")
KEY = "sk-test-0123456789"
_PROVIDERS: dict[Wire, Callable[[Endpoint], Provider]] = {
    "anthropic": AnthropicMessages,
    "openai-responses": OpenAIResponses,
    "openai-chat": OpenAIChat,
}

TOOLS = (
    ToolOffer(
        name="read_file",
        description="Reads a file.",
        schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
    ToolOffer(name="write_file", description="Writes a file.", schema={"type": "object", "properties": {}}),
)
CARD = user(Text(text="The task: add an adder."))


def provider(wire: Wire, server: VendorServer | str, **own: Any) -> Provider:
    url = server if isinstance(server, str) else server.url
    told: dict[str, Any] = {
        "model": "model-1",
        "api_key": KEY,
        "max_output_tokens": 1000,
        "base_url": url,
        "silence_s": 5.0,
    }
    return _PROVIDERS[wire](Endpoint(**told | own))


def request(*turns: Turn, **own: Any) -> ModelRequest:
    told: dict[str, Any] = {"system": ("What all tasks share.", "What this one adds."), "tools": TOOLS}
    return ModelRequest(turns=turns or (CARD,), **told | own)


def reply(turn: Turn) -> Turn:
    """Return what the loop would answer: a result for every call, and a text if there is none."""
    return user(*(ToolResult(call_id=call.id, text=f"{call.name}: done") for call in turn.calls), Text(text="Go on."))


def never() -> bool:
    return False
