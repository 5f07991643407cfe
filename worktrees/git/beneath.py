"""
Files below a folder, reached from the folder itself: no link is followed on the way, and nothing beside or above it is
reached, whatever commands that work in it rename meanwhile.

A path that was looked at and is then opened by its name again may have become another one in between. Here a folder is
opened once, and the kernel is asked for what lies below that very folder (`openat2`); where it does not know how, each
part of the way is opened from the one before it.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import stat
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
"""How a folder is opened that others are opened from, or named in. It need not be one that can be listed."""
LISTED = os.O_RDONLY | os.O_DIRECTORY
"""How a folder is opened whose names are read."""
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_OPENAT2 = 437  # the same number on every architecture but alpha
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_UNKNOWN = (errno.ENOSYS, errno.EPERM)
"""What a kernel says that is too old, and a container's filter that is."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Beneath:
    """A folder, held from now on: what is put in its place later is not taken for it."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            OSError: there is no such folder, or a link has its name.
        """
        self.path = path
        self._folder = os.open(path, FOLDER | _SAFE)
        self.close = weakref.finalize(self, os.close, self._folder)

    def __enter__(self) -> "Beneath":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_still_there(self) -> bool:
        """Whether its path still leads to it."""
        with contextlib.suppress(OSError):
            return os.path.samestat(self.path.lstat(), os.fstat(self._folder))
        return False

    def open(self, below: Path, flags: int, mode: int = 0o666) -> int:
        """
        A descriptor of what lies at a relative path; of the folder itself for `.`.

        Raises:
            OSError: there is none, or a link stands in the way or at its end.
            ValueError: no path below a folder looks like this.
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
        A file to be read: the one that is there, and without waiting for a pipe's other end.

        Raises:
            OSError: as of `open`; IsADirectoryError of a folder.
        """
        descriptor = self.open(below, os.O_RDONLY | os.O_NONBLOCK)
        # FileIO itself would not open a folder; whoever reads says what is wrong with one.
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path / below))
        with FileIO(descriptor, "rb") as file:
            yield file

    def read(self, below: Path, *, most_bytes: int) -> bytes:
        """
        All of a regular file.

        Raises:
            OSError: as of `reading`; with EFBIG, it is larger; with EINVAL, it is a pipe or the like.
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
        """
        A folder's descriptor, for calls that take a `dir_fd`; with `make`, it and those above it are made where they
        are missing.
        """
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
        """Of what lies at the path, be it a link; None where there is nothing."""
        with contextlib.suppress(FileNotFoundError):
            if not below.name:
                return os.fstat(self._folder)
            with self.folder(below.parent) as above:
                return os.stat(below.name, dir_fd=above, follow_symlinks=False)
        return None

    def remove(self, below: Path) -> None:
        """A file or a link goes, if there is one."""
        with contextlib.suppress(FileNotFoundError), self.folder(below.parent) as above:
            os.unlink(below.name, dir_fd=above)

    def _made(self, below: Path, flags: int) -> int:
        for count in range(1, len(below.parts) + 1):
            part = Path(*below.parts[:count])
            with self.folder(part.parent) as above, contextlib.suppress(FileExistsError):
                os.mkdir(part.name, dir_fd=above)
        return self.open(below, flags)


def _asked(folder: int, below: Path, flags: int, mode: int) -> int:
    call = _system_call()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _How(flags, mode, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    while True:
        found = call(_OPENAT2, folder, os.fsencode(below), ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return int(found)
        if (number := ctypes.get_errno()) != errno.EINTR:
            raise OSError(number, os.strerror(number))


@functools.cache
def _system_call() -> "ctypes._NamedFuncPointer | None":
    if sys.platform != "linux":
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return call


def _walked(folder: int, below: Path, flags: int, mode: int) -> int:
    """Part by part. A part that is a link is an end: `O_DIRECTORY` and `O_NOFOLLOW` refuse it together."""
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
    """The lock, waited for as long as it takes."""
    descriptor = None
    while descriptor is None:
        descriptor = _take(path, fcntl.LOCK_EX)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def take_lock(path: Path) -> int | None:
    """The lock's file descriptor, to be closed by the caller; None when somebody else has it."""
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
    """Is the locked file still the one of that name? Its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
