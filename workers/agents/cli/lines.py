"""
A line of output as JSON, and what lies at a place in it: nothing here trusts a shape, since versions change them.
"""

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

_MOST_CHARACTERS = 32_000
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
    return found if isinstance(found, str) else ""


def object_at(value: JsonValue | Json, *path: str) -> dict[str, JsonValue]:
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def objects_at(value: JsonValue | Json, *path: str) -> Iterator[dict[str, JsonValue]]:
    """The objects of a list."""
    found = at(value, *path)
    yield from (each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


def count_at(value: JsonValue | Json, *path: str) -> int:
    """A number of things: never negative, and 0 where there is none."""
    found = at(value, *path)
    return max(0, found) if isinstance(found, int) else 0


def number_at(value: JsonValue | Json, *path: str) -> float | None:
    found = at(value, *path)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number and abs(found) < float("inf") else None  # type: ignore[arg-type]  # is_number


def clipped(text: str) -> str:
    """Both ends of what is too long for a transcript, and only what UTF-8 can carry."""
    if len(text) > _MOST_CHARACTERS:
        left_out = len(text) - _MOST_CHARACTERS
        half = _MOST_CHARACTERS // 2
        text = f"{text[:half]}\n[{left_out:,} characters are left out]\n{text[-half:]}"
    return text.encode("utf-8", errors="replace").decode("utf-8")


def clipped_value(value: JsonValue) -> JsonValue:
    """The same for every text in a value."""
    if isinstance(value, str):
        return clipped(value)
    if isinstance(value, list):
        return [clipped_value(each) for each in value]
    if isinstance(value, dict):
        return {clipped(key): clipped_value(each) for key, each in value.items()}
    return value


def one_line(text: str, most: int = 300) -> str:
    """A text as the part of a sentence, without keys."""
    return _KEY.sub("[key]", " ".join(text.split()))[:most].rstrip(". ")
