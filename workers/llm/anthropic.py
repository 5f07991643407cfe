"""
Anthropic's Messages, and every server that speaks them: one try, streamed.

The kit's events are read raw: its own accumulation takes a stream that broke off for a whole answer, and half a tool's
arguments for all of them.
"""

import weakref
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from workers.llm import caching, faults
from workers.llm.alternation import alternating
from workers.llm.arguments import joined, read_call
from workers.llm.endpoint import Endpoint, unversioned
from workers.llm.listening import attend
from workers.llm.messages import Opaque, Part, StopReason, Text, ToolCall, ToolResult, Turn, Usage
from workers.llm.provider import Delta, Hear, Request, deaf

if TYPE_CHECKING:
    from anthropic import Anthropic, Stream
    from anthropic.types import (
        MessageDeltaUsage,
        RawContentBlockDeltaEvent,
        RawContentBlockStartEvent,
        RawMessageDeltaEvent,
        RawMessageStreamEvent,
    )
    from anthropic.types import Usage as VendorUsage
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

_VENDOR = "https://api.anthropic.com"
_MOST_TOKENS = 32_000
_CONNECT_S = 10.0

Body = dict[str, Any]


class AnthropicMessages:
    """A provider: one model by Anthropic's wire."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def ask(self, request: Request, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        if not self.endpoint.api_key:
            raise faults.keyless(self.endpoint.called)
        import anthropic
        import httpx2

        params = cast("MessageCreateParamsStreaming", body(self.endpoint, request))
        answer = _Answer(self.endpoint.model)
        try:
            with closing(attend(lambda: self._open(params), stop)) as events:
                for event in events:
                    answer.take(event, hear)
        except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
            raise faults.from_kit(error, self.endpoint.called) from error
        if not answer.complete:
            raise faults.broken_off(self.endpoint.called)
        return answer.turn()

    def _open(self, params: "MessageCreateParamsStreaming") -> "Stream[RawMessageStreamEvent]":
        return self._client.messages.create(**params)

    @cached_property
    def _client(self) -> "Anthropic":
        import anthropic

        own = self.endpoint
        # The kit sends the key as a bearer token, which the vendor alone reads for sure.
        older = {"x-api-key": own.api_key} if own.base_url else {}
        made = anthropic.Anthropic(
            api_key=own.api_key,
            base_url=unversioned(own.base_url or _VENDOR),
            default_headers={**older, **own.headers},
            timeout=anthropic.Timeout(own.silence_s, connect=min(_CONNECT_S, own.silence_s)),
            max_retries=0,
        )
        weakref.finalize(self, made.close)
        return made


def body(endpoint: Endpoint, request: Request) -> Body:
    """The request in the vendor's words, with its marks for the cache."""
    tools: list[Body] = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
        for tool in request.tools
    ]
    system: list[Body] = [{"type": "text", "text": text} for text in request.system if text.strip()]
    sides = alternating(request.turns, wire="anthropic", model=endpoint.model)
    messages: list[Body] = [
        {"role": "assistant" if place % 2 else "user", "content": [_block(part) for part in parts]}
        for place, parts in enumerate(sides)
    ]
    caching.mark(tools, system, messages, lasting=request.lasting)
    most = endpoint.most_tokens(request.max_output_tokens) or _MOST_TOKENS
    optional = {"system": system, "tools": tools} | _effort(endpoint.effort)
    return {"model": endpoint.model, "max_tokens": most, "stream": True, "messages": messages} | {
        name: value for name, value in optional.items() if value
    }


def _effort(effort: str | None) -> Body:
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    return {"output_config": {"effort": "low" if effort == "minimal" else effort}} if effort else {}


def _block(part: Part) -> Body:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case ToolCall(id=name, name=tool, arguments=arguments):
            return {"type": "tool_use", "id": name, "name": tool, "input": dict(arguments)}
        case ToolResult(call_id=name, text=text, is_error=is_error):
            result: Body = {"type": "tool_result", "tool_use_id": name, "content": text}
            return result | ({"is_error": True} if is_error else {})
        case Opaque(block=block):
            return dict(block)


_STOPS: Mapping[str, StopReason] = {
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
}


@dataclass(slots=True)
class _Block:
    """One block as it arrives."""

    start: Body
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    whole: bool = False

    @property
    def text(self) -> str:
        return joined(self.pieces)


class _Answer:
    """An answer as its events arrive."""

    def __init__(self, model: str) -> None:
        self._asked, self._id, self._model = model, "", model
        self._blocks: dict[int, _Block] = {}
        self._usage = Usage(cost_usd=None)
        self._stop = ""
        self._ended = False

    @property
    def complete(self) -> bool:
        return self._ended and bool(self._stop)

    def take(self, event: "RawMessageStreamEvent", hear: Hear) -> None:
        match event.type:
            case "message_start":
                self._id, self._model = event.message.id, event.message.model or self._asked
                self._usage = _counted(self._usage, event.message.usage)
            case "content_block_start":
                self._begin(event)
            case "content_block_delta":
                self._add(event, hear)
            case "content_block_stop":
                self._begun(event.index).whole = True
            case "message_delta":
                self._finish(event)
            case "message_stop":
                self._ended = True

    def _begin(self, event: "RawContentBlockStartEvent") -> None:
        self._blocks[event.index] = _Block(event.content_block.model_dump(mode="json", exclude_none=True))

    def _begun(self, index: int) -> _Block:
        if index not in self._blocks:
            raise ValueError(f"block {index} goes on, but never began")
        return self._blocks[index]

    def _add(self, event: "RawContentBlockDeltaEvent", hear: Hear) -> None:
        block = self._begun(event.index)
        match event.delta.type:
            case "text_delta":
                block.pieces.append(event.delta.text)
                hear(Delta(kind="text", text=event.delta.text))
            case "thinking_delta":
                block.pieces.append(event.delta.thinking)
                hear(Delta(kind="thinking", text=event.delta.thinking))
            case "input_json_delta":
                block.pieces.append(event.delta.partial_json)
                hear(Delta(kind="call", text=event.delta.partial_json))
            case "signature_delta":
                block.signature += event.delta.signature

    def _finish(self, event: "RawMessageDeltaEvent") -> None:
        self._stop = event.delta.stop_reason or self._stop
        self._usage = _counted(self._usage, event.usage)

    def turn(self) -> Turn:
        parts = tuple(part for _, block in sorted(self._blocks.items()) for part in self._parts(block))
        otherwise: StopReason = "calls" if any(isinstance(part, ToolCall) for part in parts) else "end"
        return Turn(
            role="assistant",
            parts=parts,
            id=self._id,
            model=self._model,
            stop=_STOPS.get(self._stop, otherwise),
            usage=self._usage,
        )

    def _parts(self, block: _Block) -> tuple[Part, ...]:
        match block.start["type"]:
            case "text":
                text = block.start.get("text", "") + block.text
                return (Text(text=text),) if text else ()
            case "tool_use":
                return (self._call(block),)
            case "thinking" if block.whole:
                signature = block.signature or block.start.get("signature", "")
                if not signature:
                    return ()
                thought = block.start | {
                    "thinking": block.start.get("thinking", "") + block.text,
                    "signature": signature,
                }
                return (Opaque(wire="anthropic", model=self._asked, block=thought),)
            case "redacted_thinking":
                return (Opaque(wire="anthropic", model=self._asked, block=block.start),)
            case _:
                return ()

    def _call(self, block: _Block) -> ToolCall:
        call = read_call(id=block.start["id"], name=block.start["name"], text=block.text)
        # Some servers send the arguments whole, with the beginning of the block.
        early = block.start.get("input")
        return call.model_copy(update={"arguments": early}) if early and not block.pieces else call


def _counted(usage: Usage, said: "VendorUsage | MessageDeltaUsage | None") -> Usage:
    """What is said last holds: an event's counts are of the whole answer so far, and leave out what is said already."""
    if said is None:
        return usage
    # Other servers leave out what the vendor's type promises.
    count = partial(_count, said)
    fresh = count("input_tokens", usage.fresh_tokens)
    cached = count("cache_read_input_tokens", usage.cached_tokens)
    written = count("cache_creation_input_tokens", usage.written_tokens)
    hour = _count(getattr(said, "cache_creation", None), "ephemeral_1h_input_tokens", usage.written_1h_tokens)
    thought = _count(getattr(said, "output_tokens_details", None), "thinking_tokens", usage.reasoning_tokens)
    return usage.model_copy(
        update={
            "input_tokens": fresh + cached + written,
            "cached_tokens": cached,
            "written_tokens": written,
            "written_1h_tokens": hour,
            "output_tokens": count("output_tokens", usage.output_tokens),
            "reasoning_tokens": thought,
        }
    )


def _count(said: object, name: str, known: int) -> int:
    number = getattr(said, name, None)
    return known if number is None else int(number)
