"""
Counts the processes that a command starts, and their CPU seconds, by what they do for Forgepool.

The command runs under ptrace, which stops it only where a process begins, becomes another program or ends. The kernel's
own count of nanoseconds is read there, so nothing is estimated, and short processes count in full.
"""

import collections
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CONT, _SEIZE, _LISTEN, _EVENT_MESSAGE = 7, 0x4206, 0x4208, 0x4201
_FORK, _VFORK, _CLONE, _EXEC, _STOP = 1, 2, 3, 4, 128
_OPTIONS = sum(1 << event for event in (_FORK, _VFORK, _CLONE, _EXEC))
_WALL = 0x40000000
_GENERATIONS = ("Celery main", "pool process", "forks")
"""Names of a worker's forks by depth. The last name also covers a process that is about to become a program."""


@dataclass
class _Process:
    """A process, or a thread, which shares the part of its process."""

    part: list[str]
    """The place (`orders`, `gate`, or none) and the name of the program."""
    counted: int = 0
    """Nanoseconds that belong to what it was before it became another program."""


@dataclass
class Parts:
    """By part of Forgepool, such as `orders: git add`: how many processes began, and their CPU seconds."""

    started: collections.Counter[str] = field(default_factory=collections.Counter)
    cpu: collections.Counter[str] = field(default_factory=collections.Counter)


class _Tracer:
    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self.libc.ptrace.restype = ctypes.c_long
        self.known: dict[int, _Process] = {}
        self.early: set[int] = set()
        """Stopped before the fork that made them was told."""
        self.parts = Parts()

    def ptrace(self, request: int, pid: int, data: int = 0) -> None:
        if self.libc.ptrace(request, pid, None, data) < 0 and ctypes.get_errno() != 3:  # it may have been killed
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(ready, 1)
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nothing, number)
            os.execvpe(command[0], [*command], {**env})
        self.known[pid] = _Process(["", "orchestrator"])
        self.ptrace(_SEIZE, pid, _OPTIONS)
        os.write(go, b"g")
        status = -1
        while self.known:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOWAIT | _WALL)
            if found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
                self.count(found.si_pid)
                self.known.pop(found.si_pid, None)
            ended = os.waitpid(found.si_pid, _WALL)[1]
            if found.si_code == os.CLD_TRAPPED:
                self.step(found.si_pid, ended >> 8)
            elif found.si_pid == pid:
                status = found.si_status
        return status

    def step(self, pid: int, stopped: int) -> None:
        number, event = stopped & 0xFF, stopped >> 8
        if event in (_FORK, _VFORK, _CLONE):
            child = ctypes.c_ulong()
            self.ptrace(_EVENT_MESSAGE, pid, ctypes.addressof(child))
            self.began(pid, child.value, thread=event == _CLONE)
        elif event == _EXEC:
            self.became(pid)
        elif event == _STOP and pid not in self.known:
            self.early.add(pid)
            return
        if event == _STOP and number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            self.ptrace(_LISTEN, pid)
        else:
            self.ptrace(_CONT, pid, 0 if event else number)

    def began(self, parent: int, child: int, *, thread: bool) -> None:
        part = self.known[parent].part
        if not thread:
            part = self.forked(parent, part)
        self.known[child] = _Process(part)
        if child in self.early:
            self.early.remove(child)
            self.ptrace(_CONT, child)

    def forked(self, parent: int, part: list[str]) -> list[str]:
        place, name = part
        if name == "host fork":  # by now its output is the log of its worker
            log = Path(f"/proc/{parent}/fd/1").readlink().stem
            part[:] = place, name = log.removeprefix("worker-"), _GENERATIONS[0]
        if name in _GENERATIONS[:-1]:
            return [place, _GENERATIONS[_GENERATIONS.index(name) + 1]]
        return [place, {"orchestrator": "host", "host": "host fork"}.get(name, name)]

    def became(self, pid: int) -> None:
        self.count(pid)
        place, name = self.known[pid].part
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        program = Path(words[0]).name
        if program == "git":
            program = _verb(words)
        elif "-I" in words[:2] and place:
            program = "launcher"
        elif name == "orchestrator" and not self.parts.started:
            program = name
        self.known[pid].part = [place, program]
        self.parts.started[_title([place, program])] += 1

    def count(self, pid: int) -> None:
        process = self.known.get(pid)
        if process is not None:
            at = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
            self.parts.cpu[_title(process.part)] += (at - process.counted) / 1e9
            process.counted = at


def _verb(words: Sequence[str]) -> str:
    rest = iter(words[1:])
    for word in rest:
        if word in ("-c", "-C"):
            next(rest, None)
        elif not word.startswith("-"):
            return f"git {word}"
    return "git"


def _title(part: Sequence[str]) -> str:
    return ": ".join(word for word in part if word)


def measure_parts(command: Sequence[str], env: Mapping[str, str]) -> Parts:
    """
    Run the command, which must end well, until it and all it started have ended.

    Raises:
        RuntimeError: it ended with another status than 0.
        OSError: this process may not trace others.
    """
    tracer = _Tracer()
    if (status := tracer.run(command, env)) != 0:
        raise RuntimeError(f"{command[0]} ended with status {status}")
    return tracer.parts
