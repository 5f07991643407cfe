"""Reads the last commits before a base: message, and the content of each path before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forgepool.worktrees.commits.changes import PathChange, parse_raw
from forgepool.worktrees.git.git import CommitId, Git

COMMITS = 1000
LARGE = 30
"""A commit of more paths says nothing about any two of them."""
_MOST_CHANGES = 50_000
"""Changes of all commits together; older commits are left out."""
_MARK = "\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCommit:
    text: str
    changes: tuple[PathChange, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes)


def read_history(git: Git, base: CommitId, *, timeout_s: float) -> tuple[PastCommit, ...]:
    """
    Return the last commits, the oldest first, without merges. A rename is a deletion and an addition.

    Raises:
        GitFailed: git was not done in time, or the commit cannot be read.
    """
    argv = ("log", "-n", str(COMMITS), "--no-merges", "--no-renames", "--raw", "--no-abbrev", "-z", "--format=%x01%B")
    commits: list[PastCommit] = []
    text, raw, changes = "", list[str](), 0
    fields = git.run(*argv, base, timeout_s=timeout_s).fields
    for field in (*fields, _MARK):
        # A path follows its facts, so that a file's name is never taken for a mark.
        if len(raw) % 2 or not field.startswith(_MARK):
            raw.append(field if raw else field.removeprefix("\n"))
            continue
        changes += len(raw) // 2
        if changes > _MOST_CHANGES:
            break
        if raw:
            commits.append(PastCommit(text=text, changes=tuple(parse_raw(raw))))
        text, raw = field.removeprefix(_MARK), []
    return tuple(reversed(commits))


def first_tree(files: Mapping[str, str], commits: Sequence[PastCommit]) -> dict[str, str]:
    """Return the tree, as ids of contents by path, that stood before the first of the commits."""
    tree = dict(files)
    for commit in reversed(commits):
        for change in commit.changes:
            if change.status == "A":
                tree.pop(change.path, None)
            else:
                tree[change.path] = change.old_id
    return tree
