"""
The `forgepool` command.

Every command ends with one of five exit statuses: 0 all landed, 1 something did not land, 2 wrong usage or plan, 3
infrastructure, 130 interrupted and resumable. A mistake is one sentence on standard error, never a traceback. A module
holds the commands of one subject; each is a thin shell around functions that can be called without it.
"""

import gc
import signal
import sys
from types import FrameType

INTERRUPTED = 130
_interrupts: list[int] = []


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


def raise_missed_interrupt() -> None:
    """
    Raise KeyboardInterrupt if Ctrl-C was pressed before. Commands that handle it otherwise call this once they do.

    Python ignores an exception in some places, such as the end of an object. Without this, Ctrl-C there would be lost.
    """
    if _interrupts:
        raise KeyboardInterrupt


def main() -> None:
    """Run the command line and exit with its status, also if Ctrl-C comes while its modules load."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    # What a command imports stays: looking through it for garbage takes a tenth of its start.
    gc.disable()
    gc.set_threshold(20_000, 20, 100)
    try:
        from forgepool.orchestrator.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
