"""
Where tools work, and the rule that they stay there.
"""

import os
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

    def path(self, text: str) -> Path:
        """
        The real path that a model means, links followed, inside the worktree.

        Raises:
            Refused: it lies outside, or belongs to git.
        """
        if not text or "\0" in text:
            raise Refused(f"path {text!r}: give a path below the worktree, such as src/x.py")
        asked = self.root / text
        try:
            real = asked.resolve()
        except (OSError, RuntimeError) as trouble:
            raise Refused(f"{text}: its links lead in a circle; give the file's own path") from trouble
        if real != self.root and self.root not in real.parents:
            raise Refused(f"{text}: lies outside the worktree; only paths below it can be used")
        if any(part.lower() == ".git" for part in real.relative_to(self.root).parts):
            raise Refused(f"{text}: is git's own; the harness commits, the files are yours")
        return real

    def name(self, path: str | bytes | Path) -> str:
        """A path as the model knows it: relative to the worktree where it lies inside."""
        plain = Path(os.fsdecode(path))
        return plain.relative_to(self.root).as_posix() if plain.is_relative_to(self.root) else plain.name
