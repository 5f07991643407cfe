"""
Commands that run in the background beside an order's other work, and end with the order at the latest.

Each is run by a guard, an interpreter of its own (`guard_main`). So its processes are never confused with a foreground
command's, and none leaves the tree below its guard. The extra interpreter costs a twentieth of a second, which is
little for a command that runs for long.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, Self

from forgepool.workers.sandbox import HOUSE, START, tree
from forgepool.workers.sandbox.launch.launch import fork_launcher
from forgepool.workers.sandbox.run.child import Child, start
from forgepool.workers.sandbox.run.output import open_log, read_log
from forgepool.workers.sandbox.run.process import Command, Ended, run
from forgepool.workers.sandbox.tree import commands_of, new_family
from forgepool.workers.schema.confinement import OPEN, Confinement, Outlet, as_json, from_json

_START = f"{START}from forgepool.workers.sandbox.run.background import guard_main; guard_main()"


@dataclass(frozen=True, slots=True)
class Watched:
    """The command as its guard reads it from a nameless file: any user could read a command line."""

    parent: int
    argv: Sequence[str]
    cwd: str
    log: str
    log_file: int
    timeout_s: float
    keep_bytes: int
    pass_fds: Sequence[int]
    env: Mapping[str, str]
    confined: Mapping[str, Any]
    link: int | None
    """The descriptor that leads to the outlet in the harness."""
    ports: Sequence[int]


def guard_argv(order: int) -> tuple[str, ...]:
    """Return the command line of a guard: an interpreter with only the standard library."""
    return (sys.executable, "-I", "-S", "-c", _START, HOUSE, str(order))


def tell(command: Command, log_file: int, link: int | None) -> FileIO:
    """Write the command for its guard and return the open file."""
    watched = Watched(
        parent=os.getpid(),
        argv=command.argv,
        cwd=str(command.cwd),
        log=str(command.log),
        log_file=log_file,
        timeout_s=command.timeout_s,
        keep_bytes=command.keep_bytes,
        pass_fds=command.pass_fds,
        env=command.env,
        confined=as_json(command.confined),
        link=link,
        ports=command.confined.outlet.ports if command.confined.outlet else (),
    )
    file = FileIO(os.memfd_create("guard"), "r+b")
    file.write(json.dumps(asdict(watched)).encode())
    file.seek(0)
    return file


def read_end(answer: bytes, command: Command) -> Ended | None:
    """Parse what a guard wrote at its end; None when it was killed before."""
    try:
        return Ended(**json.loads(answer), log=command.log)
    except (ValueError, TypeError):
        return None


def guard_main() -> None:
    """
    Run the command described in the given file; write how it ended to standard output.

    The guard is a sub-reaper, so everything the command started stays below it. It ends the command on SIGTERM, and
    when the process that started the guard is gone.
    """
    with FileIO(int(sys.argv[2]), "rb") as file:
        watched = Watched(**json.loads(file.read()))
    if watched.confined["level"] in ("bubblewrap", "landlock"):
        fork_launcher()
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    ended = run(_command(watched), stop=lambda: bool(signals) or os.getppid() != watched.parent)
    facts = {name: value for name, value in asdict(ended).items() if name != "log"}
    os.write(1, json.dumps(facts).encode())


def _confined(watched: Watched) -> Confinement:
    outlet = None if watched.link is None else LinkedOutlet(socket.socket(fileno=watched.link), watched.ports)
    return replace(from_json(watched.confined), outlet=outlet)


def _command(watched: Watched) -> Command:
    return Command(
        argv=tuple(watched.argv),
        cwd=Path(watched.cwd),
        env=watched.env,
        confined=_confined(watched),
        log=Path(watched.log),
        log_file=watched.log_file,
        timeout_s=watched.timeout_s,
        keep_bytes=watched.keep_bytes,
        pass_fds=tuple(watched.pass_fds),
    )


_SERVED = b"served"


class LinkedOutlet:
    """The guard's end of an outlet: passes its sockets to the harness, which serves them until this end is closed."""

    def __init__(self, link: socket.socket, ports: Sequence[int]) -> None:
        self._link = link
        self.ports = tuple(ports)

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        socket.send_fds(self._link, [b"serve"], [each.fileno() for each in listeners])
        if self._link.recv(len(_SERVED)) != _SERVED:
            raise OSError(0, "the harness no longer serves the network it granted")
        for each in listeners:
            each.close()

    def release(self, listeners: Sequence[socket.socket]) -> None:
        self._link.close()


def link_outlet(outlet: Outlet) -> socket.socket:
    """Return the socket for the guard; the outlet is served until that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    threading.Thread(target=_serve, args=(ours, outlet), name="linked-outlet", daemon=True).start()
    return theirs


def _serve(link: socket.socket, outlet: Outlet) -> None:
    with link:
        message, descriptors, _, _ = socket.recv_fds(link, 16, len(outlet.ports))
        listeners = tuple(socket.socket(fileno=each) for each in descriptors)
        for each in listeners:
            each.set_inheritable(False)
        if message and len(listeners) == len(outlet.ports):
            outlet.serve(listeners)
            link.sendall(_SERVED)
            link.recv(1)
        outlet.release(listeners)


_POLITE_S = 5.0
_ANSWER_BYTES = 256 * 1024


class BackgroundCommand:
    """A background command, from its start until its end is known."""

    def __init__(self, command: Command) -> None:
        """
        Raises:
            OSError, ValueError: it cannot be started; nothing runs.
        """
        self.command = command
        self._began = time.monotonic()
        self.told_bytes = 0
        """Bytes of the log that `new_output` has returned."""
        self._ended: Ended | None = None
        self._family = new_family()
        tree.become_subreaper()
        reading, writing = os.pipe()
        self._answer = FileIO(reading, "rb")
        with contextlib.ExitStack() as failing:
            failing.enter_context(self._answer)
            # The descriptor is our own, also where the caller has opened the log.
            log = open_log(command.log) if command.log_file is None else os.dup(command.log_file)
            self._log = failing.enter_context(FileIO(log, "rb"))
            with FileIO(writing, "wb"):
                self._guard = self._start(writing)
            failing.pop_all()
        self._guard_began = tree.start_time(self._guard.pid)

    def _start(self, answer: int) -> Child:
        outlet = self.command.confined.outlet
        with contextlib.ExitStack() as given:
            link = given.enter_context(link_outlet(outlet)).fileno() if outlet else None
            order = given.enter_context(tell(self.command, self._log.fileno(), link)).fileno()
            ours = (self._log.fileno(), order, *(() if link is None else (link,)))
            return start(
                guard_argv(order),
                cwd=self.command.cwd,
                env={},
                output=answer,
                # The guard is ours, and confines what it runs.
                confined=OPEN,
                pass_fds=(*self.command.pass_fds, *ours),
                family=self._family,
            )

    @property
    def seconds(self) -> float:
        """The time it has run."""
        return time.monotonic() - self._began if self._ended is None else self._ended.seconds

    def find_end(self) -> Ended | None:
        """Return how it ended; None while it runs."""
        if self._ended is None and self._guard.has_exited():
            self._ended = self._settle()
        return self._ended

    def wait(self, timeout_s: float) -> None:
        """Return when it has ended, or after so many seconds."""
        if self._ended is not None:
            return
        with self._guard.exit_descriptor() as exited:
            select.select([] if exited is None else [exited], [], [], timeout_s)

    def new_output(self) -> bytes:
        """Return the log's bytes since the last call; nothing after `close`."""
        if self._log.closed:
            return b""
        new = read_log(self._log.fileno(), max(0, self.command.keep_bytes - self.told_bytes), after=self.told_bytes)
        self.told_bytes += len(new)
        return new

    def ask_to_end(self) -> None:
        """Send SIGTERM to the guard and return at once."""
        if self.find_end() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._guard.pid, signal.SIGTERM)

    def stop(self) -> Ended:
        """End it and everything it started: politely first, then by force."""
        self.ask_to_end()
        self.wait(_POLITE_S)
        if self._ended is None:
            self._ended = self._settle()
        return self._ended

    def close(self) -> None:
        """End it if it still runs, and close its log."""
        self.stop()
        self._log.close()

    def _settle(self) -> Ended:
        """Kill all that is left of it, however its guard ended."""
        tree.kill_tree([self._guard.pid])
        if self._guard_began is not None:
            tree.kill_tree(commands_of(self._guard.pid, self._guard_began))
        self._guard.reap()
        # Orphans of a guard that was killed are this process's children now, those that wiped their mark among them.
        while strays := self._family.strays():
            if tree.kill_tree(strays):
                break  # another user's, or hanging in the kernel: nothing more can be done
        self._family.leave()
        os.set_blocking(self._answer.fileno(), False)
        answer = self._answer.read(_ANSWER_BYTES) or b""
        self._answer.close()
        return read_end(answer, self.command) or self._killed()

    def _killed(self) -> Ended:
        """Return the end of a command whose guard could not report it."""
        size = os.fstat(self._log.fileno()).st_size
        seconds = time.monotonic() - self._began
        return Ended(how="stopped", seconds=seconds, output_bytes=size, log=self.command.log)


class Background:
    """The background commands of one order; all are dead at the end of the block."""

    def __init__(self, *, most: int = 4) -> None:
        self.most = most
        """The number that may run at once; callers of `start` check it."""
        self.commands: dict[int, BackgroundCommand] = {}
        """The commands by number, from 1, in the order of their start."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as ending:
            for each in self.commands.values():
                ending.callback(each.close)
            for each in self.commands.values():
                each.ask_to_end()

    def stop_all(self) -> None:
        """End all that run now; others may be started later."""
        for number in self.running():
            self.commands[number].stop()

    def running(self) -> list[int]:
        return [number for number, each in self.commands.items() if each.find_end() is None]

    def start(self, command: Command) -> int:
        """
        Start a command and return its number.

        Raises:
            OSError, ValueError: it cannot be started; nothing runs.
        """
        number = len(self.commands) + 1
        self.commands[number] = BackgroundCommand(command)
        return number
