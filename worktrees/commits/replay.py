"""
The commits of a branch, made again one by one on top of another commit: what `git rebase` does, in memory.

Each keeps its author, its message and its date, so that the same branch on the same base gives the same commits.
"""

from forgepool.worktrees.commits.candidate import Identity, write_commit
from forgepool.worktrees.git.git import CommitId, Git, TreeId

_FIELDS = "%T%x00%P%x00%an%x00%ae%x00%ct%x00%B"


def branch_commits(git: Git, tip: CommitId, head: CommitId) -> tuple[CommitId, ...] | None:
    """
    What the branch has and the tip lacks, oldest first; None where a merge is among it, which no replay keeps.
    """
    said = git.text("rev-list", "--reverse", "--topo-order", "--parents", f"{tip}..{head}").splitlines()
    lines = [line.split() for line in said]
    if any(len(line) != 2 for line in lines):
        return None
    return tuple(CommitId(line[0]) for line in lines)


def as_child(git: Git, tip: CommitId, commit: CommitId) -> CommitId:
    """A commit with the tip's tree and the parent of `commit`: merged with that, it gives what the commit changes."""
    parent = CommitId(git.text("rev-parse", "--verify", f"{commit}^"))
    tree = TreeId(git.text("rev-parse", "--verify", f"{tip}^{{tree}}"))
    return write_commit(git, tree=tree, parents=(parent,), message="in between\n", at=0)


def remake_commit(git: Git, commit: CommitId, *, on: CommitId, tree: TreeId, ending: str = "") -> CommitId:
    """The commit with another tree and parent; `ending` is put at the end of its message."""
    said = git.text("show", "-s", "--no-show-signature", f"--format={_FIELDS}", commit)
    _, _, name, email, at, message = said.split("\0", 5)
    text = f"{message.rstrip()}\n\n{ending}" if ending else f"{message.rstrip()}\n"
    author = Identity(name=name or "unknown", email=email or "unknown")
    return write_commit(git, tree=tree, parents=(on,), message=text, at=max(0, int(at or 0)), author=author)
