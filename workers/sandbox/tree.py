"""
Processes and their descendants (Linux: `/proc`), ways to end them for certain, and which of them belong to a command.

A pid is reused before long, so where it matters a process is a pid with its start time. Without `/proc` there are no
visible descendants, and callers are left with process groups.

A command's processes are its own, all they forked, and the daemons among them. They are recognised by their session and
by a variable in their environment (`MARK`), because a daemon leaves session and parent behind.
"""

import contextlib
import functools
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from forgepool.worktrees.git import landlock
from forgepool.worktrees.git.git import harness_mark

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_PATIENCE_S = 10.0


class Stat(NamedTuple):
    """The fields of `/proc/<pid>/stat` that identify a process."""

    state: str
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot; together with the pid it identifies a process for good."""


def stat(pid: int) -> Stat | None:
    """Return None when there is no such process, or no way to look."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold anything, parentheses and blanks too: the fields follow the last one.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def start_time(pid: int) -> int | None:
    """Return the clock ticks since boot at which the process began; None when it is gone."""
    found = stat(pid)
    return None if found is None else found.started


def alive(pid: int, started: int | None = None) -> bool:
    """Does that very process still run? A zombie does not, nor does a later process with the same pid."""
    if not _PROC.is_dir():
        return _signalled(pid, 0)
    found = stat(pid)
    return found is not None and found.state not in "ZX" and started in (None, found.started)


def children(pid: int) -> list[int]:
    """List direct children, including zombies, oldest first within each thread that made them."""
    if not _has_children_files():
        return [child for child, parent in _parents().items() if parent == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names only, on the hot path
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found


def descendants(pid: int) -> list[int]:
    """List everything below a process, parents before their children, without the process itself."""
    found = dict.fromkeys(children(pid))
    waiting = list(found)
    while waiting:
        below = [child for child in children(waiting.pop()) if child not in found]
        found.update(dict.fromkeys(below))
        waiting += below
    return list(found)


def orphans_of_mine(known: set[int]) -> list[int]:
    """
    List direct children of this process that are not `known`: orphans it received as their sub-reaper.

    Git that this process has at work itself is none.
    """
    return [child for child in children(os.getpid()) if child not in known and not _is_harness(child)]


def become_subreaper() -> bool:
    """
    Make orphans among this process's descendants its children from now on. False where the system cannot.

    Lasts until the process ends. Children do not inherit it, and a second call changes nothing.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int | None = None, *, by: int = signal.SIGKILL) -> bool:
    """
    Have this process killed, or sent the signal `by`, when the thread that started it ends. False where the system
    cannot.

    Pass the parent's pid when it is known: a parent that died before the call is then noticed.
    """
    done = _prctl(_PR_SET_PDEATHSIG, by)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


def kill_tree(pids: Iterable[int], *, patience_s: float = _PATIENCE_S) -> list[int]:
    """
    Kill these processes and everything below them, and reap those that are children of this process.

    They are stopped first, from the top down, until no new one appears: a stopped process cannot fork. Returns those
    still alive after `patience_s` (another user's, or hanging in the kernel).
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
    """Stop processes and all below them; return their pids with their start times."""
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
    """Reap a child of this process; for others it is enough that they are dead."""
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
    """Map every process to its parent, for kernels that keep no list of children."""
    if not _PROC.is_dir():
        return {}
    found = ((int(entry.name), stat(int(entry.name))) for entry in _PROC.iterdir() if entry.name.isdigit())
    return {pid: known.parent for pid, known in found if known is not None}


@functools.cache
def _has_children_files() -> bool:
    """Does this kernel list a process' children (CONFIG_PROC_CHILDREN), without a walk over all processes?"""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _prctl(option: int, value: int) -> bool:
    with suppress(OSError):
        return sys.platform == "linux" and landlock.prctl(option, value, otherwise="") == 0
    return False


MARK = "FORGEPOOL_COMMAND"
"""The variable in a command's environment by which its processes are known."""

_live: dict[str, int] = {}
"""The running commands of this process: mark to the pid of the first process."""

_starting = threading.Lock()
"""Held between fork and registration: until exec a new child has its parent's environment and no mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """The processes of one command, told apart from the caller's other children."""

    mark: str
    sessions: frozenset[int]
    """Sessions that existed before the command."""
    before: frozenset[tuple[int, int]]
    """Pid and start time of the processes below the caller before the command."""

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        return {**env, MARK: self.mark}

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Enclose the start of the first process and its `register`."""
        with _starting:
            yield

    def register(self, pid: int) -> None:
        _live[self.mark] = pid

    def leave(self) -> None:
        _live.pop(self.mark, None)

    def strays(self) -> list[int]:
        """List the caller's children that belong to this command, including zombies."""
        if not _has_children():
            return []
        with _starting:
            others = {mark: pid for mark, pid in _live.items() if mark != self.mark}
            return [pid for pid in children(os.getpid()) if self._is_mine(pid, others)]

    def carriers(self) -> list[int]:
        """List the caller's living children that carry this command's mark."""
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


def new_family() -> Kin:
    """Return the family of a command about to start, from the processes that exist now."""
    seen = {pid: stat(pid) for pid in descendants(os.getpid())} if _has_children() else {}
    there = {pid: found for pid, found in seen.items() if found is not None}
    return Kin(
        mark=f"{os.getpid()}.{start_time(os.getpid())}.{secrets.token_hex(8)}",
        sessions=frozenset({os.getsid(0)} | {found.session for found in there.values()}),
        before=frozenset((pid, found.started) for pid, found in there.items()),
    )


def find_abandoned() -> list[int]:
    """
    Find processes of commands whose harness is dead: all above them were killed at once.

    Their mark names the process that ran the command. Another user's processes cannot be read and are left alone.
    """
    return [pid for pid, (owner, started) in _owners() if not alive(owner, started)]


def commands_of(harness: int, began: int) -> list[int]:
    """Find the processes of commands that one process runs or ran, wherever they are now, by their mark."""
    return [pid for pid, owner in _owners() if owner == (harness, began)]


def _owners() -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield every process with a mark, and pid and start time of the process that ran its command."""
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:  # noqa: PTH208, PTH112 - names only
        if entry.isdigit():
            owner, started, *_ = (*_mark_of(int(entry)).split("."), "")
            if owner.isdigit() and started.isdigit():
                yield int(entry), (int(owner), int(started))


def _has_children() -> bool:
    """Does this process have any child? One system call saves most callers the search."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _is_harness(pid: int) -> bool:
    """Is it git at work for another thread of this process?"""
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
