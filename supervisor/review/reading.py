"""
The files a reviewer has read, by the tools' own account. Pure: a transcript and a diff in, files out.

A page shown in the very turn that gave the verdict does not count: the reviewer has to have seen it before. Nor does a
search. A file is read when all its changed lines were shown; in a very long change a number of them is enough, and the
report says how many they were.
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
_MOST_LINES = 1_000
"""Changed lines of a file up to which all must have been shown; of more, so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewReading:
    read: tuple[str, ...]
    """The changed files that were read."""
    shares: tuple[str, ...] = ()
    """A sentence for each file that counts as read although not every changed line was shown."""
    missing: str = ""
    """One sentence on what a verdict lacks; empty where enough was read."""


def reading(entries: Sequence[Entry], difference: Difference, *, root: str) -> ReviewReading:
    """Return the reading up to the turn that is being carried out, the last of the conversation under way."""
    talk = under_way(entries)
    done = [one for one in exchanges(talk) if one.worked and one.iteration < iterations(talk)]
    shown = _lines_shown(done, root)
    seen = [_see(patch, shown.get(patch.path)) for patch in difference.readable]
    return ReviewReading(
        read=tuple(each.path for each in seen if each.is_enough),
        shares=tuple(
            f"{each.count:,} of the {each.of:,} changed lines of {one_line(each.path)} were shown to a reviewer"
            for each in seen
            if each.is_enough and each.count < each.of
        ),
        missing=_missing(seen, difference, done),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The part of one file's change that was shown."""

    path: str
    looked: bool
    """A page of the file was shown, with changed lines or without."""
    count: int
    of: int
    first_unseen: int = 0

    @property
    def is_enough(self) -> bool:
        return self.looked and self.count >= min(self.of, _MOST_LINES)

    @property
    def named(self) -> str:
        return one_line(self.path) + (f" (line {self.first_unseen} and others)" if self.count else "")


def _see(patch: Patch, lines: set[int] | None) -> _Seen:
    # An empty file is shown by no line, and has none.
    places = patch.places if lines or patch.added else ()
    unseen = [place for place in places if not any(line in (lines or ()) for line in place)]
    return _Seen(
        path=patch.path,
        looked=lines is not None,
        count=len(places) - len(unseen),
        of=len(places),
        first_unseen=max(1, unseen[0].start) if unseen else 0,
    )


def _lines_shown(done: Sequence[ToolExchange], root: str) -> dict[str, set[int]]:
    """By path. An empty file is shown by no line."""
    found: dict[str, set[int]] = {}
    for one in done:
        if one.call.name == "read_file":
            path = normal_path(text_argument(one.call.arguments, "path"), root)
            numbers = (match[1] for line in one.result.text.split("\n") if (match := _NUMBERED.match(line)))
            found.setdefault(path, set()).update(int(number) for number in numbers)
    return found


def _missing(seen: Sequence[_Seen], difference: Difference, done: Sequence[ToolExchange]) -> str:
    if not seen:
        looked = any(one.call.name in _LOOKING for one in done)
        return "" if looked else "you have looked at nothing; see at least who used what is gone"
    unread, least = [each.named for each in seen if not each.is_enough], difference.least_read
    if len(seen) - len(unread) >= least:
        return ""
    named = ", ".join(unread[:_NAMED]) + (f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else "")
    return (
        f"of the {len(seen)} changed files {len(seen) - len(unread)} were shown to you where they changed, before this "
        f"turn, and {least} must be; read_file has not shown you the changed lines of: {named}"
    )
