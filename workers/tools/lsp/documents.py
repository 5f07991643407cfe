"""
Values that language servers are asked and answer with: symbols, findings, positions and edits, files and changes on
disk.

Paths are real paths; lines and columns count from 0, columns in UTF-16 units as servers count them.
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
    """A place between two characters; both numbers count from 0."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TextChange:
    """A replacement of the text between two spots."""

    start: Spot
    end: Spot
    text: str


def units(text: str) -> int:
    """Return the text's length in UTF-16 units, as servers count it."""
    return len(text) + sum(character > "\uffff" for character in text)


def lines_of(text: str) -> list[str]:
    return _LINE_END.split(text)


def columns_of(line: str, symbol: str) -> list[int]:
    """Return the columns at which a name begins in a line, parts of longer names aside."""
    whole = re.compile(rf"(?<![\w$]){re.escape(symbol)}(?![\w$])")
    return [units(line[: found.start()]) for found in whole.finditer(line)]


def plain_name(symbol: str) -> str:
    """Return the last part of a name with its owners (`Shop.open`, `shop::open`)."""
    return re.split(r"\.|::|#", symbol.removesuffix("()"))[-1]


def apply_changes(text: str, changes: Iterable[TextChange]) -> str:
    """
    Return the text after all changes, whose spots refer to the text before.

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
    """Return a spot's index. As in the protocol, a spot beyond a line's or the text's end is that end."""
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
"""The changes for each file."""


Stamp = tuple[int, int, int, int]
Stamps = Mapping[str, Stamp]
"""By path. A file with the same stamp has the same content: none of its times, its size and its number changed."""

Fate = Literal["created", "changed", "deleted"]

_NOT_OURS = frozenset({"node_modules", "__pycache__", "site-packages"})
_MOST = 50_000


def stamps(root: Path, suffixes: Collection[str]) -> dict[str, Stamp]:
    """
    Return the files below a folder with one of these suffixes, hidden folders and those of packages left out.

    At most fifty thousand are looked at; further ones count as unchanged.
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
    """Return the fate of each file that has changed."""
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
    """A file's text at a version; the version grows with each change that is sent."""

    version: int
    text: str
    heard: int
    """The number of reports on the file that the server had sent when it got this text."""


def text_of(path: Path, root: Beneath) -> str | None:
    """
    Read a file as text, each byte that is not UTF-8 as one character; None where there is none below the folder.

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
