"""
A control group for one order or check: it limits the memory and the number of all its processes together.

There is one per order, not per command: moving a process into a group waits for the whole machine, 10 ms and more. So a
clone of the launcher joins the group once (`launch`), and what it starts is born there.

A group is made only where the process may. Every group has one writer (systemd's rule, and the kernel's for an ordinary
user), who could not remove a group that contains ours. Without a group that was delegated to this process there is
none, and `why_not` says what to do.

A group is locked as long as its maker lives. The next harness removes groups without a lock.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import structlog

from forgepool.workers.sandbox.launch import launch
from forgepool.workers.schema.confinement import Bounds

Controller = Literal["memory", "pids"]
_MARKS = ("trusted.delegate", "user.delegate")
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupPlace:
    """A group below which groups with these controllers can be made."""

    folder: Path
    version: Literal[1, 2]
    controllers: tuple[Controller, ...]
    memory_bytes: int
    """The machine's memory, or the tightest limit of the groups above."""
    lacking: tuple[Controller, ...] = ()
    """Controllers that are not yet enabled for groups in the folder, and can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupPlaces:
    found: tuple[CgroupPlace, ...]
    why_not: str | None
    """One sentence when a controller is lacking, else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hierarchy:
    """One mounted tree of groups, and this process' place in it."""

    version: Literal[1, 2]
    top: Path
    own: Path
    names: frozenset[str]
    """Controllers of version 1."""


def find_places(proc: Path = Path("/proc/self")) -> CgroupPlaces:
    found: list[CgroupPlace] = []
    reasons: list[str] = []
    for hierarchy in _hierarchies(proc):
        wanted = _offered(hierarchy) - {name for place in found for name in place.controllers}
        if not wanted:
            continue
        if (place := _place(hierarchy, wanted)) is not None:
            found.append(place)
        else:
            reasons.append(_why_not(hierarchy, wanted))
    had = {name for place in found for name in place.controllers}
    lacking = [name for name in get_args(Controller) if name not in had]
    if lacking and not reasons:
        reasons = [f"no control groups for {' and '.join(lacking)} are mounted at /sys/fs/cgroup"]
    return CgroupPlaces(found=tuple(found), why_not="; ".join(reasons) if lacking else None)


def _place(hierarchy: _Hierarchy, wanted: frozenset[Controller]) -> CgroupPlace | None:
    """Find the folder with most of the wanted controllers: the nearest, and the one that needs least change."""
    best: CgroupPlace | None = None
    for folder in [each for each in _handed_over(hierarchy) if os.access(each, os.W_OK | os.X_OK)]:
        for given in (_given(hierarchy, folder), _may_be_given(hierarchy, folder)):
            names = tuple(sorted(wanted & given))
            if len(names) > (len(best.controllers) if best else 0):
                best = CgroupPlace(
                    folder=folder,
                    version=hierarchy.version,
                    controllers=names,
                    memory_bytes=_memory_bytes(hierarchy, folder),
                    lacking=tuple(name for name in names if name not in _given(hierarchy, folder)),
                )
    return best


def _given(hierarchy: _Hierarchy, folder: Path) -> frozenset[str]:
    """The controllers that a group made in the folder would have."""
    if hierarchy.version == 1:
        return hierarchy.names if folder == hierarchy.own else frozenset()
    return frozenset(_read(folder / "cgroup.subtree_control").split())


def _may_be_given(hierarchy: _Hierarchy, folder: Path) -> frozenset[str]:
    """The controllers that can be enabled in a folder of our own: one delegated as a whole, or the top."""
    if hierarchy.version == 2 and (_is_marked(folder) or folder == hierarchy.top):
        return frozenset(_read(folder / "cgroup.controllers").split())
    return frozenset()


def _offered(hierarchy: _Hierarchy) -> frozenset[Controller]:
    names = hierarchy.names if hierarchy.version == 1 else _read(hierarchy.top / "cgroup.controllers").split()
    return frozenset(each for each in get_args(Controller) if each in names)


def _handed_over(hierarchy: _Hierarchy) -> Iterator[Path]:
    """Yield the groups delegated to this process, from its own upwards."""
    line = [hierarchy.own, *hierarchy.own.parents]
    line = line[: line.index(hierarchy.top) + 1]
    if os.geteuid() != 0:
        yield from (folder for folder in line if folder.stat().st_uid == os.geteuid())
        return
    marked = [place for place, folder in enumerate(line) if _is_marked(folder)]
    if marked:
        yield from line[: max(marked) + 1]
    elif hierarchy.own == hierarchy.top:
        yield hierarchy.top


def _is_marked(folder: Path) -> bool:
    for mark in _MARKS:
        try:
            if os.getxattr(folder, mark) == b"1":
                return True
        except OSError:
            continue
    return False


def _why_not(hierarchy: _Hierarchy, wanted: frozenset[Controller]) -> str:
    names = " and ".join(sorted(wanted))
    user = "" if os.geteuid() == 0 else "--user "
    how = f"start it by `systemd-run {user}--scope -p Delegate=yes COMMAND`"
    return f"{names}: the control group {hierarchy.own} was not handed over to this process; with systemd, {how}"


def _memory_bytes(hierarchy: _Hierarchy, folder: Path) -> int:
    name = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
    above = [each for each in (folder, *folder.parents) if each.is_relative_to(hierarchy.top)]
    texts = [_read(each / name).strip() for each in above]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *(int(each) for each in texts if each.isdigit() and int(each) < _UNLIMITED)])


def _hierarchies(proc: Path) -> Iterator[_Hierarchy]:
    """Yield version 2 first: a controller that is in it is in no other."""
    groups = dict(_groups(proc))
    for version, top, root, names in sorted(_mounts(proc), reverse=True):
        key = "" if version == 2 else next((each for each in groups if names & set(each.split(","))), None)
        if key is None or key not in groups or not groups[key].is_relative_to(root):
            continue
        own = top / groups[key].relative_to(root)
        if own.is_dir():
            yield _Hierarchy(version=version, top=top, own=own, names=names)


def _groups(proc: Path) -> Iterator[tuple[str, Path]]:
    for line in _read(proc / "cgroup").splitlines():
        _, names, path = line.split(":", 2)
        yield names, Path(path)


def _mounts(proc: Path) -> Iterator[tuple[Literal[1, 2], Path, str, frozenset[str]]]:
    """Yield version, mount point, the folder of the hierarchy mounted there, and the controllers of version 1."""
    for line in _read(proc / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, top = before.split(" ")[3:5]
        if kind == "cgroup2":
            yield 2, Path(top), root, frozenset()
        if kind == "cgroup":
            yield 1, Path(top), root, frozenset(options.split(","))


def _read(path: Path) -> str:
    """Return a file's text, or nothing where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


_PREFIX = "forgepool-"
_PATIENCE_S = 5.0
_PAUSE_S = 0.005
_TRIES = 5
_SHARE = 0.8
"""The share of the machine's memory without an explicit limit; the rest keeps the harness and the host going."""
log = structlog.get_logger()


@contextlib.contextmanager
def open_group(bounds: Bounds) -> Iterator[tuple[Path, ...]]:
    """
    Yield the `cgroup.procs` files of a new group, or none where none can be made. Kills all members at the end.

    Without a memory limit, its processes together may use most of the memory of the machine or of the enclosing group.
    Writes to a tmpfs count too.
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
    """Return why an order's memory and processes are not limited as a whole here; None where both are."""
    return _usable().why_not


def prepare_forks() -> None:
    """Find the places once for all processes forked from this one. That there is none is not remembered."""
    if not _usable().found:
        _usable.cache_clear()


def sweep_groups() -> None:
    """Remove the groups of dead harness processes, and kill what is in them."""
    for place in _usable().found:
        _sweep(place.folder)


@functools.cache
def _usable() -> CgroupPlaces:
    """Find the places where a group can be made and joined. Tried once per process and its forks."""
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
    Enable the controllers for groups made in the place.

    Version 2 enables none for groups beside processes. In a delegated place those processes, this harness and the
    process that started it, move to a group of their own.
    """
    wanted = " ".join(f"+{name}" for name in place.lacking)
    for _ in range(_TRIES if wanted else 0):
        try:
            (place.folder / "cgroup.subtree_control").write_text(wanted)
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
    """Map file names to values, in the order to write them; a name with `?` may be missing."""
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
    """Make a new group and lock it. When a sweep removes it between the two calls, make another."""
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
    """Kill the members and remove the group. A group that cannot be emptied waits for a sweep."""
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
