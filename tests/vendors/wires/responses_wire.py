"""OpenAI's Responses API: which requests it refuses, and answers as events or in one piece."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from vendors.answers import Body, Call, Fault, Say, Tokens, arguments_text
from vendors.wires.pieces import Piece, chunks
from vendors.wires.sealing import seal

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_ID = 64
_OF_ASSISTANT = ("function_call", "custom_tool_call", "message", "reasoning")


def invalid(headers: Mapping[str, str], body: Body, strict: bool) -> str | None:
    """Return the reason for which the vendor would refuse the request, or None."""
    return next(_mistakes(body, strict), None)


def _mistakes(body: Body, strict: bool) -> Iterator[str]:
    shown = body.get("input")
    if not shown:
        yield "Missing required parameter: 'input'."
        return
    if isinstance(shown, str):
        return
    for number, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") == "function" and not _NAME.fullmatch(tool.get("name", "")):
            yield f"Missing required parameter: 'tools[{number}].name'."
    items: list[Body] = [{"type": "message"} | item for item in shown]
    yield from _texts(items)
    yield from _pairs(items)
    yield from _reasoning(body, items)
    last = items[-1]
    if strict and (last["type"] in ("function_call", "reasoning") or last.get("role") == "assistant"):
        yield "the input ends with the assistant's side"


def _texts(items: list[Body]) -> Iterator[str]:
    for number, item in enumerate(items):
        if item["type"] != "message":
            continue
        content = item.get("content")
        if not content or (isinstance(content, list) and any(part.get("text") == "" for part in content)):
            yield f"Invalid 'input[{number}].content': empty."
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        parts = content if isinstance(content, list) else []
        if any(part["type"] in ("input_text", "output_text") and part["type"] != kind for part in parts):
            yield f"Invalid value in 'input[{number}].content': expected '{kind}'."


def _pairs(items: list[Body]) -> Iterator[str]:
    asked: dict[str, bool] = {}
    for number, item in enumerate(items):
        call = item.get("call_id") or ""
        if item["type"].endswith("_call") and call:
            if call in asked:
                yield f"Duplicate call_id '{call}' in input[{number}]."
            asked[call] = False
            if item["type"] == "function_call" and not _NAME.fullmatch(item.get("name") or ""):
                yield f"Invalid 'input[{number}].name': string does not match pattern '{_NAME.pattern}'."
            if item["type"] == "function_call" and not _is_json(item.get("arguments")):
                yield f"Invalid 'input[{number}].arguments': not a JSON object."
        elif item["type"].endswith("_call_output"):
            if asked.get(call) is not False:
                yield f"No tool call found for function call output with call_id {call}."
            asked[call] = True
        if len(call) > _LONGEST_ID:
            yield f"Invalid 'input[{number}].call_id': string too long."
        if item.get("role") == "user" and (open_calls := [one for one, done in asked.items() if not done]):
            yield f"No tool output found for function call {open_calls[0]}."
    yield from (f"No tool output found for function call {one}." for one, done in asked.items() if not done)


def _is_json(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def _reasoning(body: Body, items: list[Body]) -> Iterator[str]:
    for number, item in enumerate(items):
        if item["type"] != "reasoning":
            continue
        name = str(item.get("id"))
        if not body.get("store", True) and not item.get("encrypted_content"):
            yield f"Item with id '{name}' not found. Items are not persisted when `store` is set to false."
        elif item["encrypted_content"] != seal(body["model"], name):
            yield "The encrypted content could not be verified."
        after = items[number + 1] if number + 1 < len(items) else {}
        if after.get("type") not in _OF_ASSISTANT or after.get("role") == "user":
            yield f"Item '{name}' of type 'reasoning' was provided without its required following item."


def usage(tokens: Tokens) -> Body:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.written},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


_INCOMPLETE = {"max_tokens": "max_output_tokens", "overflow": "max_output_tokens"}


def whole(model: str, name: str, say: Say, tokens: Tokens) -> Body:
    reason = _INCOMPLETE.get(say.ends)
    return _head(model, name) | {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": list(_items(model, name, say)),
        "usage": usage(tokens),
    }


def _head(model: str, name: str) -> Body:
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {},
        "usage": None,
    }


def _items(model: str, name: str, say: Say) -> Iterator[Body]:
    if say.thinking or say.redacted:
        summary = [] if say.redacted else [{"type": "summary_text", "text": say.thinking}]
        item = f"rs_{name}"
        yield {"id": item, "type": "reasoning", "summary": summary, "encrypted_content": seal(model, item)}
    status = "incomplete" if say.ends in _INCOMPLETE else "completed"
    if say.text:
        part = (
            {"type": "refusal", "refusal": say.text}
            if say.ends == "refusal"
            else {"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}
        )
        message = {"id": f"msg_{name}", "type": "message", "status": status, "role": "assistant", "content": [part]}
        yield message | ({"phase": say.phase} if say.phase else {})
    for place, call in enumerate(say.calls):
        yield _call_item(name, place, call, status)


def _call_item(name: str, place: int, call: Call, status: str) -> Body:
    return {
        "id": f"fc_{name}_{place}",
        "type": "function_call",
        "status": status,
        "call_id": f"call_{name}_{place}",
        "name": call[0],
        "arguments": arguments_text(call[1]),
    }


class _Counted:
    """Numbers the events of one stream."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: str, data: Body, *, in_call: bool = False) -> Piece:
        text = json.dumps({"type": kind, "sequence_number": self._next} | data)
        self._next += 1
        return Piece(data=f"event: {kind}\ndata: {text}\n\n".encode(), in_call=in_call)


def stream(model: str, name: str, say: Say, tokens: Tokens) -> Iterator[Piece]:
    event = _Counted()
    yield event("response.created", {"response": _head(model, name)})
    yield event("response.in_progress", {"response": _head(model, name)})
    for index, item in enumerate(_items(model, name, say)):
        yield from {"reasoning": _thought, "message": _message, "function_call": _call}[item["type"]](
            event, index, item
        )
    done = whole(model, name, say, tokens)
    yield event(f"response.{done['status']}", {"response": done})


def _thought(event: _Counted, index: int, item: Body) -> Iterator[Piece]:
    place: Body = {"output_index": index, "item_id": item["id"], "summary_index": 0}
    early = item | {"summary": [], "encrypted_content": "unfinished"}
    yield event("response.output_item.added", {"output_index": index, "item": early})
    for part in item["summary"]:
        yield event("response.reasoning_summary_part.added", place | {"part": part | {"text": ""}})
        for piece in chunks(part["text"]):
            yield event("response.reasoning_summary_text.delta", place | {"delta": piece})
        yield event("response.reasoning_summary_text.done", place | {"text": part["text"]})
        yield event("response.reasoning_summary_part.done", place | {"part": part})
    yield event("response.output_item.done", {"output_index": index, "item": item})


def _message(event: _Counted, index: int, item: Body) -> Iterator[Piece]:
    place: Body = {"output_index": index, "item_id": item["id"], "content_index": 0}
    part = item["content"][0]
    kind = "refusal" if part["type"] == "refusal" else "output_text"
    field = "refusal" if kind == "refusal" else "text"
    early = item | {"content": [], "status": "in_progress"}
    yield event("response.output_item.added", {"output_index": index, "item": early})
    yield event("response.content_part.added", place | {"part": part | {field: ""}})
    for piece in chunks(part[field]):
        yield event(f"response.{kind}.delta", place | {"delta": piece, "logprobs": []})
    yield event(f"response.{kind}.done", place | {field: part[field], "logprobs": []})
    yield event("response.content_part.done", place | {"part": part})
    yield event("response.output_item.done", {"output_index": index, "item": item})


def _call(event: _Counted, index: int, item: Body) -> Iterator[Piece]:
    place: Body = {"output_index": index, "item_id": item["id"]}
    early = item | {"arguments": "", "status": "in_progress"}
    yield event("response.output_item.added", {"output_index": index, "item": early})
    for piece in chunks(item["arguments"]):
        yield event("response.function_call_arguments.delta", place | {"delta": piece}, in_call=True)
    yield event("response.function_call_arguments.done", place | {"name": item["name"], "arguments": item["arguments"]})
    yield event("response.output_item.done", {"output_index": index, "item": item})


def broken(fault: Fault) -> Piece:
    """Return the event that announces the end of the stream."""
    event = _Counted()
    code, message = fault.code or "server_error", fault.message or "The engine is currently overloaded"
    if fault.kind == "error_event":
        return event("error", {"code": code, "message": message, "param": None})
    failed = _head("", "failed") | {"status": "failed", "error": {"code": code, "message": message}}
    return event("response.failed", {"response": failed})
