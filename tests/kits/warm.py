"""
The `forgepool` command without its start-up time: a process that has loaded all modules forks for each command.

A forked process is a child of the test's, has its own session, environment, folder, descriptors, signals, command line
and exit status, and ends as Python ends. It does not test that a fresh Python can start; tests of that start one.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import platform
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("forgepool.orchestrator", "forgepool.supervisor", "forgepool.workers", "forgepool.worktrees")
_LEFT_OUT = "forgepool.orchestrator.interfaces."
_COMMAND = ("-m", "forgepool.orchestrator.cli")
_LONGEST = 1 << 20
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_CLONE_PARENT = 0x8000
_ROOM = 2000
"""Bytes that the forking process keeps free for the command lines of its children."""


@dataclass(slots=True)
class Forked:
    """A child process, as `subprocess.Popen` shows one."""

    pid: int
    argv: Sequence[str]
    returncode: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        if timeout is not None and self.poll() is None:
            end = os.pidfd_open(self.pid)
            try:
                if not select.select([end], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(list(self.argv), timeout)
            finally:
                os.close(end)
        status = self._reap(0)
        assert status is not None
        return status

    def _reap(self, how: int) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, how)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forgepool(
    argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], within_s: float = 300.0
) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end, as `subprocess.run` with captured output does."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(argv, cwd=cwd, env=env, stdout=out, stderr=err)
        try:
            status = process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"still running after {within_s} s:\n{_text(out)}{_text(err)}") from None
        return subprocess.CompletedProcess(["forgepool", *argv], status, _text(out), _text(err))


def start(
    argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], stdout: IO[Any], stderr: IO[Any]
) -> "Forked | subprocess.Popen[str]":
    """Start the command in a session of its own, without input. A PYTHONPATH of its own means a fresh Python."""
    words = [*_COMMAND, *map(str, argv)]
    if _CLONE is None or env.get("PYTHONPATH") != os.environ.get("PYTHONPATH"):
        given = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr, "text": True}
        return subprocess.Popen([sys.executable, *words], cwd=cwd, env=env, start_new_session=True, **given)
    ours, theirs = socket.socketpair()
    with ours, theirs, Path(os.devnull).open("rb") as nothing:
        numbers = [nothing.fileno(), stdout.fileno(), stderr.fileno(), theirs.fileno()]
        said = {"argv": words, "cwd": str(cwd), "env": dict(env)}
        socket.send_fds(_warm(), [json.dumps(said).encode()], numbers)
        theirs.close()
        answer = ours.recv(64)
    assert answer, f"nobody answered to {words}"
    return Forked(int(answer), words)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


@cache
def _warm() -> socket.socket:
    """Return the connection to the forking process; there is one for each pytest process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno()), " " * _ROOM],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, "FORGEPOOL_TEST_ROOM": " " * _ROOM},
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _load() -> None:
    """Import everything a command may import later. A module that fails here is left for the command to report."""
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            # The interfaces need much memory, which each fork would pay for, and few tests start them.
            if not module.name.endswith("__main__") and not module.name.startswith(_LEFT_OUT):
                with suppress(Exception):
                    importlib.import_module(module.name)


def _asked(line: socket.socket) -> dict[str, Any] | None:
    """Return the command to run in a forked process; return None in the parent at its end."""
    while True:
        said, numbers, _, _ = socket.recv_fds(line, _LONGEST, 4)
        if not said:
            return None
        *streams, answer = numbers
        if (pid := _fork_sibling()) == 0:
            line.close()
            os.close(answer)
            for wanted, number in enumerate(streams):
                os.dup2(number, wanted)
                os.close(number)
            found = json.loads(said)
            assert isinstance(found, dict)
            return found
        os.write(answer, str(pid).encode())
        for number in numbers:
            os.close(number)


def _fork_sibling() -> int:
    """Fork a process that is a child of this one's parent, which no function of Python's does."""
    python, libc = ctypes.pythonapi, ctypes.PyDLL(None)
    python.PyOS_BeforeFork()
    pid = libc.syscall(_CLONE, ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD), 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return int(pid)


def _become(asked: Mapping[str, Any]) -> None:
    """Run the command line in this process, as `python -m forgepool.orchestrator.cli` would, and end with it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    _show([sys.executable, *asked["argv"]], [f"{name}={value}" for name, value in asked["env"].items()])
    sys.argv = ["forgepool", *asked["argv"][len(_COMMAND) :]]
    runpy.run_module("forgepool.orchestrator.cli", run_name="__main__", alter_sys=True)


def _show(argv: Sequence[str], environment: Sequence[str]) -> None:
    """Make the kernel show the command line and the environment of this process in place of the parent's."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    for words, (start, end) in ((argv, map(int, fields[45:47])), (environment, map(int, fields[47:49]))):
        shown = "".join(f"{word}\0" for word in words).encode(errors="surrogateescape")[: end - start - 1]
        ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.remove(str(Path(__file__).parent))
    _load()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    if (asked := _asked(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(asked)
