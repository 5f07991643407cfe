"""
The harness' client of the launcher.

A harness process has one launcher for its whole life, and a clone of it for each control group. The clone is itself a
member of its group, so that all it starts is too.

The launcher is an interpreter of its own, started at the first confined command. A process forked for one message
forks it instead (`fork_launcher`): six milliseconds in place of thirty. Each start then costs a few more, because the
page tables are larger, so after some an interpreter takes over.
"""

import atexit
import contextlib
import json
import math
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
from forgepool.workers.sandbox.launch.launcher import become_launcher
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
main(int(sys.argv[2]))
"""


class NotLaunched(OSError):
    """The program did not begin to run; the text says why."""


@dataclass(slots=True)
class _Launcher:
    owner: int
    pid: int
    channel: socket.socket
    starts_left: float
    """The starts it may still do, before an interpreter takes over."""


_FORK_STARTS = 4
Groups = tuple[Path, ...]
"""The `cgroup.procs` files of control groups."""

_lock = threading.Lock()
_launchers: dict[Groups, _Launcher] = {}


def launch(request: "Request", descriptors: Sequence[int], groups: Groups = ()) -> int:
    """
    Start a program in the control groups and return its pid; it is a child of this process.

    `descriptors` are standard input, output and error, then those the program has from number 10 on.

    Raises:
        NotLaunched: the program does not exist, or could not be prepared as requested.
    """
    reading, why_not = os.pipe()
    with open(reading, "rb", buffering=0) as reader:  # noqa: PTH123 - a descriptor
        try:
            with _lock:
                channel = _say({"start": request}, [*descriptors[:3], why_not, *descriptors[3:]], groups)
                _launchers[groups].starts_left -= 1
                pid = _length(channel.recv(_LENGTH.size, socket.MSG_WAITALL))
        finally:
            os.close(why_not)
        reason = reader.read(4096)
    if reason:
        if pid:
            _reap(pid)
        raise NotLaunched(0, reason.decode(errors="replace"))
    return pid


def open_listeners(pid: int, ports: Sequence[int], groups: Groups = ()) -> tuple[socket.socket, ...]:
    """
    Return sockets that listen on these ports of a process' own loopback.

    Raises:
        NotLaunched: the process does not exist, or its network cannot be entered.
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
    """End the launcher of control groups that are about to be removed."""
    with _lock:
        found = _launchers.pop(groups, None)
        if found is not None:
            _end(found)


def fork_launcher() -> None:
    """
    Make the launcher a fork of this process, where the system can; what its parent had is let go.

    Call it in a process that was just forked, or began: in the main thread, with no other and little memory.
    """
    if not tree.become_subreaper():
        return
    _end_all()
    mark, harness = harness_mark(), os.getpid()
    ours, theirs = socket.socketpair()
    with theirs:
        if os.fork() == 0:
            tree.die_with_parent(harness)
            become_launcher(theirs.fileno(), mark)
    _launchers[()] = _greeted(ours, _FORK_STARTS)


def _length(header: bytes) -> int:
    if len(header) < _LENGTH.size:
        raise NotLaunched(0, "the process that starts confined commands died; say it again")
    number: int = _LENGTH.unpack(header)[0]
    return number


def _say(message: "Message", descriptors: Sequence[int], groups: Groups) -> socket.socket:
    """Send a message and return the channel. Never sent twice: it may have been carried out."""
    body = json.dumps(message).encode()
    channel = _channel(groups)
    socket.send_fds(channel, [_LENGTH.pack(len(body))], list(descriptors))
    channel.sendall(body)
    return channel


def _channel(groups: Groups) -> socket.socket:
    """
    Return the launcher's channel; the caller holds the lock. A forked process must not use its parent's launchers.
    """
    found = _launchers.get(groups)
    if found is not None and found.starts_left == 0:
        _end_all()  # its clones are as large
        found = None
    if found is not None and (found.owner != os.getpid() or _is_dead(found.channel)):
        _end(_launchers.pop(groups))
        found = None
    if found is None:
        found = _launchers[groups] = _cloned(groups) if groups else _started()
    return found.channel


@atexit.register
def _end_all() -> None:
    while _launchers:
        _end(_launchers.popitem()[1])


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


def _cloned(groups: Groups) -> _Launcher:
    ours, theirs = socket.socketpair()
    with theirs:
        _say({"join": [str(each) for each in groups]}, (theirs.fileno(),), ())
    return _greeted(ours, _launchers[()].starts_left)


def _started() -> _Launcher:
    if not tree.become_subreaper():
        raise NotLaunched(0, "the kernel knows no sub-reapers")
    ours, theirs = socket.socketpair()
    with theirs:
        argv = (sys.executable, "-I", "-S", "-c", _START, HOUSE, str(theirs.fileno()))
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={},
            # With the mark it is never taken for a command's stray process.
            pass_fds=(theirs.fileno(), harness_mark()),
            start_new_session=True,
        )
    process.wait()
    return _greeted(ours, math.inf)


def _greeted(ours: socket.socket, starts: float) -> _Launcher:
    """
    Return the launcher that serves the other end, once it has said its pid.

    Raises:
        NotLaunched: it died, or could not join its control groups.
    """
    try:
        pid = _length(ours.recv(_LENGTH.size, socket.MSG_WAITALL))
        if pid == 0:
            raise NotLaunched(0, ours.recv(4096).decode(errors="replace"))
    except BaseException:
        ours.close()
        raise
    return _Launcher(os.getpid(), pid, ours, starts)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return
