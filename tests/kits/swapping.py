"""A process that swaps two names as fast as it can while a test works with one of them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SWAPS = """
import ctypes, os, sys
one, other = map(os.fsencode, sys.argv[1:])
libc = ctypes.CDLL(None)
exchange = getattr(libc, "renameat2", None)
print("begun", flush=True)
while True:
    if exchange is not None:
        exchange(-100, one, -100, other, 2)
        continue
    os.rename(one, one + b"~"), os.rename(other, one), os.rename(one + b"~", other)
"""


@contextmanager
def swapped(one: Path, other: Path) -> Iterator[None]:
    """Swap two existing names again and again until the end of the block."""
    words = [sys.executable, "-I", "-S", "-c", _SWAPS, str(one), str(other)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            yield
        finally:
            process.kill()
