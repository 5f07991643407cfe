"""
One of the two doors to processes (the other is git's, `worktrees/git/git.py`): run a command and return how it ended.

`run` returns within the command's limits, and then nothing of the command is alive any more. The confinement and the
complete environment are given by the caller.
"""

import contextlib
import fcntl
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.run.child import Child, start
from forgepool.workers.sandbox.run.file_trace import FileTrace
from forgepool.workers.sandbox.run.output import CommandLog
from forgepool.workers.sandbox.run.usage import UsageWatch
from forgepool.workers.sandbox.tree import Kin, new_family
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.error_lines import excerpt

Reached = Literal["timeout", "idle", "stopped"]

_ASK_S = 0.2


def never() -> bool:
    return False


class CommandWatch:
    """The limits of one command, counted from the construction in monotonic time."""

    def __init__(
        self, *, timeout_s: float, idle_s: float | None, folder: Path | None, stop: Callable[[], bool]
    ) -> None:
        now = time.monotonic()
        self._ends_at = now + timeout_s
        self._idle_s = idle_s
        self._folder = folder
        self._stop = stop
        self._active_at = now
        self._ask_at = now

    def active(self) -> None:
        """Note a sign of life of the command."""
        self._active_at = time.monotonic()

    def next_s(self) -> float:
        """Return the seconds until a limit may be reached; never negative."""
        ends_at = self._ends_at
        if self._idle_s is not None:
            ends_at = min(ends_at, self._active_at + self._idle_s)
        return max(0.0, ends_at - time.monotonic())

    def find_reached(self) -> Reached | None:
        """Return the limit that is reached, if any. `stop` is asked at most five times a second."""
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask_at = now + _ASK_S
            if self._stop():
                return "stopped"
        if now >= self._ends_at:
            return "timeout"
        if self._idle_s is not None and now - self._active_at >= self._idle_s:
            self._look()
            if now - self._active_at >= self._idle_s:
                return "idle"
        return None

    def _look(self) -> None:
        """Count the latest change in the folder as a sign of life at its time."""
        if self._folder is not None:
            ago_s = max(0.0, time.time() - latest_change(self._folder))
            self._active_at = max(self._active_at, time.monotonic() - ago_s)


def latest_change(folder: Path) -> float:
    """
    Return the Unix time of the latest change to anything in a folder; 0 when it is gone.

    Uses the time of change, not of modification: tools set the latter back to what they unpacked.
    """
    latest = 0.0
    waiting = [os.fspath(folder)]
    while waiting:
        here = waiting.pop()
        try:
            latest = max(latest, os.lstat(here).st_ctime)
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        latest = max(latest, entry.stat(follow_symlinks=False).st_ctime)
        except OSError:
            continue  # vanished while we looked, which its parent's time tells
    return latest


_READ_BYTES = 1024 * 1024
_HEARD_BYTES = 64 * 1024
"""Bytes read at once with a listener: the limits are checked between two reads."""
_HEARD_LATE_S = 2.0
_POLL_S = 0.2
_GRACE_S = 2.0
_WHERE = "give a program and folders that the sandbox shows"

Take = Callable[[bytes], None]
How = Literal["exit", "timeout", "idle", "stopped", "not_started"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run, its folder, and its limits."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """Complete: nothing is inherited. One variable is added, the mark of its processes."""
    log: Path
    """The file for standard output and standard error, in the order they were written."""
    timeout_s: float
    confined: Confinement
    """Its confinement; `OPEN` gives it the harness' own rights."""
    log_file: int | None = None
    """An open descriptor to write the log to, for callers that read it; `log` then is only its name."""
    idle_s: float | None = None
    """Seconds without output (and without a change in `watch`) after which the command counts as hung."""
    keep_bytes: int = 64 * 1024 * 1024
    """The log's limit. Output beyond it is counted and dropped; the command never waits."""
    pass_fds: tuple[int, ...] = ()
    """Only without confinement."""
    stdin: Path | None = None
    """A file for its standard input, which is empty otherwise."""
    watch: Path | None = None
    """A folder in which any change counts as output. Checked only when output has ceased."""
    trace: FileTrace | None = None
    """Takes down the paths it looks up; only with `bubblewrap`, and incomplete at any other level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended. Only `exit` is its own choice."""

    how: How
    status: int | None = None
    """
    Exit status, negative for a signal; None when unknown, which is never success.

    For a confined command a signal is 128 and its number, as in a shell, because bwrap or the keeper reports it.
    """
    seconds: float = 0.0
    head: str = ""
    """The first 16 KiB of output, as far as `tail` does not contain them."""
    tail: str = ""
    """The last 16 KiB of output; for `not_started` the reason."""
    output_bytes: int = 0
    dropped_bytes: int = 0
    """Bytes of output missing from the log."""
    log: Path
    left: tuple[int, ...] = ()
    """Processes that would not die (another user's, or hanging in the kernel); almost always none."""

    @property
    def succeeded(self) -> bool:
        return self.how == "exit" and self.status == 0

    @property
    def words(self) -> str:
        """How it ended, as the end of a sentence."""
        match self.how:
            case "exit":
                return f"exited with {self.status}"
            case "timeout":
                return f"did not end within {self.seconds:.0f} s"
            case "idle":
                return f"gave no sign of life and was ended after {self.seconds:.0f} s"
            case "stopped":
                return "was stopped"
            case "not_started":
                return "could not be started"

    @property
    def excerpt(self) -> str:
        """The end of the output, preceded by its first errors when the end lacks them."""
        return excerpt(f"{self.head}\n{self.tail}" if self.head else self.tail, len(self.tail))


def shell(script: str) -> tuple[str, ...]:
    """
    Return the command line that runs a script in a POSIX shell.

    Not bash, and no `pipefail`: every host has `/bin/sh`, and a script means the same on all of them. A script that
    needs more can call `bash -euo pipefail -c ...`.
    """
    return ("/bin/sh", "-c", script)


def run(command: Command, *, stop: Callable[[], bool] = never, hear: Callable[[bytes], None] | None = None) -> Ended:
    """
    Run a command until it ends, reaches a limit, or `stop()` returns true (asked about five times a second).

    `hear` gets all output as it comes, in pieces of any size, even beyond the log's limit. Standard input is empty or
    the command's file.

    At a limit the command gets SIGTERM and two seconds. At any end everything it started gets SIGKILL, including
    daemons in their own sessions; output in the pipe is read for two seconds more. The caller's earlier children and
    git in another thread are left alone. So is another child it starts meanwhile, unless that opens its own session.
    """
    began = time.monotonic()
    try:
        output = CommandLog(command.log, command.keep_bytes, command.log_file)
    except OSError as trouble:
        return _not_started(command, f"log {command.log}: {trouble.strerror}; give a folder that can be written")
    with output, _pipe() as (reading, writing):
        family = new_family()
        tree.become_subreaper()
        try:
            with writing:
                child = _start(command, writing.fileno(), family)
        except (OSError, ValueError, IndexError) as trouble:
            return _not_started(command, _why_not(command, trouble))
        take = output.take if hear is None else _both(output.take, hear)
        piece_bytes = _READ_BYTES if hear is None else _HEARD_BYTES
        try:
            how = _attend(command, child, reading, take, stop, piece_bytes)
        finally:
            status, left = _end(child, family)
            _drain(reading, take, output.take, piece_bytes)
            output.close()
            ran = child.began()
            child.close()
            if command.trace is not None:
                command.trace.end()
        if how == "exit" and not ran:
            return _not_started(command, _why_not_begun(command, _last_line(output.tail)))
    return Ended(
        how=how,
        status=status,
        seconds=time.monotonic() - began,
        head=output.head,
        tail=output.tail,
        output_bytes=output.total,
        dropped_bytes=output.dropped,
        log=command.log,
        left=left,
    )


def _start(command: Command, output: int, family: Kin) -> Child:
    trace = command.trace.begin() if command.trace is not None else None
    try:
        return start(
            command.argv,
            cwd=command.cwd,
            env=command.env,
            output=output,
            pass_fds=command.pass_fds,
            confined=command.confined,
            family=family,
            stdin=command.stdin,
            trace=trace,
        )
    finally:
        if command.trace is not None:
            command.trace.close_start()


def _why_not_begun(command: Command, complaint: str) -> str:
    """Translate bwrap's complaint into the words used without bwrap."""
    if not command.cwd.is_dir():
        return _no_folder(command)
    words, program, reason = complaint.removeprefix("bwrap: ").partition(f"execvp {command.argv[0]}: ")
    return f"program {command.argv[0]!r}: {reason}; {_WHERE}" if program else f"{words}; {_WHERE}"


def _no_folder(command: Command) -> str:
    return f"folder {command.cwd}: not there; the command runs in an existing folder"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it ended before it began")


def _both(first: Take, second: Take) -> Take:
    def take(data: bytes) -> None:
        first(data)
        second(data)

    return take


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, FileIO]]:
    """Yield a non-blocking reading end and a writing end; wide, for fewer wake-ups in a flood of output."""
    reading, writing = os.pipe()
    with FileIO(reading, "rb"), FileIO(writing, "wb") as far_end:
        os.set_blocking(reading, False)
        # The kernel may refuse a user who has many wide pipes, and other systems do not know them.
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _READ_BYTES)
        yield reading, far_end


def _attend(command: Command, child: Child, pipe: int, take: Take, stop: Callable[[], bool], piece_bytes: int) -> How:
    """Read the output until the child exits; at a limit, ask it to end and then kill it."""
    watch = CommandWatch(timeout_s=command.timeout_s, idle_s=command.idle_s, folder=command.watch, stop=stop)
    usage = UsageWatch(command.confined, child.pid)
    how: How = "exit"
    kill_at: float | None = None
    with child.exit_descriptor() as exited, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        if exited is not None:
            selector.register(exited, selectors.EVENT_READ)
        longest_s = _POLL_S if exited is not None else _POLL_S / 20
        while True:
            next_s = watch.next_s() if kill_at is None else max(0.0, kill_at - time.monotonic())
            for key, _ in selector.select(min(longest_s, next_s)):
                if key.fd == pipe and not _read(pipe, take, watch, piece_bytes):
                    selector.unregister(pipe)
            if child.has_exited() or (kill_at is not None and time.monotonic() >= kill_at):
                return how
            if kill_at is None and (reached := watch.find_reached()) is not None:
                how, kill_at = reached, time.monotonic() + _GRACE_S
                child.ask_to_end()
            elif (exceeded := usage.find_exceeded()) is not None:
                take(f"\n[forgepool] {exceeded}\n".encode())
                child.kill_inside()


def _read(pipe: int, take: Take, watch: CommandWatch, piece_bytes: int) -> bool:
    """Pass on one piece; return False at the end of the output."""
    try:
        data = os.read(pipe, piece_bytes)
    except BlockingIOError:
        return True
    if data:
        take(data)
        watch.active()
    return bool(data)


def _end(child: Child, family: Kin) -> tuple[int | None, tuple[int, ...]]:
    """Kill everything of the command; return the child's status and the processes that would not die."""
    child.signal_group(signal.SIGKILL)
    status = child.reap()
    left: set[int] = set()
    empty_looks = 0
    # Twice: the kernel's list of children may skip one while its neighbour leaves it.
    while empty_looks < 2:
        strays = [pid for pid in family.strays() if pid not in left]
        empty_looks = 0 if strays else empty_looks + 1
        left |= set(tree.kill_tree(strays))
    family.leave()
    return status, tuple(sorted(left))


def _drain(pipe: int, take: Take, keep: Take, piece_bytes: int) -> None:
    """Pass on what is left in the pipe, and no more if a stranger holds its other end. After a while only keep it."""
    listen_until = time.monotonic() + _HEARD_LATE_S
    left = _READ_BYTES
    with contextlib.suppress(BlockingIOError):
        while left > 0 and (data := os.read(pipe, min(piece_bytes, left))):
            left -= len(data)
            (take if time.monotonic() < listen_until else keep)(data)


def _why_not(command: Command, trouble: Exception) -> str:
    if not command.cwd.is_dir():
        return _no_folder(command)
    if command.stdin is not None and not command.stdin.is_file():
        return f"file {command.stdin}: not there; it is to be the command's input"
    reason = trouble.strerror if isinstance(trouble, OSError) and trouble.strerror else str(trouble)
    program = command.argv[0] if command.argv else ""
    return f"program {program!r}: {reason}; give a program found on the command's PATH"


def _not_started(command: Command, why: str) -> Ended:
    return Ended(how="not_started", tail=why, log=command.log)
