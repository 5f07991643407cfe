"""What lies at a path of a commit, and whether it is a file like any other."""

from dataclasses import dataclass
from typing import Literal

from forgepool.worktrees.git.git import CommitId, Git

Kind = Literal["file", "symlink", "submodule", "folder"]
_KINDS: dict[str, Kind] = {"100644": "file", "100755": "file", "120000": "symlink", "160000": "submodule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something in a commit's tree: of what kind, and the id of its content."""

    kind: Kind
    id: str


def find_at(git: Git, commit: CommitId, *paths: str) -> dict[str, Found]:
    """
    What the commit has at those of the paths where it has something; one git process for all.

    Raises:
        GitFailed: there is no such commit.
    """
    found: dict[str, Found] = {}
    for record in git.run("ls-tree", "-z", "--full-tree", commit, "--", *paths).fields if paths else ():
        facts, _, name = record.partition("\t")
        mode, _, content = facts.split(" ")
        if name in paths:
            found[name] = Found(kind=_KINDS.get(mode, "folder"), id=content)
    return found
