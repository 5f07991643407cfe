"""
Entries put on top of a base, in memory: no checkout, no lock, a few milliseconds each.

Always chained from the base: two branches merged pairwise against their own merge base show conflicts that
the real tip does not have. The same base, entries and style give the same commit, on any host, at any time.

Some files are made by commands from others, and merging them line by line makes no sense. Who composes may give a
`Regeneration` that knows them: two versions of such a file are no conflict, and what it says is made of a merged tree
is part of the entry's step. How they are made is nothing to this module; that it is the same everywhere, and at any
time, is up to who gives it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from forgepool.worktrees.commits.candidate import Identity, files_of, with_files, write_commit
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId, is_object_id

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
    steps: tuple["ComposedStep", ...] = ()
    """One for each entry, in order; the last is the whole."""

    def after(self, entries: int, *, base: CommitId) -> CommitId:
        """The commit that the first so many of them are composed to, on this base."""
        return self.steps[entries - 1].commit if entries else base


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedStep:
    """What one entry was composed to, on top of the base and of those before it."""

    commit: CommitId
    tree: TreeId
    made: "Made | None" = None
    """What of it was made anew; None where merging alone gave it."""
    put_back: tuple[str, ...] = ()
    """Made files of which the tip's version was taken, though the entry has another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The first entry that does not go on top of the base and the entries before it, and where."""

    entry: str
    paths: tuple[str, ...]
    unmade: "Unmade | None" = None
    """Of what merges, and could not be made anew."""
    steps: tuple[ComposedStep, ...] = field(default=(), compare=False)
    """Of the entries before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One entry on top of the tip, as git puts them together."""

    tip: CommitId
    entry: CommitId
    tree: TreeId
    conflicts: tuple[str, ...] = ()
    """Made files of which both have another version: the tree has the tip's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A merged tree in which files were made anew."""

    tree: TreeId
    paths: tuple[str, ...]
    """The files, those included that are gone."""
    put_back: tuple[str, ...] = ()
    """Of these, those of which the entry had a version of its own: the tip's was the start for making them."""
    commands: tuple[str, ...] = ()
    """What makes them, for who wants to see it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmade:
    """Files that would have to be made anew, and are not; whoever knows why says it in a class of its own."""

    paths: tuple[str, ...]


class Regeneration(Protocol):
    """Knows which files are made by commands, and what is made of a merged tree."""

    def is_made(self, path: str) -> bool: ...

    def remade(self, git: Git, merged: Merged) -> Made | Unmade | None:
        """None where the tree stands as it was merged. The same answer for the same tree, whoever asks."""
        ...


def compose(
    git: Git,
    base: CommitId,
    entries: Sequence[Entry],
    style: LandingStyle = "merge",
    regeneration: Regeneration | None = None,
) -> Composed | Conflict:
    """
    The entries merged onto the base, one after the other. Without entries, the base.

    Raises:
        GitFailed: git gave no answer; that is neither clean nor a conflict.
    """
    # Without work tree and index: attributes in a checkout would make the outcome depend on where this runs.
    bare = replace(git, work_tree=None, index=None)
    tip = base
    steps: list[ComposedStep] = []
    dates = _dates(bare, entries)
    for entry in entries:
        step = _put(bare, tip, entry, entry.style or style, dates[entry.commit], regeneration)
        if isinstance(step, Conflict):
            return replace(step, steps=tuple(steps))
        tip = step.commit
        steps.append(step)
    return Composed(commit=tip, tree=steps[-1].tree if steps else tree_of(bare, base), steps=tuple(steps))


def _put(
    git: Git, tip: CommitId, entry: Entry, style: LandingStyle, at: int, regeneration: Regeneration | None
) -> ComposedStep | Conflict:
    own = branch_commits(git, tip, entry.commit) if style == "rebase" else None
    before = _all_but_last(git, tip, entry, own or (), regeneration)
    if isinstance(before, Conflict):
        return before
    ground, conflicts = before
    start = as_child(git, ground, own[-1]) if own else tip
    merged = _merge(git, start, entry.commit, entry.name, regeneration)
    if isinstance(merged, Conflict):
        return merged
    merged = replace(merged, tip=tip, conflicts=tuple(sorted({*conflicts, *merged.conflicts})))
    made = None if regeneration is None else regeneration.remade(git, merged)
    if isinstance(made, Unmade):
        return Conflict(entry=entry.name, paths=made.paths, unmade=made)
    tree = merged.tree if made is None else made.tree
    if merged.conflicts and tree == tree_of(git, tip):
        # All that it changed was what a command makes, and the command makes nothing of it.
        return Conflict(entry=entry.name, paths=merged.conflicts)
    if own:
        ending = entry.message.rstrip("\n").rpartition("\n\n")[2] + "\n"
        commit = remake_commit(git, own[-1], on=ground, tree=tree, ending=ending)
    else:
        parents = (tip, entry.commit) if style == "merge" else (tip,)
        commit = write_commit(git, tree=tree, parents=parents, message=entry.message, at=at)
    put_back = merged.conflicts if made is None else made.put_back
    return ComposedStep(commit=commit, tree=tree, made=made, put_back=put_back)


def _all_but_last(
    git: Git, tip: CommitId, entry: Entry, own: Sequence[CommitId], regeneration: Regeneration | None
) -> tuple[CommitId, set[str]] | Conflict:
    """
    A branch's own commits made again, save the last, which bears the trailers of the entry and what is made anew: that
    is done once for all of them; and the made files that did not merge. A branch with merges in it becomes one commit.
    """
    conflicts = set[str]()
    for commit in own[:-1]:
        merged = _merge(git, as_child(git, tip, commit), commit, entry.name, regeneration)
        if isinstance(merged, Conflict):
            return merged
        conflicts.update(merged.conflicts)
        tip = remake_commit(git, commit, on=tip, tree=merged.tree)
    return tip, conflicts


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


def _merge(
    git: Git, tip: CommitId, commit: CommitId, name: str, regeneration: Regeneration | None
) -> Merged | Conflict:
    said = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", tip, commit, ok=(0, 1))
    tree, *paths = said.fields or [""]
    if said.stderr:
        # Git 2.39 takes a tree it cannot read for an empty one, complains, and ends with status 0.
        raise GitFailed(("merge-tree", tip, commit), said.status, said.stderr)
    merged = Merged(tip=tip, entry=commit, tree=TreeId(tree))
    if said.status == 0 and is_object_id(tree):
        return merged
    named = tuple(sorted({path for path in paths if path}))
    if not (said.status == 1 and is_object_id(tree) and named):
        raise GitFailed(("merge-tree", tip, commit), said.status, said.stderr or "it answered neither way")
    if regeneration is None or not all(regeneration.is_made(path) for path in named):
        return Conflict(entry=name, paths=named)
    return replace(merged, tree=with_files(git, merged.tree, named, files_of(git, tip, named)), conflicts=named)


def _dates(git: Git, entries: Sequence[Entry]) -> Mapping[CommitId, int]:
    """The committer date of every entry's commit: the date of the commit made for it."""
    if not entries:
        return {}
    commits = list(dict.fromkeys(entry.commit for entry in entries))
    said = git.text("log", "--no-walk=unsorted", "--no-show-signature", "--format=%H %ct", *commits)
    pairs = (line.split(" ") for line in said.splitlines())
    # A date that git cannot read, or that lies before its own time, is none.
    return {CommitId(commit): max(0, int(date)) if date.isdigit() else 0 for commit, date in pairs}
