"""
The harness' side of the launcher: one for each harness process, started at the first confined command.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workers.sandbox import tree
from worktrees.git import harness_mark

if TYPE_CHECKING:
    from workers.sandbox.launcher import Message, Request

_LENGTH = struct.Struct("=Q")
# Twice forked: the launcher's parent, and so that of all it starts, is to be this process' main thread, whose end is
# this process' end. The kernel hands the orphan of a sub-reaper to that one; a child would be the calling thread's.
_START = """
import os, sys
if os.fork():
    os._exit(0)
sys.path.append(sys.argv[1])
from workers.sandbox.launcher import main
main(int(sys.argv[2]))
"""
_ABOVE = Path(__file__).resolve().parents[2]


class NotLaunched(OSError):
    """The program did not begin to run; the text says why."""


@dataclass(slots=True)
class _Launcher:
    owner: int
    channel: socket.socket


_lock = threading.Lock()
_launcher: _Launcher | None = None


def launch(request: "Request", descriptors: Sequence[int]) -> int:
    """
    Starts a program by the launcher; answers its pid, a child of this process.

    `descriptors` are standard input, output and error, then those the program has from number 10 on.

    Raises:
        NotLaunched: it could not be prepared as it was to be, or is not there.
    """
    reading, why_not = os.pipe()
    with open(reading, "rb", buffering=0) as said:  # noqa: PTH123 - a descriptor
        try:
            pid = _ask(request, [*descriptors[:3], why_not, *descriptors[3:]])
        finally:
            os.close(why_not)
        reason = said.read(4096)
    if reason:
        _reap(pid)
        raise NotLaunched(0, reason.decode(errors="replace"))
    return pid


def open_listeners(pid: int, ports: Sequence[int]) -> tuple[socket.socket, ...]:
    """
    Sockets that listen on these ports of the loopback that a process has for itself.

    Raises:
        NotLaunched: there is no such process, or no entering its network.
    """
    with _lock:
        channel = _say({"listen": {"pid": pid, "ports": list(ports)}}, ())
        header, found, _, _ = socket.recv_fds(channel, _LENGTH.size, len(ports))
        opened = tuple(socket.socket(fileno=number) for number in found)
        for each in opened:
            each.set_inheritable(False)
        if (length := _length(header)) == 0:
            return opened
        raise NotLaunched(0, channel.recv(length, socket.MSG_WAITALL).decode(errors="replace"))


def _ask(request: "Request", descriptors: Sequence[int]) -> int:
    with _lock:
        return _length(_say({"start": request}, descriptors).recv(_LENGTH.size, socket.MSG_WAITALL))


def _length(header: bytes) -> int:
    if len(header) < _LENGTH.size:
        raise NotLaunched(0, "the process that starts confined commands died; say it again")
    number: int = _LENGTH.unpack(header)[0]
    return number


def _say(message: "Message", descriptors: Sequence[int]) -> socket.socket:
    """Where the answer will come. Never said twice: what was heard may have been done."""
    body = json.dumps(message).encode()
    channel = _channel()
    socket.send_fds(channel, [_LENGTH.pack(len(body))], list(descriptors))
    channel.sendall(body)
    return channel


def _channel() -> socket.socket:
    """Under the lock. A forked process has its parent's launcher, which starts commands for its parent alone."""
    global _launcher
    if _launcher is not None and (_launcher.owner != os.getpid() or _is_dead(_launcher.channel)):
        _forget()
    if _launcher is None:
        _launcher = _started()
    return _launcher.channel


def _is_dead(channel: socket.socket) -> bool:
    try:
        return not channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _forget() -> None:
    global _launcher
    if _launcher is not None:
        _launcher.channel.close()
    _launcher = None


def _started() -> _Launcher:
    if not tree.become_subreaper():
        raise NotLaunched(0, "the kernel knows no sub-reapers")
    ours, theirs = socket.socketpair()
    with theirs:
        argv = (sys.executable, "-I", "-S", "-c", _START, str(_ABOVE), str(theirs.fileno()))
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={},
            # The mark: it is nobody's stray.
            pass_fds=(theirs.fileno(), harness_mark()),
            start_new_session=True,
        )
    process.wait()
    return _Launcher(os.getpid(), ours)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return
