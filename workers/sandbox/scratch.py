"""
Temporary folders that outlive nobody: locked by the process that made them, swept up when that one is dead.

A process killed with -9 cannot remove what it made. Its lock goes with it, and the next of ours on this host that
starts or stops finds the folder without one. A folder is locked before it gets the name that is swept; until then its
name says whose it is.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.sandbox import tree
from forgepool.worktrees.checkouts.trees import is_folder, remove_rubbish

_PREFIX = "fpool-"
"""Short: a unix socket's whole path has room for a hundred bytes."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder of this process; the descriptor holds its lock and is not inherited by programs it starts."""

    path: Path
    lock_fd: int

    def remove(self) -> None:
        _remove(self.path)
        os.close(self.lock_fd)


def scratch() -> Scratch:
    """A new, private folder. Sweeps up those of the dead first."""
    sweep()
    unnamed = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}{os.getpid()}.{tree.start_time(os.getpid())}-"))
    lock_fd = os.open(unnamed, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    return Scratch(unnamed.rename(unnamed.with_name(_PREFIX + unnamed.name.rpartition("-")[2])), lock_fd)


@contextmanager
def make_scratch() -> Iterator[Path]:
    """A new, private folder by its real path, gone with the block."""
    made = scratch()
    try:
        yield Path(os.path.realpath(made.path))
    finally:
        made.remove()


def sweep() -> None:
    """Removes the folders of this user whose makers are dead."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if is_folder(path) and path.lstat().st_uid == os.geteuid():
                _remove_unlocked(path)
    for path in Path(tempfile.gettempdir()).glob(f".{_PREFIX}*"):
        with suppress(OSError, ValueError):
            pid, _, started = path.name.removeprefix(f".{_PREFIX}").rpartition("-")[0].partition(".")
            if path.lstat().st_uid == os.geteuid() and not tree.alive(int(pid), int(started)):
                _remove(path)


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """What somebody still writes into meanwhile stays for the next sweep."""
    with suppress(OSError):
        remove_rubbish(path)
