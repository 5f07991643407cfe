"""
The files a reviewer has read, by the tools' own account. Pure: a transcript and a diff in, files out.

A page shown in the very turn that gave the verdict does not count: the reviewer has to have seen it before. Nor does a
search, nor a page of a changed file with none of its changed lines on it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forgepool.supervisor.review.difference import Difference, Patch
from forgepool.supervisor.review.quoting import one_line
from forgepool.workers.context.transcript.entries import Entry
from forgepool.workers.context.transcript.exchanges import ToolExchange, exchanges, iterations, text_argument, under_way
from forgepool.workers.shell.purpose.file_access import normal_path

_NUMBERED = re.compile(r" *(\d+)\t")
_LOOKING = ("read_file", "grep", "glob")
_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewReading:
    read: tuple[str, ...]
    """The changed files that were read."""
    missing: str = ""
    """One sentence on what a verdict lacks; empty where enough was read."""


def reading(entries: Sequence[Entry], difference: Difference, *, root: str) -> ReviewReading:
    """Return the reading up to the turn that is being carried out, the last of the conversation under way."""
    talk = under_way(entries)
    done = [one for one in exchanges(talk) if one.worked and one.iteration < iterations(talk)]
    shown = _lines_shown(done, root)
    readable = difference.readable
    read = tuple(patch.path for patch in readable if _is_read(patch, shown))
    return ReviewReading(read=read, missing=_missing(read, difference, done))


def _lines_shown(done: Sequence[ToolExchange], root: str) -> dict[str, set[int]]:
    """By path. An empty file is shown by no line."""
    found: dict[str, set[int]] = {}
    for one in done:
        if one.call.name == "read_file":
            path = normal_path(text_argument(one.call.arguments, "path"), root)
            numbers = (match[1] for line in one.result.text.split("\n") if (match := _NUMBERED.match(line)))
            found.setdefault(path, set()).update(int(number) for number in numbers)
    return found


def _is_read(patch: Patch, shown: dict[str, set[int]]) -> bool:
    lines = shown.get(patch.path)
    return lines is not None and (not patch.added or not lines.isdisjoint(patch.added))


def _missing(read: Sequence[str], difference: Difference, done: Sequence[ToolExchange]) -> str:
    readable, least = difference.readable, difference.least_read
    if not readable:
        looked = any(one.call.name in _LOOKING for one in done)
        return "" if looked else "you have looked at nothing; see at least who used what is gone"
    if len(read) >= least:
        return ""
    unread = [patch.path for patch in readable if patch.path not in read]
    named = ", ".join(map(one_line, unread[:_NAMED])) + (
        f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""
    )
    return (
        f"of the {len(readable)} changed files {len(read)} were shown to you where they changed, before this turn, and "
        f"{least} must be; read_file has not shown you the changed lines of: {named}"
    )
