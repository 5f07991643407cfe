"""
The difference that would land is the entries' own: no path of it is one that none of them changed.

Composing sees to that; here it is asked once more, of the trees alone, before the target is moved.
"""

from collections.abc import Collection, Sequence

from forgepool.worktrees.commits.changes import changes, list_touched_paths, renames
from forgepool.worktrees.commits.compose import Entry
from forgepool.worktrees.git.git import CommitId, Git, TreeId
from forgepool.worktrees.git.history import brings_one_commit, read_commit


def find_unowned(
    git: Git, base: CommitId, tree: TreeId, entries: Sequence[Entry], made: Collection[str] = ()
) -> tuple[str, ...]:
    """
    Return paths in which tree and base differ though no entry changed them and no command generated them (`made`).

    An entry changes a file under the name that it had when the entry left the target; it may have been renamed since.
    """
    strange = set(list_touched_paths(changes(git, base, tree))).difference(made)
    owns: list[tuple[CommitId, tuple[str, ...]]] = []
    for entry in entries:
        fork = _fork(git, base, entry.commit)
        owns.append((fork, list_touched_paths(changes(git, fork, entry.commit))))
        strange.difference_update(owns[-1][1])
    for fork, own in owns:
        strange -= _renamed(git, fork, base, own) if strange else set()
    return tuple(sorted(strange))


def _fork(git: Git, base: CommitId, commit: CommitId) -> CommitId:
    if brings_one_commit(git, commit, base):
        return read_commit(git, commit).parents[0]
    return CommitId(git.text("merge-base", base, commit))


def _renamed(git: Git, fork: CommitId, base: CommitId, own: Sequence[str]) -> set[str]:
    """The names that these files were given since, of all names that are new."""
    new = [each.path for each in changes(git, fork, base) if each.status in ("A", "R")]
    return {each.path for each in renames(git, fork, base, (*own, *new)) if each.old_path in own}
