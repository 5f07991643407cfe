"""
`glob`: which files there are, by name or by how lately they changed. Links are listed, not followed.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace
from forgepool.worktrees.git.git import GitFailed

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


_MOST = 500
_TIMEOUT_S = 30.0


class GlobArguments(Arguments):
    pattern: str = Field(default="**", description="such as **/*.py or src/{a,b}*.ts; ** spans folders, * does not")
    path: str = Field(default=".", description="the folder that the pattern begins in")
    sort: Literal["path", "recent"] = Field(default="path", description="by path, or the latest changed first")


def glob(arguments: GlobArguments, workplace: Workplace) -> ToolAnswer:
    folder = workplace.path(arguments.path)
    if not folder.is_dir():
        raise ToolRefused(f"{arguments.path}: no such folder; use glob without a path")
    wanted = glob_pattern(arguments.pattern.removeprefix("./"))
    found = [path for path in _files(folder, workplace) if wanted.matches(path.relative_to(folder).as_posix())]
    if not found:
        return ToolAnswer(text=_nothing(arguments))
    ordered = sorted(found, key=_age) if arguments.sort == "recent" else sorted(found)
    lines = [show_name(workplace.name(path)) for path in ordered[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"[{len(found) - _MOST:,} more; narrow the path or the pattern]")
    return ToolAnswer(text="\n".join(lines))


def show_name(name: str) -> str:
    """A name on a line of its own, whatever characters it is made of."""
    plain = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return plain if plain.isprintable() else repr(plain)


def _nothing(arguments: GlobArguments) -> str:
    deeper = "" if "/" in arguments.pattern else f"; **/{arguments.pattern} looks in all folders"
    return f"no file below {arguments.path} matches {arguments.pattern} (files that git ignores are left out){deeper}"


def _age(path: Path) -> tuple[float, str]:
    try:
        return (-path.lstat().st_mtime, str(path))
    except OSError:
        return (0.0, str(path))


def _files(folder: Path, workplace: Workplace) -> Iterable[Path]:
    """What git does not ignore; everything, where git does not know the worktree."""
    if workplace.git is None:
        return _walked(folder)
    inside = folder.relative_to(workplace.root).as_posix()
    argv = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", inside)
    try:
        names = workplace.git.run(*argv, timeout_s=_TIMEOUT_S).fields
    except GitFailed:
        return _walked(folder)
    paths = (workplace.root / name for name in dict.fromkeys(names))
    return [path for path in paths if os.path.lexists(path)]


def _walked(folder: Path) -> Iterator[Path]:
    """Everything but folders and what is git's."""
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name.lower() != ".git"]
        linked = [name for name in folders if Path(here, name).is_symlink()]
        yield from (Path(here, name) for name in names + linked if name.lower() != ".git")


GLOB = make_typed_tool(
    "glob",
    "Lists files whose paths match a pattern, all of them without one. Files that git ignores are left out.",
    GlobArguments,
    glob,
    kind="read",
)
