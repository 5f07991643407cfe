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
    """What the machine has, or the tightest group above allows."""
    lacking: tuple[Controller, ...] = ()
    """Of the controllers those that groups in the folder do not get yet, and that may be given to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupPlaces:
    found: tuple[CgroupPlace, ...]
    why_not: str | None
    """Where a controller is lacking: one sentence that says why."""


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
    """The one with most of what is wanted, of equals the nearest, of the same the one where least is to be done."""
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
    """Only in a folder that is nobody else's: the one that was handed over whole, or the top."""
    if hierarchy.version == 2 and (_is_marked(folder) or folder == hierarchy.top):
        return frozenset(_read(folder / "cgroup.controllers").split())
    return frozenset()


def _offered(hierarchy: _Hierarchy) -> frozenset[Controller]:
    names = hierarchy.names if hierarchy.version == 1 else _read(hierarchy.top / "cgroup.controllers").split()
    return frozenset(each for each in get_args(Controller) if each in names)


def _handed_over(hierarchy: _Hierarchy) -> Iterator[Path]:
    """From the process' own group upwards."""
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
    said = [_read(each / name).strip() for each in above]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *(int(each) for each in said if each.isdigit() and int(each) < _UNLIMITED)])


def _hierarchies(proc: Path) -> Iterator[_Hierarchy]:
    """Version 2 first: where a controller is in it, it is in no other."""
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
    """Version, where, which folder of the hierarchy is there, controllers of version 1."""
    for line in _read(proc / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, top = before.split(" ")[3:5]
        if kind == "cgroup2":
            yield 2, Path(top), root, frozenset()
        if kind == "cgroup":
            yield 1, Path(top), root, frozenset(options.split(","))


def _read(path: Path) -> str:
    """Nothing where there is nothing to be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


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
