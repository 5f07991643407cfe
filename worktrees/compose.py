"""
Entries put on top of a base, in memory: no checkout, no lock, a few milliseconds each.

Always chained from the base: two branches merged pairwise against their own merge base show conflicts that
the real tip does not have. The same base, entries and style give the same commit, on any host, at any time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from worktrees.candidate import write_commit
from worktrees.git import CommitId, Git, GitFailed, TreeId, is_object_id
from worktrees.replay import as_child, branch_commits, made_again

LandingStyle = Literal["merge", "squash", "rebase"]
"""How a branch comes into the target: a merge commit, one plain commit, or its own commits made again one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A commit that is to land: `name` is its task's id, `message` that of the commit made for it."""

    commit: CommitId
    name: str
    message: str
    style: LandingStyle | None = None
    """None: as all the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """All entries, on top of the base. `commit` is the very commit that lands; `tree` is what is tested."""

    commit: CommitId
    tree: TreeId
    steps: tuple["Step", ...] = ()
    """One for each entry, in order; the last is the whole."""

    def after(self, entries: int, *, base: CommitId) -> CommitId:
        """The commit that the first so many of them are composed to, on this base."""
        return self.steps[entries - 1].commit if entries else base


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one entry was composed to, on top of the base and of those before it."""

    commit: CommitId
    tree: TreeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The first entry that does not go on top of the base and the entries before it, and where."""

    entry: str
    paths: tuple[str, ...]


def compose(git: Git, base: CommitId, entries: Sequence[Entry], style: LandingStyle = "merge") -> Composed | Conflict:
    """
    The entries merged onto the base, one after the other. Without entries, the base.

    Raises:
        GitFailed: git gave no answer; that is neither clean nor a conflict.
    """
    # Without work tree and index: attributes in a checkout would make the outcome depend on where this runs.
    bare = replace(git, work_tree=None, index=None)
    tip = base
    steps: list[Step] = []
    dates = _dates(bare, entries)
    for entry in entries:
        step = _put(bare, tip, entry, entry.style or style, dates[entry.commit])
        if isinstance(step, Conflict):
            return step
        tip = step.commit
        steps.append(step)
    return Composed(commit=tip, tree=steps[-1].tree if steps else tree_of(bare, base), steps=tuple(steps))


def _put(git: Git, tip: CommitId, entry: Entry, style: LandingStyle, at: int) -> Step | Conflict:
    own = branch_commits(git, tip, entry.commit) if style == "rebase" else None
    if own:
        return _replayed(git, tip, entry, own)
    merged = _merge(git, tip, entry.commit, entry.name)
    if isinstance(merged, Conflict):
        return merged
    parents = (tip, entry.commit) if style == "merge" else (tip,)
    commit = write_commit(git, tree=merged, parents=parents, message=entry.message, at=at)
    return Step(commit=commit, tree=merged)


def _replayed(git: Git, tip: CommitId, entry: Entry, own: Sequence[CommitId]) -> Step | Conflict:
    """Its own commits, the last with the trailers of the entry; a branch with merges in it becomes one commit."""
    tree = tree_of(git, tip)
    for commit in own:
        merged = _merge(git, as_child(git, tip, commit), commit, entry.name)
        if isinstance(merged, Conflict):
            return merged
        ending = entry.message.rstrip("\n").rpartition("\n\n")[2] + "\n" if commit == own[-1] else ""
        tree, tip = merged, made_again(git, commit, on=tip, tree=merged, ending=ending)
    return Step(commit=tip, tree=tree)


def conflicting_commits(
    git: Git, base_tip: CommitId, entry_commit: CommitId, paths: Sequence[str]
) -> tuple[CommitId, ...]:
    """First-parent commits of the tip since the entry left it that touched one of the paths, newest first."""
    if not paths:
        return ()
    # Sparse, and told apart here: when paths limit the walk, git leaves out a merge whose first parent the entry has
    # too, though it is the very one that touched them.
    walk = ("log", "--first-parent", "--sparse", "--diff-merges=first-parent", "--name-only", "--no-show-signature")
    said = git.text(*walk, "--format=%x01%H", base_tip, f"^{entry_commit}", "--", *paths)
    blocks = (block.split("\n", 1) for block in said.split("\x01")[1:])
    return tuple(CommitId(commit) for commit, names in ((*block, "")[:2] for block in blocks) if names.strip())


def tree_of(git: Git, commit: CommitId) -> TreeId:
    """The tree of a commit."""
    return TreeId(git.text("rev-parse", "--verify", f"{commit}^{{tree}}"))


def _merge(git: Git, tip: CommitId, commit: CommitId, name: str) -> TreeId | Conflict:
    said = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", tip, commit, ok=(0, 1))
    tree, *paths = said.fields or [""]
    if said.stderr:
        # Git 2.39 takes a tree it cannot read for an empty one, complains, and ends with status 0.
        raise GitFailed(("merge-tree", tip, commit), said.status, said.stderr)
    if said.status == 0 and is_object_id(tree):
        return TreeId(tree)
    named = tuple(sorted({path for path in paths if path}))
    if said.status == 1 and is_object_id(tree) and named:
        return Conflict(entry=name, paths=named)
    raise GitFailed(("merge-tree", tip, commit), said.status, said.stderr or "it answered neither way")


def _dates(git: Git, entries: Sequence[Entry]) -> Mapping[CommitId, int]:
    """The committer date of every entry's commit: the date of the commit made for it."""
    if not entries:
        return {}
    commits = list(dict.fromkeys(entry.commit for entry in entries))
    said = git.text("log", "--no-walk=unsorted", "--no-show-signature", "--format=%H %ct", *commits)
    pairs = (line.split(" ") for line in said.splitlines())
    # A date that git cannot read, or that lies before its own time, is none.
    return {CommitId(commit): max(0, int(date)) if date.isdigit() else 0 for commit, date in pairs}
