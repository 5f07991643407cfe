"""
Where tools work, and the rule that they stay there.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.tools.refusal import Refused


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

    @property
    def outputs(self) -> Path:
        """Where commands leave what is too long to be shown; may be read, is made when first needed."""
        return self.tmp.resolve() / "outputs"

    def new_output(self, stem: str) -> Path:
        """
        A name for a log in `outputs` that nobody could have foreseen, and so nobody has put a link under.

        Raises:
            Refused: a command has put something else in the folder's place.
        """
        self.outputs.mkdir(exist_ok=True)
        if self.outputs.is_symlink():
            raise Refused(f"{self.outputs}: is a link; remove it, so that output can be kept there")
        return self.outputs / f"{stem}-{secrets.token_hex(4)}.log"

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
        return (self.outputs, *(folder.resolve() for folder in self.readable))

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
