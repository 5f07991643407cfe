"""
Crash points: places at which a test can kill a process, to see what follows a crash.

`FORGEPOOL_FAULT=POINT:FILE` kills the first process that reaches the point, with SIGKILL, as if the power had gone.
That process creates the file; once the file exists, no other process dies.
"""

import os
import signal

from forgepool.workers.schema.settings import fault


def crash_here(*points: str) -> None:
    """
    Kill this process if `FORGEPOOL_FAULT` names one of these points.

    `<kind of event>.unjournaled` and `.journaled` are the run loop's, around the keeping of such an event;
    `landing.before-push` and `landing.after-push` the lander's; `entry.given.pushed` comes after the push to a gate.
    """
    chosen = fault()
    if chosen is None or chosen[0] not in points:
        return
    try:
        os.close(os.open(chosen[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
