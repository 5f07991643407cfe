"""
The commit a candidate is: a tree, a base, an identity and a date, all given. Equal work has an equal id.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

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
