"""
A line of output as JSON, and what lies at a place in it: nothing here trusts a shape, since versions change them.
"""

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

_MOST_CHARACTERS = 32_000
_MOST_DEPTH = 40
_MOST_NUMBER = 1e300
_MOST_COUNT = 10**11
_MOST_COST_USD = 1e6
# Vendors show a part of a key that is wrong.
_KEY = re.compile(r"\b(sk|pk|key)-[\w*.-]{4,}", re.IGNORECASE)

Json = Mapping[str, JsonValue]


def json_object(line: str) -> Json | None:
    """None where the line is not one JSON object: a warning between the events, or half of one."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def at(value: JsonValue | Json, *path: str) -> JsonValue:
    """What lies at a path of keys; None where there is nothing."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value if not isinstance(value, Mapping) else dict(value)


def text_at(value: JsonValue | Json, *path: str) -> str:
    found = at(value, *path)
    return _whole(found) if isinstance(found, str) else ""


def object_at(value: JsonValue | Json, *path: str) -> dict[str, JsonValue]:
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def objects_at(value: JsonValue | Json, *path: str) -> Iterator[dict[str, JsonValue]]:
    """The objects of a list."""
    found = at(value, *path)
    yield from (each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


def count_at(value: JsonValue | Json, *path: str) -> int:
    """A number of things; 0 where there is none, or one that cannot be."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MOST_COUNT else 0


def cost(usd: float | None) -> float | None:
    """An amount that may be; None for others, which tell nothing."""
    return usd if usd is not None and 0 <= usd <= _MOST_COST_USD else None


def number_at(value: JsonValue | Json, *path: str) -> float | None:
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if abs(found) < _MOST_NUMBER else None


def clip_text(text: str) -> str:
    """Both ends of what is too long for a transcript."""
    if len(text) > _MOST_CHARACTERS:
        left_out = len(text) - _MOST_CHARACTERS
        half = _MOST_CHARACTERS // 2
        text = f"{text[:half]}\n[{left_out:,} characters are left out]\n{text[-half:]}"
    return _whole(text)


def clip_object(value: Json) -> dict[str, JsonValue]:
    """The same for every text in an object, such as a call's arguments; and what only Python calls a number is none."""
    return {_whole(key): _clipped_value(each, _MOST_DEPTH) for key, each in value.items()}


def _clipped_value(value: JsonValue, depth: int) -> JsonValue:
    if depth == 0:
        return None
    match value:
        case str():
            return clip_text(value)
        case list():
            return [_clipped_value(each, depth - 1) for each in value]
        case dict():
            return {_whole(key): _clipped_value(each, depth - 1) for key, each in value.items()}
        case float() if not abs(value) < _MOST_NUMBER:
            return None
        case _:
            return value


def _whole(text: str) -> str:
    """JSON may name half a character, which no file can hold."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def one_line(text: str, most: int = 300) -> str:
    """A text as the part of a sentence, without keys."""
    return _KEY.sub("[key]", " ".join(text.split()))[:most].rstrip(". ")
