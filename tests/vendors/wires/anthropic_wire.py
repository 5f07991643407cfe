"""Anthropic's Messages API: which requests it refuses, and answers as events or in one piece."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from vendors.answers import Body, Call, Fault, Say, Tokens, arguments_text
from vendors.wires.pieces import Piece, chunks
from vendors.wires.sealing import seal

_STOPS = {
    "end": "end_turn",
    "calls": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "overflow": "model_context_window_exceeded",
    "pause": "pause_turn",
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALLED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NEW_VERSION = "2026-10-21"
_MOST_BREAKPOINTS = 4


def invalid(headers: Mapping[str, str], body: Body, strict: bool) -> str | None:
    """Return the reason for which the vendor would refuse the request, or None."""
    return next(_mistakes(headers, body, strict), None)


def _mistakes(headers: Mapping[str, str], body: Body, strict: bool) -> Iterator[str]:
    version = headers.get("anthropic-version")
    if not version:
        yield "anthropic-version: header is required"
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    if version == _NEW_VERSION:
        yield from (
            f"{name}: Extra inputs are not permitted" for name in ("temperature", "top_p", "top_k") if name in body
        )
    names = [tool.get("name", "") for tool in body.get("tools") or ()]
    yield from (f"tools: name '{name}' is not valid" for name in names if not _NAME.fullmatch(name))
    if len(names) != len(set(names)):
        yield "tools: Tool names must be unique."
    yield from _marks(body)
    yield from _conversation(body, strict)


def _marks(body: Body) -> Iterator[str]:
    marks = [mark for mark in _found_marks([body.get("tools"), body.get("system"), body.get("messages")])]
    if len(marks) > _MOST_BREAKPOINTS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    lives = [mark.get("ttl") or "5m" for mark in marks]
    if any(now == "1h" and before == "5m" for before, now in itertools.pairwise(lives)):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def _found_marks(value: Any) -> Iterator[Body]:
    """Yield the marks in the order of the prompt: tools, system, messages."""
    if isinstance(value, list):
        for item in value:
            yield from _found_marks(item)
    elif isinstance(value, dict):
        if value.get("cache_control"):
            yield value["cache_control"]
        yield from _found_marks(value.get("content"))


def _conversation(body: Body, strict: bool) -> Iterator[str]:
    messages = body.get("messages") or []
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    if messages[-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    roles = [message["role"] for message in messages]
    if strict and any(one == other for one, other in itertools.pairwise(roles)):
        yield 'messages: roles must alternate between "user" and "assistant"'
    for number, message in enumerate(messages):
        blocks = _content(message)
        yield from _empties(number, blocks)
        yield from _echoes(body["model"], number, blocks)
    yield from _pairs([(message["role"], _content(message)) for message in messages if message["role"] != "system"])


def _content(message: Body) -> list[Body]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _empties(number: int, blocks: list[Body]) -> Iterator[str]:
    if not blocks:
        yield f"messages.{number}: all messages must have non-empty content"
    if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
        yield f"messages.{number}: text content blocks must contain non-whitespace text"


def _echoes(model: str, number: int, blocks: list[Body]) -> Iterator[str]:
    for place, block in enumerate(blocks):
        if block["type"] == "thinking" and block.get("signature") != seal(model, block.get("thinking", "")):
            yield f"messages.{number}.content.{place}: Invalid `signature` in `thinking` block"
        if block["type"] == "redacted_thinking" and not str(block.get("data", "")).startswith("sealed"):
            yield f"messages.{number}.content.{place}: Invalid `data` in `redacted_thinking` block"
        if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
            yield f"messages.{number}.content.{place}.tool_use.input: Input should be a valid dictionary"
        if block["type"] == "tool_use" and not _CALLED.fullmatch(block.get("name", "")):
            yield f"messages.{number}.content.{place}.tool_use.name: String should match pattern '{_CALLED.pattern}'"
        if block["type"] == "tool_use" and not _ID.fullmatch(block.get("id", "")):
            yield f"messages.{number}.content.{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"


def _pairs(turns: list[tuple[str, list[Body]]]) -> Iterator[str]:
    asked: list[str] = []
    known: set[str] = set()
    for number, (role, blocks) in enumerate(turns):
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if missing := set(asked) - set(answered):
            yield (
                f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(sorted(missing))}"
            )
        if orphans := set(answered) - set(asked):
            names = ", ".join(sorted(orphans))
            yield f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {names}"
        if len(answered) != len(set(answered)):
            yield f"messages.{number}: each tool_use must have a single result"
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            yield f"messages.{number}: tool_result blocks must come first in the content"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"] if role == "assistant" else []
        if known & set(asked) or len(asked) != len(set(asked)):
            yield f"messages.{number}: `tool_use` ids must be unique"
        known |= set(asked)
    if asked:
        yield "messages: `tool_use` ids were found without `tool_result` blocks"


def usage(tokens: Tokens) -> Body:
    return {
        "input_tokens": tokens.input - tokens.cached - tokens.written,
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.written - tokens.written_1h,
            "ephemeral_1h_input_tokens": tokens.written_1h,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        "service_tier": "standard",
    }


def whole(model: str, name: str, say: Say, tokens: Tokens) -> Body:
    return _head(model, name) | {
        "content": [block for block, _ in _answer_blocks(model, name, say)],
        "stop_reason": _STOPS[say.ends],
        "stop_details": _details(say),
        "usage": usage(tokens),
    }


def _head(model: str, name: str) -> Body:
    return {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}


def _details(say: Say) -> Body | None:
    return {"type": "refusal", "category": "cyber", "explanation": None} if say.ends == "refusal" else None


def _answer_blocks(model: str, name: str, say: Say) -> Iterator[tuple[Body, str]]:
    """Yield the blocks of an answer, and the part of each that is streamed."""
    if say.redacted:
        yield {"type": "redacted_thinking", "data": seal(model, say.thinking)}, ""
    elif say.thinking:
        yield {"type": "thinking", "thinking": say.thinking, "signature": seal(model, say.thinking)}, say.thinking
    if say.text:
        yield {"type": "text", "text": say.text, "citations": None}, say.text
    for place, call in enumerate(say.calls):
        yield _call_block(name, place, call), arguments_text(call[1])


def _call_block(name: str, place: int, call: Call) -> Body:
    arguments = call[1]
    return {
        "type": "tool_use",
        "id": f"toolu_{name}_{place}",
        "name": call[0],
        "input": {} if isinstance(arguments, str) else arguments,
        "caller": {"type": "direct"},
    }


def stream(model: str, name: str, say: Say, tokens: Tokens) -> Iterator[Piece]:
    begun = {"input_tokens": usage(tokens)["input_tokens"], "output_tokens": 1}
    start = _head(model, name) | {"content": [], "stop_reason": None, "usage": usage(tokens) | begun}
    yield _event("message_start", {"message": start})
    yield _event("ping", {})
    for index, (block, text) in enumerate(_answer_blocks(model, name, say)):
        yield from _block_events(index, block, text)
    delta = {"stop_reason": _STOPS[say.ends], "stop_sequence": None, "stop_details": _details(say)}
    total = usage(tokens)
    kept = (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "output_tokens_details",
    )
    yield _event("message_delta", {"delta": delta, "usage": {key: total[key] for key in kept}})
    yield _event("message_stop", {})


def _block_events(index: int, block: Body, text: str) -> Iterator[Piece]:
    empty: dict[str, Body] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    kind = block["type"]
    yield _event("content_block_start", {"index": index, "content_block": block | empty.get(kind, {})})
    field, delta = {
        "text": ("text", "text_delta"),
        "thinking": ("thinking", "thinking_delta"),
        "tool_use": ("partial_json", "input_json_delta"),
    }.get(kind, ("", ""))
    for piece in chunks(text):
        body = {"index": index, "delta": {"type": delta, field: piece}}
        yield _event("content_block_delta", body, in_call=kind == "tool_use")
    if kind == "thinking":
        signature = {"type": "signature_delta", "signature": block["signature"]}
        yield _event("content_block_delta", {"index": index, "delta": signature})
    yield _event("content_block_stop", {"index": index})


def broken(fault: Fault) -> Piece:
    """Return the event that announces the end of the stream."""
    code = fault.code or "overloaded_error"
    return _event("error", {"error": {"type": code, "message": fault.message or "Overloaded"}, "request_id": "req_1"})


def _event(kind: str, data: Body, *, in_call: bool = False) -> Piece:
    text = json.dumps({"type": kind} | data)
    return Piece(data=f"event: {kind}\ndata: {text}\n\n".encode(), in_call=in_call)
