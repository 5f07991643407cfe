"""
Folders of files on disk: levelled to what a fresh checkout would have, or removed whatever they hold.

Symlinks are never followed. Nothing here knows git.
"""

import os
import shutil
import stat
import tempfile
from pathlib import Path


def is_folder(path: Path) -> bool:
    """Is it a folder, and no symlink to one?"""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def remove_tree(path: Path) -> None:
    """Whatever is at the path goes, read-only folders too. A symlink goes, not what it points to."""
    if not is_folder(path):
        path.unlink(missing_ok=True)
        return
    # Renamed first, so that a removal that is cut short leaves rubbish of a known name and no half of a tree.
    path.chmod(stat.S_IMODE(path.lstat().st_mode) | stat.S_IRWXU)
    rubbish = Path(tempfile.mkdtemp(prefix="rubbish-", dir=path.parent))
    path.rename(rubbish / "it")
    remove_rubbish(rubbish)


def remove_rubbish(rubbish: Path) -> None:
    """A folder that is already nobody's; several may be removing it."""
    level(rubbish, file_mode=None)
    shutil.rmtree(rubbish, ignore_errors=True)


def level(folder: Path, *, file_mode: int | None) -> None:
    """
    Every folder below can be listed and written; every file is as if just made with `file_mode`, or is gone.

    A file of another mode, owner or number of links is removed, for whoever fills the tree to make anew: git
    compares times by the second, so it may overlook a file that was made read-only just after it was written.
    """
    waiting = [os.fspath(folder)]
    us = os.geteuid()
    good = () if file_mode is None else (file_mode, file_mode | (file_mode & 0o444) >> 2)
    while waiting:
        found = waiting.pop()
        mode = stat.S_IMODE(os.lstat(found).st_mode)
        if mode & 0o7700 != stat.S_IRWXU:
            Path(found).chmod(mode & 0o777 | stat.S_IRWXU)
        with os.scandir(found) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif good and not _is_as_made(entry.stat(follow_symlinks=False), good, us):
                    Path(entry.path).unlink()


def _is_as_made(found: os.stat_result, good: tuple[int, ...], us: int) -> bool:
    if found.st_nlink != 1 or found.st_uid != us:
        return False
    # Neither: a pipe, a socket or a device, which git does not see and so would never clean.
    return stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) in good)
