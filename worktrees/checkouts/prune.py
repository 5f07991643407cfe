"""
Removes what no live order owns. Everything here may run at any time, beside anything else.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from forgepool.worktrees.checkouts.slots import Slot, discard, slots_of
from forgepool.worktrees.checkouts.trees import remove_rubbish, remove_tree
from forgepool.worktrees.git.git import is_ref
from forgepool.worktrees.git.locks import hold_lock, take_lock
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import PushRefused, RefUpdate, Stale

_MOST_AT_ONCE = 500
"""Refs deleted by one push: each costs two words of its command line."""


def prune_run(
    mirror: Mirror, run: str, *, keep_orders_of: Collection[str] | None = None, keep: Collection[str] = ()
) -> int:
    """
    Removes the run's refs from the hub and from the mirror; how many the hub had.

    The candidates (`refs/forgepool/<run>/orders/<task>/`) and the work under way (`.../progress/<task>/`) are the work
    itself: they stay, all of them or those of the tasks named. `keep` names further refs, whole, that stay.

    Raises:
        ValueError: no such name can be a run's.
        GitFailed: the hub could not be asked.
    """
    if not is_ref(f"refs/forgepool/{run}") or "/" in run:
        raise ValueError(f"{run!r} is not the name of a run")
    tasks = ("",) if keep_orders_of is None else tuple(f"{task}/" for task in keep_orders_of)
    kept = tuple(f"forgepool/{run}/{work}/{task}" for work in ("orders", "progress") for task in tasks)
    there = mirror.hub_refs(f"refs/forgepool/{run}/*")
    gone = [
        RefUpdate(ref=ref, new=None, expected=commit)
        for ref, commit in there.items()
        if ref not in keep and not ref.removeprefix("refs/").startswith(kept)
    ]
    parts = [gone[start : start + _MOST_AT_ONCE] for start in range(0, len(gone), _MOST_AT_ONCE)]
    removed = sum(_delete(mirror, part) for part in parts)
    _forget(mirror, f"refs/hub/forgepool/{run}/", tuple(f"refs/hub/{one}" for one in kept))
    return removed


def prune_checkouts(mirror: Mirror, pool: Path) -> int:
    """Removes the pool's slots that nobody has leased, with all that belongs to them; how many there were."""
    removed = 0
    for slot in slots_of(mirror.path, pool):
        lock_fd = take_lock(slot.beside(".lock"))
        if lock_fd is None:
            continue
        try:
            discard(slot)
            slot.beside(".lock").unlink()
            removed += 1
        finally:
            os.close(lock_fd)
    _sweep(mirror, pool)
    return removed


def _delete(mirror: Mirror, updates: list[RefUpdate]) -> int:
    """One push for all; when one of them was moved meanwhile or is refused, what can go goes alone."""
    if not updates:
        return 0
    answer = mirror.push(updates)
    if not isinstance(answer, Stale | PushRefused):
        return len(updates)
    if len(updates) == 1:
        return 0
    half = len(updates) // 2
    return _delete(mirror, updates[:half]) + _delete(mirror, updates[half:])


def _forget(mirror: Mirror, prefix: str, kept: tuple[str, ...]) -> None:
    """The mirror's own copies of refs; the objects stay until a repack finds nobody wants them."""
    with hold_lock(mirror.lock):
        names = mirror.git.text("for-each-ref", "--format=%(refname)", prefix).splitlines()
        gone = [name for name in names if not name.startswith(kept)]
        lines = "".join(f"delete {name}\n" for name in gone)
        if lines:
            mirror.git.run("update-ref", "--stdin", stdin=lines.encode())


def _sweep(mirror: Mirror, pool: Path) -> None:
    """Halves of removals that were cut short, and administrative folders whose checkout is gone."""
    for place in (pool.absolute() / mirror.path.stem, mirror.path / "worktrees"):
        for rubbish in place.glob("rubbish-*"):
            with suppress(FileNotFoundError):
                remove_rubbish(rubbish)
    for slot in _orphans(mirror):
        lock_fd = take_lock(slot.beside(".lock")) if slot.path.parent.is_dir() else None
        if lock_fd is not None or not slot.path.parent.is_dir():
            remove_tree(slot.admin)
        if lock_fd is not None:
            slot.beside(".lock").unlink()
            os.close(lock_fd)


def _orphans(mirror: Mirror) -> Iterator[Slot]:
    """Slots, of any pool, that have an administrative folder and no checkout."""
    for pointer in (mirror.path / "worktrees").glob("*/gitdir"):
        with suppress(OSError):
            checkout = Path(os.fsdecode(pointer.read_bytes().removesuffix(b"\n"))).parent
            slot = Slot(mirror=mirror.path, path=checkout)
            if slot.admin == pointer.parent and not checkout.exists():
                yield slot
