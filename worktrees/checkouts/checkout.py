"""One checkout for one order or check: leased from a pool, exact at the start, turned into a tree at the end."""

import hashlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.worktrees.checkouts.slots import Slot, begin_work, discard, prepare, shrink_pool, slots_of
from forgepool.worktrees.git.beneath import take_lock
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, GitOutput, TreeId
from forgepool.worktrees.git.trees import GITLINK, compare_trees
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit
from forgepool.worktrees.hub.storage import restore_config

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
    """A folder with the files of one commit, for the lease holder alone."""

    commit: CommitId
    slot: Slot
    mirror: Mirror
    lock_fd: int
    """Holds the lease. A child that inherits it keeps the slot leased as long as it lives."""
    alone: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """Guards the index of snapshots against other threads of the holder."""

    @property
    def path(self) -> Path:
        return self.slot.path

    @property
    def git(self) -> Git:
        return self.slot.working

    @property
    def admin(self) -> Path:
        """The folder that `.git` points to: what the agent's own git reads and writes."""
        return self.slot.admin

    @property
    def pointer(self) -> Path:
        """The `.git` file, which leads the agent's own git to `admin`."""
        return self.path / ".git"

    def snapshot(self, *, within_s: float = 120) -> TreeId:
        """
        Return the tree of everything in the folder that is not ignored, whatever the agent's own git was told.

        Raises:
            Unusable: the folder is gone or unreadable, contains another repository or something git cannot keep, or git
                could not look through it in time: a pattern in `.gitignore` can take for ever.
            GitFailed: git failed for another reason.
        """
        if self.path.is_symlink() or not self.path.is_dir():
            raise Unusable(f"the worktree {self.path} is gone; the work in it is lost")
        restore_config(self.mirror.path)
        with self.alone:
            begin_work(self.slot)
            output = self.git.run("add", "-A", ok=range(-64, 256), timeout_s=within_s)
            _refuse_unusable(output)
            tree = TreeId(self.git.text("write-tree"))
        self._refuse_gitlinks(tree)
        return tree

    def take(self, tree: TreeId) -> None:
        """
        Restore the files of an earlier snapshot and remove all others that git does not ignore.

        The snapshot's own `.gitignore` decides what is ignored, whatever stands there now. HEAD stays, so that git
        shows the difference as uncommitted work.

        Raises:
            GitFailed: the mirror has no such tree, or the folder could not be written.
        """
        restore_config(self.mirror.path)
        with self.alone:
            begin_work(self.slot)
            # A later snapshot may know files that this one ignores: git would remove them as its own.
            self.git.run("read-tree", "--reset", self.commit)
            self.git.run("read-tree", "--reset", "-u", tree)
            others = self.git.run("ls-files", "-z", "--others", "--exclude-standard").fields
            if rules := [path for path in others if Path(path).name == ".gitignore"]:
                self.git.run("clean", "-ffd", "-q", "--", *rules)
            self.git.run("clean", "-ffd", "-q")

    def list_altered(self) -> tuple[str, ...]:
        """
        List the commit's files that differ from the commit, sorted; added files are left out.

        A missing folder counts as all of them, reported as `.`.
        """
        if self.path.is_symlink() or not self.path.is_dir():
            return (".",)
        restore_config(self.mirror.path)
        # This reads the index of the lease and never writes it: an index that learnt of changes would hide them.
        output = self.slot.pristine.run("ls-files", "-z", "--modified", "--deleted")
        return self._but_for_line_ends(sorted(set(output.fields))) if output.fields else ()

    def _but_for_line_ends(self, paths: Sequence[str]) -> tuple[str, ...]:
        """
        Leave out files that have the very bytes and mode of the commit.

        Git calls such a file modified if its attributes would have committed other line ends, though it is untouched.
        """
        records = (record.partition("\t") for record in self.slot.pristine.run("ls-files", "-z", "--stage").fields)
        kept = {path: facts.split(" ")[:2] for facts, _, path in records}
        root = Path(os.path.realpath(self.path))
        return tuple(path for path in paths if _as_blob(root / path, long=len(self.commit) == 64) != kept[path])

    def _refuse_gitlinks(self, tree: TreeId) -> None:
        """Refuse nested repositories: git keeps only their commit ids, without files, and work would be lost."""
        for each in compare_trees(self.mirror.git, self.commit, tree):
            if each.new.mode == GITLINK:
                raise Unusable(f"{each.path!r} in the worktree is a git repository of its own; remove its .git")


def _as_blob(path: Path, *, long: bool) -> list[str]:
    """Return mode and id that git gives to a regular file; nothing for anything else, or a path through a symlink."""
    if os.path.realpath(path) != str(path) or not path.is_file():
        return []
    data = path.read_bytes()
    digest = (hashlib.sha256 if long else hashlib.sha1)(b"blob %d\0" % len(data) + data)
    return ["100755" if path.stat().st_mode & stat.S_IXUSR else "100644", digest.hexdigest()]


@contextmanager
def lease_checkout(mirror: Mirror, commit: CommitId, pool: Path) -> Iterator[Checkout]:
    """
    Yield a checkout of exactly this commit, for this process alone until the block or the process ends.

    Every lease also shrinks the pool (`shrink_pool`).

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
    """Return a free slot and its lock: the one last used for this commit, else the lowest, else a new one."""
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


def _refuse_unusable(output: GitOutput) -> None:
    """Refuse what `git add` only warns of: it takes the files in an unreadable folder for deleted."""
    for line in output.stderr.splitlines():
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
    if output.status != 0:
        raise GitFailed(("add", "-A"), output.status, output.stderr)
