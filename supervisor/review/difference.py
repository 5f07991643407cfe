"""
The composed diff as a reviewer is shown it, and what lies on both of its sides: between the target's tip and the tree
that would land, over all files.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forgepool.worktrees.commits.changes import FileTooLarge, read_file, tree_paths
from forgepool.worktrees.commits.compose import Composed
from forgepool.worktrees.commits.diff import FileDiff, diff_tail, tree_diff
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

_ALL_OF = 8
"""Changed files up to which all must be read."""
_REGULAR = ("100644", "100755")
_MOST_BYTES = 20_000_000
"""The largest file whose lines are counted, in bytes."""
_ALL = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """The change of one file."""

    file: FileDiff
    text: str
    """The patch as people read it, with lines around each change."""

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def added(self) -> frozenset[int]:
        """Numbers of the lines that are new."""
        return frozenset(line.number for line in self.file.added)

    @property
    def places(self) -> tuple[range, ...]:
        """
        The changed places of the new file: each new line, and the lines around each gap. One of these shows the gap.
        """
        added, removed = sorted(self.added), sorted(line.number for line in self.file.removed)
        left = [number - 1 - place for place, number in enumerate(removed)]
        before, after = _numbers_of(left, added), _numbers_of([count + 1 for count in left], added)
        gaps = (range(first, last + 1) for first, last in zip(before, after, strict=True))
        return (*(range(line, line + 1) for line in added), *dict.fromkeys(gaps))

    @property
    def is_readable(self) -> bool:
        """Tell whether the composed tree holds something of it that the tools can show."""
        return self.file.status != "D" and not self.file.binary and self.file.mode in _REGULAR


def _numbers_of(left: Sequence[int], added: Sequence[int]) -> Iterator[int]:
    """Yield the new numbers of the lines that stayed, given as the first, second... of them in ascending order."""
    passed = 0
    for count in left:
        while passed < len(added) and added[passed] <= count + passed:
            passed += 1
        yield count + passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One entry's change as it would land."""

    git: Git
    base: CommitId
    composed: Composed
    patches: tuple[Patch, ...]
    there: frozenset[str]
    """Every path of the composed tree."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path concerned, both names of renames, sorted."""
        files = [patch.file for patch in self.patches]
        return tuple(sorted({path for file in files for path in (file.path, file.old_path) if path is not None}))

    @property
    def readable(self) -> tuple[Patch, ...]:
        return tuple(patch for patch in self.patches if patch.is_readable)

    @property
    def least_read(self) -> int:
        """How many of the readable files a reviewer must have been shown."""
        count = len(self.readable)
        return count if count <= _ALL_OF else math.ceil(count / 2)

    def last_line(self, path: str) -> int | None:
        """
        The number of a file's last line, on the side that has more of them where it is changed; None where neither
        side has such a file.
        """
        # Asked only of paths that are known to be some: git has words of its own for others.
        after = [self.composed.commit] if path in self.there else []
        before = [self.base] if path in self.paths else []
        found = [lines for commit in (*after, *before) if (lines := self._lines(commit, path)) is not None]
        return max(found, default=None)

    def _lines(self, commit: CommitId, path: str) -> int | None:
        try:
            data = read_file(self.git, commit, path, cap=_MOST_BYTES)
        except FileTooLarge:
            return _MOST_BYTES
        return None if data is None else data.count(b"\n") + (not data.endswith(b"\n"))


def difference(git: Git, base: CommitId, composed: Composed) -> Difference:
    """
    Raises:
        GitFailed: git gave no answer, or two that do not fit together.
    """
    files = tree_diff(git, base, composed.tree)
    whole = diff_tail(git, base, composed.tree, lines=_ALL, characters=_ALL)
    # Every other line of a diff begins with a sign, or with a word of the harness'; names are escaped.
    texts = re.split(r"(?m)^(?=diff --git )", whole)[1:]
    if len(texts) != len(files):
        raise GitFailed(("diff-tree",), 0, f"it told of {len(files)} changed files, and showed {len(texts)}")
    patches = tuple(Patch(file=file, text=text) for file, text in zip(files, texts, strict=True))
    there = frozenset(tree_paths(git, composed.commit))
    return Difference(git=git, base=base, composed=composed, patches=patches, there=there)
