"""
One checkout for one order or one check: leased from a pool, exact at the start, photographed at the end.
"""

import hashlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.worktrees.checkouts.slots import Slot, begin_work, discard, is_intact, prepare, shrink_pool, slots_of
from forgepool.worktrees.git.beneath import take_lock
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, GitOutput, TreeId
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, restore_config

_GITLINK = "160000"
_UNREADABLE = (
    "could not open directory",
    "Permission denied",
    "unable to index file",
    "unable to stat",
    "name too long",
)
_ODD = "can only add regular files"
_LINE_CHARACTERS = 300
_INVALID, _LATE = "invalid path", "Timeout:"
_NESTED = ("does not have a commit checked out", "is a submodule")


class Unusable(Exception):
    """The folder holds nothing a commit could be made of; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A folder with the files of one commit, for the holder of the lease alone."""

    commit: CommitId
    slot: Slot
    mirror: Mirror
    lock_fd: int
    """Holds the lease. A child that inherits it keeps the slot leased for as long as it lives."""
    alone: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """Held while the snapshots' index is used: threads of the holder may want one at once."""

    @property
    def path(self) -> Path:
        return self.slot.path

    @property
    def git(self) -> Git:
        return self.slot.working

    @property
    def admin(self) -> Path:
        """Where the `.git` file points: what the agent's own git reads and writes."""
        return self.slot.admin

    @property
    def pointer(self) -> Path:
        """The `.git` file, which leads the agent's own git to `admin`."""
        return self.path / ".git"

    def intact(self) -> bool:
        """Is the folder still there, with the `.git` file it was leased with?"""
        return is_intact(self.slot)

    def snapshot(self, *, within_s: float = 120) -> TreeId:
        """
        The tree of everything in the folder that is not ignored, whatever the agent's own git was told.

        Raises:
            Unusable: the folder is gone or unreadable, a repository was made inside it, git cannot keep what is in
                it, or cannot look through it in time: a pattern in `.gitignore` can be such that it takes for ever.
            GitFailed: git could not do it for another reason.
        """
        if self.path.is_symlink() or not self.path.is_dir():
            raise Unusable(f"the worktree {self.path} is gone; the work in it is lost")
        restore_config(self.mirror.path)
        with self.alone:
            begin_work(self.slot)
            said = self.git.run("add", "-A", ok=range(-64, 256), timeout_s=within_s)
            _refuse_unusable(said)
            tree = TreeId(self.git.text("write-tree"))
        self._refuse_gitlinks(tree)
        return tree

    def take(self, tree: TreeId) -> None:
        """
        The files become those of an earlier snapshot, and what it lacks goes, but for what git ignores. HEAD stays, so
        that git shows the difference as work under way.

        Raises:
            GitFailed: the mirror has no such tree, or the folder could not be written.
        """
        restore_config(self.mirror.path)
        with self.alone:
            begin_work(self.slot)
            self.git.run("read-tree", "--reset", "-u", tree)
            self.git.run("clean", "-ffd", "-q")

    def list_altered(self) -> tuple[str, ...]:
        """
        The commit's files that are no longer as the commit has them, sorted; what was only added is not told.

        A folder that is gone is all of them, told as `.`.
        """
        if self.path.is_symlink() or not self.path.is_dir():
            return (".",)
        restore_config(self.mirror.path)
        # This reads the index of the lease and never writes it: an index that learnt of changes would hide them.
        said = self.slot.pristine.run("ls-files", "-z", "--modified", "--deleted")
        return self._but_for_line_ends(sorted(set(said.fields))) if said.fields else ()

    def _but_for_line_ends(self, paths: Sequence[str]) -> tuple[str, ...]:
        """
        Git calls a file modified whose line ends its attributes would have committed otherwise, though nobody has
        touched it: what has the very bytes and the mode of the commit is as it was.
        """
        records = (one.partition("\t") for one in self.slot.pristine.run("ls-files", "-z", "--stage").fields)
        kept = {path: facts.split(" ")[:2] for facts, _, path in records}
        root = Path(os.path.realpath(self.path))
        return tuple(one for one in paths if _as_blob(root / one, long=len(self.commit) == 64) != kept[one])

    def _refuse_gitlinks(self, tree: TreeId) -> None:
        """Git keeps a repository in the folder as a mere commit id, without its files: work would be lost."""
        changed = self.git.run("diff-tree", "-r", "-z", "--raw", "--ignore-submodules=none", self.commit, tree)
        fields = changed.fields
        for facts, path in zip(fields[::2], fields[1::2], strict=True):
            if facts.split(" ")[1] == _GITLINK:
                raise Unusable(f"{path!r} in the worktree is a git repository of its own; remove its .git")


def _as_blob(path: Path, *, long: bool) -> list[str]:
    """Mode and id that git gives to a regular file's very bytes; none for anything else, or what a symlink leads to."""
    if os.path.realpath(path) != str(path) or not path.is_file():
        return []
    data = path.read_bytes()
    digest = (hashlib.sha256 if long else hashlib.sha1)(b"blob %d\0" % len(data) + data)
    return ["100755" if path.stat().st_mode & stat.S_IXUSR else "100644", digest.hexdigest()]


@contextmanager
def lease_checkout(mirror: Mirror, commit: CommitId, pool: Path) -> Iterator[Checkout]:
    """
    A checkout of exactly this commit, for this process alone until the end of the block or of the process.

    Raises:
        MissingCommit: the mirror has no such commit; `ensure` it first.
        GitFailed: no checkout could be made, not even a new one (a full disk, say).
    """
    slot, lock_fd = _free_slot(mirror, commit, pool)
    try:
        os.utime(lock_fd)
        shrink_pool(mirror.path, pool)
        restore_config(mirror.path)
        try:
            prepare(slot, commit)
        except (GitFailed, OSError):
            if not mirror.has(commit):
                raise MissingCommit(commit, mirror.hub) from None
            discard(slot)
            prepare(slot, commit)
        yield Checkout(commit=commit, slot=slot, mirror=mirror, lock_fd=lock_fd)
    finally:
        os.utime(lock_fd)  # The slot has been idle since then.
        os.close(lock_fd)


def _free_slot(mirror: Mirror, commit: CommitId, pool: Path) -> tuple[Slot, int]:
    """A free slot and its lock: the one last used for this commit, else the lowest, else a new one."""
    slots = sorted(slots_of(mirror.path, pool), key=lambda slot: _last_commit(slot) != commit)
    folder = pool.absolute() / mirror.path.stem
    folder.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(slot.path.name.removeprefix("slot-")) for slot in slots), default=0)
    for slot in slots:
        if (lock_fd := take_lock(slot.beside(".lock"))) is not None:
            return slot, lock_fd
    while True:
        slot = Slot(mirror=mirror.path, path=folder / f"slot-{number}")
        if (lock_fd := take_lock(slot.beside(".lock"))) is not None:
            return slot, lock_fd
        number += 1


def _last_commit(slot: Slot) -> str:
    try:
        return slot.beside(".at").read_text()
    except OSError:
        return ""


def _refuse_unusable(said: GitOutput) -> None:
    """An unreadable folder is only a warning to `git add`, which then takes the files in it for deleted."""
    for line in said.stderr.splitlines():
        shown = line[:_LINE_CHARACTERS]
        if any(words in line for words in _NESTED):
            raise Unusable(f"there is a git repository inside the worktree ({shown}); remove its .git")
        if any(words in line for words in _UNREADABLE):
            raise Unusable(f"the worktree cannot be read whole ({shown}); make it readable")
        if _INVALID in line.lower():
            raise Unusable(f"git cannot keep a file of that name ({shown}); rename it")
        if line.startswith(_LATE):
            raise Unusable(
                "git did not come to the worktree's end in time; simplify .gitignore, or ignore large folders"
            )
        if _ODD in line:
            raise Unusable(f"there is a pipe, socket or device in the worktree ({shown}); remove it")
    if said.status != 0:
        raise GitFailed(("add", "-A"), said.status, said.stderr)
