"""
A control group for one order or one check: what all its processes together may have of memory, how many they may be.

One for each order, not for each command: to move a process into a group waits for the whole machine, 10 ms and more.
So a launcher joins the group when it begins (`launch`), and what it starts is born there.

A group is made only where somebody may: every group has one writer (systemd's rule, and the kernel's for an ordinary
user), who could not remove one that had ours in it. Where this process was put into a group and that was not handed
over to it, there is none, and `why_not` says what to do.

A group is locked for as long as its maker lives; one without a lock is a dead harness' and swept up by the next.
"""

import contextlib
import errno
import fcntl
import functools
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from forgepool.workers.sandbox.kernel.cgroup_places import CgroupPlace, CgroupPlaces, find_places
from forgepool.workers.sandbox.launch import launch
from forgepool.workers.schema.confinement import Bounds

_PREFIX = "forgepool-"
_PATIENCE_S = 5.0
_PAUSE_S = 0.005
_TRIES = 5
_SHARE = 0.8
"""Of the machine's memory, where nobody has said how much: what is left keeps the harness and the host going."""
log = structlog.get_logger()


@contextlib.contextmanager
def open_group(bounds: Bounds) -> Iterator[tuple[Path, ...]]:
    """
    The files `cgroup.procs` of a new group; none where there can be none. At the end all in it are killed.

    Without a bound on memory all of its processes together may have most of what the machine, or the group this
    process is in, has. What a process writes to a tmpfs is counted too.
    """
    places = _usable()
    if not places.found:
        yield ()
        return
    with contextlib.ExitStack() as stack:
        try:
            folders = [stack.enter_context(_group(place, _limits(place, bounds))) for place in places.found]
        except OSError as trouble:
            log.warning("group.lacking", why=str(trouble))
            folders = []
        procs = tuple(folder / "cgroup.procs" for folder in folders)
        stack.callback(launch.release, procs)
        yield procs


def why_not() -> str | None:
    """Why the memory and the number of an order's processes are not bounded as a whole here; None where both are."""
    return _usable().why_not


@functools.cache
def _usable() -> CgroupPlaces:
    """The places where a group could be made and joined. Tried once in a process and those forked from it."""
    places = find_places()
    try:
        for place in places.found:
            _sweep(place.folder)
            _give(place)
            with _group(place, _limits(place, Bounds())) as folder:
                _join_somebody(folder)
    except OSError as trouble:
        return CgroupPlaces(found=(), why_not=f"no control group can be made: {trouble}")
    return places


def _give(place: CgroupPlace) -> None:
    """
    Groups made in the place get its controllers. Version 2 gives none to groups beside processes: where the place was
    handed over whole, those in it, which are this harness and who started it, move to a group of their own.
    """
    said = " ".join(f"+{name}" for name in place.lacking)
    for _ in range(_TRIES if said else 0):
        try:
            (place.folder / "cgroup.subtree_control").write_text(said)
            return
        except OSError as trouble:
            if trouble.errno != errno.EBUSY:
                raise
        aside = place.folder / f"{_PREFIX}harness"
        aside.mkdir(exist_ok=True)
        for pid in (place.folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (aside / "cgroup.procs").write_text(pid)


def _join_somebody(group: Path) -> None:
    with subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as somebody:
        (group / "cgroup.procs").write_text(str(somebody.pid))


def _limits(place: CgroupPlace, bounds: Bounds) -> dict[str, str]:
    """File names and what is written to them, in this order; a name with `?` may be missing."""
    limits: dict[str, str] = {}
    if "memory" in place.controllers:
        memory = str(bounds.memory_bytes or int(_SHARE * place.memory_bytes))
        if place.version == 2:
            limits |= {"memory.max": memory, "memory.swap.max?": "0"}
        else:
            limits |= {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes?": memory}
    if "pids" in place.controllers:
        limits["pids.max"] = str(bounds.processes)
    return limits


@contextlib.contextmanager
def _group(place: CgroupPlace, limits: dict[str, str]) -> Iterator[Path]:
    folder, lock = _made(place.folder)
    try:
        for name, value in limits.items():
            file = folder / name.removesuffix("?")
            if file.exists() or not name.endswith("?"):
                file.write_text(value)
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def _made(above: Path) -> tuple[Path, int]:
    """A new group and its lock. Whoever sweeps between the two calls takes it for rubbish, and another is made."""
    while True:
        folder = above / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir()
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                folder.stat()
                return folder, lock
            except OSError:
                os.close(lock)


def _sweep(above: Path) -> None:
    for folder in above.glob(f"{_PREFIX}*-*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    """Kills who is left in it first. One that cannot be emptied (a process hangs in the kernel) waits for a sweep."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        _kill(folder)
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_PAUSE_S)
        else:
            return
    log.warning("group.left", folder=str(folder))


def _kill(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if (everybody := folder / "cgroup.kill").exists():
            everybody.write_text("1")
            return
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
