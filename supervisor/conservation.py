"""
The difference that would land is the entries' own: no path of it is one that none of them changed.

Composing sees to that; here it is asked once more, of the trees alone, before the target is moved.
"""

from collections.abc import Sequence

from worktrees.changes import changes, touched_paths
from worktrees.compose import Entry
from worktrees.git import CommitId, Git, TreeId


def unowned(git: Git, base: CommitId, tree: TreeId, entries: Sequence[Entry]) -> tuple[str, ...]:
    """
    Paths in which the tree differs from the base though no entry changed them.

    An entry changes a file under the name that it had when the entry left the target; it may have been renamed since.
    """
    mine: set[str] = set()
    for entry in entries:
        fork = CommitId(git.text("merge-base", base, entry.commit))
        own = set(touched_paths(changes(git, fork, entry.commit)))
        mine |= own | {each.path for each in changes(git, fork, base) if each.old_path in own}
    return tuple(path for path in touched_paths(changes(git, base, tree)) if path not in mine)
