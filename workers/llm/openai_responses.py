"""
OpenAI's Responses, without state: one try, streamed. Nothing is kept there; reasoning comes sealed and is sent back so.

The kit's events are read raw: its own accumulation raises where an answer was cut short by its limit.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from workers.llm import faults
from workers.llm.alternation import alternating
from workers.llm.arguments import joined, read_call
from workers.llm.endpoint import Endpoint
from workers.llm.listening import attend
from workers.llm.messages import Opaque, Part, StopReason, Text, ToolCall, ToolResult, Turn, Usage
from workers.llm.openai_client import client
from workers.llm.provider import Delta, Hear, ModelFailed, Request, deaf

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

Body = dict[str, Any]


class OpenAIResponses:
    """A provider: one model by OpenAI's newer wire."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def ask(self, request: Request, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        if not self.endpoint.api_key and self.endpoint.base_url is None:
            raise faults.keyless(self.endpoint.called)
        import httpx2
        import openai

        params = cast("ResponseCreateParamsStreaming", body(self.endpoint, request))
        answer = _Answer(self.endpoint, params.get("max_output_tokens"))
        try:
            with closing(attend(lambda: self._open(params), stop)) as events:
                for event in events:
                    answer.take(event, hear)
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
            raise faults.from_kit(error, self.endpoint.called) from error
        return answer.turn()

    def _open(self, params: "ResponseCreateParamsStreaming") -> "Stream[ResponseStreamEvent]":
        return self._client.responses.create(**params)

    @cached_property
    def _client(self) -> "OpenAI":
        return client(self.endpoint, self)


def body(endpoint: Endpoint, request: Request) -> Body:
    """The request in the vendor's words."""
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
    sides = alternating(request.turns, wire="openai-responses", model=endpoint.model)
    instructions = "\n\n".join(text for text in request.system if text.strip())
    optional: Body = {
        "instructions": instructions,
        "tools": tools,
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
        "prompt_cache_key": conversation_key(instructions, tools, items[0]),
    } | {name: value for name, value in optional.items() if value}


def conversation_key(system: str, tools: list[Body], card: Body) -> str:
    """The same for every request of one conversation, so that they meet in the same cache."""
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


class _Answer:
    """An answer as its events arrive."""

    def __init__(self, endpoint: Endpoint, most_tokens: int | None) -> None:
        self._endpoint, self._most_tokens = endpoint, most_tokens
        self._items: dict[int, ResponseOutputItem] = {}
        self._last: Response | None = None

    def take(self, event: "ResponseStreamEvent", hear: Hear) -> None:
        match event.type:
            case "response.output_item.done":
                self._items[event.output_index] = event.item
            case "response.completed" | "response.incomplete":
                self._last = event.response
            case "response.failed":
                error = event.response.error
                raise self._failed(error.code if error else "", error.message if error else "")
            case "error":
                raise self._failed(event.code or "", event.message)
            case "response.output_text.delta" | "response.refusal.delta":
                hear(Delta(kind="text", text=event.delta))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                hear(Delta(kind="thinking", text=event.delta))
            case "response.function_call_arguments.delta":
                hear(Delta(kind="call", text=event.delta))

    def _failed(self, code: str, message: str) -> ModelFailed:
        return faults.failed(faults.Said(status=200, codes=(code,), message=message), self._endpoint.called)

    def turn(self) -> Turn:
        """
        Raises:
            ModelFailed: the answer has not come to its end.
        """
        if self._last is None:
            raise faults.broken_off(self._endpoint.called)
        # Some servers tell of an item only at the end.
        items = dict(enumerate(self._last.output or ())) | self._items
        parts = tuple(part for _, item in sorted(items.items()) for part in self._parts(item))
        usage = _counted(self._last.usage)
        return Turn(
            role="assistant",
            parts=parts,
            id=self._last.id,
            model=self._last.model or self._endpoint.model,
            stop=self._stop(parts, refused=any(map(_refused, items.values())), output_tokens=usage.output_tokens),
            usage=usage,
        )

    def _parts(self, item: "ResponseOutputItem") -> Iterator[Part]:
        match item.type:
            case "message":
                text = _text(item)
                if text:
                    yield Text(text=text, phase=item.phase or "")
            case "function_call":
                yield read_call(id=item.call_id, name=item.name, text=joined([item.arguments]))
            case "reasoning" if item.encrypted_content:
                block = item.model_dump(mode="json", exclude_none=True)
                yield Opaque(wire="openai-responses", model=self._endpoint.model, block=block)

    def _stop(self, parts: tuple[Part, ...], *, refused: bool, output_tokens: int) -> StopReason:
        details = self._last.incomplete_details if self._last else None
        reason = details.reason if details else None
        if refused or reason == "content_filter":
            return "refusal"
        if reason is not None:
            return cut_short(output_tokens, self._most_tokens)
        return "calls" if any(isinstance(part, ToolCall) for part in parts) else "end"


def cut_short(output_tokens: int, most_tokens: int | None) -> StopReason:
    """OpenAI's word for both ends is the same; an answer cut before its own limit has filled the model's window."""
    return "overflow" if most_tokens is not None and 0 < output_tokens < most_tokens else "max_tokens"


def _text(item: "ResponseOutputMessage") -> str:
    return joined(part.text if part.type == "output_text" else part.refusal for part in item.content)


def _refused(item: "ResponseOutputItem") -> bool:
    return item.type == "message" and any(part.type == "refusal" for part in item.content)


def _counted(said: "ResponseUsage | None") -> Usage:
    if said is None:
        return Usage(cost_usd=None)
    # Other servers leave out what the vendor's type promises.
    read, thought = getattr(said, "input_tokens_details", None), getattr(said, "output_tokens_details", None)
    return Usage(
        input_tokens=getattr(said, "input_tokens", None) or 0,
        cached_tokens=getattr(read, "cached_tokens", None) or 0,
        written_tokens=getattr(read, "cache_write_tokens", None) or 0,
        output_tokens=getattr(said, "output_tokens", None) or 0,
        reasoning_tokens=getattr(thought, "reasoning_tokens", None) or 0,
        cost_usd=None,
    )
