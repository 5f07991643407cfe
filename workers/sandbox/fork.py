"""
Forks of the harness itself, for work it waits for and for work that runs beside it.

A fork starts with every module its parent has imported: milliseconds, where a new Python costs a second. The caller
must have only one thread: what other threads hold at the fork stays locked for ever.
"""

import gc
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.sandbox.tree import become_subreaper, die_with_parent


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


def go_on_beside(work: Callable[[], None], *, env: Mapping[str, str], log: Path) -> Fork:
    """
    Run `work` in a forked child with this environment, in its own session; append its output to `log`.

    The child dies when this process does, and handles signals like a new program.
    """

    def become_new() -> int:
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
    os.setsid()
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
