"""Hunks of a patch that git wrote, read by their counted lines: no line's content is ever taken for a heading."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FILE = re.compile(rb"diff --git a/(\d+) b/\1")
_HEAD = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffHunk:
    """One run of changed lines, with the unchanged ones around it that were asked for."""

    old_start: int
    new_start: int
    lines: tuple[bytes, ...]
    """Each with its sign in front, without its newline; after one that has none in the file, git's remark on it."""

    @property
    def head(self) -> str:
        return f"@@ -{self.old_start} +{self.new_start} @@"

    @property
    def added(self) -> Iterator[tuple[int, bytes]]:
        """The added lines with their numbers in the new file."""
        return self._signed(b"+", self.new_start)

    @property
    def removed(self) -> Iterator[tuple[int, bytes]]:
        """The removed lines with their numbers in the old file."""
        return self._signed(b"-", self.old_start)

    @property
    def before(self) -> bytes:
        """What stood in the old file, a newline before every line; empty where nothing did."""
        return b"".join(b"\n" + line[1:] for line in self.lines if line[:1] in (b" ", b"-"))

    def _signed(self, sign: bytes, number: int) -> Iterator[tuple[int, bytes]]:
        for line in self.lines:
            if line[:1] == sign:
                yield number, line[1:]
            if line[:1] in (sign, b" "):
                number += 1


def parse_hunks(patch: bytes) -> dict[int, tuple[DiffHunk, ...]]:
    """The hunks by the number that each file has for a name."""
    lines = patch.split(b"\n")
    found: dict[int, list[DiffHunk]] = {}
    file = at = 0
    while at < len(lines):
        if name := _FILE.fullmatch(lines[at]):
            file = int(name[1])
        elif head := _HEAD.match(lines[at]):
            end = _end(lines, at + 1, int(head[2] or 1), int(head[4] or 1))
            hunk = DiffHunk(old_start=int(head[1]), new_start=int(head[3]), lines=tuple(lines[at + 1 : end]))
            found.setdefault(file, []).append(hunk)
            at = end
            continue
        at += 1
    return {number: tuple(hunks) for number, hunks in found.items()}


def _end(lines: list[bytes], at: int, old: int, new: int) -> int:
    """The first line after a hunk of so many old and new lines."""
    while old > 0 or new > 0 or lines[at][:1] == b"\\":
        sign = lines[at][:1]
        old -= sign in (b" ", b"-")
        new -= sign in (b" ", b"+")
        at += 1
    return at
