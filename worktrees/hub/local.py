"""
Moves refs of a hub on this host without a push, which would start four more git processes.

This is done only if the result is the same: the hub is owned by this user and has no hooks. It has no settings beyond
the ordinary ones, and no branch to move is checked out. In all other cases, and after any error, the caller pushes.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from forgepool.worktrees.git.git import CommitId, Git, GitFailed, is_object_id
from forgepool.worktrees.git.history import read_commit
from forgepool.worktrees.git.objects import find_object, put_object, read_object
from forgepool.worktrees.git.trees import FOLDER, GITLINK, OddTree, entries_of
from forgepool.worktrees.hub.push import RefUpdate

_SECTION = re.compile(r"^\s*\[\s*([^\s\]\"]+)", re.MULTILINE)
_KEY = re.compile(r"^\s*(?:\[[^\]]*\])?\s*([A-Za-z][\w-]*)", re.MULTILINE)
_BARE = re.compile(r"^\s*bare\b(.*)$", re.MULTILINE | re.IGNORECASE)
_STRANGE = re.compile(r"\ufeff|\][^\n]*\[")
"""A byte order mark, or a second section on one line."""
_BRANCH = re.compile(r"ref: (refs/heads/\S+)\n")
_SECTIONS = frozenset(("core", "remote", "branch", "user"))
_OF_CORE = ("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode")
_KEYS = frozenset((*_OF_CORE, "symlinks", "url", "fetch", "merge", "remote", "name", "email"))
"""The settings a hub may have. Others, such as `receive.denyDeletes`, are for a push to obey."""
_MOST_BYTES = 50_000_000
"""The largest object that is copied here, as a file and unpacked; both are held in memory."""
_MOST_LOOKED_AT = 100
"""Commits and trees that are read here before git is asked, which takes as long for all of them."""


def move_refs(hub: Path, mirror: Git, updates: Sequence[RefUpdate], *, near: Sequence[str] = ()) -> bool:
    """
    Move all the refs of the hub or none, each only from its expected commit; the mirror has the new commits.

    `near` are refs of the hub on whose commits the new ones are likely built.

    Return False where a push has to do it, or has to tell why it cannot be done.
    """
    with suppress(OSError, ValueError, zlib.error, GitFailed):
        place = next(folder for folder in (hub / ".git", hub, None) if folder is None or (folder / "refs").is_dir())
        if place is not None and _is_plain(place, updates) and _brought(Git(git_dir=place), mirror, updates, near):
            lines = os.fsencode("".join(map(_line, updates)))
            Git(git_dir=place).run(
                "-c", "core.fsync=reference", "update-ref", "--no-deref", "-m", "push", "--stdin", stdin=lines
            )
            return True
    return False


def _line(update: RefUpdate) -> str:
    if update.new is None:
        return f"delete {update.ref} {update.expected}\n"
    if update.expected is None:
        return f"create {update.ref} {update.new}\n"
    return f"update {update.ref} {update.new} {update.expected}\n"


def _is_plain(place: Path, updates: Sequence[RefUpdate]) -> bool:
    settings = (place / "config").read_text()
    told = not _STRANGE.search(settings) and {*map(str.lower, _SECTION.findall(settings))} <= _SECTIONS
    told = told and {*map(str.lower, _KEY.findall(settings))} <= _KEYS
    if not told or (place / "objects").stat().st_uid != os.geteuid() or (place / "shallow").exists():
        return False
    hooks = place / "hooks"
    if hooks.is_dir() and any(hook.suffix != ".sample" for hook in hooks.iterdir()):
        return False
    bare = [each.strip(" \t=").lower() for each in _BARE.findall(settings)] == ["true"]
    heads = [*place.glob("worktrees/*/HEAD"), *([] if bare else [place / "HEAD"])]
    return not any(_is_special(place, update, heads) for update in updates)


def _is_special(place: Path, update: RefUpdate, heads: Sequence[Path]) -> bool:
    """Is it a link to another ref, a branch to delete, or a branch that may be checked out?"""
    ref = place / update.ref
    if _is_link(ref) or (update.new is None and update.expected is None):
        return True
    if not update.ref.startswith("refs/heads/"):
        return False
    # A person who rebases or bisects is on no branch, and on this one again later.
    return update.new is None or any(_branch(place, head) in (None, update.ref) for head in heads)


def _branch(place: Path, head: Path) -> str | None:
    """Return the one branch that is checked out, if it can be told."""
    found = None if head.is_symlink() else _BRANCH.fullmatch(head.read_text())
    return None if found is None or _is_link(place / found[1]) else found[1]


def _is_link(ref: Path) -> bool:
    return ref.is_symlink() or (ref.is_file() and not is_object_id(ref.read_text().strip()))


def _brought(hub: Git, mirror: Git, updates: Sequence[RefUpdate], near: Sequence[str]) -> bool:
    """Give the hub all objects of the new commits that it lacks; False where one is not a file of its own."""
    new = {update.new for update in updates if update.new is not None}
    if not new:
        return True
    theirs, ours = mirror.git_dir / "objects", hub.git_dir / "objects"
    if re.search(r'[:"\n]', str(theirs)):
        return False
    moved = (update.ref for update in updates if update.new is not None)
    held = {_peel(mirror, at) for ref in (*near, *moved) if (at := _read_ref(hub.git_dir / ref)) is not None}
    if not all(_has(hub, commit) for commit in held if commit is not None):
        return False  # The hub has lost it, as a push tells.
    lacking = _Lacking(mirror, {commit for commit in held if commit is not None}).of(new)
    if lacking is None or not all((theirs / each[:2] / each[2:]).is_file() for each in lacking):
        words = ("rev-list", "--objects", "--no-object-names", *sorted(new), "--not", "--all")
        # Git looks through all of them, as it does when it receives a push: what is incomplete does not get in.
        told = hub.run(*words, env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(theirs)}).text.split()
        lacking = told[::-1]
    sources = {each: theirs / each[:2] / each[2:] for each in lacking}
    if any(not source.is_file() or source.stat().st_size > _MOST_BYTES for source in sources.values()):
        return False
    # A commit comes after all that it needs: a hub never has a commit without its files.
    return all(_bring(each, source, ours / each[:2] / each[2:]) for each, source in sources.items())


def _read_ref(ref: Path) -> str | None:
    """Return the object of a ref that is a file; None where only git can tell."""
    text = ref.read_text().strip() if ref.is_file() else ""
    return text if is_object_id(text) else None


def _has(hub: Git, name: str) -> bool:
    """Does the hub itself have the object? An empty file, as after a loss of power, is none."""
    file = hub.git_dir / "objects" / name[:2] / name[2:]
    return (file.is_file() and file.stat().st_size > 0) or find_object(hub, name) is not None


def _peel(mirror: Git, name: str) -> CommitId | None:
    """Return the commit that an object is, or that a tag names; None for others, and for what the mirror lacks."""
    facts = find_object(mirror, name)
    if facts is None or facts.kind not in ("commit", "tag"):
        return None
    return CommitId(name if facts.kind == "commit" else _tagged(mirror, name))


def _tagged(mirror: Git, tag: str) -> str:
    return read_object(mirror, tag)[1].partition(b"\n")[0].removeprefix(b"object ").decode()


class _TooMany(Exception):
    """More than is looked through here."""


class _Lacking:
    """
    Looks for the objects that a hub may lack, without a git process.

    The hub has all that its refs' commits need. Beyond them each tree is compared with those of the commit's parents,
    and what differs is lacking. What the hub has elsewhere may be among it, and is given once more.
    """

    def __init__(self, mirror: Git, held: set[CommitId]) -> None:
        self.mirror = mirror
        self.held = held
        self.tips = [*held]
        self.found: dict[str, None] = {}
        self.left = _MOST_LOOKED_AT

    def of(self, new: Iterable[CommitId]) -> list[str] | None:
        """Return them with each behind all that it needs; None where git has to look."""
        with suppress(_TooMany, OddTree, GitFailed):
            for name, facts in [(name, find_object(self.mirror, name)) for name in sorted(new)]:
                kind = "" if facts is None else facts.kind
                if kind != "blob":
                    self._see_commit(CommitId(_tagged(self.mirror, name)) if kind == "tag" else name)
                self.found[name] = None
            return [*self.found]
        return None

    def _see_commit(self, commit: CommitId) -> None:
        if commit in self.found or self._is_held(commit):
            return
        self._count()
        facts = read_commit(self.mirror, commit)
        for parent in facts.parents:
            self._see_commit(parent)
        self._see_tree(facts.tree, [read_commit(self.mirror, parent).tree for parent in facts.parents])
        self.found[commit] = None

    def _is_held(self, commit: CommitId) -> bool:
        """Is it in the history of a commit that the hub has? Looks back as far as it may."""
        while commit not in self.held and self.tips:
            self._count()
            parents = read_commit(self.mirror, self.tips.pop(0)).parents
            self.tips += [parent for parent in parents if parent not in self.held]
            self.held.update(parents)
        return commit in self.held

    def _see_tree(self, tree: str, before: Sequence[str]) -> None:
        if tree in before or tree in self.found:
            return
        self._count()
        others = [entries_of(self.mirror, each) for each in before]
        for name, entry in entries_of(self.mirror, tree).items():
            same = [each[name] for each in others if name in each]
            if entry in same or entry.mode == GITLINK:
                continue
            if entry.mode == FOLDER:
                self._see_tree(entry.id, [each.id for each in same if each.mode == FOLDER])
            else:
                self.found[entry.id] = None
        self.found[tree] = None

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooMany


def _bring(name: str, source: Path, target: Path) -> bool:
    """
    Copy the file of an object, as a new file of the hub's own; False where it is not the object of that name.

    Why no hard link: a damaged mirror would damage the hub, and the file would keep the mirror's group and age.
    """
    content, stream = source.read_bytes(), zlib.decompressobj()
    digest = hashlib.sha1 if len(name) == 40 else hashlib.sha256
    if digest(stream.decompress(content, _MOST_BYTES), usedforsecurity=False).hexdigest() != name:
        return False
    if not stream.eof or stream.unused_data:
        return False
    # The ref that follows is on the disk as well: what was pushed survives a loss of power.
    put_object(target, content, sync=True)
    return True
