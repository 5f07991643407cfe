"""
Folders of files on disk: levelled to what a fresh checkout would have, or removed whatever they hold.

Symlinks are never followed. Nothing here knows git.
"""

import errno
import fcntl
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from itertools import count
from pathlib import Path

from forgepool.worktrees.git.beneath import LISTED, Beneath


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
    with Beneath(path) as folder, _listed(folder, Path()):
        pass
    rubbish = Path(tempfile.mkdtemp(prefix="rubbish-", dir=path.parent))
    path.rename(rubbish / "it")
    remove_rubbish(rubbish)


def remove_rubbish(rubbish: Path) -> None:
    """
    A folder that is already nobody's; several may be removing it. What cannot be removed stays.

    Folders inside are moved to the top before they are emptied: so it does not matter how deep a command has nested
    them, be it deeper than a path can be long.
    """
    names = (f".{secrets.token_hex(8)}-{number}" for number in count())
    with suppress(OSError), Beneath(rubbish) as top:
        waiting = ["."]
        while waiting:
            name = waiting.pop()
            with suppress(OSError):
                waiting += _emptied(top, name, names)
            with suppress(OSError), top.folder(Path()) as above:
                os.rmdir(name, dir_fd=above)
    with suppress(OSError):
        rubbish.rmdir()


def level(folder: Path, *, file_mode: int | None) -> None:
    """
    Every folder below can be listed and written; every file is as if just made with `file_mode`, or is gone.

    A file of another mode, owner or number of links is removed, for whoever fills the tree to make anew: git
    compares times by the second, so it may overlook a file that was made read-only just after it was written.
    """
    us = os.geteuid()
    good = () if file_mode is None else (file_mode, file_mode | (file_mode & 0o444) >> 2)
    with Beneath(folder) as top:
        waiting = [Path()]
        while waiting:
            below = waiting.pop()
            with _listed(top, below) as here, os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(below / entry.name)
                    elif good and not _is_as_made(entry.stat(follow_symlinks=False), good, us):
                        os.unlink(entry.name, dir_fd=here)


def _emptied(top: Beneath, name: str, names: Iterator[str]) -> list[str]:
    """The files of a folder at the top go; answers what its own folders, which are at the top then, are called."""
    moved: list[str] = []
    with _listed(top, Path(name)) as here, top.folder(Path()) as above, os.scandir(here) as entries:
        for entry in [*entries]:
            with suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=here)
                    continue
                with _listed(top, Path(name, entry.name)):  # what may not be written cannot be moved either
                    fresh = next(names)
                os.rename(entry.name, fresh, src_dir_fd=here, dst_dir_fd=above)
                moved.append(fresh)
    return moved


@contextmanager
def _listed(top: Beneath, below: Path) -> Iterator[int]:
    """A folder's descriptor. It can be listed and written then, by its owner alone where it could not before."""
    with ExitStack() as until_the_end:
        try:
            here = until_the_end.enter_context(top.folder(below, flags=LISTED))
        except PermissionError:
            _open_up(top, below)
            here = until_the_end.enter_context(top.folder(below, flags=LISTED))
        mode = stat.S_IMODE(os.fstat(here).st_mode)
        if mode & 0o7700 != stat.S_IRWXU:
            os.fchmod(here, mode & 0o777 | stat.S_IRWXU)
        yield here


def _open_up(top: Beneath, below: Path) -> None:
    if not hasattr(os, "O_PATH"):
        (top.path / below).chmod(stat.S_IRWXU)
        return
    with top.folder(below) as folder:
        # A descriptor that is only a place in the tree takes no `fchmod`; by way of /proc it does.
        Path(f"/proc/self/fd/{folder}").chmod(stat.S_IRWXU)


def _is_as_made(found: os.stat_result, good: tuple[int, ...], us: int) -> bool:
    if found.st_nlink != 1 or found.st_uid != us:
        return False
    # Neither: a pipe, a socket or a device, which git does not see and so would never clean.
    return stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) in good)


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
