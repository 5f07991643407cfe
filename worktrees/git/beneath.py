"""
Safe access to files that others may be changing: paths below a held folder, and locks.

A path that was checked and is then opened by name may be another one by then. Here a folder is opened once, and the
kernel resolves paths below that very folder (`openat2`). No link is followed, and nothing beside or above the folder is
reached, whatever commands rename meanwhile. On kernels without `openat2` each part of the path is opened from the one
before it.

A lock is an flock on a file beside what it guards. The kernel frees it when its last holder dies, so no lock is ever
stale. Its holder may remove the file; takers notice and take the new one.
"""

import contextlib
import errno
import fcntl
import os
import stat
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from forgepool.worktrees.git.landlock import openat2

FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
"""Flags to open a folder from which others are opened. It need not be listable."""
LISTED = os.O_RDONLY | os.O_DIRECTORY
"""Flags to open a folder whose names are read."""
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_UNKNOWN = (errno.ENOSYS, errno.EPERM)
"""The errors of a kernel without the call, and of a container's filter."""


class Beneath:
    """A held folder: one put in its place later is not mistaken for it."""

    def __init__(self, path: Path) -> None:
        """
        Open and hold the folder.

        Raises:
            OSError: there is no such folder, or the name belongs to a link.
        """
        self.path = path
        self._folder = os.open(path, FOLDER | _SAFE)
        self.close = weakref.finalize(self, os.close, self._folder)

    def __enter__(self) -> "Beneath":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_still_there(self) -> bool:
        """Does its path still lead to it?"""
        with contextlib.suppress(OSError):
            return os.path.samestat(self.path.lstat(), os.fstat(self._folder))
        return False

    def open(self, below: Path, flags: int, mode: int = 0o666) -> int:
        """
        Open a relative path and return its descriptor; `.` is the folder itself.

        Raises:
            OSError: it does not exist, or there is a link on the way or at its end.
            ValueError: not a path below a folder.
        """
        if below.is_absolute() or ".." in below.parts or "\0" in str(below):
            raise ValueError(f"{str(below)!r} is not a path below a folder; give a relative one without '..'")
        if flags == FOLDER and not below.name:
            return os.dup(self._folder)  # also where the folder may not be entered, as its name `.` would have to be
        flags |= _SAFE
        try:
            try:
                return _asked(self._folder, below, flags, mode if flags & os.O_CREAT else 0)
            except OSError as trouble:
                if trouble.errno not in _UNKNOWN:
                    raise
            return _walked(self._folder, below, flags, mode)
        except OSError as trouble:
            trouble.filename = str(self.path / below)
            raise

    @contextlib.contextmanager
    def reading(self, below: Path) -> Iterator[FileIO]:
        """
        Open a file for reading, without waiting for the other end of a pipe.

        Raises:
            OSError: as for `open`; IsADirectoryError for a folder.
        """
        descriptor = self.open(below, os.O_RDONLY | os.O_NONBLOCK)
        # FileIO would refuse a folder with another error.
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path / below))
        with FileIO(descriptor, "rb") as file:
            yield file

    def read(self, below: Path, *, most_bytes: int) -> bytes:
        """
        Read a whole regular file.

        Raises:
            OSError: as for `reading`; EFBIG if it is larger, EINVAL if it is a pipe or the like.
        """
        with self.reading(below) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self.path / below))
            if found.st_size > most_bytes:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.path / below))
            return file.read(most_bytes) or b""

    @contextlib.contextmanager
    def folder(self, below: Path, *, make: bool = False, flags: int = FOLDER) -> Iterator[int]:
        """Yield a folder's descriptor, for calls that take a `dir_fd`. `make` creates it and its missing parents."""
        try:
            descriptor = self.open(below, flags)
        except FileNotFoundError:
            if not make:
                raise
            descriptor = self._made(below, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def state(self, below: Path) -> os.stat_result | None:
        """Return the status of what is at the path, not following a link; None if nothing is."""
        with contextlib.suppress(FileNotFoundError):
            if not below.name:
                return os.fstat(self._folder)
            with self.folder(below.parent) as above:
                return os.stat(below.name, dir_fd=above, follow_symlinks=False)
        return None

    def remove(self, below: Path) -> None:
        """Remove a file or a link, if there is one."""
        with contextlib.suppress(FileNotFoundError), self.folder(below.parent) as above:
            os.unlink(below.name, dir_fd=above)

    def _made(self, below: Path, flags: int) -> int:
        for count in range(1, len(below.parts) + 1):
            part = Path(*below.parts[:count])
            with self.folder(part.parent) as above, contextlib.suppress(FileExistsError):
                os.mkdir(part.name, dir_fd=above)
        return self.open(below, flags)


def _asked(folder: int, below: Path, flags: int, mode: int) -> int:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return openat2(folder, str(below), flags, mode, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)


def _walked(folder: int, below: Path, flags: int, mode: int) -> int:
    """Open part by part. `O_DIRECTORY` with `O_NOFOLLOW` refuses a part that is a link."""
    parts = below.parts or (".",)
    at = os.dup(folder)
    try:
        for part in parts[:-1]:
            above, at = at, os.open(part, FOLDER | _SAFE, dir_fd=at)
            os.close(above)
        return os.open(parts[-1], flags, mode, dir_fd=at)
    finally:
        os.close(at)


@contextmanager
def hold_lock(path: Path) -> Iterator[int]:
    """Hold the lock, after waiting as long as it takes."""
    descriptor = None
    while descriptor is None:
        descriptor = _take(path, fcntl.LOCK_EX)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def take_lock(path: Path) -> int | None:
    """Take the lock and return its descriptor, which the caller closes; None when another process holds it."""
    try:
        return _take(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _take(path: Path, how: int) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        if _is_still(path, descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_still(path: Path, descriptor: int) -> bool:
    """Is the locked file still the one with that name? Its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
