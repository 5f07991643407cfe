"""
A patch as some models write it, from `*** Begin Patch` to `*** End Patch`, read into values. Touches no file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from forgepool.workers.tools.workplace import ToolRefused

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _UPDATE, _DELETE = "*** Add File: ", "*** Update File: ", "*** Delete File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
"""Line numbers as other patches have them; here the lines themselves say where a hunk belongs."""
_FORM = f"a patch goes from '{_BEGIN}' to '{_END}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchHunk:
    number: int
    """From 1, within its file."""
    anchors: tuple[str, ...]
    """Lines above the hunk, each below the one before it; empty where the hunk stands for itself."""
    lines: tuple[tuple[str, str], ...]
    """Each with its mark: a blank for one that stays, `-` for one that goes, `+` for one that comes."""
    at_end: bool
    """Whether it is known to end where the file ends."""

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(line for mark, line in self.lines if mark != "+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    path: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    path: str
    moved_to: str | None
    hunks: tuple[PatchHunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    path: str


Change = Add | Update | Delete


def read_patch(text: str) -> tuple[Change, ...]:
    """
    What a patch asks for, file by file.

    Raises:
        Refused: it is no such patch; the sentence names the line.
    """
    lines = _inner_lines(text)
    if not lines:
        raise ToolRefused("the patch changes nothing; between its first and last line it needs '*** Update File: ...'")
    starts = [at for at, line in enumerate(lines) if line.startswith((_ADD, _UPDATE, _DELETE))]
    if not starts or starts[0] != 0:
        raise ToolRefused(
            f"patch line 2: {lines[0]!r}: begin a file with '{_ADD}', '{_UPDATE}' or '{_DELETE}' and its path"
        )
    sections = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    return tuple(_change(section) for section in sections)


def _inner_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").strip().split("\n")
    if lines[0].startswith("<<") and len(lines) > 1:  # models that think of a shell wrap it so
        lines = lines[1:-1]
    if lines[0].strip() != _BEGIN:
        raise ToolRefused(f"patch line 1: {lines[0][:80]!r}: {_FORM}")
    if lines[-1].strip() != _END:
        raise ToolRefused(f"the patch's last line is {lines[-1][:80]!r}: {_FORM}")
    return lines[1:-1]


def _change(section: list[str]) -> Change:
    head, body = section[0], section[1:]
    path = head.split(": ", 1)[1].strip()
    if not path:
        raise ToolRefused(f"{head.strip()!r}: names no file; give its path below the worktree")
    if head.startswith(_ADD):
        return Add(path=path, content=_content(path, body))
    if head.startswith(_DELETE):
        if any(line.strip() for line in body):
            raise ToolRefused(f"{path}: a file that is deleted has no lines; leave them out")
        return Delete(path=path)
    return _update(path, body)


def _content(path: str, body: list[str]) -> str:
    while body and not body[-1].strip():
        body = body[:-1]
    for number, line in enumerate(body, start=1):
        if not line.startswith("+"):
            raise ToolRefused(f"{path}, line {number}: {line[:80]!r}: every line of an added file begins with '+'")
    return "".join(f"{line[1:]}\n" for line in body)


def _update(path: str, body: list[str]) -> Update:
    moved_to = None
    if body and body[0].startswith(_MOVE):
        moved_to, body = body[0].removeprefix(_MOVE).strip(), body[1:]
    hunks = tuple(_hunks(path, body))
    if not hunks and moved_to is None:
        raise ToolRefused(f"{path}: the update has no hunk; give lines marked ' ', '-' and '+' below an '@@' line")
    return Update(path=path, moved_to=moved_to, hunks=hunks)


def _hunks(path: str, body: list[str]) -> Iterator[PatchHunk]:
    while body and not body[-1]:
        body = body[:-1]  # empty lines before the next file
    anchors: list[str] = []
    lines: list[tuple[str, str]] = []
    number, at_end = 1, False
    for line in [*body, "@@"]:
        if line.strip() == _END_OF_FILE:
            at_end = True
        elif line == "@@" or line.startswith("@@ "):
            if lines:
                yield _hunk(path, number, anchors, lines, at_end)
                anchors, lines, number, at_end = [], [], number + 1, False
            anchor = _NUMBERS.sub("", line[3:])
            anchors += [anchor] if anchor.strip() else []
        else:
            lines.append(_marked(path, number, line))
    if anchors:
        raise ToolRefused(f"{path}, hunk {number}: has no lines below its @@ line")


def _marked(path: str, number: int, line: str) -> tuple[str, str]:
    if not line:
        return " ", ""  # an empty line that stays; its blank is easily lost
    if line[0] not in " -+":
        raise ToolRefused(f"{path}, hunk {number}: {line[:80]!r}: a line of a hunk begins with ' ', '-' or '+'")
    return line[0], line[1:]


def _hunk(path: str, number: int, anchors: list[str], lines: list[tuple[str, str]], at_end: bool) -> PatchHunk:
    if all(mark == " " for mark, _ in lines):
        raise ToolRefused(f"{path}, hunk {number}: changes nothing; mark lines that go with '-' and that come with '+'")
    return PatchHunk(number=number, anchors=tuple(anchors), lines=tuple(lines), at_end=at_end)
