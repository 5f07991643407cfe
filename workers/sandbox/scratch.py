"""
Temporary folders that are removed even when the process that made them was killed.

A process killed with -9 cannot remove its folders, but its lock on them is released. The next harness process on this
host that starts or stops removes unlocked ones. A folder is locked before it gets the name that is swept; until then
its name contains the process that made it.
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
"""Short: the whole path of a unix socket has room for a hundred bytes."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder of this process. The descriptor holds its lock, and programs it starts do not inherit it."""

    path: Path
    lock_fd: int

    def remove(self) -> None:
        _remove(self.path)
        os.close(self.lock_fd)


def scratch() -> Scratch:
    """Make a new private folder, after removing those of dead processes."""
    sweep()
    unnamed = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}{os.getpid()}.{tree.start_time(os.getpid())}-"))
    lock_fd = os.open(unnamed, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    return Scratch(unnamed.rename(unnamed.with_name(_PREFIX + unnamed.name.rpartition("-")[2])), lock_fd)


@contextmanager
def make_scratch() -> Iterator[Path]:
    """Yield the real path of a new private folder, which is removed after the block."""
    made = scratch()
    try:
        yield Path(os.path.realpath(made.path))
    finally:
        made.remove()


def sweep() -> None:
    """Remove this user's folders whose makers are dead."""
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
    """Remove the folder. What another process still writes into stays for the next sweep."""
    with suppress(OSError):
        remove_rubbish(path)
