"""
The adapter for Anthropic's Messages and every server that speaks them: one try, streamed.

It reads the kit's events itself. The kit's own accumulation takes a stream that broke off for a whole answer, and half
of a tool's arguments for all of them.
"""

import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from forgepool.workers.llm.messages import Opaque, Part, StopReason, Text, ToolCall, ToolResult, Turn
from forgepool.workers.llm.provider import Delta, Endpoint, Hear, ModelRequest, deaf, query, strip_version
from forgepool.workers.llm.wires import faults
from forgepool.workers.llm.wires.asking import Try
from forgepool.workers.llm.wires.normal_forms import (
    VendorCounts,
    alternating,
    count,
    find_stop_reason,
    join_pieces,
    read_call,
)

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

_LASTING: Body = {"type": "ephemeral", "ttl": "1h"}
_SHORT: Body = {"type": "ephemeral"}


class AnthropicMessages:
    """A provider: one model over Anthropic's wire."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        if not self.endpoint.api_key:
            raise faults.keyless(self.endpoint.called)
        asked = body(self.endpoint, request)
        params = cast("MessageCreateParamsStreaming", asked)
        attempt: Try[RawMessageStreamEvent] = Try(
            endpoint=self.endpoint, request=request, sent=asked, answer=_Answer(self.endpoint)
        )
        return attempt.run(lambda: self._open(params), stop=stop, hear=hear)

    def _open(self, params: "MessageCreateParamsStreaming") -> "Stream[RawMessageStreamEvent]":
        return self.client.messages.create(**params)

    @cached_property
    def client(self) -> "Anthropic":
        import anthropic

        own = self.endpoint
        at = own.base_url or _VENDOR
        # The kit sends the key as a bearer token, which the vendor alone reads for sure.
        older = {"x-api-key": own.api_key} if own.base_url else {}
        timeout = anthropic.Timeout(own.silence_s, connect=min(_CONNECT_S, own.silence_s))
        made = anthropic.Anthropic(
            api_key=own.api_key,
            base_url=strip_version(at),
            default_query=query(at),
            timeout=timeout,
            max_retries=0,
            # Who is sent on would take the conversation along, to an address nobody has written down.
            http_client=anthropic.DefaultHttpxClient(follow_redirects=False, timeout=timeout),
        )
        # The kit takes more of them from the environment, and cannot be told not to.
        made._custom_headers = {**older, **own.headers}
        weakref.finalize(self, made.close)
        return made


def body(endpoint: Endpoint, request: ModelRequest) -> Body:
    """Build the request in the vendor's form, with its cache marks."""
    tools: list[Body] = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
        for tool in request.tools
    ]
    system: list[Body] = [{"type": "text", "text": text} for text in request.system if text.strip()]
    sides = alternating(request.turns, wire="anthropic", model=endpoint.model, account=endpoint.account)
    messages: list[Body] = [
        {"role": "assistant" if place % 2 else "user", "content": [_block(part) for part in parts]}
        for place, parts in enumerate(sides)
    ]
    shared = messages[0]["content"][:1] if request.shares_first else system[-1:]
    mark(tools, system, messages, lasting=request.lasting, first_parts=request.lasting_parts, shared=shared)
    most = endpoint.most_tokens(request.max_output_tokens) or _MOST_TOKENS
    optional: Body = {"system": system, "tools": tools} | _effort(endpoint.effort)
    if request.must_call:
        optional["tool_choice"] = {"type": "any"}
    return {"model": endpoint.model, "max_tokens": most, "stream": True, "messages": messages} | {
        name: value for name, value in optional.items() if value
    }


def mark(
    tools: list[Body],
    system: list[Body],
    messages: list[Body],
    *,
    lasting: bool,
    first_parts: int | None = None,
    shared: Sequence[Body] = (),
) -> None:
    """
    Put cache marks on the request. `messages` alternate, and begin and end with the user's.

    `first_parts` is the number of parts of the first message that outlast the others; None is all. `shared` is the
    last block that other tasks have, too. The vendor wants one-hour marks before five-minute ones, which the order of
    the places ensures.
    """
    first = _LASTING if lasting else _SHORT
    invariant = system[:1] or tools[-1:]
    content = messages[0]["content"]
    moving = messages[2::2][-2:]
    # The vendor takes four marks. While one is free, it keeps what the next task begins with: phase, skill and survey.
    kept = shared if len(moving) < 2 else ()
    for block in (*invariant, *kept, content[min(first_parts or len(content), len(content)) - 1]):
        block["cache_control"] = first
    for message in moving:
        message["content"][-1]["cache_control"] = _SHORT


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


def read_whole(endpoint: Endpoint, request: ModelRequest, answer: object) -> Turn:
    """
    Read an answer that came whole, as those of a batch do.

    Raises:
        ModelFailed: it is none.
    """
    attempt: Try[RawMessageStreamEvent] = Try(
        endpoint=endpoint, request=request, sent=body(endpoint, request), answer=_Answer(endpoint)
    )
    return attempt.run(lambda: (event for event in _events(answer)), stop=lambda: False, hear=deaf)


def _events(answer: Any) -> "Iterator[RawMessageStreamEvent]":
    """Yield the events by which the whole answer might have come."""
    from anthropic import types as kit

    yield kit.RawMessageStartEvent.construct(type="message_start", message=answer | {"content": []})
    for index, block in enumerate(answer["content"]):
        yield kit.RawContentBlockStartEvent.construct(type="content_block_start", index=index, content_block=block)
        yield kit.RawContentBlockStopEvent.construct(type="content_block_stop", index=index)
    ended = {"stop_reason": answer.get("stop_reason")}
    yield kit.RawMessageDeltaEvent.construct(type="message_delta", delta=ended, usage=answer.get("usage"))
    yield kit.RawMessageStopEvent.construct(type="message_stop")


_ENDS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "end",
    "stop_sequence": "end",
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
        return join_pieces(self.pieces)


class _Answer:
    """An answer as its events arrive."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._id, self._model = endpoint, "", endpoint.model
        self._blocks: dict[int, _Block] = {}
        self.told = VendorCounts()
        self._stop = ""
        self._ended = False

    def take(self, event: "RawMessageStreamEvent", hear: Callable[[Delta], None]) -> bool:
        match event.type:
            case "message_start":
                self._id, self._model = event.message.id or "", event.message.model or self._model
                # What it counts of the output then is of no use: the answer has not begun.
                self.told = replace(_told(self.told, event.message.usage), output=None)
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
            case _:
                return False
        return True

    def _begin(self, event: "RawContentBlockStartEvent") -> None:
        # Other servers' blocks are not what the type says, of which the kit would warn.
        start = event.content_block.model_dump(mode="json", exclude_none=True, warnings=False)
        self._blocks[event.index] = _Block(start)

    def _begun(self, index: int) -> _Block:
        if index not in self._blocks:
            raise ValueError(f"block {index} goes on, but never began")
        return self._blocks[index]

    def _add(self, event: "RawContentBlockDeltaEvent", hear: Callable[[Delta], None]) -> None:
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
        self.told = _told(self.told, event.usage)

    def turn(self) -> Turn:
        called = self._endpoint.called
        if not (self._ended and self._stop):
            raise faults.broken_off(called)
        stop = find_stop_reason(self._stop, _ENDS)
        if stop is None:
            raise faults.ill_ended(called, self._stop)
        calls = [block for block in self._blocks.values() if block.start.get("type") == "tool_use"]
        if stop == "end" and not all(block.whole for block in calls):
            raise faults.broken_off(called, "a call in its answer has no end")
        return Turn(
            role="assistant",
            parts=tuple(part for _, block in sorted(self._blocks.items()) for part in self._parts(block)),
            id=self._id,
            model=self._model,
            stop="calls" if stop == "end" and calls else stop,
        )

    def _parts(self, block: _Block) -> tuple[Part, ...]:
        match block.start.get("type"):
            case "text":
                text = (block.start.get("text") or "") + block.text
                return (Text(text=text),) if text else ()
            case "tool_use":
                return (_call(block),)
            case "thinking" if block.whole:
                signature = block.signature or block.start.get("signature", "")
                if not signature:
                    return ()
                thinking = (block.start.get("thinking") or "") + block.text
                return (self._opaque(block.start | {"thinking": thinking, "signature": signature}),)
            case "redacted_thinking" if block.whole:
                return (self._opaque(block.start),)
            case _:
                return ()

    def _opaque(self, block: Body) -> Opaque:
        own = self._endpoint
        return Opaque(wire="anthropic", model=own.model, account=own.account, block=block)


def _call(block: _Block) -> ToolCall:
    text = block.text
    # Some servers send the arguments whole, with the beginning of the block.
    early = block.start.get("input")
    if not text.strip() and early is not None:
        text = json.dumps(early)
    return read_call(id=block.start.get("id") or "", name=block.start.get("name") or "", text=text)


def _told(known: VendorCounts, usage: "VendorUsage | MessageDeltaUsage | None") -> VendorCounts:
    """Update the counts. Later ones hold, because each event counts the whole answer so far and omits what is known."""
    cached = count(usage, "cache_read_input_tokens") or known.cached
    written = count(usage, "cache_creation_input_tokens") or known.written
    before = known.input and known.input - (known.cached or 0) - (known.written or 0)
    fresh = count(usage, "input_tokens")
    fresh = before if fresh is None else fresh
    hour = count(getattr(usage, "cache_creation", None), "ephemeral_1h_input_tokens")
    thought = count(getattr(usage, "output_tokens_details", None), "thinking_tokens")
    return VendorCounts(
        input=None if fresh is None else fresh + (cached or 0) + (written or 0),
        cached=cached,
        written=written,
        written_1h=hour or known.written_1h,
        output=count(usage, "output_tokens") or known.output,
        reasoning=thought or known.reasoning,
    )
