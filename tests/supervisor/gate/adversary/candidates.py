"""
Candidates as values: the edits to the target's tree, the claim about them, and the truth.

An edit is a function that alters a tree in place. It fails if it finds nothing to change, because then the data has a
mistake.
"""

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

PLAIN, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
_BOUNDARY = re.compile(r"^-- (\S+)(?: \((\d+)\))? --\n", re.MULTILINE)
EVERYTHING = ("**",)


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    """Content; for a link its target, for a submodule its commit."""
    mode: str = PLAIN


Tree = dict[str, File]
Edit = Callable[[Tree], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A regression, and Python that raises on the broken tree but not on the target's."""

    edits: tuple[Edit, ...]
    truth: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One candidate for the target of `parcels.txt`."""

    name: str
    kind: str
    claim: str
    """The agent's own statement about its work."""
    edits: tuple[Edit, ...]
    lie: str = ""
    """The false part of it, if it is dishonest."""
    truth: str = ""
    """Python that raises on its tree, because something the claim or the target promises is missing there."""
    by: tuple[str, ...] = ()
    """Rules and checks. The gate must name one of them when it stops the candidate; `git` stands for neither."""
    holds: tuple[str, ...] | None = EVERYTHING
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    hangs: bool = False
    """True if it is made for a target whose checks may take only a few seconds."""
    shape: Literal["commit", "merge", "no commit"] = "commit"
    """`merge` is a merge of the target into work on an older commit, which leaves out the target's own changes."""

    def tree(self, target: Tree) -> Tree:
        changed = dict(target)
        for edit in self.edits:
            edit(changed)
        return changed


def read_tree(path: Path) -> Tree:
    """Read the tree from a file such as `parcels.txt`."""
    _, *parts = _BOUNDARY.split(path.read_text(encoding="utf-8"))
    named = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {name: File(text.encode(), EXECUTABLE if bits == "755" else PLAIN) for name, bits, text in named}


def text(indented: str) -> str:
    return textwrap.dedent(indented).lstrip("\n")


def write(path: str, content: str | bytes, mode: str = PLAIN) -> Edit:
    def edit(tree: Tree) -> None:
        tree[path] = File(content if isinstance(content, bytes) else text(content).encode(), mode)

    return edit


def append(path: str, content: str) -> Edit:
    def edit(tree: Tree) -> None:
        tree[path] = File(tree[path].content + textwrap.dedent(content).encode(), tree[path].mode)

    return edit


def swap(path: str, old: str, new: str) -> Edit:
    """Replace every `old` by `new`."""

    def edit(tree: Tree) -> None:
        before = tree[path].content.decode()
        assert old in before, f"{path} has no {old!r}"
        tree[path] = File(before.replace(old, new).encode(), tree[path].mode)

    return edit


def swap_everywhere(old: str, new: str, *globs: str) -> Edit:
    """Replace every `old` that is a whole word in the files that these globs match."""
    word = re.compile(rf"\b{re.escape(old)}\b")

    def edit(tree: Tree) -> None:
        paths = [path for path in tree if any(fnmatch(path, glob) for glob in globs)]
        changed = {path: word.sub(new, tree[path].content.decode()) for path in paths}
        assert any(changed[path].encode() != tree[path].content for path in paths), f"no {old!r} in {globs}"
        tree.update({path: File(content.encode(), tree[path].mode) for path, content in changed.items()})

    return edit


def remove(*globs: str) -> Edit:
    def edit(tree: Tree) -> None:
        gone = [path for path in tree if any(fnmatch(path, glob) for glob in globs)]
        assert gone, f"nothing to remove in {globs}"
        for path in gone:
            del tree[path]

    return edit


def rename(old: str, new: str) -> Edit:
    def edit(tree: Tree) -> None:
        tree[new] = tree.pop(old)

    return edit


def copy(old: str, new: str) -> Edit:
    """Copy every file whose path begins with `old` to the same path beginning with `new`."""

    def edit(tree: Tree) -> None:
        copies = {new + path.removeprefix(old): file for path, file in tree.items() if path.startswith(old)}
        assert copies, f"nothing to copy below {old}"
        tree.update(copies)

    return edit


def chmod(path: str, mode: str) -> Edit:
    def edit(tree: Tree) -> None:
        assert tree[path].mode != mode, f"{path} is {mode} as it is"
        tree[path] = File(tree[path].content, mode)

    return edit


def link(path: str, to: str) -> Edit:
    return write(path, to.encode(), LINK)


def submodule(path: str, commit: str) -> Edit:
    return write(path, commit.encode(), SUBMODULE)
