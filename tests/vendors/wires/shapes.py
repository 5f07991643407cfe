"""Requests held against the kits' own types of them."""

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
    """Fails for what the kit's type does not allow, and for what it does not know, which the type itself lets pass."""
    assert _whole(_shape(wire).validate_python(body)) == body


def _whole(value: Any) -> Any:
    """With every iterator read to its end, since what is in one is validated only then."""
    if isinstance(value, Mapping):
        return {key: _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, Iterable) and not isinstance(value, str) else value
