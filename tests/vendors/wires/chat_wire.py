"""OpenAI's Chat Completions API: which requests it refuses, and answers as chunks or in one piece."""

import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from vendors.answers import Body, Fault, Say, Tokens, arguments_text
from vendors.wires.pieces import Piece, chunks

_FINISHES = {
    "end": "stop",
    "calls": "tool_calls",
    "max_tokens": "length",
    "refusal": "stop",
    "overflow": "length",
    "pause": "stop",
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def invalid(headers: Mapping[str, str], body: Body, strict: bool) -> str | None:
    """Return the reason for which the vendor would refuse the request, or None."""
    return next(_mistakes(body, strict), None)


def _mistakes(body: Body, strict: bool) -> Iterator[str]:
    messages = body.get("messages") or []
    if not messages:
        yield "Missing required parameter: 'messages'."
        return
    for number, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") == "function" and not _NAME.fullmatch(tool.get("function", {}).get("name", "")):
            yield f"Missing required parameter: 'tools[{number}].function.name'."
    if body.get("stream_options") and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    for number, message in enumerate(messages):
        yield from _message(number, message)
    yield from _pairs(messages)
    if strict:
        yield from _order([message["role"] for message in messages])


def _message(number: int, message: Body) -> Iterator[str]:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        yield f"Invalid value: '{role}' in 'messages[{number}].role'."
    if role == "assistant" and calls is not None and not calls:
        yield f"Invalid 'messages[{number}].tool_calls': empty array."
    if not calls and role != "tool" and not content:
        yield f"Invalid 'messages[{number}].content': expected a non-empty string."
    if role == "tool" and not message.get("tool_call_id"):
        yield f"Missing required parameter: 'messages[{number}].tool_call_id'."
    if isinstance(content, list) and any(part.get("text") == "" for part in content):
        yield f"Invalid 'messages[{number}].content': empty text."
    for call in calls or ():
        if not _NAME.fullmatch(call.get("function", {}).get("name") or ""):
            yield f"Invalid 'messages[{number}].tool_calls[].function.name': string does not match '{_NAME.pattern}'."
        if not call.get("id") or not _is_json(call.get("function", {}).get("arguments")):
            yield f"Invalid 'messages[{number}].tool_calls': an id and a JSON object as arguments are required."


def _is_json(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def _pairs(messages: list[Body]) -> Iterator[str]:
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield (
                    f"Invalid parameter: messages[{number}] with role 'tool' must be a response to a preceding message "
                    "with 'tool_calls'."
                )
            open_calls.discard(message.get("tool_call_id", ""))
            continue
        if open_calls:
            yield _unanswered(open_calls)
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        if len(ids) != len(set(ids)):
            yield f"Invalid 'messages[{number}].tool_calls': ids must be unique."
        open_calls = set(ids)
    if open_calls:
        yield _unanswered(open_calls)


def _unanswered(calls: set[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(sorted(calls))}"
    )


def _order(roles: list[str]) -> Iterator[str]:
    """Yield violations of the order that chat templates of served open models require."""
    if "system" in roles[1:]:
        yield "System message must be at the beginning."
    if any(one == other and one in ("user", "assistant") for one, other in itertools.pairwise(roles)):
        yield "Conversation roles must alternate user/assistant/user/assistant/..."
    if roles[-1] not in ("user", "tool"):
        yield "the messages end with the assistant's side"


def usage(tokens: Tokens) -> Body:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def whole(model: str, name: str, say: Say, tokens: Tokens) -> Body:
    message = {
        "role": "assistant",
        "content": say.text or None,
        "refusal": None,
        "tool_calls": _calls(name, say) or None,
    }
    if say.ends == "refusal":
        message |= {"content": None, "refusal": say.text}
    choice = {"index": 0, "message": message, "finish_reason": _FINISHES[say.ends], "logprobs": None}
    return _head(model, name) | {"object": "chat.completion", "choices": [choice], "usage": usage(tokens)}


def _head(model: str, name: str) -> Body:
    return {"id": f"chatcmpl-{name}", "created": int(time.time()), "model": model, "system_fingerprint": None}


def _calls(name: str, say: Say) -> list[Body]:
    return [
        {
            "id": f"call_{name}_{place}",
            "type": "function",
            "function": {"name": call[0], "arguments": arguments_text(call[1])},
        }
        for place, call in enumerate(say.calls)
    ]


def stream(model: str, name: str, say: Say, tokens: Tokens) -> Iterator[Piece]:
    head = _head(model, name) | {"object": "chat.completion.chunk", "usage": None}

    def chunk(delta: Body, finish: str | None = None, *, in_call: bool = False) -> Piece:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _event(head | {"choices": [choice]}, in_call=in_call)

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for piece in chunks(say.thinking):
        yield chunk({"reasoning_content": piece})
    for piece in chunks(say.text):
        yield chunk({"refusal" if say.ends == "refusal" else "content": piece})
    for index, call in enumerate(_calls(name, say)):
        arguments = call["function"]["arguments"]
        early = call | {"function": {"name": call["function"]["name"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index} | early]})
        for piece in chunks(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, in_call=True)
    yield chunk({}, _FINISHES[say.ends])
    if tokens != Tokens():
        yield _event(head | {"choices": [], "usage": usage(tokens)})
    yield Piece(data=b"data: [DONE]\n\n")


def broken(fault: Fault) -> Piece:
    """Return the event that announces the end of the stream."""
    message = fault.message or "The engine is currently overloaded"
    return _event(
        {"error": {"message": message, "type": "server_error", "param": None, "code": fault.code or "server_error"}}
    )


def _event(data: Body, *, in_call: bool = False) -> Piece:
    return Piece(data=f"data: {json.dumps(data)}\n\n".encode(), in_call=in_call)
