"""
Lines of a file that were shown before: left out of a new reading, named by their numbers.

Texts are compared, never guessed about: a line is left out only where the very same bytes stand under the same number
in the earlier result. Numbers are those a reading prints (`read_file`, `cat -n`, `nl`), or are counted from where a
command said it starts.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from forgepool.workers.shell.purpose.file_access import Action, Read, Write, touches

PRINTED = 0
"""A way of numbering: lines have their numbers in front."""

_MARK = re.compile(r"\[lines (\d+)-(\d+) are as in step (\d+)\]")
_LEAST_BLOCK = 120
"""Characters: a shorter run of known lines stays, since a reading in pieces is harder to follow."""
_NEWEST = 8
"""Earlier readings of one file that a new one is compared with."""
_NUMBERED = re.compile(r" *(\d+)[\t→]")
_WRAPPERS = frozenset({"<output>", "</output>"})
"""What one widely recorded agent puts around a command's output."""
_CUT = re.compile(r"\s*(?:\[|<|\.\.\.).*\b(?:left out|elided|truncated|omitted)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """A result that is the text of one file, or of a part of it."""

    path: str
    start: int
    """The number of its first line, for lines without numbers; else `PRINTED`."""


def reading(action: Action, reads: Sequence[Read], whole: str) -> FileReading | None:
    """None of what is no such result, or has lines whose numbers are not certain."""
    if action != "read" or len(reads) != 1:
        return None
    lines = whole.split("\n")
    printed = [int(match[1]) for line in lines if (match := _NUMBERED.match(line))]
    if printed and 2 * len(printed) >= len(lines):
        ascending = all(one < other for one, other in pairwise(printed))
        return FileReading(path=reads[0].path, start=PRINTED) if ascending else None
    first = _first_line(reads[0], lines)
    return None if first is None else FileReading(path=reads[0].path, start=first)


@dataclass(slots=True)
class Readings:
    """What was shown of files since they were last written."""

    _shown: dict[str, dict[bool, list[tuple[int, Mapping[int, str]]]]] = field(default_factory=dict)
    """By path, and by whether numbers are printed: steps and the lines each shows, the newest first."""

    def forget(self, write: Write) -> None:
        """What was shown of every file that may be another now."""
        for path in [path for path in self._shown if touches(write, path)]:
            del self._shown[path]

    def take(self, step: int, read: FileReading, shown: str) -> None:
        """A result as it is shown: what stands behind a mark in it is not remembered as shown here."""
        lines = shown.split("\n")
        numbers = _numbers(lines, read.start)
        known = self._shown.setdefault(read.path, {}).setdefault(read.start == PRINTED, [])
        known.insert(0, (step, {number: line for number, line in zip(numbers, lines, strict=True) if number}))
        del known[_NEWEST:]

    def cut_overlap(self, read: FileReading, text: str, shown_from: int) -> str | None:
        """
        The text with every longer run of lines that a step from `shown_from` on shows put as one mark, `[lines 40-80
        are as in step 12]`. None where nothing can be left out.
        """
        known = self._shown.get(read.path, {}).get(read.start == PRINTED, ())
        earlier = [one for one in known if one[0] >= shown_from]
        if not earlier or refers_to_lines(text):
            return None
        lines = text.split("\n")
        found = _marked(lines, _numbers(lines, read.start), earlier)
        return "\n".join(found) if len(found) < len(lines) else None


def refers_to_lines(text: str) -> bool:
    """Whether some line of it is a mark."""
    return any(_MARK.fullmatch(line) for line in text.split("\n"))


def _marked(
    lines: Sequence[str], numbers: Sequence[int | None], earlier: Sequence[tuple[int, Mapping[int, str]]]
) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(lines):
        step, end = max((_run(lines, numbers, at, step, known) for step, known in earlier), key=lambda run: run[1])
        if end - at > 1 and sum(map(len, lines[at:end])) >= _LEAST_BLOCK:
            found.append(f"[lines {numbers[at]}-{numbers[end - 1]} are as in step {step}]")
            at = end
        else:
            found.append(lines[at])
            at += 1
    return found


def _run(
    lines: Sequence[str], numbers: Sequence[int | None], at: int, step: int, known: Mapping[int, str]
) -> tuple[int, int]:
    """The step, and the place behind the last of the lines from `at` on that it shows, without a gap in the file."""
    end = at
    while end < len(lines) and (number := numbers[end]) is not None and known.get(number) == lines[end]:
        if number != (numbers[at] or 0) + end - at:
            break
        end += 1
    return step, end


def _numbers(lines: Sequence[str], start: int) -> list[int | None]:
    """The number of each line in its file; None of what is no line of it."""
    if start == PRINTED:
        return [int(match[1]) if (match := _NUMBERED.match(line)) else None for line in lines]
    found: list[int | None] = []
    number = start
    for at, line in enumerate(lines):
        if line in _WRAPPERS and at in (0, len(lines) - 1):
            found.append(None)
        elif mark := _MARK.fullmatch(line):
            found.append(None)
            number = int(mark[2]) + 1
        else:
            found.append(number)
            number += 1
    return found


def _first_line(read: Read, lines: Sequence[str]) -> int | None:
    """
    Of the file, the first line that a reading without numbers shows; None where that is not certain.

    A range is believed where the text has just as many lines: else it was cut, or is not only that. A whole file
    begins at 1, unless something says that its middle is missing.
    """
    if read.part:
        return None
    if read.first is not None and read.last is not None:
        wrapped = sum(line in _WRAPPERS for line in (lines[0], lines[-1]))
        return read.first if len(lines) - wrapped == read.last - read.first + 1 else None
    certain = read.whole and not any(mark in read.path for mark in "*?[") and not any(map(_CUT.match, lines))
    return 1 if certain else None
