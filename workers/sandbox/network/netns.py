"""
Listening sockets inside a network namespace, opened from outside it: no process of ours runs inside.

A command that may reach a few hosts has a network namespace with nothing in it but its own loopback. A socket belongs
for ever to the namespace it was made in, so one that listens there can be served from here, by the proxy.

To make one, a process must go in, and out of its user namespace it does not come back: it is a helper that lives for
this alone. `fork_listeners` forks it and is for small processes of one thread (the launcher); `listeners_in` starts an
interpreter and is for all others. Only the standard library is used: both run under `python -I -S`.

bwrap names its child before it has set up the loopback interface, and fails where another has done that. So the
interface is left alone: a socket may be bound to 127.0.0.1 before there is one (IP_FREEBIND).
"""

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence

from forgepool.workers.sandbox import HOUSE, START

_NEW_USER = 0x10000000
_NEW_NET = 0x40000000
_BACKLOG = 128
_SAY_BYTES = 512
_FD_BYTES = struct.calcsize("i")
_OPENED = b"opened"
_START = f"{START}from forgepool.workers.sandbox.network.netns import main; main()"


class NoListener(OSError):
    """No socket could be opened in a process' network namespace."""


def listener_in(pid: int, port: int) -> socket.socket:
    """
    A TCP socket that listens on 127.0.0.1:port where process `pid` lives.

    Raises:
        NoListener: there is no such process, it has this process' own network, or the port is taken.
    """
    return listeners_in(pid, (port,))[0]


def listeners_in(pid: int, ports: Sequence[int]) -> tuple[socket.socket, ...]:
    """
    One listening socket for each port; all or none. Starts an interpreter; may be called from any thread.

    Raises:
        NoListener: as `listener_in`.
    """
    import subprocess  # the helper, which imports this module too, has no use for it

    ours, theirs = _channel()
    with ours:
        with theirs:
            argv = (sys.executable, "-I", "-S", "-c", _START, HOUSE, str(theirs.fileno()), str(pid), *map(str, ports))
            helper = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), env={})
        with helper:
            return _receive(ours, pid, ports)


def fork_listeners(pid: int, ports: Sequence[int]) -> tuple[socket.socket, ...]:
    """
    As `listeners_in`, by a fork: cheap in a small process that has one thread, wrong in any other.

    Raises:
        NoListener: as `listener_in`.
        RuntimeError: this process has other threads.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - names only
        raise RuntimeError("a process with threads must not fork; `listeners_in` starts a process of its own")
    ours, theirs = _channel()
    with ours:
        with theirs:
            helper = _fork(lambda: hand_over(theirs, pid, ports))
        try:
            return _receive(ours, pid, ports)
        finally:
            os.waitpid(helper, 0)


def hand_over(channel: socket.socket, pid: int, ports: Sequence[int]) -> None:
    """Enters, opens, and sends the sockets or the reason: for a process of one thread, which then ends."""
    try:
        _enter(pid)
        listeners = [_listen(port) for port in ports]
    except OSError as trouble:
        channel.sendall(str(trouble.strerror or trouble).encode())
        return
    socket.send_fds(channel, [_OPENED], [each.fileno() for each in listeners])


def main() -> None:
    """The helper's whole life: channel, process and ports are in `sys.argv`."""
    channel, pid, *ports = map(int, sys.argv[2:])
    with socket.socket(fileno=channel) as open_channel:
        hand_over(open_channel, pid, ports)


def _channel() -> tuple[socket.socket, socket.socket]:
    """Packets keep their bounds: what comes is a whole answer, or nothing because the helper died."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def _receive(channel: socket.socket, pid: int, ports: Sequence[int]) -> tuple[socket.socket, ...]:
    room_bytes = socket.CMSG_LEN(len(ports) * _FD_BYTES)
    # Not `socket.recv_fds`: in 3.11 it drops its flags, and every program started next would inherit the sockets.
    said, received, _, _ = channel.recvmsg(_SAY_BYTES, room_bytes, socket.MSG_CMSG_CLOEXEC)
    descriptors = [each for _, _, data in received for (each,) in struct.iter_unpack("i", data)]
    listeners = tuple(socket.socket(fileno=number) for number in descriptors)
    if said == _OPENED and len(listeners) == len(ports):
        return listeners
    for each in listeners:
        each.close()
    reason = said.decode(errors="replace") or "the helper that was to enter it died"
    raise NoListener(f"network of process {pid}, ports {list(ports)}: {reason}")


def _enter(pid: int) -> None:
    """
    The process' network namespace, and its user namespace where that is what gives the right to enter.

    Refuses a process that shares this one's network: a port opened for it would be a port of the host.
    """
    process = os.pidfd_open(pid)
    own = _network()
    libc = ctypes.CDLL(None, use_errno=True)
    # Root needs no more than the first; who owns the user namespace and nothing else needs the second.
    if all(libc.setns(process, kinds) != 0 for kinds in (_NEW_NET, _NEW_USER | _NEW_NET)):
        raise OSError(ctypes.get_errno(), f"not to be entered: {os.strerror(ctypes.get_errno())}")
    if _network() == own:
        raise OSError("it has no network of its own")


def _network() -> int:
    return os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 - pathlib takes 3 ms to import


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND, which the socket module does not name
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener
