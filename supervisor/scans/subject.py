"""What scans look at: the composed diff, both trees, and what a person said may be changed."""

from collections.abc import Iterable
from dataclasses import dataclass

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.gate_file.document import CheckDefinition, PeoplesScans
from forgepool.workers.schema.globs import parse
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
    """The composed one."""
    files: tuple[FileDiff, ...]
    """All that differs, generated and vendored files (by the tip's `.gitattributes`) marked in `unread`."""
    reduced: tuple[FileDiff, ...] = ()
    """The same files without added and removed lines in which nothing but layout is new or gone."""
    same_code: frozenset[str] = frozenset()
    """Paths of files in which only layout and comments differ."""
    made: frozenset[str] = frozenset()
    """Paths at which lies what a command of the target's has made of the rest: nobody has written that by hand."""
    unread: frozenset[str] = frozenset()
    """Paths whose lines are not scanned, since the target says that nobody writes them by hand."""
    old_paths: frozenset[str] = frozenset()
    """Every path of the tip."""
    new_paths: frozenset[str] = frozenset()
    """Every path of the composed tree."""
    checks: tuple[CheckDefinition, ...] = ()
    makers: tuple[CheckDefinition, ...] = ()
    """Commands of the target's that make files: what they run is protected like what checks run."""
    protect: tuple[str, ...] = ()
    """Globs that the target's gate file protects besides what is protected anyway."""
    holds: tuple[str, ...] | None = None
    extended: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    claims: str = ""
    people: PeoplesScans = "enforce"
    """What findings of this change do; `enforce` for every change that a person did not make."""
    max_file_mb: float = 50.0
    commit: CommitId | None = None
    """The commit whose history would come in; None where the tree alone does."""

    @property
    def read(self) -> tuple[FileDiff, ...]:
        """The files whose lines are scanned, with those lines alone that hold more than layout."""
        return tuple(file for file in self.reduced if file.path not in self.unread)

    @property
    def written(self) -> tuple[FileDiff, ...]:
        """The same files with all of their lines: layout may hide what stands there from a reader."""
        return tuple(file for file in self.files if file.path not in self.unread)


def finding(rule: str, weight: Weight, said: str, path: str, line: int = 0, text: str = "") -> ScanFinding:
    """A finding whose path and text can be printed, whatever the diff holds."""
    return ScanFinding(
        rule=rule, weight=weight, said=said, path=printable(path, 4_000), line=line, text=printable(text.strip())
    )


def printable(text: str, limit: int = _SHOWN) -> str:
    """The text on one line, in so many characters; what cannot be seen is written as an escape."""
    shortened = text[: limit + 1]
    if not (shortened.isascii() and shortened.isprintable()):
        shortened = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shortened)
    return shortened if len(shortened) <= limit else shortened[: limit - 1] + "…"


def find_moved_lines(subject: Subject) -> frozenset[str]:
    """What was taken away somewhere: a line that is added with the same words was moved, and is nobody's doing."""
    return frozenset(line.text.strip() for file in subject.files for line in file.removed)


def lighter(weight: Weight) -> Weight:
    """The next lesser weight: what is wrong in code may be usual in its tests."""
    return _LESS[weight]


LEAVE = "; it lands only if a person grants it"
"""What is said of a change that a grant would let in."""


def is_covered(globs: Iterable[str], path: str) -> bool:
    return any(parse(glob).matches(path) for glob in globs)


def is_granted(subject: Subject, *paths: str | None) -> bool:
    """Does a person let the task change these, each of them?"""
    return all(is_covered(subject.grants, path) for path in paths if path is not None)


def is_held(subject: Subject, path: str) -> bool:
    """Is it among what the task may write? Where it declares nothing, it may write anything."""
    return subject.holds is None or is_covered(subject.holds, path)
