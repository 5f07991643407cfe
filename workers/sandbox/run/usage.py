"""
The memory and disk that a running command takes up in sum, where no control group or quota counts them.

A look twice a second finds what is too much; until then the command can take more. Not counted: System V segments to
which no process is attached, and files without a name that are only mapped.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.sandbox import tree
from forgepool.workers.schema.confinement import Confinement

_LOOK_S = 0.5
_STEPS = 16
"""The files are counted when the disk has lost this part of the limit since the last time."""
_COUNT_S, _PAUSES = 2.0, 50
"""Seconds after which they are counted in any case, and the least pause in lengths of the last count."""
_BLOCK, _SLACK_S = 512, 0.05
_LEAST_BYTES = 4096
"""The bytes that a file or folder counts for at least."""
_MOST_ORDERS = 256
_GROUP_FILES = ("memory.max", "memory.limit_in_bytes")


@dataclass(slots=True)
class _OrderFiles:
    """The state of the disk since an order's first command."""

    began: float
    room: int
    """Bytes free when the files were last counted."""
    count_at: float
    """Monotonic time from which the files are counted whatever the disk says: others may free as much as is written."""
    used: int = 0
    """Bytes of the files when they were last counted."""


_orders: dict[tuple[Path, ...], _OrderFiles] = {}
"""By the folders that an order's commands may write."""


def _files_of(folders: tuple[Path, ...]) -> _OrderFiles:
    if folders not in _orders:
        if len(_orders) >= _MOST_ORDERS:
            del _orders[next(iter(_orders))]
        _orders[folders] = _OrderFiles(time.time() - _SLACK_S, _room(folders), time.monotonic() + _COUNT_S)
    return _orders[folders]


class UsageWatch:
    def __init__(self, confined: Confinement, pid: int) -> None:
        """`pid` is the command's first process."""
        self._folders, self._bounds, self._pid = confined.writable, confined.bounds, pid
        self._memory = None if any(map(_counts_memory, confined.groups)) else confined.bounds.memory_bytes
        self._shared_before = 0 if self._memory is None else _shared_bytes()
        self._look_at = 0.0
        self._files = _files_of(self._folders)

    def find_exceeded(self) -> str | None:
        """Return a sentence about the limit that is exceeded, if any. Looks at most twice a second."""
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + _LOOK_S
        return self._memory_exceeded() or self._disk_exceeded()

    @property
    def _pids(self) -> list[int]:
        return [self._pid, *tree.descendants(self._pid)]

    def _memory_exceeded(self) -> str | None:
        if self._memory is None:
            return None
        pids = self._pids
        seen = sum(_sum(f"{pid}/status", "RssAnon", "RssShmem", "VmSwap") for pid in pids)
        # What they share is in `seen` once for each of them, and memory that is not mapped is not in it.
        if seen + _shared_bytes() - self._shared_before <= self._memory or _used(pids) <= self._memory:
            return None
        most = self._memory // 1024**2
        return f"ended: it takes more memory than {most} MiB, shared memory included (FORGEPOOL_COMMAND_MEMORY_MB)"

    def _disk_exceeded(self) -> str | None:
        if not self._folders:
            return None
        began, files, most, room = time.monotonic(), self._files, self._bounds.disk_bytes, _room(self._folders)
        files.room = max(files.room, room)
        if files.room - room < most // _STEPS and began < files.count_at:
            return None
        before, files.room = files.used, room
        files.used = _written(self._folders, files.began) + sum(_unnamed(self._pids, self._folders, on_disk=True))
        ended = time.monotonic()
        files.count_at = ended + max(_COUNT_S, _PAUSES * (ended - began))
        # A command that clears up what an earlier one has left goes on.
        if files.used <= max(most, before):
            return None
        return f"ended: the order's new files take more than {most // 1024**2} MiB (FORGEPOOL_COMMAND_DISK_MB)"


def _counts_memory(procs: Path) -> bool:
    return any((procs.parent / name).exists() for name in _GROUP_FILES)


def _sum(file: str, *names: str) -> int:
    """Return the bytes in fields of a file of `/proc`; 0 for a process that is gone or cannot be read."""
    with suppress(OSError):
        fields = (line.split() for line in Path("/proc", file).read_text().splitlines())
        return sum(1024 * int(each[1]) for each in fields if len(each) > 1 and each[0].removesuffix(":") in names)
    return 0


def _shared_bytes() -> int:
    """Return the bytes of all shared memory of this machine."""
    return _sum("meminfo", "Shmem")


def _used(pids: list[int]) -> int:
    """Return the bytes that processes take up, what they share counted once."""
    own = sum(_sum(f"{pid}/smaps_rollup", "Pss_Anon", "SwapPss") for pid in pids)
    mapped = sum(_sum(f"{pid}/smaps_rollup", "Pss_Shmem") for pid in pids)
    return own + max(mapped, sum(_unnamed(pids, (), on_disk=False)))


def _unnamed(pids: Iterable[int], folders: tuple[Path, ...], *, on_disk: bool) -> Iterator[int]:
    """Yield the sizes of open files without a name: those on the folders' disks, or all others, such as memfds."""
    disks = {folder.stat().st_dev for folder in folders}
    found: set[tuple[int, int]] = set()
    for pid in pids:
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    file = entry.stat()
                    key = (file.st_dev, file.st_ino)
                    if stat.S_ISREG(file.st_mode) and not file.st_nlink and key not in found:
                        found.add(key)
                        if (file.st_dev in disks) is on_disk:
                            yield file.st_blocks * _BLOCK


def _room(folders: tuple[Path, ...]) -> int:
    """Return the bytes free on the folders' disks; where fewer files than blocks are left, by these."""
    disks = {}
    for folder in folders:
        with suppress(OSError):
            disks[folder.stat().st_dev] = os.statvfs(folder)
    return sum(
        min(disk.f_bavail * disk.f_frsize, disk.f_favail * _LEAST_BYTES if disk.f_files else 1 << 62)
        for disk in disks.values()
    )


def _written(folders: tuple[Path, ...], since: float) -> int:
    """Return the bytes of files in the folders that were made or changed since then."""
    total, named = 0, set()
    waiting = [os.fspath(folder) for folder in folders]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    file = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(file.st_mode):
                        waiting.append(entry.path)
                    key = (file.st_dev, file.st_ino)
                    if file.st_ctime >= since and key not in named:
                        if file.st_nlink > 1:
                            named.add(key)
                        total += max(file.st_blocks * _BLOCK, _LEAST_BYTES)
    return total
