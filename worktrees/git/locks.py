"""
Locks that end with their holder: flock on a file beside what it guards.

The kernel frees such a lock when the last process that holds it dies, however it dies, so there is no stale
lock to find out about. A lock file may be removed by whoever holds it; takers notice and take the new one.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
