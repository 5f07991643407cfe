"""
What a model sent as a tool's arguments, taken at its word or not at all.

The kits repair JSON that is broken or cut off, and a file's half content then looks like all of it. Here the text is
one JSON object by the letter, or malformed.
"""

import json
import math
from collections.abc import Iterable
from typing import NoReturn

from pydantic import JsonValue

from forgepool.workers.llm.messages import ToolCall


def read_call(*, id: str, name: str, text: str) -> ToolCall:
    """A call whose arguments came as text; no text at all is no arguments."""
    try:
        arguments = _strictly(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return ToolCall(id=id, name=name, malformed=text)
    return ToolCall(id=id, name=name, arguments=arguments)


def join_pieces(pieces: Iterable[str]) -> str:
    """
    The pieces of a streamed text in one. A character beyond the sixteen-bit range may come as two halves in two
    pieces; what stays half is replaced, since it could not be written down.
    """
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _strictly(text: str) -> dict[str, JsonValue]:
    value = json.loads(text, parse_constant=_no_json, parse_float=_finite, object_pairs_hook=_unrepeated)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    # Half a character, escaped, is JSON, but nothing that could be written to a transcript or a file.
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number


def _unrepeated(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name is given twice")
    return read
