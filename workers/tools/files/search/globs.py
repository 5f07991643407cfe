"""
Globs over whole paths, as a shell has them: `**` spans folders, `*` and `?` do not, `{a,b}` is either.

Matched by a table of places, one step for each token and each character of a path: a regular expression of many stars
takes longer than anybody waits.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from forgepool.workers.tools.refusal import ToolRefused

_MOST_CHARACTERS = 1000
_MOST_WAYS = 64
"""What braces may come to: each is a pattern that every path is matched with."""
_TOKEN = re.compile(r"\*\*/|\*\*|\[!?\]?[^\]]*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Glob:
    ways: tuple[tuple[str, ...], ...]
    """Without braces, in tokens."""

    def matches(self, path: str) -> bool:
        return any(_matches(tokens, path) for tokens in self.ways)


@cache
def glob_pattern(glob: str) -> Glob:
    """
    What a model's glob means.

    Raises:
        Refused: it means nothing, or too much.
    """
    if len(glob) > _MOST_CHARACTERS or "\0" in glob:
        raise ToolRefused(
            f"the glob is longer than {_MOST_CHARACTERS} characters, or holds a NUL; give one such as **/*.py"
        )
    ways = tuple(tuple(_TOKEN.findall(way)) for way in _ways(glob))
    for token in {token for way in ways for token in way if _is_set(token)}:
        try:
            _set(token)
        except re.error as wrong:
            raise ToolRefused(f"{glob}: {wrong}; give a glob such as **/*.py") from wrong
    return Glob(ways)


def _ways(glob: str) -> list[str]:
    """Without braces; as it is where they do not close."""
    waiting, found = [glob], list[str]()
    while waiting:
        way = waiting.pop()
        span = _first_braces(way)
        if span is None:
            found.append(way)
        else:
            start, end, parts = span
            waiting += [way[:start] + part + way[end:] for part in parts]
        if len(waiting) + len(found) > _MOST_WAYS:
            raise ToolRefused(f"{glob[:80]}: its braces come to more than {_MOST_WAYS} patterns; give fewer")
    return list(dict.fromkeys(found))


def _first_braces(glob: str) -> tuple[int, int, list[str]] | None:
    """Where the first pair of braces begins and ends, and what it is a choice of; None without one that closes."""
    start = glob.find("{")
    depth, parts, begun = 0, list[str](), start + 1
    for at in range(max(0, start), len(glob) if start >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(glob[at], 0)
        if depth == 0 or (depth == 1 and glob[at] == ","):
            parts.append(glob[begun:at])
            begun = at + 1
        if depth == 0:
            return start, at + 1, parts
    return None


def _matches(tokens: Sequence[str], path: str) -> bool:
    """All places in the path that the tokens so far can lead to; at the end its end must be among them."""
    places: Iterable[int] = (0,)
    for token in tokens:
        places = _after(token, path, sorted(set(places)))
        if not places:
            return False
    return len(path) in places


def _after(token: str, path: str, places: Sequence[int]) -> list[int]:
    if not places:
        return []
    match token:
        case "**/":
            return [*places, *(at + 1 for at in range(places[0], len(path)) if path[at] == "/")]
        case "**":
            return list(range(places[0], len(path) + 1))
        case "*":
            return _within_names(path, places)
        case _:
            return [at + 1 for at in places if at < len(path) and _is_one(token, path[at])]


def _within_names(path: str, places: Sequence[int]) -> list[int]:
    found: list[int] = []
    for at in places:
        here = at if not found or at > found[-1] else found[-1] + 1
        while here <= len(path):
            if here > at and path[here - 1] == "/":
                break
            found.append(here)
            here += 1
    return found


def _is_one(token: str, character: str) -> bool:
    if token == "?":
        return character != "/"
    return bool(_set(token).match(character)) if _is_set(token) else token == character


def _is_set(token: str) -> bool:
    return len(token) > 2 and token[0] == "["


@cache
def _set(token: str) -> re.Pattern[str]:
    inner = token[1:-1].replace("\\", r"\\").replace("[", r"\[")
    return re.compile(f"[^/{inner[1:]}]" if inner[0] == "!" else f"[{inner}]", re.DOTALL)
