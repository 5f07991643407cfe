"""Tree objects, read and compared without a git process where few of them differ."""

import os
import re
import stat
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from forgepool.worktrees.git.git import Git, GitFailed
from forgepool.worktrees.git.objects import ObjectFacts, find_object, read_object

FOLDER, GITLINK = 0o040000, 0o160000
_MOST_TREES, _MOST_BYTES, _MOST_FOUND = 64, 100_000, 5000
"""The trees that are compared here, their size and what differs in them. Git compares more in less time."""
_RECORDS = {length: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % (length // 2), re.DOTALL) for length in (40, 64)}


class TreeEntry(NamedTuple):
    """An entry of a tree: its mode as git shows it, and the id of its content."""

    mode: int
    id: str


NOTHING = TreeEntry(0, "")


class TreeDifference(NamedTuple):
    """A path at which two trees differ; `NOTHING` is on the side that does not have it."""

    path: str
    old: TreeEntry
    new: TreeEntry


class OddTree(Exception):
    """A tree that is large, or not as git writes it."""


def compare_trees(git: Git, first: str, second: str) -> tuple[TreeDifference, ...]:
    """
    List the files, links and submodules that differ between two commits or trees, named by their full ids.

    Raises:
        GitFailed: one of them is missing.
    """
    few = compare_few(git, first, second)
    return few if few is not None else tuple(_compared_by_git(git, first, second))


@lru_cache(maxsize=16)
def compare_few(git: Git, first: str, second: str) -> tuple[TreeDifference, ...] | None:
    """Compare like `compare_trees`, ordered by path; None where git has to do it."""
    with suppress(OddTree, GitFailed):
        waiting = [(b"", root_of(git, first), root_of(git, second))]
        found: list[TreeDifference] = []
        for _ in range(_MOST_TREES):
            if not waiting:
                return tuple(sorted(found, key=lambda each: os.fsencode(each.path)))
            above, *trees = waiting.pop()
            old, new = (entries_of(git, tree) if tree else {} for tree in trees)
            for name in old.keys() | new.keys():
                sides = old.get(name, NOTHING), new.get(name, NOTHING)
                if sides[0] == sides[1]:
                    continue
                files = [NOTHING if each.mode == FOLDER else each for each in sides]
                if files != [NOTHING, NOTHING]:
                    found.append(TreeDifference(os.fsdecode(above + name), *files))
                if files != [*sides]:
                    folders = [each.id if each.mode == FOLDER else "" for each in sides]
                    waiting.append((above + name + b"/", folders[0], folders[1]))
            if len(found) > _MOST_FOUND:
                break
    return None


def _compared_by_git(git: Git, first: str, second: str) -> list[TreeDifference]:
    fields = git.run("diff-tree", "-r", "-z", "--raw", "--ignore-submodules=none", first, second).fields
    found = []
    for facts, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, old, new, _ = facts.removeprefix(":").split(" ")
        sides = (TreeEntry(int(mode, 8), each) for mode, each in ((old_mode, old), (new_mode, new)))
        found.append(TreeDifference(path, *(each if each.mode else NOTHING for each in sides)))
    return found


def root_of(git: Git, name: str) -> str:
    """
    Return the id of the tree of a commit or tree.

    Raises:
        OddTree: it is not there.
    """
    facts = find_object(git, f"{name}^{{tree}}")
    if facts is None:
        raise OddTree
    return facts.id


def entries_of(git: Git, tree: str) -> dict[bytes, TreeEntry]:
    """
    Return the entries of a tree by their names.

    Raises:
        OddTree: only git can tell.
        GitFailed: there is no such tree.
    """
    facts = find_object(git, tree)
    if facts is None or facts.size > _MOST_BYTES:
        raise OddTree
    return (_small_entries if facts.size <= _MOST_KEPT_BYTES else _read_entries)(git, tree)


def _read_entries(git: Git, tree: str) -> dict[bytes, TreeEntry]:
    records = parse_tree(*read_object(git, tree))
    places = [name + b"/" * (entry.mode == FOLDER) for name, entry in records]
    found = dict(records)
    if len(found) != len(records) or places != sorted(places):
        raise OddTree
    return found


_MOST_KEPT_BYTES = 10_000
"""The size of a tree that is remembered; its entries in memory take up to ten times that."""
_small_entries = lru_cache(maxsize=64)(_read_entries)


def parse_tree(facts: ObjectFacts, content: bytes) -> list[tuple[bytes, TreeEntry]]:
    """
    Parse a tree object: octal mode, space, name, NUL, binary id.

    Raises:
        GitFailed: it is not one.
    """
    records = [*_RECORDS[len(facts.id)].finditer(content)]
    if facts.kind != "tree" or sum(len(each[0]) for each in records) != len(content):
        raise GitFailed(("cat-file", facts.id), 0, f"fatal: {facts.id} is not a tree that can be read")
    return [(each[2], TreeEntry(_as_shown(int(each[1], 8)), each[3].hex())) for each in records]


def _as_shown(mode: int) -> int:
    """Return the mode that git shows: old histories have files of modes like 100664."""
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFREG:
        return 0o100755 if mode & stat.S_IXUSR else 0o100644
    return kind if kind in (stat.S_IFLNK, FOLDER) else GITLINK
