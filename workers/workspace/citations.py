"""
The check of what a report cites: files, lines and commits in the repository, and tasks that were needed.

It shows that what is cited exists, not that it says what the report says.
"""

import re
from collections.abc import Collection, Iterable

from forgepool.workers.schema.reports import Evidence
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.git.objects import find_object

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_MOST_BYTES = 20_000_000


def find_wrong_citations(git: Git, base: CommitId, evidence: Iterable[Evidence], tasks: Collection[str]) -> list[str]:
    """Return a sentence for each wrong citation. Paths are those of the commit `base`."""
    return [wrong for one in evidence if (wrong := _wrong(git, base, one, tasks)) is not None]


def _wrong(git: Git, base: CommitId, cited: Evidence, tasks: Collection[str]) -> str | None:
    if sum(map(bool, (cited.path, cited.task, cited.commit))) != 1:
        return f"a citation has exactly one of path, task and commit; this one is {cited.model_dump_json()}"
    if cited.lines is not None and not cited.path:
        return f"lines belong to a path; this citation is {cited.model_dump_json()}"
    if cited.task:
        known = ", ".join(tasks) or "none"
        return None if cited.task in tasks else f"'{cited.task}' is no task that this one needs; those are: {known}"
    if cited.commit:
        return None if _is_commit(git, cited.commit) else f"'{cited.commit}' is no commit of this repository"
    return _wrong_path(git, base, cited.path, cited.lines)


def _is_commit(git: Git, commit: str) -> bool:
    if not _COMMIT.fullmatch(commit):
        return False
    return find_object(git, f"{commit}^{{commit}}") is not None


def _wrong_path(git: Git, base: CommitId, path: str, lines: tuple[int, int] | None) -> str | None:
    try:
        data = read_file(git, base, path, cap=_MOST_BYTES)
    except FileTooLarge:
        return None
    except GitFailed:
        # Git refuses names such as `../a.py`.
        data = None
    if data is None:
        return f"there is no file '{path}' at the base commit"
    if lines is None:
        return None
    first, last = lines
    count = count_lines(data)
    if not 1 <= first <= last <= count:
        return f"'{path}' has {count} lines, and no lines {first} to {last}"
    return None


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
