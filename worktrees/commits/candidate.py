"""
The commit a candidate is: a tree, a base, an identity and a date, all given. Equal work has an equal id.
"""

import os
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from forgepool.worktrees.git.git import CommitId, Git, TreeId

WORK = "Forgepool-Work"
"""The trailer that says of a landing which task's work it is."""
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a commit is by."""

    name: str
    email: str


FORGEPOOL = Identity(name="Forgepool", email="forgepool@localhost")


def commit_candidate(
    git: Git, *, base: CommitId, tree: TreeId, message: str, at: float, author: Identity = FORGEPOOL
) -> CommitId:
    """A commit of the tree on top of the base, dated `at` (Unix seconds, UTC), committed by Forgepool."""
    return write_commit(git, tree=tree, parents=(base,), message=message, at=int(at), author=author)


def write_commit(
    git: Git,
    *,
    tree: TreeId,
    parents: tuple[CommitId, ...],
    message: str,
    at: int,
    author: Identity = FORGEPOOL,
) -> CommitId:
    """A commit that depends on its arguments alone."""
    environment = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_AUTHOR_DATE": f"@{at} +0000",
        "GIT_COMMITTER_NAME": FORGEPOOL.name,
        "GIT_COMMITTER_EMAIL": FORGEPOOL.email,
        "GIT_COMMITTER_DATE": f"@{at} +0000",
    }
    words = [word for parent in parents for word in ("-p", parent)]
    text = message.replace("\0", "").encode("utf-8", "replace")
    return CommitId(git.text("commit-tree", *words, "-F", "-", tree, stdin=text, env=environment))


def trailers(pairs: Mapping[str, str]) -> str:
    """The last paragraph of a commit message: one `Key: value` a line, values folded to one line."""
    lines = []
    for key, value in pairs.items():
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a trailer's key; letters, digits and dashes make one")
        lines.append(f"{key}: {' '.join(value.split())}\n")
    return "".join(lines)


def read_trailers(git: Git, commit: CommitId) -> dict[str, str]:
    """The trailers of a commit. Of a key given twice, the last: ours come after what a model wrote."""
    form = "--format=%(trailers:only=true,unfold=true)"
    said = git.run("log", "-1", "--no-show-signature", form, commit).stdout
    pairs = (line.partition(": ") for line in os.fsdecode(said).splitlines() if ": " in line)
    return {key: value for key, _, value in pairs}


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
