"""
The slots of a pool: folders that are made into exactly one commit's files, again and again.

The harness reads a slot through the mirror and an index of its own, kept beside the folder. The `.git` file
in the folder and the administrative folder behind it are for the agent's own git alone: they are written anew
for every lease and never read. So nothing an agent does to them (another repository put in place, flags set
in the index, a configuration, a branch checked out) reaches the harness or the slot's next user.

For mirror `M` and slot 3: `pool/M/slot-3/` (the files), `slot-3.lock` (flock: leased), `slot-3.indexes/leased` (the
files as last leased, with their stat data), `slot-3.indexes/work` (the index snapshots are taken with), `slot-3.at`
(the commit last leased: a hint). Indexes have a folder of their own: git opens nothing else of the pool (`fence.py`).
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.worktrees.checkouts.trees import is_folder, level, remove_tree
from forgepool.worktrees.git.git import CommitId, Git, GitFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One folder of a pool and what belongs to it. Whoever acts on it holds its lock."""

    mirror: Path
    path: Path

    def beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    @property
    def indexes(self) -> Path:
        return self.beside(".indexes")

    @property
    def admin(self) -> Path:
        """The administrative folder of the worktree, inside the mirror; one per slot of every pool."""
        pool = hashlib.sha256(os.fsencode(self.path.parent)).hexdigest()[:8]
        return self.mirror / "worktrees" / f"{self.path.name}-{pool}"

    @property
    def pristine(self) -> Git:
        """Git as the slot is prepared with: its index knows the files as they were when last leased."""
        return Git(git_dir=self.mirror, work_tree=self.path, index=self.indexes / "leased")

    @property
    def working(self) -> Git:
        """Git for snapshots. Not with the pristine index: what it learnt would hide what must be undone."""
        return Git(git_dir=self.mirror, work_tree=self.path, index=self.indexes / "work")

    @property
    def pointer(self) -> bytes:
        """What the `.git` file has to hold."""
        return b"gitdir: " + os.fsencode(self.admin) + b"\n"


def slots_of(mirror: Path, pool: Path) -> Iterator[Slot]:
    """The pool's slots for this mirror, in the order of their numbers."""
    folder = pool.absolute() / mirror.stem
    found = (re.fullmatch(r"slot-(\d+)\.lock", lock.name) for lock in folder.glob("slot-*.lock"))
    for number in sorted(int(match[1]) for match in found if match):
        yield Slot(mirror=mirror, path=folder / f"slot-{number}")


def prepare(slot: Slot, commit: CommitId) -> None:
    """
    The slot holds exactly the commit's files afterwards: nothing else, nothing ignored, all writable.

    Raises:
        GitFailed: it could not be brought there, or was not found so afterwards.
    """
    _clear_locks(slot)
    if not is_folder(slot.path):
        discard(slot)
        slot.path.mkdir(parents=True)
        slot.indexes.mkdir()
    _write_admin(slot, commit)
    # What was just written there shows what mode this process gives to new files.
    level(slot.path, file_mode=stat.S_IMODE((slot.admin / "HEAD").stat().st_mode))
    git = slot.pristine
    git.run("read-tree", "--reset", "-u", commit)
    cleaned = git.run("clean", "-ffdx")
    if cleaned.stdout or cleaned.stderr:
        _verify_clean(slot)
    # The agent's git gets a copy of the index: a link would let it write into ours.
    shutil.copyfile(slot.indexes / "leased", slot.admin / "index")
    slot.beside(".at").write_text(commit)


def begin_work(slot: Slot) -> None:
    """An index for snapshots, at first the pristine one. Git replaces an index, it never writes into it."""
    # One that git left when it was ended: whoever calls is the only one at work here.
    (slot.indexes / "work.lock").unlink(missing_ok=True)
    work = slot.indexes / "work"
    if not work.exists():
        os.link(slot.indexes / "leased", work)


def is_intact(slot: Slot) -> bool:
    """Is the folder there, a folder, with the `.git` file it was leased with?"""
    pointer = slot.path / ".git"
    with suppress(OSError):
        return is_folder(slot.path) and not pointer.is_symlink() and pointer.read_bytes() == slot.pointer
    return False


def discard(slot: Slot) -> None:
    """The slot's folder, indexes and administrative folder are gone; its lock stays with its holder."""
    slot.beside(".at").unlink(missing_ok=True)
    remove_tree(slot.indexes)
    remove_tree(slot.admin)
    remove_tree(slot.path)


def _verify_clean(slot: Slot) -> None:
    """Looked at again whenever cleaning found something: it was a warning if that could not be removed."""
    left = slot.pristine.run("ls-files", "-z", "--others", "--modified", "--deleted")
    if left.stdout or left.stderr:
        raise GitFailed(("clean",), 0, f"{slot.path} is not clean after cleaning: {left.fields[:3]}")


def _write_admin(slot: Slot, commit: CommitId) -> None:
    """The administrative folder and `.git` file, from nothing, as `git worktree add` lays them out."""
    remove_tree(slot.admin)
    slot.admin.mkdir(parents=True)
    (slot.admin / "HEAD").write_text(f"{commit}\n")
    (slot.admin / "commondir").write_text("../..\n")
    (slot.admin / "gitdir").write_bytes(os.fsencode(slot.path / ".git") + b"\n")
    (slot.admin / "locked").write_text("leased from a pool\n")
    pointer = slot.path / ".git"
    remove_tree(pointer)
    pointer.write_bytes(slot.pointer)


def _clear_locks(slot: Slot) -> None:
    """What a git that was killed left behind. Whoever holds the slot's lock is the only one at work here."""
    slot.indexes.mkdir(exist_ok=True)
    for name in ("leased.lock", "work.lock", "work"):
        (slot.indexes / name).unlink(missing_ok=True)
    slot.beside(".at").unlink(missing_ok=True)
