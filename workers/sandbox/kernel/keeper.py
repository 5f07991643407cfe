"""
Who stands over a command that has no pid namespace of its own: all it started ends with it, and with the harness.

A sub-reaper and the command's parent, it gets back every daemon that forked away, and kills until there is none.
Standard library only: the launcher imports this without site-packages.
"""

import os
import signal

from forgepool.workers.sandbox.kernel import calls

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def keep() -> None:
    """Returns in a child that is to become the command. The keeper itself ends as the command does."""
    harness = os.getppid()
    calls.prctl(_SET_CHILD_SUBREAPER, 1, otherwise="the kernel knows no sub-reapers")
    # Masked until waited for: a keeper that dies of a signal keeps nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1})
    calls.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGUSR1, otherwise="the kernel tells of no parent's death")
    command = os.fork()
    if command == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return
    os.closerange(3, 4096)
    _end_as(_watch(command, harness))


def _watch(command: int, harness: int) -> int | None:
    """The command's wait status; None when it has to be ended."""
    while os.getppid() == harness:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == command:
            return status
        if pid == 0:
            signal.sigtimedwait({signal.SIGCHLD, signal.SIGUSR1}, 1.0)
    return None


def _end_as(status: int | None) -> None:
    """Never returns; whatever is left below the keeper is killed first."""
    while left := _children():
        from forgepool.workers.sandbox.processes import tree  # only now: most commands leave nobody

        if tree.kill_tree(left):
            break  # hanging in the kernel
    if status is None:
        os._exit(128 + signal.SIGKILL)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123 - no pathlib here
        return [int(pid) for pid in file.read().split()]
