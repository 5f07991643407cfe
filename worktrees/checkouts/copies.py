"""
A folder of files copied from one tree into another, neither of which is trusted: no link is followed in either.
"""

import errno
import fcntl
import os
import shutil
import stat
import sys
from io import FileIO
from pathlib import Path

from forgepool.worktrees.git.beneath import LISTED, Beneath

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE_BYTES = 1024 * 1024
_SHARE_BLOCKS = 0x40049409
"""FICLONE of Linux."""
_ODD = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENXIO)


class InTheWay(Exception):
    """A link, or something else that is no file and no folder where there should be one, in either tree."""


def copy_folder(below: Path, source: Beneath, destination: Beneath) -> None:
    """
    What lies in a folder of `source` comes into the same folder of `destination`, with modes and times of files; links
    stay links, pipes and the like are left out. Where there is nothing, nothing is done.

    Raises:
        InTheWay: part of it may have been copied.
        OSError: for another reason, such as a full disk.
    """
    try:
        if source.state(below) is not None:
            _copy(below, source, destination)
    except OSError as trouble:
        if trouble.errno in _ODD:
            raise InTheWay(f"{below}: {trouble.strerror}") from trouble
        raise


def _copy(below: Path, source: Beneath, destination: Beneath) -> None:
    modes: list[tuple[Path, int]] = []
    waiting = [below]
    while waiting:
        here = waiting.pop()
        with source.folder(here, flags=LISTED) as old, destination.folder(here, make=True) as new:
            modes.append((here, stat.S_IMODE(os.fstat(old).st_mode)))
            waiting += [here / name for name in _copied(old, new)]
    # Last: into a folder that may not be written, nothing could have been put.
    for here, mode in reversed(modes):
        with destination.folder(here, flags=LISTED) as new:
            os.fchmod(new, mode)


def _copied(old: int, new: int) -> list[str]:
    """Copies all but folders; answers those."""
    folders = []
    with os.scandir(old) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.name, dir_fd=old), entry.name, dir_fd=new)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(entry.name, old, new)
    return folders


def _copy_file(name: str, old: int, new: int) -> None:
    with FileIO(os.open(name, _READ, dir_fd=old), "rb") as source:
        found = os.fstat(source.fileno())
        if not stat.S_ISREG(found.st_mode):
            return  # put there since it was looked at
        with FileIO(os.open(name, _WRITE, 0o600, dir_fd=new), "wb") as target:
            if not _shared(source.fileno(), target.fileno()):
                shutil.copyfileobj(source, target, _PIECE_BYTES)
            os.fchmod(target.fileno(), stat.S_IMODE(found.st_mode))
            os.utime(target.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def _shared(source: int, target: int) -> bool:
    """Whether the files now have their blocks in common until one is written to, as some file systems can."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _SHARE_BLOCKS, source)
    except OSError:
        return False
    return True
