"""A command's first process, in its own session: watched without being reaped, ended with its group."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.launch.confined import Held, ProcessStart, start_confined, under_seatbelt
from forgepool.workers.sandbox.tree import Kin
from forgepool.workers.schema.confinement import Confinement

_REAP_S = 10.0


class Child:
    """A started process. Its pid and group number cannot be reused before `reap`."""

    def __init__(self, pid: int, *, process: "subprocess.Popen[bytes] | None" = None, held: Held | None = None) -> None:
        self.pid = pid
        self._process = process
        self._held = held
        self._status: int | None = None
        self._reaped = False

    def has_exited(self) -> bool:
        """Has it exited? Looks without reaping where the system can."""
        if not hasattr(os, "waitid"):
            return self._process is None or self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    @contextlib.contextmanager
    def exit_descriptor(self) -> Iterator[int | None]:
        """Yield a descriptor that becomes readable when the process exits; None where the system has none."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except (OSError, AttributeError):
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def ask_to_end(self) -> None:
        """
        Send SIGTERM to its group; under bwrap to the processes inside, because bwrap's own end would kill them at once.
        """
        if self._held is None:
            return self.signal_group(signal.SIGTERM)
        for pid in tree.descendants(self.pid)[1:]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        return None

    def kill_inside(self) -> None:
        """Kill all of the command but the processes of bwrap, or the keeper, which report how it ended."""
        if self._process is not None:
            self.signal_group(signal.SIGKILL)
        else:
            tree.kill_tree(tree.descendants(self.pid)[1 if self._held is not None else 0 :])

    def signal_group(self, number: int) -> None:
        """Signal every process still in the process group at once, so that none can fork away meanwhile."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def reap(self) -> int | None:
        """
        Return the exit status, negative for a signal; None when it cannot be known.

        It cannot be known when the caller ignores SIGCHLD or waits for any child (`Popen` would report 0). Nor can it
        when the process hangs in the kernel despite SIGKILL.
        """
        if not self._reaped:
            self._status, self._reaped = self._wait(), True
            if self._process is not None:  # or Popen warns of a live child
                self._process.returncode = -signal.SIGKILL if self._status is None else self._status
        return self._status

    def began(self) -> bool:
        """Did the program itself run? Ask after `reap` of a child that ended by itself."""
        return self._held is None or self._held.began()

    def close(self) -> None:
        """Close what was kept open for it; call after `reap`."""
        if self._held is not None:
            self._held.close()

    def _wait(self) -> int | None:
        end = time.monotonic() + _REAP_S
        pause_s = 0.0002
        while time.monotonic() < end:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                return None
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
        return None


def start(
    argv: tuple[str, ...],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: int,
    confined: Confinement,
    family: Kin,
    pass_fds: tuple[int, ...] = (),
    stdin: Path | int | None = None,
    errors: int | None = None,
    trace: int | None = None,
) -> Child:
    """
    Start a program as a member of its family. Both outputs go into `output`, unless `errors` is given.

    Its input is a file or a descriptor; without one it is empty. A confined program gets no further descriptors.
    `trace` is the socket of a `FileTrace`, which only bubblewrap's commands use.

    Raises:
        OSError, ValueError: it cannot be started, or not confined as requested; nothing runs.
    """
    with _input(stdin) as given, family.starting():
        if confined.level in ("off", "seatbelt"):
            if confined.level == "seatbelt":
                argv = under_seatbelt(argv, env, cwd, confined)
            with _plain_signals():
                process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=family.environment(env),
                    stdin=given,
                    stdout=output,
                    stderr=output if errors is None else errors,
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
            child = Child(process.pid, process=process)
        else:
            standard = (given, output, output if errors is None else errors)
            mark = family.environment({})
            begin = ProcessStart(argv=argv, cwd=cwd, env={**env, **mark}, mark=mark, standard=standard, trace=trace)
            pid, held = start_confined(begin, confined)
            child = Child(pid, held=held)
        family.register(child.pid)
    return child


@contextlib.contextmanager
def _input(given: Path | int | None) -> Iterator[int]:
    if isinstance(given, int):
        yield given
        return
    with (given or Path(os.devnull)).open("rb") as file:
        yield file.fileno()


@contextlib.contextmanager
def _plain_signals() -> Iterator[None]:
    """
    Restore default handling of ignored signals, which exec would pass on; pool processes ignore some.

    Only the main thread may change handlers; programs started by another thread inherit ignored signals.
    """
    usual = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
    ignored = [number for number in usual if signal.getsignal(number) is signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        ignored = []
    for number in ignored:
        signal.signal(number, lambda number, frame: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
