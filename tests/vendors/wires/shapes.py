"""Requests compared with the types of the vendors' own SDKs."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from vendors.answers import Body, Wire


@cache
def _shape(wire: Wire) -> TypeAdapter[Any]:
    if wire == "anthropic":
        from anthropic.types.message_create_params import MessageCreateParamsStreaming

        return TypeAdapter(MessageCreateParamsStreaming)
    if wire == "openai-responses":
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

        return TypeAdapter(ResponseCreateParamsStreaming)
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return TypeAdapter(CompletionCreateParamsStreaming)


def assert_shaped(wire: Wire, body: Body) -> None:
    """Fail for what the SDK's type forbids, and for unknown fields, which the type itself lets pass."""
    assert _whole(_shape(wire).validate_python(body)) == body


def _whole(value: Any) -> Any:
    """Read every iterator to its end, because its items are validated only then."""
    if isinstance(value, Mapping):
        return {key: _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, Iterable) and not isinstance(value, str) else value
