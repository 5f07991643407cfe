"""
Which processes belong to a command: its own, whatever they forked, and the daemons that came back as
orphans.

An orphan does not say whose it was. These facts do: a command starts in a session of its own and can never
join an older one, so whoever is in a session that was there before is somebody else's; git at work for the harness
holds a descriptor that no command is given; and a command's processes carry its mark in their environment, so
that of two commands running at once each ends its own. A process that has wiped its mark goes with the first
command to end.
"""

import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.sandbox.processes import tree
from forgepool.worktrees.git.git import harness_mark

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
            return [pid for pid in tree.children(os.getpid()) if self._is_mine(pid, others)]

    def carriers(self) -> list[int]:
        """Those children of the calling process that carry this command's mark; the dead among them do not."""
        if not _has_children():
            return []
        with _starting:
            return [pid for pid in tree.children(os.getpid()) if _mark_of(pid) == self.mark]

    def _is_mine(self, pid: int, others: Mapping[str, int]) -> bool:
        found = tree.stat(pid)
        if found is None or found.session in self.sessions or (pid, found.started) in self.before:
            return False
        if pid in others.values() or found.session in others.values():
            return False
        return (not others or _mark_of(pid) not in others) and not _is_harness(pid)


def kin() -> Kin:
    """The family of a command about to start; looks at the processes there are now."""
    seen = {pid: tree.stat(pid) for pid in tree.descendants(os.getpid())} if _has_children() else {}
    there = {pid: found for pid, found in seen.items() if found is not None}
    return Kin(
        mark=f"{os.getpid()}.{tree.start_time(os.getpid())}.{secrets.token_hex(8)}",
        sessions=frozenset({os.getsid(0)} | {found.session for found in there.values()}),
        before=frozenset((pid, found.started) for pid, found in there.items()),
    )


def find_abandoned() -> list[int]:
    """
    Processes of commands whose harness is dead: all above them was killed at once, nobody was left to end them.

    Told by their mark, which names the process that ran the command; another user's cannot be read, and are left.
    """
    return [pid for pid, (owner, started) in _owners() if not tree.alive(owner, started)]


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
