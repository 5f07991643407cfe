"""
Where a path leads, and the globs by which rules name places.

A path is resolved before any rule sees it: links followed, `..` taken out, from the folder it was said in. A rule that
permits must fit where the path leads; one that restrains may fit the path as it was written too, in any case of
letters, because another system may take `.GIT` for `.git`.
"""

import os
import re
import stat
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Self

from forgepool.workers.tools.files.listing import Glob, glob_pattern

UNKNOWN = "<unknown>"
"""The one pattern for paths that only the shell will know."""
_WILD = re.compile(r"[*?\[{]")
_MOST_LOOKED_AT = 20_000
"""Files of the worktree, in search of the other names of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A path, resolved. Names below the worktree are relative to it, `.` is the worktree; others are absolute."""

    shown: str
    names: tuple[str, ...]
    """Where it leads first, then what it was written as where that differs; empty where it cannot be known."""
    whole: bool = False
    """All that is below it is meant too."""

    @property
    def is_known(self) -> bool:
        return bool(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A path that leads nowhere that could be judged."""

    shown: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """A glob as a rule has it; a plain name means what is below it too."""

    text: str
    rank: tuple[int, int]
    """Whole paths before globs, then by how much of it is literal."""
    _exact: tuple[Glob, ...] = field(default=(), repr=False)
    _folded: tuple[Glob, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, text: str, home: Path) -> Self:
        """
        Raises:
            ValueError: it is no glob; with the rest of a sentence.
        """
        if text == UNKNOWN:
            return cls(text=text, rank=(0, 0))
        if not text.strip() or "\0" in text or "\\" in text:
            raise ValueError("must be a glob over paths such as src/** or **/*.config.js, with / between folders")
        if ".." in text.split("/"):
            raise ValueError(f"must not hold '..', is '{text[:60]}'; write it from the repository's root, or from /")
        whole = _expanded(text, home)
        globs = tuple(glob_pattern(way) for way in _ways(whole))
        folded = tuple(glob_pattern(way) for way in _ways(fold(whole)))
        literal = len(_WILD.sub("", whole.replace("**/", "").replace("/**", "")))
        return cls(text=text, rank=(0 if _WILD.search(whole) else 1, literal), _exact=globs, _folded=folded)

    def permits(self, place: ResolvedPath) -> bool:
        """It fits where the path leads."""
        return place.is_known and _fits(self._exact, place.names[0])

    def restrains(self, place: ResolvedPath) -> bool:
        """It fits where the path leads, or as what it was written; or something below, where all of that is meant."""
        return any(_fits(self._folded, fold(name)) or (place.whole and self._lies_below(name)) for name in place.names)

    def _lies_below(self, name: str) -> bool:
        head = fold(_WILD.split(self.text, maxsplit=1)[0].removeprefix("./"))
        if name == ".":
            return bool(head) and not head.startswith(("/", "~"))
        return head.startswith(f"{fold(name).rstrip('/')}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The worktree that paths are judged in, and the home that `~` means."""

    root: Path
    """Resolved."""
    home: Path

    def place(
        self, text: str, *, folder: Path | None = None, writes: bool = False, follow: bool = True, whole: bool = False
    ) -> ResolvedPath | Unresolved:
        """
        Where a path leads, said in `folder` (the worktree itself where that is None).

        `follow` is False for what acts on a link and not on what it leads to; `whole`, where all below is meant.
        """
        if not text or "\0" in text:
            return Unresolved(shown=text, why="it is empty, or holds a NUL")
        written = os.path.join(folder or self.root, text)  # noqa: PTH118 - pathlib would take a final slash away
        try:
            real = Path(written).resolve() if follow else Path(written).parent.resolve() / Path(written).name
            if follow and writes and (why := self._also_elsewhere(real)) is not None:
                return Unresolved(shown=text, why=why)
        except (OSError, RuntimeError, ValueError) as trouble:
            return Unresolved(shown=text, why=getattr(trouble, "strerror", None) or "its links lead in a circle")
        names = (self._name(str(real)), self._name(os.path.normpath(written)))
        return ResolvedPath(shown=text, names=tuple(dict.fromkeys(names)), whole=whole)

    def _name(self, path: str) -> str:
        path = f"/{path.lstrip('/')}"  # normpath keeps two slashes
        root = str(self.root)
        if path == root:
            return "."
        return path[len(root) + 1 :] if path.startswith(f"{root}/") else path

    def _also_elsewhere(self, real: Path) -> str | None:
        """Why a file of several names is not to be written: not all of them are in the worktree."""
        try:
            found = real.lstat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode) or found.st_nlink == 1 or not real.is_relative_to(self.root):
            return None
        inside = _names_of(self.root, (found.st_dev, found.st_ino))
        return None if inside >= found.st_nlink else "the file has another name outside the worktree; copy it first"


def unknown(shown: str) -> ResolvedPath:
    """A path that only the shell will know."""
    return ResolvedPath(shown=shown, names=())


@lru_cache(maxsize=65536)
def fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _expanded(text: str, home: Path) -> str:
    if text == "~" or text.startswith("~/"):
        return f"{home}{text[1:]}"
    return text.removeprefix("./") or "."


def _ways(text: str) -> list[str]:
    """The pattern, and those by which it reaches below what it names, or names the folder itself."""
    plain = text.rstrip("/") or "/"
    if text.endswith("/"):
        return [plain, f"{plain.rstrip('/')}/**"]
    if plain.endswith("/**"):
        return [plain, plain.removesuffix("/**") or "/"]
    return [plain] if _WILD.search(plain.rpartition("/")[2]) else [plain, f"{plain}/**"]


def _fits(globs: tuple[Glob, ...], name: str) -> bool:
    """What is inside is fitted by relative globs alone, what is outside by absolute ones."""
    return any(glob.matches(name) for glob in globs if glob.ways[0][:1] == ("/",) or not name.startswith("/"))


def _names_of(root: Path, identity: tuple[int, int]) -> int:
    """How many names a file has in the worktree, as far as there is time to look."""
    found = looked = 0
    waiting = [str(root)]
    while waiting and looked < _MOST_LOOKED_AT:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                looked += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found += (status.st_dev, status.st_ino) == identity
    return found
