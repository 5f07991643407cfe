"""
Trees put together in memory, file by file: some files of one tree in another. No checkout, and no index but one that is
gone again at once.
"""

import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from forgepool.worktrees.git.git import CommitId, Git, TreeId

Files = Mapping[str, str]
"""By path, mode and id of what lies there: `100644 8baef1b4...`."""


_MOST_NAMED = 500


def files_of(git: Git, tree: CommitId | TreeId, below: Collection[str] | None = None) -> dict[str, str]:
    """Every file of a tree, links and submodules included; or, at the least, those at or below the paths named."""
    found: dict[str, str] = {}
    if below is not None and not below:
        return found
    named = ("--", *below) if below is not None and len(below) <= _MOST_NAMED else ()
    for record in git.run("ls-tree", "-r", "-z", "--full-tree", tree, *named).fields:
        facts, _, path = record.partition("\t")
        mode, _, content = facts.split(" ")
        found[path] = f"{mode} {content}"
    return found


def with_files(git: Git, tree: TreeId, at: Collection[str], files: Files) -> TreeId:
    """The tree, with just these files at the paths named: what is at one of them and not among the files goes."""
    # What is taken out comes first: it may stand where one of the files wants a folder.
    lines = [f"0 {'0' * len(tree)}\t{path}\0" for path in at if path not in files]
    lines += [f"{facts}\t{path}\0" for path, facts in files.items() if path in at]
    return _written(git, ("read-tree", tree), lines)


def tree_with(git: Git, files: Files) -> TreeId:
    """A tree of these files alone."""
    return _written(git, ("read-tree", "--empty"), [f"{facts}\t{path}\0" for path, facts in files.items()])


def differing(git: Git, one: CommitId | TreeId, other: CommitId | TreeId) -> tuple[str, ...]:
    """Paths at which two trees differ; what was renamed by both of its names."""
    return tuple(git.run("diff-tree", "-r", "-z", "--name-only", "--ignore-submodules=none", one, other).fields)


def _written(git: Git, begin: tuple[str, ...], lines: list[str]) -> TreeId:
    with tempfile.TemporaryDirectory(prefix="forgepool-") as folder:
        index = replace(git, work_tree=None, index=Path(folder) / "index")
        index.run(*begin)
        index.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)))
        return TreeId(index.text("write-tree"))
