"""
A command's first process: started in a session of its own, watched without being reaped, ended with its
group.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from workers.sandbox.kin import Kin

_REAP_S = 10.0


class Child:
    """A started process. Until `reap`, its number and its group's number cannot be anybody else's."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def exited(self) -> bool:
        """Looks without reaping, where the system can."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    @contextlib.contextmanager
    def exit_descriptor(self) -> Iterator[int | None]:
        """A descriptor that becomes readable when the process exits; None where there is no such thing."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except (OSError, AttributeError):
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def signal_group(self, number: int) -> None:
        """Reaches whoever stayed in the process group, all at once: none of them can fork away meanwhile."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def reap(self) -> int | None:
        """
        The exit status, negative for the signal; None when it cannot be known.

        It cannot when the caller ignores SIGCHLD or waits for any child (`Popen` would call that a 0), and
        when the process hangs in the kernel though it was killed.
        """
        if self._process.returncode is not None:
            return self._process.returncode
        status = self._wait()
        self._process.returncode = -signal.SIGKILL if status is None else status  # or Popen warns of a live child
        return status

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
    pass_fds: tuple[int, ...],
    family: Kin,
    stdin: Path | int | None = None,
    errors: int | None = None,
) -> Child:
    """
    Starts a program, known to its family from the start: both outputs into `output`, unless its `errors` go elsewhere.

    Its input is a file or a descriptor; without one it is empty.

    Raises:
        OSError, ValueError: it cannot be started; nothing runs.
    """
    with _input(stdin) as given, family.starting(), _plain_signals():
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
        family.register(process.pid)
    return Child(process)


@contextlib.contextmanager
def _input(given: Path | int | None) -> Iterator[int]:
    if isinstance(given, Path):
        with given.open("rb") as file:
            yield file.fileno()
    else:
        yield subprocess.DEVNULL if given is None else given


@contextlib.contextmanager
def _plain_signals() -> Iterator[None]:
    """
    An ignored signal stays ignored across exec, and pool processes ignore some; a handled one does not.

    Only the main thread may change handlers; what another thread starts inherits what is ignored.
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
