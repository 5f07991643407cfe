"""
The paths that a command and all it starts look up in one folder, as the kernel tells them to the harness.

A filter of system calls stops each look-up until the harness has read its path from the caller's memory; then the call
goes on. The command cannot get rid of the filter, and has no way to the harness. What its code says about itself, in
whatever language, plays no part.

What a trace may miss: the clock, random numbers, names of extended attributes, and a path that another thread changes
between the reading here and the kernel's own. So a trace of hostile code may be too short. It may be believed of code
that has landed, through scans and a review; see `supervisor.checks.traced`.

Why not `sys.addaudithook`: it runs beside the code that it watches, and hears neither of `stat` nor of other programs.
Why not `ptrace`: it stops twice at each call of any kind, and debuggers and sanitizers under it no longer work.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import select
import socket
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.workers.sandbox.launch.seccomp import LOOK_UPS

_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""`struct seccomp_notif`: id, thread, flags, then the call: number, architecture, instruction and six arguments."""
_ANSWER = struct.Struct("=QqiI")
_CONTINUE = 1
_RECEIVE, _SEND, _IS_VALID, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_WAKE_BESIDE = 1
"""The caller is woken on the same processor (Linux 6.6): a look-up then costs half."""
_COLUMN = {"x86_64": 0, "aarch64": 1}
_AT_FDCWD, _EMPTY_PATH = -100, b""
_MOST_BYTES = 4096
_HERE = ("open", "stat", "lstat", "access", "readlink", "execve", "chdir", "link", "symlink", "mkdir")
"""Calls whose first argument is the path, read from the caller's own folder. All others name a folder first."""
_OPENING = frozenset({"open", "openat", "execve", "execveat", "link", "linkat", "symlink", "symlinkat"})
"""Calls that open their path, or let it be opened by another name."""
_THROUGH = re.compile(r"/proc/.*/(cwd|root)(/|$)|/(proc/.*|dev)/fd/\d+/")
"""Paths that lead on from what another process, or a descriptor, stands for."""
_BEFORE_COMMAND = 2
"""bubblewrap's own start, then the command's: until then a caller may be one whose memory cannot be read."""
_END_S = 10.0


@dataclass(slots=True)
class FileTrace:
    """The look-ups of one command below a folder. Complete once `end` has returned and `lacks` is empty."""

    folder: Path
    tmp: Path | None = None
    """The folder that the command sees as `/tmp`; links in it are followed."""
    looked: set[str] = field(default_factory=set)
    """Paths below the folder that were looked up in any way, whether or not something is there."""
    opened: set[str] = field(default_factory=set)
    """Those that were opened or run; of folders these may have been listed."""
    lacks: str = ""
    """Why it may not name all; empty where it does."""
    _far: socket.socket | None = None
    _thread: threading.Thread | None = None
    _started: int = 0
    _taken: set[tuple[str, bool]] = field(default_factory=set)

    def begin(self) -> int:
        """Wait for the command's start beside the caller; return the socket that the command's start needs."""
        near, self._far = socket.socketpair()
        self._thread = threading.Thread(target=self._hear, args=(near,), daemon=True)
        self._thread.start()
        return self._far.fileno()

    def close_start(self) -> None:
        """Close the socket of the command's start, after it or in place of it."""
        if self._far is not None:
            self._far.close()

    def end(self) -> None:
        """Wait until all is heard. Call it once everything of the command is gone."""
        if self._thread is not None:
            self._thread.join(_END_S)
            if self._thread.is_alive():
                self.lacks = self.lacks or "something of the command is still alive"
        if self._started < _BEFORE_COMMAND:
            self.lacks = self.lacks or "its look-ups cannot be heard here"

    def _hear(self, near: socket.socket) -> None:
        try:
            with near:
                _, descriptors, _, _ = socket.recv_fds(near, 1, 1)
            for listener in descriptors:
                try:
                    os.set_inheritable(listener, False)
                    with contextlib.suppress(OSError):
                        fcntl.ioctl(listener, _SET_FLAGS, _WAKE_BESIDE)
                    self._serve(listener)
                finally:
                    os.close(listener)
        except Exception as trouble:  # whatever it is, calls must not wait for this thread, and nothing is believed
            self.lacks = self.lacks or f"its look-ups could not be heard to the end: {trouble}"

    def _serve(self, listener: int) -> None:
        column = _COLUMN[os.uname().machine]
        names = {numbers[column]: name for name, numbers in LOOK_UPS.items()}
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while True:
            ((_, event),) = poll.poll()
            if not event & select.POLLIN:
                return
            heard = bytearray(_NOTIFICATION.size)
            try:
                fcntl.ioctl(listener, _RECEIVE, heard)
            except (FileNotFoundError, InterruptedError):
                continue  # the caller was killed meanwhile
            number, thread, _, call, _, _, *arguments = _NOTIFICATION.unpack(heard)
            try:
                self._note(names[call], thread, arguments)
            except OSError as trouble:
                if self._started >= _BEFORE_COMMAND and _is_waiting(listener, number):
                    self.lacks = self.lacks or f"a path could not be read: {trouble}"
            with contextlib.suppress(FileNotFoundError):
                fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, 0, _CONTINUE))

    def _note(self, call: str, thread: int, arguments: list[int]) -> None:
        self._started += call in ("execve", "execveat")
        own = call in _HERE
        if call == "symlinkat":
            own = True  # what the link leads to is looked up through it
        given = _read(thread, arguments[0 if own else 1])
        if given == _EMPTY_PATH:
            return
        path = os.fsdecode(given)
        if not path.startswith("/"):
            number = _AT_FDCWD if own else ctypes.c_int(arguments[0]).value
            held = "cwd" if number == _AT_FDCWD else f"fd/{number}"
            path = f"{os.readlink(f'/proc/{thread}/{held}')}/{path}"  # noqa: PTH115 - text
        self._take(path, opened=call in _OPENING)

    def _take(self, path: str, *, opened: bool) -> None:
        if (path, opened) in self._taken:
            return
        self._taken.add((path, opened))
        if _THROUGH.match(path):
            self.lacks = self.lacks or f"it goes through {path}, whose end is not known"
        root, named = f"{self.folder}/", os.path.normpath(path)
        ends = {named, os.path.realpath(path)}  # `..` behind a link leads to another folder than its name says.
        if self.tmp is not None and named.startswith(("/tmp/", "/var/tmp/")):
            ends.add(os.path.realpath(f"{self.tmp}/{named.partition('/tmp/')[2]}"))
        for each in ends:
            if each.startswith(root):
                self.looked.add(each.removeprefix(root))
                if opened:
                    self.opened.add(each.removeprefix(root))
            elif each == str(self.folder):
                self.looked.add("")
                if opened:
                    self.opened.add("")


def _read(thread: int, address: int) -> bytes:
    """
    Read a text from a thread's memory, up to its null byte.

    A call with no address is about a descriptor, or fails.

    Raises:
        OSError: the memory cannot be read, or the thread is gone.
    """
    if not address:
        return _EMPTY_PATH
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.pread(memory, _MOST_BYTES, address)
    finally:
        os.close(memory)
    return found.partition(b"\0")[0]


def _is_waiting(listener: int, number: int) -> bool:
    """Tell whether the caller still waits for its answer."""
    try:
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", number))
    except OSError:
        return False
    return True
