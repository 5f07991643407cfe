"""
What a tree adds to and takes from a commit, line by line. Paths, modes and lines; no judgement.

All is compared between the two trees themselves, never by the last commit alone; attributes of the compared trees have
no say in it, and neither has anybody's configuration.
"""

from dataclasses import dataclass
from typing import Literal

FileStatus = Literal["A", "M", "D", "R", "T"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that was added (numbered as in the new file) or removed (as in the old one), without its end."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """One file that differs."""

    status: FileStatus
    path: str
    old_path: str | None = None
    """Of a renamed file."""
    mode: str
    """Six octal digits; `000000` where there is none, `120000` a link, `160000` a submodule."""
    old_mode: str
    binary: bool = False
    added: tuple[Line, ...] = ()
    removed: tuple[Line, ...] = ()
