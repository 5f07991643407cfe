"""
Where this process may make control groups, with which controllers: read from the kernel, nothing is changed.

Version 2: the nearest folder, from the process' own group upwards, in which groups get controllers, as far up as was
handed over. Version 1: below the process' own group of each controller.

Handed over is: to an ordinary user what he owns; to root the top of the hierarchy where root was never put anywhere
(a container, a bare machine), and what systemd has marked so (`Delegate=yes`).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

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
