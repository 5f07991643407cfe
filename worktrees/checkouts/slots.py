"""
The slots of a pool: folders that are reused to hold exactly one commit's files, and removed when they stand idle.

The harness reads a slot through the mirror and its own index, kept beside the folder. The `.git` file in the folder and
the administrative folder behind it serve only the agent's own git. Every lease rewrites them, and the harness never
reads them. So nothing an agent does to them reaches the harness or the slot's next user: another repository put in
place, flags set in the index, a configuration, a branch checked out.

Mirror `M` and slot 3 have these files. `pool/M/slot-3/` holds the commit's files, and `slot-3.lock` is the lease.
`slot-3.indexes/leased` describes the files as last leased, and `slot-3.indexes/work` is the index of snapshots.
`slot-3.at` names the commit last leased, as a hint. Indexes have their own folder: git opens nothing else of the pool
(see `Fence`).
"""

import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.worktrees.checkouts.trees import is_folder, level, remove_rubbish, remove_tree
from forgepool.worktrees.git.beneath import take_lock
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, GitOutput

_LOOK_EVERY_S = 3600
"""Seconds between two looks for slots that stand idle too long."""
_MOST_IDLE_S = 24 * 3600
"""Seconds a slot may stand idle before it is removed."""
_LEAST_FREE_BYTES = 10 * 1024**3
"""A disk is nearly full with less free than this and than a twentieth of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One folder of a pool and the files beside it. Callers of the functions below hold its lock."""

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
        """The content of the `.git` file."""
        return b"gitdir: " + os.fsencode(self.admin) + b"\n"


def slots_of(mirror: Path, pool: Path) -> Iterator[Slot]:
    """Yield the pool's slots for this mirror, in the order of their numbers."""
    folder = pool.absolute() / mirror.stem
    found = (re.fullmatch(r"slot-(\d+)\.lock", lock.name) for lock in folder.glob("slot-*.lock"))
    for number in sorted(int(match[1]) for match in found if match):
        yield Slot(mirror=mirror, path=folder / f"slot-{number}")


def prepare(slot: Slot, commit: CommitId) -> None:
    """
    Make the slot hold exactly the commit's files: nothing else, nothing ignored, all writable.

    Raises:
        GitFailed: the files could not be brought to that state, or a check afterwards found another state.
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
    if not _are_removed(slot.path, cleaned):
        _verify_clean(slot)
    # The agent's git gets a copy of the index: a link would let it write into ours.
    shutil.copyfile(slot.indexes / "leased", slot.admin / "index")
    slot.beside(".at").write_text(commit)


def begin_work(slot: Slot) -> None:
    """Make the index for snapshots, a hard link to the pristine one: git replaces an index, it never writes into it."""
    # A git that was killed may have left its lock; the caller is the only one at work here.
    (slot.indexes / "work.lock").unlink(missing_ok=True)
    work = slot.indexes / "work"
    if not work.exists():
        os.link(slot.indexes / "leased", work)


def discard(slot: Slot) -> None:
    """Remove the slot's folder, indexes and administrative folder; its lock stays with its holder."""
    slot.beside(".at").unlink(missing_ok=True)
    remove_tree(slot.indexes)
    remove_tree(slot.admin)
    remove_tree(slot.path)


def _are_removed(folder: Path, cleaned: GitOutput) -> bool:
    """Is all gone that a cleaning names as removed, and has it said nothing else?"""
    lines = cleaned.stdout.splitlines()
    # Git puts an unusual name between quotes.
    plain = all(line.startswith(b"Removing ") and b'"' not in line and b"\\" not in line for line in lines)
    names = (os.fsdecode(line.removeprefix(b"Removing ")).rstrip("/") for line in lines)
    return not cleaned.stderr and plain and not any(os.path.lexists(folder / name) for name in names)


def _verify_clean(slot: Slot) -> None:
    """Look again after a cleaning that left something or told of more: git only warns of what it cannot remove."""
    left = slot.pristine.run("ls-files", "-z", "--others", "--modified", "--deleted")
    if left.stdout or left.stderr:
        raise GitFailed(("clean",), 0, f"{slot.path} is not clean after cleaning: {left.fields[:3]}")


def _write_admin(slot: Slot, commit: CommitId) -> None:
    """Write the administrative folder and the `.git` file from nothing, as `git worktree add` lays them out."""
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
    """Remove the locks of a git that was killed; the holder of the slot's lock is the only one at work here."""
    slot.indexes.mkdir(exist_ok=True)
    for name in ("leased.lock", "work.lock", "work"):
        (slot.indexes / name).unlink(missing_ok=True)
    slot.beside(".at").unlink(missing_ok=True)


def shrink_pool(mirror: Path, pool: Path, *, least_free_bytes: int | None = None) -> None:
    """
    Remove the free slots that nothing has leased for a day, or all free slots when the disk is nearly full.

    Covers the slots of every mirror beside the given one. Looks for old slots once an hour, so it is cheap to call at
    every lease. Never fails: a slot that cannot be removed stays.
    """
    with suppress(OSError):
        disk, stamp = shutil.disk_usage(pool), pool / ".shrunk"
        least = min(disk.total // 20, _LEAST_FREE_BYTES) if least_free_bytes is None else least_free_bytes
        is_full = disk.free < least
        if not is_full and stamp.exists() and time.time() - stamp.stat().st_mtime < _LOOK_EVERY_S:
            return
        with suppress(OSError):
            stamp.touch()
        for folder in pool.iterdir():
            if (other := mirror.with_name(f"{folder.name}{mirror.suffix}")).is_dir():
                prune_checkouts(other, pool, idle_s=0 if is_full else _MOST_IDLE_S)


def prune_checkouts(mirror: Path, pool: Path, *, idle_s: float = 0) -> int:
    """Remove the pool's free slots for a mirror that were last leased so long ago; return how many."""
    removed = 0
    for slot in slots_of(mirror, pool):
        lock_fd = take_lock(slot.beside(".lock"))
        if lock_fd is None:
            continue
        try:
            if time.time() - os.fstat(lock_fd).st_mtime >= idle_s:
                discard(slot)
                slot.beside(".lock").unlink()
                removed += 1
        finally:
            os.close(lock_fd)
    _sweep(mirror, pool)
    return removed


def _sweep(mirror: Path, pool: Path) -> None:
    """Finish removals that were cut short, and remove administrative folders whose checkout is gone."""
    for place in (pool.absolute() / mirror.stem, mirror / "worktrees"):
        for rubbish in place.glob("rubbish-*"):
            with suppress(FileNotFoundError):
                remove_rubbish(rubbish)
    for slot in _orphans(mirror):
        lock_fd = take_lock(slot.beside(".lock")) if slot.path.parent.is_dir() else None
        if lock_fd is not None or not slot.path.parent.is_dir():
            remove_tree(slot.admin)
        if lock_fd is not None:
            slot.beside(".lock").unlink()
            os.close(lock_fd)


def _orphans(mirror: Path) -> Iterator[Slot]:
    """Yield the slots, of any pool, that have an administrative folder and no checkout."""
    for pointer in (mirror / "worktrees").glob("*/gitdir"):
        with suppress(OSError):
            checkout = Path(os.fsdecode(pointer.read_bytes().removesuffix(b"\n"))).parent
            slot = Slot(mirror=mirror, path=checkout)
            if slot.admin == pointer.parent and not checkout.exists():
                yield slot
