"""
Places at which a process may be told to die, for tests of what comes after a crash. Nothing happens unless told.

`FORGEPOOL_FAULT=<point>:<file>` kills the first process that reaches the point: whoever creates the file dies, with
SIGKILL, as if the power had gone. Nobody dies twice: the file is there then.
"""

import os
import signal

from forgepool.workers.schema.settings import fault


def crash_here(*points: str) -> None:
    """
    Ends this process here, if one of these is where it was asked to end.

    `<kind of event>.unjournaled` and `.journaled` are the run loop's, around the keeping of such an event;
    `landing.before-push` and `landing.after-push` the lander's; `entry.given.pushed` comes after the push to a gate.
    """
    told = fault()
    if told is None or told[0] not in points:
        return
    try:
        os.close(os.open(told[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
