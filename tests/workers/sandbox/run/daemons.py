"""
A daemon for tests. It locks a file, which shows that it lives, whatever namespace it is in.

A pid would not do, because it has another one outside.
"""

import fcntl
import time
from collections.abc import Callable
from pathlib import Path

DAEMON = """
import fcntl, os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        held = open(sys.argv[1], "w")
        fcntl.flock(held, fcntl.LOCK_EX)
        print("here", file=held, flush=True)
        time.sleep(60)
    os._exit(0)
os.wait()
while not (os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])):
    time.sleep(0.01)
"""
"""A program that forks twice into its own session and holds the named file until it ends."""


def daemon_in(place: Path, name: str = "daemon") -> str:
    """Return a shell command that starts a daemon in that folder; the daemon locks the file."""
    (place / "daemon.py").write_text(DAEMON)
    return f"python3 -S -E {place}/daemon.py {place}/{name}"


def lives(held: Path) -> bool:
    """Return whether the daemon that locks the file is alive."""
    with held.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def until(true: Callable[[], bool]) -> None:
    """Wait until it is so. A process that is just starting a program shows no environment for a moment."""
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end, "waited 10 s in vain"
        time.sleep(0.01)


def until_there(held: Path) -> None:
    until(lambda: held.exists() and held.stat().st_size > 0)
