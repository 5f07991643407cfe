"""
Folders that a set-up command fills, kept on this host and brought into later checkouts of the same pool folder.

A kept folder is made of the target's own tip and of nothing else: whoever calls `keep` has run the set-up on the tip's
files. A checkout may have it only if its lock files, and the files that words of the set-up command name, are byte for
byte the tip's (`store_of`). What else the command reads must be said, as the key of a further `cache` entry.

Brought in, a folder is mounted read-only where commands are held by bubblewrap: it takes no time, and nobody can put
anything into what the next one gets. Elsewhere, where it is said that commands write in it, and where something of the
commit's lies in it, it is copied; on a file system that shares blocks between files a copy is of names alone.

Kept folders belong to one folder of the pool: what set-ups make (a Python environment, say) often holds its own path.
"""

import hashlib
import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.workers.schema.orders import CachedFolder, Setup
from forgepool.worktrees.checkouts.checkout import Checkout
from forgepool.worktrees.checkouts.trees import InTheWay, copy_folder, remove_tree
from forgepool.worktrees.commits.changes import Found, find_at
from forgepool.worktrees.git.beneath import LISTED, Beneath
from forgepool.worktrees.git.git import CommitId

_WORD = re.compile(r"[\w./+@-]+")

Mounting = Literal["anywhere", "at the top", "nowhere"]
"""Where mounts are safe. Below a folder that a command of the same checkout may rename meanwhile they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A kept folder that is to be seen at its place in the checkout."""

    store: Path
    folder: Path
    """Relative, the same in both."""

    def at(self, checkout: Path) -> tuple[Path, Path]:
        return self.store / self.folder, checkout / self.folder

    def overlaps(self, folder: Path) -> bool:
        return self.folder.is_relative_to(folder) or folder.is_relative_to(self.folder)


def environment_fingerprint() -> str:
    """What of this host may change a command's answer: system, machine and the Python that runs us."""
    return f"{platform.system()}-{platform.machine()}-python{platform.python_version()}"


def lacking_keys(setup: Setup, checkout: Checkout) -> list[str]:
    """The lock files that are no regular files of the commit: there is nothing to keep folders by."""
    keys = sorted({cached.key for cached in setup.cache})
    found = find_at(checkout.mirror.git, checkout.commit, *keys)
    return [key for key in keys if key not in found or found[key].kind != "file"]


def store_of(setup: Setup, checkout: Checkout, base: CommitId, kept: Path) -> Path | None:
    """
    Where the set-up's folders are kept, below the host's folder for all of them, if they have been; None where the
    checkout may have none but those it makes for itself. `base` is the target's tip.
    """
    if not setup.cache:
        return None
    inputs = _inputs(setup, checkout, checkout.commit)
    if inputs != _inputs(setup, checkout, base):
        return None
    cache = [(cached.folder, cached.key) for cached in setup.cache]
    named = (checkout.mirror.hub, str(checkout.path), environment_fingerprint(), setup.name, setup.run, cache, inputs)
    return kept / hashlib.sha256(repr(named).encode()).hexdigest()[:32]


def keep(cache: Sequence[CachedFolder], checkout: Path, store: Path) -> None:
    """All folders or none: they are copied beside the store and renamed into place. The slot's lease is the lock."""
    building = store.with_suffix(".building")
    remove_tree(building)
    building.mkdir(parents=True)
    try:
        _copy(_folders(cache), checkout, building)
    except InTheWay:  # each checkout has its set-up run then
        remove_tree(building)
        return
    building.rename(store)


def bring_in(cache: Sequence[CachedFolder], store: Path, checkout: Path, mounting: Mounting) -> tuple[Mount, ...]:
    """
    What is to be mounted for commands in the checkout; the other folders have been copied.

    Raises:
        InTheWay: something of the commit's has the place of a folder; some may have been copied.
    """
    written = {Path(os.path.normpath(cached.folder)) for cached in cache if cached.writable}
    mounts, copies = [], []
    for folder in _folders(cache):
        if not (store / folder).is_dir():
            continue
        within = mounting == "anywhere" or (mounting == "at the top" and len(folder.parts) == 1)
        if within and folder not in written and _is_free(folder, checkout):
            mounts.append(Mount(store=store, folder=folder))
        else:
            copies.append(folder)
    _copy(copies, store, checkout)
    return tuple(mounts)


def copy_in(mount: Mount, checkout: Path) -> None:
    """
    Instead of being mounted.

    Raises:
        InTheWay: something else has its place.
    """
    _copy([mount.folder], mount.store, checkout)


def _inputs(setup: Setup, checkout: Checkout, commit: CommitId) -> tuple[tuple[str, Found], ...]:
    """What a commit, not the folder, has at the lock files' paths and at those the set-up command names."""
    words = [os.path.normpath(word) for word in _WORD.findall(setup.run) if not word.startswith(("/", "-"))]
    paths = sorted({*words, *(cached.key for cached in setup.cache)} - {".", ".."})
    inside = [path for path in paths if not path.startswith("../")]
    return tuple(find_at(checkout.mirror.git, commit, *inside).items())


def _folders(cache: Sequence[CachedFolder]) -> Iterator[Path]:
    yield from dict.fromkeys(Path(os.path.normpath(cached.folder)) for cached in cache)


def _is_free(folder: Path, checkout: Path) -> bool:
    """Whether a mount would hide nothing."""
    with Beneath(checkout) as held:
        try:
            if held.state(folder) is None:
                return True
            with held.folder(folder, flags=LISTED) as found, os.scandir(found) as entries:
                return next(entries, None) is None
        except OSError:
            return False


def _copy(folders: Sequence[Path] | Iterator[Path], source: Path, destination: Path) -> None:
    with Beneath(source) as old, Beneath(destination) as new:
        for folder in folders:
            copy_folder(folder, old, new)
