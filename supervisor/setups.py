"""
Set-up commands, run once for each state of the lock files they depend on; their folders are kept and copied in.

A check with `setup` and `cache` gets its cached folders copied into its clean checkout where they are known, and
runs the set-up where they are not. A check's own writes never reach the kept copy.
"""

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from supervisor.definitions import CheckDefinition
from workers.sandbox.process import Command, Ended, run, shell


def prepare(
    check: CheckDefinition,
    checkout: Path,
    env: dict[str, str],
    kept: Path,
    log: Path,
    stop: Callable[[], bool],
) -> Ended | None:
    """None when the checkout is set up; else how the set-up command failed."""
    store = kept / _key(check, checkout)
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if check.cache and store.is_dir():
            _copy_folders(check, store, checkout)
            return None
        ended = run(
            Command(
                argv=shell(check.setup or "true"),
                cwd=checkout,
                env=env,
                log=log.with_suffix(".setup.log"),
                timeout_s=check.timeout_s,
            ),
            stop=stop,
        )
        if ended.how != "exit" or ended.status != 0:
            return ended
        if check.cache:
            _keep(check, checkout, store)
    return None


def _key(check: CheckDefinition, checkout: Path) -> str:
    """Of the set-up command, the folders and the bytes of the lock files they are keyed by."""
    digest = hashlib.sha256(repr((check.setup, check.cache)).encode())
    for cached in check.cache:
        lock_file = checkout / cached.key
        digest.update(lock_file.read_bytes() if lock_file.is_file() and not lock_file.is_symlink() else b"-")
    return digest.hexdigest()[:32]


def _keep(check: CheckDefinition, checkout: Path, store: Path) -> None:
    """All folders or none: they are copied beside the store and renamed into place."""
    building = store.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    _copy_folders(check, checkout, building)
    building.rename(store)


def _copy_folders(check: CheckDefinition, source: Path, destination: Path) -> None:
    for cached in check.cache:
        if (source / cached.folder).is_dir():
            shutil.copytree(source / cached.folder, destination / cached.folder, symlinks=True, dirs_exist_ok=True)
