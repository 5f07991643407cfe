"""
Listening sockets inside a command's network namespace, opened from outside: no process of ours runs inside.

A command that may reach a few hosts has a network namespace with nothing but its own loopback. A socket belongs for
ever to the namespace it was made in, so the proxy can serve one that listens there from here.

Making one requires a process to enter, and out of its user namespace it cannot return: so a forked helper does only
this. Only the launcher may fork it, a small process of one thread (`launch.open_listeners` asks it). Standard library
only: the launcher runs under `python -I -S`.

bwrap names its child before it has set up the loopback interface, and fails if that is set up already. So the interface
is left alone: a socket may be bound to 127.0.0.1 before it exists (IP_FREEBIND).
"""

import ctypes
import os
import socket
import struct
from collections.abc import Callable, Sequence

_NEW_USER = 0x10000000
_NEW_NET = 0x40000000
_BACKLOG = 128
_SAY_BYTES = 512
_FD_BYTES = struct.calcsize("i")
_OPENED = b"opened"


class NoListener(OSError):
    """No socket could be opened in a process' network namespace."""


def fork_listeners(pid: int, ports: Sequence[int]) -> tuple[socket.socket, ...]:
    """
    Return sockets that listen on 127.0.0.1, one per port, in the network of process `pid`; all or none.

    Raises:
        NoListener: there is no such process, it shares this process' network, or a port is taken.
        RuntimeError: this process has other threads.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - names only
        raise RuntimeError("a process with threads must not fork; ask the launcher (`open_listeners`)")
    # Packets keep their bounds: the receiver gets a whole answer, or nothing because the helper died.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            helper = _fork(lambda: hand_over(theirs, pid, ports))
        try:
            return _receive(ours, pid, ports)
        finally:
            os.waitpid(helper, 0)


def hand_over(channel: socket.socket, pid: int, ports: Sequence[int]) -> None:
    """Enter the network, open the sockets, and send them or the reason. The one-threaded process ends afterwards."""
    try:
        _enter(pid)
        listeners = [_listen(port) for port in ports]
    except OSError as trouble:
        channel.sendall(str(trouble.strerror or trouble).encode())
        return
    socket.send_fds(channel, [_OPENED], [each.fileno() for each in listeners])


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
    answer, received, _, _ = channel.recvmsg(_SAY_BYTES, room_bytes, socket.MSG_CMSG_CLOEXEC)
    descriptors = [each for _, _, data in received for (each,) in struct.iter_unpack("i", data)]
    listeners = tuple(socket.socket(fileno=number) for number in descriptors)
    if answer == _OPENED and len(listeners) == len(ports):
        return listeners
    for each in listeners:
        each.close()
    reason = answer.decode(errors="replace") or "the helper that was to enter it died"
    raise NoListener(f"network of process {pid}, ports {list(ports)}: {reason}")


def _enter(pid: int) -> None:
    """
    Enter the process' network namespace, and its user namespace where that gives the right to.

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
