"""
A small process beside each harness process that starts its confined commands.

Between fork and exec a confined command needs Python to apply limits, a uid and Landlock. A fork copies the parent's
page tables: 30 ms at 1 GB. The launcher has almost nothing to copy. Commands become children of the harness, not of the
launcher (CLONE_PARENT), so the harness waits for them as usual.

A clone of the launcher serves each control group, as a member of it. Moving each command into the group instead would
wait for the whole machine every time, 10 ms and more.

A message is a frame of JSON (`Message`). A start comes with descriptors: standard input, output and error, a pipe for
`why not`, then those the program gets from number 10 on. The answer is the pid, as 8 bytes. Exec closes the pipe `why
not`; otherwise it holds one line with the reason.

Standard library only, and little of that: it runs as `python -I -S`.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys

from forgepool.workers.sandbox.launch import mounts, seccomp
from forgepool.workers.sandbox.network import netns
from forgepool.worktrees.git import landlock

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def keep() -> None:
    """
    Fork a keeper that ends with the command and kills everything it started; return in the child that becomes it.

    Without a pid namespace someone must find the command's daemons. The keeper is a sub-reaper outside the command's
    Landlock domain, so no signal of the command reaches it. It ends when the harness does.
    """
    harness = os.getppid()
    landlock.prctl(_SET_CHILD_SUBREAPER, 1, otherwise="the kernel knows no sub-reapers")
    # Masked until waited for: a keeper that dies of a signal keeps nothing.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1})
    landlock.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGUSR1, otherwise="the kernel tells of no parent's death")
    command = os.fork()
    if command == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return
    os.closerange(3, 4096)
    _end_as(_watch(command, harness))


def _watch(command: int, harness: int) -> int | None:
    """Wait for the command; return its wait status, or None when the harness is gone."""
    while os.getppid() == harness:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == command:
            return status
        if pid == 0:
            signal.sigtimedwait({signal.SIGCHLD, signal.SIGUSR1}, 1.0)
    return None


def _end_as(status: int | None) -> None:
    """Kill what is left below the keeper, then exit with the command's status. Never returns."""
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
"""The number of a program's first additional descriptor."""
_GIVEN = 4
_LENGTH = struct.Struct("=Q")
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT = 0x00008000
_LIMITS = {"data": resource.RLIMIT_DATA, "processes": resource.RLIMIT_NPROC, "file": resource.RLIMIT_FSIZE}
_LIMITS |= {"files": resource.RLIMIT_NOFILE, "core": resource.RLIMIT_CORE}
_MOST_DESCRIPTORS = 64
_STDERR = 2
_KEPT = (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that this process ignores. All others do here, and in commands, what they do by default."""
_NO_ROOM = b"there are as many processes as it may have; fewer would leave room for it"
_DIES_FIRST = b"500"
"""When memory runs out, commands die before the harness, and before the launcher in their own group."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Required, TypedDict

    class Mounts(TypedDict):
        """The uid's own folders, writable and read-only, and folders that must stay reachable."""

        own: list[str]
        kept: list[str]
        seen: list[str]

    class Files(TypedDict):
        """The paths that the fallback lets a command read and change."""

        readable: list[str]
        writable: list[str]

    class Listen(TypedDict):
        """A process and the ports to listen on in its own network."""

        pid: int
        ports: list[int]

    class Request(TypedDict, total=False):
        """A program to start. Texts are file system texts (`os.fsdecode`)."""

        argv: Required[list[str]]
        env: Required[dict[str, str]]
        cwd: Required[str]
        limits: Required[dict[str, int]]
        uid: int
        mounts: Mounts
        files: Files
        """Set for the fallback: Landlock and seccomp, under a keeper. Without it only what must hold before bwrap."""
        trace: int
        """The number of the socket that gets the descriptor which hears of the command's look-ups."""

    class Message(TypedDict, total=False):
        """Exactly one of the three."""

        start: Request
        listen: Listen
        join: list[str]
        """The `cgroup.procs` files a clone of the launcher joins; it serves the channel that comes with them."""


def become_launcher(channel: int, mark: int) -> None:
    """Serve the process that this one was forked from, with none of its other descriptors. Never returns."""
    try:
        gc.freeze()  # looking through what was inherited would copy it
        os.setsid()
        signal.set_wakeup_fd(-1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        for number in _descriptors():
            if number not in (channel, mark):
                with contextlib.suppress(OSError):
                    os.close(number)
        main(channel)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def main(channel: int) -> None:
    """Serve one harness until it ends. The first answer is this process' pid."""
    for each in signal.valid_signals().difference(_KEPT):
        with contextlib.suppress(OSError, ValueError):  # two of them cannot be changed
            signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # its own numbers are high; commands get theirs
    for number in _descriptors():
        with contextlib.suppress(OSError):
            os.set_inheritable(number, False)
    _serve(channel, ())


def _descriptors() -> "list[int]":
    """List the open descriptors after the standard ones, and the one that was open to look."""
    return [number for number in map(int, os.listdir("/proc/self/fd")) if number > _STDERR]  # noqa: PTH208 - no pathlib


def _serve(channel: int, groups: "Sequence[str]") -> None:
    with socket.socket(fileno=channel) as harness:
        if not _join(harness, groups):
            return
        while (received := _receive(harness)) is not None:
            message, descriptors = received
            if "join" in message:
                _clone_into(message["join"], *descriptors, served=harness)
            if "listen" in message:
                _open_listeners(harness, message["listen"]["pid"], message["listen"]["ports"])
            if "start" in message:
                harness.sendall(_LENGTH.pack(_start(message["start"], descriptors)))
            for each in descriptors:
                os.close(each)


def _clone_into(groups: "Sequence[str]", channel: int, *, served: socket.socket) -> None:
    """Make a clone of this process that serves the channel as a member of the groups."""
    pid = _clone()
    if pid == 0:
        try:
            served.close()
            _serve(channel, groups)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)
    if pid < 0:
        os.write(channel, _LENGTH.pack(0) + _NO_ROOM)


def _clone() -> int:
    """Fork a child of the harness; return its pid, 0 in the child, or less where there is no room for it."""
    # The GIL is held throughout (PyDLL): the child goes on with it, as after a fork.
    flags = ctypes.c_long(_CLONE_PARENT | signal.SIGCHLD)
    return int(ctypes.PyDLL(None).syscall(_CLONE[os.uname().machine], flags, 0, 0, 0, 0))


def _join(harness: socket.socket, groups: "Sequence[str]") -> bool:
    """Join the groups; return False after reporting why that failed."""
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
    """Answer with one listening socket per port, or with the length of the reason and the reason."""
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
"""The lowest number for our own descriptors, above all that commands get."""
_users: dict[int, int] = {}
"""The user namespaces made so far, by the uid that root is mapped to."""


def _start(request: "Request", descriptors: list[int]) -> int:
    """Fork a child of the harness; return its pid, or 0 after writing the reason to `why not`."""
    failed = None
    try:
        if "mounts" in request and request["uid"] not in _users:
            made = mounts.user_namespace(request["uid"])
            _users[request["uid"]] = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _HIGH)
            os.close(made)
    except OSError as trouble:
        failed = trouble
    pid = _clone()
    if pid == 0:
        _become(request, descriptors, failed)
    if pid < 0:
        os.write(descriptors[_GIVEN - 1], _NO_ROOM)
    return max(0, pid)


def _become(request: "Request", descriptors: list[int], failed: OSError | None) -> None:
    """Run the program, or write the reason to `why not`. Never returns."""
    why_not = descriptors[_GIVEN - 1]
    try:
        why_not = _lay_out(descriptors)
        if failed is not None:
            raise failed
        os.setsid()
        _prepare(request)
        if "files" in request:
            _confine(request["files"])
        if "trace" in request:
            _tell_look_ups(request["trace"])
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except BaseException as trouble:
        # A program's own name says more than the number of its mistake.
        reason = trouble.strerror if isinstance(trouble, OSError) else f"{type(trouble).__name__}: {trouble}"
        os.write(why_not, (reason or "it cannot be started").encode(errors="replace"))
    os._exit(127)


def _lay_out(descriptors: list[int]) -> int:
    """Put standard descriptors at 0 to 2 and further ones from 10; exec closes the rest. Returns `why not`."""
    safe = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, FIRST_EXTRA + _MOST_DESCRIPTORS) for each in descriptors]
    standard, why_not, further = safe[:3], safe[3], safe[_GIVEN:]
    for number, each in [*enumerate(standard), *enumerate(further, start=FIRST_EXTRA)]:
        os.dup2(each, number)
    return why_not


def _prepare(request: "Request") -> None:
    """Apply what every level needs: mounts while the process still may, limits once the uid is known."""
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
    """Apply the fallback's boundary. Seccomp comes last, because it refuses what Landlock needs."""
    landlock.restrict_files(files["readable"], files["writable"])
    seccomp.install(seccomp.program(network="none", unix=False))


def _tell_look_ups(channel: int) -> None:
    """Hand the harness what hears of all look-ups from here on; the command itself gets neither end."""
    with socket.socket(fileno=channel) as harness:
        listener = seccomp.listen()
        socket.send_fds(harness, [b"x"], [listener])
        os.close(listener)
