"""The paths that a commit changed, and what a commit contains; never working files."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, cast

from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId
from forgepool.worktrees.git.objects import find_object, read_blob, read_object
from forgepool.worktrees.git.trees import FOLDER, GITLINK, TreeDifference, compare_few, parse_tree

Status = Literal["A", "M", "D", "R", "T"]

_MOST_KEPT = 5000
"""Changes of one comparison that stay in memory, some 500 bytes each."""
_MOST_BYTES_OF_NAMES = 500_000
"""The size of names passed to one command; beyond it git compares all files."""


class FileTooLarge(ValueError):
    """A file of a commit is larger than the reader accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """One path added, modified, deleted, renamed (with `old_path`) or changed in type (file, link)."""

    status: Status
    path: str
    old_path: str | None
    mode: str
    """Six octal digits as git has them; `000000` where there is none."""
    old_mode: str
    id: str = field(default="", compare=False)
    """The id of its content; zeros where there is none."""
    old_id: str = field(default="", compare=False)


class _ManyChanges(Exception):
    """So many that they are not kept in memory."""

    def __init__(self, found: tuple[PathChange, ...]) -> None:
        super().__init__()
        self.found = found


def changes(git: Git, base: CommitId | TreeId, commit: CommitId | TreeId) -> tuple[PathChange, ...]:
    """
    List what a commit or tree changes relative to `base`, with renames recognised, ordered by path.

    Both are full ids: what is behind an id never changes, so the last answers are kept.
    """
    try:
        return _kept_changes(git, base, commit)
    except _ManyChanges as many:
        return many.found


@lru_cache(maxsize=64)
def _kept_changes(git: Git, base: CommitId | TreeId, commit: CommitId | TreeId) -> tuple[PathChange, ...]:
    few = compare_few(git, base, commit)
    # Git is asked for renames: only what is gone can have one, and only what is new can be one.
    if few is not None and (all(each.old.mode for each in few) or all(each.new.mode for each in few)):
        return tuple(_as_change(each, "0" * len(base)) for each in few)
    output = git.run("diff-tree", "-r", "-z", "-M", "-l1000", "--raw", "--ignore-submodules=none", base, commit)
    found = tuple(parse_raw(output.fields))
    if len(found) > _MOST_KEPT:
        raise _ManyChanges(found)
    return found


def _as_change(each: TreeDifference, zeros: str) -> PathChange:
    status: Status = "T" if stat.S_IFMT(each.old.mode) != stat.S_IFMT(each.new.mode) else "M"
    if not (each.old.mode and each.new.mode):
        status = "D" if each.old.mode else "A"
    return PathChange(
        status=status,
        path=each.path,
        old_path=None,
        mode=f"{each.new.mode:06o}",
        old_mode=f"{each.old.mode:06o}",
        id=each.new.id or zeros,
        old_id=each.old.id or zeros,
    )


def renames(git: Git, base: CommitId, commit: CommitId | TreeId, among: Sequence[str]) -> tuple[PathChange, ...]:
    """
    List the renames between two commits, looking only at these old and new names.

    There is no limit on their number, beyond which git would silently report none. Merging, too, looks only at files
    that the other side has changed.
    """
    if not among:
        return ()
    names = among if sum(len(os.fsencode(name)) + 9 for name in among) < _MOST_BYTES_OF_NAMES else ()
    output = git.run("diff-tree", "-r", "-z", "-M", "-l0", "--diff-filter=R", "--raw", base, commit, "--", *names)
    wanted = frozenset(among)
    return tuple(each for each in parse_raw(output.fields) if each.path in wanted and each.old_path in wanted)


def list_touched_paths(changes: Sequence[PathChange]) -> tuple[str, ...]:
    """List every path concerned, both names of renames, sorted."""
    names = {change.path for change in changes}
    names.update(change.old_path for change in changes if change.old_path is not None)
    return tuple(sorted(names))


def find_impossible_path(git: Git, base: CommitId, commit: CommitId, *, most: int) -> str:
    """
    Return the first path, among `most` that the commit changes, that no checkout can have; empty where there is none.

    Git refuses to merge such a tree at every try, as if the host were at fault.
    """
    for change in changes(git, base, commit)[:most]:
        if change.mode in ("000000", "160000"):
            continue
        # A name with a slash in it looks like a path, and no folder has it.
        folder, _, name = change.path.rpartition("/")
        inside = find_object(git, f"{commit}:{folder}")
        there = inside is not None and find_object(git, f"{inside.id}:{name}") is not None
        if not there or not {".", "..", ".git"}.isdisjoint(change.path.lower().split("/")):
            return change.path
    return ""


_last_listed: dict[Git, tuple[CommitId, tuple[str, ...]]] = {}


@lru_cache(maxsize=4)
def tree_paths(git: Git, commit: CommitId) -> tuple[str, ...]:
    """List every file of a commit, named by its full id, ordered by path. The last answers are kept."""
    last, listed = _last_listed.get(git, (commit, ()))
    few = compare_few(git, last, commit) if listed else None
    if few is None:
        listed = tuple(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).fields)
    elif few:
        gone = {each.path for each in few if not each.new.mode}
        listed = tuple(sorted({*listed} - gone | {each.path for each in few if each.new.mode}, key=os.fsencode))
    _last_listed.clear()
    _last_listed[git] = commit, listed
    return listed


def read_file(git: Git, commit: CommitId, path: str, *, cap: int = 1_000_000) -> bytes | None:
    """
    Return the bytes of a file of a commit, or a symlink's target. None if there is no such file.

    Raises:
        FileTooLarge: it has more than `cap` bytes.
        GitFailed: there is no such commit.
    """
    facts = find_object(git, f"{commit}:{path}")
    if facts is None and find_object(git, f"{commit}^{{commit}}") is None:
        raise GitFailed(("cat-file", commit), 0, f"there is no commit {commit}")
    if facts is None or facts.kind != "blob":
        return None
    if facts.size > cap:
        raise FileTooLarge(f"{path!r} in commit {commit} has {facts.size} bytes; at most {cap} are read")
    return read_blob(git, facts.id)


def parse_raw(fields: Sequence[str]) -> Iterator[PathChange]:
    """Parse records of `diff-tree --raw -z`: facts, path, and for renames the new path."""
    rest = iter(fields)
    for facts in rest:
        old_mode, mode, old_id, new_id, letter = facts.removeprefix(":").split(" ")
        first = next(rest)
        renamed = letter[0] == "R"
        if letter[0] not in "AMDRT":
            raise GitFailed(("diff-tree",), 0, f"it gave {first!r} the unknown status {letter}")
        yield PathChange(
            status=cast(Status, letter[0]),
            path=next(rest) if renamed else first,
            old_path=first if renamed else None,
            mode=mode,
            old_mode=old_mode,
            id=new_id,
            old_id=old_id,
        )


Kind = Literal["file", "symlink", "submodule", "folder"]
_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFLNK: "symlink", GITLINK: "submodule", FOLDER: "folder"}
"""By the type in a mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something in a commit's tree: its kind, and the id of its content."""

    kind: Kind
    id: str


def find_at(git: Git, commit: CommitId, *paths: str) -> dict[str, Found]:
    """
    Return what the commit has at these paths.

    Raises:
        GitFailed: there is no such commit.
    """
    root, _ = read_object(git, f"{commit}^{{tree}}")
    found: dict[str, Found] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        facts = find_object(git, f"{root.id}:{folder}")
        if facts is not None and facts.kind == "tree":
            entry = dict(parse_tree(*read_object(git, facts.id))).get(os.fsencode(name))
            found.update({path: Found(kind=_KINDS[stat.S_IFMT(entry.mode)], id=entry.id)} if entry else {})
    return found
