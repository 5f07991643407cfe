"""
A fence around git at work in a work tree: programs started inside can open no file beyond it.

Commands may be at work in a folder while git takes a snapshot of it. One that turns a folder into a link and back as
fast as it can makes git read files beside the work tree. Git looks at a name and then opens it: 158 of 389 runs of `git
add` were deceived. So the kernel enforces which files git may open. A thread gives up all others for itself and its
children (Landlock), and ends. On a kernel without Landlock git runs without a fence, and `fence_holds` says so.
"""

import ctypes
import errno
import functools
import os
import shutil
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture but alpha
_NO_NEW_PRIVILEGES = 38
_ASK_VERSION = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_RIGHTS = ((1, 13), (2, 14), (3, 15))
"""The number of rights known since each version."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/opt", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The folders that may be opened, with all below them. Programs and libraries may be opened too."""

    folders: tuple[Path, ...]

    def run(self, work: Callable[[], T]) -> T:
        """Run the work in its own thread inside the fence; programs that it starts are inside too."""
        with ThreadPoolExecutor(max_workers=1) as alone:
            return alone.submit(self._inside, work).result()

    def _inside(self, work: Callable[[], T]) -> T:
        ruleset = _ruleset()
        try:
            for place, rights in self._rules():
                _allow(ruleset, place, rights)
            _enter(ruleset)
        finally:
            os.close(ruleset)
        return work()

    def _rules(self) -> Iterator[tuple[Path, int]]:
        every = _every_right()
        yield from ((folder, every) for folder in self.folders if folder.exists())
        yield from ((Path(device), _READ_FILE | _WRITE_FILE) for device in _DEVICES)
        yield from ((place, _READING) for place in _programs())


@functools.cache
def fence_holds() -> bool:
    """Does this kernel enforce a fence?"""
    return _version() > 0


def _version() -> int:
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


@functools.cache
def _every_right() -> int:
    return (1 << max(count for since, count in _RIGHTS if since <= _version())) - 1


@functools.cache
def _programs() -> tuple[Path, ...]:
    """List the folders of programs and libraries that everyone may run, git's own included."""
    git = shutil.which("git")
    own = [] if git is None else [Path(git).resolve().parents[1], Path(git).parent]
    return tuple(place for place in (*map(Path, _PROGRAMS), *own) if place.exists() and place != Path("/"))


def _ruleset() -> int:
    attributes = struct.pack("=Q", _every_right())
    return _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))


def _allow(ruleset: int, place: Path, rights: int) -> None:
    opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        known = rights & _every_right()
        on_it = known if stat.S_ISDIR(os.fstat(opened).st_mode) else known & _OF_FILES
        rule = struct.pack("=Qi", on_it, opened)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(opened)


def _enter(ruleset: int) -> None:
    """Enter the fence with the calling thread, for good. The kernel requires giving up set-user-id programs first."""
    if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))


def _call(number: int, *words: object) -> int:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    found = int(_libc().syscall(ctypes.c_long(number), *words))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
