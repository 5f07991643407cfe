"""Run a command on its own terminal."""

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def on_terminal(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 80) -> str:
    """Return everything the command prints on a terminal with this many columns. The command must succeed."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        command, cwd=cwd, env={**env, "COLUMNS": str(columns)}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = bytearray()
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # EIO: the command has closed the terminal
            break
    os.close(ours)
    assert child.wait() == 0, seen.decode()
    return seen.decode().replace("\r\n", "\n")
