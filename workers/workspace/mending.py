"""
The change of an earlier attempt, with which its task's next one begins.

It is composed on the new base and stands in the worktree as uncommitted work. What conflicts has git's markers, which
the attempt has to resolve.
"""

from dataclasses import dataclass

import structlog

from forgepool.workers.schema.orders import WorkOrder
from forgepool.worktrees.commits.compose import AppliedChange, apply_change
from forgepool.worktrees.git.git import CommitId, Git, TreeId
from forgepool.worktrees.git.objects import find_object, read_blob
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit

log = structlog.get_logger()

_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Mending:
    """The change that an attempt begins with."""

    attempt: int
    """The attempt that made it."""
    change: AppliedChange

    def find_unresolved(self, git: Git, tree: TreeId) -> str:
        """Return a sentence on the files that still have a conflict marker of the beginning; empty without any."""
        left = [path for path in self.change.conflicts if self._has_marker(git, tree, path)]
        return f"conflict markers are left in {', '.join(left)}; resolve the conflicts and remove them" if left else ""

    def _has_marker(self, git: Git, tree: TreeId, path: str) -> bool:
        found = find_object(git, f"{tree}:{path}")
        if found is None or found.kind != "blob" or found.size > _MOST_BYTES:
            return False
        return any(line.startswith(self.change.markers) for line in read_blob(git, found.id).splitlines())


def find_mending(mirror: Mirror, order: WorkOrder) -> Mending | None:
    """
    Compose the work that the order names on its base. None where it names none, or the hub has it no longer.

    Raises:
        GitFailed: the hub could not be asked, or git gave no answer.
    """
    if order.mends is None:
        return None
    commit = CommitId(order.mends.commit)
    try:
        mirror.ensure(commit, refs=(order.mends.ref,))
    except MissingCommit as missing:
        log.info("mending.none", order_id=order.order_id, why=str(missing))
        return None
    return Mending(attempt=order.mends.attempt, change=apply_change(mirror.git, CommitId(order.base), commit))
