"""
Processes of the harness' own, trusted code, which end with the process that started them: services and forks.

A service (a private Redis, a worker host) keeps the environment it is given, and is stopped by its owner. A fork starts
with every module its parent has imported: milliseconds, where a new Python costs a second. The forking process must
have only one thread: what other threads hold at the fork stays locked for ever.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM

from forgepool.workers.sandbox.tree import become_subreaper, die_with_parent
from forgepool.worktrees.git.git import harness_mark

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


_LOOK_S = 0.01
RARE_COLLECTION = (20_000, 20, 100)
"""Thresholds of the garbage collector for processes that import much and keep it: a tenth of their time was its own."""


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


def start_service(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    on_parent_death: int = SIGKILL,
    is_beside: bool = False,
) -> Service:
    """
    Start a service in its own session, so that the terminal's Ctrl-C does not reach it.

    `argv[0]` is an absolute path. Output is appended to `log`. Call from the main thread: the kernel counts the thread
    that started it as the parent. A service that is beside a run is no orphan of it, and is not killed with those.
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
            pass_fds=(harness_mark(),) if is_beside else (),
            start_new_session=True,
        )
    return Service(name, process)


def run_program(argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> tuple[int, bytes, bytes]:
    """
    Run a trusted program of this host to its end, outside any sandbox; return its status, output and errors.

    Raises:
        OSError: it is not there, or did not end in time.
    """
    try:
        ran = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise OSError(f"{argv[0]} has not ended within {timeout_s:g} s") from late
    return ran.returncode, ran.stdout, ran.stderr


def start_detached(name: str, argv: Sequence[str], *, env: Mapping[str, str], log: Path) -> Service:
    """
    Start a command of our own that outlives this process, in its own session. Its output is appended to `log`.

    Callers look at `running` now and then, so that it does not stay a zombie once it has ended.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
        )
    return Service(name, process)


def in_own_process(work: Callable[[], None], *, began: Callable[[int], None]) -> int:
    """
    Run `work` in a forked child and wait; return its exit status, negative for a signal.

    The child is a sub-reaper, so nothing it starts can leave it, and it dies when this process does. `began` gets the
    child's pid.
    """

    def become_worker() -> int:
        become_subreaper()
        work()
        return 0

    pid = _fork(become_worker)
    began(pid)
    _, waited = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(waited)


@dataclass(slots=True)
class Fork:
    """A child forked by `go_on_beside`."""

    pid: int
    status: int | None = None
    """The exit status once it has ended, negative for a signal."""

    def running(self) -> bool:
        if self.status is None:
            try:
                ended, waited = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # reaped with the tree it was killed in
                ended, waited = self.pid, signal.SIGKILL
            if ended:
                self.status = os.waitstatus_to_exitcode(waited)
        return self.status is None

    def signal(self, number: int) -> None:
        if self.running():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def stop(self, *, within_s: float, first: int = SIGTERM) -> None:
        """Ask it to end, wait, then kill it. Returns when it is gone."""
        self.signal(first)
        give_up = time.monotonic() + within_s
        while self.running() and time.monotonic() < give_up:
            time.sleep(_LOOK_S)
        self.signal(SIGKILL)
        while self.running():
            time.sleep(_LOOK_S)


@dataclass(slots=True)
class Seed:
    """A child forked by `fork_ahead`, which waits for what it is to do."""

    child: Fork
    _tell: int
    _is_begun: bool = False

    def discard(self) -> None:
        """End the child, unless it was let begin."""
        if not self._is_begun:
            self.child.stop(within_s=0)

    def begin(self, words: Sequence[str], *, env: Mapping[str, str], log: Path) -> Fork:
        """Let it work on these words with this environment, appending its output to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._is_begun = True
        with suppress(BrokenPipeError), open(self._tell, "w") as told:  # noqa: PTH123 - a descriptor
            json.dump({"words": [*words], "env": {**env}, "log": str(log)}, told)
        return self.child


def fork_ahead(
    ready: Callable[[], None], work: Callable[[Sequence[str]], int], *, on_parent_death: int = SIGKILL
) -> Seed:
    """
    Fork a child that calls `ready` and then waits for `Seed.begin`; it exits with the status that `work` returns.

    Call it before the process has threads and open files. The child gets `on_parent_death` when this process ends. A
    child that was not let begin ends with it, too.
    """
    listen, tell = os.pipe()

    def become_new() -> int:
        os.close(tell)
        os.setsid()
        _begin_as_new(os.environ.copy(), Path(os.devnull))
        ready()
        with open(listen, "rb") as told:  # noqa: PTH123 - a descriptor
            text = told.read()
        if not text:
            return 0
        asked = json.loads(text)
        _begin_as_new(asked["env"], Path(asked["log"]))
        die_with_parent(by=on_parent_death)
        return work(asked["words"])

    gc.freeze()
    pid = _fork(become_new)
    os.close(listen)
    seed = Seed(Fork(pid), tell)
    atexit.register(seed.discard)
    return seed


def go_on_beside(work: Callable[[], None], *, env: Mapping[str, str], log: Path) -> Fork:
    """
    Run `work` in a forked child with this environment, in its own session; append its output to `log`.

    The child dies when this process does, and handles signals like a new program.
    """

    def become_new() -> int:
        os.setsid()
        _begin_as_new(env, log)
        try:
            work()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return 0

    log.parent.mkdir(parents=True, exist_ok=True)
    # The collector would write into every object, and so copy the pages that both share.
    gc.freeze()
    return Fork(_fork(become_new))


def _fork(work: Callable[[], int]) -> int:
    """Fork a child that exits with the status that `work` returns, or 1 with a traceback; return its pid."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    if (pid := os.fork()) != 0:
        return pid
    status = 1
    try:
        die_with_parent(parent)
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _begin_as_new(env: Mapping[str, str], log: Path) -> None:
    with Path(os.devnull).open("rb") as nothing, log.open("ab") as output:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
