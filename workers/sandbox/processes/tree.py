"""
Processes and their descendants, as the kernel tells (Linux: `/proc`), and the ways to end them for certain.

A pid alone names nobody for long: where it matters, a process is a pid with its start time. On systems
without `/proc` there are no descendants to be seen, and callers are left with process groups.
"""

import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_PATIENCE_S = 10.0


class Stat(NamedTuple):
    """What `/proc/<pid>/stat` says: enough to know whose a process is."""

    state: str
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot; with the pid it names one process for good."""


def stat(pid: int) -> Stat | None:
    """None when there is no such process, or no way to look."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold anything, parentheses and blanks too: the fields follow the last one.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which the process began; None when it is gone."""
    found = stat(pid)
    return None if found is None else found.started


def alive(pid: int, started: int | None = None) -> bool:
    """Whether that very process still runs. A zombie does not; nor does a later process that got its pid."""
    if not _PROC.is_dir():
        return _signalled(pid, 0)
    found = stat(pid)
    return found is not None and found.state not in "ZX" and started in (None, found.started)


def children(pid: int) -> list[int]:
    """Direct children, zombies among them, oldest first within each thread that made them."""
    if not _has_children_files():
        return [child for child, parent in _parents().items() if parent == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names only, on the hot path
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found


def descendants(pid: int) -> list[int]:
    """Everything below a process, parents before their children; not the process itself."""
    found = dict.fromkeys(children(pid))
    waiting = list(found)
    while waiting:
        below = [child for child in children(waiting.pop()) if child not in found]
        found.update(dict.fromkeys(below))
        waiting += below
    return list(found)


def orphans_of_mine(known: set[int]) -> list[int]:
    """Direct children of this process that are not `known`: what was handed to it as their sub-reaper."""
    return [child for child in children(os.getpid()) if child not in known]


def become_subreaper() -> bool:
    """
    Orphans among this process's descendants become its children from now on. False where the system cannot.

    Held by the process until it ends; neither inherited by its children nor undone by a second call.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int | None = None) -> bool:
    """
    This process gets SIGKILL when the thread that started it ends. False where the system cannot.

    Pass the parent's pid when it is known: a parent that died before the call is then noticed, not waited
    for.
    """
    done = _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


def kill_tree(pids: Iterable[int], *, patience_s: float = _PATIENCE_S) -> list[int]:
    """
    Ends these processes and everything below them, and reaps those that are children of this process.

    They are stopped first, from the top down, until no new one appears: a stopped process cannot fork away
    from the one who kills it. Answers who is still there after `patience_s` (another user's, or hanging in
    the kernel).
    """
    frozen = _freeze(pids)
    for pid in frozen:
        _signalled(pid, signal.SIGKILL)
    left = list(frozen)
    end = time.monotonic() + patience_s
    pause_s = 0.0002
    while left := [pid for pid in left if not _gone(pid, frozen[pid])]:
        if time.monotonic() > end:
            break
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.05)
    return left


def _freeze(pids: Iterable[int]) -> dict[int, int | None]:
    """Stops processes and all below them; answers their pids with their start times."""
    frozen: dict[int, int | None] = {}
    new = list(dict.fromkeys(pids))
    while new:
        for pid in new:
            frozen[pid] = start_time(pid)
            _signalled(pid, signal.SIGSTOP)
        # Every frozen one is asked again: what it forked just before it stopped shows up only now.
        new = [child for pid in list(frozen) for child in children(pid) if child not in frozen]
    return frozen


def _gone(pid: int, started: int | None) -> bool:
    """Reaps a child of this process; of others it is enough that they are dead."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return not alive(pid, started)


def _signalled(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _parents() -> dict[int, int]:
    """Every process and its parent, for kernels that keep no list of children."""
    if not _PROC.is_dir():
        return {}
    found = ((int(entry.name), stat(int(entry.name))) for entry in _PROC.iterdir() if entry.name.isdigit())
    return {pid: known.parent for pid, known in found if known is not None}


@functools.cache
def _has_children_files() -> bool:
    """Kernels built with CONFIG_PROC_CHILDREN list a process's children without a walk over all processes."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _prctl(option: int, value: int) -> bool:
    return sys.platform == "linux" and _libc_prctl()(option, value, 0, 0, 0) == 0


@functools.cache
def _libc_prctl() -> Callable[[int, int, int, int, int], int]:
    import ctypes

    found: Callable[[int, int, int, int, int], int] = ctypes.CDLL(None).prctl
    return found
