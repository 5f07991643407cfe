"""
The `forgepool` command without its start-up time: a process that has loaded all modules forks for each command.

The forked process has its own environment, folder, descriptors, signals and exit status, and ends as Python ends. It
does not test that a fresh Python can start; tests of that start one.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("forgepool.orchestrator", "forgepool.supervisor", "forgepool.workers", "forgepool.worktrees")
_LONGEST = 1 << 20


def forgepool(
    argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], within_s: float = 300.0
) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end in a session of its own, and return its status and output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        said = {"argv": [str(word) for word in argv], "cwd": str(cwd), "env": dict(env)}
        status = _ask(said, within_s, nothing, out, err)
        return subprocess.CompletedProcess(["forgepool", *argv], status, _text(out), _text(err))


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _ask(said: Mapping[str, Any], within_s: float, *streams: IO[bytes]) -> int:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        numbers = [*(one.fileno() for one in streams), theirs.fileno()]
        socket.send_fds(_warm(), [json.dumps(said).encode()], numbers)
        theirs.close()
        ours.settimeout(within_s)
        try:
            answer = ours.recv(64)
        except TimeoutError:
            raise AssertionError(f"still running after {within_s} s: {said['argv']}\n{_text(streams[1])}") from None
    assert answer, f"nobody answered to {said['argv']}"
    return int(answer)


@cache
def _warm() -> socket.socket:
    """Return the connection to the forking process; there is one for each pytest process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        env=dict(os.environ),
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
            if not module.name.endswith("__main__"):
                with suppress(Exception):
                    importlib.import_module(module.name)


def _asked(line: socket.socket) -> dict[str, Any] | None:
    """Return the command to run in a forked process; return None in the parent at its end."""
    while True:
        said, numbers, _, _ = socket.recv_fds(line, _LONGEST, 4)
        _reap()
        if not said:
            return None
        if os.fork() == 0:
            line.close()
            return _answering(said, *numbers)
        for number in numbers:
            os.close(number)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _answering(said: bytes, *numbers: int) -> dict[str, Any] | None:
    *streams, answer = numbers
    if pid := os.fork():
        _, how = os.waitpid(pid, 0)
        os.write(answer, str(os.waitstatus_to_exitcode(how)).encode())
        os._exit(0)
    os.close(answer)
    os.setsid()
    for wanted, number in enumerate(streams):
        os.dup2(number, wanted)
        os.close(number)
    found = json.loads(said)
    assert isinstance(found, dict)
    return found


def _become(asked: Mapping[str, Any]) -> None:
    """Run the command line in this process, as `python -m forgepool.orchestrator.cli` would, and end with it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["forgepool", *asked["argv"]]
    runpy.run_module("forgepool.orchestrator.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.remove(str(Path(__file__).parent))
    _load()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    if (asked := _asked(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(asked)
