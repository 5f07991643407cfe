"""
What language servers tell, in our own words. Paths are real paths; lines and columns count from 0, as theirs do.
"""

import errno
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.worktrees.git.beneath import Beneath

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """Between two characters; both numbers from 0."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TextChange:
    """What is between two spots becomes another text."""

    start: Spot
    end: Spot
    text: str


def units(text: str) -> int:
    """The text's length as servers count it."""
    return len(text) + sum(character > "\uffff" for character in text)


def lines_of(text: str) -> list[str]:
    return _LINE_END.split(text)


def columns_of(line: str, symbol: str) -> list[int]:
    """Where in a line a name begins; not where it is a part of a longer one."""
    whole = re.compile(rf"(?<![\w$]){re.escape(symbol)}(?![\w$])")
    return [units(line[: found.start()]) for found in whole.finditer(line)]


def plain_name(symbol: str) -> str:
    """Of a name with its owners (`Shop.open`, `shop::open`), the last part."""
    return re.split(r"\.|::|#", symbol.removesuffix("()"))[-1]


def apply_changes(text: str, changes: Iterable[TextChange]) -> str:
    """
    The text after all changes, whose spots are those of the text before.

    Raises:
        ValueError: two of them overlap.
    """
    starts = [0, *(found.end() for found in _LINE_END.finditer(text))]
    lines = lines_of(text)
    out: list[str] = []
    at = 0
    ordered = sorted(changes, key=lambda change: (change.start, change.end))
    for change in ordered:
        begin, end = (_offset(spot, starts, lines, text) for spot in (change.start, change.end))
        if begin < at or end < begin:
            raise ValueError("two changes overlap")
        out += [text[at:begin], change.text]
        at = end
    return "".join([*out, text[at:]])


def _offset(spot: Spot, starts: list[int], lines: list[str], text: str) -> int:
    """A spot beyond a line's end is the line's end, beyond the text's, the text's: the protocol has it so."""
    if spot.line >= len(lines):
        return len(text)
    line = lines[spot.line]
    if line.isascii():
        return starts[spot.line] + min(spot.column, len(line))
    seen = 0
    for index, character in enumerate(line):
        if seen >= spot.column:
            return starts[spot.line] + index
        seen += 1 + (character > "\uffff")
    return starts[spot.line] + len(line)


class NoAnswer(Exception):
    """A question that got no answer; the sentence is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A definition."""

    name: str
    kind: str
    container: str
    """The class, module or namespace it is in; empty when it is not told."""
    path: Path
    line: int


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    path: Path
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """An error or a warning."""

    path: Path
    line: int
    column: int
    severity: Literal["error", "warning"]
    message: str


Edits = Mapping[Path, tuple[TextChange, ...]]
"""What is to be changed in which file."""


Stamp = tuple[int, int, int, int]
Stamps = Mapping[str, Stamp]
"""By path. A file with the same stamp has the same content: none of its times, its size and its number changed."""

Fate = Literal["created", "changed", "deleted"]

_NOT_OURS = frozenset({"node_modules", "__pycache__", "site-packages"})
_MOST = 50_000


def stamps(root: Path, suffixes: Collection[str]) -> dict[str, Stamp]:
    """
    The files below a folder that have one of these suffixes, without hidden folders and those of packages and builds.

    At most fifty thousand: what is beyond is taken for unchanged.
    """
    found: dict[str, Stamp] = {}
    waiting = [os.fspath(root)]
    wanted = tuple(suffixes)
    while waiting and len(found) < _MOST:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    _take(entry, wanted, found, waiting)
        except OSError:
            continue  # gone while we looked
    return found


def _take(entry: "os.DirEntry[str]", wanted: tuple[str, ...], found: dict[str, Stamp], waiting: list[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        if not entry.name.startswith(".") and entry.name not in _NOT_OURS:
            waiting.append(entry.path)
    elif entry.name.endswith(wanted) and entry.is_file(follow_symlinks=False):
        now = entry.stat(follow_symlinks=False)
        found[entry.path] = (now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino)


def differences(before: Stamps, after: Stamps) -> dict[str, Fate]:
    """What became of each file that is not as it was."""
    fates: dict[str, Fate] = {path: "deleted" for path in before if path not in after}
    for path, stamp in after.items():
        if path not in before:
            fates[path] = "created"
        elif before[path] != stamp:
            fates[path] = "changed"
    return fates


_MOST_BYTES = 10 * 1024 * 1024
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file's text at a version; versions count up with each change that is told."""

    version: int
    text: str
    heard: int
    """How often the server had said, when it was told this text, what is wrong with the file."""


def text_of(path: Path, root: Beneath) -> str | None:
    """
    A file as it can be told, each byte that is not UTF-8 as one character; None when there is no such file below the
    folder, or only a link that leads to one.

    Raises:
        NoAnswer: it is too large.
    """
    try:
        data = root.read(path.relative_to(root.path), most_bytes=_MOST_BYTES)
    except OSError as trouble:
        if trouble.errno == errno.EFBIG:
            raise NoAnswer(f"{path.name}: is too large; use grep") from trouble
        return None
    except ValueError:
        return None
    return _HALF.sub("�", data.decode(errors="surrogateescape"))
