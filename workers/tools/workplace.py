"""
Where tools work, and the rule that they stay there.
"""

import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.tools.refusal import Refused


class Anchor:
    """A folder as it was when the work began: what a command puts in its place later is not taken for it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._known = _identity(self.path)

    def is_same(self) -> bool:
        return self._known is not None and _identity(self.path) == self._known

    def made(self) -> Path:
        """
        The folder; made again where it is gone.

        Raises:
            Refused: something else has its name.
        """
        if not os.path.lexists(self.path):
            self.path.mkdir(parents=True, mode=0o700)
            self._known = _identity(self.path)
        if not self.is_same():
            raise Refused(f"{self.path}: is not the folder it was; remove it, and it is made anew")
        return self.path


def _identity(folder: Path) -> tuple[int, int] | None:
    """Of a folder, never of what a link leads to."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """Of a workplace's folders beside the worktree, each under the path it was given by."""

    tmp: tuple[Path, Anchor]
    readable: tuple[tuple[Path, Anchor], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """One conversation's worktree and what its tools need beside it."""

    root: Path
    """The worktree, resolved."""
    tmp: Path
    """A private folder outside the worktree."""
    env: Mapping[str, str]
    """The complete environment of commands."""
    stop: Callable[[], bool]
    left_s: Callable[[], float]
    """Seconds that are left of the attempt's wall clock."""
    iteration: int = 0
    """The number of the model's turn that is being carried out, from 1."""
    pass_fds: tuple[int, ...] = ()
    readable: tuple[Path, ...] = ()
    """Folders outside the worktree from which tools may read, by absolute path; none writes there."""

    anchors: Anchors | None = None
    """Made with the workplace, and the same in every copy of it."""

    def __post_init__(self) -> None:
        known = self.anchors
        if known is not None and (known.tmp[0], tuple(path for path, _ in known.readable)) == (self.tmp, self.readable):
            return
        readable = tuple((folder, Anchor(folder)) for folder in self.readable)
        anchors = Anchors(tmp=(self.tmp, Anchor(self.tmp)), readable=readable)
        object.__setattr__(self, "anchors", anchors)  # frozen for all others

    @property
    def scratch(self) -> Path:
        """
        The private folder, there to be written in.

        Raises:
            Refused: a command has put something else in its place.
        """
        return self._anchors.tmp[1].made()

    @property
    def outputs(self) -> Path:
        """Where commands leave what is too long to be shown; may be read, is made when first needed."""
        return self._anchors.tmp[1].path / "outputs"

    @property
    def _anchors(self) -> Anchors:
        if self.anchors is None:
            raise TypeError("a workplace has its anchors from the start")
        return self.anchors

    def new_output(self, stem: str) -> Path:
        """
        A name for a log in `outputs` that nobody could have foreseen, and so nobody has put a link under.

        Raises:
            Refused: a command has put something else in the folder's place.
        """
        folder = self.scratch / "outputs"
        if folder.is_symlink():
            raise Refused(f"{folder}: is a link; remove it, so that output can be kept there")
        folder.mkdir(exist_ok=True)
        return folder / f"{stem}-{secrets.token_hex(4)}.log"

    def path(self, text: str) -> Path:
        """
        The real path that a model means, links followed, inside the worktree.

        Raises:
            Refused: it lies outside, or belongs to git.
        """
        real = self._real(text)
        if not real.is_relative_to(self.root):
            raise Refused(f"{text}: lies outside the worktree; only paths below it can be used")
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
            raise Refused(f"path {text!r}: give a path below the worktree, such as src/x.py")
        try:
            return (self.root / text).resolve()
        except (OSError, RuntimeError) as trouble:
            raise Refused(f"{text}: its links lead in a circle; give the file's own path") from trouble

    def _not_gits(self, text: str, real: Path) -> Path:
        if any(part.lower() == ".git" for part in real.relative_to(self.root).parts):
            raise Refused(f"{text}: is git's own; the harness commits, the files are yours")
        return real
