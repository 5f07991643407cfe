"""
A small process beside each harness process, which starts confined commands for it.

Between fork and exec a confined command needs Python to run: limits, a uid, Landlock. A fork copies the parent's page
tables, 30 ms where that holds 1 GB; so it is done from here, where there is next to nothing to copy. Commands become
children of the harness, not of the launcher (CLONE_PARENT): it waits for them, and is told of their end, as ever.

A message is a frame of JSON (`Message`). To start a program it comes with descriptors: standard input, output and
error, a pipe for `why not`, then those the program is to have from number 10 on. The answer is the pid, as 8 bytes. The
pipe `why not` is closed by exec, or says in one line what could not be done.

Standard library only, and little of that: it is run as `python -I -S`.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys

from forgepool.workers.sandbox.launch import calls, landlock, mounts, seccomp
from forgepool.workers.sandbox.network import netns

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def keep() -> None:
    """Returns in a child that is to become the command. The keeper itself ends as the command does."""
    harness = os.getppid()
    calls.prctl(_SET_CHILD_SUBREAPER, 1, otherwise="the kernel knows no sub-reapers")
    # Masked until waited for: a keeper that dies of a signal keeps nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1})
    calls.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGUSR1, otherwise="the kernel tells of no parent's death")
    command = os.fork()
    if command == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return
    os.closerange(3, 4096)
    _end_as(_watch(command, harness))


def _watch(command: int, harness: int) -> int | None:
    """The command's wait status; None when it has to be ended."""
    while os.getppid() == harness:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == command:
            return status
        if pid == 0:
            signal.sigtimedwait({signal.SIGCHLD, signal.SIGUSR1}, 1.0)
    return None


def _end_as(status: int | None) -> None:
    """Never returns; whatever is left below the keeper is killed first."""
    while left := _children():
        from forgepool.workers.sandbox import tree

        if tree.kill_tree(left):
            break  # hanging in the kernel
    if status is None:
        os._exit(128 + signal.SIGKILL)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123 - no pathlib here
        return [int(pid) for pid in file.read().split()]


FIRST_EXTRA = 10
"""The number of the first of a program's further descriptors."""
_GIVEN = 4
_LENGTH = struct.Struct("=Q")
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT = 0x00008000
_LIMITS = {"data": resource.RLIMIT_DATA, "processes": resource.RLIMIT_NPROC, "file": resource.RLIMIT_FSIZE}
_LIMITS |= {"files": resource.RLIMIT_NOFILE, "core": resource.RLIMIT_CORE}
_MOST_DESCRIPTORS = 64
_DIES_FIRST = b"500"
"""Where memory runs out commands go before the harness, and before the launcher in their own group."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Required, TypedDict

    class Mounts(TypedDict):
        """The folders that are the uid's own: writable, read-only; and those that are only to be passable."""

        own: list[str]
        kept: list[str]
        seen: list[str]

    class Files(TypedDict):
        """What the fallback lets a command read, and change."""

        readable: list[str]
        writable: list[str]

    class Listen(TypedDict):
        """A process, and the ports of its own loopback that are listened on for it."""

        pid: int
        ports: list[int]

    class Request(TypedDict, total=False):
        """One program to be started. Texts are file system texts (`os.fsdecode`)."""

        argv: Required[list[str]]
        env: Required[dict[str, str]]
        cwd: Required[str]
        limits: Required[dict[str, int]]
        uid: int
        mounts: Mounts
        files: Files
        """The fallback: with Landlock and seccomp, under a keeper. Without it, only what holds before bwrap."""

    class Message(TypedDict, total=False):
        """One of the two."""

        start: Request
        listen: Listen


def main(channel: int, groups: "Sequence[str]") -> None:
    """Serves one harness until that is gone, from inside the control groups. The first it says is its pid."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # its own numbers are high; commands get theirs
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - no pathlib here, it takes 3 ms to import
        if number > sys.stderr.fileno():
            with contextlib.suppress(OSError):
                os.set_inheritable(number, False)
    with socket.socket(fileno=channel) as harness:
        if not _join(harness, groups):
            return
        while (received := _receive(harness)) is not None:
            message, descriptors = received
            if "listen" in message:
                _open_listeners(harness, message["listen"]["pid"], message["listen"]["ports"])
            if "start" in message:
                harness.sendall(_LENGTH.pack(_start(message["start"], descriptors)))
            for each in descriptors:
                os.close(each)


def _join(harness: socket.socket, groups: "Sequence[str]") -> bool:
    """Whether it is in them; else the reason is said."""
    try:
        for group in groups:
            _write(group, b"0")
    except OSError as trouble:
        harness.sendall(_LENGTH.pack(0) + f"{trouble.filename or groups[0]}: {trouble.strerror}".encode())
        return False
    harness.sendall(_LENGTH.pack(os.getpid()))
    return True


def _write(path: str, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def _open_listeners(harness: socket.socket, pid: int, ports: list[int]) -> None:
    """Answers with one listening socket for each port, or with none and the reason, its length before it."""
    try:
        opened = netns.fork_listeners(pid, ports)
    except OSError as trouble:
        reason = str(trouble).encode()
        harness.sendall(_LENGTH.pack(len(reason)) + reason)
        return
    socket.send_fds(harness, [_LENGTH.pack(0)], [each.fileno() for each in opened])
    for each in opened:
        each.close()


def _receive(harness: socket.socket) -> "tuple[Message, list[int]] | None":
    header, descriptors, _, _ = socket.recv_fds(harness, _LENGTH.size, _MOST_DESCRIPTORS)
    for each in descriptors:  # the flag that would have it so from the start is not passed on by `recv_fds`
        os.set_inheritable(each, False)
    if len(header) < _LENGTH.size:
        return None
    (left,) = _LENGTH.unpack(header)
    pieces = []
    while left and (piece := harness.recv(min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return None if left else (json.loads(b"".join(pieces)), list(descriptors))


_HIGH = 512
"""From here on are descriptors that no command's get in the way of."""
_users: dict[int, int] = {}
"""User namespaces made already, by the uid they map root to."""


def _start(request: "Request", descriptors: list[int]) -> int:
    """The pid of a child of the harness that goes on by itself; 0 where none could be made, and `why not` says so."""
    failed = None
    try:
        if "mounts" in request and request["uid"] not in _users:
            made = mounts.user_namespace(request["uid"])
            _users[request["uid"]] = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _HIGH)
            os.close(made)
    except OSError as trouble:
        failed = trouble
    # The GIL is held throughout (PyDLL): the child goes on with it, as after a fork.
    pid = ctypes.PyDLL(None).syscall(
        _CLONE[os.uname().machine], ctypes.c_long(_CLONE_PARENT | signal.SIGCHLD), 0, 0, 0, 0
    )
    if pid == 0:
        _become(request, descriptors, failed)
    if pid < 0:
        os.write(descriptors[_GIVEN - 1], b"there are as many processes as it may have; fewer would leave room for it")
    return max(0, int(pid))


def _become(request: "Request", descriptors: list[int], failed: OSError | None) -> None:
    """Never returns: the program is run, or `why not` is told."""
    why_not = descriptors[_GIVEN - 1]
    try:
        why_not = _lay_out(descriptors)
        if failed is not None:
            raise failed
        os.setsid()
        _prepare(request)
        if "files" in request:
            _confine(request["files"])
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except BaseException as trouble:
        # A program's own name says more than the number of its mistake.
        said = trouble.strerror if isinstance(trouble, OSError) else f"{type(trouble).__name__}: {trouble}"
        os.write(why_not, (said or "it cannot be started").encode(errors="replace"))
    os._exit(127)


def _lay_out(descriptors: list[int]) -> int:
    """Standard descriptors at 0 to 2, further ones from 10; exec closes all others. Answers `why not`."""
    safe = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, FIRST_EXTRA + _MOST_DESCRIPTORS) for each in descriptors]
    standard, why_not, further = safe[:3], safe[3], safe[_GIVEN:]
    for number, each in [*enumerate(standard), *enumerate(further, start=FIRST_EXTRA)]:
        os.dup2(each, number)
    return why_not


def _prepare(request: "Request") -> None:
    """What holds for every level. Mounts while there is the right to them, limits when the uid is known."""
    _write("/proc/self/oom_score_adj", _DIES_FIRST)
    if "mounts" in request:
        mounts.own_namespace(**request["mounts"], user=_users[request["uid"]])
    if "files" in request:
        keep()
    for name, value in request["limits"].items():
        _, hard = resource.getrlimit(_LIMITS[name])
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(_LIMITS[name], (most, most))
    if "uid" in request:
        mounts.become(request["uid"])
    if landlock.abi() >= landlock.SCOPES_SINCE and "files" not in request:
        landlock.restrict_scope()
    os.chdir(request["cwd"])
    os.umask(0o022)
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _confine(files: "Files") -> None:
    """The fallback's boundary. Seccomp last: what Landlock asks for is refused by it to the command."""
    landlock.restrict_files(files["readable"], files["writable"])
    seccomp.install(seccomp.program(network="none", unix=False))
