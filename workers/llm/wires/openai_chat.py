"""
The adapter for OpenAI's Chat Completions, which most servers speak (vLLM, llama.cpp, Ollama): one try, streamed.

Such servers leave out things that the vendor promises: usage, ids, whole deltas. They are supplied where that changes
nothing. An answer without its end is none.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from forgepool.workers.llm.messages import Part, StopReason, Text, ToolCall, ToolResult, Turn
from forgepool.workers.llm.provider import Delta, Endpoint, Hear, ModelRequest, deaf
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
from forgepool.workers.llm.wires.openai_responses import as_text, client, conversation_key, cut_short

if TYPE_CHECKING:
    from openai import OpenAI, Stream
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

Body = dict[str, Any]


class OpenAIChat:
    """A provider: one model over OpenAI's older wire."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        if not self.endpoint.api_key and self.endpoint.base_url is None:
            raise faults.keyless(self.endpoint.called)
        asked = body(self.endpoint, request)
        most = asked.get("max_tokens") or asked.get("max_completion_tokens")
        attempt: Try[ChatCompletionChunk] = Try(
            endpoint=self.endpoint, request=request, sent=asked, answer=_Answer(self.endpoint, most)
        )
        return attempt.run(lambda: self._open(asked), stop=stop, hear=hear)

    def _open(self, asked: Body) -> "Stream[ChatCompletionChunk]":
        return self.client.chat.completions.create(**cast("CompletionCreateParamsStreaming", asked))

    @cached_property
    def client(self) -> "OpenAI":
        return client(self.endpoint, self)


def body(endpoint: Endpoint, request: ModelRequest) -> Body:
    """Build the request in the vendor's form; for other servers, in the form that all of them know."""
    tools: list[Body] = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.schema),
                "strict": False,
            },
        }
        for tool in request.tools
    ]
    system = "\n\n".join(text for text in request.system if text.strip())
    sides = alternating(request.turns, wire="openai-chat", model=endpoint.model, account=endpoint.account)
    messages = [message for place, parts in enumerate(sides) for message in _messages(parts, by_model=place % 2 == 1)]
    own = endpoint.base_url is None
    optional: Body = {
        "tools": tools,
        "tool_choice": "required" if request.must_call else None,
        "max_completion_tokens" if own else "max_tokens": endpoint.most_tokens(request.max_output_tokens),
        "reasoning_effort": endpoint.effort,
        "prompt_cache_key": conversation_key(system, tools, messages[0]) if own else None,
    }
    return {
        "model": endpoint.model,
        "messages": [{"role": "system", "content": system}, *messages] if system else messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    } | {name: value for name, value in optional.items() if value}


def read_whole(endpoint: Endpoint, request: ModelRequest, answer: Any) -> Turn:
    """
    Read an answer that came whole, as those of a batch do.

    Raises:
        ModelFailed: it is none.
    """
    asked = body(endpoint, request)
    reader = _Answer(endpoint, asked.get("max_tokens") or asked.get("max_completion_tokens"))
    attempt: Try[ChatCompletionChunk] = Try(endpoint=endpoint, request=request, sent=asked, answer=reader)
    return attempt.run(lambda: (event for event in _events(answer)), stop=lambda: False, hear=deaf)


def _events(answer: Any) -> "Iterator[ChatCompletionChunk]":
    from openai.types.chat import ChatCompletionChunk

    choices = [{**one, "delta": one["message"]} for one in answer["choices"]]
    yield ChatCompletionChunk.construct(**{**answer, "choices": choices})


def _messages(parts: tuple[Part, ...], *, by_model: bool) -> Iterator[Body]:
    text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
    if by_model:
        calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
        message: Body = {"role": "assistant", "content": text or None}
        yield message | ({"tool_calls": calls} if calls else {})
        return
    for part in parts:
        if isinstance(part, ToolResult):
            yield {"role": "tool", "tool_call_id": part.call_id, "content": part.text}
    if text:
        yield {"role": "user", "content": text}


def _call(call: ToolCall) -> Body:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


@dataclass(slots=True)
class _Called:
    """One call as it arrives."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)


_ENDS: Mapping[str, StopReason] = {
    **dict.fromkeys(("stop", "tool_calls", "function_call", "tool_use", "end_turn"), "end"),
    **dict.fromkeys(("eos", "eos_token", "stop_sequence"), "end"),
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "overflow",
    "content_filter": "refusal",
}


class _Answer:
    """An answer as its chunks arrive."""

    def __init__(self, endpoint: Endpoint, most_tokens: int | None) -> None:
        self._endpoint, self._most_tokens = endpoint, most_tokens
        self._id, self._model = "", endpoint.model
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Called] = []
        self._places: dict[int, _Called] = {}
        self._finish = ""
        self.told = VendorCounts()

    def take(self, chunk: "ChatCompletionChunk", hear: Callable[[Delta], None]) -> bool:
        self._id = self._id or getattr(chunk, "id", None) or ""
        self._model = getattr(chunk, "model", None) or self._model
        if usage := getattr(chunk, "usage", None):
            self.told = _told(usage)
        came = False
        for choice in (getattr(chunk, "choices", None) or ())[:1]:
            self._finish = getattr(choice, "finish_reason", None) or self._finish
            if delta := getattr(choice, "delta", None):
                came = self._add(delta, hear)
        return came

    def _add(self, delta: "ChoiceDelta", hear: Callable[[Delta], None]) -> bool:
        thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        if thought:
            hear(Delta(kind="thinking", text=str(thought)))
        if delta.content:
            self._text.append(delta.content)
            hear(Delta(kind="text", text=delta.content))
        if delta.refusal:
            self._refusal.append(delta.refusal)
        for piece in delta.tool_calls or ():
            self._add_call(piece, hear)
        return bool(thought or delta.content or delta.refusal or delta.tool_calls)

    def _add_call(self, piece: "ChoiceDeltaToolCall", hear: Callable[[Delta], None]) -> None:
        call = self._called(piece)
        if piece.function is None:
            return
        call.name = call.name or piece.function.name or ""
        if text := as_text(piece.function.arguments):
            call.pieces.append(text)
            hear(Delta(kind="call", text=text))

    def _called(self, piece: "ChoiceDeltaToolCall") -> _Called:
        """
        Return the call a piece belongs to. Some servers number calls not at all or all alike, and only ids
        differ.
        """
        place = getattr(piece, "index", None) or 0
        known = self._places.get(place)
        if known is None or (piece.id and known.id and piece.id != known.id):
            known = self._places[place] = _Called()
            self._calls.append(known)
        known.id = known.id or piece.id or ""
        return known

    def turn(self) -> Turn:
        stop = self._stop()
        text = join_pieces(self._text) or join_pieces(self._refusal)
        calls = [read_call(id=call.id, name=call.name, text=join_pieces(call.pieces)) for call in self._calls]
        return Turn(
            role="assistant",
            parts=(*([Text(text=text)] if text else []), *calls),
            id=self._id,
            model=self._model,
            stop="calls" if stop == "end" and calls else stop,
        )

    def _stop(self) -> StopReason:
        """
        Raises:
            ModelFailed: it came to no good end.
        """
        called = self._endpoint.called
        if self._finish == "error":
            raise faults.make_failure(faults.FaultReply(status=200, message="it failed in the middle"), called)
        if not self._finish:
            raise faults.broken_off(called)
        stop = "refusal" if self._refusal else find_stop_reason(self._finish, _ENDS)
        if stop is None:
            raise faults.ill_ended(called, self._finish)
        return cut_short(self.told.output, self._most_tokens) if stop == "max_tokens" else stop


def _told(usage: "CompletionUsage") -> VendorCounts:
    read, thought = getattr(usage, "prompt_tokens_details", None), getattr(usage, "completion_tokens_details", None)
    return VendorCounts(
        input=count(usage, "prompt_tokens"),
        cached=count(read, "cached_tokens"),
        written=count(read, "cache_write_tokens"),
        output=count(usage, "completion_tokens"),
        reasoning=count(thought, "reasoning_tokens"),
    )
