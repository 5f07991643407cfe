"""The patch id of what an entry changes by itself: what was made of it by a command is another at each place."""

from collections.abc import Sequence

from forgepool.worktrees.commits.candidate import files_of, with_files
from forgepool.worktrees.commits.compose import ComposedStep
from forgepool.worktrees.commits.diff import patch_id
from forgepool.worktrees.git.git import CommitId, Git, TreeId


def own_patch_id(git: Git, on: CommitId, step: ComposedStep) -> str:
    """
    An approval holds for it wherever the entry comes to stand: what was made follows from what was approved.

    Where the entry's own version of such files stands, it is part of it.
    """
    if step.made is None:
        return patch_id(git, on, step.tree)
    return patch_id(git, on, with_files(git, step.tree, step.made.paths, files_of(git, on, step.made.paths)))


def joint_patch_id(git: Git, on: CommitId, steps: Sequence[ComposedStep], tree: TreeId) -> str:
    """Of several, or of a tree that was put together by others, that of all that is changed together."""
    return own_patch_id(git, on, steps[0]) if len(steps) == 1 else patch_id(git, on, tree)
