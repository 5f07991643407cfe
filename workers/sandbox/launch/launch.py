"""
The harness' side of the launcher: one for each harness process, started at the first confined command; and one for
each control group, in which it is itself, so that what it starts is born there.
"""

import contextlib
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

from forgepool.workers.sandbox import HOUSE, START, tree
from forgepool.worktrees.git.git import harness_mark

if TYPE_CHECKING:
    from forgepool.workers.sandbox.launch.launcher import Message, Request

_LENGTH = struct.Struct("=Q")
# Twice forked: the launcher's parent, and so that of all it starts, is to be this process' main thread, whose end is
# this process' end. The kernel hands the orphan of a sub-reaper to that one; a child would be the calling thread's.
_START = f"""
import os
if os.fork():
    os._exit(0)
{START}
from forgepool.workers.sandbox.launch.launcher import main
main(int(sys.argv[2]), sys.argv[3:])
"""


class NotLaunched(OSError):
    """The program did not begin to run; the text says why."""


@dataclass(slots=True)
class _Launcher:
    owner: int
    pid: int
    channel: socket.socket


Groups = tuple[Path, ...]
"""Files `cgroup.procs`."""

_lock = threading.Lock()
_launchers: dict[Groups, _Launcher] = {}


def launch(request: "Request", descriptors: Sequence[int], groups: Groups = ()) -> int:
    """
    Starts a program, in the control groups, by the launcher; answers its pid, a child of this process.

    `descriptors` are standard input, output and error, then those the program has from number 10 on.

    Raises:
        NotLaunched: it could not be prepared as it was to be, or is not there.
    """
    reading, why_not = os.pipe()
    with open(reading, "rb", buffering=0) as said:  # noqa: PTH123 - a descriptor
        try:
            pid = _ask(request, [*descriptors[:3], why_not, *descriptors[3:]], groups)
        finally:
            os.close(why_not)
        reason = said.read(4096)
    if reason:
        if pid:
            _reap(pid)
        raise NotLaunched(0, reason.decode(errors="replace"))
    return pid


def open_listeners(pid: int, ports: Sequence[int], groups: Groups = ()) -> tuple[socket.socket, ...]:
    """
    Sockets that listen on these ports of the loopback that a process has for itself.

    Raises:
        NotLaunched: there is no such process, or no entering its network.
    """
    with _lock:
        channel = _say({"listen": {"pid": pid, "ports": list(ports)}}, (), groups)
        header, found, _, _ = socket.recv_fds(channel, _LENGTH.size, len(ports))
        opened = tuple(socket.socket(fileno=number) for number in found)
        for each in opened:
            each.set_inheritable(False)
        if (length := _length(header)) == 0:
            return opened
        raise NotLaunched(0, channel.recv(length, socket.MSG_WAITALL).decode(errors="replace"))


def release(groups: Groups) -> None:
    """Ends the launcher of control groups that are to be removed."""
    with _lock:
        found = _launchers.pop(groups, None)
        if found is not None:
            _end(found)


def _ask(request: "Request", descriptors: Sequence[int], groups: Groups) -> int:
    with _lock:
        return _length(_say({"start": request}, descriptors, groups).recv(_LENGTH.size, socket.MSG_WAITALL))


def _length(header: bytes) -> int:
    if len(header) < _LENGTH.size:
        raise NotLaunched(0, "the process that starts confined commands died; say it again")
    number: int = _LENGTH.unpack(header)[0]
    return number


def _say(message: "Message", descriptors: Sequence[int], groups: Groups) -> socket.socket:
    """Where the answer will come. Never said twice: what was heard may have been done."""
    body = json.dumps(message).encode()
    channel = _channel(groups)
    socket.send_fds(channel, [_LENGTH.pack(len(body))], list(descriptors))
    channel.sendall(body)
    return channel


def _channel(groups: Groups) -> socket.socket:
    """Under the lock. A forked process has its parent's launchers, which start commands for its parent alone."""
    found = _launchers.get(groups)
    if found is not None and (found.owner != os.getpid() or _is_dead(found.channel)):
        _end(_launchers.pop(groups))
        found = None
    if found is None:
        found = _launchers[groups] = _started(groups)
    return found.channel


def _is_dead(channel: socket.socket) -> bool:
    try:
        return not channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _end(launcher: _Launcher) -> None:
    if launcher.owner != os.getpid():
        launcher.channel.close()
        return
    with contextlib.suppress(OSError):  # a process forked from this one may still hold the channel, too
        launcher.channel.shutdown(socket.SHUT_RDWR)
    launcher.channel.close()
    _reap(launcher.pid)


def _started(groups: Groups) -> _Launcher:
    if not tree.become_subreaper():
        raise NotLaunched(0, "the kernel knows no sub-reapers")
    ours, theirs = socket.socketpair()
    with theirs:
        argv = (sys.executable, "-I", "-S", "-c", _START, HOUSE, str(theirs.fileno()), *map(str, groups))
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
    try:
        pid = _length(ours.recv(_LENGTH.size, socket.MSG_WAITALL))
        if pid == 0:
            raise NotLaunched(0, ours.recv(4096).decode(errors="replace"))
    except BaseException:
        ours.close()
        raise
    return _Launcher(os.getpid(), pid, ours)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return
