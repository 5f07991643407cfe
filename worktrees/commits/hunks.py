"""
The parts of a change, and trees of some of them.

A part is a hunk as `git diff` shows it, or a file that only makes sense whole: an added, removed, renamed or binary
one, a link, or one of another mode. Hunks of a file do not overlap, so any of them can be applied without the others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath

from forgepool.worktrees.commits.candidate import with_files
from forgepool.worktrees.commits.changes import PathChange, list_touched_paths
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.commits.diff import DiffHunk, contents, find_hunks
from forgepool.worktrees.git.git import CommitId, Git, TreeId
from forgepool.worktrees.git.objects import read_blob, write_object

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_NAME = re.compile(rb"[A-Za-z_]\w{2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePart:
    """One hunk, or files that are taken whole."""

    changes: tuple[PathChange, ...]
    """The change of the hunk's file; several where one file takes the place of a folder, or gives way to one."""
    hunk: DiffHunk | None
    names: frozenset[bytes]
    """Names that this part brings into its file, or takes out of it; what depends on it has some of them as well."""

    @property
    def path(self) -> str:
        return self.changes[0].path

    @property
    def place(self) -> str:
        """Return the file, with the changed lines of a hunk as the whole change has them."""
        if self.hunk is None:
            return ", ".join(list_touched_paths(self.changes))
        changed = [number for number, _ in self.hunk.added]
        context = next(at for at, line in enumerate(self.hunk.lines) if line[:1] != b" ")
        first, last = (changed[0], changed[-1]) if changed else (self.hunk.new_start + context,) * 2
        return f"{self.path}:{first}" if first == last else f"{self.path}:{first}-{last}"

    @property
    def _grows_by(self) -> int:
        return 0 if self.hunk is None else _count(self.hunk, b"+") - _count(self.hunk, b"-")


def split(git: Git, base: CommitId, tree: TreeId) -> tuple[ChangePart, ...]:
    """Return the parts of the change from a commit to a tree, ordered by path and line."""
    found = find_hunks(git, base, tree)
    touched = frozenset(list_touched_paths([change for change, _ in found]))
    sides = [side for one, _ in found for side in ((one.mode, one.id), (one.old_mode, one.old_id))]
    texts = contents(git, (blob for mode, blob in sides if mode[:2] in ("10", "12")))
    names = {blob: frozenset(_NAME.findall(text)) for blob, text in texts.items()}
    before, after = (_union(names, (one.old_id for one, _ in found)), _union(names, (one.id for one, _ in found)))
    groups: dict[str, list[tuple[PathChange, tuple[DiffHunk, ...]]]] = {}
    for change, hunks in found:
        groups.setdefault(_top(change.path, touched), []).append((change, hunks))
    parts: list[ChangePart] = []
    for group in groups.values():
        together, (change, hunks) = tuple(one for one, _ in group), group[0]
        old, new = (_union(names, ids) for ids in ([one.old_id for one in together], [one.id for one in together]))
        if len(group) > 1 or change.status != "M" or change.mode != change.old_mode or not hunks:
            parts.append(ChangePart(changes=together, hunk=None, names=(new - before) | (old - after)))
            continue
        for hunk in hunks:
            changed = b"\n".join(line for line in hunk.lines if line[:1] in (b"+", b"-"))
            own = (old ^ new).intersection(_NAME.findall(changed))
            parts.append(ChangePart(changes=(change,), hunk=hunk, names=own))
    return tuple(parts)


def tree_of_parts(git: Git, base: CommitId, parts: Sequence[ChangePart]) -> TreeId:
    """Return the tree of a commit with just these parts of the change."""
    files: dict[str, str] = {}
    for part in parts:
        files |= {one.path: f"{one.mode} {one.id}" for one in part.changes if one.id.strip("0")}
    for path, hunks in _hunks_of(parts):
        change = next(part.changes[0] for part in parts if part.path == path)
        blob = write_object(git, "blob", _apply(read_blob(git, change.old_id), hunks), like=base)
        files[path] = f"{change.mode} {blob}"
    touched = list_touched_paths([one for part in parts for one in part.changes])
    return with_files(git, tree_of(git, base), touched, files)


def find_parts_at(parts: Sequence[ChangePart], path: str, line: int) -> Iterator[int]:
    """Yield the indexes of the parts that a place is in, of a tree made of just these; line 0 is the whole file."""
    shift = 0
    for at, part in enumerate(parts):
        if path not in list_touched_paths(part.changes):
            continue
        if part.hunk is None or line == 0:
            yield at
            continue
        first = part.hunk.old_start + shift
        if first <= line < first + max(1, _count(part.hunk, b"+")):
            yield at
        shift += part._grows_by


def _hunks_of(parts: Sequence[ChangePart]) -> Iterator[tuple[str, list[DiffHunk]]]:
    hunks = [(part.path, part.hunk) for part in parts if part.hunk is not None]
    for path, group in groupby(hunks, key=lambda one: one[0]):
        yield path, [hunk for _, hunk in group]


def _union(names: Mapping[str, frozenset[bytes]], blobs: Iterable[str]) -> frozenset[bytes]:
    return frozenset[bytes]().union(*(names.get(blob, frozenset()) for blob in blobs))


def _top(path: str, touched: frozenset[str]) -> str:
    """Return the path, or the folder above it that is a file before or after the change."""
    above = (str(one) for one in reversed(PurePosixPath(path).parents))
    return next((one for one in above if one in touched), path)


def _count(hunk: DiffHunk, sign: bytes) -> int:
    return sum(line[:1] in (sign, b" ") for line in hunk.lines)


def _apply(content: bytes, hunks: Sequence[DiffHunk]) -> bytes:
    lines = _LINE.findall(content)
    for hunk in reversed(hunks):
        old = _count(hunk, b"-")
        at = hunk.old_start - 1 if old else hunk.old_start
        lines[at : at + old] = _new_lines(hunk)
    return b"".join(lines)


def _new_lines(hunk: DiffHunk) -> list[bytes]:
    following = (*hunk.lines[1:], b"")
    return [
        line[1:] if after[:1] == b"\\" else line[1:] + b"\n"
        for line, after in zip(hunk.lines, following, strict=True)
        if line[:1] in (b"+", b" ")
    ]
