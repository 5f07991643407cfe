"""The change that scans read: the composed diff, both trees, and what a person allowed."""

from collections.abc import Iterable
from dataclasses import dataclass

from forgepool.workers.policy.gate_file.document import CheckDefinition, PeoplesScans
from forgepool.workers.schema.globs import parse
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.worktrees.commits.diff import FileDiff
from forgepool.worktrees.git.git import CommitId, Git, TreeId

_SHOWN = 200
_LESS: dict[Weight, Weight] = {"blocks": "attention", "attention": "note", "note": "note"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One entry's change as it would land. Nothing here comes from the entry's own settings."""

    git: Git
    base: CommitId
    """The target's tip."""
    tree: TreeId
    """The tree composed from the tip and the entry."""
    files: tuple[FileDiff, ...]
    """Every file that differs. `unread` names the generated and vendored ones."""
    reduced: tuple[FileDiff, ...] = ()
    """The same files, without the added and removed lines that differ only in layout."""
    same_code: frozenset[str] = frozenset()
    """Paths of files in which only layout and comments differ."""
    made: frozenset[str] = frozenset()
    """Paths written by a command of the target's `regenerate`, not by hand."""
    unread: frozenset[str] = frozenset()
    """Paths whose lines are not scanned: the tip's `.gitattributes` marks them as generated or vendored."""
    old_paths: frozenset[str] = frozenset()
    """Every path of the tip."""
    new_paths: frozenset[str] = frozenset()
    """Every path of the composed tree."""
    checks: tuple[CheckDefinition, ...] = ()
    makers: tuple[CheckDefinition, ...] = ()
    """The target's commands that generate files. The files they run are protected like those that checks run."""
    protect: tuple[str, ...] = ()
    """Globs that the target's gate file protects, in addition to the built-in ones."""
    holds: tuple[str, ...] | None = None
    extended: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    claims: str = ""
    people: PeoplesScans = "enforce"
    """How findings of this change count. It is `enforce` for every change that no person made."""
    max_file_mb: float = 50.0
    commit: CommitId | None = None
    """The commit whose history would enter the target. None if only the tree would."""

    @property
    def read(self) -> tuple[FileDiff, ...]:
        """The files whose lines are scanned, with only the lines that differ in more than layout."""
        return tuple(file for file in self.reduced if file.path not in self.unread)

    @property
    def written(self) -> tuple[FileDiff, ...]:
        """The scanned files with all of their lines, as layout can hide text from a reader."""
        return tuple(file for file in self.files if file.path not in self.unread)


def finding(rule: str, weight: Weight, message: str, path: str, line: int = 0, text: str = "") -> ScanFinding:
    """Return a finding whose path and text are printable, whatever the diff holds."""
    return ScanFinding(
        rule=rule, weight=weight, said=message, path=printable(path, 4_000), line=line, text=printable(text.strip())
    )


def printable(text: str, limit: int = _SHOWN) -> str:
    """Return the text on one line of at most `limit` characters, with unprintable characters escaped."""
    shortened = text[: limit + 1]
    if not (shortened.isascii() and shortened.isprintable()):
        shortened = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shortened)
    return shortened if len(shortened) <= limit else shortened[: limit - 1] + "…"


def find_moved_lines(subject: Subject) -> frozenset[str]:
    """Return the lines that the change removes anywhere. An added line among them was only moved."""
    return frozenset(line.text.strip() for file in subject.files for line in file.removed)


def lighter(weight: Weight) -> Weight:
    """Return the next lesser weight: a fault in code may be common practice in its tests."""
    return _LESS[weight]


LEAVE = "; it lands only if a person grants it"
"""Ending of the message about a change that a grant would let in."""
LEAVE_OR_REVIEW = f"{LEAVE}, or a review passes it"
"""The same about one that only asks for attention."""


def is_covered(globs: Iterable[str], path: str) -> bool:
    return any(parse(glob).matches(path) for glob in globs)


def is_granted(subject: Subject, *paths: str | None) -> bool:
    """Tell whether a person allows the task to change every one of these paths."""
    return all(is_covered(subject.grants, path) for path in paths if path is not None)


def is_held(subject: Subject, path: str) -> bool:
    """Tell whether the task may write this path. A task that declares nothing may write anything."""
    return subject.holds is None or is_covered(subject.holds, path)
