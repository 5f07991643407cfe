"""Commits and trees, made from given values alone: equal work has an equal id."""

import os
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId
from forgepool.worktrees.git.objects import find_objects, write_object
from forgepool.worktrees.git.trees import compare_trees

WORK = "Forgepool-Work"
"""The trailer that names the task's work in a landing."""
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 @+._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The author of a commit."""

    name: str
    email: str


FORGEPOOL = Identity(name="Forgepool", email="forgepool@localhost")


def commit_candidate(
    git: Git, *, base: CommitId, tree: TreeId, message: str, at: float, author: Identity = FORGEPOOL
) -> CommitId:
    """Commit the tree on top of the base, dated `at` (Unix seconds, UTC), with Forgepool as committer."""
    return write_commit(git, tree=tree, parents=(base,), message=message, at=int(at), author=author)


def write_commit(
    git: Git, *, tree: TreeId, parents: tuple[CommitId, ...], message: str, at: int, author: Identity = FORGEPOOL
) -> CommitId:
    """
    Write a commit that depends only on its arguments.

    Raises:
        GitFailed: the tree or a parent is missing, or the commit cannot be written.
    """
    text = message.replace("\0", "").encode("utf-8", "replace")
    if _is_plain(author) and text.isascii() and at >= 0 and len({*parents}) == len(parents):
        return _write_plain(git, tree, parents, text, at, author)
    environment = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_AUTHOR_DATE": f"@{at} +0000",
        "GIT_COMMITTER_NAME": FORGEPOOL.name,
        "GIT_COMMITTER_EMAIL": FORGEPOOL.email,
        "GIT_COMMITTER_DATE": f"@{at} +0000",
    }
    words = [word for parent in parents for word in ("-p", parent)]
    return CommitId(git.text("commit-tree", *words, "-F", "-", tree, stdin=text, env=environment))


def _is_plain(author: Identity) -> bool:
    """Would git take the identity as it is? It cuts some characters off, and puts others into another encoding."""
    return all(map(_PLAIN.fullmatch, (author.name, author.email)))


def _write_plain(
    git: Git, tree: TreeId, parents: tuple[CommitId, ...], text: bytes, at: int, author: Identity
) -> CommitId:
    """Write the bytes that `git commit-tree` would write, without starting git."""
    wanted = (tree, "tree"), *((parent, "commit") for parent in parents)
    for (name, kind), facts in zip(wanted, find_objects(git, (name for name, _ in wanted)), strict=True):
        if facts is None or facts.kind != kind:
            raise GitFailed(("commit-tree", tree), 128, f"fatal: {name} is not a valid '{kind}' object")
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    for role, who in (("author", author), ("committer", FORGEPOOL)):
        lines.append(f"{role} {who.name} <{who.email}> {at} +0000")
    head = "".join(f"{line}\n" for line in lines).encode()
    return CommitId(write_object(git, "commit", head + b"\n" + text, like=tree))


def trailers(pairs: Mapping[str, str]) -> str:
    """Return the last paragraph of a commit message: one `Key: value` per line, values folded to one line."""
    lines = []
    for key, value in pairs.items():
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a trailer's key; letters, digits and dashes make one")
        lines.append(f"{key}: {' '.join(value.split())}\n")
    return "".join(lines)


def read_trailers(git: Git, commit: CommitId) -> dict[str, str]:
    """Return the trailers of a commit. The last of a repeated key wins: ours come after what a model wrote."""
    form = "--format=%(trailers:only=true,unfold=true)"
    output = git.run("log", "-1", "--no-show-signature", form, commit).stdout
    pairs = (line.partition(": ") for line in os.fsdecode(output).splitlines() if ": " in line)
    return {key: value for key, _, value in pairs}


Files = Mapping[str, str]
"""Maps a path to mode and id of its content: `100644 8baef1b4...`."""


_MOST_NAMED = 500


def files_of(git: Git, tree: CommitId | TreeId, below: Collection[str] | None = None) -> dict[str, str]:
    """Return every file of a tree, links and submodules included; or at least those at or below the named paths."""
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
    """Return the tree with just these files at the named paths; a named path without a file is removed."""
    # What is taken out comes first: it may stand where one of the files wants a folder.
    lines = [f"0 {'0' * len(tree)}\t{path}\0" for path in at if path not in files]
    lines += [f"{facts}\t{path}\0" for path, facts in files.items() if path in at]
    return _written(git, ("read-tree", tree), lines)


def tree_with(git: Git, files: Files) -> TreeId:
    """Return a tree of these files alone."""
    return _written(git, ("read-tree", "--empty"), [f"{facts}\t{path}\0" for path, facts in files.items()])


def differing(git: Git, first: CommitId | TreeId, second: CommitId | TreeId) -> tuple[str, ...]:
    """List the paths at which two trees differ; a rename is listed by both names."""
    return tuple(each.path for each in compare_trees(git, first, second))


def _written(git: Git, begin: tuple[str, ...], lines: list[str]) -> TreeId:
    with tempfile.TemporaryDirectory(prefix="forgepool-") as folder:
        index = replace(git, work_tree=None, index=Path(folder) / "index")
        index.run(*begin)
        index.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)))
        return TreeId(index.text("write-tree"))
