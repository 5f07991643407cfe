"""
When a running command has had enough: its wall clock, its silence, or somebody's word.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

Reached = Literal["timeout", "idle", "stopped"]

_ASK_S = 0.2


def never() -> bool:
    return False


class CommandWatch:
    """
    The limits of one command, from the moment this is made. Monotonic time; the clock may be set meanwhile.
    """

    def __init__(
        self, *, timeout_s: float, idle_s: float | None, folder: Path | None, stop: Callable[[], bool]
    ) -> None:
        now = time.monotonic()
        self._ends_at = now + timeout_s
        self._idle_s = idle_s
        self._folder = folder
        self._stop = stop
        self._active_at = now
        self._ask_at = now

    def active(self) -> None:
        """The command gave a sign of life."""
        self._active_at = time.monotonic()

    def next_s(self) -> float:
        """Seconds until a limit may be reached; never negative."""
        ends_at = self._ends_at
        if self._idle_s is not None:
            ends_at = min(ends_at, self._active_at + self._idle_s)
        return max(0.0, ends_at - time.monotonic())

    def find_reached(self) -> Reached | None:
        """
        The limit that is reached, if any. `stop` is asked about five times a second, however often this is.
        """
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask_at = now + _ASK_S
            if self._stop():
                return "stopped"
        if now >= self._ends_at:
            return "timeout"
        if self._idle_s is not None and now - self._active_at >= self._idle_s:
            self._look()
            if now - self._active_at >= self._idle_s:
                return "idle"
        return None

    def _look(self) -> None:
        """Takes the latest change in the folder for a sign of life at its time."""
        if self._folder is not None:
            ago_s = max(0.0, time.time() - latest_change(self._folder))
            self._active_at = max(self._active_at, time.monotonic() - ago_s)


def latest_change(folder: Path) -> float:
    """
    Unix seconds of the latest change to anything in a folder; 0 when it is gone.

    The time of change, not of modification: tools set the latter back to what they unpacked.
    """
    latest = 0.0
    waiting = [os.fspath(folder)]
    while waiting:
        here = waiting.pop()
        try:
            latest = max(latest, os.lstat(here).st_ctime)
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        latest = max(latest, entry.stat(follow_symlinks=False).st_ctime)
        except OSError:
            continue  # vanished while we looked, which its parent's time tells
    return latest
