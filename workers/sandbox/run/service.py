"""
Long-lived trusted children (a private Redis, worker processes) that die with the process that started them.

A service, unlike a command (`workers.sandbox.run.process`), runs trusted code, keeps the environment it is given, and
is stopped by its owner. The kernel signals it when its parent dies, even by SIGKILL.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM

# A small Python stands between: it asks for the signal on its parent's death, then becomes the program. Asking in
# the forked child itself would mean running Python between fork and exec, and copying this process' page tables.
_BECOME = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, int(sys.argv[1]), 0, 0, 0)
if os.getppid() != int(sys.argv[2]):
    os._exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass(frozen=True, slots=True)
class Service:
    """A running child."""

    name: str
    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        return self.process.pid

    def running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        if self.running():
            self.process.send_signal(number)

    def stop(self, *, within_s: float, first: int = SIGTERM) -> None:
        """Ask it to end, wait, then kill it. Returns when it is gone."""
        self.signal(first)
        try:
            self.process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(
    name: str, argv: Sequence[str], *, env: Mapping[str, str], log: Path, on_parent_death: int = SIGKILL
) -> Service:
    """
    Start a service in its own session, so that the terminal's Ctrl-C does not reach it.

    `argv[0]` is an absolute path. Output is appended to `log`. Call from the main thread: the kernel counts the thread
    that started it as the parent.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    become = (sys.executable, "-I", "-S", "-c", _BECOME, str(on_parent_death), str(os.getpid()))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*become, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
        )
    return Service(name, process)
