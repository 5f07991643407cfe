"""
A uid for one order's or one check's commands, where the harness is root: nobody else's, and the owner of nothing.

Slots are host-wide, whatever home or cache a Forgepool has: two commands of one uid could signal each other.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forgepool.worktrees.git.locks import take_lock

FIRST, COUNT = 60_706, 478
"""A range that neither distributions nor systemd hand out, and that containers of 65,536 uids have too."""
_FOLDER = Path("/run/forgepool-uids")


class NoUid(OSError):
    """There is none left, or no place to keep account of them."""


@contextmanager
def lease_uid(folder: Path = _FOLDER) -> Iterator[int]:
    """
    This process' own until the end of the block, or its own end.

    Raises:
        NoUid: all are taken, or the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = next(
            (
                (uid, lock)
                for uid in range(FIRST, FIRST + COUNT)
                if (lock := take_lock(folder / f"{uid}.lock")) is not None
            ),
            None,
        )
    except OSError as trouble:
        raise NoUid(0, f"{folder}: {trouble.strerror}; root keeps account there of who runs commands") from trouble
    if found is None:
        raise NoUid(0, f"all {COUNT} uids for commands are taken; run fewer workers on this host")
    uid, lock = found
    try:
        yield uid
    finally:
        os.close(lock)
