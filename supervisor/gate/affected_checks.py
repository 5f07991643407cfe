"""
Which checks a change can turn red: two changes with no check in common need not be tested on top of each other.

It is a guess about where to look, and never evidence: what lands has a certificate of every check for its own tree.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from forgepool.workers.policy.gate_file.document import CheckDefinition, apply_scopes, effective_checks, voting
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.workspace.checks.lines import match_inputs

if TYPE_CHECKING:
    from forgepool.worktrees.git.git import Git

MOST_PATHS = 2000
"""An entry that changes more paths counts as changing everything: the question costs more than it may save."""


class Lanes:
    """The checks of a target, asked about paths. Where each depends on the whole tree, there is one lane for all."""

    def __init__(self, checks: Sequence[CheckDefinition] = ()) -> None:
        self._counted = {check.name: match_inputs(check, checks) for check in voting(checks)}
        self._several = any(one is not None for one in self._counted.values())
        self._of_path = dict[str, frozenset[str]]()
        self._of_paths = dict[tuple[str, ...], frozenset[str] | None]()

    def of(self, paths: tuple[str, ...]) -> frozenset[str] | None:
        """
        Return the names of the checks that depend on one of the paths; None where that is unknown, or no check is
        spared.
        """
        if not self._several or not 0 < len(paths) <= MOST_PATHS:
            return None
        if paths not in self._of_paths:
            self._of_paths[paths] = self._found(paths)
        return self._of_paths[paths]

    def _found(self, paths: Collection[str]) -> frozenset[str] | None:
        found = frozenset[str]().union(*(self._of(path) for path in paths))
        return None if len(found) == len(self._counted) else found

    def _of(self, path: str) -> frozenset[str]:
        if path not in self._of_path:
            self._of_path[path] = frozenset(
                name for name, counts in self._counted.items() if counts is None or counts(path)
            )
        return self._of_path[path]


ONE_LANE = Lanes()


class TargetLanes:
    """The lanes of a target as it moves; its gate file is read again when it has another content."""

    def __init__(self, git: "Git", plan_checks: Sequence[CheckDefinition]) -> None:
        self._git = git
        self._plan_checks = plan_checks
        self._tip, self._content, self._lanes = "", "", ONE_LANE

    def at(self, tip: str) -> Lanes:
        """At a tip that is not here yet, or whose gate file cannot be read, there is one."""
        from forgepool.worktrees.commits.changes import FileTooLarge
        from forgepool.worktrees.git.git import GitFailed

        if tip != self._tip:
            self._tip = tip
            try:
                self._read(tip)
            except (GitFailed, DocumentWrong, FileTooLarge):
                self._content, self._lanes = "", ONE_LANE
        return self._lanes

    def _read(self, at: str) -> None:
        from forgepool.workers.policy.gate_file.document import GATE_FILE
        from forgepool.worktrees.commits.changes import find_at, read_file
        from forgepool.worktrees.git.git import CommitId

        tip = CommitId(at)
        found = find_at(self._git, tip, GATE_FILE).get(GATE_FILE)
        if found is None or found.kind != "file":
            self._content, self._lanes = "", ONE_LANE
        elif found.id != self._content:
            text = (read_file(self._git, tip, GATE_FILE) or b"").decode(errors="replace")
            file = read_gate_file(text)
            checks = apply_scopes(effective_checks(file.checks, self._plan_checks), file.scopes)
            self._content, self._lanes = found.id, Lanes(checks)
