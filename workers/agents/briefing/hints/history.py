"""
Files that used to change together with some others: what the history knows and no name tells.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from forgepool.workers.agents.briefing.hints.hint import Hint
from forgepool.worktrees.git.git import CommitId, Git

_COMMITS = 500
_LARGE = 30
"""Paths of a commit, beyond which it says nothing about any two of them."""
_FEWEST = 3
_SHARE = 0.5
_COMMIT_MARK = "\x01"


def companions(git: Git, base: CommitId, seeds: Collection[str], *, timeout_s: float = 1.0) -> Iterator[Hint]:
    """
    Files in at least three, and at least half, of the last commits that changed one of the seeds.

    Raises:
        GitFailed: git was not done in time, or the commit cannot be read.
    """
    if not seeds:
        return
    changed: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for paths in _commits(git, base, timeout_s):
        for seed in paths & set(seeds):
            changed[seed] += 1
            together.update((seed, other) for other in paths - {seed})
    for (seed, other), times in together.items():
        share = times / changed[seed]
        if times >= _FEWEST and share >= _SHARE:
            confidence = 0.7 + 0.2 * (share - _SHARE) / (1 - _SHARE)
            reason = f"changed in {times} of the last {changed[seed]} commits that changed {seed}"
            yield Hint(path=other, confidence=round(confidence, 2), reason=reason, source="git history")


def _commits(git: Git, base: CommitId, timeout_s: float) -> list[set[str]]:
    """The paths each of the last commits changed, merges and sweeping ones left out."""
    argv = ("log", "-n", str(_COMMITS), "--no-merges", "--no-renames", "--name-only", "-z", "--format=%x01")
    commits: list[set[str]] = []
    for field in git.run(*argv, base, timeout_s=timeout_s).fields:
        if field == _COMMIT_MARK:
            commits.append(set())
        else:
            commits[-1].add(field.removeprefix("\n"))
    return [paths for paths in commits if len(paths) <= _LARGE]
