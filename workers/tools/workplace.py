"""
Where tools work, and the rule that they stay there.

A path is judged first (`path`, `readable_path`: links are followed, and what lies outside is refused), and then used by
way of the folder it lies in (`held`), which was opened when the work began: no link is followed any more, so that what
commands put in the place of a folder or a file after it was judged leads nowhere.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from forgepool.workers.schema.confinement import Confinement
from forgepool.worktrees.git.beneath import Beneath
from forgepool.worktrees.git.git import Git


class ToolRefused(Exception):
    """A call that cannot be carried out; the sentence is for the model and says what would be right."""


class HeldFolder:
    """A folder as it was when the work began: what a command puts in its place later is not taken for it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._beneath = _beneath(self.path)

    def is_same(self) -> bool:
        return self._beneath is not None and self._beneath.is_still_there()

    def open_held(self) -> Beneath:
        """
        The folder itself, wherever it is now.

        Raises:
            Refused: there was none when the work began.
        """
        if self._beneath is None:
            raise ToolRefused(f"{self.path}: was not there when the work began; nothing can be used below it")
        return self._beneath

    def open_or_make(self) -> Beneath:
        """
        The folder; made again where it is gone.

        Raises:
            Refused: something else has its name.
        """
        if not os.path.lexists(self.path):
            self.path.mkdir(parents=True, mode=0o700)
            self._beneath = _beneath(self.path)
        if not self.is_same():
            raise ToolRefused(f"{self.path}: is not the folder it was; remove it, and it is made anew")
        return self.open_held()


def _beneath(folder: Path) -> Beneath | None:
    try:
        return Beneath(folder)
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """Of a workplace's folders, each under the path it was given by."""

    root: tuple[Path, HeldFolder]
    tmp: tuple[Path, HeldFolder]
    readable: tuple[tuple[Path, HeldFolder], ...]

    @property
    def paths(self) -> tuple[Path, Path, tuple[Path, ...]]:
        return self.root[0], self.tmp[0], tuple(path for path, _ in self.readable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """One conversation's worktree and what its tools need beside it."""

    root: Path
    """The worktree, resolved."""
    tmp: Path
    """A private folder outside the worktree."""
    env: Mapping[str, str]
    """The complete environment of commands."""
    confined: Confinement
    """What holds every command."""
    stop: Callable[[], bool]
    left_s: Callable[[], float]
    """Seconds that are left of the attempt's wall clock."""
    iteration: int = 0
    """The number of the model's turn that is being carried out, from 1."""
    git: Git | None = None
    """
    The worktree as the harness' git knows it: by a repository that it is told of, never by the `.git` in the worktree,
    which a command may replace by one whose configuration runs programs.
    """
    readable: tuple[Path, ...] = ()
    """Folders outside the worktree from which tools may read, by absolute path; none writes there."""

    anchors: Anchors | None = None
    """Made with the workplace, and the same in every copy of it."""

    def __post_init__(self) -> None:
        if self.anchors is not None and self.anchors.paths == (self.root, self.tmp, self.readable):
            return
        readable = tuple((folder, HeldFolder(folder)) for folder in self.readable)
        anchors = Anchors(
            root=(self.root, HeldFolder(self.root)), tmp=(self.tmp, HeldFolder(self.tmp)), readable=readable
        )
        object.__setattr__(self, "anchors", anchors)  # frozen for all others

    @property
    def scratch(self) -> Beneath:
        """
        The private folder, there to be written in.

        Raises:
            Refused: a command has put something else in its place.
        """
        return self._anchors.tmp[1].open_or_make()

    @property
    def outputs(self) -> Path:
        """Where commands leave what is too long to be shown; may be read, is made when first needed."""
        return self._anchors.tmp[1].path / "outputs"

    @property
    def _anchors(self) -> Anchors:
        if self.anchors is None:
            raise TypeError("a workplace has its anchors from the start")
        return self.anchors

    def new_output(self, stem: str) -> tuple[Path, FileIO]:
        """
        A log in `outputs`, empty, to be written and read, under a name that nobody could have foreseen. The caller
        closes it.

        Raises:
            Refused: a command has put something else in a folder's place.
        """
        scratch, below = self.scratch, Path("outputs", f"{stem}-{secrets.token_hex(4)}.log")
        try:
            with scratch.folder(below.parent, make=True) as folder:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                return scratch.path / below, FileIO(os.open(below.name, flags, 0o600, dir_fd=folder), "r+b")
        except OSError as trouble:
            if trouble.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            place = scratch.path / below.parent
            raise ToolRefused(f"{place}: is a link or a file; remove it, so that output can be kept there") from trouble

    def keep(self, below: Path, data: bytes) -> Path:
        """
        Writes a file in `outputs`; what has its name is replaced.

        Raises:
            Refused: a command has put something else in a folder's place.
            OSError: it cannot be written.
        """
        scratch, below = self.scratch, Path("outputs", below)
        with scratch.folder(below.parent, make=True) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(below.name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with FileIO(os.open(below.name, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(data)
        return scratch.path / below

    def open_parent(self, path: Path) -> tuple[Beneath, Path]:
        """
        The folder that a real path lies in, and the way to it from there.

        Raises:
            Refused: it lies in none of the workplace's folders.
        """
        anchors = self._anchors
        for anchor in (anchors.root[1], anchors.tmp[1], *(anchor for _, anchor in anchors.readable)):
            if path.is_relative_to(anchor.path):
                return anchor.open_held(), path.relative_to(anchor.path)
        raise ToolRefused(f"{path}: lies outside the worktree; only paths below it can be used")

    @contextlib.contextmanager
    def reading(self, path: Path) -> Iterator[FileIO]:
        """
        A file to be read, at a real path: the one that is there, never what a link leads to by now.

        Raises:
            OSError: there is none, it is a folder, or a link stands in the way.
        """
        folder, below = self.open_parent(path)
        with folder.reading(below) as file:
            yield file

    def path(self, text: str) -> Path:
        """
        The real path that a model means, links followed, inside the worktree.

        Raises:
            Refused: it lies outside, or belongs to git.
        """
        real = self._real(text)
        if not real.is_relative_to(self.root):
            raise ToolRefused(f"{text}: lies outside the worktree; only paths below it can be used")
        return self._not_gits(text, real)

    def readable_path(self, text: str) -> Path:
        """
        As `path`, for tools that only read: what lies below a readable folder or `outputs` will do too.

        Raises:
            Refused: it lies outside of all of them, or belongs to git.
        """
        real = self._real(text)
        if any(real.is_relative_to(folder) for folder in self._lent()):
            return real
        return self.path(text)

    def name(self, path: str | bytes | Path) -> str:
        """A path as the model knows it: relative to the worktree where it lies inside."""
        plain = Path(os.fsdecode(path))
        if plain.is_relative_to(self.root):
            return plain.relative_to(self.root).as_posix()
        return str(plain) if any(plain.is_relative_to(folder) for folder in self._lent()) else plain.name

    def _lent(self) -> tuple[Path, ...]:
        anchors = self._anchors
        outputs = (self.outputs,) if anchors.tmp[1].is_same() else ()
        return (*outputs, *(anchor.path for _, anchor in anchors.readable if anchor.is_same()))

    def _real(self, text: str) -> Path:
        if not text or "\0" in text:
            raise ToolRefused(f"path {text!r}: give a path below the worktree, such as src/x.py")
        try:
            return (self.root / text).resolve()
        except (OSError, RuntimeError) as trouble:
            raise ToolRefused(f"{text}: its links lead in a circle; give the file's own path") from trouble

    def _not_gits(self, text: str, real: Path) -> Path:
        if any(part.lower() == ".git" for part in real.relative_to(self.root).parts):
            raise ToolRefused(f"{text}: is git's own; the harness commits, the files are yours")
        return real
