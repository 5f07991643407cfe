"""
The adapter for OpenAI's Responses: one try, streamed. The vendor stores nothing; sealed reasoning is sent back.

It reads the kit's events itself, because the kit's own accumulation raises where an answer was cut short by its limit.
"""

import hashlib
import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from forgepool.workers.llm.messages import Opaque, Part, StopReason, Text, ToolCall, ToolResult, Turn
from forgepool.workers.llm.provider import Delta, Endpoint, Hear, ModelFailed, ModelRequest, add_version, deaf, query
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
    from openai import OpenAI, Stream
    from openai.types.responses import (
        Response,
        ResponseOutputItem,
        ResponseOutputMessage,
        ResponseStreamEvent,
        ResponseUsage,
    )
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

_VENDOR = "https://api.openai.com/v1"
_CONNECT_S = 10.0
_NO_KEY = "none"

Body = dict[str, Any]


def client(endpoint: Endpoint, owner: object) -> "OpenAI":
    """
    Make a client that is closed when its owner is gone.

    Nothing of it comes from the environment, whose keys and addresses may be meant for something else.
    """
    import openai

    timeout = openai.Timeout(endpoint.silence_s, connect=min(_CONNECT_S, endpoint.silence_s))
    at = endpoint.base_url or _VENDOR
    made = openai.OpenAI(
        # The kit insists on a key, also for a server that wants none.
        api_key=endpoint.api_key or _NO_KEY,
        base_url=add_version(at),
        default_query=query(at),
        timeout=timeout,
        max_retries=0,
        # Who is sent on would take the conversation along, to an address nobody has written down.
        http_client=openai.DefaultHttpxClient(follow_redirects=False, timeout=timeout),
    )
    # The kit fills in from the environment what it is not given, and cannot be told not to.
    made.organization, made.project = None, None
    made._custom_headers = dict(endpoint.headers)
    weakref.finalize(owner, made.close)
    return made


class OpenAIResponses:
    """A provider: one model over OpenAI's newer wire."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        if not self.endpoint.api_key and self.endpoint.base_url is None:
            raise faults.keyless(self.endpoint.called)
        asked = body(self.endpoint, request)
        params = cast("ResponseCreateParamsStreaming", asked)
        answer = _Answer(self.endpoint, asked.get("max_output_tokens"))
        attempt: Try[ResponseStreamEvent] = Try(endpoint=self.endpoint, request=request, sent=asked, answer=answer)
        return attempt.run(lambda: self._open(params), stop=stop, hear=hear)

    def _open(self, params: "ResponseCreateParamsStreaming") -> "Stream[ResponseStreamEvent]":
        return self.client.responses.create(**params)

    @cached_property
    def client(self) -> "OpenAI":
        return client(self.endpoint, self)


def body(endpoint: Endpoint, request: ModelRequest) -> Body:
    """Build the request in the vendor's form."""
    tools: list[Body] = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.schema),
            "strict": False,
        }
        for tool in request.tools
    ]
    sides = alternating(request.turns, wire="openai-responses", model=endpoint.model, account=endpoint.account)
    instructions = "\n\n".join(text for text in request.system if text.strip())
    optional: Body = {
        "instructions": instructions,
        "tools": tools,
        "tool_choice": "required" if request.must_call else None,
        "max_output_tokens": endpoint.most_tokens(request.max_output_tokens),
        "reasoning": {"effort": endpoint.effort} if endpoint.effort else None,
    }
    items = [_item(part, "assistant" if place % 2 else "user") for place, parts in enumerate(sides) for part in parts]
    return {
        "model": endpoint.model,
        "input": items,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": conversation_key(instructions, tools, items[int(request.shares_first)]),
    } | {name: value for name, value in optional.items() if value}


def read_whole(endpoint: Endpoint, request: ModelRequest, answer: Any) -> Turn:
    """
    Read an answer that came whole, as those of a batch do.

    Raises:
        ModelFailed: it is none.
    """
    asked = body(endpoint, request)
    reader = _Answer(endpoint, asked.get("max_output_tokens"))
    attempt: Try[ResponseStreamEvent] = Try(endpoint=endpoint, request=request, sent=asked, answer=reader)
    return attempt.run(lambda: (event for event in _events(answer)), stop=lambda: False, hear=deaf)


def _events(answer: Any) -> "Iterator[ResponseStreamEvent]":
    from openai.types import responses as kit

    if answer.get("status") == "failed":
        yield kit.ResponseFailedEvent.construct(type="response.failed", response=answer, sequence_number=0)
    else:
        yield kit.ResponseCompletedEvent.construct(type="response.completed", response=answer, sequence_number=0)


def conversation_key(system: str, tools: list[Body], card: Body) -> str:
    """Return a key that is the same for every request of one conversation, so that they share a cache."""
    return hashlib.sha256(json.dumps([system, tools, card]).encode()).hexdigest()[:32]


def _item(part: Part, role: str) -> Body:
    match part:
        case Text(text=text, phase=phase):
            message = {"type": "message", "role": role, "content": text}
            return message | ({"phase": phase} if phase and role == "assistant" else {})
        case ToolCall(id=name, name=tool, arguments=arguments):
            text = json.dumps(dict(arguments), ensure_ascii=False)
            return {"type": "function_call", "call_id": name, "name": tool, "arguments": text}
        case ToolResult(call_id=name, text=text):
            return {"type": "function_call_output", "call_id": name, "output": text}
        case Opaque(block=block):
            return dict(block)


_ENDS: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
_WHOLE = (None, "", "completed")
"""Statuses of a whole item; other servers leave the status out."""
_SIGNS_OF_LIFE = ("response.in_progress", "response.queued", "ping", "keepalive")


class _Answer:
    """An answer as its events arrive."""

    def __init__(self, endpoint: Endpoint, most_tokens: int | None) -> None:
        self._endpoint, self._most_tokens = endpoint, most_tokens
        self._items: dict[int, ResponseOutputItem] = {}
        self._calls_begun: set[int] = set()
        self._last: Response | None = None
        self.told = VendorCounts()

    def take(self, event: "ResponseStreamEvent", hear: Callable[[Delta], None]) -> bool:
        match event.type:
            case "response.output_item.added" if event.item.type == "function_call":
                self._calls_begun.add(event.output_index)
            case "response.output_item.done":
                self._items[event.output_index] = event.item
            case "response.completed" | "response.incomplete":
                self._last = event.response
                self.told = _told(event.response.usage)
            case "response.failed":
                self.told = _told(event.response.usage)
                error = event.response.error
                raise self._failed(error.code if error else "", error.message if error else "")
            case "error":
                raise self._failed(event.code, event.message)
            case "response.output_text.delta" | "response.refusal.delta":
                hear(Delta(kind="text", text=event.delta))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                hear(Delta(kind="thinking", text=event.delta))
            case "response.function_call_arguments.delta":
                hear(Delta(kind="call", text=event.delta))
        return event.type not in _SIGNS_OF_LIFE

    def _failed(self, code: str | None, message: str | None) -> ModelFailed:
        reply = faults.FaultReply(status=200, codes=(str(code or ""),), message=str(message or ""))
        return faults.make_failure(reply, self._endpoint.called, hidden=self._endpoint.api_key)

    def turn(self) -> Turn:
        if self._last is None:
            raise faults.broken_off(self._endpoint.called)
        # Some servers tell of an item only at the end.
        items = dict(enumerate(self._last.output or ())) | self._items
        parts = tuple(part for _, item in sorted(items.items()) for part in self._parts(item))
        stop = self._stop(self._last, items)
        return Turn(
            role="assistant",
            parts=parts,
            id=self._last.id or "",
            model=self._last.model or self._endpoint.model,
            stop="calls" if stop == "end" and any(isinstance(part, ToolCall) for part in parts) else stop,
        )

    def _parts(self, item: "ResponseOutputItem") -> Iterator[Part]:
        match item.type:
            case "message":
                text = _text(item)
                if text:
                    yield Text(text=text, phase=item.phase or "")
            case "function_call":
                yield read_call(id=item.call_id or "", name=item.name or "", text=as_text(item.arguments))
            case "reasoning" if item.encrypted_content:
                own = self._endpoint
                block = item.model_dump(mode="json", exclude_none=True, warnings=False)
                yield Opaque(wire="openai-responses", model=own.model, account=own.account, block=block)

    def _stop(self, last: "Response", items: "Mapping[int, ResponseOutputItem]") -> StopReason:
        """
        Raises:
            ModelFailed: it came to no good end.
        """
        reason = last.incomplete_details.reason if last.incomplete_details else None
        if any(map(_refused, items.values())):
            return "refusal"
        if reason is None and last.status in _WHOLE:
            halves = [item for item in items.values() if getattr(item, "status", None) not in _WHOLE]
            if halves or self._calls_begun - items.keys():
                raise faults.broken_off(self._endpoint.called, "a part of its answer has no end")
            return "end"
        stop = find_stop_reason(reason, _ENDS) if last.status in (*_WHOLE, "incomplete") else None
        if stop is None:
            raise faults.ill_ended(self._endpoint.called, reason or last.status)
        return cut_short(self.told.output, self._most_tokens) if stop == "max_tokens" else stop


def cut_short(output_tokens: int | None, most_tokens: int | None) -> StopReason:
    """
    Tell a full window from a reached limit, for which OpenAI has one word: an answer below its limit filled the
    window.
    """
    return "overflow" if most_tokens is not None and 0 < (output_tokens or 0) < most_tokens else "max_tokens"


def as_text(arguments: object) -> str:
    """Return a call's arguments as text; some servers send them as JSON."""
    if arguments is None:
        return ""
    return join_pieces([arguments]) if isinstance(arguments, str) else json.dumps(arguments)


def _text(item: "ResponseOutputMessage") -> str:
    return join_pieces((part.text if part.type == "output_text" else part.refusal) or "" for part in item.content or ())


def _refused(item: "ResponseOutputItem") -> bool:
    return item.type == "message" and any(part.type == "refusal" for part in item.content or ())


def _told(usage: "ResponseUsage | None") -> VendorCounts:
    read, thought = getattr(usage, "input_tokens_details", None), getattr(usage, "output_tokens_details", None)
    return VendorCounts(
        input=count(usage, "input_tokens"),
        cached=count(read, "cached_tokens"),
        written=count(read, "cache_write_tokens"),
        output=count(usage, "output_tokens"),
        reasoning=count(thought, "reasoning_tokens"),
    )
