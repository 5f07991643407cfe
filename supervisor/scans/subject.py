"""What scans look at: the composed diff, both trees, and what a person said may be changed."""

from dataclasses import dataclass

from supervisor.definitions import CheckDefinition
from worktrees.diff import FileDiff
from worktrees.git import CommitId, Git, TreeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One entry's change as it would land. Nothing here comes from the entry's own settings."""

    git: Git
    base: CommitId
    """The target's tip."""
    tree: TreeId
    """The composed one."""
    files: tuple[FileDiff, ...]
    """All that differs, generated and vendored files (by the tip's `.gitattributes`) marked in `unread`."""
    unread: frozenset[str] = frozenset()
    """Paths whose lines are not scanned, since the target says that nobody writes them by hand."""
    old_paths: frozenset[str] = frozenset()
    """Every path of the tip."""
    new_paths: frozenset[str] = frozenset()
    """Every path of the composed tree."""
    checks: tuple[CheckDefinition, ...] = ()
    protect: tuple[str, ...] = ()
    """Globs that the target's gate file protects besides what is protected anyway."""
    holds: tuple[str, ...] | None = None
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    claims: str = ""
