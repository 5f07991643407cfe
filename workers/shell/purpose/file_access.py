"""What an exchange leaves behind: which lines of which files were shown, which files were written."""

import fnmatch
import posixpath
from dataclasses import dataclass
from typing import Literal

Action = Literal["read", "write", "search", "test", "build", "run", "end"]
"""
Of an exchange: what it is for. A shell command that does several counts as the first of write, test, build, search,
read that any part of it does; `run` is what is none of them; `end` ends a conversation or concerns it. Compilers, type
checkers and linters build. What cuts or filters another's output has no part of its own in it, and tests whose output
is kept in a file are tests, though the file is among the writes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    path: str
    """Normalised; below the worktree where it lies there. `cat src/*.py` is a read of a pattern."""
    first: int | None = None
    last: int | None = None
    """Lines, from 1; None where all of the file, or what is not known, was asked for."""
    part: bool = False
    """Not the file as it stands: lines that are not known (its end, those that match), or changed on the way."""

    @property
    def whole(self) -> bool:
        return self.first is None and self.last is None and not self.part


How = Literal["create", "edit", "delete", "move", "shell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    path: str
    """
    As of `Read`. A folder stands for all below it, and `.` for all files, where a command names no more (`git stash`);
    `*` and `?` are patterns. `touches` reads it so.
    """
    how: How
    """`create` writes all of a file's text, new or not; `shell` is whatever a command did to it."""
    characters: int | None = None
    """Of the text that was written, as far as it is known."""


def touches(write: Write, path: str) -> bool:
    """Whether the file at that path may be another after it."""
    if write.path in (path, ".") or path.startswith(f"{write.path}/"):
        return True
    return any(mark in write.path for mark in "*?[") and fnmatch.fnmatchcase(path, write.path)


def normal_path(path: str, root: str = "") -> str:
    """One spelling for one file: `./a//b/../c.py` and `<root>/a/c.py` are `a/c.py`. Links are not followed."""
    plain = posixpath.normpath(path.strip()) if path.strip() else ""
    inside = f"{root.rstrip('/')}/"
    return plain.removeprefix(inside) if root else plain
