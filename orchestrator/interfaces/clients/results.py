"""Results of tools: texts made harmless and cut, long texts in pages, lists that fit into a short answer."""

import json
from collections.abc import Iterable, Mapping

from forgepool.orchestrator.cli.output.say import printable
from forgepool.workers.schema.error_lines import without_escapes

MOST_TEXT = 2000
"""Characters of one text in an answer; a page of a long text may have more."""
PAGE = 8000
_MOST_ITEMS = 200


def clean(text: str) -> str:
    """Return the text without terminal sequences; other unprintable characters are escaped, except line ends."""
    if text.isprintable():
        return text
    return "\n".join(printable(line) for line in without_escapes(text).split("\n"))


def shorten(text: str, most: int) -> str:
    """Return at most so many characters; the last one tells that more were left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def clean_value(value: object, most: int = MOST_TEXT) -> object:
    """Return a JSON value whose texts are clean, and no longer than `most`; of longer lists the beginning."""
    match value:
        case str():
            return shorten(clean(value), most)
        case Mapping():
            return {str(key): clean_value(each, most) for key, each in value.items()}
        case list() | tuple():
            return [clean_value(each, most) for each in value[:_MOST_ITEMS]]
        case _:
            return value


def json_bytes(value: object) -> int:
    """Return the size of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def page_of(text: str, offset: int) -> dict[str, object]:
    """Return a part of a long text; `next_offset` is None at its end."""
    whole = clean(text)
    end = max(0, offset) + PAGE
    return {
        "text": whole[max(0, offset) : end],
        "characters": len(whole),
        "next_offset": end if end < len(whole) else None,
    }


def fill(answer: dict[str, object], key: str, rows: Iterable[Mapping[str, object]], *, most_bytes: int) -> None:
    """Add rows under the key while the whole stays below a size, and the number of those left out."""
    fitting: list[object] = []
    left = 0
    answer[key] = fitting
    for row in rows:
        fitting.append(clean_value(row, 160))
        if left or json_bytes(answer) > most_bytes:
            fitting.pop()
            left += 1
    if left:
        answer[f"{key}_left_out"] = left
