"""
Which files of a worktree changed since one last looked, whoever changed them.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

Stamp = tuple[int, int, int, int]
Stamps = Mapping[str, Stamp]
"""By path. A file with the same stamp has the same content: none of its times, its size and its number changed."""

Fate = Literal["created", "changed", "deleted"]

_NOT_OURS = frozenset({"node_modules", "__pycache__", "site-packages"})
_MOST = 50_000


def stamps(root: Path, suffixes: Collection[str]) -> dict[str, Stamp]:
    """
    The files below a folder that have one of these suffixes, without hidden folders and those of packages and builds.

    At most fifty thousand: what is beyond is taken for unchanged.
    """
    found: dict[str, Stamp] = {}
    waiting = [os.fspath(root)]
    wanted = tuple(suffixes)
    while waiting and len(found) < _MOST:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    _take(entry, wanted, found, waiting)
        except OSError:
            continue  # gone while we looked
    return found


def _take(entry: "os.DirEntry[str]", wanted: tuple[str, ...], found: dict[str, Stamp], waiting: list[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        if not entry.name.startswith(".") and entry.name not in _NOT_OURS:
            waiting.append(entry.path)
    elif entry.name.endswith(wanted) and entry.is_file(follow_symlinks=False):
        now = entry.stat(follow_symlinks=False)
        found[entry.path] = (now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino)


def differences(before: Stamps, after: Stamps) -> dict[str, Fate]:
    """What became of each file that is not as it was."""
    fates: dict[str, Fate] = {path: "deleted" for path in before if path not in after}
    for path, stamp in after.items():
        if path not in before:
            fates[path] = "created"
        elif before[path] != stamp:
            fates[path] = "changed"
    return fates
