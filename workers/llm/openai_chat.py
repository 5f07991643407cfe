"""
OpenAI's Chat Completions, the wire nearly every other server speaks (vLLM, llama.cpp, Ollama, OpenRouter): one try,
streamed.

Such servers leave out what the vendor promises: usage, ids, whole deltas. What is missing is made up for where that
changes nothing, and an answer without its end is none.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from workers.llm import faults
from workers.llm.alternation import alternating
from workers.llm.arguments import joined, read_call
from workers.llm.endpoint import Endpoint
from workers.llm.listening import attend
from workers.llm.messages import Part, StopReason, Text, ToolCall, ToolResult, Turn, Usage
from workers.llm.openai_client import client
from workers.llm.openai_responses import conversation_key, cut_short
from workers.llm.provider import Delta, Hear, Request, deaf

if TYPE_CHECKING:
    from openai import OpenAI, Stream
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

_TOKEN_CHARACTERS = 4

Body = dict[str, Any]


class OpenAIChat:
    """A provider: one model by OpenAI's older wire."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def ask(self, request: Request, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        if not self.endpoint.api_key and self.endpoint.base_url is None:
            raise faults.keyless(self.endpoint.called)
        import httpx2
        import openai

        asked = body(self.endpoint, request)
        answer = _Answer(self.endpoint.model)
        try:
            with closing(attend(lambda: self._open(asked), stop)) as chunks:
                for chunk in chunks:
                    answer.take(chunk, hear)
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
            raise faults.from_kit(error, self.endpoint.called) from error
        if answer.finish == "error":
            raise faults.failed(faults.Said(status=200, message="it failed in the middle"), self.endpoint.called)
        if not answer.finish:
            raise faults.broken_off(self.endpoint.called)
        return answer.turn(asked, {call.id for turn in request.turns for call in turn.calls})

    def _open(self, asked: Body) -> "Stream[ChatCompletionChunk]":
        return self._client.chat.completions.create(**cast("CompletionCreateParamsStreaming", asked))

    @cached_property
    def _client(self) -> "OpenAI":
        return client(self.endpoint, self)


def body(endpoint: Endpoint, request: Request) -> Body:
    """The request in the vendor's words; to other servers in those that all of them know."""
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
    sides = alternating(request.turns, wire="openai-chat", model=endpoint.model)
    said = [message for place, parts in enumerate(sides) for message in _messages(parts, by_model=place % 2 == 1)]
    own = endpoint.base_url is None
    optional: Body = {
        "tools": tools,
        "max_completion_tokens" if own else "max_tokens": endpoint.most_tokens(request.max_output_tokens),
        "reasoning_effort": endpoint.effort,
        "prompt_cache_key": conversation_key(system, tools, said[0]) if own else None,
    }
    return {
        "model": endpoint.model,
        "messages": [{"role": "system", "content": system}, *said] if system else said,
        "stream": True,
        "stream_options": {"include_usage": True},
    } | {name: value for name, value in optional.items() if value}


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


class _Answer:
    """An answer as its chunks arrive."""

    def __init__(self, model: str) -> None:
        self._id, self._model = "", model
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Called] = []
        self._places: dict[int, _Called] = {}
        self._usage: CompletionUsage | None = None
        self.finish = ""

    def take(self, chunk: "ChatCompletionChunk", hear: Hear) -> None:
        self._id = self._id or getattr(chunk, "id", None) or ""
        self._model = getattr(chunk, "model", None) or self._model
        self._usage = getattr(chunk, "usage", None) or self._usage
        for choice in (getattr(chunk, "choices", None) or ())[:1]:
            self.finish = getattr(choice, "finish_reason", None) or self.finish
            if delta := getattr(choice, "delta", None):
                self._add(delta, hear)

    def _add(self, delta: "ChoiceDelta", hear: Hear) -> None:
        if thought := getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None):
            hear(Delta(kind="thinking", text=str(thought)))
        if delta.content:
            self._text.append(delta.content)
            hear(Delta(kind="text", text=delta.content))
        if delta.refusal:
            self._refusal.append(delta.refusal)
        for piece in delta.tool_calls or ():
            self._add_call(piece, hear)

    def _add_call(self, piece: "ChoiceDeltaToolCall", hear: Hear) -> None:
        call = self._called(piece)
        if piece.function is None:
            return
        call.name = call.name or piece.function.name or ""
        if piece.function.arguments:
            call.pieces.append(piece.function.arguments)
            hear(Delta(kind="call", text=piece.function.arguments))

    def _called(self, piece: "ChoiceDeltaToolCall") -> _Called:
        """The call a piece belongs to. Some servers number none of them, or all alike, and tell them apart by id."""
        place = getattr(piece, "index", None) or 0
        known = self._places.get(place)
        if known is None or (piece.id and known.id and piece.id != known.id):
            known = self._places[place] = _Called()
            self._calls.append(known)
        known.id = known.id or piece.id or ""
        return known

    def turn(self, asked: Body, taken: set[str]) -> Turn:
        """`taken` are ids of calls made before, which must not be given to others."""
        calls = [
            read_call(id=name, name=call.name, text=joined(call.pieces))
            for name, call in zip(_own_ids(self._calls, taken), self._calls, strict=True)
        ]
        text = joined(self._text) or joined(self._refusal)
        usage = _counted(self._usage) if self._usage else self._guessed(asked)
        most = asked.get("max_tokens") or asked.get("max_completion_tokens")
        return Turn(
            role="assistant",
            parts=(*([Text(text=text)] if text else []), *calls),
            id=self._id,
            model=self._model,
            stop=self._stop(cut_short(usage.output_tokens, most) if self._usage else "max_tokens"),
            usage=usage,
        )

    def _stop(self, short: StopReason) -> StopReason:
        if self._refusal or self.finish == "content_filter":
            return "refusal"
        if self.finish in ("length", "max_tokens"):
            return short
        if self.finish == "model_length":
            return "overflow"
        return "calls" if self._calls else "end"

    def _guessed(self, asked: Body) -> Usage:
        """For a server that counts nothing: limits in tokens must hold there too."""
        said = sum(len(piece) for piece in self._text + [one for call in self._calls for one in call.pieces])
        return Usage(
            input_tokens=len(json.dumps(asked, ensure_ascii=False)) // _TOKEN_CHARACTERS,
            output_tokens=said // _TOKEN_CHARACTERS + 1,
            cost_usd=None,
        )


def _own_ids(calls: Iterable[_Called], taken: set[str]) -> Iterator[str]:
    """Each call's id, and another where it has none or one that another call has."""
    known = set(taken)
    for call in calls:
        name = call.id if call.id and call.id not in known else f"call_{uuid4().hex[:24]}"
        known.add(name)
        yield name


def _counted(said: "CompletionUsage") -> Usage:
    read, thought = said.prompt_tokens_details, said.completion_tokens_details
    return Usage(
        input_tokens=getattr(said, "prompt_tokens", None) or 0,
        cached_tokens=getattr(read, "cached_tokens", None) or 0,
        written_tokens=getattr(read, "cache_write_tokens", None) or 0,
        output_tokens=getattr(said, "completion_tokens", None) or 0,
        reasoning_tokens=getattr(thought, "reasoning_tokens", None) or 0,
        cost_usd=None,
    )
