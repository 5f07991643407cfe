"""
Our own work in a process of its own, forked from this one: a piece that is waited for, or one that goes on beside.

A fork starts with every module that its parent has imported, so it costs milliseconds where a new Python costs a
second. The caller must have one thread only: what other threads hold at the fork stays held for ever.
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
    Runs `work` in a forked child and waits for it; returns its exit status, negative for the signal that ended it.

    The child is a sub-reaper, so that nothing it starts can leave it, and dies when this process does. `began` is
    told the child's pid.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            die_with_parent(parent)
            become_subreaper()
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    began(pid)
    _, waited = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(waited)


@dataclass(slots=True)
class Fork:
    """A child that `go_on_beside` has forked."""

    pid: int
    status: int | None = None
    """Its exit status once it has ended, negative for the signal that ended it."""

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
    Runs `work` in a forked child with this environment, in a session of its own; its output is appended to `log`.

    The child dies when this process does, and handles signals as a new program would.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # The collector would write into every object, and so copy the pages that both share.
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            die_with_parent(parent)
            _begin_as_new(env, log)
            work()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return Fork(pid)


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
