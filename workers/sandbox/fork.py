"""A piece of our own work in a process of its own, forked from this one and gone when it is done."""

import os
import sys
import traceback
from collections.abc import Callable

from forgepool.workers.sandbox.tree import become_subreaper, die_with_parent


def in_own_process(work: Callable[[], None], *, began: Callable[[int], None]) -> int:
    """
    Runs `work` in a forked child and waits for it; returns its exit status, negative for the signal that ended it.

    The child is a sub-reaper, so that nothing it starts can leave it, and dies when this process does. `began` is
    told the child's pid. The caller must have one thread only: what others hold at the fork stays held for ever.
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
