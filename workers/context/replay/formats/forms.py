"""Forms of foreign JSON: the fields read are validated, others are ignored."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from forgepool.workers.context.replay.recording import BadRecording
from forgepool.workers.llm.messages import ToolCall

_MAY_HOLD_HALVES = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    data: bytes

    @property
    def name(self) -> str:
        return self.path.name


class Form(BaseModel):
    """The part of a foreign record that is read."""

    model_config = ConfigDict(frozen=True, extra="ignore")


F = TypeVar("F", bound=Form)


class ContentBlock(Form):
    type: str = ""
    text: str | None = None


Content = str | Sequence[ContentBlock | str] | None


class _Function(Form):
    name: str
    arguments: str | dict[str, JsonValue] | None = None


class WireCall(Form):
    """A tool call as OpenAI's chat wire has it."""

    id: str | None = None
    function: _Function


class _Details(Form):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class WireUsage(Form):
    """The token usage of an OpenAI wire, chat or responses."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_details: _Details | None = Field(None, alias="prompt_tokens_details")
    completion_details: _Details | None = Field(None, alias="completion_tokens_details")
    input_details: _Details | None = Field(None, alias="input_tokens_details")
    output_details: _Details | None = Field(None, alias="output_tokens_details")
    cache_creation_input_tokens: int | None = None


def parse_json(data: bytes) -> object:
    """
    Parse JSON. Broken characters, in which cut strings end, become question marks.

    Raises:
        ValueError: it is not JSON; a `json.JSONDecodeError` where the place is known.
    """
    value = json.loads(data)
    return _whole(value) if _MAY_HOLD_HALVES.search(data) else value


def fit_form(form: type[F], value: object, where: str, format: str) -> F:
    """
    Read a value as a form. `where` and `format` name it in errors.

    Raises:
        BadRecording: `value` is not of the form.
    """
    try:
        return form.model_validate(value)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise BadRecording(f"{where}: not {format}: {place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from wrong


def text_of(content: Content) -> str:
    """Return the texts of blocks; for a block without text its kind in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(piece if isinstance(piece, str) else _piece_text(piece) for piece in content)


def read_call(wire: WireCall) -> ToolCall:
    return call_named(wire.function.name, wire.function.arguments, wire.id or "")


def call_named(name: str, arguments: str | dict[str, JsonValue] | None, call_id: str) -> ToolCall:
    """Make a call from recorded arguments: a JSON text, an object, or none."""
    if not isinstance(arguments, str):
        return ToolCall(id=call_id, name=name, arguments=arguments or {})
    try:
        found: Any = parse_json(arguments.encode())
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return ToolCall(id=call_id, name=name, arguments=found)
    return ToolCall(id=call_id, name=name, malformed=arguments)


def moment(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _piece_text(piece: ContentBlock) -> str:
    return piece.text if piece.text is not None else f"[{piece.type}]"


def _whole(value: object) -> object:
    match value:
        case str():
            return value if value.isascii() else value.encode(errors="replace").decode()
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {_whole(key): _whole(item) for key, item in value.items()}
        case _:
            return value
