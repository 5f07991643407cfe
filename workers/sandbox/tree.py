"""
Processes and their descendants, as the kernel tells (Linux: `/proc`), and the ways to end them for certain.

A pid alone names nobody for long: where it matters, a process is a pid with its start time. On systems
without `/proc` there are no descendants to be seen, and callers are left with process groups.
"""

import contextlib
import functools
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from forgepool.worktrees.git.git import harness_mark

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


MARK = "FORGEPOOL_COMMAND"
"""The variable a command's processes are known by; added to its environment."""

_live: dict[str, int] = {}
"""The commands of this process that run now: mark to the pid of the command's first process."""

_starting = threading.Lock()
"""
Held between fork and registration: until exec, a new child still has its parent's environment and no mark.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """A command's family, told apart from the children the calling process had before."""

    mark: str
    sessions: frozenset[int]
    """Sessions that existed before the command."""
    before: frozenset[tuple[int, int]]
    """Pid and start time of the processes below the caller before the command."""

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        return {**env, MARK: self.mark}

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Start the first process within this, and `register` it before leaving."""
        with _starting:
            yield

    def register(self, pid: int) -> None:
        _live[self.mark] = pid

    def leave(self) -> None:
        _live.pop(self.mark, None)

    def strays(self) -> list[int]:
        """Children of the calling process that belong to this command, zombies among them."""
        if not _has_children():
            return []
        with _starting:
            others = {mark: pid for mark, pid in _live.items() if mark != self.mark}
            return [pid for pid in children(os.getpid()) if self._is_mine(pid, others)]

    def carriers(self) -> list[int]:
        """Those children of the calling process that carry this command's mark; the dead among them do not."""
        if not _has_children():
            return []
        with _starting:
            return [pid for pid in children(os.getpid()) if _mark_of(pid) == self.mark]

    def _is_mine(self, pid: int, others: Mapping[str, int]) -> bool:
        found = stat(pid)
        if found is None or found.session in self.sessions or (pid, found.started) in self.before:
            return False
        if pid in others.values() or found.session in others.values():
            return False
        return (not others or _mark_of(pid) not in others) and not _is_harness(pid)


def kin() -> Kin:
    """The family of a command about to start; looks at the processes there are now."""
    seen = {pid: stat(pid) for pid in descendants(os.getpid())} if _has_children() else {}
    there = {pid: found for pid, found in seen.items() if found is not None}
    return Kin(
        mark=f"{os.getpid()}.{start_time(os.getpid())}.{secrets.token_hex(8)}",
        sessions=frozenset({os.getsid(0)} | {found.session for found in there.values()}),
        before=frozenset((pid, found.started) for pid, found in there.items()),
    )


def find_abandoned() -> list[int]:
    """
    Processes of commands whose harness is dead: all above them was killed at once, nobody was left to end them.

    Told by their mark, which names the process that ran the command; another user's cannot be read, and are left.
    """
    return [pid for pid, (owner, started) in _owners() if not alive(owner, started)]


def commands_of(harness: int, began: int) -> list[int]:
    """Processes of the commands that one process runs, or ran, wherever they hang now; told as in `find_abandoned`."""
    return [pid for pid, owner in _owners() if owner == (harness, began)]


def _owners() -> Iterator[tuple[int, tuple[int, int]]]:
    """Every process that carries a mark, with the process that ran its command and that one's start time."""
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:  # noqa: PTH208, PTH112 - names only
        if entry.isdigit():
            owner, started, *_ = (*_mark_of(int(entry)).split("."), "")
            if owner.isdigit() and started.isdigit():
                yield int(entry), (int(owner), int(started))


def _has_children() -> bool:
    """One system call tells most callers that there is nobody to look for; where it is missing, look."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _is_harness(pid: int) -> bool:
    """Whether it is git at work for another thread of this process."""
    mark = os.fstat(harness_mark())
    folder = Path(f"/proc/{pid}/fd")
    with suppress(OSError):
        for entry in folder.iterdir():
            # What it opens and closes while we look is not what is looked for.
            with suppress(OSError):
                if os.path.samestat(mark, entry.stat()):
                    return True
    return False


def _mark_of(pid: int) -> str:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    prefix = f"{MARK}=".encode()
    return next((item[len(prefix) :].decode(errors="replace") for item in variables if item.startswith(prefix)), "")
