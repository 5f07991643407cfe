"""
Locks that a killed push has left behind in a hub on this host: git makes them, and only their maker removes them.

Git locks a ref by creating `<ref>.lock` beside it, for milliseconds. Whoever is killed in between (a machine without
memory, a person with -9) leaves the file, and nobody moves that ref again until somebody removes it by hand.

A lock is removed only where its maker cannot be alive: it is old, it is this user's own, and no git of this host works
in the hub. Git closes the file long before it is done with it, so who has it open tells nothing; but each
git that a push starts at the hub has it as its folder.

Why not at once: a hub may lie on a shared disk, where the maker may be another host's process; its age speaks for that.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

STALE_S = 120.0
"""Of a lock that nobody holds; a push whose hooks take longer than this holds none meanwhile, save in its last hook."""


def remove_stale_locks(git_dir: Path, refs: Iterable[str]) -> list[Path]:
    """Those of these refs and of HEAD that were removed; none where somebody is at work in the hub."""
    stale = [lock for lock in (git_dir / f"{ref}.lock" for ref in ("HEAD", *refs)) if _is_old(lock)]
    if not stale or _somebody_works_in(git_dir):
        return []
    for lock in stale:
        lock.unlink(missing_ok=True)
    return stale


def _is_old(lock: Path) -> bool:
    try:
        found = lock.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and time.time() - found.st_mtime > STALE_S


def _somebody_works_in(git_dir: Path) -> bool:
    place = git_dir.resolve()
    return any(folder == place or folder.is_relative_to(place) for folder in _folders())


def _folders() -> Iterator[Path]:
    """Of git's processes on this host: those of this user, whose locks are asked about, are among them."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if (process / "comm").read_text().startswith("git"):
                    yield (process / "cwd").readlink()
